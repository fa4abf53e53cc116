use std::net::UdpSocket;

use xylem_mgmt::Persistency;

use super::*;
use crate::testing::{engine, until};

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn two_ports_of_one_address_are_a_symmetric_nat() {
    let of = |all: &[(&str, &str)]| {
        let all: Vec<_> = all.iter().map(|(by, seen)| (at(by), at(seen))).collect();
        mapping(&all)
    };
    let (one, other, here) = ("192.0.2.1:7348", "198.51.100.1:7348", "203.0.113.5:4000");
    assert_eq!(of(&[]), NatMapping::Stable);
    assert_eq!(of(&[(one, here), (other, here)]), NatMapping::Stable);
    assert_eq!(of(&[(one, here), (other, "203.0.113.5:4001")]), NatMapping::Symmetric);
    // A peer on our own side of the NAT, or one that has changed its report.
    assert_eq!(of(&[(one, here), (other, "192.168.1.2:7348")]), NatMapping::Stable);
    assert_eq!(of(&[(one, here), (one, "203.0.113.5:4001")]), NatMapping::Stable);
    // A NAT with many addresses, seen by two ports of one relay.
    assert_eq!(of(&[(one, here), ("192.0.2.1:1", "203.0.113.6:9")]), NatMapping::Symmetric);
}

/// The path between us and one peer: the address that we send to, and the one at which the peer sees us.
struct Way {
    near: UdpSocket,
    far: usize,
    peer: SocketAddr,
}

/// A NAT: datagrams to the `near` socket of a path leave by its `far` socket, and back.
struct Nat {
    ways: Vec<Way>,
    far: Vec<UdpSocket>,
    inside: Option<SocketAddr>,
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_nonblocking(true).expect("it may be set");
    socket
}

impl Nat {
    fn new(peers: &[SocketAddr], symmetric: bool) -> Self {
        let far = if symmetric { peers.len() } else { 1 };
        let way =
            |(i, peer): (usize, &SocketAddr)| Way { near: socket(), far: i % far, peer: *peer };
        let ways = peers.iter().enumerate().map(way).collect();
        Self { ways, far: (0..far).map(|_| socket()).collect(), inside: None }
    }

    fn pass(&mut self) {
        let mut buffer = [0; 65_536];
        for way in &self.ways {
            while let Ok((len, from)) = way.near.recv_from(&mut buffer) {
                self.inside = Some(from);
                let _ = self.far[way.far].send_to(&buffer[..len], way.peer);
            }
        }
        for socket in &self.far {
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let way = self.ways.iter().find(|way| way.peer == from);
                if let Some((way, inside)) = way.zip(self.inside) {
                    let _ = way.near.send_to(&buffer[..len], inside);
                }
            }
        }
    }
}

/// Two peers, no relay: the addresses at which they see us are where others may probe, and show whether the NAT is
/// symmetric.
#[test]
fn dialled_peers_report_our_address_and_the_nats_mapping() {
    for symmetric in [false, true] {
        let (mut us, mut b, mut c) = (engine(1), engine(2), engine(3));
        let mut nat = Nat::new(&[b.link_addresses()[0], c.link_addresses()[0]], symmetric);
        for (way, key) in nat.ways.iter().zip([b.link_key(), c.link_key()]) {
            let address = way.near.local_addr().expect("bound");
            let peer = PeerAddress::Link { address, key: Some(key.0) };
            us.dial(&peer, Persistency::Persistent).expect("it may be dialled");
        }
        let outside: Vec<_> = nat.far.iter().map(|far| far.local_addr().expect("bound")).collect();
        let wanted = if symmetric { NatMapping::Symmetric } else { NatMapping::Stable };
        until(
            &mut [&mut us, &mut b, &mut c],
            || nat.pass(),
            |engines, _| {
                let (told, mapping) = engines[0].candidates();
                engines[0].observations().len() == 2
                    && outside.iter().all(|outside| told.contains(outside))
                    && mapping == wanted
            },
        );
        // Peers that were dialled have dialled no peer themselves, so they ignore our reports.
        assert!(b.observations().is_empty() && c.observations().is_empty());
    }
}
