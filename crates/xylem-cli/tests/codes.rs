//! Codes with the real program: a spoken code brings the file, once. Thousands of wrong codes, a machine in the middle,
//! and mistyped codes bring nothing but a line.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::relay::TestRelay;
use crate::common::running::Running;
use crate::common::{
    Share, assert_exit, file, finish, get, noise, printed_root, stderr, sum, text, until, xylem,
};
use bytes::BytesMut;
use serde_json::Value;
use xylem_link::{
    Endpoint, LinkConfig, LinkEvent, LinkId, PeerKey, StaticKey, StreamId, StreamRead, purpose,
};
use xylem_object::find::FindId;
use xylem_packet::InterestBuilder;
use xylem_reach::code::{CodeTake, CodeTakeStep, SpokenCode, TakeError, knock};

/// A share that shows a code, and that code.
fn share(dir: &Path, content: &[u8]) -> (Share, String) {
    let source = file(dir, "said aloud.bin", content);
    let share = Share::with(&source, &dir.join("store"), &["--code"]);
    until("a code", || !share.told("code").is_empty());
    let code = share.told("code")[0]["code"].as_str().expect("a text").to_owned();
    (share, code)
}

/// Runs `get CODE` in a folder of its own; the file keeps the publisher's name.
fn get_by(dir: &Path, who: &str, code: &[&str], at: &str) -> Output {
    let there = dir.join(who);
    fs::create_dir_all(&there).unwrap();
    let mut command = xylem(&dir.join(format!("store of {who}")));
    command.arg("get").args(code).args(["--from", at]).current_dir(&there).stdin(Stdio::null());
    finish(command)
}

/// Another code with the same number and other words.
fn wrong(code: &str, seed: u8) -> String {
    let right: SpokenCode = code.parse().unwrap();
    SpokenCode::draw(right.number(), &[seed; 32]).to_string()
}

#[test]
fn a_code_brings_the_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 1);
    let (share, code) = share(dir.path(), &content);
    let told = &share.told("code")[0];
    assert_eq!((&told["of"], &told["seconds"]), (&"ticket".into(), &600.into()));
    let said = code.replace('-', " ").to_uppercase();
    let words: Vec<&str> = said.split(' ').collect();
    let output = get_by(dir.path(), "ann", &words, &share.link);
    assert_exit(&output, 0);
    let there = dir.path().join("ann/said aloud.bin");
    assert!(fs::read(&there).unwrap() == content);
    assert_eq!(printed_root(&output), sum(&there));
    until("the end of the code", || !share.told("code_ended").is_empty());
    assert_eq!(share.told("code_ended")[0]["why"], "used");
    // A later getter gets a line that the code was used; the ticket still works.
    let late = get_by(dir.path(), "bob", &[&code], &share.link);
    assert_exit(&late, 3);
    assert!(stderr(&late).contains("it was already used"), "{}", stderr(&late));
    let out = dir.path().join("by ticket");
    assert_exit(&get(&dir.path().join("other"), &[&share.ticket, "-o", text(&out)]), 0);
    assert!(share.told("code_wrong").is_empty());
}

/// Not given as an argument, a code is hidden from other users of this machine.
#[test]
fn a_code_comes_from_a_file_or_standard_input_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let (share, code) = share(dir.path(), b"content");
    let mut command = xylem(&dir.path().join("b"));
    command.args(["get", "-", "--from", &share.link, "-o"]).arg(dir.path().join("out"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{code}").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(dir.path().join("out")).unwrap(), b"content");
    let written = file(dir.path(), "code.txt", code.as_bytes());
    let late = get_by(dir.path(), "c", &[&format!("@{}", text(&written))], &share.link);
    assert_exit(&late, 3);
    assert!(stderr(&late).contains("used"), "{}", stderr(&late));
}

#[test]
fn only_one_of_two_takers_gets_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (share, code) = share(dir.path(), &noise(100_000, 2));
    let both = std::thread::scope(|scope| {
        let one = |who: &'static str| {
            let (dir, code, at) = (dir.path(), &code, &share.link);
            scope.spawn(move || get_by(dir, who, &[code], at).status.code())
        };
        let (a, b) = (one("a"), one("b"));
        let mut codes = [a.join().unwrap(), b.join().unwrap()];
        codes.sort();
        codes
    });
    assert_eq!(both, [Some(0), Some(3)]);
}

