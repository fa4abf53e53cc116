//! `xylem send` and `xylem inbox` between real processes: receivers that are away, that stop at any moment, nodes that
//! keep mail, and what is refused.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::common;
use crate::common::fetching::Get;
use crate::common::{
    Node, Share, assert_exit, file, finish, noise, stderr, text, until, until_all_is_read, xylem,
};
use bytes::BytesMut;
use serde_json::Value;
use xylem_base::{UnixTime, hex};
use xylem_link_internals::internals::Frame;
use xylem_link_internals::{
    CloseReason, Endpoint, LinkConfig, LinkEvent, LinkId, PeerKey, StaticKey, purpose,
};
use xylem_mail::{Card, MailBody, MailContent};
use xylem_mailbox::{MailRoute, MailStore};

/// One person's store, with an address to listen at.
struct Person {
    dir: tempfile::TempDir,
    at: String,
}

impl Person {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap().to_string();
        Self { dir: tempfile::tempdir().unwrap(), at }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn store(&self) -> PathBuf {
        self.path().join("store")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = xylem(&self.store());
        command.arg("--json").args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments))
    }

    fn card(&self) -> String {
        let output = self.run(&["inbox", "card", "--announce", &self.at]);
        assert_exit(&output, 0);
        events(&output)[0]["card"].as_str().expect("a card").to_owned()
    }

    fn mail(&self) -> Vec<Value> {
        let output = self.run(&["inbox", "list"]);
        assert_exit(&output, 0);
        events(&output)
    }

    /// The texts of received notes, sorted.
    fn notes(&self) -> Vec<String> {
        let read = |mail: &Value| {
            let output = self.run(&["inbox", "accept", &mail["number"].to_string()]);
            assert_exit(&output, 0);
            let note = events(&output).into_iter().find(|e| e["event"] == "note");
            note.expect("a note")["text"].as_str().unwrap().to_owned()
        };
        let mut notes: Vec<String> = self.mail().iter().map(read).collect();
        notes.sort();
        notes
    }

    fn note(&self, says: &str) -> PathBuf {
        file(self.path(), "note", says.as_bytes())
    }

    fn waits(&self) -> usize {
        fs::read_dir(self.store().join("mail/outbox")).unwrap().count()
    }

    /// Waits for mail in a process of its own.
    fn listen(&self) -> Running {
        let mut command = self.command(&["inbox", "--listen", &self.at]);
        let running = Running::start(&mut command);
        running.heard("listening");
        running
    }
}

/// A process that prints events; killed when dropped, as by a crash.
struct Running {
    child: Child,
    events: common::Events,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let events = common::Events::default();
        let into = events.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                into.lock().unwrap().push(serde_json::from_str(&line).expect("JSON"));
            }
        });
        Self { child, events }
    }

    fn heard(&self, event: &str) -> Value {
        let find = || self.events.lock().unwrap().iter().find(|e| e["event"] == event).cloned();
        until(event, || find().is_some());
        find().expect("just seen")
    }

    fn ends_with(&mut self, code: i32) {
        until("the end of a process", || self.child.try_wait().unwrap().is_some());
        until_all_is_read(&self.events);
        assert_eq!(self.child.wait().unwrap().code(), Some(code), "{:?}", self.events.lock());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The first event of this name.
fn told(output: &Output, event: &str) -> Option<Value> {
    events(output).into_iter().find(|e| e["event"] == event)
}

/// A stranger that dials a program over the real network, completes the handshake, and then seals in that session bytes
/// that no honest program sends.
struct Stranger {
    endpoint: Endpoint,
    socket: UdpSocket,
    start: Instant,
    link: LinkId,
}

impl Stranger {
    /// Dials by the key of the card; a program answers only dialers that have it.
    fn dial(at: &str, card: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let key = StaticKey::generate([41; 32]);
        let mut endpoint = Endpoint::new(LinkConfig::default(), key, [42; 32]);
        let card: Card = card.parse().unwrap();
        let (at, expected) = (at.parse().unwrap(), card.party.link);
        let link = endpoint.connect(Duration::ZERO, at, Some(PeerKey(expected.0)));
        let mut stranger = Self { endpoint, socket, start: Instant::now(), link };
        stranger.run_until("a session", |event| matches!(event, LinkEvent::Connected { .. }));
        stranger
    }

    fn transmit(&mut self) {
        let (now, mut out) = (self.start.elapsed(), Vec::new());
        self.endpoint.handle_timeout(now);
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut out) {
            for datagram in out.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                self.socket.send_to(datagram, transmit.to).unwrap();
            }
        }
    }

    /// Carries datagrams until an event comes.
    fn run_until(&mut self, what: &str, is: impl Fn(&LinkEvent) -> bool) {
        let mut received = [0; 65_536];
        until(what, || {
            self.transmit();
            if let Ok((len, from)) = self.socket.recv_from(&mut received) {
                let datagram = BytesMut::from(&received[..len]);
                self.endpoint.handle_datagram(self.start.elapsed(), from, datagram);
            }
            std::iter::from_fn(|| self.endpoint.poll_event()).any(|event| is(&event))
        });
    }

    fn send_frame(&mut self, frame: &Frame<'_>) {
        // The last message of the handshake goes first: without it nothing here can be opened.
        self.transmit();
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let (to, datagram) = self.endpoint.seal_frames(self.link, &bytes).expect("the link is up");
        self.socket.send_to(&datagram, to).unwrap();
    }
}

