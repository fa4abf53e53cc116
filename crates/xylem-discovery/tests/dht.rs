//! The mainline DHT with local nodes on loopback. Announcements are found, also after half of the nodes are gone, among
//! nodes that answer wrongly, and without any fixed first node.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mainline::{MutableItem, SigningKey, Testnet};
use xylem_discovery::{
    Dht, DhtEvent, DhtFailure, DhtOptions, DhtQuestion, ListenPorts, MAX_QUESTIONS, SignedItem,
    Wake,
};
use xylem_hash::Hash;
use xylem_object::PublisherKey;
use xylem_reach::names::{NewestRoot, dht_key, item_salt};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const DEADLINE: Duration = Duration::from_secs(60);

fn testnet(nodes: usize) -> Testnet {
    Testnet::builder(nodes).build().expect("a testnet")
}

fn quiet() -> Wake {
    Arc::new(|| {})
}

/// Of a client; none has the seed of another.
fn seed() -> [u8; 32] {
    static MADE: AtomicU8 = AtomicU8::new(0);
    [MADE.fetch_add(1, Ordering::Relaxed); 32]
}

fn client(bootstrap: &[String]) -> Dht {
    let options = DhtOptions {
        bootstrap: Some(bootstrap.to_vec()),
        remembered: Vec::new(),
        bind: Some(LOCALHOST),
    };
    Dht::new(options, seed(), quiet())
}

/// All events of a question, until it has ended.
fn put(dht: &mut Dht, question: DhtQuestion) -> (Vec<DhtEvent>, Option<DhtFailure>) {
    dht.ask(question.clone()).expect("there is room");
    let (mut all, end) = (Vec::new(), Instant::now() + DEADLINE);
    loop {
        match dht.poll() {
            Some(DhtEvent::Done(over, failed)) if over == question => return (all, failed),
            Some(event) => all.push(event),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(Instant::now() < end, "{question:?} is never over");
    }
}

fn announce(dht: &mut Dht, root: &Hash, port: u16) {
    let ports = ListenPorts { v4: Some(port), v6: None };
    let (_, failed) = put(dht, DhtQuestion::Announce(dht_key(root), ports));
    assert_eq!(failed, None);
}

/// Repeats a query until the port is found, as a caller does.
fn finds(dht: &mut Dht, root: &Hash, port: u16) -> bool {
    let key = dht_key(root);
    let (found, _) = put(dht, DhtQuestion::Find(key));
    let there = SocketAddr::new(LOCALHOST, port);
    found.iter().any(
        |event| matches!(event, DhtEvent::Peers(k, peers) if *k == key && peers.contains(&there)),
    )
}

fn signed(key: &PublisherKey, salt: [u8; 32], newest: NewestRoot) -> SignedItem {
    SignedItem { publisher: key.public().0, salt, newest, signature: newest.sign(key, &salt) }
}

fn root(n: u8) -> Hash {
    xylem_hash::hash(&[n])
}

/// Announcements stay findable when half of the nodes are gone, also for a peer that queries for the first time.
#[test]
fn announcements_are_found_after_half_of_the_nodes_are_gone() {
    let mut net = testnet(60);
    let (mut publisher, mut getter) = (client(&net.bootstrap), client(&net.bootstrap));
    announce(&mut publisher, &root(1), 4001);
    assert!(finds(&mut getter, &root(1), 4001));
    assert!(!finds(&mut getter, &root(2), 4001));
    let mut kept = Vec::new();
    for (i, node) in net.nodes.drain(..).enumerate() {
        if i % 2 == 1 {
            kept.push(node);
        }
    }
    let left: Vec<_> = net.bootstrap.iter().skip(1).step_by(2).cloned().collect();
    assert!(finds(&mut getter, &root(1), 4001));
    assert!(finds(&mut client(&left), &root(1), 4001));
}

/// The newest value that the publisher has signed wins. A node that still has an old one changes nothing.
#[test]
fn the_newest_signed_value_wins() {
    let net = testnet(20);
    let key = PublisherKey::from_bytes(&[7; 32]);
    let publisher = key.public().0;
    let salt = item_salt("film.mkv");
    let mut dht = client(&net.bootstrap);
    let best = |dht: &mut Dht| {
        let (events, _) = put(dht, DhtQuestion::Newest { publisher, salt });
        let mut items = events.into_iter().filter_map(|event| match event {
            DhtEvent::Newest { newest, .. } => Some(newest),
            _ => None,
        });
        items.next_back()
    };
    for version in [5, 9] {
        let newest = NewestRoot { root: root(version as u8), version };
        let (_, failed) = put(&mut dht, DhtQuestion::Publish(signed(&key, salt, newest)));
        assert_eq!(failed, None);
        assert_eq!(best(&mut client(&net.bootstrap)), Some(newest));
    }
    // Nodes with a newer value refuse an older one, and no query returns it.
    let stale = NewestRoot { root: root(1), version: 3 };
    let _ = put(&mut dht, DhtQuestion::Publish(signed(&key, salt, stale)));
    assert_eq!(best(&mut client(&net.bootstrap)).map(|newest| newest.version), Some(9));
    // A value signed by another key is stored elsewhere, whatever it contains. An invalid value signed by the right key
    // is skipped, however high its number.
    let other = PublisherKey::from_bytes(&[8; 32]);
    let forged =
        SignedItem { publisher, ..signed(&other, salt, NewestRoot { root: root(2), version: 99 }) };
    let _ = put(&mut dht, DhtQuestion::Publish(forged));
    for (seq, value) in [(100, vec![1; 900]), (101, vec![1; 41]), (102, b"".to_vec())] {
        let item = MutableItem::new(SigningKey::from_bytes(&[7; 32]), &value, seq, Some(&salt));
        let node = mainline::Dht::builder()
            .bootstrap(&net.bootstrap)
            .bind_address(Ipv4Addr::LOCALHOST)
            .port(0)
            .build()
            .unwrap();
        #[expect(deprecated, reason = "a test may block")]
        let _ = node.put_mutable(item, None);
        let found = best(&mut client(&net.bootstrap));
        assert!(found.is_none_or(|newest| newest.version == 9), "{found:?}");
    }
}

/// Nodes answer with garbage, wrong lengths, a thousand addresses of a victim, unsigned values, and queries of their
/// own. Content of an honest node is found all the same, and the results stay bounded.
#[test]
fn wrong_answers_hide_no_content_and_stay_bounded() {
    let net = testnet(20);
    let mut publisher = client(&net.bootstrap);
    announce(&mut publisher, &root(1), 4001);
    let liars: Vec<Liar> = (0..12).map(Liar::start).collect();
    let mut bootstrap: Vec<_> = liars.iter().map(|liar| liar.address.to_string()).collect();
    bootstrap.extend(net.bootstrap.iter().take(3).cloned());
    let mut getter = client(&bootstrap);
    let key = dht_key(&root(1));
    let (events, _) = put(&mut getter, DhtQuestion::Find(key));
    let mut all = Vec::new();
    for event in events {
        if let DhtEvent::Peers(_, peers) = event {
            all.extend(peers);
        }
    }
    assert!(all.len() <= 64, "{}", all.len());
    // No item is found for a publisher that has not signed it.
    let (events, _) = put(&mut getter, DhtQuestion::Newest { publisher: [9; 32], salt: [1; 32] });
    assert!(!events.iter().any(|event| matches!(event, DhtEvent::Newest { .. })), "{events:?}");
    assert!(finds(&mut client(&bootstrap[11..]), &root(1), 4001), "beside one liar");
    assert!(liars.iter().any(|liar| liar.asked.load(Ordering::Relaxed)), "liars were asked");
}

/// The very first datagram leaves: a silent first node gets both that are meant for it. Otherwise every first lookup waits
/// for the time-out of datagrams that were never sent.
#[test]
fn first_datagrams_are_not_lost() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut dht = client(&[silent.local_addr().unwrap().to_string()]);
    let (events, failed) = put(&mut dht, DhtQuestion::Find(dht_key(&root(1))));
    assert!(events.is_empty() && failed.is_some(), "{events:?} {failed:?}");
    silent.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2_048];
    let received = std::iter::from_fn(|| silent.recv_from(&mut buffer).ok()).count();
    assert_eq!(received, 2);
}

