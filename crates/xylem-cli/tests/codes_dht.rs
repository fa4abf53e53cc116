//! Codes with the real program through the DHT alone: a network of nodes on loopback, no relay, no LAN, no address named.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::running::Running;
use crate::common::{
    Share, assert_exit, file, finish, noise, stderr, text, until, until_within, xylem,
};
use mainline::Testnet;
use xylem_object::Ticket;
use xylem_reach::code::{
    CodeRole, MAX_PUNCHES, PUNCH_LEN, SpokenCode, meeting_key, meeting_windows,
};
use xylem_reach::names::{RootMeeting, VOLUNTEER_SHARDS, volunteers_key};
use xylem_reach::volunteer::{VOLUNTEER_LEN, VolunteerAnswers, VolunteerReply};

/// Nodes of the DHT, in this process.
fn testnet(count: usize) -> Testnet {
    Testnet::builder(count).build().expect("nodes of the DHT")
}

/// The program with the DHT, entered here.
fn with_dht(store: &Path, bootstrap: &[String]) -> Command {
    let mut command = xylem(store);
    command.env_remove("XYLEM_NO_DHT").env("XYLEM_DHT_BOOTSTRAP", bootstrap.join(","));
    command.stdin(Stdio::null());
    command
}

/// A share that shows a code, and that code.
fn share(dir: &Path, content: &[u8], bootstrap: &[String]) -> (Share, String) {
    let source = file(dir, "said aloud.bin", content);
    let share = Share::run(with_dht(&dir.join("store"), bootstrap), &source, &["--code"]);
    until("a code", || !share.told("code").is_empty());
    let code = share.told("code")[0]["code"].as_str().expect("a text").to_owned();
    (share, code)
}

fn get(dir: &Path, who: &str, bootstrap: &[String], arguments: &[&str]) -> Output {
    let mut command = with_dht(&dir.join(format!("store of {who}")), bootstrap);
    command.arg("get").args(arguments).arg("-o").arg(dir.join(who));
    finish(command)
}

fn number(code: &str) -> u32 {
    code.parse::<SpokenCode>().expect("a code").number()
}

/// Announces in the DHT that a port of this machine shows or takes a code of this number.
fn announce(net: &Testnet, number: u32, role: CodeRole, port: u16) {
    let node = mainline::Dht::builder()
        .bootstrap(&net.bootstrap)
        .bind_address(Ipv4Addr::LOCALHOST)
        .port(0)
        .build()
        .unwrap();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for window in meeting_windows(seconds) {
        let key = mainline::Id::from(meeting_key(number, window, role));
        #[expect(deprecated, reason = "a test may block")]
        node.announce_peer(key, Some(port)).unwrap();
    }
}

/// An address that a poisoned DHT lists.
struct Victim(UdpSocket);

impl Victim {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Self(socket)
    }

    fn at(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Lengths of the datagrams that arrive in this time.
    fn received(&self, time: Duration) -> Vec<usize> {
        let (began, mut buffer, mut lengths) = (Instant::now(), [0; 2_048], Vec::new());
        while began.elapsed() < time {
            lengths.extend(self.0.recv_from(&mut buffer).map(|(len, _)| len).ok());
        }
        lengths
    }
}

#[test]
fn a_code_alone_brings_the_file() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let content = noise(300_000, 1);
    let (share, code) = share(dir.path(), &content, &net.bootstrap[..3]);
    let told = &share.told("code")[0];
    assert_eq!((&told["dht"], &told["lan"]), (&true.into(), &false.into()));
    assert!((10_000..100_000).contains(&number(&code)), "{code}");
    assert_eq!(share.told("code_in_dht").len(), 1);
    let output = get(dir.path(), "ann", &net.bootstrap[5..8], &[&code]);
    assert_exit(&output, 0);
    let said = stderr(&output);
    assert_eq!(said.matches("--no-dht turns this off").count(), 1, "{said}");
    assert!(fs::read(dir.path().join("ann")).unwrap() == content);
    until("the end of the code", || !share.told("code_ended").is_empty());
    assert_eq!(share.told("code_ended")[0]["why"], "used");
    // The store keeps addresses of DHT nodes.
    let nodes = fs::read_to_string(dir.path().join("store of ann/dht/nodes")).unwrap();
    assert!(nodes.lines().count() > 1, "{nodes}");
}

