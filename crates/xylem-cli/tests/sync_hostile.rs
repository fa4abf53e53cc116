//! A malicious member beside ordinary members: it has the ticket and uses our own library against them.
#![cfg(target_os = "linux")]

use crate::common;
use crate::common::syncing::Member;
use crate::common::{assert_exit, file, finish, until};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use xylem_base::Stop;
use xylem_files::walk::Selection;
use xylem_folder::{
    Index, IndexItem, Invitation, ItemKind, LogEntry, MemberLog, MemberStatement, Past, Roles,
    SyncGroup, Vector,
};
use xylem_hash::Hash;
use xylem_link::StaticKey;
use xylem_node::{
    AnnounceOptions, Event, LinkOptions, MeshNews, MeshStart, OneShare, Prove, ServiceHandle,
    ShareOptions, serve_group,
};
use xylem_object::{PublisherKey, Ticket};
use xylem_packet::{Component, Name};
use xylem_peers::reachable::PeerAddress;

/// The malicious member, or one of several machines that share its key.
struct MaliciousMember {
    dir: PathBuf,
    key: PublisherKey,
    link_key: [u8; 32],
    group: SyncGroup,
    handle: ServiceHandle,
    news: Receiver<MeshNews>,
    log: MemberLog,
    number: u64,
    stop: Stop,
    serving: Option<JoinHandle<()>>,
}

impl MaliciousMember {
    /// A member by this ticket, with this key in the group.
    fn new(base: &Path, name: &str, key: u8, ticket: &str) -> Self {
        let dir = base.join(name);
        let store = dir.join("store");
        fs::create_dir_all(store.join("keys")).unwrap();
        let invitation: Invitation = ticket.parse().unwrap();
        let key = PublisherKey::from_bytes(&[key; 32]);
        fs::write(dir.join("key"), key.to_bytes()).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(dir.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let link_key = xylem_keys::load_or_create(&store.join("keys").join("link")).unwrap();
        let options = ShareOptions {
            paths: Vec::new(),
            name: None,
            key_file: Some(dir.join("key")),
            identity: None,
            selection: Selection::default(),
            recipients: None,
            listen: vec![PeerAddress::Link { address: "127.0.0.1:0".parse().unwrap(), key: None }],
            announce: Vec::new(),
            relay_list: None,
            relays: Vec::new(),
            certificate: None,
            plain: Vec::new(),
            web: Vec::new(),
            pages: Vec::new(),
            prove: Prove::default(),
            via: Vec::new(),
            links: LinkOptions::default(),
            accept_open: false,
            follow: None,
            beside: AnnounceOptions::default(),
            code: false,
            code_dht: None,
            witnesses: Vec::new(),
            store,
            medium: xylem_base::FileMedium::default(),
        };
        let (tell, news) = mpsc::channel();
        let start = MeshStart {
            group: invitation.group.clone(),
            own: key.public(),
            first: Some(invitation.member),
            known: Vec::new(),
            met: Vec::new(),
            roles: Roles::default(),
            history: dir.join("history"),
            rewrote: Vec::new(),
        };
        let (ready, is_ready) = mpsc::channel();
        let stop = Stop::new();
        let ends = stop.clone();
        let serving = std::thread::spawn(move || {
            let ready = |handle, _| ready.send(handle).unwrap();
            serve_group(&options, None, Some((start, tell)), &ends, ready, &mut |_| {}).unwrap();
        });
        Self {
            link_key: StaticKey::from_bytes(link_key).public().0,
            key,
            group: invitation.group,
            handle: is_ready.recv().unwrap(),
            news,
            log: MemberLog::open(&dir.join("history")).unwrap(),
            number: 1_000,
            stop,
            serving: Some(serving),
            dir,
        }
    }

    fn share(&self, path: &Path, what: &str) -> Ticket {
        let name: Name =
            ["mallory", what].map(|part| Component::generic(part.as_bytes())).into_iter().collect();
        let how = OneShare { name: Some(name), ..OneShare::default() };
        let shared = self.handle.share(path, how, &Stop::new(), &mut |_| {}).unwrap();
        match shared.1 {
            Event::Shared { ticket, .. } => Ticket { link_key: Some(self.link_key), ..*ticket },
            _ => panic!("nothing was shared"),
        }
    }

    /// Publishes a statement with its index, under the next number of its log; returns it as it was signed.
    fn say(&mut self, index: &Ticket) -> Vec<u8> {
        self.claim(self.link_key, index)
    }

    /// The same, of a folder in this state.
    fn say_state(&mut self, index: &Ticket, state: Hash) -> Vec<u8> {
        self.announce(self.link_key, index, state)
    }

    /// The same, with the claim that links to it have this key.
    fn claim(&mut self, link_key: [u8; 32], index: &Ticket) -> Vec<u8> {
        let state = xylem_hash::hash(&(self.number + 1).to_be_bytes());
        self.announce(link_key, index, state)
    }

    fn announce(&mut self, link_key: [u8; 32], index: &Ticket, state: Hash) -> Vec<u8> {
        self.number += 1;
        let said = MemberStatement {
            member: self.key.public(),
            link_key,
            number: self.number,
            name: "mallory".to_owned(),
            state,
            index: index.clone(),
            roles: None,
            shown: Vec::new(),
            past: Past::none(),
        };
        let said = said.sign(&self.group, &self.key, &mut self.log).unwrap();
        self.handle.send_statement(said.clone(), None);
        said
    }

    /// Publishes these bytes as its index, with a statement of the state that it has, if it is an index at all.
    fn publish(&mut self, bytes: &[u8]) {
        let path = self.dir.join(format!("index-{}", self.number));
        fs::write(&path, bytes).unwrap();
        let ticket = self.share(&path, &format!("index-{}", self.number));
        let state = Index::decode(bytes).map(|(index, _)| index.state());
        self.say_state(&ticket, state.unwrap_or_else(|_| xylem_hash::hash(bytes)));
    }

    /// A ticket of a folder of its own, as stands at the front of an index.
    fn content(&self) -> Vec<u8> {
        let folder = self.dir.join("folder");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("evil"), "evil").unwrap();
        self.share(&folder, "folder").to_bytes()
    }