/// A stranger's first stream has an id so near to 2^32 that the next one would not fit 32 bits. The program must not
/// count up to it, which would take a gigabyte a second.
#[test]
fn a_stream_id_near_the_end_ends_that_link_alone() {
    let (a, b) = (Person::new(), Person::new());
    let card = b.card();
    let mut listening = b.listen();
    for id in [u32::MAX - 1, u32::MAX - 3] {
        let mut stranger = Stranger::dial(&b.at, &card);
        stranger.send_frame(&Frame::StreamOpen { stream: id, purpose: purpose::MAIL });
        let closed = |event: &LinkEvent| {
            matches!(event, LinkEvent::Closed { reason: CloseReason::Peer, .. })
        };
        stranger.run_until("the end of the link", closed);
    }
    let note = a.note("still there?");
    assert_exit(&a.run(&["send", "--note", text(&note), &card]), 0);
    listening.heard("mail");
    assert!(listening.child.try_wait().unwrap().is_none(), "the program still runs");
    #[cfg(target_os = "linux")]
    {
        let memory = common::peak_memory(listening.child.id());
        assert!(memory < 100 << 20, "{memory} bytes in use");
    }
    drop(listening);
    assert_eq!(b.notes(), ["still there?"]);
}

#[test]
fn a_note_waits_for_a_receiver_that_is_away() {
    let (a, b) = (Person::new(), Person::new());
    // In a file, as `xylem inbox card > bob.card` makes it.
    let card = a.note(&format!("{}\n", b.card()));
    assert_exit(&a.run(&["inbox", "trust", "bob", &format!("@{}", text(&card))]), 0);
    let note = a.note("hello\n");
    let sent = a.run(&["send", "--note", text(&note), "bob", "--timeout", "1"]);
    assert_exit(&sent, 3);
    assert!(stderr(&sent).contains("it waits"), "{}", stderr(&sent));
    assert_eq!(a.waits(), 1);

    let listening = b.listen();
    until("a delivery", || {
        assert_exit(&a.run(&["inbox"]), 0);
        a.waits() == 0
    });
    let came = listening.heard("mail");
    assert_eq!((&came["kind"], &came["known"]), (&"note".into(), &false.into()));
    drop(listening);
    assert_eq!(b.notes(), ["hello\n"]);
    assert_eq!(b.mail()[0]["accepted"], true);

    // The sender gets a name, and an answer in the same conversation.
    assert_exit(&b.run(&["inbox", "trust", "ann", "1"]), 0);
    assert_eq!(b.mail()[0]["from"], "ann");
    let listening = a.listen();
    let note = b.note("yes");
    assert_exit(&b.run(&["send", "--note", text(&note), "ann", "--to", &a.at]), 0);
    assert_eq!(listening.heard("mail")["from"], "bob");
    assert_eq!(fs::read_dir(b.store().join("mail/sessions")).unwrap().count(), 1);
    assert_exit(&b.run(&["inbox", "drop", "1"]), 0);
    assert!(b.mail().is_empty());
}

