//! `share --via`, `xylem ndn node` and `get --from` in three processes: registration, caches, restarts, floods, and a
//! poisoned cache.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common;
use crate::common::{Node, Share, assert_exit, file, finish, get, noise, stderr, text, xylem};
use xylem_packet::{InterestBuilder, LpPacket, Name, Packet, frame_len};

#[test]
fn a_share_through_a_node_is_fetched_through_it() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(5_000_000, 1);
    let source = file(dir.path(), "source", &content);
    let node = Node::start(dir.path(), "");
    for via in ["unix", "tcp4", "ws"] {
        let share = Share::via(&source, &dir.path().join("store"), node.at(via));
        for from in ["unix", "udp4"] {
            let out = dir.path().join(format!("{via}-{from}"));
            let store = dir.path().join("s");
            let output = get(&store, &[&share.ticket, "--from", node.at(from), "-o", text(&out)]);
            assert_exit(&output, 0);
            assert!(fs::read(&out).unwrap() == content, "{via} {from}");
        }
    }
}

#[test]
fn a_directory_goes_through_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir_all(source.join("sub")).unwrap();
    for i in 0..100_u64 {
        file(&source.join("sub"), &format!("file-{i}"), &noise(i as usize * 997, i));
    }
    let node = Node::start(dir.path(), "");
    let share = Share::via(&source, &dir.path().join("store"), node.at("unix"));
    let out = dir.path().join("out");
    let output =
        get(&dir.path().join("s"), &[&share.ticket, "--from", node.at("tcp4"), "-o", text(&out)]);
    assert_exit(&output, 0);
    let same = std::process::Command::new("diff").arg("-r").args([&source, &out]).status().unwrap();
    assert!(same.success());
}

#[test]
fn a_share_registers_again_with_a_node_that_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(1_000_000, 2);
    let source = file(dir.path(), "source", &content);
    let node = Node::start(dir.path(), "");
    let share = Share::via(&source, &dir.path().join("store"), node.at("unix"));
    node.kill();
    let node = Node::start(dir.path(), "");
    share.registered(2);
    let out = dir.path().join("out");
    let output =
        get(&dir.path().join("s"), &[&share.ticket, "--from", node.at("unix"), "-o", text(&out)]);
    assert_exit(&output, 0);
    assert!(fs::read(&out).unwrap() == content);
}

#[test]
fn a_share_waits_for_a_node_that_is_not_there_yet() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(10_000, 3));
    let socket = format!("unix://{}", dir.path().join("node.sock").display());
    let share = Share::with(&source, &dir.path().join("store"), &["--via", &socket]);
    // Trouble is reported once, however often registration is tried again, and the link serves meanwhile.
    common::until("trouble", || !share.told("trouble").is_empty());
    let by_link = dir.path().join("by-link");
    assert_exit(&get(&dir.path().join("s"), &[&share.ticket, "-o", text(&by_link)]), 0);
    let told = share.told("trouble");
    let what = told[0]["what"].as_str().unwrap();
    assert!(told.len() == 1 && what.contains(&socket), "{told:?}");
    assert!(what.contains("cannot be reached") && what.ends_with("trying again"), "{what}");
    let node = Node::start(dir.path(), "");
    share.registered(1);
    let out = dir.path().join("out");
    let output =
        get(&dir.path().join("s"), &[&share.ticket, "--from", node.at("unix"), "-o", text(&out)]);
    assert_exit(&output, 0);
}

