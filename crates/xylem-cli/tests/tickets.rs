//! Tickets with the real program: short, pasted in any shape, and shown by `ticket`. A host at a ticket's address that
//! is not the publisher learns nothing.

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{
    Share, assert_exit, file, finish, get, noise, printed_root, stderr, sum, text, xylem,
};
use bytes::BytesMut;
use xylem_link_internals::{Endpoint, LinkConfig, LinkEvent, StaticKey};
use xylem_object::find::{FindAnswer, FindId};
use xylem_object::{Manifest, PublisherKey, Ticket, naming, sign_manifest, ticket};
use xylem_packet::tlv;
use xylem_packet::{Interest, Name};

fn ticket_of(share: &Share) -> Ticket {
    share.ticket.parse().unwrap()
}

/// The 32 bytes of a secret that a store keeps.
fn secret(store: &Path, name: &str) -> [u8; 32] {
    fs::read(store.join("keys").join(name)).unwrap().try_into().unwrap()
}

#[test]
fn a_ticket_is_short_and_enough() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 1);
    let source = file(dir.path(), "a name of some length, with blanks.bin", &content);
    let share = Share::start(&source, &dir.path().join("store"));
    let ticket = ticket_of(&share);
    assert!(share.ticket.len() < 135, "{}", share.ticket);
    assert_eq!((ticket.name, ticket.size, ticket.link_key), (None, None, None));
    let out = dir.path().join("out");
    let output = get(&dir.path().join("other"), &[&share.ticket, "-o", text(&out)]);
    assert_exit(&output, 0);
    assert_eq!(printed_root(&output), sum(&source));
    assert!(fs::read(&out).unwrap() == content);
    // The file gets the publisher's name for it, which the ticket did not contain.
    let there = dir.path().join("there");
    fs::create_dir(&there).unwrap();
    let mut command = xylem(&dir.path().join("other"));
    command.args(["get", &share.ticket]).current_dir(&there);
    assert_exit(&finish(command), 0);
    assert!(there.join("a name of some length, with blanks.bin").exists());
}

/// A forwarder can only be asked by name, so the ticket contains the name where forwarders may be asked.
#[test]
fn a_ticket_for_forwarders_contains_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(50_000, 2));
    let with = |store: &str, more: &[&str]| {
        let share = Share::with(&source, &dir.path().join(store), more);
        (ticket_of(&share), share)
    };
    let (plain, share) = with("a", &["--plain-listen", "127.0.0.1:0"]);
    assert!(plain.name.is_some() && plain.link_key.is_none());
    let udp = format!("udp://{}", share.plain.as_deref().unwrap());
    let out = dir.path().join("out");
    let arguments = [&share.ticket, "--from", &udp, "-o", text(&out)];
    assert_exit(&get(&dir.path().join("other"), &arguments), 0);
    assert!(with("b", &["--as", "/alice/film"]).0.name.is_some());
    // A short ticket is refused at once, with advice.
    let (_, short) = with("c", &[]);
    let output = get(&dir.path().join("other"), &[&short.ticket, "--from", &udp]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("holds no name"), "{}", stderr(&output));
}

/// A ticket printed by an earlier version of the program.
#[test]
fn tickets_of_version_1_are_still_read() {
    let dir = tempfile::tempdir().unwrap();
    let (source, store) = (file(dir.path(), "source", &noise(50_000, 3)), dir.path().join("store"));
    let share = Share::start(&source, &store);
    let new = ticket_of(&share);
    let link_key = StaticKey::from_bytes(secret(&store, "link")).public().0;
    let name = Name::from_uri(share.shared["name"].as_str().unwrap()).unwrap();
    for link_key in [Some(link_key), None] {
        let mut old = vec![1, if link_key.is_some() { 2 } else { 0 }];
        tlv::write_var_number(&mut old, name.as_ref().value().len() as u64);
        old.extend_from_slice(name.as_ref().value());
        old.extend_from_slice(new.root.as_bytes());
        tlv::write_var_number(&mut old, 50_000);
        old.extend_from_slice(&new.publisher.0);
        old.extend_from_slice(link_key.as_ref().map_or(&[][..], |key| key));
        ticket::write_addresses(&mut old, &[share.link.parse().unwrap()]);
        let checksum = ticket::checksum(&old);
        old.extend_from_slice(&checksum);
        let old = format!("xylem:{}", ticket::base32::encode(&old));
        let out = dir.path().join(format!("out-{}", link_key.is_some()));
        assert_exit(&get(&dir.path().join("other"), &[&old, "-o", text(&out)]), 0);
        assert!(fs::read(&out).unwrap() == fs::read(&source).unwrap());
    }
}