    /// An index of links that all have this target and this time of change. The paths are not checked before they stand
    /// in it.
    fn links(&self, paths: &[&[u8]], target: &Path, time: u64) -> Vec<u8> {
        let with_length =
            |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
        let (me, time) = (self.key.public().key_id().0, time.to_be_bytes());
        let mut index = [&b"xylem sync index 3\n"[..], &with_length(&self.content())].concat();
        index.extend([0, 0]);
        let mut paths = paths.to_vec();
        paths.sort_unstable();
        for path in paths {
            index.extend(with_length(path));
            index.push(3);
            index.extend(with_length(target.to_str().unwrap().as_bytes()));
            // The change, its time, and its version vector, which contains that change alone.
            index.extend([&me[..], &time, &time, &[0, 1], &me, &time].concat());
        }
        index.extend([0, 0]);
        let hash = xylem_hash::hash(&index);
        [&index[..], hash.as_bytes()].concat()
    }

    fn item(&self, kind: ItemKind, time: u64) -> IndexItem {
        let mut version = Vector::default();
        let me = self.key.public().key_id().0;
        let dot = version.record_change(me, time);
        IndexItem {
            kind,
            version,
            content: dot,
            edited_ms: time,
            described: dot,
            attributes: None,
            unapplied: false,
            absent: false,
        }
    }
}