/// The taker begins first: the code is typed as soon as it is shown, or before that.
#[test]
fn a_taker_waits_for_an_offerer_that_is_not_listed_yet() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let (share, code) = share(dir.path(), b"content", &net.bootstrap);
    // No peer shows this one.
    let other = SpokenCode::draw(number(&code) ^ 1, &[1; 32]).to_string();
    let output = get(dir.path(), "bob", &net.bootstrap, &[&other]);
    assert_exit(&output, 3);
    assert!(stderr(&output).contains("no peer shows that code"), "{}", stderr(&output));
    let output = get(dir.path(), "ann", &net.bootstrap, &[&code]);
    assert_exit(&output, 0);
    drop(share);
}

/// The address of a victim is listed on both sides. It gets few and small datagrams, and the code works meanwhile.
#[test]
fn a_listed_victim_gets_ten_small_datagrams() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let (_share, code) = share(dir.path(), b"content", &net.bootstrap);
    let (of_offerer, of_taker) = (Victim::new(), Victim::new());
    announce(&net, number(&code), CodeRole::Taker, of_offerer.at().port());
    announce(&net, number(&code), CodeRole::Offerer, of_taker.at().port());
    let (dir, nodes) = (dir.path(), &net.bootstrap);
    std::thread::scope(|scope| {
        // Offerers of a number that only the victim shows, in place of the share's.
        let wrong = scope.spawn(|| {
            let other = number(&code) ^ 1;
            announce(&net, other, CodeRole::Offerer, of_taker.at().port());
            let typed = SpokenCode::draw(other, &[1; 32]).to_string();
            get(dir, "bob", nodes, &[&typed])
        });
        let received = of_taker.received(Duration::from_secs(16));
        assert!(!received.is_empty(), "it is listed, so it is asked");
        assert!(received.len() <= usize::from(MAX_PUNCHES), "{received:?}");
        assert!(received.iter().all(|len| *len == PUNCH_LEN), "{received:?}");
        let output = wrong.join().unwrap();
        assert_exit(&output, 3);
        assert!(stderr(&output).contains("does not answer"), "{}", stderr(&output));
    });
    let received = of_offerer.received(Duration::from_secs(1));
    assert!(!received.is_empty(), "the offerer polls");
    assert!(received.len() <= usize::from(MAX_PUNCHES), "{received:?}");
    assert!(received.iter().all(|len| *len == PUNCH_LEN), "{received:?}");
    assert_exit(&get(dir, "ann", nodes, &[&code]), 0);
    let later = of_taker.received(Duration::from_secs(1));
    assert!(later.len() <= usize::from(MAX_PUNCHES), "{later:?}");
}

