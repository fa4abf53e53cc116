//! Problems that foreign NDN programs met: registrations where the settings name anchors, objects of one packet, faces
//! that do not come up, keys of other algorithms.
#![cfg(unix)]

use crate::common::serving::{Serving, certificate, run};
use crate::common::{Node, assert_exit, file, noise, stderr, text, until};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::time::Duration;
use xylem_packet::link_service::{LinkService, LinkServiceConfig};
use xylem_packet::{ContentType, DataBuilder, InterestBuilder, Name, Packet};
use xylem_trust::Signer;

/// With anchors a node accepts no digest as a signature: `put` registers with the key that it signs with. The node
/// accepts an anchor's key, and a key with a certificate that an anchor has signed; no other.
#[test]
fn put_registers_with_its_key_where_anchors_are_set() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for identity in ["/org", "/org/alice", "/eve"] {
        assert_exit(&run(dir, &["key", "new", identity]), 0);
    }
    let org = certificate(dir, &["/org"], "org.cert");
    let own = certificate(dir, &["/org/alice"], "own.cert");
    let alice = certificate(dir, &["--by", "/org", &own], "alice.cert");
    let settings = format!("[node.management]\nanchors = [{org:?}]\ncertificates = [{alice:?}]\n");
    let node = Node::start(dir, &settings);
    let at = node.at("unix").to_owned();
    let source = file(dir, "note", b"a note");
    for (who, name) in [("/org", "/org/note"), ("/org/alice", "/org/alice/note")] {
        let key = format!("key:{who}");
        let _serving =
            Serving::start(dir, &["ndn", "put", name, text(&source), "--sign", &key, "--at", &at]);
        let trust = if who == "/org" { &org } else { &own };
        until("the object", || {
            run(dir, &["ndn", "peek", name, "--trust", trust, "--at", &at]).status.success()
        });
    }
    for sign in ["key:/eve", "digest-sha256", "ed25519"] {
        let refused =
            run(dir, &["ndn", "put", "/notes/eve", text(&source), "--sign", sign, "--at", &at]);
        assert!(!refused.status.success() && stderr(&refused).contains("403"), "{sign}");
    }
}

/// `ndnd cat` and NDNts look for metadata and segments alone.
#[test]
fn a_packet_of_put_is_found_as_segments_too() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix").to_owned();
    let source = file(dir, "note", b"a note");
    let _serving = Serving::start(dir, &["ndn", "put", "/notes/1", text(&source), "--at", &at]);
    let got = dir.join("got");
    until("the object", || {
        run(dir, &["get", "/notes/1", "--insecure", "--from", &at, "-o", text(&got)])
            .status
            .success()
    });
    assert_eq!(fs::read(&got).unwrap(), b"a note");
    for (name, prefix) in [("/notes/1", false), ("/notes/1/32=metadata", true)] {
        let more: &[&str] = if prefix { &["--prefix"] } else { &[] };
        let output = run(dir, &[&["ndn", "peek", name, "--at", &at], more].concat());
        assert_exit(&output, 0);
    }
}

/// A producer reports at once what it lacks: by a Data, which passes every forwarder, where the content can't exist,
/// and by a Nack where another producer may have it. `get` and `peek` end with one line.
#[test]
fn missing_data_ends_a_fetch_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix").to_owned();
    let source = file(dir, "film", &[7; 20_000]);
    let put = ["ndn", "put", "/notes/film/v=7", text(&source), "--segments", "--at", &at];
    let _serving = Serving::start(dir, &put);
    until("the object", || {
        run(dir, &["ndn", "peek", "/notes/film/v=7/seg=2", "--at", &at]).status.success()
    });
    // Three segments: 0 to 2. The answer is no timeout: that would be exit 3 too, after a minute.
    for missing in ["seg=3", "seg=999", "32=other", "x"] {
        let name = format!("/notes/film/v=7/{missing}");
        let output = run(dir, &["ndn", "peek", &name, "--at", &at, "--lifetime", "60"]);
        assert_exit(&output, 3);
        let said = stderr(&output);
        assert!(said.contains("there is no such packet") && said.lines().count() == 1, "{said}");
    }
    // Another producer may have another version.
    let output =
        run(dir, &["ndn", "peek", "/notes/film/v=8/seg=0", "--at", &at, "--lifetime", "60"]);
    assert_exit(&output, 3);
    assert!(stderr(&output).contains("Nack 150"), "{}", stderr(&output));
    let get = ["get", "/notes/film/v=8", "--insecure", "--from", &at, "--timeout", "600"];
    let output = run(dir, &[&get[..], &["-o", "got"]].concat());
    assert_exit(&output, 3);
    assert!(stderr(&output).contains("Nack 150"), "{}", stderr(&output));
    assert!(!dir.join("got").exists());
}

/// The port refuses connections: the node reports it, and has no such face.
#[test]
fn a_face_to_a_refused_port_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix").to_owned();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri = format!("tcp4://127.0.0.1:{port}");
    let refused = run(dir, &["ndn", "ctl", "--at", &at, "face", "create", &uri]);
    assert!(!refused.status.success() && stderr(&refused).contains("504"), "{}", stderr(&refused));
    let list = run(dir, &["ndn", "ctl", "--at", &at, "face", "list"]);
    assert!(!String::from_utf8_lossy(&list.stdout).contains(&uri));
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp4://{}", there.local_addr().unwrap());
    assert_exit(&run(dir, &["ndn", "ctl", "--at", &at, "face", "create", &uri]), 0);
}