impl Drop for MaliciousMember {
    fn drop(&mut self) {
        self.stop.raise();
        let _ = self.serving.take().unwrap().join();
    }
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Alice and Bob, in step.
fn two(base: &Path) -> (Member, Member) {
    let (mut alice, mut bob) = (Member::new(base, "alice"), Member::new(base, "bob"));
    alice.start(None);
    bob.start(Some(&alice.ticket));
    alice.write("honest", "alice's");
    bob.has("honest", "alice's");
    (alice, bob)
}

/// Asserts that changes of Alice and Bob still travel both ways.
fn are_in_step(alice: &Member, bob: &Member) {
    alice.write("after", "alice's");
    bob.has("after", "alice's");
    bob.write("after", "bob's");
    alice.has("after", "bob's");
}

fn is_found_out(member: &Member) {
    until(&format!("{} finds it out", member.name), || !member.told("sync_rewrote").is_empty());
    let told = &member.told("sync_rewrote")[0];
    assert_eq!(told["name"], "mallory");
    let kept = fs::read(told["evidence"].as_str().unwrap()).unwrap();
    assert!(kept.len() > 600, "both statements are kept");
    let mut command = member.command();
    command.arg("--history");
    let output = finish(command);
    assert_exit(&output, 1);
    let text = String::from_utf8_lossy(&output.stdout);
    let two = text.lines().filter(|line| line.contains("\"mallory\"") && line.contains("false"));
    assert_eq!(two.count(), 2, "{text}");
}

/// Two machines with one key, one of which sends to Alice and one to Bob.
#[test]
fn two_different_statements_are_detected_when_members_meet() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, bob) = two(dir.path());
    let mut to_alice = MaliciousMember::new(dir.path(), "m1", 66, &alice.ticket);
    let mut to_bob = MaliciousMember::new(dir.path(), "m2", 66, &bob.ticket);
    let time = now();
    let one = to_alice.links(&[b"for-alice"], Path::new("x"), time);
    let other = to_bob.links(&[b"for-bob"], Path::new("x"), time);
    to_alice.publish(&one);
    to_bob.publish(&other);
    is_found_out(&alice);
    is_found_out(&bob);
    are_in_step(&alice, &bob);
    // No newer statement of it is accepted, not after a restart either.
    alice.stop();
    alice.start(None);
    let more = to_alice.links(&[b"one-more"], Path::new("x"), time);
    to_alice.publish(&more);
    are_in_step(&alice, &bob);
    assert!(!alice.at("one-more").is_symlink() && !bob.at("one-more").is_symlink());
    assert!(alice.told("sync_rewrote").is_empty(), "it is said once");
}

/// The log does not continue the earlier one. For the newest versions this is seen at once, for older ones by a proof
/// that does not hold.
#[test]
fn a_rewritten_history_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    for (far, name) in [(1, "near"), (200, "far")] {
        let base = dir.path().join(name);
        let (alice, bob) = two(&base);
        let mut mallory = MaliciousMember::new(&base, "m", 66, &alice.ticket);
        let index = mallory.links(&[b"first"], Path::new("x"), now());
        mallory.publish(&index);
        until("alice has it", || alice.at("first").is_symlink());
        fs::remove_file(mallory.dir.join("history")).unwrap();
        fs::remove_file(mallory.dir.join("history.end")).unwrap();
        mallory.log = MemberLog::open(&mallory.dir.join("history")).unwrap();
        for number in 0..far {
            mallory.log.append(LogEntry { number, hash: xylem_hash::hash(b"other") }).unwrap();
        }
        mallory.number += far;
        let index = mallory.links(&[b"second"], Path::new("x"), now());
        mallory.publish(&index);
        is_found_out(&alice);
        is_found_out(&bob);
        are_in_step(&alice, &bob);
        assert!(!alice.at("second").is_symlink() && !bob.at("second").is_symlink());
    }
}

/// A bad block in the log of a member's own statements would look to others like a rewritten history. The member
/// reports it and ends, and sends nothing.
#[test]
fn a_member_with_a_damaged_log_ends_before_it_sends() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, mut bob) = two(dir.path());
    for n in 0..3 {
        bob.write("again", &format!("{n}"));
        alice.has("again", &format!("{n}"));
    }
    bob.stop();
    let group = fs::read_dir(dir.path().join("bob-store/sync")).unwrap().next().unwrap().unwrap();
    let log = group.path().join("history");
    let good = fs::read(&log).unwrap();
    let mut bad = good.clone();
    bad[20] ^= 1;
    fs::write(&log, &bad).unwrap();
    let mut command = bob.command();
    command.args(["--as", "bob", "--listen", "127.0.0.1:0"]);
    let refused = finish(command);
    assert_exit(&refused, 4);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the log of this member's statements is damaged"), "{said}");
    fs::write(&log, &good).unwrap();
    bob.start(None);
    are_in_step(&alice, &bob);
    assert!(alice.told("sync_rewrote").is_empty());
}