/// `--publisher` takes a ticket, a card, or a key by a person's name or in a file, so that no user has to type 64
/// digits.
#[test]
fn a_publisher_is_named_by_ticket_card_key_or_person() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (dir.path().join("store"), dir.path().join("other"));
    let source = file(dir.path(), "source", &noise(10_000, 4));
    let node = Node::start(dir.path(), "");
    let share = Share::with(&source, &store, &["--via", node.at("unix"), "--as", "/film"]);
    share.registered(1);
    let run = |store: &Path, arguments: &[&str]| {
        let mut command = xylem(store);
        command.args(arguments);
        let output = finish(command);
        assert_exit(&output, 0);
        let said = stderr(&output);
        (String::from_utf8(output.stdout).unwrap().trim().to_owned(), said)
    };
    let card = run(&store, &["inbox", "card"]).0;
    run(&other, &["inbox", "trust", "alice", &card]);
    let listed = run(&store, &["key", "list"]).1;
    let key = listed.split_whitespace().last().unwrap();
    let by_json = run(&store, &["--json", "key", "list"]).0;
    assert!(
        by_json.contains(&format!("{{\"event\":\"publisher\",\"key\":\"{key}\"}}")),
        "{by_json}"
    );
    let keys = file(dir.path(), "alice.key", format!("{key}\n").as_bytes());
    let tickets = file(dir.path(), "alice.ticket", share.ticket.as_bytes());
    let ways = [key, &share.ticket, &card, "alice", text(&keys), text(&tickets)];
    for (i, who) in ways.into_iter().enumerate() {
        let out = dir.path().join(format!("out-{i}"));
        let from = ["/film", "--publisher", who, "--from", node.at("unix"), "-o", text(&out)];
        assert_exit(&get(&other, &from), 0);
    }
    // Another publisher's key is not accepted, and a name without a key is wrong usage.
    let stranger = run(&other, &["inbox", "card"]).0;
    let out = dir.path().join("out");
    for (who, code) in [(stranger.as_str(), 1), ("bob", 2), (text(&source), 2)] {
        let from = ["/film", "--publisher", who, "--from", node.at("unix"), "-o", text(&out)];
        let output = get(&other, &from);
        assert_exit(&output, code);
        assert!(code == 1 || stderr(&output).contains("xylem key list"), "{}", stderr(&output));
    }
}

#[test]
fn cached_content_is_fetched_without_its_publisher() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(2_000_000, 4);
    let source = file(dir.path(), "source", &content);
    let node = Node::start(dir.path(), "");
    let share = Share::via(&source, &dir.path().join("store"), node.at("unix"));
    let (ticket, from) = (share.ticket.clone(), node.at("unix").to_owned());
    for run in ["first", "second"] {
        let out = dir.path().join(run);
        let output = get(
            &dir.path().join(run).with_extension("s"),
            &[&ticket, "--from", &from, "-o", text(&out)],
        );
        assert_exit(&output, 0);
        assert!(fs::read(&out).unwrap() == content, "{run}");
        if run == "first" {
            end(&share);
        }
    }
}

/// Ends the publisher's process; its content remains in caches only.
fn end(share: &Share) {
    let pid = share.pid().to_string();
    assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
}

#[test]
fn an_unregistered_name_has_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(10_000, 5));
    let node = Node::start(dir.path(), "");
    let share = Share::with(&source, &dir.path().join("store"), &["--as", "/alice/source"]);
    let output = get(
        &dir.path().join("s"),
        &[&share.ticket, "--from", node.at("unix"), "--timeout", "5", "-o", "-"],
    );
    assert_exit(&output, 3);
}

/// Sends Interests for ever-new names as fast as the other end accepts them, and reads no answer.
fn flood(mut to: impl Write, stop: &AtomicBool, sent: &AtomicUsize) {
    let prefix = Name::from_uri("/flood").unwrap();
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let mut batch = Vec::new();
        for _ in 0..100 {
            number += 1;
            let name =
                prefix.clone().child(xylem_packet::Component::generic(&number.to_be_bytes()));
            InterestBuilder::new(name.as_ref())
                .nonce((number as u32).to_be_bytes())
                .lifetime_ms(10_000)
                .encode(&mut batch)
                .unwrap();
        }
        if to.write_all(&batch).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        sent.fetch_add(100, Ordering::Relaxed);
    }
}

/// A datagram socket as a writer: one Interest a datagram.
struct Datagrams(UdpSocket);