/// Nothing answers at the first nodes: the code is shown all the same, and a taker learns why it finds no peer.
#[test]
fn a_dht_without_answers_delays_no_code() {
    let dir = tempfile::tempdir().unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nodes = [silent.local_addr().unwrap().to_string()];
    let (share, code) = share(dir.path(), b"content", &nodes);
    assert_eq!(share.told("code")[0]["dht"], false);
    let began = Instant::now();
    let output = get(dir.path(), "ann", &nodes, &[&code]);
    assert_exit(&output, 3);
    let said = stderr(&output);
    assert!(said.contains("no node of the DHT answers") && said.contains("over TCP"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // A named address needs no DHT.
    assert_exit(&get(dir.path(), "bob", &nodes, &[&code, "--from", &share.link]), 0);
}

/// Turned off by the flag, the variable, or the settings in either form, the DHT is not asked and codes are not listed.
#[test]
fn the_dht_can_be_turned_off() {
    let (net, dir) = (testnet(10), tempfile::tempdir().unwrap());
    let (_share, code) = share(dir.path(), b"content", &net.bootstrap);
    let off = |command: &mut Command, settings: Option<&str>| match settings {
        Some(settings) => {
            let at = file(dir.path(), "settings.toml", settings.as_bytes());
            command.arg("--config").arg(at);
        }
        None => drop(command.env("XYLEM_NO_DHT", "1")),
    };
    for settings in [None, Some("dht = false"), Some("[dht]\ncodes = false")] {
        let mut command = with_dht(&dir.path().join("b"), &net.bootstrap);
        off(&mut command, settings);
        command.args(["get", &code]);
        let output = finish(command);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains("no place to look"), "{}", stderr(&output));
    }
    assert_exit(&get(dir.path(), "c", &net.bootstrap, &[&code, "--no-dht"]), 2);
    let source = file(dir.path(), "other", b"other");
    let command = with_dht(&dir.path().join("d"), &net.bootstrap);
    let quiet = Share::run(command, &source, &["--code", "--no-dht"]);
    until("a code", || !quiet.told("code").is_empty());
    assert_eq!(quiet.told("code")[0]["dht"], false);
    assert!(quiet.told("code_in_dht").is_empty());
}

#[test]
fn a_card_is_handed_over_and_mail_goes_there() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let mut command = with_dht(&dir.path().join("bob"), &net.bootstrap);
    command.args(["--json", "inbox", "--listen", "127.0.0.1:0", "--code"]);
    let shows = Running::of(command);
    let code = shows.heard("code")["code"].as_str().unwrap().to_owned();
    let note = file(dir.path(), "note", b"by a code");
    let mut command = with_dht(&dir.path().join("ann"), &net.bootstrap);
    command.args(["send", "--note", text(&note), &code]);
    assert_exit(&finish(command), 0);
    assert_eq!(shows.heard("code_ended")["why"], "used");
    assert_eq!(shows.heard("mail")["kind"], "note");
}

/// Stops or continues a process.
fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").arg(name).arg(pid.to_string()).status().unwrap();
    assert!(sent.success());
}

/// Runs a command with the code of a card; the inbox that offers it is listed in the DHT, and answers, after 11 s. Returns
/// the command's output and the inbox.
fn with_a_late_card(dir: &Path, who: &str, arguments: &[&str]) -> (Output, Running) {
    let net = testnet(20);
    let mut command = with_dht(&dir.join("bob"), &net.bootstrap);
    command.args(["--json", "inbox", "--listen", "127.0.0.1:0", "--code"]);
    let shows = Running::of(command);
    let code = shows.heard("code")["code"].as_str().unwrap().to_owned();
    // Its announcement is stored by then.
    std::thread::sleep(Duration::from_secs(2));
    let pid = shows.0.id();
    signal("-STOP", pid);
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(11));
        signal("-CONT", pid);
    });
    let mut command = with_dht(&dir.join(who), &net.bootstrap);
    command.args(arguments).arg(code);
    let output = finish(command);
    later.join().unwrap();
    (output, shows)
}

#[test]
fn mail_waits_for_the_dht_as_long_as_a_fetch_does() {
    let dir = tempfile::tempdir().unwrap();
    let note = file(dir.path(), "note", b"late");
    let (output, shows) = with_a_late_card(dir.path(), "ann", &["send", "--note", text(&note)]);
    assert_exit(&output, 0);
    assert_eq!(shows.heard("mail")["kind"], "note");
}

#[test]
fn a_name_waits_for_the_dht_as_long_as_a_fetch_does() {
    let dir = tempfile::tempdir().unwrap();
    let (output, _shows) = with_a_late_card(dir.path(), "ann", &["inbox", "trust", "bob"]);
    assert_exit(&output, 0);
}

/// A node of the DHT that passes datagrams of one peer on to another node, once it is told to.
fn gate(to: SocketAddr, opens: std::sync::mpsc::Receiver<()>) -> SocketAddr {
    let [front, back] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let at = front.local_addr().unwrap();
    std::thread::spawn(move || {
        opens.recv().unwrap();
        let (of_peer, of_node) = (front.try_clone().unwrap(), back.try_clone().unwrap());
        let peer = std::sync::Arc::new(std::sync::Mutex::new(None));
        let known = peer.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok((len, _)) = of_node.recv_from(&mut buffer) {
                let to: Option<SocketAddr> = *known.lock().unwrap();
                to.map(|to| of_peer.send_to(&buffer[..len], to).unwrap());
            }
        });
        let mut buffer = [0; 4_096];
        while let Ok((len, from)) = front.recv_from(&mut buffer) {
            *peer.lock().unwrap() = Some(from);
            back.send_to(&buffer[..len], to).unwrap();
        }
    });
    at
}

