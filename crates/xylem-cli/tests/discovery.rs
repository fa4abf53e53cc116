//! Finding peers without an address: by the DHT, with a network of nodes of its own, and by the LAN, in network
//! namespaces.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{Share, assert_exit, file, finish, noise, stderr, sum, until, xylem};
use bytes::BytesMut;
use mainline::Testnet;
use xylem_link::{Endpoint, LinkConfig, LinkEvent, StaticKey};

/// Nodes of the DHT, in this process.
fn testnet(count: usize) -> Testnet {
    Testnet::builder(count).build().expect("nodes of the DHT")
}

fn share(path: &Path, store: &Path, bootstrap: &[String], more: &[&str]) -> Share {
    let mut command = xylem(store);
    command.env_remove("XYLEM_NO_DHT").env("XYLEM_DHT_BOOTSTRAP", bootstrap.join(","));
    let more: Vec<&str> = ["--public"].iter().chain(more).copied().collect();
    let share = Share::run(command, path, &more);
    until("it is announced", || !share.told("announced").is_empty());
    share
}

fn get(store: &Path, into: &Path, bootstrap: &[String], arguments: &[&str]) -> Output {
    let mut command = xylem(store);
    command
        .env_remove("XYLEM_NO_DHT")
        .env("XYLEM_DHT_BOOTSTRAP", bootstrap.join(","))
        .stdin(Stdio::null());
    command.arg("get").args(arguments).arg("-o").arg(into);
    finish(command)
}

/// Announces in the DHT that a port of this machine has a root.
fn announce(net: &Testnet, root: &xylem_hash::Hash, port: u16) {
    let key = mainline::Id::from(xylem_reach::names::dht_key(root));
    let node = mainline::Dht::builder()
        .bootstrap(&net.bootstrap)
        .bind_address(std::net::Ipv4Addr::LOCALHOST)
        .port(0)
        .build()
        .unwrap();
    #[expect(deprecated, reason = "a test may block")]
    node.announce_peer(key, Some(port)).unwrap();
}

fn publisher(share: &Share) -> String {
    share.told("announced")[0]["publisher"].as_str().expect("a key").to_owned()
}

/// A hash alone, or a publisher and a name, is enough to fetch; the result hashes to the root.
#[test]
fn public_content_is_found_by_hash_or_publisher_and_name() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let content = noise(300_000, 5);
    let source = file(dir.path(), "my film.mkv", &content);
    let share = share(&source, &dir.path().join("a"), &net.bootstrap[..3], &[]);
    let by_hash = format!("b3:{}", sum(&source));
    let by_name = format!("@{}/my film.mkv", publisher(&share));
    for (i, asked) in [by_hash, by_name].iter().enumerate() {
        let into = dir.path().join(format!("got{i}"));
        let output = get(&dir.path().join("b"), &into, &net.bootstrap[..3], &[asked]);
        assert_exit(&output, 0);
        assert_eq!(fs::read(&into).unwrap(), content, "{asked}");
    }
    // The store keeps addresses of DHT nodes: the next fetch needs none named.
    let nodes = fs::read_to_string(dir.path().join("b/dht/nodes")).unwrap();
    assert!(nodes.lines().count() > 1, "{nodes}");
    fs::remove_file(dir.path().join("got0")).unwrap();
    let mut command = xylem(&dir.path().join("b"));
    command.args(["get", &format!("b3:{}", sum(&source)), "-o"]).arg(dir.path().join("got0"));
    command.env_remove("XYLEM_NO_DHT");
    let output = finish(command);
    assert_exit(&output, 0);
}

/// A newer publication of the same name replaces the old one in the DHT.
#[test]
fn a_name_brings_the_newest() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let (store, source) = (dir.path().join("a"), file(dir.path(), "news", b"old"));
    let old = share(&source, &store, &net.bootstrap, &["--as", "/alice/news"]);
    let asked = format!("@{}/alice/news", publisher(&old));
    drop(old);
    fs::write(&source, b"newer").unwrap();
    let _new = share(&source, &store, &net.bootstrap, &["--as", "/alice/news"]);
    let into = dir.path().join("got");
    // The item is stored after the announcement, and both take time to arrive.
    until("the newest is found", || {
        let _ = fs::remove_file(&into);
        let output = get(&dir.path().join("b"), &into, &net.bootstrap, &[&asked, "--timeout", "5"]);
        output.status.success() && fs::read(&into).unwrap() == b"newer"
    });
}