/// The whole of `send PATH PEER`: the peer is away at first, then receives the message and accepts it, and the sender
/// ends by itself.
#[test]
fn a_file_is_sent_and_fetched() {
    let (a, b) = (Person::new(), Person::new());
    let content = noise(3_000_000, 5);
    let source = file(a.path(), "film.mkv", &content);
    let mut sending = a.command(&["send", text(&source), &b.card(), "--listen", "127.0.0.1:0"]);
    let mut sending = Running::start(sending.args(["--timeout", "1"]));
    sending.heard("mail_waiting");
    let listening = b.listen();
    let came = listening.heard("mail");
    assert_eq!(
        (came["name"].as_str(), came["bytes"].as_u64()),
        (Some("film.mkv"), Some(3_000_000))
    );
    sending.heard("mail_delivered");
    let out = b.path().join("out");
    let number = came["number"].to_string();
    assert_exit(&b.run(&["inbox", "accept", &number, "-o", text(&out)]), 0);
    assert!(fs::read(&out).unwrap() == content);
    sending.heard("mail_fetched");
    sending.ends_with(0);
    assert_eq!(a.waits(), 0);
}

/// Message and content reach a receiver that was away, when the sender has gone completely: a node keeps the message,
/// and a seed the content.
#[test]
fn a_file_arrives_with_its_sender_gone() {
    let (a, b) = (Person::new(), Person::new());
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "[mailbox]");
    let via = node.at("xylem").trim_start_matches("xylem://").to_owned();
    let content = noise(300_000, 6);
    let source = file(a.path(), "film.mkv", &content);
    let share = Share::start(&source, &a.store());
    let (seeds, card) = (dir.path().join("seeds"), b.card());
    let seed = ["--seed", "--listen", "127.0.0.1"];
    let seed = Get::start(&dir.path().join("seed-store"), &share.ticket, &seeds, &seed);
    seed.done();
    drop(share);
    assert_exit(&a.run(&["send", &seed.own_ticket(), &card, "--node", &via]), 0);
    drop(a);
    assert_exit(&b.run(&["inbox", "--node", &via]), 0);
    let out = b.path().join("out");
    let number = b.mail()[0]["number"].to_string();
    assert_exit(&b.run(&["inbox", "accept", &number, "-o", text(&out)]), 0);
    assert!(fs::read(&out).unwrap() == content);
}

/// A node keeps mail for a receiver. Only the owner empties the box, and collected mail is gone.
#[test]
fn a_node_keeps_mail_for_a_receiver_that_is_away() {
    let (a, b, c) = (Person::new(), Person::new(), Person::new());
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "[mailbox]\neach = 2");
    let via = node.at("xylem").trim_start_matches("xylem://").to_owned();
    let card = b.card();
    for says in ["one", "two"] {
        let sent = a.run(&["send", "--note", text(&a.note(says)), &card, "--node", &via]);
        assert_exit(&sent, 0);
        let (_, address) = via.split_once('@').expect("a node says its key");
        assert_eq!(told(&sent, "mail_stored").expect("taken")["at"], address);
        assert_eq!(told(&sent, "mail_delivered"), None, "its receiver has not said so");
    }
    let full = a.run(&["send", "--note", text(&a.note("three")), &card, "--node", &via]);
    assert_exit(&full, 3);
    assert_exit(&c.run(&["inbox", "--node", &via]), 0);
    assert!(c.mail().is_empty(), "not theirs");
    assert_exit(&b.run(&["inbox", "--node", &via]), 0);
    assert_eq!(b.notes(), ["one", "two"]);
    let kept = || fs::read_dir(dir.path().join("node-store/mailbox")).unwrap().count();
    until("the box is empty, but for receipts", || kept() == 1);
    // There is room again for the waiting message.
    until("the third", || {
        assert_exit(&a.run(&["inbox"]), 0);
        a.waits() == 1
    });
    until("the receipts are fetched", || kept() == 1);
    assert_exit(&b.run(&["inbox", "--node", &via]), 0);
    assert_eq!(b.notes(), ["one", "three", "two"]);
    assert_exit(&a.run(&["inbox"]), 0);
    assert_eq!(a.waits(), 0, "all are with their receiver");
    // A node without the setting accepts no mail.
    let dir = tempfile::tempdir().unwrap();
    let other = Node::start(dir.path(), "");
    let other = other.at("xylem").trim_start_matches("xylem://").to_owned();
    assert_exit(&b.run(&["inbox", "--node", &other, "--timeout", "3"]), 3);
}