/// Wrapped by mail and terminals, quoted, in angle brackets; from a file, from standard input.
#[test]
fn a_ticket_is_read_in_every_pasted_shape() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(50_000, 4));
    let share = Share::start(&source, &dir.path().join("store"));
    let ticket = &share.ticket;
    let (a, b) = ticket.split_at(60);
    let shapes = [
        format!("<{ticket}>"),
        format!("\"{ticket}\""),
        format!("{a}\n{b}\n"),
        format!("> <{a}\r\n> {b}>\r\n"),
        format!("  {a} {b}  "),
        ticket.to_uppercase(),
    ];
    let store = dir.path().join("other");
    let mut n = 0;
    let mut out = || {
        n += 1;
        dir.path().join(format!("out-{n}"))
    };
    for shape in &shapes {
        let out = out();
        assert_exit(&get(&store, &[shape, "-o", text(&out)]), 0);
        let at = file(dir.path(), "ticket.txt", shape.as_bytes());
        let at = format!("@{}", text(&at));
        let mut verify = xylem(&store);
        verify.arg("verify").arg(&out).arg(&at);
        assert_exit(&finish(verify), 0);
        assert_exit(&get(&store, &[&at, "-o", text(&out), "--overwrite"]), 0);
    }
    // Words of one line without quotes around them.
    assert_exit(&get(&store, &[a, b, "-o", text(&out())]), 0);
    let mut command = xylem(&store);
    command.args(["get", "-", "-o", text(&out())]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(shapes[3].as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_exit(&output, 0);
    assert_eq!(printed_root(&output), sum(&source));
    // A wrong ticket is named as such, wherever it came from.
    for wrong in ["@/nowhere/ticket.txt", "@", "xylem:"] {
        assert_exit(&get(&store, &[wrong]), 2);
    }
    let long = file(dir.path(), "long", &noise(1 << 20, 5));
    let output = get(&store, &[&format!("@{}", text(&long))]);
    assert_exit(&output, 2);
    assert_eq!(stderr(&output).lines().count(), 1);
}

/// Another machine at the ticket's address: it has a link key of its own, and the answer that the real sharer gave to
/// another getter.
struct Impostor {
    /// Names of all Interests that it received.
    asked: Arc<Mutex<Vec<Name>>>,
    links: Arc<Mutex<usize>>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Impostor {
    fn start(at: &str, knock: [u8; 32], answer: Vec<u8>) -> Self {
        let socket = UdpSocket::bind(at).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let (asked, links) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let ends = Arc::new(AtomicBool::new(false));
        let mut endpoint =
            Endpoint::new(LinkConfig::default(), StaticKey::generate([7; 32]), [8; 32]);
        assert!(endpoint.answer_knock(&knock));
        let (into, count, end) = (asked.clone(), links.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            let (start, mut received, mut out) = (Instant::now(), vec![0; 65_536], Vec::new());
            while !end.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut received) {
                    let datagram = BytesMut::from(&received[..len]);
                    endpoint.handle_datagram(start.elapsed(), from, datagram);
                }
                let now = start.elapsed();
                endpoint.handle_timeout(now);
                while let Some(event) = endpoint.poll_event() {
                    match event {
                        LinkEvent::Connected { .. } => *count.lock().unwrap() += 1,
                        LinkEvent::Packet { link, packet, .. } => {
                            let Some(interest) = interest_in(&packet) else { continue };
                            let name = interest.name().to_name();
                            if FindId::parse(name.as_ref()).is_some() {
                                let digest = xylem_trust::Signer::digest_sha256();
                                let mut data = Vec::new();
                                let builder = xylem_packet::DataBuilder::new(name.as_ref());
                                digest.data(builder, &answer, &mut data).unwrap();
                                endpoint.send(link, &data).unwrap();
                            }
                            into.lock().unwrap().push(name);
                        }
                        _ => {}
                    }
                }
                while let Some(transmit) = endpoint.poll_transmit(now, &mut out) {
                    for datagram in out.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                        let _ = socket.send_to(datagram, transmit.to);
                    }
                }
            }
        });
        Self { asked, links, ends, thread: Some(thread) }
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// The Interest in a packet, bare or within a link service's header.
fn interest_in(packet: &[u8]) -> Option<Interest<'_>> {
    match xylem_packet::Packet::decode(packet).ok()? {
        xylem_packet::Packet::Interest(interest) => Some(interest),
        xylem_packet::Packet::Lp(lp) => Interest::decode(lp.fragment?).ok(),
        _ => None,
    }
}

