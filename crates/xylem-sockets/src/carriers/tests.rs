//! Two ends of each carrier over loopback, and strangers that connect to a server.

use std::io::Write;
use std::net::TcpListener;
use std::time::Instant;

use super::*;
use xylem_carriers::{MAX_UNSENT, MAX_UNWRITTEN, dns};

const NOW: Duration = Duration::from_secs(1);

/// A carrier server that accepts connections.
struct Door {
    carriers: Carriers,
    listener: TcpListener,
    poll: Poll,
}

impl Door {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let (carriers, poll) = (Carriers::new([1; 5]), Poll::new().expect("the system polls"));
        Self { carriers, listener, poll }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    fn accept(&mut self, carrier: Carrier) -> CarrierId {
        self.carriers.prepare(carrier).expect("a certificate can be made up");
        let (socket, far) = self.listener.accept().expect("somebody has connected");
        socket.set_nonblocking(true).expect("a TCP socket can");
        let id = self.carriers.next_id();
        let accepted = CarrierAccept { carrier, socket: TcpStream::from_std(socket), far };
        let token = Token(id.0 as usize);
        self.carriers.accept(NOW, id, token, accepted, &self.poll).expect("it is taken");
        id
    }

    fn dial(&mut self, carrier: Carrier, to: SocketAddr) -> CarrierId {
        let id = self.carriers.next_id();
        let to = CarrierDial { carrier, address: to, name: Some("localhost") };
        self.carriers.dial(NOW, id, Token(id.0 as usize), to, &self.poll).expect("it is dialled");
        id
    }

    fn receive(&mut self, id: CarrierId, into: &mut Vec<Vec<u8>>) -> io::Result<()> {
        while self.carriers.receive(NOW, id, &mut |d| into.push(d.to_vec()))? {}
        assert!(self.carriers.flush(NOW).is_empty());
        Ok(())
    }

    /// Serves a stranger until its connection ends.
    fn until_it_ends(&mut self, id: CarrierId) {
        wait("the connection's end", || self.receive(id, &mut Vec::new()).is_err());
        self.carriers.remove(id).expect("it stands until it is removed");
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what} never comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn datagrams_pass_both_ways_through_each() {
    for carrier in Carrier::ALL {
        let (mut client, mut server) = (Door::new(), Door::new());
        let there = client.dial(carrier, server.address());
        let here = server.accept(carrier);
        let sizes = [1_usize, 28, 1_232, 8_952, 32_768, 40];
        let datagrams: Vec<Vec<u8>> = sizes.iter().map(|size| vec![*size as u8; *size]).collect();
        // Some datagrams wait for the connection to come up.
        for datagram in &datagrams[..3] {
            client.carriers.queue(NOW, there, datagram, datagram.len());
            server.carriers.queue(NOW, here, datagram, datagram.len());
        }
        let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
        wait("the connection", || {
            client.receive(there, &mut at_client).expect("it stands");
            server.receive(here, &mut at_server).expect("it stands");
            at_client.len() == 3 && at_server.len() == 3
        });
        // A train of equal datagrams counts as several.
        client.carriers.queue(NOW, there, &datagrams[3], 4_476);
        server.carriers.queue(NOW, here, &datagrams[3], 4_476);
        for datagram in &datagrams[4..] {
            client.carriers.queue(NOW, there, datagram, datagram.len());
            server.carriers.queue(NOW, here, datagram, datagram.len());
        }
        wait("the datagrams", || {
            client.receive(there, &mut at_client).expect("it stands");
            server.receive(here, &mut at_server).expect("it stands");
            at_client.len() == 7 && at_server.len() == 7
        });
        let lens = |found: &[Vec<u8>]| found.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lens(&at_client), [1, 28, 1_232, 4_476, 4_476, 32_768, 40], "{carrier:?}");
        assert_eq!(at_client, at_server, "{carrier:?}");
        assert_eq!((client.carriers.refused(), server.carriers.refused()), (0, 0));
        // When one end ends, so does the other.
        client.carriers.remove(there);
        wait("the goodbye", || server.receive(here, &mut at_server).is_err());
    }
}

#[test]
fn a_reader_that_does_not_read_costs_a_bounded_queue() {
    for carrier in [Carrier::Tls, Carrier::WebSocket, Carrier::Doh] {
        let (mut client, mut server) = (Door::new(), Door::new());
        let there = client.dial(carrier, server.address());
        let here = server.accept(carrier);
        server.carriers.queue(NOW, here, &[1], 1);
        let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
        wait("the connection", || {
            client.receive(there, &mut at_client).expect("it stands");
            server.receive(here, &mut at_server).expect("it stands");
            at_client.len() == 1
        });
        // 100 MiB for a client that reads nothing more.
        for _ in 0..3_200 {
            server.carriers.queue(NOW, here, &[7; 32_768], 32_768);
            assert!(server.carriers.flush(NOW).is_empty(), "{carrier:?}");
        }
        let held = server.carriers.live[&here].unsent();
        assert!(held <= MAX_UNSENT + MAX_UNWRITTEN + dns::MAX_MESSAGE + 1_024, "{held}");
        // The queued datagrams arrive when it reads again.
        wait("what was kept", || {
            client.receive(there, &mut at_client).expect("it stands");
            server.receive(here, &mut at_server).expect("it stands");
            at_client.len() > 30
        });
    }
}

