//! `xylem ndn ca` and `xylem ndn request`: certificates on request, by the real programs over a real node.
#![cfg(unix)]

use crate::common;
use crate::common::authority::{EventProcess, MailServer, authority, digest};
use crate::common::{Node, assert_exit, file, finish, stderr, text, xylem};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use xylem_ndncert::packets::ErrorMessage;
use xylem_ndncert::{
    CaProfile, CertificateRequest, ChallengeChoice, ErrorCode, Lookup, ProfileTrust, RequestState,
};
use xylem_packet::{Data, Interest, frame_len};
use xylem_trust::Signer;

/// A node, a CA of `/org` on it, and folders for others.
struct World {
    dir: tempfile::TempDir,
    node: Node,
    ca: EventProcess,
}

impl World {
    fn new(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::start(dir.path(), "");
        let ca = authority(&dir.path().join("ca"), node.at("unix"), more);
        World { dir, node, ca }
    }

    fn store(&self, whose: &str) -> PathBuf {
        self.dir.path().join(whose)
    }

    fn run(&self, whose: &str, args: &[&str]) -> Output {
        let mut command = xylem(&self.store(whose));
        command.args(args).stdin(Stdio::null()).current_dir(self.dir.path());
        finish(command)
    }

    /// Begins a request for a name by a client that trusts the CA's digest.
    fn request(&self, whose: &str, name: &str, more: &[&str]) -> EventProcess {
        let digest = digest(&self.ca);
        let args = ["ndn", "request", "/org", "--name", name, "--ca-digest", &digest];
        EventProcess::start(&self.store(whose), &[&args[..], &self.at(), more].concat())
    }

    fn at(&self) -> [&str; 2] {
        ["--at", self.node.at("unix")]
    }

    /// Gets a certificate for a name by a code of the operator: number `pin` of the codes shown.
    fn certified(&mut self, whose: &str, name: &str, pin: usize) -> Value {
        let mut request = self.request(whose, name, &[]);
        request.wait("code_wanted", 0);
        let code = self.ca.wait("pin", pin)["code"].as_str().unwrap().to_owned();
        request.type_line(&code);
        let certified = request.wait("certified", 0);
        assert_eq!(request.end().0, Some(0));
        certified
    }

    /// The CA's certificate, in a file.
    fn own(&self) -> PathBuf {
        let output = self.run("ca", &["key", "cert", "/org"]);
        assert_exit(&output, 0);
        file(self.dir.path(), "org.cert", &output.stdout)
    }

    fn restart(&mut self) {
        let at = self.node.at("unix").to_owned();
        self.ca = authority(&self.store("ca"), &at, &[]);
    }
}

fn is_text(value: &Value) -> &str {
    value.as_str().expect("text")
}

