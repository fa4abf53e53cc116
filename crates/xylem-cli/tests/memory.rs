//! Secrets of a session that a thief of memory could find. All writable memory of the real program is searched at every
//! byte for secrets from which keys of the session follow, as an attacker with a recording of the session would do. A
//! relay in between sees the connection ids, which distinguish such a secret from other bytes (docs/spec/link.md,
//! "Derivations").
#![cfg(target_os = "linux")]

mod common;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Share, text, xylem};
use xylem_hash::Hasher;
use xylem_hash::hazmat::{ContextKey, HasherExt, hash_derive_key_context};

type Id = [u8; 8];
type Secret = [u8; 32];

/// Indices of both directions of one client: to the share, and back.
const TO: usize = 0;
const BACK: usize = 1;

/// Forwards datagrams, and keeps the ids that they begin with.
struct Relay {
    address: SocketAddr,
    seen: Arc<Mutex<[Vec<Id>; 2]>>,
    stop: Arc<AtomicBool>,
}

impl Relay {
    fn start(share: &str) -> Self {
        let bind = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            socket
        };
        let (front, back) = (bind(), bind());
        back.connect(share).unwrap();
        let address = front.local_addr().unwrap();
        let (seen, stop) = (Arc::<Mutex<[Vec<Id>; 2]>>::default(), Arc::<AtomicBool>::default());
        let client = Arc::new(Mutex::new(None));
        for way in [TO, BACK] {
            let (front, back) = (front.try_clone().unwrap(), back.try_clone().unwrap());
            let (client, seen, stop) = (client.clone(), seen.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while !stop.load(Ordering::Relaxed) {
                    let from = if way == TO { &front } else { &back };
                    let Ok((len, sender)) = from.recv_from(&mut buffer) else { continue };
                    let datagram = &buffer[..len];
                    if let Some(id) = datagram.first_chunk() {
                        let seen = &mut seen.lock().unwrap()[way];
                        if !seen.contains(id) {
                            seen.push(*id);
                        }
                    }
                    // A lost datagram does not matter: the link repairs it.
                    if way == TO {
                        *client.lock().unwrap() = Some(sender);
                        let _ = back.send(datagram);
                    } else if let Some(client) = *client.lock().unwrap() {
                        let _ = front.send_to(datagram, client);
                    }
                }
            });
        }
        Self { address, seen, stop }
    }

    fn seen(&self) -> [Vec<Id>; 2] {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A running fetch that takes longer than any test.
struct Get(Child);

impl Get {
    fn start(store: &Path, ticket: &str, relay: &Relay, into: &Path) -> Self {
        let mut command = xylem(store);
        command.args(["get", ticket, "--from", &relay.address.to_string(), "--no-serve"]);
        command.args(["--limit", "40K", "-o", text(into)]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the program starts"))
    }

    /// Interrupts it as Ctrl-C does, so that it closes the link.
    fn interrupt(&mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert_eq!(self.0.wait().unwrap().code(), Some(130));
    }
}

impl Drop for Get {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The values that a search looks for.
#[derive(Default)]
struct Wanted {
    /// Connection ids: secrets of these, or of the epoch before one.
    ids: HashSet<Id>,
    /// These exact bytes.
    keys: Vec<Secret>,
}

/// Contexts of derivations.
struct Derive {
    id: ContextKey,
    next: ContextKey,
    key: ContextKey,
}

impl Derive {
    fn new() -> Self {
        let context = |label| hash_derive_key_context(&format!("xylem-link v5 {label}"));
        Self { id: context("connection id"), next: context("next epoch"), key: context("aead key") }
    }

    fn of(context: &ContextKey, secret: &Secret) -> Secret {
        *Hasher::new_from_context_key(context).update(secret).finalize().as_bytes()
    }

    /// The id of this secret's epoch.
    fn id(&self, secret: &Secret) -> Id {
        *Self::of(&self.id, secret).first_chunk().unwrap()
    }
}

/// Every wanted secret in the memory of a process, once for each place; `None` where this machine does not let a parent
/// read a child's memory.
fn search(pid: u32, wanted: &Wanted) -> Option<Vec<Secret>> {
    let memory = match File::open(format!("/proc/{pid}/mem")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
        opened => opened.expect("a running process has memory"),
    };
    let (derive, mut found, mut regions) = (Derive::new(), Vec::new(), 0);
    for line in fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().lines() {
        let mut fields = line.split_whitespace();
        let (range, mode) = (fields.next().unwrap(), fields.next().unwrap());
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        if !mode.starts_with("rw") {
            continue;
        }
        // Pieces overlap, so that no secret lies across two.
        const PIECE: u64 = 1 << 20;
        for start in (from..to).step_by(PIECE as usize) {
            let mut bytes = vec![0; (PIECE + 31).min(to - start) as usize];
            // A region that has been unmapped meanwhile is skipped.
            if memory.read_exact_at(&mut bytes, start).is_ok() {
                search_bytes(&bytes, &derive, wanted, &mut found);
                regions += 1;
            }
        }
    }
    assert!(regions > 0, "a process has memory that it can write to");
    Some(found)
}

fn search_bytes(bytes: &[u8], derive: &Derive, wanted: &Wanted, found: &mut Vec<Secret>) {
    // How often each value is in the 32 bytes at hand, and how many different values there are. Fewer than 22 different
    // ones occur in 32 random bytes once in a hundred million times, but in most memory always.
    let (mut count, mut different) = ([0_u8; 256], 0);
    for (at, byte) in bytes.iter().enumerate() {
        count[usize::from(*byte)] += 1;
        different += u32::from(count[usize::from(*byte)] == 1);
        if let Some(gone) = at.checked_sub(32) {
            let gone = usize::from(bytes[gone]);
            count[gone] -= 1;
            different -= u32::from(count[gone] == 0);
        }
        if at < 31 || different < 22 {
            continue;
        }
        let secret: &Secret = bytes[at - 31..].first_chunk().unwrap();
        let is_wanted = wanted.keys.contains(secret)
            || !wanted.ids.is_empty()
                && (wanted.ids.contains(&derive.id(secret))
                    || wanted.ids.contains(&derive.id(&Derive::of(&derive.next, secret))));
        if is_wanted {
            found.push(*secret);
        }
    }
}

/// A share and a throttled fetch from it, with the relay between them.
struct Session {
    _dir: tempfile::TempDir,
    share: Share,
    relay: Relay,
    get: Get,
}

impl Session {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name| dir.path().join(name);
        // Text, so that fetched content looks like no secret.
        fs::write(at("text"), "what is sent is no secret\n".repeat(600_000)).unwrap();
        let share = Share::start(&at("text"), &at("store-1"));
        let relay = Relay::start(&share.link);
        let get = Get::start(&at("store-2"), &share.ticket, &relay, &at("out"));
        Self { _dir: dir, share, relay, get }
    }

    /// The current secrets of both directions, which both sides have. Finding them shows that the search works. `None`
    /// where memory cannot be read. `before`: ids to ignore.
    fn secrets(&self, before: &HashSet<Id>) -> Option<HashSet<Secret>> {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let seen = self.relay.seen();
            let ids: HashSet<Id> =
                seen.concat().into_iter().filter(|id| !before.contains(id)).collect();
            let wanted = Wanted { ids, keys: Vec::new() };
            let [ours, theirs] =
                [self.share.pid(), self.get.0.id()].map(|pid| search(pid, &wanted));
            let [ours, theirs] = [ours?, theirs?].map(HashSet::<Secret>::from_iter);
            let derive = Derive::new();
            let both: HashSet<Secret> = ours.intersection(&theirs).copied().collect();
            let has = |way: usize| both.iter().any(|secret| seen[way].contains(&derive.id(secret)));
            if has(TO) && has(BACK) {
                return Some(both);
            }
            assert!(
                Instant::now() < deadline,
                "both sides have the secrets of a session that is going on: {} and {} were found",
                ours.len(),
                theirs.len()
            );
        }
    }
}

fn skip() {
    common::skipped("no right to read the memory of a child");
}

/// All values that open datagrams of these epochs: the secrets, and the keys of their AEADs.
fn all_of(secrets: &HashSet<Secret>) -> Wanted {
    let derive = Derive::new();
    let keys = secrets.iter().map(|secret| Derive::of(&derive.key, secret)).collect();
    Wanted { ids: secrets.iter().map(|secret| derive.id(secret)).collect(), keys }
}

/// Waits until a process has none of the wanted values any more.
fn until_gone(whose: &str, pid: u32, wanted: &Wanted) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = search(pid, wanted).expect("it could be read before");
        if found.is_empty() {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{whose}: {} copies of secrets that nobody needs any more, {} of them keys of an AEAD",
            found.len(),
            found.iter().filter(|secret| wanted.keys.contains(secret)).count()
        );
    }
}