/// Listed peers that lack the content, have another key, or do not answer cost one dial each.
#[test]
fn wrong_peers_in_the_dht_cost_one_dial_each() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let content = noise(50_000, 6);
    let source = file(dir.path(), "source", &content);
    let hash = sum(&source);
    let root = xylem_hash::Hash::from_hex(&hash).unwrap();
    // A sharer of something else that is not public, and sockets that never answer.
    let other = Share::start(&file(dir.path(), "other", b"other"), &dir.path().join("c"));
    let silent: Vec<UdpSocket> = (0..12).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let port = |at: &str| at.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let mut ports = vec![port(&other.link)];
    ports.extend(silent.iter().map(|socket| socket.local_addr().unwrap().port()));
    for port in ports {
        announce(&net, &root, port);
    }
    let _share = share(&source, &dir.path().join("a"), &net.bootstrap, &[]);
    let into = dir.path().join("got");
    let output = get(&dir.path().join("b"), &into, &net.bootstrap, &[&format!("b3:{hash}")]);
    assert_exit(&output, 0);
    assert_eq!(fs::read(&into).unwrap(), content);
}

/// A listed peer that accepts a dial and then never answers holds one of the places for asked peers, for some seconds.
/// Here such peers hold all places before the peer with the content starts.
#[test]
fn a_peer_that_never_answers_gives_up_its_place() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let content = noise(50_000, 13);
    let source = file(dir.path(), "source", &content);
    let hash = sum(&source);
    let root = xylem_hash::Hash::from_hex(&hash).unwrap();
    let (up, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut mute: Vec<Mute> = (0..16).map(|n| Mute::new(n, &root)).collect();
    mute.iter().for_each(|one| announce(&net, &root, one.socket.local_addr().unwrap().port()));
    let (counts, end) = (up.clone(), ends.clone());
    let runs = std::thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            let fresh: usize = mute.iter_mut().map(Mute::turn).sum();
            counts.fetch_add(fresh, Ordering::Relaxed);
        }
    });
    let mut command = xylem(&dir.path().join("b"));
    command
        .env_remove("XYLEM_NO_DHT")
        .env("XYLEM_DHT_BOOTSTRAP", net.bootstrap.join(","))
        .stdin(Stdio::null());
    let into = dir.path().join("got");
    command.args(["get", &format!("b3:{hash}"), "--timeout", "60", "-o"]).arg(&into);
    let mut getting = Killed(command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    until("all places are held", || up.load(Ordering::Relaxed) >= 8);
    let _share = share(&source, &dir.path().join("a"), &net.bootstrap, &[]);
    let code = getting.0.wait().unwrap().code();
    ends.store(true, Ordering::Relaxed);
    runs.join().unwrap();
    assert_eq!(code, Some(0));
    assert_eq!(fs::read(&into).unwrap(), content);
}

/// A node that answers a dial by a root's hash, but no Interest.
struct Mute {
    socket: UdpSocket,
    endpoint: Endpoint,
    begun: Instant,
    out: Vec<u8>,
}

impl Mute {
    fn new(n: u8, root: &xylem_hash::Hash) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let key = StaticKey::generate([n; 32]);
        let mut endpoint = Endpoint::new(LinkConfig::default(), key, [n; 32]);
        assert!(endpoint.answer_knock(&xylem_reach::names::dht_knock(root)));
        Self { socket, endpoint, begun: Instant::now(), out: Vec::new() }
    }

    /// Handles datagrams; returns the number of links that have come up.
    fn turn(&mut self) -> usize {
        let mut received = [0; 65_536];
        if let Ok((len, from)) = self.socket.recv_from(&mut received) {
            let datagram = BytesMut::from(&received[..len]);
            self.endpoint.handle_datagram(self.begun.elapsed(), from, datagram);
        }
        let now = self.begun.elapsed();
        self.endpoint.handle_timeout(now);
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.out) {
            for datagram in self.out.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                let _ = self.socket.send_to(datagram, transmit.to);
            }
        }
        let events = std::iter::from_fn(|| self.endpoint.poll_event());
        events.filter(|event| matches!(event, LinkEvent::Connected { .. })).count()
    }
}

