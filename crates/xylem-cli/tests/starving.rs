//! Strangers that exhaust faces, connections and file descriptors, or that aim answers at a victim: the real program,
//! with honest peers beside them.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::serving::{Serving, run};
use crate::common::{
    Node, Share, assert_exit, file, get, noise, stderr, text, until, with_descriptors, xylem,
};
use xylem_packet::{
    DataBuilder, InterestBuilder, LpPacket, Name, Packet, SignatureType, probe, sha256,
};

fn interest(name: &str) -> Vec<u8> {
    let name = Name::from_uri(name).unwrap();
    let mut wire = Vec::new();
    InterestBuilder::new(name.as_ref()).encode(&mut wire).unwrap();
    wire
}

fn address(uri: &str) -> SocketAddr {
    uri.split_once("://").map_or(uri, |(_, at)| at).parse().unwrap()
}

/// An address of this machine that is not loopback; `None` where it has no network.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: the system only chooses a route.
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

/// Sends an Interest until an answer comes, as a consumer does.
fn answered_over_udp(at: SocketAddr, ask: &[u8]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    until("an answer over UDP", || {
        socket.send_to(ask, at).unwrap();
        socket.recv(&mut [0; 9_000]).is_ok()
    });
}

/// Sends one Interest over a Unix socket and waits for its answer, on a connection of its own.
fn answered_over_unix(path: &Path, ask: &[u8]) {
    until("an answer over the Unix socket", || {
        let Ok(mut stream) = UnixStream::connect(path) else { return false };
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        stream.write_all(ask).is_ok() && stream.read(&mut [0; 9_000]).is_ok_and(|n| n > 0)
    });
}

/// At least 1,100 datagrams of 14 bytes, each from a port of its own.
fn datagrams_from_many_ports(at: SocketAddr, contents: &[u8]) {
    for _ in 0..3_000 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(contents, at).unwrap();
    }
}

#[test]
fn datagrams_from_many_ports_leave_faces_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let source = file(dir.path(), "source", &noise(10_000, 1));
    let share = Share::plain(&source, &dir.path().join("store"));
    let asked = format!("{}/_root", share.shared["name"].as_str().unwrap());
    for (at, ask) in [
        (address(node.at("udp4")), interest("/nobody/has/this")),
        (address(share.plain.as_ref().unwrap()), interest(&asked)),
    ] {
        for contents in [b"\x05\x0c14 random bit".to_vec(), interest("/a")] {
            datagrams_from_many_ports(at, &contents);
            answered_over_udp(at, &ask);
        }
    }
}

/// Opens connections that send nothing, until the system makes no more.
fn connect(idle: &mut Vec<TcpStream>, to: SocketAddr, count: usize) {
    let patience = Duration::from_secs(1);
    let made = (0..count).map_while(|_| TcpStream::connect_timeout(&to, patience).ok());
    idle.extend(made);
}

#[test]
fn idle_connections_leave_descriptors_for_local_programs() {
    let dir = tempfile::tempdir().unwrap();
    let any = "0.0.0.0:0";
    for (i, ip) in [Some(IpAddr::from([127, 0, 0, 1])), own_address()].into_iter().enumerate() {
        let Some(ip) = ip else {
            common::skipped("this machine has no network");
            continue;
        };
        let home = dir.path().join(i.to_string());
        fs::create_dir(&home).unwrap();
        let socket = home.join("node.sock");
        let listen = format!("listen = [\"unix://{}\", \"tcp4://{any}\"]", socket.display());
        let command = with_descriptors(128, &home.join("store"));
        let node = Node::run(command, &home, &format!("[node]\n{listen}\n"));
        let at = SocketAddr::new(ip, address(node.at("tcp4")).port());
        // More connections than descriptors.
        let mut idle = Vec::new();
        connect(&mut idle, at, 400);
        answered_over_unix(&socket, &interest("/nobody/has/this"));
        assert!(node.told("trouble").len() == 1, "said once: {:?}", node.told("trouble"));
        // A connection with traffic is kept among strangers without any.
        let mut works = UnixStream::connect(&socket).unwrap();
        works.write_all(&interest("/nobody/has/that")).unwrap();
        assert!(works.read(&mut [0; 9_000]).unwrap() > 0);
        connect(&mut idle, at, 200);
        works.write_all(&interest("/nobody/has/that/either")).unwrap();
        assert!(works.read(&mut [0; 9_000]).unwrap() > 0);
    }
}

