//! `xylem relay`, the real program: its clients, and its attackers.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::relaying::{Client, relay_at, until};
use crate::common::{Node, Share, xylem};
use serde_json::Value;
use xylem_object::PublisherKey;
use xylem_reach::relay::{
    CircuitTag, ConnectTarget, RelayClient, RelayEvent, RelayPort, RelayRefusal, VouchedName,
};

/// A process that is killed when dropped.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Relay {
    _dir: tempfile::TempDir,
    node: Node,
    uri: String,
}

/// A relay on all of loopback, with more settings.
fn relay(settings: &str) -> Relay {
    let dir = tempfile::tempdir().unwrap();
    let settings = format!(
        "[node]\nlisten = [\"xylem://0.0.0.0:0\"]\n[node.relay]\nreport_seconds = 1\nannounce = \
         [\"relay.example.org:7000\"]\n{settings}\n"
    );
    let node = Node::with(dir.path(), &settings);
    let uri = node.at("xylem").replace("0.0.0.0", "127.0.0.1");
    Relay { _dir: dir, node, uri }
}

impl Relay {
    /// Waits for a status event of the relay for which `is` holds.
    fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        common::until(what, || {
            last = self.node.told("relayed").last().cloned().unwrap_or_default();
            is(&last)
        });
        last
    }

    fn at(&self) -> SocketAddr {
        relay_at(&self.uri).1
    }

    fn client(&self, from: &str, seed: u64, listens: bool) -> Client {
        Client::new(&self.uri, ip(from), seed, listens, vec![])
    }

    /// Two connected clients, and the tags of their circuit.
    fn pair(&self, seed: u64) -> (Client, Client, CircuitTag, CircuitTag) {
        let mut b = self.client("127.0.0.1", seed, true);
        until("registration", &mut [&mut b], |all| all[0].is_registered());
        let mut a = self.client("127.0.0.1", seed + 1, false);
        let tag = a.connect(ConnectTarget::Key(b.key));
        until("connection", &mut [&mut a, &mut b], |all| {
            all[0].events.contains(&RelayEvent::Connected(tag))
        });
        a.send(tag, b"hello");
        until("datagram", &mut [&mut a, &mut b], |all| !all[1].received.is_empty());
        let back = b.received[0].0;
        b.send(back, b"hello");
        until("datagram", &mut [&mut a, &mut b], |all| !all[0].received.is_empty());
        (a, b, tag, back)
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn works(a: &mut Client, b: &mut Client, tag: CircuitTag) {
    let before = b.received.len();
    a.send(tag, b"still");
    until("datagram", &mut [a, b], |all| all[1].received.len() > before);
}

#[test]
fn a_relay_prints_its_address_and_counters() {
    let relay = relay("");
    common::until("relaying", || !relay.node.told("relaying").is_empty());
    let told = relay.node.told("relaying").remove(0);
    let uris: Vec<&str> =
        told["uris"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let key = relay.uri.split('@').next().unwrap();
    assert_eq!(uris[0], format!("{key}@relay.example.org:7000"));
    assert!(uris.iter().all(|uri| uri.starts_with(key)), "{uris:?}");
    let _pair = relay.pair(1);
    relay.until("two registrations", |told| {
        told["registrations"] == 2 && told["circuits"] == 1 && told["datagrams"] == 2
    });
}

/// The relay is killed and restarted at once. An idle sharer, with its next keep-alive hours away, is registered again
/// before any getter asks for it. A relay that ends in order keeps no state of its clients.
#[cfg(unix)]
#[test]
fn a_relay_that_was_killed_has_its_idle_clients_again() {
    let dir = tempfile::tempdir().unwrap();
    let settings = |port: u16| {
        format!(
            "[node]\nlisten = [\"xylem://127.0.0.1:{port}\"]\n[node.relay]\nsecond_port = 0\nreport_seconds = 1\n\
             lifetime_seconds = 65535\n"
        )
    };
    let node = Node::with(dir.path(), &settings(0));
    let uri = node.at("xylem").to_owned();
    let port = relay_at(&uri).1.port();
    let source = common::file(dir.path(), "source", &[7; 1_000]);
    let share = Share::with(&source, &dir.path().join("share"), &["--relay", &uri]);
    let registered = || {
        let told = share.told("relay");
        told.iter().filter(|told| told["registered"] == true).count()
    };
    let kept = dir.path().join("node-store/relay-clients");
    let mut node = Some(node);
    for times in 1..4 {
        // Its first keep-alive, soon after the registration, was answered; the kept state is of that time.
        common::until("it is registered", || registered() == times);
        common::until("a keep-alive is answered", || {
            let told = node.as_ref().and_then(|node| node.told("relayed").last().cloned());
            told.is_some_and(|told| told["keeps"].as_u64() >= Some(1))
        });
        common::until("it is kept", || {
            std::fs::metadata(&kept).is_ok_and(|it| it.len() == 26 + 32)
        });
        node.take().expect("it runs").kill();
        node = Some(Node::with(dir.path(), &settings(port)));
    }
    common::until("it is registered", || registered() == 4);
    assert_eq!(node.take().expect("it runs").signal("-INT"), Some(0));
    assert!(!kept.exists());
}

/// Passes TCP on to a relay. Connections that are open when it falls silent pass nothing any more, and stay open: so
/// does one to a host that is gone.
struct TcpProxy {
    at: SocketAddr,
    accepted: Arc<AtomicUsize>,
    silent: Arc<AtomicUsize>,
}

impl TcpProxy {
    fn before(relay: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let (accepted, silent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (count, limit) = (accepted.clone(), silent.clone());
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                count.store(number + 1, Ordering::SeqCst);
                let Ok(relay) = TcpStream::connect(relay) else { continue };
                let (back, forth) = (client.try_clone().unwrap(), relay.try_clone().unwrap());
                for (mut from, mut to) in [(client, forth), (relay, back)] {
                    let limit = limit.clone();
                    std::thread::spawn(move || {
                        let mut buffer = [0; 65_536];
                        while let Ok(len @ 1..) = from.read(&mut buffer) {
                            let passes = number >= limit.load(Ordering::SeqCst);
                            if passes && to.write_all(&buffer[..len]).is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        });
        Self { at, accepted, silent }
    }

    fn fall_silent(&self) {
        self.silent.store(self.accepted.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// A keep-alive is sent 0.7 s after each registration. A slow machine may fall silent later, and then the next one is
/// due after 20 s: one quick round in four is enough. It took 25 s and longer.
#[test]
fn a_relay_that_falls_silent_over_tcp_is_dialled_anew() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        "[node]\nlisten = [\"xylem://127.0.0.1:0\", \"xylem+wss://127.0.0.1:0\"]\n[node.relay]\n";
    let node = Node::with(dir.path(), settings);
    let port = node.at("xylem+wss").rsplit(':').next().unwrap().parse().unwrap();
    let proxy = TcpProxy::before(SocketAddr::from(([127, 0, 0, 1], port)));
    let (key, _) = node.at("xylem").strip_prefix("xylem://").unwrap().split_once('@').unwrap();
    let source = common::file(dir.path(), "source", &[7; 1_000]);
    let uri = format!("{key}@{}", proxy.at);
    let share = Share::with(&source, &dir.path().join("share"), &["--relay", &uri]);
    let registered = || {
        let told = share.told("relay").into_iter();
        told.filter(|told| told["registered"] == true && told["over_tcp"] == true).count()
    };
    let mut quickest = Duration::MAX;
    for round in 1..5 {
        common::until("it is registered", || registered() >= round);
        let before = registered();
        proxy.fall_silent();
        let begun = Instant::now();
        common::until("it is registered anew", || registered() > before);
        quickest = quickest.min(begun.elapsed());
        if quickest < Duration::from_secs(15) {
            return;
        }
    }
    panic!("it took {quickest:?}");
}

#[test]
fn no_settings_are_needed_for_a_relay() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = xylem(&dir.path().join("store"));
    command.args(["relay", "--listen", "xylem://127.0.0.1:0"]);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(stderr).map_while(Result::ok);
    assert!(lines.any(|line| line.contains("Others name it with --relay")));
    let uri = lines.next().unwrap().trim().to_owned();
    let mut client = Client::new(&uri, ip("127.0.0.1"), 1, true, vec![]);
    until("registration", &mut [&mut client], |all| all[0].is_registered());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Of the places in the settings a relay opens those of encrypted links; it refuses others on the command line.
#[test]
fn a_relay_opens_ports_for_links_alone() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "[node]\nlisten = [\"unix://{}\", \"udp4://127.0.0.1:0\", \"tcp4://127.0.0.1:0\", \
         \"ws://127.0.0.1:0\", \"xylem://127.0.0.1:0\"]\n",
        dir.path().join("sock").display()
    );
    let config = common::file(dir.path(), "node.toml", config.as_bytes());
    let mut command = xylem(&dir.path().join("store"));
    command.arg("--json").arg("--config").arg(&config).arg("relay");
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut relay = Killed(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    let stdout = std::io::BufReader::new(relay.0.stdout.take().unwrap());
    let lines = std::io::BufRead::lines(stdout).map_while(Result::ok);
    let events = lines.map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
    // The second port and the addresses to hand out are the last that a relay reports at its start.
    let before = events.take_while(|event| event["event"] != "relaying");
    let opened: Vec<_> = before.filter(|event| event["event"] == "listening").collect();
    let is_link =
        |event: &serde_json::Value| event["uri"].as_str().unwrap().starts_with("xylem://");
    assert!(!opened.is_empty() && opened.iter().all(is_link), "{opened:?}");
    assert!(!dir.path().join("sock").exists());
    drop(relay);
    let mut command = xylem(&dir.path().join("store"));
    command.args(["relay", "--listen", "udp://127.0.0.1:0"]);
    let refused = common::finish(command);
    common::assert_exit(&refused, 2);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("xylem ndn node"));
}

/// A relay's counters are shown for Prometheus where that is asked for. A node that is no relay has none.
#[test]
fn prometheus_gets_the_counters_of_a_relay() {
    use std::io::{BufRead, BufReader, Read, Write};
    let dir = tempfile::tempdir().unwrap();
    let config = common::file(
        dir.path(),
        "node.toml",
        b"[node.relay]\nreport_seconds = 1\n[node.multicast]\nenabled = false\n",
    );
    let mut command = xylem(&dir.path().join("store"));
    command.arg("--config").arg(config).args(["relay", "--metrics", "127.0.0.1:0"]);
    command.args(["--listen", "xylem://127.0.0.1:0"]).stdin(std::process::Stdio::null());
    let mut node = Killed(command.stderr(std::process::Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(node.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let page = lines.find_map(|line| Some(line.split_once("http://")?.1.to_owned())).unwrap();
    assert!(lines.any(|line| line.contains("Others name it with --relay")));
    let uri = lines.next().unwrap().trim().to_owned();
    let at = page.strip_suffix("/metrics").unwrap();
    let shows = |wanted: &[&str]| {
        let mut connection = std::net::TcpStream::connect(at).unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        wanted.iter().all(|wanted| text.lines().any(|line| line == *wanted))
    };
    common::until("it shows nothing yet", || {
        shows(&["xylem_relay_registrations 0", "xylem_relay_bytes_total 0"])
    });
    let mut b = Client::new(&uri, ip("127.0.0.1"), 1, true, vec![]);
    until("registration", &mut [&mut b], |all| all[0].is_registered());
    let mut a = Client::new(&uri, ip("127.0.0.1"), 2, false, vec![]);
    let tag = a.connect(ConnectTarget::Key(b.key));
    let nobody = a.connect(ConnectTarget::Key([9; 32]));
    until("both answers", &mut [&mut a, &mut b], |all| {
        let refused = RelayEvent::Refused(Some(nobody), RelayRefusal::NotHere);
        [RelayEvent::Connected(tag), refused].iter().all(|event| all[0].events.contains(event))
    });
    a.send(tag, b"hello");
    until("datagram", &mut [&mut a, &mut b], |all| !all[1].received.is_empty());
    common::until("it shows what was done", || {
        shows(&[
            "# TYPE xylem_relay_registrations gauge",
            "xylem_relay_registrations 2",
            "xylem_relay_circuits 1",
            "# TYPE xylem_relay_bytes_total counter",
            "xylem_relay_bytes_total 17",
            "xylem_relay_datagrams_total 1",
            "xylem_relay_refused_not_here_total 1",
        ])
    });
    drop(node);
}

/// Registration, connection request and first datagram leave together, behind the handshake's last message.
#[test]
fn the_first_datagram_needs_no_round_trip_of_its_own() {
    let relay = relay("");
    let mut b = relay.client("127.0.0.1", 1, true);
    until("registration", &mut [&mut b], |all| all[0].is_registered());
    let mut a = relay.client("127.0.0.1", 2, false);
    let tag = a.connect(ConnectTarget::Key(b.key));
    a.early = Some((tag, b"first".to_vec()));
    until("datagram", &mut [&mut a, &mut b], |all| !all[1].received.is_empty());
    assert_eq!(b.received[0].1, b"first");
}

#[test]
fn a_registration_outlives_its_link_and_both_ports_tell_addresses() {
    let relay = relay("");
    let (mut a, mut b, tag, _) = relay.pair(1);
    let seen = |by, client: &Client| RelayEvent::Observed {
        address: client.socket.local_addr().unwrap(),
        by,
    };
    until("both ports", &mut [&mut b], |all| {
        let seen = [RelayPort::First, RelayPort::Second].map(|by| seen(by, all[0]));
        seen.iter().all(|seen| all[0].events.contains(seen))
    });
    a.hang_up();
    b.hang_up();
    works(&mut a, &mut b, tag);
}

/// Datagrams of any size that a network carries, in bursts: each arrives unchanged, whatever the kernel joins.
#[test]
fn bursts_pass_as_they_are() {
    let relay = relay("");
    let (mut a, mut b, tag, _) = relay.pair(1);
    b.received.clear();
    let mut sent = Vec::new();
    for burst in 0..40_usize {
        for i in 0..8_usize {
            let datagram = common::noise([1, 100, 1_200, 1_400, 9_000][(burst + i) % 5], i as u64);
            a.send(tag, &datagram);
            sent.push(datagram);
        }
        let upto = sent.len();
        until("burst", &mut [&mut a, &mut b], |all| all[1].received.len() >= upto);
    }
    assert!(b.received.iter().map(|(_, datagram)| datagram).eq(&sent));
}

#[test]
fn a_flood_of_registrations_takes_the_place_of_no_other_host() {
    let relay = relay(
        "registrations = 60\nregistrations_of_host = 20\nregistrations_of_site = 30\n\
         registrations_per_second = 0\nregistrations_of_key = 4",
    );
    let (mut a, mut b, tag, _) = relay.pair(1);
    // One host takes its quota, and is refused more.
    let mut crowd: Vec<Client> = Vec::new();
    for seed in 0..30 {
        let mut one = relay.client("127.9.9.1", 100 + seed, true);
        until("an answer", &mut [&mut one], |all| {
            all[0].is_registered() || all[0].refused().is_some()
        });
        crowd.push(one);
    }
    let refused = crowd.iter().filter(|one| one.refused() == Some(RelayRefusal::Quota)).count();
    assert_eq!(refused, 10);
    // A network of many hosts fills its own quota.
    for seed in 0..60_u8 {
        let from = format!("127.8.8.{}", seed + 1);
        let mut one = relay.client(&from, 200 + u64::from(seed), true);
        until("registration", &mut [&mut one], |all| all[0].is_registered());
    }
    let told = relay.until("places", |told| told["crowded_out"].as_u64() > Some(0));
    assert!(told["registrations"].as_u64() <= Some(2 + 20 + 30), "{told}");
    works(&mut a, &mut b, tag);
    // One key with many secrets fills the quota of one key.
    let before = told["registrations"].as_u64();
    for secret in 0..8 {
        let mut one = Client::idle(&relay.uri, ip("127.6.6.1"), 300, true, vec![]);
        one.relay = RelayClient::new([secret; 32], true, vec![]);
        let request = one.relay.request();
        one.ask(&request);
        until("registration", &mut [&mut one], |all| all[0].is_registered());
    }
    let told = relay.until("its places", |told| told["registered"].as_u64() >= Some(90));
    assert!(told["registrations"].as_u64() <= before.map(|before| before + 4), "{told}");
    // Where all places are taken, the holders of the most registrations give way.
    for seed in 0..20_u8 {
        let from = format!("127.7.7.{}", seed + 1);
        let mut one = relay.client(&from, 400 + u64::from(seed), true);
        until("registration", &mut [&mut one], |all| all[0].is_registered());
    }
    let told = relay.until("more places", |told| told["registered"].as_u64() >= Some(110));
    assert!(told["registrations"].as_u64() <= Some(60), "{told}");
    works(&mut a, &mut b, tag);
    assert!(told["refused_quota"].as_u64() >= Some(10), "{told}");
}

#[test]
fn a_host_registers_only_so_often() {
    let relay = relay("registrations_per_second = 1");
    let (mut a, mut b, tag, _) = relay.pair(1);
    let mut refused = 0;
    for seed in 0..40 {
        let mut one = relay.client("127.9.9.1", 100 + seed, false);
        until("an answer", &mut [&mut one], |all| {
            all[0].is_registered() || all[0].refused().is_some()
        });
        refused += u32::from(one.refused() == Some(RelayRefusal::Quota));
    }
    assert!(refused >= 1, "{refused}");
    works(&mut a, &mut b, tag);
}

#[test]
fn a_flood_of_requests_is_refused_and_then_ignored() {
    let relay = relay("connects_per_second = 2");
    let (mut a, mut b, tag, _) = relay.pair(1);
    let mut flood = relay.client("127.9.9.1", 100, false);
    until("registration", &mut [&mut flood], |all| all[0].is_registered());
    for _ in 0..500 {
        for number in 0..10 {
            flood.connect(ConnectTarget::Code(number));
        }
        flood.turn();
    }
    until("answers", &mut [&mut flood], |all| all[0].events.len() > 4_000);
    let quota = |event: &&RelayEvent| matches!(event, RelayEvent::Refused(_, RelayRefusal::Quota));
    let refused = flood.events.iter().filter(quota).count();
    assert!(refused > 3_900, "{refused}");
    works(&mut a, &mut b, tag);
    let again = a.connect(ConnectTarget::Key(b.key));
    until("connection", &mut [&mut a], |all| all[0].events.contains(&RelayEvent::Connected(again)));
}

/// One pair sends 200 times as much as another through a full relay: it gets at most twice as much as the other, whose
/// datagrams all arrive.
#[test]
fn a_pair_that_sends_far_more_gets_no_more_than_its_part() {
    let relay = relay("bytes_per_second = 200000");
    let (mut a, mut b, tag, _) = relay.pair(1);
    let (mut c, mut d, greedy, _) = relay.pair(3);
    b.received.clear();
    d.received.clear();
    let datagram = common::noise(1_000, 1);
    // 80 and 16,000 datagrams a second for three seconds: 80 kB, of a part of 100 kB, and 16 MB.
    let (began, mut sent) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(3) {
        a.send(tag, &datagram);
        sent += 1;
        for _ in 0..200 {
            c.send(greedy, &datagram);
        }
        let next = began + Duration::from_micros(12_500) * sent;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        // Reads what has come.
        [&mut b, &mut d].into_iter().for_each(Client::turn);
    }
    let kilobytes = began.elapsed().as_millis() / 5;
    for _ in 0..100 {
        [&mut b, &mut d].into_iter().for_each(Client::turn);
    }
    let (modest, greedy) = (b.received.len() as u128, d.received.len() as u128);
    assert!(modest * 10 >= u128::from(sent) * 9, "{modest} of {sent}");
    assert!(greedy <= kilobytes, "{greedy} of {kilobytes}: twice the half");
    relay.until("drops are counted", |told| told["over_share"].as_u64() > Some(1_000));
}

/// A client that sends requests and never reads the answers loses its stream; no memory grows.
#[test]
fn a_client_that_never_reads_loses_its_stream() {
    let relay = relay("");
    let (mut a, mut b, tag, _) = relay.pair(1);
    let before = common::peak_memory(relay.node.pid());
    let mut deaf = relay.client("127.9.9.1", 100, false);
    deaf.reads = false;
    until("a stream", &mut [&mut deaf], |all| all[0].stream.is_some());
    let began = Instant::now();
    while !deaf.ended {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody minds");
        for _ in 0..500 {
            deaf.connect(ConnectTarget::Code(1));
        }
        deaf.turn();
    }
    let grown = common::peak_memory(relay.node.pid()) - before;
    assert!(grown < 16 << 20, "{grown} bytes more");
    works(&mut a, &mut b, tag);
}

/// Garbage on the control stream ends it. After some such streams the relay accepts nothing more from that host.
/// Garbage in datagrams is dropped.
#[test]
fn garbage_ends_a_stream_and_its_host_is_left_alone_for_a_while() {
    let relay = relay("");
    let (mut a, mut b, tag, _) = relay.pair(1);
    let socket = UdpSocket::bind("127.9.9.1:0").unwrap();
    for seed in 0..3_000 {
        let _ = socket.send_to(&common::noise((seed as usize * 7) % 1_500, seed), relay.at());
    }
    for seed in 0..6 {
        let mut one = Client::idle(&relay.uri, ip("127.9.9.1"), 100 + seed, false, vec![]);
        one.ask(&common::noise(600, seed));
        until("its end", &mut [&mut one], |all| all[0].ended);
    }
    let mut one = relay.client("127.9.9.1", 200, false);
    until("an answer", &mut [&mut one], |all| all[0].refused().is_some());
    assert_eq!(one.refused(), Some(RelayRefusal::Banned));
    let mut other = relay.client("127.9.8.1", 201, false);
    until("registration", &mut [&mut other], |all| all[0].is_registered());
    works(&mut a, &mut b, tag);
}

/// An attacker replays recorded keep-alives from another address.
#[test]
fn replayed_keep_alives_move_no_client_and_get_no_answer() {
    let relay = relay("");
    let (mut a, mut b, tag, _) = relay.pair(1);
    let now = b.now();
    b.relay.refresh(now);
    b.turn();
    let thief = UdpSocket::bind("127.9.9.1:0").unwrap();
    thief.set_nonblocking(true).unwrap();
    for keep in b.keeps.clone() {
        for _ in 0..100 {
            thief.send_to(&keep, relay.at()).unwrap();
        }
    }
    // Its datagrams are not forwarded either, under an id that it has observed.
    thief.send_to(&[&a.relay.header(tag)[..], b"from the thief"].concat(), relay.at()).unwrap();
    relay.until("the replay", |told| told["refused_keeps"].as_u64() >= Some(100));
    works(&mut a, &mut b, tag);
    assert!(b.received.iter().all(|(_, datagram)| datagram != b"from the thief"));
    assert!(thief.recv_from(&mut [0; 2_000]).is_err(), "it was told something");
}

/// A client pretends, by its own keep-alives and data from a forged address, to be at a victim's address. The victim
/// receives no more than came in its name.
#[test]
fn a_forged_address_gets_no_more_than_came_from_it() {
    let relay = relay("");
    let (mut a, mut b, tag, back) = relay.pair(1);
    // Stands for the victim, at the forged address.
    let victim = UdpSocket::bind("127.9.9.1:0").unwrap();
    victim.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let now = a.now();
    a.relay.refresh(now);
    while let Some((_, keep)) = a.relay.poll_transmit(now) {
        sent += victim.send_to(&keep, relay.at()).unwrap();
    }
    for i in 0..50 {
        let mut data = a.relay.header(tag).to_vec();
        data.resize(200, i);
        sent += victim.send_to(&data, relay.at()).unwrap();
    }
    // Its accomplice sends to it.
    for _ in 0..200 {
        b.send(back, &[1; 1_000]);
    }
    let before = a.received.len();
    b.send(back, b"the last");
    until("the last", &mut [&mut a, &mut b], |all| {
        all[0].received[before..].iter().any(|(_, datagram)| datagram == b"the last")
    });
    let (mut got, mut buffer) = (0, [0; 65_536]);
    while let Ok((len, _)) = victim.recv_from(&mut buffer) {
        got += len;
    }
    assert!(got <= sent, "{got} bytes for {sent}");
}

#[test]
fn no_client_registers_a_publisher_without_its_vouch() {
    let relay = relay("");
    let publisher = PublisherKey::from_bytes(&[9; 32]);
    let name = |vouch| vec![VouchedName { publisher: publisher.public(), vouch }];
    let (honest, thief) = (Client::key_of(1), Client::key_of(2));
    let stolen = publisher.vouch(&honest);
    let at = ip("127.9.9.1");
    let mut b = Client::new(&relay.uri, ip("127.0.0.1"), 1, true, name(stolen));
    until("registration", &mut [&mut b], |all| all[0].is_registered());
    assert_ne!(honest, thief);
    let mut squatter = Client::new(&relay.uri, at, 2, true, name(stolen));
    until("an answer", &mut [&mut squatter], |all| all[0].refused().is_some());
    assert_eq!(squatter.refused(), Some(RelayRefusal::NotVouched));
    let mut a = relay.client("127.0.0.1", 3, false);
    let tag = a.connect(ConnectTarget::Publisher(publisher.public()));
    until("connection", &mut [&mut a], |all| all[0].events.contains(&RelayEvent::Connected(tag)));
    a.send(tag, b"to the publisher");
    until("datagram", &mut [&mut a, &mut b], |all| !all[1].received.is_empty());
}

/// The bytes a second of one registration are limited: the excess is dropped, and other registrations are not affected.
#[test]
fn bytes_of_one_registration_are_limited() {
    let relay = relay("bytes_per_second_of_key = 20000");
    let (mut greedy, mut sink, flood, _) = relay.pair(1);
    let (mut a, mut b, tag, _) = relay.pair(11);
    for _ in 0..50 {
        for _ in 0..20 {
            greedy.send(flood, &[0; 1_000]);
        }
        sink.turn();
    }
    works(&mut a, &mut b, tag);
    let told = relay.until("drops", |told| told["dropped"].as_u64() >= Some(300));
    assert!(told["bytes"].as_u64() < Some(700_000), "{told}");
    until("some", &mut [&mut greedy, &mut sink], |all| all[1].received.len() > 20);
}

/// A node that is no relay refuses the stream, and answers no datagrams.
#[test]
fn a_node_without_the_flag_relays_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let mut one = Client::new(node.at("xylem"), ip("127.0.0.1"), 1, true, vec![]);
    until("refusal", &mut [&mut one], |all| all[0].ended);
    assert!(!one.is_registered());
}