/// A getter with a hash is answered by each of as many public publications as the limit permits. One more is reported,
/// and served only to holders of its ticket.
#[test]
fn every_public_publication_within_the_limit_is_answered() {
    const MOST: usize = 256;
    let (net, dir) = (testnet(10), tempfile::tempdir().unwrap());
    let content = |n: usize| format!("content {n}");
    let made = |n| file(dir.path(), &format!("f{n:03}"), content(n).as_bytes());
    let sources: Vec<PathBuf> = (0..=MOST).map(made).collect();
    let mut command = xylem(&dir.path().join("a"));
    command.env_remove("XYLEM_NO_DHT").env("XYLEM_DHT_BOOTSTRAP", net.bootstrap.join(","));
    let (last, others) = sources.split_last().unwrap();
    let more = ["--public"].into_iter().chain(others.iter().map(|path| common::text(path)));
    let share = Share::run(command, last, &more.collect::<Vec<_>>());
    until("all are shared", || share.told("shared").len() == MOST);
    let warned = share.told("trouble");
    let about = warned.iter().filter(|e| e["what"].as_str().is_some_and(|w| w.contains("DHT")));
    let about: Vec<&str> = about.filter_map(|e| e["what"].as_str()).collect();
    let of = |what: &str| about.iter().filter(|line| line.contains(what)).count();
    assert_eq!([of("f256"), of("by 8 tickets already"), about.len()], [1, 1, 2], "{warned:?}");
    let at = share.link.parse().unwrap();
    let dialled = |n: usize| {
        let root = xylem_hash::hash(content(n).as_bytes());
        let mut one = Mute::new(200, &root);
        let knock = xylem_reach::names::dht_knock(&root);
        one.endpoint.connect_by_knock(Duration::ZERO, at, &knock);
        one
    };
    let mut beyond = dialled(MOST);
    for n in [0, 62, 63, 64, 65, 128, MOST - 1] {
        let mut one = dialled(n);
        until("an answer to who knows the hash", || {
            assert_eq!(beyond.turn(), 0, "what is not announced is not answered");
            one.turn() > 0
        });
    }
    let newest = share.told("shared").pop().unwrap();
    let into = dir.path().join("got");
    let ticket = newest["ticket"].as_str().unwrap();
    assert_exit(&get(&dir.path().join("b"), &into, &net.bootstrap, &[ticket]), 0);
    assert_eq!(fs::read_to_string(&into).unwrap(), content(MOST));
}

/// Content that is not public is not found, and the fetch ends with one line. A share that is not public announces
/// nothing in the DHT, and does not answer a getter that has the hash alone.
#[test]
fn content_that_is_not_public_is_not_found() {
    let (net, dir) = (testnet(10), tempfile::tempdir().unwrap());
    let source = file(dir.path(), "source", b"private");
    let mut command = xylem(&dir.path().join("a"));
    command.env_remove("XYLEM_NO_DHT").env("XYLEM_DHT_BOOTSTRAP", net.bootstrap.join(","));
    let share = Share::run(command, &source, &[]);
    let asked = format!("b3:{}", sum(&source));
    // An entry in the DHT made by another machine: the address is right, but the dial by the hash has no answer.
    let root = xylem_hash::Hash::from_hex(sum(&source)).unwrap();
    let port = share.link.rsplit(':').next().unwrap().parse().unwrap();
    announce(&net, &root, port);
    let into = dir.path().join("got");
    let output = get(&dir.path().join("b"), &into, &net.bootstrap, &[&asked, "--timeout", "4"]);
    assert_exit(&output, 3);
    assert!(stderr(&output).contains("share --public"), "{}", stderr(&output));
    assert!(stderr(&output).contains("the DHT lists 1 address "), "{}", stderr(&output));
    assert!(share.told("announced").is_empty());
    // A hash without entries and an unreachable DHT give different lines.
    let unlisted = format!("b3:{}", "5a".repeat(32));
    let nobody = ["127.0.0.1:9".to_owned()];
    for (net, says) in [
        (&net.bootstrap[..], "the DHT lists no sharer"),
        (&nobody[..], "no node of the DHT answered"),
    ] {
        let store = dir.path().join(if net.len() > 1 { "c" } else { "d" });
        let output = get(&store, &into, net, &[&unlisted, "--timeout", "4"]);
        assert_exit(&output, 3);
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    for wrong in ["b3:12", &format!("@{}/", "a".repeat(64))] {
        assert_exit(&get(&dir.path().join("b"), &into, &net.bootstrap, &[wrong]), 2);
    }
    let output = get(&dir.path().join("b"), &into, &["nowhere".to_owned()], &[&asked]);
    assert_exit(&output, 2);
}

/// With the DHT turned off, no other flag announces anything in it or looks anything up there.
#[test]
fn what_is_public_is_refused_without_the_dht() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", b"mine");
    let settings = file(dir.path(), "settings", b"dht = false\n");
    let asked = format!("b3:{}", sum(&source));
    let share = ["share", "--public", common::text(&source)];
    for arguments in [&["get", &asked][..], &["get", &asked, "--seed"], &share] {
        let mut by_flag = xylem(&dir.path().join("store"));
        by_flag.env_remove("XYLEM_NO_DHT").args(arguments).arg("--no-dht");
        let mut by_settings = xylem(&dir.path().join("store"));
        by_settings.env_remove("XYLEM_NO_DHT").arg("--config").arg(&settings).args(arguments);
        for mut command in [by_flag, by_settings] {
            command.current_dir(dir.path()).stdin(Stdio::null());
            let output = finish(command);
            assert_exit(&output, 2);
            assert!(stderr(&output).contains("the DHT is turned off"), "{}", stderr(&output));
        }
    }
}