/// A cold start from nodes of an earlier run; and from nodes that are all gone, with one other named.
#[test]
fn a_cold_start_needs_no_fixed_node() {
    let net = testnet(20);
    let mut first = client(&net.bootstrap[..1]);
    announce(&mut first, &root(1), 4001);
    let (events, _) = put(&mut first, DhtQuestion::Nodes);
    let Some(DhtEvent::Nodes(remembered)) = events.first() else { panic!("{events:?}") };
    assert!((2..=32).contains(&remembered.len()), "{remembered:?}");
    let begin = |remembered: &[SocketAddr], named: &[String]| {
        let bootstrap = Some(named.to_vec());
        let bind = Some(LOCALHOST);
        Dht::new(DhtOptions { bootstrap, remembered: remembered.to_vec(), bind }, seed(), quiet())
    };
    assert!(finds(&mut begin(remembered, &[]), &root(1), 4001));
    let gone: Vec<SocketAddr> = (0..5)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.local_addr().unwrap()
        })
        .collect();
    assert!(finds(&mut begin(&gone, &net.bootstrap[..1]), &root(1), 4001));
    assert!(!finds(&mut begin(&gone, &[]), &root(1), 4001));
}

/// Only a few questions run at once, and each of them ends. A handle may be dropped while one runs.
#[test]
fn questions_are_bounded_and_end() {
    let mut dht = client(&["127.0.0.1:9".to_owned()]);
    let asked = (0..40).filter(|n| dht.ask(DhtQuestion::Find([*n; 20])).is_ok()).count();
    assert_eq!(asked, MAX_QUESTIONS);
    let end = Instant::now() + DEADLINE;
    let mut over = 0;
    while over < asked {
        over += usize::from(matches!(dht.poll(), Some(DhtEvent::Done(..))));
        assert!(Instant::now() < end, "{over}");
        std::thread::yield_now();
    }
    dht.ask(DhtQuestion::Find([50; 20])).expect("there is room again");
}

