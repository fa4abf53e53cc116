//! Certificates fetched along a chain: `key serve` answers for them, and `get NAME` follows them to a trusted key or
//! reports which certificate is wrong. The real program, over a real node.
#![cfg(unix)]

use crate::common::{Node, assert_exit, file, finish, stderr, text, until, xylem};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Output, Stdio};
use xylem_packet::{Component, Name};
use xylem_trust::{Armor, Certificate, Issue, PrivateKey, Signer, ValidityPeriod, self_signed};

const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };
/// A validity until 2020-09-13.
const OVER: ValidityPeriod = ValidityPeriod { not_before_ms: 0, not_after_ms: 1_600_000_000_000 };
/// A validity from 2200-01-01 on.
const LATER: ValidityPeriod =
    ValidityPeriod { not_before_ms: 7_258_118_400_000, not_after_ms: 10_000_000_000_000 };

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn private(identity: &str) -> PrivateKey {
    PrivateKey::ed25519(*xylem_hash::hash(identity.as_bytes()).as_bytes())
}

/// A signer of `identity` that names the certificate issued for it.
fn signer(identity: &str) -> Signer {
    private(identity).signer(name(&format!("{identity}/KEY/1/up/v=1"))).unwrap()
}

/// A certificate for `identity` by `issuer`.
fn certified(issuer: &str, identity: &str, validity: ValidityPeriod) -> Vec<u8> {
    renewed(issuer, identity, 1, validity)
}

fn renewed(issuer: &str, identity: &str, version: u64, validity: ValidityPeriod) -> Vec<u8> {
    let (key_name, public_key) = (name(&format!("{identity}/KEY/1")), private(identity).public());
    let issue = Issue {
        key_name: key_name.as_ref(),
        issuer_id: Component::generic(b"up"),
        version,
        public_key: &public_key,
        validity,
    };
    let mut wire = Vec::new();
    issue.sign(&signer(issuer), &mut wire).unwrap();
    wire
}

fn run(store: &Path, args: &[&str]) -> Output {
    let mut command = xylem(store);
    command.args(args).stdin(Stdio::null());
    finish(command)
}