impl Write for Datagrams {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let len = frame_len(bytes).unwrap().unwrap();
        self.0.send(&bytes[..len])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn floods_do_not_keep_others_from_fetching_and_do_not_grow_memory() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(5_000_000, 6);
    let source = file(dir.path(), "source", &content);
    // A route that never answers, so that Interests of the flood stay pending.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let settings = format!(
        "pit_capacity = 20000\npit_quota = 5000\ninterests_per_second = 20000\n\
         [[node.route]]\nprefix = \"/flood\"\nto = \"udp4://{}\"",
        silent.local_addr().unwrap()
    );
    let node = Node::start(dir.path(), &settings);
    let share = Share::via(&source, &dir.path().join("store"), node.at("unix"));
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect(node.at("udp4").strip_prefix("udp4://").unwrap()).unwrap();
    let tcp = TcpStream::connect(node.at("tcp4").strip_prefix("tcp4://").unwrap()).unwrap();
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (stop, sent) = (&stop, &sent);
    let (before, fetches) = std::thread::scope(|scope| {
        scope.spawn(move || flood(Datagrams(udp), stop, sent));
        scope.spawn(move || flood(tcp, stop, sent));
        let begun = std::time::Instant::now();
        while sent.load(Ordering::Relaxed) < 200_000 && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let before = resident_kib(node.pid());
        // Not over UDP: peers of one UDP socket share the kernel's buffer (docs/spec/faces.md).
        let fetches = ["unix", "tcp4"].map(|from| {
            let (out, store) = (dir.path().join(from), dir.path().join("s"));
            let from = node.at(from);
            (get(&store, &[&share.ticket, "--from", from, "-o", text(&out)]), out)
        });
        // Checked after the flood has ended: a failure before that would leave it running.
        stop.store(true, Ordering::Relaxed);
        (before, fetches)
    });
    assert!(sent.load(Ordering::Relaxed) >= 200_000, "there was no flood");
    for (output, out) in &fetches {
        assert_exit(output, 0);
        assert!(fs::read(out).unwrap() == content, "{}", out.display());
    }
    // The process may grow by the fetched Data in its cache, and by no more.
    let grown = resident_kib(node.pid()).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more, {} sent", sent.load(Ordering::Relaxed));
}

#[test]
fn rubbish_on_one_face_costs_that_face_alone() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(500_000, 7);
    let source = file(dir.path(), "source", &content);
    let node = Node::start(dir.path(), "");
    let share = Share::via(&source, &dir.path().join("store"), node.at("unix"));
    let socket = node.at("unix").strip_prefix("unix://").unwrap();
    let tcp = node.at("tcp4").strip_prefix("tcp4://").unwrap();
    let ws = node.at("ws").strip_prefix("ws://").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_to = node.at("udp4").strip_prefix("udp4://").unwrap();
    for rubbish in [
        vec![0; 65_536],
        vec![5; 65_536],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        noise(100_000, 8),
    ] {
        // The node may also hang up in the middle.
        let _ = UnixStream::connect(socket).unwrap().write_all(&rubbish);
        let _ = TcpStream::connect(tcp).unwrap().write_all(&rubbish);
        let _ = TcpStream::connect(ws).unwrap().write_all(&rubbish);
        for datagram in rubbish.chunks(60_000) {
            udp.send_to(datagram, udp_to).unwrap();
        }
    }
    let out = dir.path().join("out");
    let output =
        get(&dir.path().join("s"), &[&share.ticket, "--from", node.at("unix"), "-o", text(&out)]);
    assert_exit(&output, 0);
    assert!(fs::read(&out).unwrap() == content);
}

/// Stands between a node and a publisher and changes a byte of the content of Data, as long as `lies` is true. The
/// packets stay well-formed: the node accepts and caches them.
fn liar(publisher: String, lies: Arc<AtomicBool>, lied: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for node in listener.incoming().map_while(Result::ok) {
            let honest = TcpStream::connect(&publisher).unwrap();
            let (mut from_node, mut to_honest) =
                (node.try_clone().unwrap(), honest.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from_node, &mut to_honest));
            let (lies, lied) = (lies.clone(), lied.clone());
            std::thread::spawn(move || hand_on(honest, node, &lies, &lied));
        }
    });
    format!("tcp4://{address}")
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, lies: &AtomicBool, lied: &AtomicUsize) {
    let mut held = Vec::new();
    let mut buffer = vec![0; 65_536];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        held.extend_from_slice(&buffer[..n]);
        while let Some(len) = frame_len(&held).unwrap() {
            let mut frame: Vec<u8> = held.drain(..len).collect();
            if lies.load(Ordering::Relaxed) && spoil(&mut frame) {
                lied.fetch_add(1, Ordering::Relaxed);
            }
            if to.write_all(&frame).is_err() {
                return;
            }
        }
    }
}