/// Two machines on one switch; `None` without the right to make them.
struct Lan(Vec<String>);

impl Lan {
    fn new(tag: &str, machines: usize) -> Option<Self> {
        let pid = std::process::id();
        let names = (0..=machines).map(|i| format!("xylem-{tag}{i}-{pid}")).collect();
        let lan = Self(names);
        let switch = &lan.0[0];
        let mut script = format!(
            "ip netns add {switch} && ip -n {switch} link add sw0 type bridge && ip -n {switch} link set sw0 up"
        );
        for (i, machine) in lan.0.iter().enumerate().skip(1) {
            script += &format!(
                " && ip netns add {machine} && ip -n {machine} link set lo up \
                 && ip link add p{i} netns {switch} type veth peer name eth netns {machine} \
                 && ip -n {switch} link set p{i} master sw0 up \
                 && ip -n {machine} addr add 10.67.0.{i}/24 dev eth && ip -n {machine} link set eth up"
            );
        }
        let made = Command::new("sh").args(["-c", &script]).output();
        made.is_ok_and(|made| made.status.success()).then_some(lan)
    }

    /// A command of the program on one of them.
    fn on(&self, machine: usize, store: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[machine], common::XYLEM, "--store"]).arg(store);
        command.env("XYLEM_NO_MAP", "1").stdin(Stdio::null());
        command
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The sharer has another address and port than its ticket names. A getter with the ticket on the same LAN finds it;
/// with --no-lan it does not.
#[test]
fn a_stale_ticket_is_good_on_the_same_lan() {
    let Some(lan) = Lan::new("dsc", 2) else {
        common::skipped("no right to make network namespaces");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let content = noise(200_000, 7);
    let source = file(dir.path(), "source", &content);
    let store = dir.path().join("a");
    let sharing = |arguments: &[&str], ticket: &PathBuf| {
        let mut command = lan.on(1, &store);
        command.arg("share").args(arguments).arg(&source);
        command.stdout(fs::File::create(ticket).unwrap()).stderr(Stdio::null());
        let child = Killed(command.spawn().unwrap());
        until("it prints its ticket", || fs::read_to_string(ticket).unwrap().contains('\n'));
        child
    };
    let (stale, fresh) = (dir.path().join("stale"), dir.path().join("fresh"));
    // The ticket has one address only, which no machine has.
    drop(sharing(&["--listen", "10.67.0.1:9", "--no-lan"], &stale));
    let _share = sharing(&["--listen", "0.0.0.0:7348"], &fresh);
    let into = dir.path().join("got");
    let fetch = |more: &[&str]| {
        let mut command = lan.on(2, &dir.path().join("b"));
        command.arg("get").arg(format!("@{}", stale.display())).args(more).arg("-o").arg(&into);
        finish(command)
    };
    assert_exit(&fetch(&["--no-lan", "--timeout", "3"]), 3);
    let output = fetch(&["--timeout", "20"]);
    assert_exit(&output, 0);
    assert_eq!(fs::read(&into).unwrap(), content);
}

/// A peer that answers and then lacks the content, or has other content, is given up for the next peer, which can't
/// answer before the first has failed.
#[test]
fn after_a_peer_without_the_content_the_next_is_asked() {
    let net = testnet(20);
    for changes in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let content = noise(300_000, 8);
        let [bad, good] = ["bad", "good"].map(|name| file(dir.path(), name, &content));
        let hash = sum(&good);
        let _liar = share(&bad, &dir.path().join("a"), &net.bootstrap, &[]);
        let honest = share(&good, &dir.path().join("b"), &net.bootstrap, &[]);
        let signal = |which: &str| {
            let pid = honest.pid().to_string();
            assert!(Command::new("kill").args([which, &pid]).status().unwrap().success());
        };
        signal("-STOP");
        if changes {
            fs::write(&bad, noise(300_000, 9)).unwrap();
        } else {
            fs::remove_file(&bad).unwrap();
        }
        let mut command = xylem(&dir.path().join("c"));
        command
            .env_remove("XYLEM_NO_DHT")
            .env("XYLEM_DHT_BOOTSTRAP", net.bootstrap.join(","))
            .stdin(Stdio::null());
        let into = dir.path().join("got");
        command.args(["--json", "get", &format!("b3:{hash}"), "--timeout", "12", "-o"]).arg(&into);
        let mut getting = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(getting.0.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        for line in lines.map_while(Result::ok) {
            if line.contains("looking for another") {
                signal("-CONT");
            }
            said.push(line);
        }
        assert_eq!(getting.0.wait().unwrap().code(), Some(0), "{said:?}");
        assert_eq!(fs::read(&into).unwrap(), content);
        assert!(said.iter().any(|line| line.contains("looking for another")), "{said:?}");
    }
}

/// The background node announces publicly only shares that ask for it.
#[test]
fn content_of_a_public_service_is_found_by_its_hash() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let content = noise(60_000, 10);
    let source = file(dir.path(), "source", &content);
    let asked = format!("b3:{}", sum(&source));
    for (public, code) in [(false, 3), (true, 0)] {
        let store = dir.path().join(if public { "public" } else { "private" });
        let mut command = xylem(&store);
        command.env_remove("XYLEM_NO_DHT").stdin(Stdio::null());
        command.args(["service", "run", "--listen", "127.0.0.1:0"]);
        command.args(["--dht-bootstrap", &net.bootstrap.join(",")]);
        command.args(if public { &["--public"][..] } else { &[] });
        let _service = Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        until("it answers", || {
            let mut command = xylem(&store);
            command.args(["service", "status"]);
            finish(command).status.success()
        });
        let mut command = xylem(&store);
        command.arg("share").arg(&source).stdin(Stdio::null());
        assert_exit(&finish(command), 0);
        let into = dir.path().join("got");
        let timeout = if public { "30" } else { "3" };
        let more = [&asked[..], "--timeout", timeout];
        assert_exit(&get(&dir.path().join("b"), &into, &net.bootstrap, &more), code);
        assert!(!public || fs::read(&into).unwrap() == content);
    }
}

