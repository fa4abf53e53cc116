//! A node with its cache on a disk that hangs: a real node in this process, a producer and two consumers over sockets.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use xylem_base::Stop;
use xylem_faults::Gate;
use xylem_node::{Event, NodeConfig, NodeRoute, run_node};
use xylem_packet::{DataBuilder, InterestBuilder, Name, Packet, frame_len};

/// After this long the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads packets, and calls `on_packet` with the kind and name of each: whether it is a Data.
fn receive(mut stream: impl Read, mut on_packet: impl FnMut(bool, &Name)) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..len]);
        while let Some(len) = frame_len(&bytes).expect("packets") {
            if bytes.len() < len {
                break;
            }
            let frame: Vec<u8> = bytes.drain(..len).collect();
            let mut packet = Packet::decode(&frame).expect("a packet");
            if let Packet::Lp(lp) = packet {
                let Some(inner) = lp.fragment else { continue };
                packet = Packet::decode(inner).expect("a packet");
            }
            match packet {
                Packet::Interest(interest) => on_packet(false, &interest.name().to_name()),
                Packet::Data(data) => on_packet(true, &data.name().to_name()),
                Packet::Lp(_) => {}
            }
        }
    }
}

struct Consumer {
    socket: UnixStream,
    received: Receiver<String>,
    nonce: u32,
}

impl Consumer {
    fn new(path: &Path, nonce: u32) -> Self {
        let socket = UnixStream::connect(path).expect("the node listens");
        let (sender, received) = channel();
        let reading = socket.try_clone().expect("a handle");
        thread::spawn(move || {
            receive(reading, |is_data, name| {
                assert!(is_data, "an Interest came back");
                let _ = sender.send(name.to_string());
            });
        });
        Self { socket, received, nonce }
    }

    fn ask(&mut self, name: &str) {
        self.nonce += 1;
        let name = Name::from_uri(name).expect("a name");
        let mut packet = Vec::new();
        InterestBuilder::new(name.as_ref())
            .nonce(self.nonce.to_be_bytes())
            .lifetime_ms(60_000)
            .encode(&mut packet)
            .expect("a short name");
        self.socket.write_all(&packet).expect("the node reads");
    }

    /// Waits until each of these names is answered, in any order.
    fn is_answered<const N: usize>(&mut self, mut names: [&str; N]) {
        let mut received = names.map(|_| self.received.recv_timeout(PATIENCE).expect("an answer"));
        names.sort_unstable();
        received.sort_unstable();
        assert_eq!(received, names);
    }
}

/// Answers all Interests, and reports their names.
fn produce(stream: TcpStream, asked: Sender<String>) {
    let mut answers = stream.try_clone().expect("a handle");
    thread::spawn(move || {
        receive(stream, |is_data, name| {
            assert!(!is_data);
            let _ = asked.send(name.to_string());
            let mut packet = Vec::new();
            DataBuilder::new(name.as_ref())
                .encode(&mut packet, &[7; 1_000], |_, value| value.extend_from_slice(&[0; 32]))
                .expect("a short packet");
            let _ = answers.write_all(&packet);
        });
    });
}

/// The gate panics if the node's loop would have to wait for the disk.
#[test]
fn a_cache_on_a_disk_that_hangs_does_not_stop_the_node() {
    let gate = Gate::closed();
    gate.open();
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("n.sock");
    let producer = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut config = NodeConfig::new(dir.path().join("store"));
    config.listen = Some(vec![format!("unix://{}", socket.display()).parse().expect("a URI")]);
    config.multicast = None;
    config.cs_bytes = 20_000;
    config.cs_directory = Some(dir.path().join("cache"));
    config.cs_medium = Arc::new(gate.clone()).into();
    let to = format!("tcp4://{}", producer.local_addr().expect("an address"));
    config.routes = vec![NodeRoute {
        prefix: Name::from_uri("/").expect("a name"),
        to: to.parse().expect("a URI"),
        cost: 0,
    }];
    let stop = Stop::new();
    let (listening, listens) = channel();
    let stopped = stop.clone();
    let node = thread::spawn(move || {
        run_node(config, &stopped, &mut |event| {
            if let Event::Listening { .. } = event {
                let _ = listening.send(());
            }
        })
    });
    listens.recv_timeout(PATIENCE).expect("the node listens");
    let (upstream, _) = producer.accept().expect("the node dials");
    let (sender, asked) = channel();
    produce(upstream, sender);
    let mut one = Consumer::new(&socket, 1 << 16);
    let mut two = Consumer::new(&socket, 2 << 16);
    let data = |n: u32| format!("/data/{n}");
    for n in 0..100 {
        one.ask(&data(n));
        one.is_answered([&data(n)]);
    }
    // Most of them are on the disk now.
    let deadline = Instant::now() + PATIENCE;
    let size = || {
        let files = std::fs::read_dir(dir.path().join("cache")).expect("the cache");
        files.map(|file| file.expect("a file").metadata().expect("its size").len()).sum::<u64>()
    };
    while size() < 80_000 {
        assert!(Instant::now() < deadline, "the cache writes nothing");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(asked.try_iter().count(), 100);
    one.ask(&data(0));
    one.is_answered([&data(0)]);
    assert_eq!(asked.try_iter().count(), 0, "it came from the disk");
    // While the disk hangs, the node forwards, and asks the producer for what the disk does not return within a second.
    gate.close();
    one.ask(&data(1));
    one.ask(&data(2));
    two.ask("/new/1");
    two.is_answered(["/new/1"]);
    one.ask("/new/2");
    one.is_answered([&data(1), &data(2), "/new/2"]);
    let mut all: Vec<String> = asked.try_iter().collect();
    all.sort_unstable();
    assert_eq!(all, ["/data/1", "/data/2", "/new/1", "/new/2"]);
    // What the disk reads in time is answered from there. On a busy machine that may take several attempts.
    let came_from_disk = (3..50).any(|n| {
        gate.close();
        two.ask(&data(n));
        one.ask("/new/3");
        one.is_answered(["/new/3"]);
        gate.open();
        let opened = Instant::now();
        two.is_answered([&data(n)]);
        // The loop takes up the read when it has ended, not when the second is over.
        let is_quick = opened.elapsed() < Duration::from_millis(500);
        is_quick && !asked.try_iter().any(|name| name == data(n))
    });
    assert!(came_from_disk);
    stop.raise();
    node.join().expect("the loop never waits").expect("it ends well");
}