#[test]
fn a_mistyped_code_fails_before_any_peer_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    for (typed, says) in [
        ("7-alhpa-cobra-violin", "\"alhpa\" is not a word of codes; the nearest is alpha"),
        ("7-alpha-cobra", "a code is a number and three words, such as 7-alpha-cobra-violin"),
        ("123456789-alpha-cobra-violin", "number of at most 7 digits"),
    ] {
        let output = get_by(dir.path(), "a", &[typed], "127.0.0.1:9");
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1);
    }
    let udp = get_by(dir.path(), "a", &["7-alpha-cobra-violin"], "udp://127.0.0.1:9");
    assert_exit(&udp, 2);
    assert!(stderr(&udp).contains("encrypted link only"), "{}", stderr(&udp));
    let two = [file(dir.path(), "x", b"1"), file(dir.path(), "y", b"2")];
    let mut command = xylem(&dir.path().join("s"));
    command.args(["share", "--code"]).args(two);
    let output = finish(command);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("one PATH"), "{}", stderr(&output));
}

#[test]
fn three_wrong_guesses_end_the_code_and_the_share_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (share, code) = share(dir.path(), &noise(50_000, 3));
    for guess in 1..=3_u8 {
        let output = get_by(dir.path(), "eve", &[&wrong(&code, guess)], &share.link);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains("shows another code"), "{}", stderr(&output));
        until("a line about it", || share.told("code_wrong").len() == usize::from(guess));
    }
    let left: Vec<Value> = share.told("code_wrong").iter().map(|e| e["left"].clone()).collect();
    assert_eq!(left, [2, 1, 0]);
    assert_eq!(share.told("code_ended")[0]["why"], "guessed");
    let right = get_by(dir.path(), "ann", &[&code], &share.link);
    assert_exit(&right, 3);
    assert!(stderr(&right).contains("three wrong guesses were made"), "{}", stderr(&right));
    let out = dir.path().join("out");
    assert_exit(&get(&dir.path().join("other"), &[&share.ticket, "-o", text(&out)]), 0);
}

/// A machine that dials and is dialled by one key, and does with streams what `on` decides.
struct Machine {
    endpoint: Endpoint,
    socket: UdpSocket,
    start: Instant,
    received: Vec<u8>,
    out: Vec<u8>,
}