/// No node answers before the code is shown, and then they do: both are reported, and each is true.
#[test]
fn a_code_that_the_dht_lists_late_is_reported_then() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let (open, opens) = std::sync::mpsc::channel();
    let bootstrap = vec![gate(net.bootstrap[0].parse().unwrap(), opens).to_string()];
    let (share, code) = share(dir.path(), b"content", &bootstrap);
    let told = &share.told("code")[0];
    assert_eq!((&told["dht"], &told["dht_waits"]), (&false.into(), &true.into()));
    assert!(share.told("code_listed").is_empty());
    open.send(()).unwrap();
    until_within(Duration::from_secs(40), "a listing", || !share.told("code_listed").is_empty());
    assert_exit(&get(dir.path(), "ann", &net.bootstrap, &[&code]), 0);
    assert_eq!(share.told("code_listed").len(), 1);
}

/// A node of the DHT that lists volunteer relays where they announce themselves, and the two sides of a code at a port where
/// nothing answers: as if each were behind a NAT that gives every destination another port.
fn symmetric_world() -> (Vec<String>, Victim) {
    let (node, silent) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Victim::new());
    let (at, elsewhere) = (node.local_addr().unwrap(), silent.at());
    std::thread::spawn(move || {
        let volunteers: Vec<_> = (0..VOLUNTEER_SHARDS).map(volunteers_key).collect();
        let (mut listed, mut buffer) = (HashMap::<[u8; 20], Vec<SocketAddr>>::new(), [0; 4_096]);
        while let Ok((len, from)) = node.recv_from(&mut buffer) {
            let query = &buffer[..len];
            let behind = |what: &[u8]| {
                let place = query.windows(what.len()).rposition(|window| window == what)?;
                Some(&query[place + what.len()..])
            };
            let key = behind(b"9:info_hash20:").map(|rest| *rest.first_chunk::<20>().unwrap());
            let mut answer = b"d1:rd2:id20:nodenodenodenodenode5:token2:ok".to_vec();
            if let Some(key) = key {
                let listed = listed.entry(key).or_default();
                if behind(b"13:announce_peer").is_some() {
                    let at = if volunteers.contains(&key) { from } else { elsewhere };
                    listed.retain(|known| *known != at);
                    listed.push(at);
                }
                let values = listed.iter().map(|at| at.port().to_be_bytes());
                let values = values.flat_map(|port| [b"6:\x7f\0\0\x01".as_slice(), &port].concat());
                let values: Vec<u8> = values.collect();
                if !values.is_empty() {
                    answer.extend([b"6:valuesl".as_slice(), &values, b"e"].concat());
                }
            }
            answer.extend_from_slice(b"e1:t4:");
            answer.extend_from_slice(&behind(b"1:t4:").unwrap()[..4]);
            answer.extend_from_slice(b"1:y1:re");
            let _ = node.send_to(&answer, from);
        }
    });
    (vec![at.to_string()], silent)
}

fn volunteer(dir: &Path, bootstrap: &[String]) -> Running {
    let mut command = with_dht(&dir.join("relay"), bootstrap);
    command.args(["--json", "relay", "--volunteer", "--listen", "xylem://127.0.0.1:0"]);
    let relay = Running::of(command);
    relay.heard("volunteering");
    relay
}

/// Lists a socket of this test as a volunteer.
fn announce_as_volunteer(socket: &UdpSocket, bootstrap: &[String]) {
    let node: SocketAddr = bootstrap[0].parse().unwrap();
    for shard in 0..VOLUNTEER_SHARDS {
        let head = b"d1:ad2:id20:peerpeerpeerpeerpeer12:implied_porti1e9:info_hash20:";
        let tail = b"4:porti1e5:token2:oke1:q13:announce_peer1:t4:abcd1:y1:qe";
        let query = [&head[..], &volunteers_key(shard), tail].concat();
        socket.send_to(&query, node).unwrap();
    }
}