/// Asserts one line with these parts, and this exit code.
#[track_caller]
fn refused(output: &Output, code: i32, parts: &[&str]) {
    assert_exit(output, code);
    let said = stderr(output);
    assert_eq!(said.lines().filter(|line| line.starts_with("xylem: ")).count(), 1, "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn a_code_of_the_operator_gives_a_certificate_that_others_fetch() {
    let mut world = World::new(&[]);
    let certified = world.certified("alice", "/org/alice", 0);
    let name = is_text(&certified["certificate"]).to_owned();
    assert!(name.starts_with("/org/alice/KEY/"), "{name}");
    assert_eq!(certified["derivation"], "blake3", "both are ours");
    let pin = &world.ca.told("pin")[0];
    assert_eq!(pin["identity"], "/org/alice");
    assert!(name.starts_with(is_text(&pin["key"])));
    let issued = world.ca.wait("issued", 0);
    assert_eq!((&issued["certificate"], &issued["by"]), (&certified["certificate"], &"pin".into()));
    assert_eq!(issued["valid_until_ms"], certified["valid_until_ms"]);
    // The certificate lies with the key.
    let list = world.run("alice", &["--json", "key", "list"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains(&name));

    // A verifier that trusts only /org accepts what alice's key signs. Her own program has all names below hers but
    // that of the certificate, which comes from the CA.
    let note = file(world.dir.path(), "note", &[7; 20_000]);
    let at = world.at().map(str::to_owned);
    let put = ["ndn", "put", "/org/alice/note", text(&note), "--sign", "key:/org/alice"];
    let publishing = [&put[..], &[&at[0], &at[1]]].concat();
    let mut publishing = EventProcess::start(&world.store("alice"), &publishing);
    publishing.wait("published", 0);
    let own = world.own();
    let fetch = |world: &World, got: &str| {
        let get = ["get", "/org/alice/note", "--from", &at[1], "--trust", text(&own), "-o", got];
        assert_exit(&world.run("bob", &get), 0);
    };
    fetch(&world, "got");
    // A restarted CA serves the certificates that it issued before it was killed.
    world.restart();
    common::until("the certificate", || {
        let peek = ["ndn", "peek", &name, "--at", &at[1], "--lifetime", "1"];
        world.run("bob", &peek).status.success()
    });
    fetch(&world, "again");
}

#[test]
fn a_certificate_is_renewed_by_itself() {
    let mut world = World::new(&[]);
    let first = world.certified("alice", "/org/alice", 0);
    let mut renewal = world.request("alice", "/org/alice", &["--challenge", "possession"]);
    let second = renewal.wait("certified", 0);
    assert_eq!(renewal.end().0, Some(0));
    assert_ne!(first["certificate"], second["certificate"]);
    assert_eq!(world.ca.wait("issued", 1)["by"], "possession");
    assert_eq!(world.ca.told("pin").len(), 1, "nobody was asked");
    // The first certificate gets one for another key of a name below; it gets none for a name beside.
    let with = ["--with", "key:/org/alice"];
    let mut below = world.request("alice", "/org/alice/phone", &with);
    below.wait("certified", 0);
    let (code, said) = world.request("alice", "/org/bob", &with).end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("/org/bob is not below /org/alice"), "{said}");
    // A self-signed certificate proves nothing.
    let (code, said) = world.request("eve", "/org/eve", &["--challenge", "possession"]).end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not trusted"), "{said}");
}

#[test]
fn three_wrong_codes_end_a_request() {
    let mut world = World::new(&[]);
    let mut request = world.request("eve", "/org/eve", &[]);
    for wrong in 0..3 {
        let wanted = request.wait("code_wanted", wrong);
        assert_eq!(
            (&wanted["tries"], &wanted["wrong"]),
            (&(3 - wrong).into(), &(wrong > 0).into())
        );
        request.type_line("00000-00000");
    }
    let (code, said) = request.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("too many wrong codes"), "{said}");
    assert!(world.ca.told("issued").is_empty());
    // There is no input to read a code from.
    let mut request = world.request("eve", "/org/eve", &[]);
    let (code, said) = request.end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("type it at a terminal, or pipe it in"), "{said}");
    world.certified("eve", "/org/eve", 2);
}