/// With 200 nodes: how long an announcement takes, and until the first peer is found; then with half of them gone. It
/// asserts what is found, and prints how fast: `cargo test -p xylem-discovery --test dht -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, of a minute"]
#[expect(deprecated, reason = "a test may block")]
fn two_hundred_nodes() {
    // Nodes start with each other's addresses, as real ones do. Otherwise they would list clients, too, which answer no
    // queries.
    let mut net = Testnet::builder(200).seeded(false).build().expect("a testnet");
    assert!(net.nodes.iter().all(mainline::Dht::bootstrapped));
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let mut told = Vec::new();
    let mut publishers: Vec<Dht> = (0..20).map(|_| client(&net.bootstrap)).collect();
    for (n, publisher) in publishers.iter_mut().enumerate() {
        let started = Instant::now();
        announce(publisher, &root(n as u8), 4000 + n as u16);
        told.push(started.elapsed());
    }
    let find = |bootstrap: &[String], n: usize| {
        let mut getter = client(bootstrap);
        let started = Instant::now();
        getter.ask(DhtQuestion::Find(dht_key(&root(n as u8)))).unwrap();
        loop {
            match getter.poll() {
                Some(DhtEvent::Peers(..)) => return Some(started.elapsed()),
                Some(DhtEvent::Done(..)) => return None,
                _ => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    };
    let found: Vec<_> = (0..20).filter_map(|n| find(&net.bootstrap, n)).collect();
    println!(
        "announced in {:?}, found {} of 20 in {:?}",
        median(told),
        found.len(),
        median(found.clone())
    );
    assert_eq!(found.len(), 20);
    let left: Vec<_> = net.nodes.drain(..).step_by(2).collect();
    let begin: Vec<_> =
        left.iter().take(5).map(|node| node.info().local_addr().to_string()).collect();
    let found: Vec<_> = (0..20).filter_map(|n| find(&begin, n)).collect();
    println!("half are gone: found {} of 20 in {:?}", found.len(), median(found.clone()));
    assert_eq!(found.len(), 20);
}

/// A node that speaks KRPC wrongly.
struct Liar {
    address: std::net::SocketAddr,
    asked: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    fn start(kind: usize) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let (asked, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, ends) = (asked.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !ends.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
                seen.store(true, Ordering::Relaxed);
                for answer in answers(kind, &buffer[..len]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Self { address, asked, stop, thread: Some(thread) }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Answers of one kind to a question.
fn answers(kind: usize, question: &[u8]) -> Vec<Vec<u8>> {
    let find = |what: &[u8]| question.windows(what.len()).position(|w| w == what);
    // The transaction: `1:t4:....`.
    let Some(at) = find(b"1:t4:") else { return Vec::new() };
    let id = &question[at + 5..at + 9];
    let wrap = |inside: &[u8]| {
        [b"d1:rd2:id20:aaaaaaaaaaaaaaaaaaaa", inside, b"e1:t4:", id, b"1:y1:re"].concat()
    };
    let peers = |count: usize| {
        let one = b"6:\x7f\x00\x00\x01\x10\x00";
        [b"5:token4:abcd6:valuesl", one.repeat(count).as_slice(), b"e"].concat()
    };
    let nodes = |count: usize| {
        let mut all = Vec::new();
        for n in 0..count {
            all.extend_from_slice(&[n as u8; 20]);
            all.extend_from_slice(&[127, 0, 0, 1, 0x20, n as u8]);
        }
        [format!("5:nodes{}:", all.len()).as_bytes(), &all, b"5:token4:abcd"].concat()
    };
    match kind {
        0 => vec![b"not bencode".to_vec()],
        1 => vec![vec![b'd'; 1400]],
        2 => vec![vec![b'l'; 1400], b"i99999999999999999999999e".to_vec()],
        3 => vec![wrap(&peers(150))],
        4 => vec![wrap(b"5:nodes27:abcdefghijklmnopqrstuvwxyz0")],
        5 => vec![wrap(&nodes(60))],
        6 => vec![wrap(b"1:k32:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa3:seqi9e3:sig64:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb5:token4:abcd1:v41:ccccccccccccccccccccccccccccccccccccccccc")],
        7 => vec![wrap(b"5:token0:6:valuesl0:6:\x00\x00\x00\x00\x00\x006:abcdefe")],
        8 => vec![question.to_vec(); 20],
        9 => (0..20).map(|_| wrap(&peers(3))).collect(),
        10 => vec![wrap(b"2:ip6:\xff\xff\xff\xff\x00\x005:nodes0:5:token255:x")],
        _ => vec![[b"d1:eli201e6:brokene1:t4:", id, b"1:y1:ee"].concat()],
    }
}