/// The publisher's machine is gone, and another one has its address. It even has the publisher's vouch for the
/// publisher's link key, and the signed manifest, as any holder of the ticket could.
#[test]
fn a_host_at_the_address_without_the_key_learns_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(50_000, 6);
    let (source, store) = (file(dir.path(), "secret plans", &content), dir.path().join("store"));
    let share = Share::start(&source, &store);
    let (ticket, at) = (ticket_of(&share), share.link.clone());
    let publisher = PublisherKey::from_bytes(&secret(&store, "publisher"));
    let link_key = StaticKey::from_bytes(secret(&store, "link")).public().0;
    let name = Name::from_uri(share.shared["name"].as_str().unwrap()).unwrap();
    drop(share);
    let manifest = Manifest::file(ticket.root, 50_000, b"secret plans");
    let manifest = sign_manifest(&manifest, name.as_ref(), &publisher).unwrap();
    let vouch = Some(publisher.vouch_until(&link_key, u64::MAX));
    let answer = FindAnswer { vouch, manifest: &manifest };
    let impostor = Impostor::start(&at, ticket.publisher.0, answer.encode());

    let out = dir.path().join("out");
    let more = ["-o", text(&out), "--timeout", "2"];
    let output = get(&dir.path().join("other"), &[&[&*ticket.to_string()], &more[..]].concat());
    assert_exit(&output, 3);
    assert!(stderr(&output).contains("does not vouch for its key"), "{}", stderr(&output));
    assert!(!out.exists());
    // `--from` with an address of the ticket requires the same proof.
    let from = ["--from", &at];
    let text = ticket.to_string();
    let arguments = [&[&*text], &more[..], &from[..]].concat();
    assert_exit(&get(&dir.path().join("other"), &arguments), 3);
    // So does a ticket that has the name, or the key.
    for (name, link_key) in [(Some(name.clone()), None), (Some(name.clone()), Some(link_key))] {
        let ticket = Ticket { name, link_key, ..ticket.clone() }.to_string();
        assert_exit(&get(&dir.path().join("other"), &[&[&*ticket], &more[..]].concat()), 3);
    }

    assert!(*impostor.links.lock().unwrap() > 0, "it did answer");
    let asked = impostor.asked.lock().unwrap();
    assert!(!asked.is_empty(), "and was asked");
    for asked in asked.iter() {
        assert!(FindId::parse(asked.as_ref()).is_some(), "it was told {asked}");
        let bytes = asked.as_ref().value();
        assert!(!bytes.windows(8).any(|part| part == &ticket.root.as_bytes()[..8]));
        assert_eq!(naming::parse(name.as_ref(), asked.as_ref()), None);
    }
}

