//! Strangers without key or ticket: replies of a listening program to them, and messages of a dialling program to them.
//! Neither reveals anything, unless the program was started with the flag for it.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::fetching::Get;
use crate::common::{
    Node, Share, assert_exit, file, finish, get, listen_in, noise, stderr, text, until, xylem,
};
use bytes::BytesMut;
use xylem_hash::Hasher;
use xylem_link_internals::{Endpoint, LinkConfig, LinkEvent, PeerKey, StaticKey};
use xylem_object::Ticket;
use xylem_sim::Rng;

/// The link key of a store.
fn link_key(store: &Path) -> PeerKey {
    let secret = std::fs::read(store.join("keys").join("link")).unwrap();
    StaticKey::from_bytes(secret.try_into().unwrap()).public()
}

/// A peer on the network that runs the link's own code.
struct Dialer {
    socket: UdpSocket,
    endpoint: Endpoint,
    start: Instant,
}

impl Dialer {
    fn new(seed: u8) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let key = StaticKey::generate([seed; 32]);
        let endpoint = Endpoint::new(LinkConfig::default(), key, [seed; 32]);
        Self { socket, endpoint, start: Instant::now() }
    }

    fn dial(&mut self, at: SocketAddr, expected: Option<PeerKey>) {
        self.endpoint.connect(self.start.elapsed(), at, expected);
        self.transmit();
    }

    fn transmit(&mut self) {
        let (now, mut out) = (self.start.elapsed(), Vec::new());
        self.endpoint.handle_timeout(now);
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut out) {
            for datagram in out.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                self.socket.send_to(datagram, transmit.to).unwrap();
            }
        }
    }

    /// Waits until it is connected; returns the authenticated key of the peer.
    fn connected(&mut self) -> PeerKey {
        let (mut received, mut found) = ([0; 65_536], None);
        until("a handshake", || {
            self.transmit();
            if let Ok((len, from)) = self.socket.recv_from(&mut received) {
                let datagram = BytesMut::from(&received[..len]);
                self.endpoint.handle_datagram(self.start.elapsed(), from, datagram);
            }
            let mut events = std::iter::from_fn(|| self.endpoint.poll_event());
            found = events.find_map(|event| match event {
                LinkEvent::Connected { peer, .. } => Some(peer),
                _ => None,
            });
            found.is_some()
        });
        found.expect("until it is there")
    }

    /// The lengths of all datagrams received so far.
    fn came(&self) -> Vec<usize> {
        self.socket.set_nonblocking(true).unwrap();
        let mut received = [0; 65_536];
        let lengths = std::iter::from_fn(|| Some(self.socket.recv_from(&mut received).ok()?.0));
        lengths.collect()
    }
}

/// Lengths of the datagrams sent to a stranger. The stranger dials without a key, and sends noise, which a program that
/// resets links would answer. Then a dialer with the key connects: a program answers in order of arrival, so all
/// answers to the stranger have come by then.
fn answers(at: &str, key: PeerKey) -> Vec<usize> {
    let at = at.parse().unwrap();
    let (mut stranger, noise) = (Dialer::new(21), Dialer::new(20));
    let mut rng = Rng::new(22);
    for len in (64..=1_500).step_by(29).chain([1_200, 1_232, 1_500]) {
        let mut datagram = vec![0; len];
        datagram.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        noise.socket.send_to(&datagram, at).unwrap();
    }
    // After the noise: no reset goes to an address with a half-open handshake.
    stranger.dial(at, None);
    let mut knows = Dialer::new(23);
    knows.dial(at, Some(key));
    assert_eq!(knows.connected(), key);
    [stranger.came(), noise.came()].concat()
}

/// Asserts that a stranger without the key gets no datagram; with the flag, the key and resets.
fn assert_answers(at: &str, key: PeerKey, open: bool) {
    let answers = answers(at, key);
    if !open {
        assert_eq!(answers, [0; 0], "a stranger was answered");
        return;
    }
    assert!(answers.iter().any(|len| (37..64).contains(len)), "no reset: {answers:?}");
    assert!(answers.iter().any(|len| *len >= 1_200), "no answer: {answers:?}");
    let mut stranger = Dialer::new(24);
    stranger.dial(at.parse().unwrap(), None);
    assert_eq!(stranger.connected(), key);
}