/// Changes a byte in the middle of the content of a large Data.
fn spoil(frame: &mut [u8]) -> bool {
    let place = {
        let packet = match Packet::decode(frame).unwrap() {
            Packet::Lp(LpPacket { fragment: Some(fragment), .. }) => fragment,
            _ => frame,
        };
        let Ok(Packet::Data(data)) = Packet::decode(packet) else { return false };
        let content = data.content();
        // Segments only: the manifest and tiles are shorter than most segments.
        if content.len() < 8_000 {
            return false;
        }
        content.as_ptr() as usize - frame.as_ptr() as usize + content.len() / 2
    };
    frame[place] ^= 1;
    true
}

/// A node with a cache that a liar has filled, the share, and the liar's switch.
fn poisoned(dir: &std::path::Path, content: &[u8]) -> (Node, Share, Arc<AtomicBool>) {
    let source = file(dir, "source", content);
    let share = Share::plain(&source, &dir.join("store"));
    let lies = Arc::new(AtomicBool::new(true));
    let lied = Arc::new(AtomicUsize::new(0));
    let upstream = liar(share.plain.clone().unwrap(), lies.clone(), lied.clone());
    let node = Node::start(dir, &format!("[[node.route]]\nprefix = \"/\"\nto = \"{upstream}\""));
    let out = dir.join("spoiled");
    let arguments = [&share.ticket, "--from", node.at("unix"), "--timeout", "3", "-o", text(&out)];
    assert_exit(&get(&dir.join("victim"), &arguments), 3);
    assert!(!out.exists() && lied.load(Ordering::Relaxed) > 0);
    (node, share, lies)
}

#[test]
fn behind_a_poisoned_cache_the_good_data_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(400_000, 9);
    let (node, share, lies) = poisoned(dir.path(), &content);
    // The liar has stopped; its Data are still in the node's cache.
    lies.store(false, Ordering::Relaxed);
    let out = dir.path().join("out");
    let mut command = xylem(&dir.path().join("s"));
    command.args(["get", &share.ticket, "--from", node.at("unix"), "-o", text(&out)]);
    let output = finish(command);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("did not verify"), "the cache was not poisoned");
    assert!(fs::read(&out).unwrap() == content);
}

#[test]
fn another_way_is_taken_around_a_poisoned_cache() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(400_000, 10);
    let (node, share, _lies) = poisoned(dir.path(), &content);
    let out = dir.path().join("out");
    let arguments =
        [&share.ticket, "--from", node.at("unix"), "--from", &share.link, "-o", text(&out)];
    assert_exit(&get(&dir.path().join("s"), &arguments), 0);
    assert!(fs::read(&out).unwrap() == content);
}

#[test]
fn a_liar_on_the_only_way_ends_the_fetch_and_nothing_bad_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(400_000, 11);
    let (node, share, lies) = poisoned(dir.path(), &content);
    let store = dir.path().join("s");
    let out = dir.path().join("out");
    let arguments = [&share.ticket, "--from", node.at("unix"), "--timeout", "3", "-o", text(&out)];
    assert_exit(&get(&store, &arguments), 3);
    assert!(!out.exists());
    // Kept bytes are verified: the same command succeeds by an honest way.
    lies.store(false, Ordering::Relaxed);
    let arguments = [&share.ticket, "--from", &share.link, "-o", text(&out)];
    assert_exit(&get(&store, &arguments), 0);
    assert!(fs::read(&out).unwrap() == content);
}