/// Mail that a node accepted counts as stored, and as delivered only after its receiver confirms it. A node that
/// reports "stored" and drops the mail makes nothing delivered.
#[test]
fn only_the_receiver_makes_mail_delivered() {
    let (a, b) = (Person::new(), Person::new());
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "[mailbox]");
    let via = node.at("xylem").trim_start_matches("xylem://").to_owned();
    let card = b.card();
    let send = |says| {
        let sent = a.run(&["send", "--note", text(&a.note(says)), &card, "--node", &via]);
        assert_exit(&sent, 0);
        assert_eq!(told(&sent, "mail_delivered"), None);
        told(&sent, "mail_stored").expect("the node took it")["id"].clone()
    };
    let ask = || {
        let asked = a.run(&["inbox"]);
        assert_exit(&asked, 0);
        asked
    };
    let id = send("one");
    let before = ask();
    assert_eq!(told(&before, "mail_stored").expect("not fetched yet")["id"], id);
    assert_eq!(told(&before, "mail_delivered"), None);
    assert_exit(&b.run(&["inbox", "--node", &via]), 0);
    let delivered = told(&ask(), "mail_delivered").expect("the receiver says so");
    assert_eq!((&delivered["id"], &delivered["direct"]), (&id, &false.into()));
    assert_eq!(a.waits(), 0);

    let id = send("two");
    for kept in fs::read_dir(dir.path().join("node-store/mailbox")).unwrap() {
        fs::remove_dir_all(kept.unwrap().path()).unwrap();
    }
    assert_exit(&b.run(&["inbox", "--node", &via]), 0);
    let after = ask();
    assert_eq!(told(&after, "mail_stored").expect("as far as we know")["id"], id);
    assert_eq!(told(&after, "mail_delivered"), None);
    assert_eq!(b.notes(), ["one"]);
}

/// 1,100 envelopes are lost on the way, both of mail straight to the receiver and of mail by a node. Each receiver
/// reports once how many can't be read any more, and messages go on in both directions.
#[test]
fn lost_envelopes_are_reported_and_the_conversation_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "[mailbox]");
    let via = node.at("xylem").trim_start_matches("xylem://").to_owned();
    for direct in [true, false] {
        let (a, b) = (Person::new(), Person::new());
        let card = b.card();
        assert_exit(&a.run(&["inbox", "trust", "bob", &card]), 0);
        assert_exit(&b.run(&["inbox", "trust", "ann", &a.card()]), 0);
        // Sends a note from A; returns the events of A and of B.
        let send = |says: &str| {
            let note = a.note(says);
            let mut arguments = vec!["send", "--note", text(&note), "bob"];
            if direct {
                let listening = b.listen();
                let sent = a.run(&arguments);
                assert_exit(&sent, 0);
                // The loss is reported before the message that came.
                listening.heard("mail");
                let heard = listening.events.lock().unwrap().clone();
                return (events(&sent), heard);
            }
            arguments.extend(["--node", &via]);
            assert_exit(&a.run(&arguments), 0);
            let heard = b.run(&["inbox", "--node", &via]);
            assert_exit(&heard, 0);
            (events(&a.run(&["inbox"])), events(&heard))
        };
        let count = |said: &[Value], event: &str| {
            said.iter().find(|e| e["event"] == event).map(|e| e["count"].as_u64().unwrap())
        };
        send("first");
        lose(&a, &card.parse().unwrap(), 1_100);
        let (ours, theirs) = send("next");
        assert_eq!(count(&theirs, "mail_lost"), Some(100), "{theirs:?}");
        assert_eq!(count(&ours, "mail_unread"), Some(100), "{ours:?}");
        assert!(ours.iter().any(|e| e["event"] == "mail_delivered"), "{ours:?}");
        let (ours, theirs) = send("on");
        assert_eq!((count(&theirs, "mail_lost"), count(&ours, "mail_unread")), (None, None));
        assert_eq!(b.notes(), ["first", "next", "on"]);
        let _listening = a.listen();
        let note = b.note("back");
        assert_exit(&b.run(&["send", "--note", text(&note), "ann", "--to", &a.at]), 0);
        assert_eq!(a.notes(), ["back"]);
    }
}