/// A member that was away during many statements of another asks for a proof that they continue what it knew.
#[test]
fn a_long_history_is_proven_and_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut carol = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let index = carol.links(&[b"first"], Path::new("x"), now());
    carol.publish(&index);
    until("alice has it", || alice.at("first").is_symlink());
    for _ in 0..1000 {
        carol.number += 1;
        let entry = LogEntry { number: carol.number, hash: xylem_hash::hash(b"unheard") };
        carol.log.append(entry).unwrap();
    }
    let index = carol.links(&[b"first", b"second"], Path::new("x"), now());
    carol.publish(&index);
    until("all have it", || alice.at("second").is_symlink() && bob.at("second").is_symlink());
    assert!(alice.told("sync_rewrote").is_empty() && bob.told("sync_rewrote").is_empty());
    // It is written to disk a few seconds later.
    until("alice has kept it", || {
        let mut command = alice.command();
        command.arg("--history");
        let output = finish(command);
        assert_exit(&output, 0);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.contains("\"length\":1002") && !text.contains("\"whole\":false")
    });
}

#[test]
fn a_flood_of_versions_delays_no_member() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let index = mallory.links(&[b"first"], Path::new("x"), now());
    mallory.publish(&index);
    until("alice has it", || alice.at("first").is_symlink());
    let pid = alice.running.as_ref().unwrap().id();
    let before = common::peak_memory(pid);
    // Each statement names an index that does not exist.
    let nowhere = Ticket {
        root: xylem_hash::hash(b"nowhere"),
        ..mallory.share(&mallory.dir.join("history"), "x")
    };
    let said: Vec<Vec<u8>> = (0..3000).map(|_| mallory.say(&nowhere)).collect();
    are_in_step(&alice, &bob);
    assert_eq!(said.len(), 3000);
    let grown = common::peak_memory(pid) - before;
    assert!(grown < 64 << 20, "{grown} bytes");
}

/// A holder of the ticket can prove of any key that it belongs to the group, but can't sign with it.
#[test]
fn a_statement_in_another_member_s_name_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let index = mallory.links(&[b"first"], Path::new("x"), now());
    mallory.publish(&index);
    until("alice has it", || alice.at("first").is_symlink());
    let mut bobs = None;
    until("mallory hears of bob", || {
        let said = mallory.news.try_iter().filter_map(|news| match news {
            MeshNews::Said(said, _) if said.name == "bob" => Some(said),
            _ => None,
        });
        bobs = said.last().or(bobs.take());
        bobs.is_some()
    });
    let bobs = MemberStatement { number: u64::MAX, ..*bobs.unwrap() };
    let said = bobs.sign(&mallory.group, &mallory.key, &mut mallory.log).unwrap();
    mallory.handle.send_statement(said, None);
    let is_away = |told: &serde_json::Value| told["name"] == "mallory" && told["up"] == false;
    until("mallory is heard no more", || alice.told("sync_member").iter().any(is_away));
    are_in_step(&alice, &bob);
    assert!(alice.told("sync_rewrote").is_empty() && bob.told("sync_rewrote").is_empty());
}

/// Only a member itself can state the key of links to it. A stopped process is silent, like one with its network cut,
/// and later goes on with its old state.
#[test]
fn a_false_link_key_separates_no_members() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let index = mallory.links(&[b"first"], Path::new("x"), now());
    mallory.publish(&index);
    until("both have it", || alice.at("first").is_symlink() && bob.at("first").is_symlink());
    let key_of = |who: &str| {
        let secret = xylem_keys::load_or_create(&dir.path().join(format!("{who}-store/keys/link")));
        StaticKey::from_bytes(secret.unwrap()).public().0
    };
    let here = mallory.share(&mallory.dir.join("history"), "x");
    for whose in [key_of("bob"), key_of("alice"), key_of("bob"), key_of("alice")] {
        mallory.claim(whose, &here);
        are_in_step(&alice, &bob);
    }
    let index = mallory.links(&[b"second"], Path::new("x"), now());
    mallory.publish(&index);
    until("both have it", || alice.at("second").is_symlink() && bob.at("second").is_symlink());
    drop(mallory);
    let pid = bob.running.as_ref().unwrap().id().cast_signed();
    let signal = |signal| {
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal)
            .unwrap();
    };
    let lost = |member: &Member, whom: &str| {
        let told = member.told("sync_member");
        told.iter().rfind(|told| told["name"] == whom).unwrap()["up"] == false
    };
    signal(rustix::process::Signal::STOP);
    // A silent link ends after 30 s.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !lost(&alice, "bob") {
        assert!(std::time::Instant::now() < deadline, "alice does not miss bob");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    signal(rustix::process::Signal::CONT);
    are_in_step(&alice, &bob);
}

