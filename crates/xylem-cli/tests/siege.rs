//! A share attacked by a holder of its ticket, with the real program: Interests that have no answer, over an encrypted
//! link, over plain UDP and through a node. Honest fetches succeed meanwhile.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{Node, Share, assert_exit, file, get, text};
use bytes::BytesMut;
use xylem_link_internals::{Endpoint, LinkConfig, LinkEvent, StaticKey};
use xylem_object::Ticket;
use xylem_object::ticket::Address;
use xylem_packet::{Component, InterestBuilder, Name, Packet};
use xylem_sim::Rng;

/// More than the capacity of a PIT: Interests that stay for their whole lifetime would keep out all others.
const FLOOD: u64 = 90_000;
/// Interests sent at a time, with pauses between, so that the kernel's buffers hold most of them.
const BURST: usize = 40;
const PAUSE: Duration = Duration::from_millis(1);

struct SiegeSetup {
    _dir: tempfile::TempDir,
    at: PathBuf,
    content: Vec<u8>,
}

/// Counters of an attack that runs: sent, received, refused.
#[derive(Default)]
struct AttackCounters {
    sent: AtomicU64,
    refused: AtomicU64,
    over: AtomicBool,
}

impl SiegeSetup {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (at, content) = (dir.path().to_owned(), common::noise(3_000_000, seed));
        file(&at, "source", &content);
        Self { _dir: dir, at, content }
    }

    fn share(&self, with: impl FnOnce(&Path, &Path) -> Share) -> Share {
        with(&self.at.join("source"), &self.at.join("store"))
    }

    /// Fetches while `attack` runs, once that has sent enough.
    fn holds(&self, attack: impl Fn(&AttackCounters) + Sync, arguments: &[&str]) -> AttackCounters {
        let told = AttackCounters::default();
        let outputs = std::thread::scope(|scope| {
            scope.spawn(|| attack(&told));
            // Checked after the attack has ended: a failure before that would leave it running.
            let begun = Instant::now();
            while told.sent.load(Ordering::Relaxed) < FLOOD && begun.elapsed().as_secs() < 100 {
                std::thread::sleep(Duration::from_millis(10));
            }
            let outputs = [0, 1].map(|n| {
                let (out, store) =
                    (self.at.join(format!("out-{n}")), self.at.join(format!("s-{n}")));
                let more = ["--no-serve", "-o", text(&out)];
                (get(&store, &[arguments, &more].concat()), out)
            });
            told.over.store(true, Ordering::Relaxed);
            outputs
        });
        assert!(told.sent.load(Ordering::Relaxed) >= FLOOD, "there was no flood");
        for (output, out) in &outputs {
            assert_exit(output, 0);
            assert!(std::fs::read(out).unwrap() == self.content, "not what was shared");
        }
        told
    }
}

/// Interests under `prefix` for content that does not exist, pending as long as possible.
fn nothing(prefix: Name) -> impl FnMut() -> Vec<u8> {
    let mut rng = Rng::new(9);
    move || {
        let name = prefix.child(Component::generic(rng.bytes(8).as_slice()));
        let mut frame = Vec::new();
        let nonce = (rng.next_u64() as u32).to_be_bytes();
        let interest = InterestBuilder::new(name.as_ref()).nonce(nonce).lifetime_ms(60_000);
        interest.encode(&mut frame).unwrap();
        frame
    }
}

fn by_datagrams(at: &str, prefix: &Name, told: &AttackCounters) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut next = nothing(prefix.clone());
    let mut buffer = [0; 9_000];
    while !told.over.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            let sent = socket.send(&next()).is_ok();
            told.sent.fetch_add(u64::from(sent), Ordering::Relaxed);
        }
        while let Ok(len) = socket.recv(&mut buffer) {
            let nack =
                matches!(Packet::decode(&buffer[..len]), Ok(Packet::Lp(lp)) if lp.nack.is_some());
            told.refused.fetch_add(u64::from(nack), Ordering::Relaxed);
        }
        std::thread::sleep(PAUSE);
    }
}