/// No address that is listed answers, no relay is named: the two sides meet at a relay of a stranger.
#[test]
fn a_volunteer_relay_connects_where_no_direct_way_is_found() {
    let ((bootstrap, silent), dir) = (symmetric_world(), tempfile::tempdir().unwrap());
    let relay = volunteer(dir.path(), &bootstrap);
    let uri = relay.heard("relaying")["uris"][0].as_str().unwrap().to_owned();
    let at = uri.split_once('@').unwrap().1.to_owned();
    let content = noise(300_000, 3);
    let (share, code) = share(dir.path(), &content, &bootstrap);
    let output = get(dir.path(), "ann", &bootstrap, &[&code]);
    assert_exit(&output, 0);
    assert!(fs::read(dir.path().join("ann")).unwrap() == content);
    let said = stderr(&output);
    assert_eq!(said.matches("relays of strangers pass").count(), 1, "{said}");
    assert!(said.contains(&at), "{said}");
    let told = share.told("volunteer_relays");
    assert_eq!(told.len(), 1);
    assert!(told[0]["relays"][0].as_str().unwrap().ends_with(&at), "{told:?}");
    // An address that is listed and silent has had its few datagrams of punching, and nothing of a link.
    let lengths = silent.received(Duration::from_millis(200));
    assert!(lengths.iter().all(|len| *len == PUNCH_LEN), "{lengths:?}");
}

/// Where a direct way is found no volunteer is asked, and where volunteers are turned off none is either.
#[test]
fn volunteers_are_asked_only_if_they_are_needed_and_wanted() {
    let ((bootstrap, _silent), dir) = (symmetric_world(), tempfile::tempdir().unwrap());
    let _relay = volunteer(dir.path(), &bootstrap);
    let (net, near) = (testnet(20), dir.path().join("near"));
    fs::create_dir(&near).unwrap();
    let (direct, code) = share(&near, b"content", &net.bootstrap);
    assert_exit(&get(&near, "ann", &net.bootstrap, &[&code]), 0);
    assert!(direct.told("volunteer_relays").is_empty());
    let (shown, code) = share(dir.path(), b"content", &bootstrap);
    let mut command = with_dht(&dir.path().join("bob"), &bootstrap);
    let settings = file(dir.path(), "off.toml", b"[dht]\nvolunteers = false");
    command.arg("--config").arg(settings).args(["get", "--timeout", "8", &code]);
    let output = finish(command);
    assert_exit(&output, 3);
    assert!(!stderr(&output).contains("strangers"), "{}", stderr(&output));
    // The offerer has registered there in vain.
    assert_eq!(shown.told("volunteer_relays").len(), 1);
}

/// One of two volunteers answers with a key and passes nothing. It is left for the other one.
#[test]
fn a_volunteer_that_relays_nothing_is_left_for_another() {
    let ((bootstrap, _silent), dir) = (symmetric_world(), tempfile::tempdir().unwrap());
    let _relay = volunteer(dir.path(), &bootstrap);
    let liar = UdpSocket::bind("127.0.0.1:0").unwrap();
    announce_as_volunteer(&liar, &bootstrap);
    std::thread::spawn(move || {
        let mut answers = VolunteerAnswers::new([9; 32], &[9; 32]);
        let mut buffer = [0; 2_048];
        while let Ok((len, from)) = liar.recv_from(&mut buffer) {
            let reply = answers.handle_datagram(Duration::ZERO, from, &buffer[..len]);
            if let VolunteerReply::Answer(answer) = reply {
                let _ = liar.send_to(&answer, from);
            }
        }
    });
    let (share, code) = share(dir.path(), b"content", &bootstrap);
    assert_exit(&get(dir.path(), "ann", &bootstrap, &[&code]), 0);
    assert_eq!(share.told("volunteer_relays")[0]["relays"].as_array().unwrap().len(), 2);
}