const OPEN: [(bool, &[&str]); 2] = [(false, &[]), (true, &["--accept-open"])];

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command that prints where it listens; returns that `HOST:PORT`.
fn listening(mut command: Command) -> (Running, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let running = Running(child);
    let uri = lines.find_map(|line| {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let uri = event["uri"].as_str().filter(|_| event["event"] == "listening")?;
        uri.strip_prefix("xylem://").map(str::to_owned)
    });
    let uri = uri.expect("it says where it listens");
    // Reads later output, so that a closed pipe does not end the process.
    std::thread::spawn(move || lines.for_each(drop));
    let at = uri.rsplit('@').next().unwrap().to_owned();
    (running, at)
}

#[test]
fn a_share_answers_a_dialer_with_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let (source, store) = (file(dir.path(), "source", b"x"), dir.path().join("store"));
    for (open, more) in OPEN {
        let share = Share::with(&source, &store, more);
        assert_answers(&share.link, link_key(&store), open);
    }
}

#[test]
fn a_node_answers_a_dialer_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    for (open, setting) in [(false, ""), (true, "accept_open = true")] {
        let node = Node::start(dir.path(), setting);
        let key = link_key(&dir.path().join("node-store"));
        let (told, at) = node.at("xylem").trim_start_matches("xylem://").split_once('@').unwrap();
        assert_eq!(told, key.to_string());
        assert_answers(at, key, open);
    }
    // The flag has the effect of the setting.
    let config =
        file(dir.path(), "flag.toml", format!("[node]\n{}\n", listen_in(dir.path())).as_bytes());
    let store = dir.path().join("node-store");
    let mut command = xylem(&store);
    command.args(["--json", "--config", text(&config), "ndn", "node", "--accept-open"]);
    let (_running, at) = listening(command);
    assert_answers(&at, link_key(&store), true);
}

#[test]
fn an_inbox_answers_a_dialer_with_its_card() {
    let dir = tempfile::tempdir().unwrap();
    for (open, more) in OPEN {
        let mut command = xylem(dir.path());
        command.args(["--json", "inbox", "--listen", "127.0.0.1:0"]).args(more);
        let (_running, at) = listening(command);
        assert_answers(&at, link_key(dir.path()), open);
    }
}

#[test]
fn the_background_node_answers_a_dialer_with_a_key() {
    let dir = tempfile::tempdir().unwrap();
    for (open, more) in OPEN {
        let mut command = xylem(dir.path());
        command.args(["--json", "service", "run", "--listen", "127.0.0.1:0"]).args(more);
        let (_running, at) = listening(command);
        assert_answers(&at, link_key(dir.path()), open);
    }
}

#[test]
fn a_seed_answers_a_dialer_with_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let share = Share::start(&file(dir.path(), "source", b"x"), &dir.path().join("store"));
    for (open, more) in OPEN {
        let (store, out) = (dir.path().join("seed"), dir.path().join(format!("out-{open}")));
        let seed = ["--seed", "--listen", "127.0.0.1:0"];
        let seed = Get::start(&store, &share.ticket, &out, &[&seed, more].concat());
        let (_, at) = seed.address();
        assert_answers(&at, link_key(&store), open);
    }
}

/// Whether a datagram is a handshake message that opens with public knowledge, by a key, or by a knock: `known` is 0, 1
/// or 2 (docs/spec/link.md, "Envelope").
fn opens(datagram: &[u8], known: u8, of: &[u8; 32]) -> bool {
    let Some((id, rest)) = datagram.split_first_chunk::<8>() else { return false };
    let Some((tag, sealed)) = rest.split_first_chunk::<16>() else { return false };
    let derived = |context: &str| {
        let mut hasher = Hasher::new_derive_key(context);
        hasher.update(&[known]).update(of);
        *hasher.finalize().as_bytes()
    };
    let mut stream = vec![0; sealed.len()];
    let key = derived("xylem-link v5 handshake envelope stream");
    Hasher::new_keyed(&key).update(tag).finalize_xof().fill(&mut stream);
    let body: Vec<u8> = sealed.iter().zip(&stream).map(|(byte, mask)| byte ^ mask).collect();
    let mut hasher = Hasher::new_keyed(&derived("xylem-link v5 handshake envelope tag"));
    hasher.update(id).update(&body);
    hasher.finalize().as_bytes()[..16] == *tag
}

