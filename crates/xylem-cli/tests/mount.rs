//! `xylem mount` with the real program: reads return the shared bytes, whichever peer lies, dies, is killed or fills a
//! disk.
//!
//! Needs Linux, /dev/fuse and the right to mount; a test without them prints a line and passes.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::fetching::Get;
use crate::common::{Share, assert_exit, file, finish, noise, skipped, stderr, text, until, xylem};

/// The error number EIO.
const INPUT_OUTPUT_ERROR: i32 = 5;

/// Whether this process may mount.
fn can_mount() -> bool {
    let may = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    let how = rustix::process::geteuid().is_root()
        || Command::new("fusermount3").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !(may && how) {
        skipped("no /dev/fuse, or no right to mount");
    }
    may && how
}

/// A running `xylem mount`; killed, and the mount taken away, when dropped.
struct Mount {
    at: PathBuf,
    run: Get,
}

fn command(store: &Path, ticket: &str, at: &Path, more: &[&str]) -> Command {
    let mut command = xylem(store);
    command.args(["--json", "mount", ticket, text(at)]).args(more);
    command
}

impl Mount {
    fn start(store: &Path, ticket: &str, at: &Path, more: &[&str]) -> Self {
        fs::create_dir_all(at).unwrap_or_default();
        let run = Get::of(command(store, ticket, at, more));
        let mount = Self { at: at.to_path_buf(), run };
        mount.run.event("mounted", |_| true);
        mount
    }

    fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    fn warned(&self, of: &str) {
        self.run.event("trouble", |e| e["what"].as_str().is_some_and(|what| what.contains(of)));
    }

    /// Ends it by a signal; returns its exit code.
    fn signal(mut self, signal: &str) -> Option<i32> {
        let pid = self.run.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.run.wait()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.run.child.kill();
        let _ = self.run.child.wait();
        let mut leave = Command::new("fusermount3");
        let _ = leave.args(["-u", "-z", "-q"]).arg(&self.at).stderr(Stdio::null()).status();
    }
}

/// A folder, and a file in it that is shared.
struct World {
    dir: tempfile::TempDir,
    source: PathBuf,
    content: Vec<u8>,
}

impl World {
    fn new(size: usize, seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let content = noise(size, seed);
        let source = file(dir.path(), "source", &content);
        Self { dir, source, content }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn share(&self) -> Share {
        Share::start(&self.source, &self.at("publisher"))
    }

    fn mount(&self, ticket: &str, more: &[&str]) -> Mount {
        Mount::start(&self.at("store"), ticket, &self.at("mnt"), more)
    }

    /// The bytes of one read.
    fn read(&self, mount: &Mount, at: u64, len: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        fs::File::open(mount.path("source"))?.read_exact_at(&mut bytes, at)?;
        assert!(bytes == self.content[at as usize..at as usize + len], "wrong bytes at {at}");
        Ok(bytes)
    }
}

fn raw(result: std::io::Result<Vec<u8>>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn a_mounted_directory_equals_the_shared_one() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::create_dir_all(tree.join("a-")).unwrap();
    fs::create_dir_all(tree.join("empty")).unwrap();
    file(&tree, "a/b/deep", &noise(300_000, 1));
    file(&tree, "a/b-", b"beside");
    file(&tree, "a/b.txt", b"");
    file(&tree, "a-/x", &noise(8_192, 2));
    file(&tree, "large", &noise(5_000_001, 3));
    symlink("a/b/deep", tree.join("link")).unwrap();
    fs::hard_link(tree.join("large"), tree.join("larger")).unwrap();
    for i in 0..500 {
        file(&tree.join("a"), &format!("small-{i}"), &noise(i * 37, i as u64));
    }
    fs::set_permissions(tree.join("large"), fs::Permissions::from_mode(0o640)).unwrap();
    let share = Share::start(&tree, &dir.path().join("publisher"));
    let at = dir.path().join("mnt");
    let mount = Mount::start(&dir.path().join("store"), &share.ticket, &at, &[]);
    let same = Command::new("diff").args(["-r", "--no-dereference"]).args([&tree, &at]).output();
    let same = same.unwrap();
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
    assert_eq!(fs::read_link(mount.path("link")).unwrap(), Path::new("a/b/deep"));
    let (ours, theirs) =
        (fs::metadata(mount.path("large")).unwrap(), fs::metadata(tree.join("large")).unwrap());
    assert_eq!(
        (ours.mode(), ours.mtime(), ours.mtime_nsec()),
        (theirs.mode(), theirs.mtime(), theirs.mtime_nsec())
    );
    assert_eq!(ours.ino(), fs::metadata(mount.path("larger")).unwrap().ino());
    assert_eq!(fs::read_dir(mount.path("a")).unwrap().count(), 503);
    assert!(!mount.path("a/nothing").exists() && !mount.path("a/b/deep/x").exists());
    let refused = fs::write(mount.path("new"), b"x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(fs::remove_file(mount.path("large")).is_err());
    assert_eq!(mount.signal("-INT"), Some(0));
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "unmounted");
}

#[test]
fn a_copy_of_the_mount_elsewhere_does_not_keep_it_from_ending() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(100_000, 1));
    let share = Share::start(&source, &dir.path().join("publisher"));
    let at = dir.path().join("mnt");
    let mount = Mount::start(&dir.path().join("store"), &share.ticket, &at, &[]);
    // A mount namespace of its own has a copy of each mount, as a container has.
    let script = "mount --make-rprivate / && echo there && exec sleep 600";
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    let child = elsewhere.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else { return skipped("no unshare") };
    let mut said = [0; 5];
    if child.stdout.take().unwrap().read_exact(&mut said).is_err() {
        let _ = child.wait();
        return skipped("no right to have mounts apart");
    }
    let code = mount.signal("-INT");
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(code, Some(0));
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "unmounted");
}