/// Any host may answer at an address that a user typed: the content is proven all the same.
#[test]
fn from_needs_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(50_000, 7));
    let (a, b) = (dir.path().join("store-a"), dir.path().join("store-b"));
    let share = Share::start(&source, &a);
    // The same file at another port and with another link key, but with the publisher's own key file.
    fs::create_dir_all(b.join("keys")).unwrap();
    let key = format!("ed25519:{}", text(&a.join("keys").join("publisher")));
    let other = Share::with(&source, &b, &["--sign", &key, "--as", "/elsewhere"]);
    let (mut n, root) = (0, sum(&source));
    let mut fetch = |from: &str, more: &[&str]| {
        n += 1;
        let out = dir.path().join(format!("out-{n}"));
        let mut command = xylem(&dir.path().join("other"));
        command.args(["--json", "get", &share.ticket, "--from", from, "-o", text(&out)]).args(more);
        let output = finish(command);
        if output.status.success() {
            assert_eq!(sum(&out), root);
        }
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for at in [&share.link, &other.link] {
        let (code, told) = fetch(at, &[]);
        assert_eq!(code, Some(0), "{told}");
        assert!(!told.contains("\"other_key\""), "the publisher vouches for both: {told}");
    }
    let key = |store: &Path| {
        let key = StaticKey::from_bytes(secret(store, "link")).public().0;
        key.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let pinned = format!("{}@{}", key(&a), other.link);
    assert_eq!(fetch(&pinned, &["--timeout", "2"]).0, Some(3), "KEY@ pins");
    let pinned = format!("{}@{}", key(&b), other.link);
    assert_eq!(fetch(&pinned, &[]).0, Some(0));
}

fn looked(store: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = xylem(store);
    command.arg("ticket").args(arguments).stdin(Stdio::null());
    let output = finish(command);
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Shows the ticket's own contents at once and always, name and size from a peer, and the listing on request.
#[test]
fn a_ticket_is_shown_without_fetching() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    fs::create_dir_all(photos.join("sub")).unwrap();
    file(&photos, "a.jpg", &noise(20_000, 8));
    file(&photos.join("sub"), "b.jpg", &noise(5, 9));
    let share = Share::start(&photos, &dir.path().join("store"));
    let (ticket, other) = (ticket_of(&share), dir.path().join("other"));
    let (code, said) = looked(&other, &[&share.ticket]);
    assert_eq!(code, Some(0));
    let name = share.shared["name"].as_str().unwrap();
    for line in [
        &format!("publisher  {}", ticket.publisher),
        &format!("root       {}", ticket.root),
        "kind       directory",
        &format!("addresses  {}", share.link),
        &format!("name       {name}"),
        "saved as   photos",
    ] {
        assert!(said.lines().any(|said| said == line), "{line} is not in {said}");
    }
    assert!(said.contains("(20005 bytes) in 2 files"), "{said}");

    let mut command = xylem(&other);
    command.args(["--json", "ticket", &share.ticket, "--files"]);
    let output = finish(command);
    assert_exit(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().filter(|e| e["event"] == name).collect::<Vec<_>>();
    let said = of("ticket")[0];
    assert_eq!(
        (&said["name"], &said["size"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(said["addresses"][0], share.link.as_str());
    assert_eq!((&of("told")[0]["files"], &of("told")[0]["bytes"]), (&2.into(), &20_005.into()));
    let entries: Vec<_> =
        of("entry").iter().map(|e| (e["path"].clone(), e["size"].clone())).collect();
    assert_eq!(
        entries,
        [("a.jpg".into(), 20_000.into()), ("sub".into(), 0.into()), ("sub/b.jpg".into(), 5.into())]
    );

    drop(share);
    let text = ticket.to_string();
    for arguments in [&[&*text, "--offline"][..], &[&text, "--timeout", "0.3"]] {
        let (code, said) = looked(&other, arguments);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(&format!("root       {}", ticket.root)), "{said}");
        assert!(
            said.contains("name       unknown") && said.contains("size       unknown"),
            "{said}"
        );
    }
    assert_eq!(looked(&other, &[&text, "--files", "--timeout", "0.3"]).0, Some(3));
    assert_eq!(looked(&other, &[&text[..text.len() - 1]]).0, Some(2));
}

/// `--announce` may name a host; each dialer resolves it.
#[test]
fn an_address_may_be_a_host_name() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(50_000, 10));
    let share = Share::start(&source, &dir.path().join("store"));
    let port = share.link.rsplit(':').next().unwrap();
    let addresses = vec![format!("localhost:{port}").parse().unwrap()];
    let named = Ticket { addresses, ..ticket_of(&share) }.to_string();
    let out = dir.path().join("out");
    assert_exit(&get(&dir.path().join("other"), &[&named, "-o", text(&out)]), 0);
    let nowhere = vec!["no-such-host.invalid:7348".parse().unwrap()];
    let nowhere = Ticket { addresses: nowhere, ..ticket_of(&share) }.to_string();
    let output = get(&dir.path().join("other"), &[&nowhere, "--timeout", "1"]);
    assert_exit(&output, 3);
    assert!(stderr(&output).contains("no-such-host.invalid"), "{}", stderr(&output));
}

/// Output of `share` on a terminal with this many rows, up to its last line.
#[cfg(target_os = "linux")]
fn on_a_terminal(rows: u32, share: &str) -> String {
    use std::io::Read;
    let command = format!("stty rows {rows} cols 80; exec {share}");
    let mut child = std::process::Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("`script`, of util-linux, is there");
    let (mut said, mut byte) = (Vec::new(), [0]);
    let mut stdout = child.stdout.take().unwrap();
    while !said.ends_with(b"until Ctrl-C") && stdout.read(&mut byte).unwrap() > 0 {
        said.push(byte[0]);
    }
    // The end of the terminal ends the program.
    child.kill().unwrap();
    child.wait().unwrap();
    String::from_utf8(said).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_qr_code_does_not_scroll_the_ticket_away() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        return common::skipped("`script` is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", b"x");
    let share = |n: u32, more: &str| {
        let store = dir.path().join(format!("store-{n}"));
        let (program, listen) = (common::XYLEM, "--listen 127.0.0.1:0");
        format!("{program} --store {} share {listen} {more} {}", text(&store), text(&source))
    };
    let small = on_a_terminal(24, &share(1, ""));
    assert!(small.contains("xylem:") && !small.contains('█'), "{small}");
    assert!(small.lines().count() < 24, "{small}");
    assert!(on_a_terminal(24, &share(2, "--qr")).contains('█'), "it was asked for");
    assert!(on_a_terminal(50, &share(3, "")).contains('█'), "there is room");
}

const RELAY: &str =
    "0505050505050505050505050505050505050505050505050505050505050505@192.0.2.9:7348";

/// A ticket names all relays that the share registers with: any of them may be off at the time of a fetch.
#[test]
fn a_ticket_names_all_relays() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", b"x");
    let store = dir.path().join("store");
    let relays: Vec<String> =
        (1..=4).map(|n| format!("{}@127.0.0.1:{n}", format!("0{n}").repeat(32))).collect();
    let flags: Vec<&str> = relays.iter().flat_map(|relay| ["--relay", relay]).collect();
    let share = Share::with(&source, &store, &flags);
    let named: Vec<String> = ticket_of(&share).relays.iter().map(ToString::to_string).collect();
    assert_eq!(named, relays);
}

/// A share's ticket names its relay, from the flag, the environment or the settings; `ticket` shows it.
#[test]
fn a_ticket_names_the_relay_that_a_person_named() {
    let dir = tempfile::tempdir().unwrap();
    let (source, store) = (file(dir.path(), "source", b"x"), dir.path().join("store"));
    let config = file(dir.path(), "c.toml", format!("relay = [\"xylem://{RELAY}\"]\n").as_bytes());
    let plain = Share::start(&source, &store);
    assert!(ticket_of(&plain).relays.is_empty());
    let set = |name: &str, value: &str| {
        let mut command = xylem(&store);
        command.env(name, value);
        Share::run(command, &source, &[])
    };
    let named = [
        Share::with(&source, &store, &["--relay", RELAY]),
        set("XYLEM_RELAY", RELAY),
        set("XYLEM_CONFIG", text(&config)),
    ];
    for share in &named {
        let ticket = ticket_of(share);
        assert_eq!(ticket.relays.first().map(ToString::to_string).as_deref(), Some(RELAY));
        assert_eq!(Ticket { relays: Vec::new(), ..ticket }.addresses.len(), 1);
    }
    let look = |more: &[&str]| {
        let mut command = xylem(&dir.path().join("other"));
        command.args(["ticket", "--offline", &named[0].ticket]).args(more);
        String::from_utf8(finish(command).stdout).unwrap()
    };
    assert!(look(&[]).contains(&format!("relay      {RELAY}\n")), "{}", look(&[]));
    let event: serde_json::Value =
        serde_json::from_str(look(&["--json"]).lines().next().unwrap()).unwrap();
    assert_eq!(event["relay"]["key"], RELAY[..64]);
    assert_eq!(event["relay"]["addresses"][0], "192.0.2.9:7348");
    // A file that is present needs no relay.
    let out = dir.path().join("out");
    assert_exit(&get(&dir.path().join("other"), &[&named[0].ticket, "-o", text(&out)]), 0);
}

#[test]
fn an_invalid_relay_is_wrong_usage_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let (source, store) = (file(dir.path(), "source", b"x"), dir.path().join("store"));
    for wrong in ["xylem://192.0.2.9:7348", "05@192.0.2.9:7348", "udp://192.0.2.9", "relay example"]
    {
        let mut command = xylem(&store);
        command.args(["share", "--relay", wrong]).arg(&source);
        assert_exit(&finish(command), 2);
    }
    let config = file(dir.path(), "c.toml", b"relay = [\"xylem://192.0.2.9:7348\"]\n");
    let mut command = xylem(&store);
    command.args(["--config", text(&config), "share"]).arg(&source);
    let output = finish(command);
    assert_exit(&output, 2);
    assert!(
        stderr(&output).contains("c.toml: relay: xylem://192.0.2.9:7348: a relay needs its key")
    );
}