/// The first CA to answer is not trusted for being first: an anchor or the digest decides.
#[test]
fn a_ca_is_trusted_by_an_anchor_or_its_digest() {
    let mut world = World::new(&[]);
    let at = world.node.at("unix").to_owned();
    let request = ["ndn", "request", "/org", "--name", "/org/alice", "--at", &at];
    let ask = |world: &World, more: &[&str]| world.run("alice", &[&request[..], more].concat());
    refused(&ask(&world, &[]), 2, &["--ca FILE", "--ca-digest DIGEST", "`xylem key trust FILE`"]);
    let other = "0".repeat(64);
    let answer = ask(&world, &["--ca-digest", &other]);
    refused(&answer, 1, &["is not trusted", &digest(&world.ca), "--ca-digest"]);
    assert_exit(&world.run("other", &["key", "new", "/org"]), 0);
    let cert = world.run("other", &["key", "cert", "/org"]).stdout;
    let other = file(world.dir.path(), "other.cert", &cert);
    refused(&ask(&world, &["--ca", text(&other)]), 1, &["is not trusted"]);
    assert_exit(&world.run("alice", &["key", "trust", text(&other)]), 0);
    refused(&ask(&world, &[]), 1, &["is not trusted"]);
    assert!(world.ca.told("pin").is_empty(), "it was asked for nothing");
    let list = world.run("alice", &["key", "list"]);
    assert!(!String::from_utf8_lossy(&list.stdout).contains("/org/alice"), "no key was made");

    let own = world.own();
    for more in [&["--ca", text(&own)][..], &[]] {
        if more.is_empty() {
            assert_exit(&world.run("alice", &["key", "trust", text(&own)]), 0);
        }
        let mut asked = EventProcess::start(&world.store("alice"), &[&request[..], more].concat());
        asked.wait("code_wanted", 0);
    }
    world.ca.wait("pin", 1);
}

#[test]
fn names_that_the_ca_does_not_give() {
    let mut world = World::new(&["--accept", "/org/staff"]);
    let (code, said) = world.request("eve", "/org/eve", &[]).end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("/org/eve") && said.contains("/org/staff"), "{said}");
    for name in ["/other/eve", "/org", "/organ/eve"] {
        let (code, said) = world.request("eve", name, &[]).end();
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&format!("{name} is not below /org")), "{said}");
    }
    let (code, said) = world.request("eve", "/org/staff/eve", &["--email", "eve@x.org"]).end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no challenge email; --challenge takes pin, possession"), "{said}");
    world.certified("al", "/org/staff/al", 0);
    let output = world.run("ca", &["ndn", "ca", "/org", "--accept", "/other"]);
    refused(&output, 2, &["/other", "not below /org"]);
    refused(&world.run("nobody", &["ndn", "ca", "/org"]), 2, &["`xylem key new /org`"]);
    let email = world.run("ca", &["ndn", "ca", "/org", "--challenge", "email"]);
    refused(&email, 2, &["--smtp HOST", "--smtp-from"]);
}

#[test]
fn a_ca_that_is_not_there() {
    let mut world = World::new(&[]);
    let mut request = world.request("alice", "/org/alice", &[]);
    request.wait("code_wanted", 0);
    let code = is_text(&world.ca.wait("pin", 0)["code"]).to_owned();
    let at = world.node.at("unix").to_owned();
    // A restarted CA knows nothing of earlier requests.
    world.restart();
    request.type_line(&code);
    let (exit, said) = request.end();
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("no such request"), "{said}");
    let mut request = world.request("alice", "/org/alice", &[]);
    request.wait("code_wanted", 0);
    let digest = digest(&world.ca);
    let World { dir, node, ca } = world;
    drop(ca);
    request.type_line(&code);
    let (exit, said) = request.end();
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("has no route to it"), "{said}");
    let again = ["ndn", "request", "/org", "--name", "/org/alice", "--ca-digest", &digest];
    let mut command = xylem(&dir.path().join("alice"));
    command.args(again).args(["--at", &at]).stdin(Stdio::null());
    refused(&finish(command), 3, &["/org/CA/INFO", "has no route to it"]);
    drop(node);
}

/// The code in the text of an email.
fn code_in(text: &str) -> String {
    let (_, code) = text.split_once("\nSubject: Your code is ").expect("a subject");
    code.lines().next().expect("a line").to_owned()
}

fn mailing<'a>(server: &'a MailServer, challenge: &'a str) -> [&'a str; 6] {
    ["--challenge", challenge, "--smtp", &server.at, "--smtp-from", "ca@example.org"]
}