#[test]
fn names_that_escape_the_folder_write_nothing_there() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let time = now();
    let absolute = format!("{}/x", outside.display());
    let long = [b'x'; 300];
    // An index with one of these paths is rejected whole.
    for path in
        [&b"../x"[..], b"a/../../x", absolute.as_bytes(), b"a//b", b"./x", b"a\0b", &long, b""]
    {
        let index = mallory.links(&[b"beside", path], &outside, time);
        mallory.publish(&index);
    }
    // Each bad one of these paths is left out; the last shows that all were checked.
    let own = fs::read_link(alice.at(".xylem-sync/x"));
    assert!(own.is_err());
    // On some file systems names that differ in the case of letters are the same.
    let paths: [&[u8]; 8] = [
        b".XYLEM-sync/y",
        b".Xylem-Sync",
        b".xylem-sync",
        b".xylem-sync/x",
        b"link",
        b"link/x",
        b"\xff\xfe",
        b"~last",
    ];
    let index = mallory.links(&paths, &outside, time);
    mallory.publish(&index);
    until("the last is there", || alice.at("~last").is_symlink() && bob.at("~last").is_symlink());
    are_in_step(&alice, &bob);
    assert!(!alice.at("beside").is_symlink(), "of an index that is none nothing is taken");
    for member in [&alice, &bob] {
        assert!(member.at(".xylem-sync").symlink_metadata().unwrap().is_dir());
        assert!(!member.at(".xylem-sync/x").is_symlink());
        assert!(!member.at(".XYLEM-sync").exists() && !member.at(".Xylem-Sync").is_symlink());
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing was written through the link");
    let beside: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!beside.iter().any(|name| name == "x"), "{beside:?}");
}

#[test]
fn rules_of_a_member_expose_no_internal_files() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    // Whatever alice's own rules contain, and whatever others announce about them.
    alice.write(".xylemignore", "!/.xylem-sync\n!.xylem-sync/**\n!.xylemignore\n");
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let paths: [&[u8]; 5] = [
        b".XYLEMIGNORE",
        ".xylem-\u{17f}ync/x".as_bytes(),
        b".xylem-sync/x",
        b".xylemignore",
        b"~last",
    ];
    let mut sorted = paths;
    sorted.sort_unstable();
    let index = mallory.links(&sorted, Path::new("x"), now());
    mallory.publish(&index);
    until("the last is there", || alice.at("~last").is_symlink());
    for path in paths.iter().filter(|path| **path != b"~last") {
        assert!(!alice.at(str::from_utf8(path).unwrap()).is_symlink());
    }
    assert!(fs::read_to_string(alice.at(".xylemignore")).unwrap().starts_with("!/"));
    // A file that is not a list of rules leaves the earlier rules in force.
    alice.write(".xylemignore", &"x".repeat(40_000));
    are_in_step(&alice, &bob);
}

#[test]
fn an_index_with_a_false_length_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let about = mallory.content();
    let head =
        [b"xylem sync index 3\n", &u16::try_from(about.len()).unwrap().to_be_bytes()[..], &about]
            .concat();
    // With the right hash at its end.
    let one = |rest: &[u8]| {
        let bytes = [&head[..], rest, &[0, 0]].concat();
        [&bytes[..], xylem_hash::hash(&bytes).as_bytes()].concat()
    };
    let a_path_of = |vectors: u16| {
        let entry = [&[0, 1, b'a', 0][..], &[0; 24], &vectors.to_be_bytes()].concat();
        one(&[&[0, 0][..], &entry].concat())
    };
    for bytes in [
        one(&[255, 255]),
        one(&[0, 0, 255, 255, b'a']),
        a_path_of(u16::MAX),
        a_path_of(1),
        [&head[..], &[0, 0, 0, 0], &[7; 32]].concat(),
        b"xylem sync index 3\n\xff\xff".to_vec(),
        vec![0; 100_000],
        Vec::new(),
    ] {
        mallory.publish(&bytes);
    }
    are_in_step(&alice, &bob);
    let index = mallory.links(&[b"good"], Path::new("x"), now());
    mallory.publish(&index);
    until("a good one is taken", || alice.at("good").is_symlink());
}