/// A tool that serves, killed when it is dropped.
struct Serving(Child, #[allow(dead_code)] BufReader<ChildStdout>);

impl Serving {
    /// Starts the tool and waits for this many lines: each is a name that was registered.
    fn start(store: &Path, args: &[&str], lines: usize) -> Self {
        let mut command = xylem(store);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..lines {
            let mut line = String::new();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "{args:?} ended");
        }
        Serving(child, out)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node, an object that `publisher` signs, and a store that trusts /org for /org.
struct World {
    dir: tempfile::TempDir,
    node: Node,
    object: String,
    _serving: Vec<Serving>,
}

impl World {
    fn new(publisher: &str, certificates: &[Vec<u8>]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |named: &str| dir.path().join(named);
        let node = Node::start(dir.path(), "");
        let uri = node.at("unix").to_owned();
        let mut serving = Vec::new();
        let written = |i: usize, wire: &Vec<u8>| {
            text(&file(dir.path(), &format!("{i}.cert"), wire)).to_owned()
        };
        let files: Vec<String> =
            certificates.iter().enumerate().map(|(i, wire)| written(i, wire)).collect();
        let mut serve = vec!["key", "serve", "--at", &uri];
        serve.extend(files.iter().map(String::as_str));
        if !files.is_empty() {
            serving.push(Serving::start(&at("serving"), &serve, files.len()));
        }
        let key_name = name(&format!("{publisher}/KEY/1"));
        let packet = private(publisher).to_packet(key_name.as_ref()).unwrap();
        let key = Armor::Key.encode(&key_name.to_string(), &packet);
        let key = file(dir.path(), "key", key.as_bytes());
        assert_exit(&run(&at("theirs"), &["key", "import", text(&key)]), 0);
        for (wire, file) in certificates.iter().zip(&files) {
            if Certificate::decode(wire).unwrap().key_name() == key_name.as_ref() {
                assert_exit(&run(&at("theirs"), &["key", "import", file]), 0);
            }
        }
        let (object, sign) = (format!("{publisher}/note"), format!("key:{publisher}"));
        let note = file(dir.path(), "note", &[7; 20_000]);
        let put = ["ndn", "put", &object, text(&note), "--sign", &sign, "--at", &uri];
        serving.push(Serving::start(&at("theirs"), &put, 1));
        let org = self_signed(&signer("/org"), 1, ALWAYS).unwrap();
        let org = file(dir.path(), "org.cert", Armor::bare(&org).as_bytes());
        assert_exit(&run(&at("ours"), &["key", "trust", text(&org)]), 0);
        World { node, object, _serving: serving, dir }
    }

    fn got(&self) -> PathBuf {
        self.dir.path().join("got")
    }

    fn get(&self, more: &[&str]) -> Output {
        let at = self.node.at("unix");
        let got = self.got();
        let get = ["get", &self.object, "--from", at, "-o", text(&got)];
        run(&self.dir.path().join("ours"), &[&get[..], more].concat())
    }

    /// Asserts that the fetch fails, and that one line contains all of these parts.
    #[track_caller]
    fn refused(&self, parts: &[&str]) {
        let output = self.get(&[]);
        assert_exit(&output, 1);
        let said = stderr(&output);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert!(!self.got().exists());
    }
}

/// A chain: `/org` certifies `/org/0`, that certifies `/org/0/1`, and so on. Returns each certificate and the last
/// identity.
fn line(len: usize) -> (Vec<Vec<u8>>, String) {
    let (mut above, mut certificates) = ("/org".to_owned(), Vec::new());
    for i in 0..len {
        let below = format!("{above}/{i}");
        certificates.push(certified(&above, &below, ALWAYS));
        above = below;
    }
    (certificates, above)
}

#[test]
fn three_certificates_lead_to_a_trusted_key() {
    let (certificates, alice) = line(3);
    let world = World::new(&alice, &certificates);
    assert_exit(&world.get(&[]), 0);
    assert_eq!(fs::read(world.got()).unwrap(), [7; 20_000]);
    // A trusted certificate that the user names for one run works as well, also for a single packet.
    let dir = world.dir.path();
    let org = dir.join("org.cert");
    fs::remove_file(world.got()).unwrap();
    assert_exit(&world.get(&["--trust", text(&org)]), 0);
    let first = format!("{}/32=metadata", world.object);
    let peek =
        ["ndn", "peek", &first, "--prefix", "--trust", text(&org), "--at", world.node.at("unix")];
    assert_exit(&run(&dir.join("ours"), &peek), 0);
    // A user who trusts another's key, or the same key for another prefix, gets nothing.
    let eve = self_signed(&signer("/eve"), 1, ALWAYS).unwrap();
    let eve = file(dir, "eve.cert", &eve);
    fs::remove_file(world.got()).unwrap();
    let other = world.get(&["--trust", text(&eve)]);
    assert_exit(&other, 1);
    assert!(stderr(&other).contains("/org/KEY/1/up"), "{}", stderr(&other));
    let ours = dir.join("ours");
    assert_exit(&run(&ours, &["key", "trust", text(&org), "/org/1"]), 0);
    assert_exit(&run(&ours, &["key", "untrust", "/org", "/org"]), 0);
    world.refused(&["is not under /org/1, for which /org/KEY/1 is trusted"]);
}

/// A publication that `share` signs by an identity is fetched by the same chain: its manifest names the publisher's
/// certificate, which the share itself serves.
#[test]
fn a_share_by_an_identity_is_verified_along_its_chain() {
    let (certificates, alice) = line(3);
    let world = World::new(&alice, &certificates[..2]);
    let dir = world.dir.path();
    let at = world.node.at("unix");
    let own = file(dir, "alice.cert", &certificates[2]);
    assert_exit(&run(&dir.join("theirs"), &["key", "import", text(&own)]), 0);
    let film = file(dir, "film", &[9; 300_000]);
    let sign = format!("key:{alice}");
    let share = ["share", text(&film), "--sign", &sign, "--via", at, "--listen", "127.0.0.1:0"];
    let _serving = Serving::start(&dir.join("theirs"), &share, 1);
    let name = format!("{alice}/film");
    let get =
        ["get", &name, "--from", at, "--no-serve", "-o", text(&world.got())].map(str::to_owned);
    let get: Vec<_> = get.iter().map(String::as_str).collect();
    until("the share is registered", || run(&dir.join("ours"), &get).status.success());
    assert_eq!(fs::read(world.got()).unwrap(), [9; 300_000]);
    // A user who trusts only another key gets nothing.
    let eve = self_signed(&signer("/eve"), 1, ALWAYS).unwrap();
    let eve = file(dir, "eve.cert", &eve);
    fs::remove_file(world.got()).unwrap();
    let other = run(&dir.join("ours"), &[&get[..], &["--trust", text(&eve)]].concat());
    assert_exit(&other, 1);
    assert!(!world.got().exists());
}

/// The node's cache holds an earlier certificate of the key, which has expired, when the packet comes.
#[test]
fn a_cached_older_certificate_does_not_block_its_key() {
    let world = World::new("/org/none", &[]);
    let dir = world.dir.path();
    let at = world.node.at("unix");
    let old = file(dir, "old.cert", &certified("/org", "/org/alice", OVER));
    let new = file(dir, "new.cert", &renewed("/org", "/org/alice", 2, ALWAYS));
    let key_name = name("/org/alice/KEY/1");
    let serving = Serving::start(&dir.join("old"), &["key", "serve", text(&old), "--at", at], 1);
    let peek = ["ndn", "peek", "/org/alice/KEY/1", "--prefix", "--at", at];
    let held = run(&dir.join("x"), &peek);
    assert_exit(&held, 0);
    drop(serving);
    assert_eq!(run(&dir.join("x"), &peek).stdout, held.stdout, "the cache answers");

    let packet = private("/org/alice").to_packet(key_name.as_ref()).unwrap();
    let key = Armor::Key.encode(&key_name.to_string(), &packet);
    let key = file(dir, "alice.key", key.as_bytes());
    let theirs = dir.join("alice");
    assert_exit(&run(&theirs, &["key", "import", text(&key)]), 0);
    assert_exit(&run(&theirs, &["key", "import", text(&new)]), 0);
    let _keys = Serving::start(&theirs, &["key", "serve", "--at", at], 1);
    let note = file(dir, "alices", &[5; 20_000]);
    let put = ["ndn", "put", "/org/alice/note", text(&note), "--sign", "key:/org/alice"];
    let _put = Serving::start(&theirs, &[&put[..], &["--at", at]].concat(), 1);
    let org = dir.join("org.cert");
    let got = world.got();
    let get = ["get", "/org/alice/note", "--from", at, "-o", text(&got), "--trust", text(&org)];
    assert_exit(&run(&dir.join("ours"), &get), 0);
    assert_eq!(fs::read(&got).unwrap(), [5; 20_000]);
}

#[test]
fn a_certificate_that_has_expired_is_named() {
    let (mut certificates, alice) = line(3);
    certificates[1] = certified("/org/0", "/org/0/1", OVER);
    let said = ["/org/0/1/KEY/1/up/v=1", "expired at 2020-09-13"];
    World::new(&alice, &certificates).refused(&said);
}

#[test]
fn a_certificate_that_is_not_yet_valid_is_named() {
    let (mut certificates, alice) = line(3);
    certificates[2] = certified("/org/0/1", "/org/0/1/2", LATER);
    let said = ["/org/0/1/2/KEY/1/up/v=1", "is not valid before 2200-01-01"];
    World::new(&alice, &certificates).refused(&said);
}

#[test]
fn a_circle_of_certificates_has_an_end() {
    let (mut certificates, alice) = line(3);
    certificates[0] = certified("/org/0/1", "/org/0", ALWAYS);
    let said = ["/org/0/KEY/1/up/v=1", "is signed by /org/0/1/KEY/1", "certifies itself"];
    World::new(&alice, &certificates).refused(&said);
}

#[test]
fn a_chain_that_is_too_long_is_given_up() {
    let (certificates, alice) = line(9);
    World::new(&alice, &certificates).refused(&["its chain has more than 8 certificates"]);
    let (certificates, alice) = line(8);
    assert_exit(&World::new(&alice, &certificates).get(&[]), 0);
}

#[test]
fn a_certificate_for_a_name_that_is_not_its_signer_s_is_refused() {
    let (mut certificates, alice) = line(3);
    certificates.push(certified("/org", "/org/other", ALWAYS));
    certificates[2] = certified("/org/other", &alice, ALWAYS);
    let said = ["/org/0/1/2/KEY/1/up/v=1", "is not under /org/other"];
    World::new(&alice, &certificates).refused(&said);
}

#[test]
fn a_certificate_that_is_forged_or_missing_is_named() {
    let (certificates, alice) = line(3);
    // A key of another owner, signed in the name of /org.
    let thief = private("/thief").signer(name("/org/KEY/1/up/v=1")).unwrap();
    let (key_name, public_key) = (name("/org/0/KEY/1"), private("/org/0").public());
    let (issuer_id, version) = (Component::generic(b"up"), 1);
    let (mut forged, validity) = (Vec::new(), ALWAYS);
    Issue { key_name: key_name.as_ref(), issuer_id, version, public_key: &public_key, validity }
        .sign(&thief, &mut forged)
        .unwrap();
    assert!(Certificate::decode(&forged).is_ok());
    let with = [&[forged][..], &certificates[1..]].concat();
    World::new(&alice, &with).refused(&["/org/0/KEY/1/up/v=1", "the signature is wrong"]);
    World::new(&alice, &certificates[1..]).refused(&["/org/0/KEY/1/up/v=1 could not be fetched"]);
}