#[test]
fn a_connection_without_a_carrier_ends_and_is_counted() {
    for (carrier, bytes) in [
        (Carrier::Tls, &b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..]),
        (Carrier::SecureWebSocket, &[0xff; 100_000]),
        (Carrier::Doh, b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"),
        (Carrier::WebSocket, b"\x16\x03\x01 no HTTP\r\n\r\n"),
        (Carrier::WebSocket, &[b'a'; 100_000]),
    ] {
        let mut door = Door::new();
        let mut stranger = std::net::TcpStream::connect(door.address()).expect("it listens");
        let id = door.accept(carrier);
        let _ = stranger.write_all(bytes);
        door.until_it_ends(id);
        assert!(door.carriers.refused() >= 1, "{carrier:?}");
        assert_eq!(door.carriers.count(), 0);
    }
}

#[test]
fn a_silent_connection_becomes_overdue() {
    let mut door = Door::new();
    let silent = std::net::TcpStream::connect(door.address()).expect("it listens");
    let id = door.accept(Carrier::Tls);
    assert!(door.carriers.overdue(NOW + OPENING - Duration::from_millis(1)).is_empty());
    assert_eq!(door.carriers.overdue(NOW + OPENING), [id]);
    // With a link the connection stays until the link has ended.
    assert!(door.carriers.attach(id, LinkId(7)));
    assert!(!door.carriers.attach(id, LinkId(8)), "it carries one link");
    assert!(door.carriers.overdue(NOW + OPENING * 100).is_empty());
    door.carriers.release(NOW, LinkId(7));
    assert!(!door.carriers.attach(id, LinkId(9)), "it is about to end");
    assert_eq!(door.carriers.overdue(NOW + ENDING), [id]);
    drop(silent);
}

#[test]
fn connections_without_a_link_are_limited() {
    let mut door = Door::new();
    const ROOM: usize = 1_024;
    let mut sockets = Vec::new();
    let from = IpAddr::from([127, 0, 0, 1]);
    for _ in 0..MAX_STRANGERS / STRANGERS_OF_HOST {
        assert_eq!(door.carriers.make_room(from, ROOM), Ok(None));
        sockets.push(std::net::TcpStream::connect(door.address()).expect("it listens"));
        door.accept(Carrier::WebSocket);
    }
    assert_eq!(door.carriers.make_room(from, ROOM), Err(HostIsFull));
    assert_eq!(door.carriers.make_room(IpAddr::from([127, 0, 0, 2]), ROOM), Ok(None));
    // Connections with a link take no stranger's place.
    let one = CarrierId(1);
    assert!(door.carriers.attach(one, LinkId(1)));
    assert_eq!(door.carriers.make_room(from, ROOM), Ok(None));
    // Where all places are taken, the oldest stranger gives way.
    for number in 0..MAX_STRANGERS - MAX_STRANGERS / STRANGERS_OF_HOST + 1 {
        sockets.push(std::net::TcpStream::connect(door.address()).expect("it listens"));
        let id = door.accept(Carrier::WebSocket);
        let far = SocketAddr::from(([10, 0, (number / 20) as u8, 1], 9));
        door.carriers.live.get_mut(&id).expect("was accepted").far = far;
    }
    let newcomer = IpAddr::from([127, 0, 0, 2]);
    // With few descriptors there are few places.
    assert_eq!(door.carriers.make_room(from, 8), Err(HostIsFull));
    assert_eq!(door.carriers.make_room(newcomer, ROOM), Ok(Some(CarrierId(2))));
}

#[test]
fn synthetic_addresses_are_distinguished_from_others() {
    let mut door = Door::new();
    let _socket = std::net::TcpStream::connect(door.address()).expect("it listens");
    let id = door.accept(Carrier::WebSocket);
    let address = door.carriers.address(id);
    assert!(door.carriers.is_synthetic(address));
    assert_eq!(door.carriers.of_address(address), Some(id));
    let next = door.carriers.next_id();
    let gone = door.carriers.address(next);
    assert_eq!(door.carriers.of_address(gone), None);
    let other_subnet = "[fd01:101:101:1::1]:1".parse().expect("is an address");
    assert_eq!(door.carriers.of_address(other_subnet), None);
    for other in ["127.0.0.1:1", "[fd02:101:101::1]:1", "[::1]:1"] {
        let other = other.parse().expect("is an address");
        assert!(!door.carriers.is_synthetic(other), "{other}");
        assert_eq!(door.carriers.of_address(other), None, "{other}");
    }
}