/// Members remove and replace files by an index, so the published folder has to match it exactly.
#[test]
fn an_index_that_differs_from_its_folder_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let secret = dir.path().join("secret");
    fs::write(&secret, "evil").unwrap();
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let about = mallory.content();
    let index = |mallory: &MaliciousMember, about: &[u8], holds: &[u8]| {
        let root = xylem_hash::hash(holds);
        let kind = ItemKind::File { root, size: 4, mode: 0o644, mtime: (1, 0) };
        let mut index = Index::default();
        index.items.insert(b"evil".to_vec(), mallory.item(kind, now()));
        index.encode(about).unwrap()
    };
    // The lengths are equal, so that only the hash differs.
    let lying = index(&mallory, &about, b"good");
    mallory.publish(&lying);
    // An accepted index is applied in less than a second.
    let takes_nothing = || {
        are_in_step(&alice, &bob);
        std::thread::sleep(std::time::Duration::from_secs(3));
        for member in [&alice, &bob] {
            assert!(member.at("evil").symlink_metadata().is_err());
        }
    };
    takes_nothing();
    // A link in place of a file of the index would make members copy and share its target.
    let folder = dir.path().join("m/linked");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("evil")).unwrap();
    let linked = mallory.share(&folder, "linked").to_bytes();
    let lying = index(&mallory, &linked, b"evil");
    mallory.publish(&lying);
    takes_nothing();
    // It is not the index of the state that was announced, and is in the history.
    let true_one = index(&mallory, &about, b"evil");
    let path = file(&mallory.dir, "of-another-state", &true_one);
    let ticket = mallory.share(&path, "of-another-state");
    mallory.say(&ticket);
    takes_nothing();
    mallory.publish(&true_one);
    alice.has("evil", "evil");
    bob.has("evil", "evil");
}

/// Processor time that a process has had, in ms.
fn processor_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().unwrap()).sum();
    ticks * 1000 / rustix::param::clock_ticks_per_second()
}

/// An index longer than the limit is not fetched; one with endless entries is read once, on disk.
#[test]
fn an_endless_index_takes_no_memory_and_delays_no_member() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let index = mallory.links(&[b"first"], Path::new("x"), now());
    mallory.publish(&index);
    until("alice has it", || alice.at("first").is_symlink());
    let pids = [&alice, &bob].map(|member| member.running.as_ref().unwrap().id());
    let before = pids.map(common::peak_memory);
    let about = mallory.content();
    let mut endless =
        [b"xylem sync index 3\n", &u16::try_from(about.len()).unwrap().to_be_bytes()[..], &about]
            .concat();
    endless.extend([0, 0]);
    for n in 0..3_000_000_u32 {
        endless.extend([0, 9, b'p']);
        endless.extend(format!("{n:08}").bytes());
        // An entry of a tombstone without an author and with an empty version vector.
        endless.extend([0; 27]);
    }
    let endless_path = mallory.dir.join("endless");
    fs::write(&endless_path, &endless).unwrap();
    drop(endless);
    let too_large = mallory.dir.join("too-large");
    let sparse = fs::File::create(&too_large).unwrap();
    sparse.set_len(xylem_folder::MAX_INDEX + 1).unwrap();
    let says = |told: &serde_json::Value, what: &str| {
        told["what"].as_str().is_some_and(|said| said.contains("mallory") && said.contains(what))
    };
    let lies = [(&endless_path, "its index is not used"), (&too_large, "it is too large")];
    for (n, (path, why)) in lies.into_iter().enumerate() {
        let ticket = mallory.share(path, path.file_name().unwrap().to_str().unwrap());
        mallory.say(&ticket);
        are_in_step(&alice, &bob);
        until(why, || alice.told("trouble").iter().any(|told| says(told, why)));
        // The next good index is accepted.
        let good = format!("good-{n}");
        let index = mallory.links(&[good.as_bytes()], Path::new("x"), now());
        mallory.publish(&index);
        until("alice has it", || alice.at(&good).is_symlink());
    }
    let grown = [0, 1].map(|n| common::peak_memory(pids[n]) - before[n]);
    // What any fetch holds for a moment depends on the disk and on what else runs: 21 to 29 MB, of an index of 114.
    assert!(grown.iter().all(|grown| *grown < 40 << 20), "{grown:?} bytes");
}