/// A volunteer that is listed and silent costs two small datagrams, and the code fails as without one.
#[test]
fn a_victim_that_is_listed_as_a_volunteer_gets_two_small_datagrams() {
    let ((bootstrap, _silent), dir) = (symmetric_world(), tempfile::tempdir().unwrap());
    let (_shown, code) = share(dir.path(), b"content", &bootstrap);
    let victim = Victim::new();
    announce_as_volunteer(&victim.0, &bootstrap);
    let output = {
        let mut command = with_dht(&dir.path().join("ann"), &bootstrap);
        command.args(["get", "--timeout", "12", &code]);
        finish(command)
    };
    assert_exit(&output, 3);
    let lengths = victim.received(Duration::from_millis(500));
    let asked = lengths.iter().filter(|len| **len == VOLUNTEER_LEN).count();
    // Two of each side.
    assert!((2..=4).contains(&asked), "{lengths:?}");
    let others = lengths.iter().filter(|len| **len != VOLUNTEER_LEN);
    assert_eq!(others.count(), usize::from(VOLUNTEER_SHARDS), "{lengths:?}");
}

/// What is said of the ticket is not said of a code that the DHT leads to.
#[test]
fn how_a_code_is_reached_is_said_apart_from_the_ticket() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let (share, _code) = share(dir.path(), b"content", &net.bootstrap);
    until("reach", || !share.told("reach").is_empty());
    let says = share.told("reach")[0]["says"].as_str().unwrap().to_owned();
    assert!(says.starts_with("by the ticket this "), "{says}");
}

/// The exit code of a command that ends within some seconds.
fn ends(mut command: Command) -> Option<i32> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    let mut ended = None;
    while ended.is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        ended = child.try_wait().unwrap();
    }
    let _ = child.kill();
    let _ = child.wait();
    ended.and_then(|status| status.code())
}

/// A background node that shall announce in the DHT and may not use it does not start, nor is its unit written.
#[test]
fn a_public_background_node_obeys_what_turns_the_dht_off() {
    let (net, dir) = (testnet(10), tempfile::tempdir().unwrap());
    let settings = file(dir.path(), "off.toml", b"dht = false");
    let run = ["service", "run", "--public", "--listen", "127.0.0.1:0"];
    let install = ["service", "install", "--no-start", "--public"];
    for arguments in [&run[..], &install] {
        let command = || {
            let mut command = with_dht(&dir.path().join("store"), &net.bootstrap);
            command.env("XDG_CONFIG_HOME", dir.path().join("config"));
            command
        };
        let mut off = command();
        off.env("XYLEM_NO_DHT", "1").args(arguments);
        assert_eq!(ends(off), Some(2), "{arguments:?}");
        let mut off = command();
        off.args(arguments).arg("--no-dht");
        assert_eq!(ends(off), Some(2), "{arguments:?}");
        let mut off = command();
        off.arg("--config").arg(&settings).args(arguments);
        assert_eq!(ends(off), Some(2), "{arguments:?}");
    }
    assert!(!dir.path().join("config").exists());
}

/// A share in the DHT by its tickets, once a node lists it.
fn public_share(dir: &Path, source: &Path, bootstrap: &[String], by_setting: bool) -> Share {
    let mut command = with_dht(&dir.join("store"), bootstrap);
    if by_setting {
        command.arg("--config").arg(file(dir, "public.toml", b"public = true"));
    }
    let share = Share::run(command, source, if by_setting { &[] } else { &["--public"] });
    until("a listing by the ticket", || {
        let says =
            |event: &serde_json::Value| event["says"].to_string().contains("through the DHT");
        share.told("reach").iter().any(says)
    });
    share
}