/// A seed's own ticket works on its LAN when every address in it is stale. The seed forwards no address.
#[test]
fn a_seed_is_found_on_the_same_lan() {
    let Some(lan) = Lan::new("dsd", 2) else {
        common::skipped("no right to make network namespaces");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let content = noise(100_000, 11);
    let source = file(dir.path(), "source", &content);
    let (ticket, log) = (dir.path().join("ticket"), dir.path().join("seed.log"));
    let mut command = lan.on(1, &dir.path().join("a"));
    command.args(["share", "--no-lan", "--listen", "127.0.0.1:0"]).arg(&source);
    command.stdout(fs::File::create(&ticket).unwrap()).stderr(Stdio::null());
    let _share = Killed(command.spawn().unwrap());
    until("it prints its ticket", || fs::read_to_string(&ticket).unwrap().contains('\n'));
    let mut command = lan.on(1, &dir.path().join("s"));
    command.args(["--json", "get", "--seed"]).arg(format!("@{}", ticket.display()));
    command.arg("-o").arg(dir.path().join("seeded"));
    command.stdout(fs::File::create(&log).unwrap()).stderr(Stdio::null());
    let _seed = Killed(command.spawn().unwrap());
    let told = |event: &str| {
        let text = fs::read_to_string(&log).unwrap();
        let mut lines =
            text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
        lines.rfind(|told| told["event"] == event)
    };
    until("it has all of it", || told("done").is_some());
    let own = told("offering").unwrap()["ticket"].as_str().unwrap().to_owned();
    let mut own: xylem_object::Ticket = own.parse().unwrap();
    own.addresses = vec!["10.67.0.1:9".parse().unwrap()];
    let into = dir.path().join("got");
    let fetch = |more: &[&str]| {
        let mut command = lan.on(2, &dir.path().join("b"));
        command.args(["get", &own.to_string()]).args(more).arg("-o").arg(&into);
        finish(command)
    };
    assert_exit(&fetch(&["--no-lan", "--timeout", "3"]), 3);
    assert_exit(&fetch(&["--timeout", "20"]), 0);
    assert_eq!(fs::read(&into).unwrap(), content);
}

/// The background node announces its shares on the LAN, except those shared with --no-lan: neither when the node takes
/// such a share over nor when it is restarted. A node run with --no-lan announces none.
#[test]
fn the_background_node_announces_permitted_shares_on_the_lan() {
    let Some(lan) = Lan::new("dsn", 2) else {
        common::skipped("no right to make network namespaces");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("a");
    let (told, kept) = (file(dir.path(), "told", b"told"), file(dir.path(), "kept", b"kept"));
    let run = |more: &[&str]| {
        let mut command = lan.on(1, &store);
        command.args(["service", "run", "--listen", "10.67.0.1:0"]).args(more);
        let service = Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        until("it answers", || {
            let mut command = lan.on(1, &store);
            command.args(["service", "status"]);
            finish(command).status.success()
        });
        service
    };
    let shared = |path: &Path, more: &[&str], variable: &str| {
        let mut command = lan.on(1, &store);
        command.arg("share").args(more).arg(path).env("XYLEM_NO_LAN", variable);
        let output = finish(command);
        assert_exit(&output, 0);
        assert!(stderr(&output).contains("Served in the background"), "{}", stderr(&output));
        let ticket = String::from_utf8(output.stdout).unwrap();
        let mut ticket: xylem_object::Ticket = ticket.trim().parse().unwrap();
        ticket.addresses = vec!["10.67.0.1:9".parse().unwrap()];
        ticket.to_string()
    };
    let fetch = |ticket: &str, timeout: &str| {
        // A copy that is complete needs no peer.
        let _ = fs::remove_file(dir.path().join("got"));
        let mut command = lan.on(2, &dir.path().join("b"));
        command.args(["get", ticket, "--timeout", timeout, "-o"]);
        command.arg(dir.path().join("got"));
        finish(command)
    };
    let service = run(&[]);
    let open = shared(&told, &[], "");
    let by_flag = shared(&kept, &["--no-lan"], "");
    let by_variable = shared(&kept, &["--as", "/me/kept"], "1");
    assert_exit(&fetch(&open, "30"), 0);
    for ticket in [&by_flag, &by_variable] {
        assert_exit(&fetch(ticket, "3"), 3);
    }
    drop(service);
    let service = run(&[]);
    assert_exit(&fetch(&open, "30"), 0);
    assert_exit(&fetch(&by_flag, "3"), 3);
    drop(service);
    let _service = run(&["--no-lan"]);
    assert_exit(&fetch(&open, "3"), 3);
}

/// Content that was found in the DHT and is seeded is found there after its publisher has gone.
#[test]
fn a_seed_is_found_in_the_dht_without_its_publisher() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let content = noise(60_000, 12);
    let source = file(dir.path(), "source", &content);
    let asked = format!("b3:{}", sum(&source));
    let sharer = share(&source, &dir.path().join("a"), &net.bootstrap, &[]);
    let mut command = xylem(&dir.path().join("s"));
    command
        .env_remove("XYLEM_NO_DHT")
        .env("XYLEM_DHT_BOOTSTRAP", net.bootstrap.join(","))
        .stdin(Stdio::null());
    command.args(["get", "--seed", "--listen", "127.0.0.1:0", &asked, "-o"]);
    command.arg(dir.path().join("seeded")).stdout(Stdio::null()).stderr(Stdio::null());
    let _seed = Killed(command.spawn().unwrap());
    until("it has all of it", || {
        fs::read(dir.path().join("seeded")).is_ok_and(|got| got == content)
    });
    drop(sharer);
    let into = dir.path().join("got");
    let output = get(&dir.path().join("b"), &into, &net.bootstrap, &[&asked]);
    assert_exit(&output, 0);
    assert_eq!(fs::read(&into).unwrap(), content);
}
