//! A disk that sleeps: under strace each call on some files takes very long, as that of a disk that has to spin up, and the
//! calls that must not wait fail, as they do for what the system does not have in memory. Meanwhile the same process
//! serves another publication, and afterwards the one on the disk.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::fetching::Get;
use crate::common::{Share, assert_exit, file, finish, get, noise, skipped, text, until, xylem};

/// How long a call takes, in microseconds: longer than all that a test waits for.
const LONG: &str = "delay_enter=200000000";

/// Files on the sleeping disk; wakes when dropped.
struct Sleeping {
    strace: Child,
    log: PathBuf,
}

impl Sleeping {
    /// Has the disk with these files sleep for a process: these calls take long, and those fail with `EAGAIN`. `None`,
    /// with a word, if the machine cannot do that.
    fn start(
        pid: u32,
        dir: &Path,
        files: &[PathBuf],
        waits: &str,
        fails: Option<&str>,
    ) -> Option<Self> {
        let log = dir.join("strace.log");
        let mut command = Command::new("strace");
        command.args(["-f", "-q", "-o", text(&log), "-p", &pid.to_string()]);
        for file in files {
            command.args(["-P", text(file)]);
        }
        let calls = [Some(waits), fails].into_iter().flatten().collect::<Vec<_>>().join(",");
        command.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={waits}:{LONG}")]);
        if let Some(fails) = fails {
            command.args(["-e", &format!("inject={fails}:error=EAGAIN")]);
        }
        let strace = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(strace) = strace else {
            skipped("no strace, which has a disk sleep");
            return None;
        };
        let mut sleeping = Self { strace, log };
        let is_traced = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            if tasks.flatten().all(is_traced) {
                return Some(sleeping);
            }
            if sleeping.strace.try_wait().unwrap().is_some() || Instant::now() > deadline {
                skipped("strace may not trace other processes here, so that no disk sleeps");
                return None;
            }
        }
    }

    /// Waits until a call takes long.
    fn holds_a_call(&self, call: &str) {
        let begins = format!("{call}(");
        until("a read of the sleeping disk", || {
            fs::read_to_string(&self.log).unwrap_or_default().contains(&begins)
        });
    }

    fn wake(mut self) {
        let pid = self.strace.id().to_string();
        assert!(Command::new("kill").arg(&pid).status().unwrap().success());
        self.strace.wait().unwrap();
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// A share of `slept`, which lies on the disk, and of a small file `awake`.
struct World {
    dir: tempfile::TempDir,
    share: Share,
    awake: String,
    /// The getters' store; `None`: a new one for each.
    getter: Option<PathBuf>,
}

impl World {
    fn new(slept: impl FnOnce(&Path), more: &[&str]) -> Self {
        Self::within(tempfile::tempdir().unwrap(), slept, more)
    }

    /// As [`World::new`], where the directory has files already.
    fn within(dir: tempfile::TempDir, slept: impl FnOnce(&Path), more: &[&str]) -> Self {
        let at = fs::canonicalize(dir.path()).unwrap();
        let path = at.join("slept");
        slept(&path);
        let awake = file(&at, "awake", &noise(300_000, 5));
        let mut arguments = more.to_vec();
        arguments.push(text(&path));
        let share = Share::run(xylem(&at.join("store")), &awake, &arguments);
        until("both tickets", || !share.told("shared").is_empty());
        // In the order of the paths.
        let awake = share.told("shared")[0]["ticket"].as_str().unwrap().to_owned();
        Self { dir, share, awake, getter: None }
    }

    fn getter(&self, name: &str) -> PathBuf {
        self.getter.clone().unwrap_or_else(|| self.path(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    /// The file of the store that belongs to `slept`.
    fn object(&self, ending: &str) -> PathBuf {
        let root = self.share.shared["root"].as_str().unwrap();
        self.path("store/objects").join(format!("{root}.{ending}"))
    }

    /// Fetches the file beside while the disk sleeps, several times: a loop that waits may not have begun to.
    fn serves_awake(&self) {
        for n in 0..3 {
            let store = self.getter(&format!("beside-{n}"));
            let out = self.path(&format!("awake-{n}"));
            let output = get(&store, &[&self.awake, "--timeout", "30", "-o", text(&out)]);
            assert_exit(&output, 0);
            assert!(fs::read(&out).unwrap() == fs::read(self.path("awake")).unwrap());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Requests `slept` while the disk sleeps; has `awake` served beside it; wakes the disk and fetches `slept`.
    fn sleeps_and_wakes(self, files: &[PathBuf], waits: &str, fails: &str) {
        let Some(sleeping) =
            Sleeping::start(self.share.pid(), self.dir.path(), files, waits, Some(fails))
        else {
            return;
        };
        let slept = &self.share.ticket;
        let mut early = xylem(&self.getter("early"));
        early.args(["get", slept, "--timeout", "5", "-o"]).arg(self.path("early-out"));
        let early = early.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut early = early.unwrap();
        sleeping.holds_a_call(waits);
        self.serves_awake();
        assert!(!early.wait().unwrap().success(), "nothing of it can come");
        sleeping.wake();
        let out = self.path("late-out");
        let output = get(&self.getter("late"), &[slept, "--timeout", "60", "-o", text(&out)]);
        assert_exit(&output, 0);
    }
}

fn folder(path: &Path) {
    fs::create_dir(path).unwrap();
    for n in 0..100 {
        file(path, &format!("file-{n:03}"), &noise(20_000, n));
    }
}

#[test]
fn an_outboard_on_a_sleeping_disk_holds_up_no_other_share() {
    let world = World::new(|path| fs::write(path, noise(1_000_000, 1)).unwrap(), &[]);
    let outboard = world.object("outboard");
    world.sleeps_and_wakes(&[outboard], "pread64", "preadv2");
}

#[test]
fn a_listing_on_a_sleeping_disk_holds_up_no_other_share() {
    let world = World::new(folder, &[]);
    let listing = world.object("listing");
    world.sleeps_and_wakes(&[listing], "pread64", "preadv2");
}

#[test]
fn opening_on_a_sleeping_disk_holds_up_no_other_share() {
    let world = World::new(folder, &[]);
    let files: Vec<PathBuf> = (0..100).map(|n| world.path(&format!("slept/file-{n:03}"))).collect();
    world.sleeps_and_wakes(&files, "openat", "openat2");
}

#[test]
fn a_private_file_on_a_sleeping_disk_holds_up_no_other_share() {
    let dir = tempfile::tempdir().unwrap();
    let bob = dir.path().join("bob");
    let card = file(dir.path(), "bob.card", &card(&bob, &[]));
    let whom = ["--for", text(&card)];
    let slept = |path: &Path| fs::write(path, noise(1_000_000, 1)).unwrap();
    let world = World { getter: Some(bob), ..World::within(dir, slept, &whom) };
    let content = world.path("slept");
    world.sleeps_and_wakes(&[content], "pread64", "preadv2");
}

#[test]
fn a_growing_file_on_a_sleeping_disk_holds_up_no_other_share() {
    let follow = ["--follow", "--every", "0.1"];
    let world = World::new(|path| fs::write(path, noise(100_000, 1)).unwrap(), &follow);
    let slept = world.path("slept");
    let own = std::slice::from_ref(&slept);
    let Some(sleeping) =
        Sleeping::start(world.share.pid(), world.dir.path(), own, "pread64", Some("preadv2"))
    else {
        return;
    };
    let before = world.share.told("checkpoint").len();
    let mut append = fs::OpenOptions::new().append(true).open(&slept).unwrap();
    append.write_all(&noise(50_000, 2)).unwrap();
    sleeping.holds_a_call("pread64");
    world.serves_awake();
    assert_eq!(world.share.told("checkpoint").len(), before, "it was read");
    sleeping.wake();
    until("the next checkpoint", || {
        world.share.told("checkpoint").iter().any(|event| event["bytes"] == 150_000)
    });
}

/// A seed serves one publication. What one getter needs of the disk holds up no other getter.
#[test]
fn a_file_on_a_sleeping_disk_holds_up_no_other_getter_of_a_seed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| fs::canonicalize(dir.path()).unwrap().join(name);
    folder(&at("source"));
    let share = Share::start(&at("source"), &at("store"));
    let more = ["--seed", "--listen", "127.0.0.1"];
    let seed = Get::start(&at("seed-store"), &share.ticket, &at("copy"), &more);
    seed.event("done", |_| true);
    drop(share);
    let (ticket, slept) = (seed.own_ticket(), [at("copy/file-050")]);
    let pid = seed.child.id();
    let Some(sleeping) = Sleeping::start(pid, dir.path(), &slept, "pread64", Some("preadv2"))
    else {
        return;
    };
    let mut early = xylem(&at("early"));
    early.args(["get", &ticket, "--timeout", "5", "-o"]).arg(at("early-out"));
    let early = early.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut early = early.unwrap();
    sleeping.holds_a_call("pread64");
    for n in 0..3 {
        let (store, out) = (at(&format!("beside-{n}")), at(&format!("out-{n}")));
        let all_but = ["--exclude", "file-050", "--timeout", "30", "-o", text(&out)];
        assert_exit(&get(&store, &[&[&ticket[..]], &all_but[..]].concat()), 0);
        assert_eq!(fs::read_dir(&out).unwrap().count(), 99);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(!early.wait().unwrap().success(), "one file cannot come");
    sleeping.wake();
    let out = at("late-out");
    assert_exit(&get(&at("late"), &[&ticket, "--timeout", "60", "-o", text(&out)]), 0);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 100);
}

/// The card of a store, which gets mail from now on.
fn card(store: &Path, more: &[&str]) -> Vec<u8> {
    let mut command = xylem(store);
    command.args(["inbox", "card"]).args(more).stdin(Stdio::null());
    let output = finish(command);
    assert_exit(&output, 0);
    output.stdout
}

#[test]
fn mail_on_a_sleeping_disk_holds_up_no_share() {
    let dir = tempfile::tempdir().unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap().to_string();
    drop(socket);
    let store = fs::canonicalize(dir.path()).unwrap().join("store");
    let card = String::from_utf8(card(&store, &["--announce", &at])).unwrap();
    let slept = |path: &Path| fs::write(path, noise(10_000, 1)).unwrap();
    let world = World::within(dir, slept, &["--listen", &at]);
    let lock = [store.join("mail/lock")];
    let Some(sleeping) =
        Sleeping::start(world.share.pid(), world.dir.path(), &lock, "openat", None)
    else {
        return;
    };
    let note = file(world.dir.path(), "note", b"hello");
    let mut send = xylem(&world.path("sender"));
    send.args(["send", "--note", text(&note), card.trim(), "--timeout", "60"]);
    send.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut sending = send.spawn().unwrap();
    sleeping.holds_a_call("openat");
    world.serves_awake();
    assert!(world.share.told("mail").is_empty(), "it was stored");
    assert!(sending.try_wait().unwrap().is_none(), "it was acknowledged");
    sleeping.wake();
    assert!(sending.wait().unwrap().success());
    assert_eq!(world.share.told("mail").len(), 1);
}
