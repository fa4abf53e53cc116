//! Attacks on the ways to peers, with the real program: a relay that leads to another peer, hundreds of introductions,
//! introductions that aim at a victim, strangers that answer on the LAN.
#![cfg(unix)]

#[path = "../../xylem-discovery/tests/namespaces/mod.rs"]
mod namespaces;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common;
use crate::common::fetching::FetchSetup;
use crate::common::relay::TestRelay;
use crate::common::relaying;
use crate::common::relaying::Client;
use crate::common::{Share, assert_exit, finish, get, stderr, text, until};
use bytes::BytesMut;
use xylem_link_internals::{Endpoint, LinkConfig, LinkEvent, NatMapping, StaticKey};
use xylem_object::Ticket;
use xylem_reach::relay::{ConnectTarget, RelayEvent, RelayRefusal};

/// A ticket with these addresses, at which no sharer is.
fn with_addresses(ticket: &str, addresses: &[&str]) -> String {
    let mut ticket: Ticket = ticket.parse().expect("a ticket");
    ticket.addresses = addresses.iter().map(|at| at.parse().expect("an address")).collect();
    ticket.to_string()
}

fn hex(key: &[u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `xylem://KEY@ADDR` of a share.
fn uri(share: &Share, store: &Path) -> String {
    let secret = std::fs::read(store.join("keys/link")).expect("a key");
    let key = StaticKey::from_bytes(secret.try_into().expect("32 bytes")).public();
    format!("xylem://{}@{}", hex(&key.0), share.link)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The relay leads a getter to another node than the publisher's. That node even has the content, but no vouch of the
/// publisher.
#[test]
fn a_relay_that_leads_to_another_peer_brings_no_data() {
    use std::sync::{Arc, Mutex};
    let place = FetchSetup::new(100_000, 1);
    let led: Arc<Mutex<Option<[[u8; 33]; 2]>>> = Arc::default();
    let leads = led.clone();
    let relay = TestRelay::that(
        |to, datagram| vec![(to, datagram)],
        |seen| seen,
        move |mut said| {
            // Replaces "connect, of this publisher" by "of this link key".
            if let Some([asked, other]) = *leads.lock().unwrap()
                && let Some(at) = said.windows(33).position(|window| *window == asked)
            {
                said[at..at + 33].copy_from_slice(&other);
            }
            said
        },
    );
    let share =
        Share::with(&place.source, &place.dir.path().join("store-a"), &["--relay", &relay.uri]);
    until("it is registered", || relay.registered() == 1);
    let seed = place.get(
        "seed",
        &share.ticket,
        &["--seed", "--listen", "127.0.0.1:0", "--relay", &relay.uri],
    );
    let (key, _) = seed.address();
    until("it is registered, too", || relay.registered() >= 2);
    let publisher = share.ticket.parse::<Ticket>().unwrap().publisher;
    let byte = |i: usize| u8::from_str_radix(&key[i..i + 2], 16).expect("hex");
    let kind =
        |kind: u8, of: [u8; 32]| -> [u8; 33] { [&[kind][..], &of].concat().try_into().unwrap() };
    *led.lock().unwrap() =
        Some([kind(2, publisher.0), kind(1, std::array::from_fn(|i| byte(2 * i)))]);
    let ticket = with_addresses(&share.ticket, &["192.0.2.1:9999"]);
    let into = place.dir.path().join("got");
    let output =
        get(&place.dir.path().join("other"), &[&ticket, "--timeout", "4", "-o", text(&into)]);
    assert_exit(&output, 3);
    assert!(relay.passed() > 0, "the other one was met");
    assert!(!into.exists());
    let named = format!("relay {} (another peer answers there", relay.address);
    assert!(stderr(&output).contains(&named), "{}", stderr(&output));
    // Where the relay leads rightly, the same ticket works.
    *led.lock().unwrap() = None;
    assert_exit(&get(&place.dir.path().join("other"), &[&ticket, "-o", text(&into)]), 0);
}

/// A share introduces peers that have reached it. Hundreds of registrations take the quota of one host and no further
/// memory, and too little is forwarded to make it a relay of content.
#[test]
fn a_flood_at_an_introducer_is_bounded_and_it_goes_on_sharing() {
    let place = FetchSetup::new(300_000, 2);
    let store = place.dir.path().join("store-a");
    let share = Share::start(&place.source, &store);
    let at = uri(&share, &store);
    let answered = |client: &Client| client.is_registered() || client.refused().is_some();
    let client = |from: &str, seed, listens| {
        let mut client = Client::new(&at, ip(from), seed, listens, vec![]);
        relaying::until("an answer", &mut [&mut client], |all| answered(all[0]));
        client
    };
    let mut b = client("127.0.0.1", 1, true);
    let before = common::peak_memory(share.pid());
    let crowd: Vec<Client> = (0..100).map(|seed| client("127.9.9.1", 100 + seed, true)).collect();
    let refused = crowd.iter().filter(|one| one.refused() == Some(RelayRefusal::Quota)).count();
    assert!(refused >= 68, "{refused} of 100");
    let grown = common::peak_memory(share.pid()).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for {}", crowd.len());
    // Clients from before the flood find each other, and get no content that way.
    let mut a = client("127.0.0.1", 2, false);
    let tag = a.connect(ConnectTarget::Key(b.key));
    relaying::until("connection", &mut [&mut a], |all| {
        all[0].events.contains(&RelayEvent::Connected(tag))
    });
    a.send(tag, b"hello");
    relaying::until("a datagram", &mut [&mut a, &mut b], |all| !all[1].received.is_empty());
    let back = b.received[0].0;
    b.send(back, b"hello");
    relaying::until("a datagram", &mut [&mut a, &mut b], |all| !all[0].received.is_empty());
    b.received.clear();
    for _ in 0..200 {
        for _ in 0..20 {
            a.send(tag, &[0; 1_000]);
        }
        b.turn();
    }
    let passed = b.received.len();
    assert!(passed < 1_000, "{passed} of 4,000");
    place.get("c", &share.ticket, &[]).done();
    place.is_right("c");
}

/// A client of a share's relay names a victim's addresses as its own, in another order each time. The victim receives a
/// few small probes and nothing else.
#[test]
fn an_introduction_that_aims_at_a_victim_sends_little_there() {
    let place = FetchSetup::new(100_000, 3);
    let relay = TestRelay::honest();
    let share =
        Share::with(&place.source, &place.dir.path().join("store-a"), &["--relay", &relay.uri]);
    until("it is registered", || relay.registered() == 1);
    let publisher = share.ticket.parse::<Ticket>().unwrap().publisher;
    let victims: Vec<UdpSocket> =
        (0..16).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    victims.iter().for_each(|victim| victim.set_nonblocking(true).unwrap());
    let mut named: Vec<SocketAddr> = victims.iter().map(|v| v.local_addr().unwrap()).collect();
    let mut client =
        Client::new(&format!("xylem://{}", relay.uri), ip("127.0.0.1"), 5, false, vec![]);
    let tag = client.connect(ConnectTarget::Publisher(publisher));
    // The link that runs within the relay's.
    let far = "198.51.100.1:1".parse().unwrap();
    let mut inner = Endpoint::new(LinkConfig::default(), StaticKey::generate([5; 32]), [5; 32]);
    inner.connect_by_knock(client.now(), far, &publisher.0);
    let (mut link, mut lens, mut turns, mut out) = (None, Vec::new(), 0, Vec::new());
    let began = std::time::Instant::now();
    // Until all permitted probes were sent, and a second more.
    while turns < 500 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} datagrams", lens.len());
        client.turn();
        let now = client.now();
        for (_, datagram) in std::mem::take(&mut client.received) {
            inner.handle_datagram(now, far, BytesMut::from(&datagram[..]));
        }
        inner.handle_timeout(now);
        while let Some(event) = inner.poll_event() {
            if let LinkEvent::Connected { link: up, .. } = event {
                link = Some(up);
            }
        }
        if let Some(link) = link {
            named.rotate_left(1);
            inner.announce_candidates(link, &named, NatMapping::Stable);
        }
        while let Some(transmit) = inner.poll_transmit(now, &mut out) {
            for datagram in
                out[..transmit.len].chunks(transmit.segment_size.unwrap_or(transmit.len))
            {
                if transmit.to == far {
                    client.send(tag, datagram);
                }
            }
        }
        for victim in &victims {
            while let Ok(len) = victim.recv(&mut [0; 65_536]) {
                lens.push(len);
            }
        }
        turns += usize::from(lens.len() >= 24);
    }
    assert!(lens.len() <= 24, "{} datagrams", lens.len());
    assert!(lens.iter().all(|len| *len <= 128), "{lens:?}");
}

/// Not a check by itself: a stranger that prints `hit NEAR FAR`, the ports at which it was dialled.
#[test]
#[ignore = "run by the others, within a namespace"]
fn stranger() {
    let Some(services) = namespaces::role() else { return };
    let input = namespaces::input();
    let speaks = UdpSocket::bind("10.66.0.1:5353").unwrap();
    let socket = |at: &str, n: u16| {
        let socket = UdpSocket::bind((at, 4_000 + n)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let [near, far]: [Vec<UdpSocket>; 2] =
        ["10.66.0.1", "203.0.113.1"].map(|at| (0..100).map(|n| socket(at, n)).collect());
    println!("ready");
    while input.try_recv().is_err() {
        for service in services.split(' ') {
            for n in 0..100 {
                let answer = namespaces::answer(service, n, &[[203, 0, 113, 1], [10, 66, 0, 1]]);
                let _ = speaks.send_to(&answer, "224.0.0.251:5353");
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let hit = |all: &[UdpSocket]| {
        all.iter().filter(|socket| socket.recv(&mut [0; 2_000]).is_ok()).count()
    };
    println!("hit {} {}", hit(&near), hit(&far));
}

/// A stranger on the LAN has received the query and answers as a hundred machines, each at a port of its own and at one
/// of a victim elsewhere. A few on the LAN are dialled, the victim never.
#[cfg(target_os = "linux")]
#[test]
fn strangers_on_the_lan_get_sixteen_local_addresses_dialled() {
    let made = || {
        let (a, b) = (namespaces::Namespace::new("rsta")?, namespaces::Namespace::new("rstb")?);
        let (m, n) = (a.name(), b.name());
        namespaces::sh(&format!(
            "ip -n {m} link add eth type veth peer name eth netns {n} && ip -n {m} addr add 10.66.0.1/24 dev eth \
             && ip -n {m} addr add 203.0.113.1/32 dev lo && ip -n {n} addr add 10.66.0.2/24 dev eth \
             && ip -n {m} link set eth up && ip -n {n} link set eth up \
             && ip -n {m} route add 224.0.0.0/4 dev eth && ip -n {n} route add default via 10.66.0.1"
        ))
        .then_some((a, b))
    };
    let Some((a, b)) = made() else {
        common::skipped("no right to make network namespaces");
        return;
    };
    let place = FetchSetup::new(1_000, 4);
    let share = place.share();
    let ticket: Ticket = share.ticket.parse().unwrap();
    let seconds = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let tags = xylem_reach::names::LanTag::around(&ticket.root, &ticket.publisher, seconds);
    let services: Vec<String> = tags.iter().map(|tag| tag.service()).collect();
    let mut stranger = namespaces::inside(&a, "reach_attacks::stranger", &services.join(" "));
    assert_eq!(stranger.line(), "ready");
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", b.name(), common::XYLEM, "--store"])
        .arg(place.dir.path().join("b"));
    let stale = with_addresses(&share.ticket, &["10.66.0.1:9"]);
    command.args(["get", &stale, "--timeout", "6"]).env("XYLEM_NO_MAP", "1").stdin(Stdio::null());
    assert_exit(&finish(command), 3);
    stranger.end();
    let hit = stranger.line();
    let [near, far] = hit.strip_prefix("hit ").unwrap().split(' ').collect::<Vec<_>>()[..] else {
        panic!("{hit}")
    };
    let near: usize = near.parse().unwrap();
    assert!((1..=16).contains(&near) && far == "0", "{hit}");
}