/// The system refuses to hand over a connection: it is reported once, the loop does not spin, and the waiting
/// connection is accepted later.
#[cfg(target_os = "linux")]
#[test]
fn a_connection_the_system_withholds_is_reported_and_accepted_later() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let limit = |files: usize| {
        let (pid, files) = (node.pid().to_string(), format!("--nofile={files}:"));
        std::process::Command::new("prlimit").args(["--pid", &pid, &files]).status()
    };
    let open = fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap();
    let number = |entry: fs::DirEntry| entry.file_name().to_str().unwrap().parse().unwrap();
    let numbers: Vec<usize> = open.map(|entry| number(entry.unwrap())).collect();
    let free = (0..).find(|number| !numbers.contains(number)).unwrap();
    if limit(free).is_err() {
        common::skipped("prlimit is not here");
        return;
    }
    let mut waits = UnixStream::connect(dir.path().join("node.sock")).unwrap();
    waits.write_all(&interest("/nobody/has/this")).unwrap();
    until("a word on it", || !node.told("trouble").is_empty());
    let before = common::sleeps(node.pid());
    until("sleep", || common::sleeps(node.pid()) > before + 30);
    let told = node.told("trouble");
    assert!(told.len() == 1 && told[0]["what"].as_str().unwrap().contains("ulimit"), "{told:?}");
    assert!(limit(1_024).unwrap().success());
    waits.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert!(waits.read(&mut [0; 9_000]).unwrap() > 0);
}

#[test]
fn a_directory_is_served_with_few_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for i in 0..200 {
        file(&tree, &i.to_string(), &noise(20_000, i));
    }
    let share = Share::run(with_descriptors(64, &dir.path().join("store")), &tree, &[]);
    let out = dir.path().join("out");
    let output = get(&dir.path().join("s"), &[&share.ticket, "--timeout", "60", "-o", text(&out)]);
    assert_exit(&output, 0);
    for i in 0..200 {
        assert!(fs::read(out.join(i.to_string())).unwrap() == noise(20_000, i), "{i}");
    }
    assert!(share.told("skipped").is_empty(), "{:?}", share.told("skipped"));
}

/// Addresses of this machine at which UDP peers have to prove theirs, with the setting of `udp_prove` for that: on
/// loopback only if it is asked for, elsewhere by default.
fn untrusted_addresses() -> impl Iterator<Item = (IpAddr, &'static str)> {
    let loopback = (IpAddr::from([127, 0, 0, 1]), "udp_prove = \"all\"");
    [Some(loopback), own_address().map(|ip| (ip, ""))].into_iter().flatten()
}

/// A forged address receives at most three bytes for one beyond its budget, until a program at that address has answered.
#[test]
fn an_address_that_has_not_answered_gets_three_bytes_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(2_000_000, 3);
    let source = file(dir.path(), "source", &content);
    let share = Share::plain(&source, &dir.path().join("store"));
    let upstream = format!("tcp4://{}", share.plain.clone().unwrap());
    let home = |name: &str| {
        let home = dir.path().join(name);
        fs::create_dir(&home).unwrap();
        home
    };
    for (ip, prove) in untrusted_addresses() {
        let settings = format!(
            "[node]\nlisten = [\"udp4://{ip}:0\", \"tcp4://{ip}:0\"]\n{prove}\nudp_unproven_bytes = 0\n\
             [[node.route]]\nprefix = \"/\"\nto = \"{upstream}\"",
        );
        let node = Node::with(&home(&format!("node-{ip}")), &settings);
        reflects_no_more_than_three_for_one(&node, &share);
        // Our programs answer the probe by themselves, and so do nodes on the way.
        let outer_home = home(&format!("outer-{ip}"));
        let from = node.at("udp4");
        let route = format!("[[node.route]]\nprefix = \"/\"\nto = \"{from}\"");
        let outer = Node::start(&outer_home, &route);
        for from in [from, outer.at("unix")] {
            let out = outer_home.join("out");
            let output =
                get(&outer_home.join("s"), &[&share.ticket, "--from", from, "-o", text(&out)]);
            assert_exit(&output, 0);
            assert!(fs::read(&out).unwrap() == content);
            fs::remove_file(&out).unwrap();
        }
        let mut peek = xylem(&outer_home.join("s"));
        let name = format!("{}/seg=3", share.shared["name"].as_str().unwrap());
        peek.args(["ndn", "peek", "--at", from, &name]);
        let output = common::finish(peek);
        assert_exit(&output, 0);
        assert!(output.stdout.len() > 1_000, "{}", stderr(&output));
    }
}

