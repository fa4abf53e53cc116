//! The client against nodes of the crate `mainline` on loopback, by one socket.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use mainline::{MutableItem as TheirItem, SigningKey, Testnet};
use xylem_dht::{
    AnnouncedPorts, DhtClient, DhtConfig, DhtEvent, DhtId, LookupEnd, LookupError, LookupKind,
    MutableItem, signable,
};

const DEADLINE: Duration = Duration::from_secs(30);

struct Driver {
    dht: DhtClient,
    socket: UdpSocket,
    epoch: Instant,
}

impl Driver {
    fn new(bootstrap: &[String], seed: u8) -> Self {
        let bootstrap = bootstrap.iter().map(|at| at.parse().unwrap()).collect();
        let config = DhtConfig { bootstrap, ipv4: true, ipv6: false };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self { dht: DhtClient::new(config, [seed; 32]), socket, epoch: Instant::now() }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn look(&mut self, kind: LookupKind) -> (Vec<DhtEvent>, LookupEnd) {
        let id = self.dht.lookup(self.epoch.elapsed(), kind).unwrap();
        self.run(id)
    }

    fn run(&mut self, id: xylem_dht::LookupId) -> (Vec<DhtEvent>, LookupEnd) {
        let (end, mut events, mut buffer) = (Instant::now() + DEADLINE, Vec::new(), [0; 2_048]);
        while Instant::now() < end {
            while let Some(transmit) = self.dht.poll_transmit(self.epoch.elapsed()) {
                let _ = self.socket.send_to(&transmit.bytes, transmit.to);
            }
            while let Some(event) = self.dht.poll_event() {
                match event {
                    DhtEvent::Done(of, end) if of == id => return (events, end),
                    event => events.push(event),
                }
            }
            let wait = self.dht.poll_timeout().unwrap_or_default();
            let wait = wait.saturating_sub(self.epoch.elapsed()).max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(wait)).unwrap();
            if let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
                let ours = self.dht.handle_datagram(self.epoch.elapsed(), from, &buffer[..len]);
                // Nodes ask us too; a client that answers nothing has only answers to take.
                let is_query = buffer[..len].windows(6).any(|w| w == b"1:y1:q");
                assert!(ours || is_query, "{:?}", String::from_utf8_lossy(&buffer[..len]));
            }
        }
        panic!("the lookup does not end")
    }
}

fn peers(events: &[DhtEvent]) -> Vec<SocketAddr> {
    let of = |event: &DhtEvent| match event {
        DhtEvent::Peers(_, peers) => peers.new.clone(),
        _ => Vec::new(),
    };
    events.iter().flat_map(of).collect()
}

/// The socket's own port is listed with `implied_port`, and each node reports it.
#[test]
fn an_announced_socket_is_found_and_polled_by_others() {
    let net = Testnet::builder(40).build().unwrap();
    let (hash, other) = (DhtId([9; 20]), DhtId([200; 20]));
    let mut offers = Driver::new(&net.bootstrap[..2], 1);
    let (_, end) = offers.look(LookupKind::Announce(hash, AnnouncedPorts::IMPLIED));
    assert!(end.error.is_none() && end.stored >= 6, "{end:?}");
    let mut seeks = Driver::new(&net.bootstrap[5..7], 2);
    let (events, end) = seeks.look(LookupKind::Peers(hash));
    assert_eq!((peers(&events), end.error), (vec![offers.address()], None));
    let (events, end) = seeks.look(LookupKind::Peers(other));
    assert!(peers(&events).is_empty() && end.error.is_none() && end.answered >= 8);
    // A later announcement is seen by a poll, which asks four nodes.
    let (_, end) = seeks.look(LookupKind::Announce(hash, AnnouncedPorts::of(4_567)));
    assert!(end.stored >= 6, "{end:?}");
    let id = offers.dht.poll_peers(hash).unwrap();
    let (events, end) = offers.run(id);
    let mut found = peers(&events);
    found.sort();
    let mut expected = vec![offers.address(), "127.0.0.1:4567".parse().unwrap()];
    expected.sort();
    assert_eq!((found, end.answered), (expected, 4));
    let seen = offers.dht.observed_v4();
    assert_eq!((seen.len(), seen[0].at), (1, offers.address()));
    assert_eq!(xylem_dht::is_symmetric(&seen), Some(false));
}

#[test]
fn items_are_stored_for_mainline_and_read_from_it() {
    let net = Testnet::builder(30).build().unwrap();
    let mut dht = Driver::new(&net.bootstrap[..2], 3);
    let theirs = TheirItem::new(SigningKey::from_bytes(&[7; 32]), b"theirs", 4, Some(b"salt"));
    let node = mainline::Dht::builder()
        .bootstrap(&net.bootstrap)
        .bind_address(std::net::Ipv4Addr::LOCALHOST)
        .port(0)
        .build()
        .unwrap();
    #[expect(deprecated, reason = "a test may block")]
    node.put_mutable(theirs.clone(), None).unwrap();
    let wanted = LookupKind::Item { key: *theirs.key(), salt: b"salt".to_vec() };
    let values = |events: &[DhtEvent]| {
        let of = |event: &DhtEvent| match event {
            DhtEvent::Item(_, item) => Some((item.seq, item.value.clone())),
            _ => None,
        };
        events.iter().filter_map(of).collect::<Vec<_>>()
    };
    let (events, end) = dht.look(wanted.clone());
    assert_eq!((values(&events), end.error), (vec![(4, b"theirs".to_vec())], None));
    let ours = MutableItem {
        key: *theirs.key(),
        salt: b"salt".to_vec(),
        seq: 5,
        value: b"ours".to_vec(),
        signature: signature(&signable(b"salt", 5, b"ours")),
    };
    let (_, end) = dht.look(LookupKind::Put(ours.clone(), None));
    assert!(end.error.is_none() && end.stored >= 6, "{end:?}");
    #[expect(deprecated, reason = "a test may block")]
    let read = node.get_mutable_most_recent(theirs.key(), Some(b"salt")).unwrap();
    assert_eq!((read.seq(), read.value()), (5, &b"ours"[..]));
    let (events, _) = dht.look(wanted);
    assert!(values(&events).contains(&(5, b"ours".to_vec())));
    // A value with an older number, and one with a signature of other bytes, are refused.
    let old = MutableItem {
        seq: 3,
        signature: signature(&signable(b"salt", 3, b"ours")),
        ..ours.clone()
    };
    let (_, end) = dht.look(LookupKind::Put(old, None));
    assert!(matches!(end.error, Some(LookupError::NotStored(Some(302)))), "{end:?}");
    let (_, end) = dht.look(LookupKind::Put(MutableItem { seq: 9, ..ours }, None));
    assert!(matches!(end.error, Some(LookupError::NotStored(_))), "{end:?}");
}

/// The bytes of `message` signed by the key of the test.
fn signature(message: &[u8]) -> [u8; 64] {
    use ed25519_dalek::Signer as _;
    ed25519_dalek::SigningKey::from_bytes(&[7; 32]).sign(message).to_bytes()
}

#[test]
fn a_network_that_is_silent_ends_a_lookup() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let mut dht = Driver::new(&[at.to_string()], 4);
    let (_, end) = dht.look(LookupKind::Peers(DhtId([1; 20])));
    assert_eq!(end, LookupEnd { answered: 0, stored: 0, error: Some(LookupError::NoNode) });
    // Each entry sends two datagrams. The lookup enters twice, as all that it knows is silent.
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2_048];
    let sent = std::iter::from_fn(|| socket.recv_from(&mut buffer).ok()).count();
    assert!((2..=4).contains(&sent), "{sent}");
}