/// A ticket whose one address is that of a share that has ended leads to the share that runs now, at another port.
#[test]
fn an_old_ticket_of_a_public_share_leads_to_it_through_the_dht() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let content = noise(300_000, 2);
    let source = file(dir.path(), "moved.bin", &content);
    let old = public_share(dir.path(), &source, &net.bootstrap[..3], false);
    let (ticket, was) = (old.ticket.clone(), old.link.clone());
    drop(old);
    // Its port is another's by now, which is silent.
    let _other = UdpSocket::bind(&was).unwrap();
    // A setting does the same.
    let share = public_share(dir.path(), &source, &net.bootstrap[..3], true);
    assert_ne!(share.link, was);
    let output = get(dir.path(), "ann", &net.bootstrap[5..8], &[&ticket]);
    assert_exit(&output, 0);
    let said = stderr(&output);
    assert_eq!(said.matches("--no-dht turns this off").count(), 1, "{said}");
    assert!(fs::read(dir.path().join("ann")).unwrap() == content);
    // What answers at once asks no DHT.
    let output = get(dir.path(), "bob", &net.bootstrap[5..8], &[&share.ticket]);
    assert_exit(&output, 0);
    assert!(!stderr(&output).contains("DHT"), "{}", stderr(&output));
    // Turned off in either way it is not asked, and the fetch ends as ever.
    let mut command = with_dht(&dir.path().join("c"), &net.bootstrap);
    command.env("XYLEM_NO_DHT", "1").args(["get", "--timeout", "6", &ticket]);
    let settings = file(dir.path(), "off.toml", b"dht = false");
    let mut by_settings = with_dht(&dir.path().join("d"), &net.bootstrap);
    by_settings.arg("--config").arg(settings).args(["get", "--timeout", "6", &ticket]);
    // Nor by a fetch that shows no other peer its address.
    let hidden = [&["--no-serve"][..], &["--shape", "high"]].map(|hides| {
        let mut command = with_dht(&dir.path().join("e"), &net.bootstrap);
        command.args(["get", "--timeout", "6", &ticket]).args(hides);
        command
    });
    for command in [command, by_settings].into_iter().chain(hidden) {
        let output = finish(command);
        assert_exit(&output, 3);
        let said = stderr(&output);
        assert!(said.contains("no peer answered in 6 s") && !said.contains("DHT"), "{said}");
    }
}

/// No address that is listed answers, and the ticket names no relay: sharer and getter meet at a relay of a stranger.
fn fetched_through_a_volunteer(wanted: impl Fn(&Ticket) -> String) {
    let ((bootstrap, silent), dir) = (symmetric_world(), tempfile::tempdir().unwrap());
    let _relay = volunteer(dir.path(), &bootstrap);
    let content = noise(300_000, 4);
    let source = file(dir.path(), "far.bin", &content);
    let old = public_share(dir.path(), &source, &bootstrap, false);
    let (ticket, was) = (old.ticket.clone(), old.link.clone());
    drop(old);
    // Its port is another's by now, which is silent.
    let _other = UdpSocket::bind(&was).unwrap();
    let share = public_share(dir.path(), &source, &bootstrap, false);
    let wanted = wanted(&ticket.parse().unwrap());
    // One that wants no relay of a stranger ends without.
    let mut command = with_dht(&dir.path().join("bob"), &bootstrap);
    let settings = file(dir.path(), "off.toml", b"[dht]\nvolunteers = false");
    command.arg("--config").arg(settings).args(["get", "--timeout", "8", &wanted]);
    let refused = std::thread::spawn(move || finish(command));
    let output = get(dir.path(), "ann", &bootstrap, &[&wanted]);
    assert_exit(&output, 0);
    assert!(fs::read(dir.path().join("ann")).unwrap() == content);
    let said = stderr(&output);
    assert_eq!(said.matches("relays of strangers pass").count(), 1, "{said}");
    assert_eq!(share.told("volunteer_relays").len(), 1);
    let refused = refused.join().unwrap();
    assert_exit(&refused, 3);
    assert!(!stderr(&refused).contains("strangers"), "{}", stderr(&refused));
    // An address that is listed and silent has had its few datagrams of punching, and of a root's sharers a few first ones of
    // links.
    let lengths = silent.received(Duration::from_millis(200));
    assert!(lengths.iter().all(|len| *len != VOLUNTEER_LEN), "{lengths:?}");
}

#[test]
fn a_ticket_of_a_public_share_leads_to_it_through_a_volunteer() {
    fetched_through_a_volunteer(ToString::to_string);
}

#[test]
fn a_root_of_a_public_share_leads_to_it_through_a_volunteer() {
    fetched_through_a_volunteer(|ticket| format!("b3:{}", ticket.root));
}