/// A host that never answers, dialled as a ticket directs: by the publisher's key, or by a link key.
#[test]
fn a_silent_host_gets_nothing_that_any_reader_can_open() {
    let dir = tempfile::tempdir().unwrap();
    let (source, store) = (file(dir.path(), "source", b"x"), dir.path().join("store"));
    let share = Share::start(&source, &store);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let addresses = vec![silent.local_addr().unwrap().to_string().parse().unwrap()];
    let short = Ticket { addresses, ..share.ticket.parse().unwrap() };
    let key = link_key(&store).0;
    let keyed = Ticket { link_key: Some(key), ..short.clone() };
    for (ticket, known, of) in [(&short, 2, short.publisher.0), (&keyed, 1, key)] {
        for asks in [false, true] {
            // Openly readable messages would begin with the third message, 0.75 s after the first.
            let ticket = ticket.to_string();
            let more: &[&str] = if asks { &["--ask-who-answers"] } else { &[] };
            let arguments = [&[&*ticket, "--timeout", "3"], more].concat();
            assert_exit(&get(&dir.path().join("other"), &arguments), 3);
            let mut buffer = [0; 65_536];
            let came = std::iter::from_fn(|| {
                silent.recv_from(&mut buffer).ok().map(|(len, _)| buffer[..len].to_vec())
            });
            let came: Vec<Vec<u8>> = came.collect();
            let of_us = came.iter().filter(|datagram| opens(datagram, known, &of)).count();
            assert!(of_us >= 4, "{of_us} of {} by what the ticket says", came.len());
            let of_all = came.iter().filter(|datagram| opens(datagram, 0, &[0; 32])).count();
            assert_eq!(of_all > 0, asks, "{of_all} of {} open for everybody", came.len());
        }
    }
}

/// Where neither ticket nor address has a key by which the node answers, a line names what is missing.
#[test]
fn dialing_a_node_without_its_key_names_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(50_000, 4);
    let share = Share::plain(&file(dir.path(), "source", &content), &dir.path().join("store"));
    let upstream =
        format!("[[node.route]]\nprefix = \"/\"\nto = \"tcp4://{}\"", share.plain.clone().unwrap());
    for (open, setting) in [(false, ""), (true, "accept_open = true\n")] {
        let place = dir.path().join(format!("node-{open}"));
        std::fs::create_dir(&place).unwrap();
        let node = Node::start(&place, &format!("{setting}{upstream}"));
        let keyed = node.at("xylem");
        let keyless = format!("xylem://{}", keyed.split_once('@').unwrap().1);
        let fetch = |from: &str, more: &[&str]| {
            let _ = std::fs::remove_file(dir.path().join("out"));
            let out = dir.path().join("out");
            let arguments =
                [&[&*share.ticket, "--from", from, "-o", text(&out), "--timeout", "3"], more];
            let output = get(&dir.path().join("other"), &arguments.concat());
            assert!(!output.status.success() || std::fs::read(&out).unwrap() == content);
            output
        };
        assert_exit(&fetch(keyed, &[]), 0);
        let silent = fetch(&keyless, &[]);
        assert_exit(&silent, 3);
        for part in ["KEY@HOST:PORT", "--accept-open", "--ask-who-answers"] {
            assert!(stderr(&silent).contains(part), "{}", stderr(&silent));
        }
        assert_exit(&fetch(&keyless, &["--ask-who-answers"]), if open { 0 } else { 3 });
        let mut command = xylem(&dir.path().join("other"));
        let via = keyless.trim_start_matches("xylem://");
        command.args(["inbox", "--node", via, "--timeout", "2"]).stdin(Stdio::null());
        let output = finish(command);
        assert_exit(&output, 3);
        assert_eq!(stderr(&output).contains("KEY@HOST:PORT"), !open, "{}", stderr(&output));
    }
}