fn by_link(ticket: &str, prefix: &Name, told: &AttackCounters) {
    let ticket: Ticket = ticket.parse().unwrap();
    let Address::Ip(at) = ticket.addresses[0].clone() else { panic!("an address") };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let key = StaticKey::generate([1; 32]);
    let (mut endpoint, begun) =
        (Endpoint::new(LinkConfig::default(), key, [2; 32]), Instant::now());
    endpoint.connect_by_knock(Duration::ZERO, at, &ticket.publisher.0);
    let mut next = nothing(prefix.clone());
    let (mut buffer, mut incoming, mut up) = (Vec::new(), vec![0; 65_536], None);
    while !told.over.load(Ordering::Relaxed) {
        let now = begun.elapsed();
        while let Ok((len, from)) = socket.recv_from(&mut incoming) {
            endpoint.handle_datagram(now, from, BytesMut::from(&incoming[..len]));
        }
        if endpoint.poll_timeout().is_some_and(|at| at <= now) {
            endpoint.handle_timeout(now);
        }
        while let Some(event) = endpoint.poll_event() {
            match event {
                LinkEvent::Connected { link, .. } => {
                    endpoint.keep(link);
                    up = Some(link);
                }
                LinkEvent::Packet { packet, .. } => {
                    let nack =
                        matches!(Packet::decode(&packet), Ok(Packet::Lp(lp)) if lp.nack.is_some());
                    told.refused.fetch_add(u64::from(nack), Ordering::Relaxed);
                }
                _ => {}
            }
        }
        for _ in 0..BURST {
            let sent = up.is_some_and(|link| endpoint.send(link, &next()).is_ok());
            told.sent.fetch_add(u64::from(sent), Ordering::Relaxed);
        }
        while let Some(transmit) = endpoint.poll_transmit(now, &mut buffer) {
            let size = transmit.segment_size.unwrap_or(transmit.len);
            for datagram in buffer[..transmit.len].chunks(size) {
                let _ = socket.send_to(datagram, transmit.to);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

fn name_of(share: &Share) -> Name {
    Name::from_uri(share.shared["name"].as_str().unwrap()).unwrap()
}

/// A producer knows its names, and refuses others at once.
fn was_refused(told: &AttackCounters) {
    let refused = told.refused.load(Ordering::Relaxed);
    assert!(refused > 0, "nothing was refused");
}

#[test]
fn a_flood_over_a_link_does_not_stop_fetches() {
    let siege = SiegeSetup::new(1);
    let share = siege.share(Share::start);
    let (ticket, prefix) = (share.ticket.as_str(), name_of(&share));
    let told = siege.holds(|told| by_link(ticket, &prefix, told), &[ticket]);
    was_refused(&told);
}

#[test]
fn a_flood_of_datagrams_does_not_stop_fetches() {
    let siege = SiegeSetup::new(2);
    let share = siege.share(Share::plain);
    let (at, prefix) = (share.plain.clone().unwrap(), name_of(&share));
    let told = siege.holds(|told| by_datagrams(&at, &prefix, told), &[&share.ticket]);
    was_refused(&told);
}

#[test]
fn a_flood_through_a_node_does_not_stop_fetches() {
    let siege = SiegeSetup::new(3);
    let node = Node::start(&siege.at, "");
    let share = siege.share(|path, store| Share::via(path, store, node.at("unix")));
    let at = node.at("udp4").strip_prefix("udp4://").unwrap();
    let prefix = name_of(&share);
    // Not over UDP: peers of one UDP socket share the kernel's buffer (docs/spec/faces.md).
    let from = [&share.ticket, "--from", node.at("tcp4")];
    let told = siege.holds(|told| by_datagrams(at, &prefix, told), &from);
    was_refused(&told);
}