/// New statements, as fast as they can be made, for ten seconds.
#[test]
fn a_flood_of_statements_costs_less_than_a_tenth_of_a_core() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let index = mallory.links(&[b"first"], Path::new("x"), now());
    mallory.publish(&index);
    until("alice has it", || alice.at("first").is_symlink());
    let nowhere = Ticket {
        root: xylem_hash::hash(b"nowhere"),
        ..mallory.share(&mallory.dir.join("history"), "x")
    };
    let seconds = 10;
    let pids = [&alice, &bob].map(|member| member.running.as_ref().unwrap().id());
    let quiet = pids.map(processor_ms);
    std::thread::sleep(std::time::Duration::from_secs(seconds));
    let before = pids.map(processor_ms);
    let until_then = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut said = 0;
    while std::time::Instant::now() < until_then {
        mallory.say(&nowhere);
        said += 1;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let after = pids.map(processor_ms);
    let quiet = [0, 1].map(|n| before[n] - quiet[n]);
    let flooded = [0, 1].map(|n| after[n] - before[n]);
    eprintln!(
        "{said} statements: {flooded:?} ms of processor time in {seconds} s; {quiet:?} without"
    );
    assert!(
        flooded.iter().all(|ms| *ms < seconds * 1000 / 10),
        "{flooded:?} ms, {quiet:?} without"
    );
    are_in_step(&alice, &bob);
}

/// Times decide which version wins a conflict.
#[test]
fn a_time_of_the_far_future_wins_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let year_9999 = 253_402_300_799_000;
    for time in [year_9999, u64::MAX, now() + 25 * 60 * 60 * 1000] {
        let index = mallory.links(&[b"honest"], Path::new("x"), time);
        mallory.publish(&index);
    }
    until("it is refused", || {
        let told = alice.told("trouble");
        told.iter().any(|told| told["what"].as_str().unwrap().contains("more than a day ahead"))
    });
    are_in_step(&alice, &bob);
    assert_eq!(fs::read_to_string(alice.at("honest")).unwrap(), "alice's");
    assert!(!bob.all().keys().any(|path| path.contains("conflict")));
    // A clock that is ahead by less counts as honest.
    let index = mallory.links(&[b"ahead"], Path::new("x"), now() + 60 * 60 * 1000);
    mallory.publish(&index);
    until("it is taken", || alice.at("ahead").is_symlink());
}

/// The ticket that the removed member still has admits no new member.
#[test]
fn a_removed_member_does_not_return_under_another_key() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let mut mallory = MaliciousMember::new(dir.path(), "m", 66, &alice.ticket);
    let index = mallory.links(&[b"first"], Path::new("x"), now());
    mallory.publish(&index);
    until("both have it", || alice.at("first").is_symlink() && bob.at("first").is_symlink());
    let mut command = alice.command();
    command.args(["--remove", "mallory"]);
    assert_exit(&finish(command), 0);
    until("mallory is away", || {
        let told = alice.told("sync_member");
        told.iter().any(|told| told["name"] == "mallory" && told["up"] == false)
    });
    for ticket in [&alice.ticket, &bob.ticket] {
        let name = if *ticket == alice.ticket { "again-1" } else { "again-2" };
        let mut again = MaliciousMember::new(dir.path(), name, name.as_bytes()[6], ticket);
        let index = again.links(&[b"second"], Path::new("x"), now());
        again.publish(&index);
        are_in_step(&alice, &bob);
        assert!(!again.news.try_iter().any(|news| matches!(news, MeshNews::Said(..))));
    }
    // Bob refuses the second key, and does not give it Alice's address.
    until("alice hears of the first", || alice.told("sync_applies").len() == 1);
    assert!(!alice.at("second").is_symlink() && !bob.at("second").is_symlink());
    assert!(bob.told("sync_applies").is_empty(), "it is the founder's to say");
}