#[test]
fn any_place_of_a_file_can_be_read_and_only_that_is_fetched() {
    if !can_mount() {
        return;
    }
    let world = World::new(60_000_000, 4);
    let share = world.share();
    let mount = world.mount(&share.ticket, &[]);
    for i in 0..100_u64 {
        world.read(&mount, i * 7_919 * 4_096 % 59_990_000, 4_096).unwrap();
    }
    world.read(&mount, 59_999_000, 1_000).unwrap();
    let kept = fs::read_dir(world.at("store/partial")).unwrap();
    let kept: u64 = kept.map(|item| item.unwrap().metadata().unwrap().blocks() * 512).sum();
    assert!(kept < 8_000_000, "{kept} bytes are kept of 0.4 MB that were read");
    // Many readers at once, in order and not.
    std::thread::scope(|scope| {
        for n in 0..8_u64 {
            let (world, mount) = (&world, &mount);
            scope.spawn(move || {
                let mut all = fs::File::open(mount.path("source")).unwrap();
                all.seek(SeekFrom::Start(n * 5_000_000)).unwrap();
                let mut part = vec![0; 10_000_000];
                all.read_exact(&mut part).unwrap();
                let from = n as usize * 5_000_000;
                assert!(part == world.content[from..from + part.len()]);
            });
        }
    });
    assert!(fs::read(mount.path("source")).unwrap() == world.content);
}

#[test]
fn a_mount_survives_a_peer_that_dies_in_the_middle() {
    if !can_mount() {
        return;
    }
    let world = World::new(30_000_000, 5);
    let first = world.share();
    let seed = ["--listen", "127.0.0.1:0", "--seed"];
    let second = Get::start(&world.at("store-2"), &first.ticket, &world.at("copy"), &seed);
    second.done();
    let both = ["--from", &first.link, "--from", &second.address().0, "--limit", "10M"];
    let mount = world.mount(&first.ticket, &both);
    let mut reading = fs::File::open(mount.path("source")).unwrap();
    let mut content = vec![0; 5_000_000];
    reading.read_exact(&mut content).unwrap();
    drop(first);
    reading.read_to_end(&mut content).unwrap();
    assert!(content == world.content);
}

#[test]
fn content_without_a_peer_is_an_input_output_error() {
    if !can_mount() {
        return;
    }
    let world = World::new(20_000_000, 6);
    let share = world.share();
    let mount = world.mount(&share.ticket, &["--timeout", "2"]);
    world.read(&mount, 0, 4_096).unwrap();
    let (ticket, link) = (share.ticket.clone(), share.link.clone());
    drop(share);
    let begun = Instant::now();
    assert_eq!(raw(world.read(&mount, 15_000_000, 4_096)), Some(INPUT_OUTPUT_ERROR));
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    mount.warned("source: bytes 14999552..");
    // Bytes read before need no peer.
    world.read(&mount, 0, 4_096).unwrap();
    // A peer is back: a read that failed may be tried again.
    let port = link.rsplit(':').next().unwrap();
    let listen = format!("127.0.0.1:{port}");
    let mut again = xylem(&world.at("publisher"));
    again.args(["share", "--listen", &listen]).arg(&world.source);
    let mut again = again.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a read", || world.read(&mount, 15_000_000, 4_096).is_ok());
    let _ = again.kill();
    let _ = again.wait();
    assert!(!ticket.is_empty());
}