#[test]
fn a_code_by_email() {
    let server = MailServer::start(true);
    let mut world = World::new(&mailing(&server, "email"));
    let email = ["--email", "Al@Example.org"];
    let mut request = world.request("al", "/org/al@example.org", &email);
    request.wait("code_wanted", 0);
    let mail = server.email(0);
    assert_eq!(mail.from.trim_end(), "<ca@example.org>");
    assert_eq!(mail.to, ["<al@example.org>"]);
    let head = mail.text.split("\n\n").next().unwrap();
    for line in ["From: ca@example.org", "To: al@example.org", "Auto-Submitted: auto-generated"] {
        assert!(head.lines().any(|l| l == line), "{head}");
    }
    request.type_line(&code_in(&mail.text));
    let certified = request.wait("certified", 0);
    assert_eq!(request.end().0, Some(0));
    assert!(is_text(&certified["certificate"]).starts_with("/org/al%40example.org/KEY/"));
    let mailed = world.ca.wait("mailed", 0);
    assert_eq!((&mailed["address"], &mailed["why"]), (&"al@example.org".into(), &Value::Null));
    assert_eq!(world.ca.wait("issued", 0)["by"], "email");
    // Only the reader of the mailbox learns the code.
    assert!(world.ca.told("pin").is_empty());
}

/// The CA can't be used to send a victim many emails, nor to send mail to an address that is not the requested name.
#[test]
fn the_ca_bounds_emails_to_a_mailbox() {
    let server = MailServer::start(true);
    let world = World::new(&mailing(&server, "email,pin"));
    // The name of another address; then two addresses, a header and an SMTP command: none of these is an address.
    let (code, said) = world.request("eve", "/org/bob@x.org", &["--email", "eve@x.org"]).end();
    assert_eq!(code, Some(2), "{said}");
    for address in [
        "al@x.org\r\nBcc: all@x.org",
        "al@x.org\nDATA",
        "al@x.org,bob@x.org",
        "al@x.org>\r\nRCPT TO:<bob@x.org",
        "-oQ/tmp@x.org",
        "al@[127.0.0.1]",
        "\"al bob\"@x.org",
    ] {
        let email = format!("--email={address}");
        let (code, said) = world.request("eve", "/org/al@x.org", &[&email]).end();
        assert_eq!(code, Some(1), "{address:?}: {said}");
        assert!(said.contains("email address is missing or malformed"), "{said}");
    }
    // At most three emails an hour to one mailbox, however the address is spelt.
    for number in 0..3 {
        let address = format!("al+{number}@x.org");
        let name = format!("/org/{address}");
        world.request("eve", &name, &["--email", &address]).wait("code_wanted", 0);
        assert_eq!(server.email(number).to, [format!("<{address}>")]);
    }
    let (code, said) = world.request("eve", "/org/al@x.org", &["--email", "al@x.org"]).end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("too many emails were requested in this hour"), "{said}");
    assert_eq!(server.emails.lock().unwrap().len(), 3);
}

#[test]
fn a_mail_relay_that_refuses_is_reported_to_the_operator() {
    let server = MailServer::start(false);
    let mut world = World::new(&mailing(&server, "email"));
    let mut request = world.request("al", "/org/al@x.org", &["--email", "al@x.org"]);
    request.wait("code_wanted", 0);
    let mailed = world.ca.wait("mailed", 0);
    assert!(is_text(&mailed["why"]).contains("nobody of this name here"), "{mailed}");
    assert!(server.emails.lock().unwrap().is_empty());
    // Mail goes in clear to another machine only on request, and never with a password.
    let word = file(world.dir.path(), "password", b"secret\n");
    let smtp = [
        "ndn",
        "ca",
        "/org",
        "--challenge",
        "email",
        "--smtp",
        "192.0.2.1",
        "--smtp-from",
        "ca@x.org",
    ];
    let login = ["--smtp-user", "ca", "--smtp-password-file", text(&word)];
    let clear = ["--smtp-security", "none"];
    refused(&world.run("ca", &[&smtp[..], &login, &clear].concat()), 2, &["not sent in clear"]);
}