impl Machine {
    fn new(key: u8) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let endpoint =
            Endpoint::new(LinkConfig::default(), StaticKey::generate([key; 32]), [key; 32]);
        let (received, out) = (vec![0; 65_536], Vec::new());
        Self { endpoint, socket, start: Instant::now(), received, out }
    }

    /// Sends and receives once; returns the events.
    fn turn(&mut self) -> Vec<LinkEvent> {
        let now = self.start.elapsed();
        self.endpoint.handle_timeout(now);
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.out) {
            for datagram in self.out.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                let _ = self.socket.send_to(datagram, transmit.to);
            }
        }
        let mut patient = true;
        while patient {
            match self.socket.recv_from(&mut self.received) {
                Ok((len, from)) => {
                    let datagram = BytesMut::from(&self.received[..len]);
                    self.endpoint.handle_datagram(self.start.elapsed(), from, datagram);
                    self.socket.set_nonblocking(true).unwrap();
                }
                Err(_) => patient = false,
            }
        }
        self.socket.set_nonblocking(false).unwrap();
        std::iter::from_fn(|| self.endpoint.poll_event()).collect()
    }

    fn read(&mut self, link: LinkId, stream: StreamId) -> Option<Vec<u8>> {
        match self.endpoint.read_stream(link, stream) {
            Ok(StreamRead::Data(bytes)) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

/// A stranger tries numbers until one is answered. It gets a link by a key made for the code, and over it only tries of
/// the code: no lasting key, no answer to a name, no way to others, no mail box.
#[test]
fn a_guessed_number_gives_no_lasting_key_and_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(50_000, 8);
    let (share, code) = share(dir.path(), &content);
    let number = code.parse::<SpokenCode>().unwrap().number();
    assert!((10_000..100_000).contains(&number), "as long as no relay gives a short one: {code}");
    let ticket: xylem_object::Ticket = share.ticket.parse().unwrap();
    let at: SocketAddr = share.link.parse().unwrap();
    let asked = |key: &[u8; 32]| {
        let name = FindId::new(&ticket.root, key).question();
        let mut interest = Vec::new();
        InterestBuilder::new(name.as_ref()).encode(&mut interest).unwrap();
        interest
    };
    let mut machine = Machine::new(90);
    // A holder of the ticket knows the publisher, and is shown the lasting key.
    let holder = machine.endpoint.connect_by_knock(Duration::ZERO, at, &ticket.publisher.0);
    let mut lasting = None;
    until("a link to who has the ticket", || {
        machine.turn();
        lasting = machine.endpoint.link(holder).map(|link| link.peer().0);
        lasting.is_some()
    });
    let lasting = lasting.unwrap();
    let now = machine.start.elapsed();
    let guessed = machine.endpoint.connect_by_knock(now, at, &knock(number));
    let known = machine.endpoint.connect(now, at, Some(PeerKey(lasting)));
    let (mut proven, mut answers) = (HashMap::new(), HashMap::from([(guessed, 0), (known, 0)]));
    let (mut refused, mut ends) = (HashMap::from([(guessed, 0), (known, 0)]), None);
    while ends.is_none_or(|at| Instant::now() < at) {
        for event in machine.turn() {
            match event {
                LinkEvent::Connected { link, peer, .. } if answers.contains_key(&link) => {
                    proven.insert(link, peer.0);
                    for key in [lasting, peer.0] {
                        machine.endpoint.send(link, &asked(&key)).unwrap();
                    }
                    for purpose in [purpose::MAIL, purpose::REACH] {
                        machine.endpoint.open_stream(link, purpose).unwrap();
                    }
                }
                LinkEvent::Packet { link, .. } => *answers.get_mut(&link).unwrap() += 1,
                LinkEvent::StreamReset { link, .. } if link != holder => {
                    *refused.get_mut(&link).unwrap() += 1
                }
                _ => {}
            }
        }
        // Dials by the key are answered by then, so a dial by the number has had enough time.
        if ends.is_none() && refused[&guessed] == 2 && answers[&known] > 0 {
            ends = Some(Instant::now() + Duration::from_millis(500));
        }
        assert!(machine.start.elapsed() < Duration::from_secs(60), "{answers:?} {refused:?}");
    }
    assert_ne!(proven[&guessed], lasting, "who guesses a number has the lasting key");
    assert_eq!((answers[&guessed], proven[&known]), (0, lasting));
    // The code still works.
    assert_exit(&get_by(dir.path(), "ann", &[&code], &share.link), 0);
    assert!(fs::read(dir.path().join("ann/said aloud.bin")).unwrap() == content);
}

/// Every try has the share's answer before the first proof leaves, as far as the share permits.
#[cfg(target_os = "linux")]
#[test]
fn a_thousand_wrong_codes_count_as_three_guesses() {
    const LINKS: u8 = 16;
    const TRIES: usize = 2_000;
    let dir = tempfile::tempdir().unwrap();
    let (share, code) = share(dir.path(), &noise(50_000, 4));
    let at: SocketAddr = share.link.parse().unwrap();
    let number = code.parse::<SpokenCode>().unwrap().number();
    let before = common::peak_memory(share.pid());
    let mut machines: Vec<Machine> = (1..=LINKS).map(Machine::new).collect();
    /// One try: the state that waits for the answer, and the proof still to be sent.
    type Try = (CodeTake, Option<Vec<u8>>);
    let mut tries: HashMap<(usize, StreamId), Try> = HashMap::new();
    let (mut begun, mut told): (usize, Vec<TakeError>) = (0, Vec::new());
    for machine in &mut machines {
        machine.endpoint.connect_by_knock(Duration::ZERO, at, &knock(number));
    }
    let mut links: HashMap<usize, LinkId> = HashMap::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    while told.len() < TRIES && Instant::now() < deadline {
        for (which, machine) in machines.iter_mut().enumerate() {
            for event in machine.turn() {
                match event {
                    LinkEvent::Connected { link, .. } => drop(links.insert(which, link)),
                    LinkEvent::StreamReadable { link, stream } => {
                        while let Some(bytes) = machine.read(link, stream) {
                            let Some((take, proof)) = tries.get_mut(&(which, stream)) else {
                                break;
                            };
                            match take.received(&bytes) {
                                Ok(CodeTakeStep::Send(bytes)) => *proof = Some(bytes),
                                Ok(CodeTakeStep::Wait) => {}
                                Ok(CodeTakeStep::Text(text)) => panic!("handed over {text}"),
                                Err(why) => {
                                    told.push(why);
                                    tries.remove(&(which, stream));
                                }
                            }
                        }
                    }
                    LinkEvent::StreamReset { stream, .. }
                        if tries.remove(&(which, stream)).is_some() =>
                    {
                        told.push(TakeError::Broken);
                    }
                    _ => {}
                }
            }
            // Half of the tries: as many at once as a link has streams, each in the place of the one before. The
            // others: one after the other, each of which is answered.
            let Some(&link) = links.get(&which) else { continue };
            while begun < TRIES {
                if which % 2 == 1 && tries.keys().any(|(of, _)| *of == which) {
                    break;
                }
                let Ok(stream) = machine.endpoint.open_stream(link, purpose::CODE) else { break };
                let mut seed = [0; 32];
                seed[..8].copy_from_slice(&begun.to_be_bytes());
                let peer = machine.endpoint.link(link).unwrap().peer();
                let own = machine.endpoint.public_key();
                let (take, hello) =
                    CodeTake::new(&SpokenCode::draw(number, &seed), own, peer, &seed);
                machine.endpoint.write_stream(link, stream, &hello).unwrap();
                tries.insert((which, stream), (take, None));
                begun += 1;
            }
            for ((_, stream), (_, proof)) in tries.iter_mut().filter(|((of, _), _)| *of == which) {
                if let Some(bytes) = proof.take() {
                    let _ = machine.endpoint.write_stream(link, *stream, &bytes);
                }
            }
        }
    }
    let wrong = told.iter().filter(|why| **why == TakeError::Wrong).count();
    assert!(wrong <= 3, "{wrong} guesses were answered");
    // The share also counts tries that ended before they could receive its answer.
    until("the share tells of them", || share.told("code_wrong").len() >= wrong);
    let counted = share.told("code_wrong").len();
    assert!(counted <= 3, "{counted} guesses were answered");
    let grown = common::peak_memory(share.pid()).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for {} tries", told.len());
    assert!(told.len() > TRIES / 2, "{} of {begun} tries ended", told.len());
    let out = dir.path().join("out");
    assert_exit(&get(&dir.path().join("other"), &[&share.ticket, "-o", text(&out)]), 0);
}

/// Forwards all bytes of both sides, over a link of its own to each, as a relay could.
struct Between {
    at: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<usize>>,
}

impl Between {
    fn start(to: SocketAddr, number: u32) -> Self {
        let mut machine = Machine::new(77);
        let at = machine.socket.local_addr().unwrap();
        assert!(machine.endpoint.answer_knock(&knock(number)));
        let ends = Arc::new(AtomicBool::new(false));
        let end = ends.clone();
        let thread = std::thread::spawn(move || {
            let sharer = machine.endpoint.connect_by_knock(Duration::ZERO, to, &knock(number));
            let mut other: HashMap<(LinkId, StreamId), (LinkId, StreamId)> = HashMap::new();
            let mut passed = 0;
            while !end.load(Ordering::Relaxed) {
                for event in machine.turn() {
                    match event {
                        LinkEvent::StreamOpened { link, stream, purpose } => {
                            let theirs = machine.endpoint.open_stream(sharer, purpose).unwrap();
                            other.insert((link, stream), (sharer, theirs));
                            other.insert((sharer, theirs), (link, stream));
                        }
                        LinkEvent::StreamReadable { link, stream } => {
                            let Some(&(to, on)) = other.get(&(link, stream)) else { continue };
                            while let Some(bytes) = machine.read(link, stream) {
                                machine.endpoint.write_stream(to, on, &bytes).unwrap();
                                passed += bytes.len();
                            }
                        }
                        _ => {}
                    }
                }
            }
            passed
        });
        Self { at, ends, thread: Some(thread) }
    }

    /// Ends it; returns the number of bytes forwarded.
    fn end(mut self) -> usize {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// A host that answers by the number, without the words, is shown a key by each taker: a different key each time, and
/// none of the taker's store.
#[test]
fn a_host_dialled_by_number_learns_only_a_temporary_key() {
    let dir = tempfile::tempdir().unwrap();
    let code = SpokenCode::draw(77, &[5; 32]).to_string();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let mut machine = Machine::new(78);
        let at = machine.socket.local_addr().unwrap().to_string();
        assert!(machine.endpoint.answer_knock(&knock(77)));
        let (done, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (tell, end) = (done.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            let mut peer = None;
            while peer.is_none() && !end.load(Ordering::Relaxed) {
                let came = machine.turn().into_iter().find_map(|event| match event {
                    LinkEvent::Connected { peer, .. } => Some(peer),
                    _ => None,
                });
                peer = peer.or(came);
            }
            tell.store(true, Ordering::Relaxed);
            peer
        });
        let mut command = xylem(&dir.path().join("a"));
        command.args(["get", &code, "--from", &at, "-o"]).arg(dir.path().join("out"));
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("a dial", || done.load(Ordering::Relaxed));
        ends.store(true, Ordering::Relaxed);
        child.kill().unwrap();
        child.wait().unwrap();
        keys.push(thread.join().unwrap().expect("the taker's key").0);
    }
    assert_ne!(keys[0], keys[1]);
    let own = fs::read(dir.path().join("a/keys/link")).ok();
    let own = own.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let own = own.map(|secret| StaticKey::from_bytes(secret).public().0);
    assert!(keys.iter().all(|key| Some(*key) != own));
}

#[test]
fn a_machine_in_the_middle_has_one_guess_a_try() {
    let dir = tempfile::tempdir().unwrap();
    let (share, code) = share(dir.path(), &noise(50_000, 5));
    let number = code.parse::<SpokenCode>().unwrap().number();
    let between = Between::start(share.link.parse().unwrap(), number);
    let output = get_by(dir.path(), "ann", &[&code], &between.at.to_string());
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("it is another peer"), "{}", stderr(&output));
    until("a line about it", || !share.told("code_wrong").is_empty());
    assert_eq!(share.told("code_wrong")[0]["left"], 2);
    // Hello, answer, proof and a refusal: no ticket passed.
    let passed = between.end();
    assert!((100..200).contains(&passed), "{passed} bytes");
    // Without the machine in the middle the same code still brings the file.
    assert_exit(&get_by(dir.path(), "ann", &[&code], &share.link), 0);
}

/// Neither side knows an address of the other: the relay assigns the number, and leads one to the other by it.
#[test]
fn a_code_leads_through_a_relay() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(200_000, 6);
    let relay = TestRelay::honest();
    let source = file(dir.path(), "source", &content);
    let share = Share::with(&source, &dir.path().join("store"), &["--code", "--relay", &relay.uri]);
    until("a code", || !share.told("code").is_empty());
    let shown = &share.told("code")[0];
    let code = shown["code"].as_str().unwrap();
    assert_eq!(shown["relay"].as_str(), Some(&*relay.uri));
    assert!(
        code.parse::<SpokenCode>().unwrap().number() < 100,
        "the relay gives short ones: {code}"
    );
    let run = |code: &str| {
        let mut command = xylem(&dir.path().join("other"));
        command.args(["get", code, "--relay", &relay.uri, "-o"]).arg(dir.path().join("out"));
        finish(command)
    };
    let output = run(&wrong(code, 1));
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("shows another code"), "{}", stderr(&output));
    assert_exit(&run(code), 0);
    assert!(fs::read(dir.path().join("out")).unwrap() == content);
    until("the end of the code", || !share.told("code_ended").is_empty());
    assert_eq!(share.told("code_wrong").len(), 1);
    assert!(relay.passed() > 0);
    // An unknown number ends at once, with one line.
    let nobody = run("99999-alpha-cobra-violin");
    assert_exit(&nobody, 3);
    assert!(stderr(&nobody).contains("no peer answers to the code"), "{}", stderr(&nobody));
}