/// Changes a byte of a file behind a program's back: size and time stay.
fn tamper(path: &Path, offset: u64) {
    let before = fs::metadata(path).unwrap().modified().unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
    file.set_modified(before).unwrap();
}

/// Makes the publisher take a wrong byte for right: its tree has another file's hash for that segment, so that the
/// publisher can't know that it lies.
fn lies(world: &World, at: u64) {
    let mut other = world.content.clone();
    other[at as usize] ^= 1;
    let evil = file(world.dir.path(), "evil", &other);
    drop(Share::start(&evil, &world.at("evil-publisher")));
    let tree = |store: &str| {
        let objects = fs::read_dir(world.at(store).join("objects")).unwrap();
        let mut objects = objects.map(|entry| entry.unwrap().path());
        objects.find(|path| path.extension().is_some_and(|e| e == "outboard")).unwrap()
    };
    let (mut node, place) = ([0; 32], 2 * (at / 8_192) * 32);
    fs::File::open(tree("evil-publisher")).unwrap().read_exact_at(&mut node, place).unwrap();
    let lying = fs::File::options().write(true).open(tree("publisher")).unwrap();
    lying.write_all_at(&node, place).unwrap();
    tamper(&world.source, at);
}

#[test]
fn a_wrong_byte_of_a_peers_is_never_read() {
    if !can_mount() {
        return;
    }
    let world = World::new(8_000_000, 8);
    let share = world.share();
    lies(&world, 4_000_000);
    let mount = world.mount(&share.ticket, &["--timeout", "3"]);
    // `read` compares the content, so that a wrong byte is not taken for an error.
    assert_eq!(raw(world.read(&mount, 3_998_000, 8_192)), Some(INPUT_OUTPUT_ERROR));
    mount.warned("source: bytes");
    assert!(mount.run.has("peer_misbehaved"));
}

/// The publisher's file was changed, with its modification time set back. The publisher sends nothing of the changed
/// part, and all of it once it is restored.
#[test]
fn changed_content_is_not_read_until_restored() {
    if !can_mount() {
        return;
    }
    let world = World::new(8_000_000, 7);
    let share = world.share();
    tamper(&world.source, 4_000_000);
    let mount = world.mount(&share.ticket, &["--timeout", "3"]);
    assert_eq!(raw(world.read(&mount, 3_998_000, 8_192)), Some(INPUT_OUTPUT_ERROR));
    mount.warned("source: bytes");
    assert!(!mount.run.has("peer_misbehaved"));
    tamper(&world.source, 4_000_000);
    until("a read", || world.read(&mount, 3_998_000, 8_192).is_ok());
    assert!(fs::read(mount.path("source")).unwrap() == world.content);
}

/// Path of the cached content.
fn kept(world: &World) -> PathBuf {
    let all = fs::read_dir(world.at("store/partial")).unwrap();
    let mut all = all.map(|item| item.unwrap().path());
    all.find(|path| path.extension().is_some_and(|e| e == "content")).expect("it is kept")
}

/// Reads a whole file from the mount and not from the kernel's cache.
fn direct(path: &Path) -> Vec<u8> {
    let mut dd = Command::new("dd");
    dd.args(["bs=1M", "iflag=direct", "status=none"]).arg(format!("if={}", text(path)));
    let output = dd.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output.stdout
}