/// A sharer is killed, which no peer is notified of, and started again at the same place. A getter goes on long before
/// its link would have idled out, and long before it gives up.
#[test]
fn a_fetch_finds_out_that_its_peer_was_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(6_000_000, 5);
    let (source, store) = (file(dir.path(), "source", &content), dir.path().join("store"));
    let share = Share::start(&source, &store);
    let (ticket, at) = (share.ticket.clone(), share.link.clone());
    let out = dir.path().join("out");
    let more = ["--limit", "1500K", "--timeout", "15", "--no-serve"];
    let mut fetching = Get::start(&dir.path().join("other"), &ticket, &out, &more);
    fetching.has_fetched(1_000_000);
    drop(share);
    let _again = Share::with(&source, &store, &["--listen", &at]);
    assert_eq!(fetching.wait(), Some(0));
    assert!(std::fs::read(&out).unwrap() == content);
}

/// Stands at the ticket's address, forwards every datagram, and answers each first message before the publisher can,
/// with a key of its own.
struct Racer {
    at: SocketAddr,
    ends: Arc<AtomicBool>,
    links: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Racer {
    fn start(publisher: SocketAddr, knock: [u8; 32]) -> Self {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        far.set_nonblocking(true).unwrap();
        let at = near.local_addr().unwrap();
        let (ends, links) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (end, count) = (ends.clone(), links.clone());
        let thread = std::thread::spawn(move || {
            let mut endpoint =
                Endpoint::new(LinkConfig::default(), StaticKey::generate([31; 32]), [32; 32]);
            assert!(endpoint.answer_knock(&knock));
            let (start, mut received, mut out) = (Instant::now(), vec![0; 65_536], Vec::new());
            let mut getter = None;
            while !end.load(Ordering::Relaxed) {
                if let Ok((len, from)) = near.recv_from(&mut received) {
                    getter = Some(from);
                    let datagram = BytesMut::from(&received[..len]);
                    endpoint.handle_datagram(start.elapsed(), from, datagram);
                    while let Some(transmit) = endpoint.poll_transmit(start.elapsed(), &mut out) {
                        let size = transmit.segment_size.unwrap_or(transmit.len);
                        out.chunks(size).for_each(|d| drop(near.send_to(d, transmit.to)));
                    }
                    let _ = far.send_to(&received[..len], publisher);
                }
                while let Some(event) = endpoint.poll_event() {
                    let is_up = matches!(event, LinkEvent::Connected { .. });
                    count.fetch_add(usize::from(is_up), Ordering::Relaxed);
                }
                while let (Ok((len, _)), Some(getter)) = (far.recv_from(&mut received), getter) {
                    let _ = near.send_to(&received[..len], getter);
                }
            }
        });
        Self { at, ends, links, thread: Some(thread) }
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// A short ticket is dialled by the publisher's key, which an impostor may know. An impostor that is always first to
/// answer, and then sends nothing, does not block the publisher.
#[test]
fn an_impostor_that_answers_first_does_not_block_the_publisher() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 6);
    let share = Share::start(&file(dir.path(), "source", &content), &dir.path().join("store"));
    let ticket: Ticket = share.ticket.parse().unwrap();
    let racer = Racer::start(share.link.parse().unwrap(), ticket.publisher.0);
    let addresses = vec![racer.at.to_string().parse().unwrap()];
    let raced = Ticket { addresses, ..ticket }.to_string();
    let out = dir.path().join("out");
    let arguments = [&raced, "-o", text(&out), "--timeout", "8"];
    assert_exit(&get(&dir.path().join("other"), &arguments), 0);
    assert!(std::fs::read(&out).unwrap() == content);
    assert!(racer.links.load(Ordering::Relaxed) > 0, "it did answer first");
}