/// The start of `xylem ndn ca` shows what a user types to request a certificate.
#[test]
fn the_ca_shows_what_a_client_types() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let store = dir.path().join("ca");
    let mut command = xylem(&store);
    command.args(["key", "new", "/org"]);
    assert_exit(&finish(command), 0);
    let mut command = xylem(&store);
    command.args(["ndn", "ca", "/org", "--at", node.at("unix")]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut line = || lines.next().expect("a line").unwrap();
    assert_eq!(line(), "CA of /org: pin, possession; 30 days at most");
    let (certificate, digest, typed) = (line(), line(), line());
    assert!(certificate.trim().starts_with("certificate /org/KEY/"), "{certificate}");
    let digest = digest.trim().strip_prefix("digest").unwrap().trim().to_owned();
    let expected = format!("xylem ndn request /org --name /org/NAME --ca-digest {digest}");
    assert_eq!(typed.trim(), expected);
    let (name, at) = ("/org/NAME", ["--at", node.at("unix")]);
    assert!(expected.contains(name));
    let words: Vec<&str> = expected.split(' ').skip(1).collect();
    let mut typed =
        EventProcess::start(Path::new(&dir.path().join("alice")), &[&words[..], &at].concat());
    typed.wait("code_wanted", 0);
    let pin = line();
    assert!(pin.starts_with("PIN ") && pin.contains("for /org/NAME "), "{pin}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A stranger's connection to the node.
struct Stranger {
    stream: UnixStream,
    held: Vec<u8>,
    nonce: u32,
}

impl Stranger {
    fn at(node: &Node) -> Self {
        let stream = UnixStream::connect(&node.at("unix")["unix://".len()..]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Stranger { stream, held: Vec::new(), nonce: 0 }
    }

    fn nonce(&mut self) -> [u8; 4] {
        self.nonce += 1;
        self.nonce.to_be_bytes()
    }

    fn send(&mut self, interest: &[u8]) {
        self.stream.write_all(interest).unwrap();
    }

    /// The next Data.
    fn receive(&mut self) -> Vec<u8> {
        loop {
            if let Some(len) = frame_len(&self.held).unwrap() {
                let frame = self.held.drain(..len).collect::<Vec<_>>();
                assert!(Data::decode(&frame).is_ok(), "an answer");
                return frame;
            }
            let mut chunk = [0; 65_536];
            let read = self.stream.read(&mut chunk).expect("an answer within 30 s");
            assert_ne!(read, 0, "the node goes on");
            self.held.extend_from_slice(&chunk[..read]);
        }
    }

    fn profile(&mut self) -> Vec<u8> {
        let mut lookup = Lookup::new("/org".parse().unwrap());
        loop {
            let nonce = self.nonce();
            let interest = lookup.poll_transmit(now_ms(), nonce).expect("it asks");
            self.send(&interest);
            let answer = self.receive();
            assert!(lookup.receive(&answer));
            if lookup.take().is_some() {
                return answer;
            }
        }
    }

    /// A request for a name of a key that comes of `seed`.
    fn request(&self, profile: &[u8], name: &str, seed: u32) -> CertificateRequest {
        let profile = CaProfile::decode(profile).unwrap();
        let digest = ProfileTrust::Digest(profile.digest());
        let secret = *xylem_hash::hash(&seed.to_be_bytes()).as_bytes();
        let signer = Signer::ed25519(&secret, format!("{name}/KEY/1").parse().unwrap());
        CertificateRequest::new(profile, digest, signer, u64::MAX, now_ms(), secret).unwrap()
    }

    /// Takes a request a step on; the Interest that did, and its answer.
    fn step(&mut self, request: &mut CertificateRequest) -> (Vec<u8>, Vec<u8>) {
        let nonce = self.nonce();
        let interest = request.poll_transmit(now_ms(), nonce).expect("it asks");
        self.send(&interest);
        let answer = self.receive();
        assert!(request.receive(&answer, now_ms(), seed(self.nonce)), "{request:?}");
        (interest, answer)
    }

    /// The answer to an earlier Interest, sent again with another nonce.
    fn again(&mut self, interest: &[u8]) -> Vec<u8> {
        let (mut interest, nonce) = (interest.to_vec(), self.nonce());
        let at = Interest::decode(&interest).unwrap().nonce_offset().unwrap();
        interest[at..at + 4].copy_from_slice(&nonce);
        self.send(&interest);
        self.receive()
    }
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_millis() as u64
}

fn seed(number: u32) -> [u8; 32] {
    *xylem_hash::hash(&[&b"seed"[..], &number.to_be_bytes()].concat()).as_bytes()
}

/// Thousands of requests, each for another key: the CA's memory does not grow, and an honest client is served
/// meanwhile.
#[cfg(target_os = "linux")]
#[test]
fn a_flood_of_requests_leaves_room_for_others() {
    let mut world = World::new(&[]);
    let mut stranger = Stranger::at(&world.node);
    let profile = stranger.profile();
    let mut flood = |from: u32, to: u32| {
        for batch in (from..to).collect::<Vec<_>>().chunks(50) {
            for number in batch {
                let mut request = stranger.request(&profile, &format!("/org/eve{number}"), *number);
                let nonce = stranger.nonce();
                let interest = request.poll_transmit(now_ms(), nonce).unwrap();
                stranger.send(&interest);
            }
            batch.iter().for_each(|_| drop(stranger.receive()));
        }
    };
    flood(0, 1500);
    let mut honest = world.request("alice", "/org/alice", &[]);
    honest.wait("code_wanted", 0);
    let before = common::peak_memory(world.ca.pid());
    flood(1500, 6000);
    let after = common::peak_memory(world.ca.pid());
    assert!(after < before + (4 << 20), "{before} to {after} bytes");
    let code = is_text(&world.ca.wait("pin", 0)["code"]).to_owned();
    honest.type_line(&code);
    honest.wait("certified", 0);
    assert_eq!(world.ca.told("pin").len(), 1);
}

#[test]
fn a_challenge_that_is_replayed_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // Without a cache, so that each Interest reaches the CA.
    let node = Node::start(dir.path(), "cs_packets = 0");
    let ca = authority(&dir.path().join("ca"), node.at("unix"), &[]);
    let mut world = World { dir, node, ca };
    let mut stranger = Stranger::at(&world.node);
    let profile = stranger.profile();
    let mut request = stranger.request(&profile, "/org/alice", 1);
    stranger.step(&mut request);
    request.choose(ChallengeChoice::Pin, now_ms(), seed(1)).unwrap();
    let (chosen, _) = stranger.step(&mut request);
    let code = is_text(&world.ca.wait("pin", 0)["code"]).to_owned();
    request.code("00000-00000", now_ms(), seed(2)).unwrap();
    let (guessed, answer) = stranger.step(&mut request);
    for _ in 0..100 {
        assert_eq!(stranger.again(&guessed), answer, "the very same");
        let refused = stranger.again(&chosen);
        let refused = ErrorMessage::decode(Data::decode(&refused).unwrap().content()).unwrap();
        assert_eq!(refused.code, ErrorCode::BAD_PARAMETER_FORMAT);
    }
    let RequestState::Code { wrong: true, tries: 2, .. } = request.state() else {
        panic!("{request:?}")
    };
    request.code(&code, now_ms(), seed(3)).unwrap();
    let (last, answer) = stranger.step(&mut request);
    stranger.step(&mut request);
    let RequestState::Done(_) = request.state() else { panic!("{request:?}") };
    assert_eq!(stranger.again(&last), answer);
    world.ca.wait("issued", 0);
    assert_eq!((world.ca.told("pin").len(), world.ca.told("issued").len()), (1, 1));
}