#[test]
fn no_secret_of_an_ended_session_is_left_in_memory() {
    let mut session = Session::start();
    let Some(secrets) = session.secrets(&HashSet::new()) else { return skip() };
    let mut wanted = all_of(&secrets);
    let keys = search(session.share.pid(), &wanted).unwrap();
    assert!(
        wanted.keys.iter().all(|key| keys.contains(key)),
        "the search finds an AEAD's keys too"
    );
    session.get.interrupt();
    wanted.ids.extend(session.relay.seen().concat());
    until_gone("share", session.share.pid(), &wanted);
}

#[test]
#[ignore = "waits for a round of Diffie-Hellman, two minutes into a session; .ci/run runs it"]
fn a_new_key_exchange_leaves_no_old_secret_in_memory() {
    let session = Session::start();
    let Some(secrets) = session.secrets(&HashSet::new()) else { return skip() };
    let wanted = all_of(&secrets);
    let before: HashSet<Id> = session.relay.seen().concat().into_iter().collect();
    let new = |way: usize| session.relay.seen()[way].iter().any(|id| !before.contains(id));
    let deadline = Instant::now() + Duration::from_secs(600);
    while !(new(TO) && new(BACK)) {
        assert!(Instant::now() < deadline, "no round of Diffie-Hellman within ten minutes");
        std::thread::sleep(Duration::from_millis(100));
    }
    until_gone("share", session.share.pid(), &wanted);
    until_gone("get", session.get.0.id(), &wanted);
    assert!(
        session.secrets(&wanted.ids).is_some(),
        "and those of the epochs that follow are there"
    );
}