#[test]
fn a_card_is_handed_over_by_a_code() {
    let dir = tempfile::tempdir().unwrap();
    let bob = dir.path().join("bob");
    let show = |arguments: &[&str]| {
        let running = Running::start(&bob, arguments);
        let shown = running.heard("code");
        assert_eq!(shown["of"], "card");
        let at = running.heard("listening")["uri"].as_str().unwrap().to_owned();
        let at = at.rsplit(['/', '@']).next().unwrap().to_owned();
        (running, shown["code"].as_str().unwrap().to_owned(), at)
    };
    // The taker gives the card a name, and the program that shows the code ends by itself.
    let (mut running, code, at) = show(&["inbox", "card", "--code", "--announce", "127.0.0.1:0"]);
    let run = |arguments: &[&str]| {
        let mut command = xylem(&dir.path().join("ann"));
        command.args(arguments).stdin(Stdio::null());
        finish(command)
    };
    assert_exit(&run(&["inbox", "trust", "bob", &code, "--from", &at]), 0);
    assert!(running.0.wait().unwrap().success());
    let people = run(&["inbox", "people"]);
    assert!(String::from_utf8_lossy(&people.stdout).starts_with("bob"), "{people:?}");
    // A code of a card in place of the peer: mail goes there at once.
    let (running, code, at) = show(&["inbox", "--listen", "127.0.0.1:0", "--code"]);
    let note = file(dir.path(), "note", b"by a code");
    assert_exit(&run(&["send", "--note", text(&note), &code, "--to", &at]), 0);
    assert_eq!(running.heard("code_ended")["why"], "used");
    assert_eq!(running.heard("mail")["kind"], "note");
    // A code of one kind where the other kind is expected.
    let (shared, code) = share(dir.path(), b"content");
    let output = run(&["send", "--note", text(&note), &code, "--to", &shared.link]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("`xylem get CODE`"), "{}", stderr(&output));
}