fn reflects_no_more_than_three_for_one(node: &Node, share: &Share) {
    let at = address(node.at("udp4"));
    let prefix = share.shared["name"].as_str().unwrap().to_owned();
    // The Data are in the cache, or soon: over a connection every consumer gets them.
    let segment = |n: usize| interest(&format!("{prefix}/seg={n}"));
    let tcp = address(node.at("tcp4"));
    let mut stream = TcpStream::connect(tcp).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut largest = 0;
    for n in 0..30 {
        stream.write_all(&segment(n)).unwrap();
        largest = largest.max(stream.read(&mut [0; 9_000]).unwrap());
    }
    assert!(largest > 1_000, "a Data is much larger than its Interest");

    let socket = UdpSocket::bind((at.ip(), 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buffer = [0; 9_000];
    let (mut sent, mut came, mut question) = (0, 0, None);
    for n in 0..200 {
        let ask = segment(n % 30);
        sent += socket.send_to(&ask, at).unwrap();
        // The last one waits for answers that are still on their way.
        socket.set_nonblocking(n < 199).unwrap();
        while let Ok(len) = socket.recv(&mut buffer) {
            came += len;
            if probe::is_probe(&buffer[..len]) {
                question = Some(buffer[..len].to_vec());
            }
            assert!(came <= 3 * sent, "{came} bytes for {sent}");
        }
    }
    // An address that sends on and never answers the probe is reported, once.
    socket.set_nonblocking(false).unwrap();
    until("a word on who does not answer", || {
        socket.send_to(&segment(7), at).unwrap();
        sent += segment(7).len();
        came += socket.recv(&mut buffer).unwrap_or(0);
        assert!(came <= 3 * sent, "{came} bytes for {sent}");
        node.told("trouble").len() == 1
    });
    // The probe comes back as a Nack, and the waiting answers follow.
    let question = question.expect("it was asked whether it is there");
    let nack = [&[0x64, 39, 0xfd, 0x03, 0x20, 0, 0x50, 33][..], &question].concat();
    socket.send_to(&nack, at).unwrap();
    until("Data for an address that has answered", || {
        socket.send_to(&segment(7), at).unwrap();
        let len = socket.recv(&mut buffer).unwrap_or(0);
        matches!(Packet::decode(&buffer[..len]), Ok(Packet::Data(data)) if len > 1_000
            && data.name().to_string().starts_with(&prefix))
    });
}

/// The object that consumers request below: segments of 8,000 bytes.
const OBJECT: &str = "/far/film/v=7";
/// Bytes that an address gets beyond three for one, and as many again in twenty minutes (docs/spec/faces.md).
const BUDGET: u64 = 2_000_000;

/// A node with these settings and `put` behind it, which publishes a megabyte as [`OBJECT`].
struct Publisher {
    node: Node,
    content: Vec<u8>,
    _put: Serving,
}

impl Publisher {
    fn start(home: &Path, ip: IpAddr, settings: &str) -> Self {
        fs::create_dir(home).unwrap();
        let socket = home.join("node.sock");
        let listen = format!("listen = [\"unix://{}\", \"udp4://{ip}:0\"]", socket.display());
        let node = Node::with(home, &format!("[node]\n{listen}\n{settings}\n"));
        let content = noise(1_000_000, 4);
        let source = file(home, "source", &content);
        let at = node.at("unix");
        let put = ["ndn", "put", OBJECT, text(&source), "--segments", "--at", at];
        let put = Serving::start(home, &put);
        let first = format!("{OBJECT}/seg=0");
        until("the object", || run(home, &["ndn", "peek", &first, "--at", at]).status.success());
        Self { node, content, _put: put }
    }
}

/// A program that only consumes: as NDNd, NDNts and python-ndn, it ignores the probe.
struct Consumer {
    at: SocketAddr,
    /// Two ports of one address.
    sockets: [UdpSocket; 2],
    sent: usize,
    came: usize,
    began: Instant,
}

impl Consumer {
    fn of(node: &Node) -> Self {
        let at = address(node.at("udp4"));
        let sockets = [(); 2].map(|()| UdpSocket::bind((at.ip(), 0)).unwrap());
        Self { at, sockets, sent: 0, came: 0, began: Instant::now() }
    }

    /// Requests a segment that comes, again after each three seconds: an answer to each request counts.
    fn fetch(&mut self, n: usize) -> Option<Vec<u8>> {
        (0..10).find_map(|_| self.ask_for(Duration::from_secs(3), 0, n))
    }

    /// Requests a segment once, and waits for a moment.
    fn ask(&mut self, socket: usize, n: usize) -> Option<Vec<u8>> {
        self.ask_for(Duration::from_millis(200), socket, n)
    }

    /// Requests a segment once; returns its content if it comes.
    fn ask_for(&mut self, wait: Duration, socket: usize, n: usize) -> Option<Vec<u8>> {
        self.sockets[socket].set_read_timeout(Some(wait)).unwrap();
        let asked = interest(&format!("{OBJECT}/seg={n}"));
        self.sent += self.sockets[socket].send_to(&asked, self.at).unwrap();
        let name = Name::from_uri(&format!("{OBJECT}/seg={n}")).unwrap();
        let mut buffer = [0; 9_000];
        while let Ok(len) = self.sockets[socket].recv(&mut buffer) {
            self.came += len;
            if let Ok(Packet::Data(data)) = Packet::decode(&buffer[..len])
                && data.name().value() == name.as_ref().value()
            {
                return Some(data.content().to_vec());
            }
        }
        None
    }

    /// Checks that the node has sent no more than three bytes for one and the budget.
    fn has_no_more_than_its_budget(&self) {
        let refill = 20 * 60 * 1_000;
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap();
        let most = 3 * self.sent as u64 + BUDGET + BUDGET * elapsed / refill + 2;
        assert!(self.came as u64 <= most, "{} bytes came, not {most}", self.came);
    }
}

#[test]
fn a_consumer_that_proves_nothing_fetches_a_megabyte_over_udp() {
    let dir = tempfile::tempdir().unwrap();
    for (ip, prove) in untrusted_addresses() {
        let home = dir.path().join(ip.to_string());
        let publisher = Publisher::start(&home, ip, prove);
        let mut consumer = Consumer::of(&publisher.node);
        let mut fetched = Vec::new();
        for n in 0..publisher.content.len() / 8_000 {
            // Requests are repeated, as consumers do.
            let content = consumer.fetch(n);
            fetched.extend(content.unwrap_or_else(|| panic!("segment {n} does not come")));
        }
        assert!(fetched == publisher.content);
        assert!(publisher.node.told("trouble").is_empty(), "it was sent all that it asked for");

        // With the rest of the budget the extra bytes end, and that is reported once.
        let mut n = 0;
        until("a report on the consumer", || {
            n += 1;
            consumer.ask(0, n % 100);
            consumer.has_no_more_than_its_budget();
            !publisher.node.told("trouble").is_empty()
        });
        // Another port of the address has no budget of its own.
        for n in 0..30 {
            consumer.ask(1, n);
        }
        consumer.has_no_more_than_its_budget();
        assert_eq!(publisher.node.told("trouble").len(), 1);
    }
}

/// A route proves the address of the face that it leads to: an operator has named it.
#[test]
fn an_address_that_an_operator_names_needs_no_proof() {
    let dir = tempfile::tempdir().unwrap();
    for (ip, prove) in untrusted_addresses() {
        let home = dir.path().join(ip.to_string());
        let settings = format!("{prove}\nudp_unproven_bytes = 0");
        let publisher = Publisher::start(&home, ip, &settings);
        let mut consumer = Consumer::of(&publisher.node);
        assert!(consumer.ask(0, 1).is_none(), "three bytes for one are no segment");
        let uri = format!("udp://{}", consumer.sockets[0].local_addr().unwrap());
        let at = publisher.node.at("unix");
        let route = ["ndn", "ctl", "route", "add", "/theirs", &uri, "--at", at];
        assert_exit(&run(&home, &route), 0);
        for n in 2..100 {
            let content = consumer.fetch(n);
            assert!(content.is_some(), "segment {n} does not come");
        }
    }
}

impl Consumer {
    /// Waits for an Interest of the node below `/theirs`; returns its name and PIT token.
    fn is_asked(&self) -> (Name, Vec<u8>) {
        self.sockets[0].set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut buffer = [0; 9_000];
        loop {
            let len = self.sockets[0].recv(&mut buffer).expect("an Interest of the node");
            let Ok(lp) = LpPacket::decode(&buffer[..len]) else { continue };
            if let Some(Ok(Packet::Interest(asked))) = lp.fragment.map(Packet::decode)
                && asked.name().to_string().starts_with("/theirs/")
            {
                return (asked.name().to_name(), lp.pit_token.unwrap_or_default().to_vec());
            }
        }
    }

    /// Sends Data of this name with this PIT token.
    fn answers(&self, name: &Name, token: &[u8]) {
        let (mut data, mut frame) = (Vec::new(), Vec::new());
        DataBuilder::new(name.as_ref())
            .signature(SignatureType::DIGEST_SHA256, None)
            .encode(&mut data, b"theirs", |signed, value| value.extend(sha256(signed)))
            .unwrap();
        let lp = LpPacket { pit_token: Some(token), fragment: Some(&data), ..LpPacket::default() };
        lp.encode(&mut frame);
        self.sockets[0].send_to(&frame, self.at).unwrap();
    }
}

/// A neighbour that answers no probe proves its address by Data for an Interest of the node: the PIT token comes back.
#[test]
fn an_answer_with_our_pit_token_proves_the_address() {
    let dir = tempfile::tempdir().unwrap();
    for (ip, prove) in untrusted_addresses() {
        let home = dir.path().join(ip.to_string());
        // The node asks every face, without a route that an operator has made.
        let search = "[[node.strategy]]\nprefix = \"/theirs\"\n\
                      strategy = \"/localhost/nfd/strategy/self-learning\"";
        let settings = format!("{prove}\nudp_unproven_bytes = 0\n{search}");
        let publisher = Publisher::start(&home, ip, &settings);
        let mut consumer = Consumer::of(&publisher.node);
        let at = publisher.node.at("unix");
        for (n, is_ours) in [(1, false), (2, true)] {
            // Three bytes for one are no segment, but they are an Interest of the node.
            assert!((0..5).all(|more| consumer.ask(0, 5 * n + more).is_none()));
            let name = format!("/theirs/{n}");
            let output = std::thread::scope(|scope| {
                let peek = scope.spawn(|| run(&home, &["ndn", "peek", &name, "-p", "--at", at]));
                let (name, mut token) = consumer.is_asked();
                assert_eq!(token.len(), 6, "an Interest to such an address has a token");
                token[5] ^= u8::from(!is_ours);
                consumer.answers(&name, &token);
                peek.join().unwrap()
            });
            assert_exit(&output, 0);
            assert_eq!(output.stdout, b"theirs");
        }
        for n in 20..100 {
            let content = consumer.fetch(n);
            assert!(content.is_some(), "segment {n} does not come");
        }
    }
}