/// Makes this many messages that never reach the receiver.
fn lose(from: &Person, to: &Card, count: u32) {
    let mail = MailStore::open(&from.store()).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let content = MailContent::Note("lost".into());
    let body = MailBody { content, name: String::new(), size: 4, sent_ms: 1 };
    for _ in 0..count {
        let route = MailRoute::Direct(Vec::new());
        let id = mail.compose(to, "bob", &body, route, &[], UnixTime::new(now)).unwrap();
        fs::remove_file(from.store().join("mail/outbox").join(hex(&id.0))).unwrap();
    }
}

/// Both sides are killed again and again, at any moment. In the end every note that waited has arrived, once.
#[test]
fn killed_processes_neither_lose_nor_double_mail() {
    let (a, b) = (Person::new(), Person::new());
    let card = b.card();
    for round in 0..12u64 {
        let listening = (round % 3 != 0).then(|| b.listen());
        let note = a.note(&format!("note {round}"));
        let mut sending = a.command(&["send", "--note", text(&note), &card, "--timeout", "1"]);
        let sending = Running::start(&mut sending);
        // Both end at moments that differ from round to round.
        std::thread::sleep(Duration::from_millis(20 + round * 37 % 200));
        if round % 2 == 0 {
            drop(listening);
            drop(sending);
        } else {
            drop(sending);
            drop(listening);
        }
    }
    let _listening = b.listen();
    until("everything is delivered", || {
        assert_exit(&a.run(&["inbox"]), 0);
        // A file that was not whole when its writer was killed is no message.
        let outbox = fs::read_dir(a.store().join("mail/outbox")).unwrap();
        outbox.flatten().filter(|f| !f.file_name().to_string_lossy().starts_with('.')).count() == 0
    });
    let notes = b.notes();
    let mut once = notes.clone();
    once.dedup();
    assert_eq!(notes, once, "none came twice");
    assert!(!notes.is_empty() && notes.iter().all(|note| note.starts_with("note ")), "{notes:?}");
    // Both still exchange messages.
    let last = a.note("the last");
    assert_exit(&a.run(&["send", "--note", text(&last), &card]), 0);
    assert!(b.notes().contains(&"the last".to_owned()));
}

#[test]
fn impossible_requests_are_one_line_and_2() {
    let (a, b) = (Person::new(), Person::new());
    let card = b.card();
    let note = a.note("x");
    let note = text(&note);
    for (arguments, part) in [
        (&["send", note, "nobody"][..], "no person is named"),
        (&["send", note, "xylem-peer:abc"], "damaged"),
        (&["send", "xylem:abc", &card], "ticket"),
        (&["send", "missing", &card, "--listen", "127.0.0.1:0"], "missing"),
        (&["inbox", "accept", "9"], "no message 9"),
        (&["inbox", "drop", "9"], "no message 9"),
        (&["inbox", "trust", "../x", &card], "letters, digits"),
        (&["inbox", "forget", "x"], "no person is named"),
        (&["send", note, &card, "--node", "udp://127.0.0.1:1", "--note"], "encrypted link only"),
    ] {
        let output = a.run(arguments);
        assert_exit(&output, 2);
        let said = stderr(&output);
        assert!(said.lines().count() == 1 && said.contains(part), "{arguments:?}: {said}");
    }
}