#[test]
fn content_read_once_needs_no_peer_and_is_verified_again() {
    if !can_mount() {
        return;
    }
    let world = World::new(10_000_000, 8);
    let share = world.share();
    let ticket = share.ticket.clone();
    {
        let mount = world.mount(&ticket, &[]);
        assert!(fs::read(mount.path("source")).unwrap() == world.content);
        // Past the kernel's cache, with a peer that has the damaged part.
        let kept = kept(&world);
        tamper(&kept, 1_000_000);
        tamper(&kept, 9_999_999);
        assert!(direct(&mount.path("source")) == world.content);
        assert_eq!(mount.signal("-INT"), Some(0));
    }
    drop(share);
    {
        let mount = world.mount(&ticket, &["--timeout", "2"]);
        assert!(fs::read(mount.path("source")).unwrap() == world.content);
    }
    // Changes to cached content are detected.
    tamper(&kept(&world), 1_000_000);
    let mount = world.mount(&ticket, &["--timeout", "2"]);
    assert_eq!(raw(world.read(&mount, 1_000_000, 100)), Some(INPUT_OUTPUT_ERROR));
    world.read(&mount, 5_000_000, 100).unwrap();
    // Damage is repaired from a peer.
    drop(mount);
    let share = world.share();
    let mount = world.mount(&ticket, &["--from", &share.link]);
    assert!(fs::read(mount.path("source")).unwrap() == world.content);
}

#[test]
fn a_stale_mount_is_removed_and_nothing_else() {
    if !can_mount() {
        return;
    }
    let world = World::new(1_000_000, 9);
    let share = world.share();
    let mut killed = world.mount(&share.ticket, &[]);
    world.read(&killed, 0, 100).unwrap();
    // A second mount at the same place is refused, and harms nothing.
    let second = finish(command(&world.at("store-2"), &share.ticket, &world.at("mnt"), &[]));
    assert_exit(&second, 2);
    assert!(stderr(&second).contains("mounted there already"), "{}", stderr(&second));
    world.read(&killed, 500_000, 100).unwrap();
    killed.run.kill();
    assert_eq!(fs::read_dir(world.at("mnt")).unwrap_err().raw_os_error(), Some(107));
    let mount = world.mount(&share.ticket, &[]);
    mount
        .run
        .event("trouble", |e| e["what"].as_str().is_some_and(|w| w.contains("an earlier run")));
    assert!(fs::read(mount.path("source")).unwrap() == world.content);
    assert_eq!(mount.signal("-TERM"), Some(0));
    assert_eq!(fs::read_dir(world.at("mnt")).unwrap().count(), 0);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(text(world.dir.path())), "nothing of it is left");
}

#[test]
fn programs_that_still_read_do_not_hold_the_mount() {
    if !can_mount() {
        return;
    }
    let world = World::new(1_000_000, 10);
    let share = world.share();
    let mount = world.mount(&share.ticket, &[]);
    let open = fs::File::open(mount.path("source")).unwrap();
    assert_eq!(mount.signal("-INT"), Some(0));
    assert_eq!(fs::read_dir(world.at("mnt")).unwrap().count(), 0);
    drop(open);
}

#[test]
fn a_mount_that_is_impossible_ends_with_a_line() {
    let world = World::new(100_000, 11);
    let share = world.share();
    let dir = world.at("mnt");
    let refused = |ticket: &str, at: &Path, code: i32, says: &str| {
        let output = finish(command(&world.at("store"), ticket, at, &["--timeout", "2"]));
        assert_exit(&output, code);
        let said = stderr(&output);
        assert!(said.contains(says), "{said}");
        assert_eq!(said.lines().filter(|l| l.starts_with("xylem:")).count(), 1, "{said}");
    };
    refused(&share.ticket, &dir, 2, "no such directory");
    refused(&share.ticket, &world.source, 2, "not a directory");
    fs::create_dir(&dir).unwrap();
    file(&dir, "precious", b"1");
    refused(&share.ticket, &dir, 2, "not empty");
    assert_eq!(fs::read(dir.join("precious")).unwrap(), b"1");
    fs::remove_file(dir.join("precious")).unwrap();
    if !can_mount() {
        return;
    }
    refused("xylem:nonsense", &dir, 2, "ticket");
    let ticket = share.ticket.clone();
    drop(share);
    refused(&ticket, &dir, 3, "no peer answered");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing is left mounted");
    // A machine without FUSE: a namespace of its own with an empty /dev.
    let mut without = Command::new("unshare");
    let hide = "mount -t tmpfs tmpfs /dev && exec \"$@\"";
    without.args(["-m", "sh", "-c", hide, "sh"]);
    let inner = command(&world.at("store"), &ticket, &dir, &[]);
    without.arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::inherit());
    let output = without.output().unwrap();
    if !stderr(&output).contains("xylem:") {
        return skipped("no right to make a namespace");
    }
    assert_exit(&output, 4);
    assert!(stderr(&output).contains("FUSE is not available"), "{}", stderr(&output));
}