/// A folder may be shared under several names. A ticket without a name fits each of them: also the one that this store
/// has not met, and peers that answer with different ones.
#[test]
fn a_ticket_without_a_name_fits_each_name_of_the_content() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, sharer) = (dir.path().join("src"), dir.path().join("sharer"));
    fs::create_dir_all(&folder).unwrap();
    let content = noise(100_000, 3);
    file(&folder, "large", &content);
    let named = Share::with(&folder, &sharer, &["--as", "/n/1/src"]);
    let plain = Share::start(&folder, &sharer);
    assert_eq!(ticket_of(&plain).name, None);
    assert_eq!(ticket_of(&plain).root, ticket_of(&named).root);

    // The store has the manifest of one name, and the peer knows the other.
    let store = dir.path().join("getter");
    let fetched = |out: &str, arguments: &[&str]| {
        let into = format!("{}/{out}/", dir.path().display());
        let all = [arguments, &["-o", &into, "--no-serve", "--overwrite", "--timeout", "20"]];
        let output = get(&store, &all.concat());
        assert_exit(&output, 0);
        assert!(!stderr(&output).contains("did not verify"), "{}", stderr(&output));
        assert_eq!(fs::read(dir.path().join(out).join("src/large")).unwrap(), content);
    };
    fetched("first", &[&named.ticket]);
    fetched("second", &[&plain.ticket]);
    // Two peers answer, each with its name.
    fetched("third", &[&plain.ticket, "--from", &named.link]);
}