/// Neither by its ticket nor by its root.
#[test]
fn a_share_that_is_not_public_is_not_found_by_its_ticket() {
    let (net, dir) = (testnet(10), tempfile::tempdir().unwrap());
    let source = file(dir.path(), "near.bin", b"near");
    let store = dir.path().join("store");
    let old = Share::run(with_dht(&store, &net.bootstrap), &source, &[]);
    let (ticket, was) = (old.ticket.clone(), old.link.clone());
    drop(old);
    let _other = UdpSocket::bind(&was).unwrap();
    let _share = Share::run(with_dht(&store, &net.bootstrap), &source, &[]);
    let output = get(dir.path(), "ann", &net.bootstrap, &["--timeout", "8", &ticket]);
    assert_exit(&output, 3);
    // The getter that tried it is not listed either.
    let ticket: Ticket = ticket.parse().unwrap();
    let getters = RootMeeting::new(&ticket.root).getters;
    let looks = mainline::Dht::builder()
        .bootstrap(&net.bootstrap)
        .bind_address(Ipv4Addr::LOCALHOST)
        .port(0)
        .build()
        .unwrap();
    #[expect(deprecated, reason = "the other one needs a runtime")]
    let listed = looks.get_peers(mainline::Id::from(getters));
    assert_eq!(listed.flatten().count(), 0);
}

/// `good` and `says` of each step.
type TrialSteps = HashMap<String, (Option<bool>, String)>;

/// What `net reach --dht` shows, and its exit code.
fn tried(dir: &Path, bootstrap: &[String]) -> (Option<i32>, TrialSteps) {
    let mut command = with_dht(&dir.join("store of reach"), bootstrap);
    command.args(["--json", "net", "reach", "--dht", "--no-map", "--listen", "127.0.0.1:0"]);
    let output = finish(command);
    let events = String::from_utf8(output.stdout).expect("UTF-8");
    let events = events.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let steps = events.filter(|event: &serde_json::Value| event["event"] == "probe");
    let step = |event: serde_json::Value| {
        let text = |name: &str| event[name].as_str().expect("a text").to_owned();
        (text("what"), (event["good"].as_bool(), text("says")))
    };
    (output.status.code(), steps.map(step).collect())
}

/// A trial of a machine that the DHT lists reports each step as good, and so does the exit code.
#[test]
fn a_trial_of_the_dht_finds_this_machine_there() {
    let (net, dir) = (testnet(20), tempfile::tempdir().unwrap());
    let (code, steps) = tried(dir.path(), &net.bootstrap[..2]);
    assert_eq!(code, Some(0), "{steps:?}");
    for what in ["dht_nodes", "dht_listed", "dht_found", "dht_nat"] {
        assert_eq!(steps[what].0, Some(true), "{what}: {steps:?}");
    }
    assert!(steps["dht_address"].1.contains("nodes see this machine at 127.0.0.1:"), "{steps:?}");
    assert_eq!(steps["dht_volunteers"].0, Some(false), "{steps:?}");
    let mut command = with_dht(&dir.path().join("store of reach"), &net.bootstrap);
    command.args(["net", "reach", "--dht", "--no-map", "--listen", "127.0.0.1:0"]);
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.lines()
            .last()
            .is_some_and(|last| last.starts_with("Reach: from elsewhere through the DHT")),
        "{said}"
    );
}

/// Nodes that lie about where this machine is, that are silent, and a DHT that is turned off.
#[test]
fn a_trial_of_the_dht_reports_what_is_wrong() {
    let ((bootstrap, _silent), dir) = (symmetric_world(), tempfile::tempdir().unwrap());
    let _relay = volunteer(dir.path(), &bootstrap);
    let (code, steps) = tried(dir.path(), &bootstrap);
    assert_eq!(
        (code, steps["dht_listed"].0, steps["dht_found"].0),
        (Some(3), Some(true), Some(false)),
        "{steps:?}"
    );
    // That relay answers.
    assert_eq!(steps["dht_volunteers"].0, Some(true), "{steps:?}");

    let silent = Victim::new();
    let (code, steps) = tried(&dir.path().join("other"), &[silent.at().to_string()]);
    assert_eq!((code, steps["dht_nodes"].0), (Some(3), Some(false)), "{steps:?}");
    assert!(!steps.contains_key("dht_listed"), "{steps:?}");

    let mut command = with_dht(&dir.path().join("third"), &bootstrap);
    command.args(["net", "reach", "--dht", "--no-dht"]);
    let output = finish(command);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("--dht needs it"), "{}", stderr(&output));
}