/// Two machines on one cable; `None` without the right to make them.
struct Cable([String; 2]);

impl Cable {
    fn new() -> Option<Self> {
        let names = ["a", "b"].map(|which| format!("xylem-codes-{which}-{}", std::process::id()));
        let [a, b] = &names;
        let script = format!(
            "ip netns add {a} && ip netns add {b} && ip -n {a} link add eth type veth peer name eth netns {b} \
             && ip -n {a} addr add 10.68.0.1/24 dev eth && ip -n {b} addr add 10.68.0.2/24 dev eth \
             && ip -n {a} link set lo up && ip -n {b} link set lo up \
             && ip -n {a} link set eth up && ip -n {b} link set eth up"
        );
        let cable = Self(names.clone());
        let made = Command::new("sh").args(["-c", &script]).output();
        made.is_ok_and(|made| made.status.success()).then_some(cable)
    }

    fn on(&self, machine: usize, store: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[machine], common::XYLEM, "--store"]).arg(store);
        command.env("XYLEM_NO_MAP", "1").stdin(Stdio::null());
        command
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// No address and no relay is named: the peer is found on the LAN by the number, or a line states that none has it.
#[test]
fn a_code_leads_on_the_lan() {
    let Some(cable) = Cable::new() else {
        common::skipped("no right to make network namespaces");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let content = noise(200_000, 8);
    let source = file(dir.path(), "source", &content);
    let mut command = cable.on(0, &dir.path().join("a"));
    command.args(["--json", "share", "--code", "--listen", "0.0.0.0:7348"]).arg(&source);
    let sharing = Running::of(command);
    let shown = sharing.heard("code");
    assert_eq!(shown["lan"], true);
    let run = |code: &str, more: &[&str]| {
        let mut command = cable.on(1, &dir.path().join("b"));
        command.args(["get", code]).args(more).arg("-o").arg(dir.path().join("out"));
        finish(command)
    };
    let code = shown["code"].as_str().unwrap();
    let nowhere = run(code, &["--no-lan", "--no-dht"]);
    assert_exit(&nowhere, 2);
    assert!(stderr(&nowhere).contains("--relay URI, or --from"), "{}", stderr(&nowhere));
    assert_exit(&run("8888888-alpha-cobra-violin", &[]), 3);
    assert_exit(&run(code, &[]), 0);
    assert!(fs::read(dir.path().join("out")).unwrap() == content);
}