/// A small file system of its own, unmounted when dropped; `None` where that isn't allowed.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, bytes: usize) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(&at);
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|s| s.success()).then_some(Self(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_costs_the_cache_and_no_reads() {
    if !can_mount() {
        return;
    }
    let world = World::new(12_000_000, 12);
    let share = world.share();
    let Some(disk) = SmallDisk::mount(world.at("disk"), 4 << 20) else {
        return skipped("no right to mount a small file system");
    };
    {
        let store = disk.0.join("store");
        let mount = Mount::start(&store, &share.ticket, &world.at("mnt"), &[]);
        assert!(fs::read(mount.path("source")).unwrap() == world.content);
        mount.warned("read data is not stored");
        // A second time, past the kernel's cache.
        assert!(direct(&mount.path("source")) == world.content);
    }
    // Without room for the cache, nothing is mounted.
    drop(disk);
    let Some(disk) = SmallDisk::mount(world.at("disk"), 16 << 10) else { return };
    let filled = fs::write(disk.0.join("ballast"), vec![1; 16 << 10]);
    let _ = filled;
    let output = finish(command(&disk.0.join("store"), &share.ticket, &world.at("mnt"), &[]));
    assert_exit(&output, 4);
    assert!(stderr(&output).to_lowercase().contains("space"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(world.at("mnt")).unwrap().count(), 0);
}

#[test]
fn an_unmount_ends_the_program_in_order() {
    if !can_mount() {
        return;
    }
    let world = World::new(10_000, 9);
    let share = world.share();
    let mut mount = world.mount(&share.ticket, &[]);
    assert!(fs::read(mount.path("source")).unwrap() == world.content);
    // Root needs no FUSE helper program, and may have none.
    let left = Command::new("fusermount3").arg("-u").arg(&mount.at).status();
    let left = left.or_else(|_| Command::new("umount").arg(&mount.at).status());
    assert!(left.unwrap().success());
    assert_eq!(mount.run.wait(), Some(0));
}

/// Runs a Python program that has the path in `sys.argv[1]` and asserts within itself: printed values would differ from
/// version to version. False where Python or one of these modules is missing.
fn python(modules: &str, program: &str, argument: &Path) -> bool {
    let has = Command::new("python3")
        .args(["-c", &format!("import {modules}")])
        .stderr(Stdio::null())
        .status();
    if !has.is_ok_and(|status| status.success()) {
        skipped(&format!("no python3 with {modules}"));
        return false;
    }
    let output = Command::new("python3").args(["-c", program]).arg(argument).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    true
}

#[test]
fn databases_and_mapped_arrays_are_read_where_they_are() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let make = "import sqlite3, sys\n\
        db = sqlite3.connect(sys.argv[1])\n\
        db.execute('create table t (k integer primary key, v text)')\n\
        db.executemany('insert into t values (?, ?)', ((i, 'x' * 500 + str(i)) for i in range(20000)))\n\
        db.commit()";
    let has_sqlite = python("sqlite3", make, &data.join("db"));
    let floats: Vec<u8> = (0..2_000_000_u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    file(&data, "floats", &floats);
    let share = Share::start(&data, &dir.path().join("publisher"));
    let at = dir.path().join("mnt");
    let mount = Mount::start(&dir.path().join("store"), &share.ticket, &at, &[]);
    if has_sqlite {
        let query = "import sqlite3, sys\n\
            db = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)\n\
            row = db.execute('select count(*), max(length(v)) from t where k > 19000').fetchone()\n\
            assert row[0] == 999 and row[1] == 505, row\n\
            found = db.execute('pragma integrity_check').fetchone()[0]\n\
            assert found == 'ok', found";
        assert!(python("sqlite3", query, &mount.path("db")));
    }
    let mapped = "import mmap, struct, sys\n\
        f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n\
        assert struct.unpack_from('<f', m, 4 * 1234567)[0] == 1234567\n\
        assert struct.unpack_from('<f', m, 4)[0] == 1";
    python("mmap", mapped, &mount.path("floats"));
    let array = "import numpy, sys\n\
        a = numpy.memmap(sys.argv[1], dtype='<f4', mode='r')\n\
        assert int(a[1999999]) == 1999999 and len(a) == 2000000\n\
        assert int(a[1000:2000].astype('<f8').sum()) == 1499500";
    python("numpy", array, &mount.path("floats"));
}