/// As a face that the other end has made.
#[test]
fn a_udp_face_made_by_command_sends_long_packets_in_fragments() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix").to_owned();
    let neighbor = UdpSocket::bind("127.0.0.1:0").unwrap();
    neighbor.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let uri = format!("udp4://{}", neighbor.local_addr().unwrap());
    let ctl = |args: &[&str]| run(dir, &[&["ndn", "ctl", "--at", &at], args].concat());
    assert_exit(&ctl(&["face", "create", &uri, "--mtu", "1400"]), 0);
    let list = String::from_utf8(ctl(&["face", "list"]).stdout).unwrap();
    let face = list.lines().find(|line| line.contains(&uri)).expect("it is listed");
    assert!(face.contains("mtu 1400") && !face.contains("null://"), "{face}");
    let content = noise(4_000, 1);
    let source = file(dir, "long", &content);
    let put = ["ndn", "put", "/a/long", text(&source), "--one", "--at", &at];
    let _serving = Serving::start(dir, &put);
    until("the packet", || run(dir, &["ndn", "peek", "/a/long", "--at", &at]).status.success());

    let name: Name = "/a/long".parse().unwrap();
    let mut interest = Vec::new();
    InterestBuilder::new(name.as_ref()).nonce([1; 4]).encode(&mut interest).unwrap();
    let to = node.at("udp4").strip_prefix("udp4://").unwrap();
    neighbor.send_to(&interest, to).unwrap();
    let mut link_service = LinkService::new(LinkServiceConfig::default());
    let mut buffer = [0; 9_000];
    let received = loop {
        let length = neighbor.recv(&mut buffer).expect("the next fragment");
        assert!(length <= 1_400, "{length}");
        let received = link_service.receive(Duration::ZERO, &buffer[..length]).unwrap();
        if let Some(received) = received {
            break received.packet.to_vec();
        }
    };
    let Ok(Packet::Data(data)) = Packet::decode(&received) else { panic!("{received:?}") };
    assert!(data.content() == content);
}

/// A key file as NDNd writes it, with a key of this DER. Its signature is not checked so early.
fn key_file(dir: &Path, named: &str, der: &[u8]) -> String {
    let name: Name = "/a/KEY/1".parse().unwrap();
    let mut wire = Vec::new();
    let builder = DataBuilder::new(name.as_ref()).content_type(ContentType(9));
    Signer::digest_sha256().data(builder, der, &mut wire).unwrap();
    text(&file(dir, named, &wire)).to_owned()
}

#[test]
fn keys_of_other_algorithms_are_refused_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // RSAPrivateKey (PKCS #1), and an ECPrivateKey (SEC 1) on P-384, as far as they are parsed.
    let rsa = [&[0x30, 0x09, 2, 1, 0, 2, 4, 0x7F, 1, 1, 1][..]].concat();
    let curve = [0xA0, 7, 6, 5, 0x2B, 0x81, 0x04, 0x00, 0x22];
    let p384 = [&[0x30, 62, 2, 1, 1, 4, 48][..], &[7; 48], &curve].concat();
    for (named, der) in [("rsa", rsa), ("p384", p384)] {
        let refused = run(dir, &["key", "import", &key_file(dir, named, &der)]);
        assert_exit(&refused, 2);
        let said = stderr(&refused);
        assert!(said.contains("not supported") && !said.contains("certificate"), "{said}");
    }
}

#[test]
fn a_certificate_is_printed_as_base64_alone_too() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_exit(&run(dir, &["key", "new", "/alice"]), 0);
    let plain = run(dir, &["key", "cert", "/alice", "--base64"]).stdout;
    let plain = String::from_utf8(plain).unwrap();
    let digit = |c: char| c.is_ascii_alphanumeric() || "+/=\n".contains(c);
    assert!(plain.starts_with("Bv") && plain.chars().all(digit), "{plain}");
    let armored = run(dir, &["key", "cert", "/alice"]).stdout;
    assert!(String::from_utf8(armored).unwrap().contains(&plain));
}

/// Signed by a key of the keyring: the manifest names a certificate that can be fetched, the object stands below its
/// owner's name, and a node with anchors accepts the registration.
#[test]
fn a_share_signed_by_an_identity_names_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for identity in ["/org", "/org/alice"] {
        assert_exit(&run(dir, &["key", "new", identity]), 0);
    }
    let org = certificate(dir, &["/org"], "org.cert");
    let own = certificate(dir, &["/org/alice"], "own.cert");
    let alice = certificate(dir, &["--by", "/org", &own], "alice.cert");
    assert_exit(&run(dir, &["key", "import", &alice]), 0);
    let settings = format!("[node.management]\nanchors = [{org:?}]\ncertificates = [{alice:?}]\n");
    let node = Node::start(dir, &settings);
    let at = node.at("unix").to_owned();
    let source = file(dir, "note", &[7; 100_000]);
    let share = ["share", text(&source), "--sign", "key:/org/alice", "--via", &at];
    let _serving = Serving::start(dir, &[&share[..], &["--listen", "127.0.0.1:0"]].concat());
    // The metadata packet is signed as the manifest is.
    let trust = ["--trust", alice.as_str(), "--at", &at];
    let metadata = ["ndn", "peek", "/org/alice/note/32=metadata", "--prefix", "--fresh"];
    until("the object", || run(dir, &[&metadata[..], &trust].concat()).status.success());
    let wire = xylem_trust::Armor::decode(&fs::read(&alice).unwrap()).unwrap();
    let named = xylem_packet::Data::decode(&wire).unwrap().name().to_string();
    let fetched = run(dir, &["ndn", "peek", &named, "--trust", &org, "--at", &at]);
    assert_exit(&fetched, 0);
    // A share that signs by another key is refused.
    let wrong = run(dir, &["share", text(&source), "--sign", "ed25519"]);
    assert_exit(&wrong, 2);
}
