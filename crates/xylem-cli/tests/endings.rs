//! How the program ends where the system has run out of threads, memory, randomness or room in a file. It prints one
//! line with the reason and exits with status 4; it never dies by a signal and never reports "a bug in xylem". Verified
//! data are kept.
#![cfg(target_os = "linux")]

use crate::common;
use crate::common::{
    Share, XYLEM, assert_exit, file, finish, get, get_json, noise, skipped, stderr, sum, text,
    under, xylem,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Runs `command` under strace, where the `nth` call of `call` by each thread fails with `error`. Returns `None` if
/// that call was never made.
fn failing(dir: &Path, call: &str, error: &str, nth: u32, command: &Command) -> Option<Output> {
    let log = dir.join("strace.log");
    let inject = format!("inject={call}:error={error}:when={nth}");
    let trace = format!("trace={call}");
    let arguments = ["-f", "-qq", "-o", text(&log), "-e", &trace, "-e", &inject];
    let output = finish(under("strace", &arguments, command));
    fs::read_to_string(log).unwrap().contains("(INJECTED)").then_some(output)
}

/// Returns how many mappings the loader makes, which depends on the system. The first call after it is that of the
/// language runtime, which polls the standard streams.
fn mappings_of_the_loader(dir: &Path, command: &Command) -> u32 {
    let log = dir.join("strace.log");
    let arguments = ["-f", "-qq", "-o", text(&log), "-e", "trace=mmap,poll"];
    finish(under("strace", &arguments, command));
    let calls = fs::read_to_string(log).unwrap();
    let before = calls.lines().take_while(|line| !line.contains(" poll("));
    before.filter(|line| line.contains(" mmap(")).count() as u32
}

/// Whether a run succeeded. Fails the test unless it ended in order: with 0, or with 4 and one line.
fn in_order(what: &str, output: &Output) -> bool {
    let said = stderr(output);
    assert!(!said.contains("bug") && !said.contains("panicked"), "{what}: {said}");
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 4)), "{what}: {:?}: {said}", output.status);
    if code == Some(4) {
        assert!(said.lines().last().unwrap_or_default().starts_with("xylem: "), "{what}: {said}");
    }
    code == Some(0)
}

/// A file that is shared, one that was fetched, and the commands run on them.
struct World {
    dir: tempfile::TempDir,
    share: Share,
    original: PathBuf,
    fetched: PathBuf,
    runs: std::cell::Cell<u32>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let original = file(dir.path(), "original", &noise(5_000_000, 15));
        let share = Share::start(&original, &dir.path().join("publisher"));
        let fetched = dir.path().join("fetched");
        let output = get(&dir.path().join("store"), &[&share.ticket, "-o", text(&fetched)]);
        assert_exit(&output, 0);
        Self { dir, share, original, fetched, runs: std::cell::Cell::new(0) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path that does not exist yet.
    fn fresh(&self) -> PathBuf {
        self.runs.set(self.runs.get() + 1);
        self.at(&format!("fresh-{}", self.runs.get()))
    }

    /// The command of each case, and where its result should lie.
    fn command(&self, what: &str) -> (Command, Option<PathBuf>) {
        let out = self.fresh();
        let mut command = xylem(&self.fresh());
        let output = match what {
            "get" => {
                command.args(["get", &self.share.ticket, "-o"]).arg(&out);
                Some(out)
            }
            "get -o -" => {
                command.args(["get", &self.share.ticket, "-o", "-"]);
                None
            }
            "update" => {
                let mut old = fs::read(&self.original).unwrap();
                old[2_000_000..2_000_100].fill(0);
                fs::write(&out, old).unwrap();
                command.args(["get", &self.share.ticket, "--overwrite", "-o"]).arg(&out);
                Some(out)
            }
            "scrub" => {
                command = xylem(&self.at("store"));
                command.arg("scrub").arg(&self.fetched);
                None
            }
            "verify" => {
                command.arg("verify").arg(&self.fetched).arg(&self.share.ticket);
                None
            }
            "sum" => {
                command.arg("sum").arg(&self.original);
                None
            }
            what => panic!("{what}"),
        };
        (command, output)
    }

    /// A file under the final name has to equal the original.
    fn is_right(&self, what: &str, output: Option<&Path>, done: bool) {
        if let Some(out) = output.filter(|out| done || (what == "get" && out.exists())) {
            assert_eq!(sum(out), sum(&self.original), "{what}");
        }
    }
}

const VERBS: [&str; 6] = ["get", "get -o -", "update", "scrub", "verify", "sum"];

#[test]
fn no_thread_left_is_one_line() {
    if !is_there("strace") {
        return skipped("no strace, which has a thread's start fail");
    }
    let world = World::new();
    let mut refused = 0;
    for what in VERBS {
        for nth in 1..=6 {
            let (command, out) = world.command(what);
            let ended = failing(world.dir.path(), "clone3", "EAGAIN", nth, &command);
            let Some(output) = ended else { break };
            let done = in_order(&format!("{what}, thread {nth}"), &output);
            refused += u32::from(!done);
            world.is_right(what, out.as_deref(), done);
        }
    }
    assert!(refused >= VERBS.len() as u32 - 1, "of {refused} runs a thread was missed");
}

/// The same without strace, by a user's limit: a share that can have no more threads hashes with those that it has, and
/// one that can have none ends with a line.
#[test]
fn a_limit_on_threads_is_one_line() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    let everybody = fs::Permissions::from_mode(0o777);
    fs::set_permissions(dir.path(), everybody).unwrap();
    let shared = file(dir.path(), "shared", &noise(3_000_000, 2));
    let (mut refused, mut done) = (0, 0);
    for threads in 1..=6 {
        let mut command = xylem(&dir.path().join(format!("store-{threads}")));
        // It publishes, and ends because it has no address to listen on.
        command.args(["share", "--listen", "203.0.113.1:1"]).arg(&shared);
        let limit = [format!("--nproc={threads}:{threads}")];
        let mut command = under("prlimit", &limit, &command);
        // A user that has no other process.
        command.uid(54_321).gid(54_321).stdout(Stdio::null()).stderr(Stdio::null());
        if !command.status().is_ok_and(|status| matches!(status.code(), Some(2 | 4))) {
            return skipped("only root can become a user of its own, who may run the program");
        }
        let output = finish(command);
        let said = stderr(&output);
        assert!(!said.contains("bug"), "{threads} threads: {said}");
        match said.contains("Resource temporarily unavailable") {
            true => refused += 1,
            false => done += u32::from(said.contains("cannot listen on")),
        }
    }
    assert!(refused >= 1 && done >= 3, "{refused} without a thread, {done} done");
}

#[test]
fn no_randomness_is_one_line() {
    if !is_there("strace") {
        return skipped("no strace, which has the system give no randomness");
    }
    let world = World::new();
    let mut refused = 0;
    for what in VERBS {
        for nth in 1..=12 {
            let (command, out) = world.command(what);
            let ended = failing(world.dir.path(), "getrandom", "EIO", nth, &command);
            let Some(output) = ended else { break };
            let done = in_order(&format!("{what}, call {nth}"), &output);
            refused += u32::from(!done);
            if !done {
                assert!(
                    stderr(&output).contains("gives no randomness")
                        || stderr(&output).contains("OS Error: 5"),
                    "{what}: {}",
                    stderr(&output)
                );
            }
            world.is_right(what, out.as_deref(), done);
        }
    }
    assert!(refused >= 8, "{refused} runs lacked it");
}

/// A started thread finds no memory for its signal stack.
#[test]
fn no_memory_for_a_thread_is_one_line() {
    if !is_there("strace") {
        return skipped("no strace, which has the system give no memory");
    }
    let world = World::new();
    let mut refused = 0;
    // The loader and the language runtime start before the program, which can't report their failures better.
    let loader = mappings_of_the_loader(world.dir.path(), &world.command("scrub").0);
    for what in ["get", "scrub"] {
        for nth in loader + 1..=loader + 25 {
            let (command, out) = world.command(what);
            let ended = failing(world.dir.path(), "mmap", "ENOMEM", nth, &command);
            let Some(output) = ended else { break };
            if stderr(&output).contains("initialization or cleanup bug") {
                continue;
            }
            let done = in_order(&format!("{what}, mapping {nth}"), &output);
            refused += u32::from(!done);
            world.is_right(what, out.as_deref(), done);
        }
    }
    assert!(refused >= 1, "{refused} runs lacked memory");
}

/// Too little address space causes no death by a signal either. From the size at which the loader has enough, a run
/// succeeds or ends with 4.
#[test]
fn no_memory_at_all_is_exit_4() {
    if !is_there("prlimit") {
        return skipped("no prlimit");
    }
    let world = World::new();
    let mut ended = [0; 2];
    // How much is enough depends on the size of the program and on the system: until three runs had enough.
    for mebibytes in (16..=512).step_by(2) {
        if ended[0] == 3 {
            break;
        }
        let limit = [format!("--as={}", mebibytes << 20)];
        let mut version = Command::new(XYLEM);
        version.arg("--version");
        if !finish(under("prlimit", &limit, &version)).status.success() {
            continue;
        }
        let (command, out) = world.command("get");
        let output = finish(under("prlimit", &limit, &command));
        let said = stderr(&output);
        assert!(!said.contains("bug"), "{mebibytes} MiB: {said}");
        match output.status.code() {
            Some(0) => ended[0] += 1,
            Some(4) => ended[1] += 1,
            _ => panic!("{mebibytes} MiB: {:?}: {said}", output.status),
        }
        world.is_right("get", out.as_deref(), output.status.success());
    }
    assert!(ended.iter().all(|runs| *runs > 0), "done and without memory: {ended:?}");
}

/// A limit on the size of files has the result of a full disk, and not a silent death by a signal.
#[test]
fn a_limit_on_the_size_of_files_is_one_line() {
    if !is_there("prlimit") {
        return skipped("no prlimit");
    }
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    for n in 0..10 {
        file(&source, &format!("small-{n}"), &noise(100_000, n));
    }
    let large = file(&source, "the-large-one", &noise(8_000_000, 99));
    let (store, out) = (dir.path().join("store"), dir.path().join("out"));
    let share = Share::start(&source, &dir.path().join("publisher"));
    let limit = ["--fsize=2000000"];
    let mut command = xylem(&store);
    command.args(["get", &share.ticket, "-o"]).arg(&out);
    let output = finish(under("prlimit", &limit, &command));
    assert_exit(&output, 4);
    assert!(
        stderr(&output).contains("this file system allows no file that large"),
        "{}",
        stderr(&output)
    );
    assert!(!out.join("the-large-one").exists());

    // Verified data are kept, and the next run fetches the rest.
    let (code, done) = get_json(&store, &[&share.ticket, "-o", text(&out)]);
    assert_eq!(code, Some(0), "{done}");
    assert_eq!(sum(&out.join("the-large-one")), sum(&large));

    // A share writes files of the store; the output may be such a file, too.
    let outboard = dir.path().join("own");
    let mut command = xylem(&outboard);
    command.args(["share", "--listen", "127.0.0.1:0"]).arg(&large);
    let output = finish(under("prlimit", &["--fsize=20000"], &command));
    assert_exit(&output, 4);
    assert!(
        stderr(&output).contains("this file system allows no file that large"),
        "{}",
        stderr(&output)
    );
    let single = Share::start(&large, &dir.path().join("publisher"));
    let mut command = xylem(&store);
    command.args(["get", &single.ticket, "-o", "-"]);
    let mut command = under("prlimit", &limit, &command);
    let cut = fs::File::create(dir.path().join("cut")).unwrap();
    let output = command.stdout(cut).stderr(Stdio::piped()).output().unwrap();
    assert_exit(&output, 4);
    assert!(stderr(&output).contains("File too large"), "{}", stderr(&output));
    let bytes = fs::read(dir.path().join("cut")).unwrap();
    assert_eq!(bytes, fs::read(&large).unwrap()[..bytes.len()]);
}

/// `thread::spawn` panics where the system has no thread left. `Builder` returns an error.
#[test]
fn no_thread_is_started_by_a_call_that_panics() {
    fn look_into(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if name != "tests" {
                    look_into(&path, found);
                }
            } else if path.extension().is_some_and(|e| e == "rs") && name != "tests.rs" {
                let code = fs::read_to_string(&path).unwrap();
                let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
                if ["thread::spawn(", "scope.spawn("].iter().any(|call| code.contains(call)) {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in [
        "xylem-cli",
        "xylem-base",
        "xylem-cache",
        "xylem-files",
        "xylem-publish",
        "xylem-sink",
        "xylem-check",
        "xylem-sync",
        "xylem-engine",
        "xylem-app",
        "xylem-node",
        "xylem-store",
        "xylem-sockets",
    ] {
        look_into(&crates.join(name).join("src"), &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
}

/// The bit set of signals on this line of a process's /proc status, one bit a signal.
fn signals(pid: &str, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let signals = status.lines().find_map(|found| found.strip_prefix(line));
    u64::from_str_radix(signals.unwrap().trim(), 16).unwrap()
}

/// A program started with `nohup` outlives its terminal; any other ends in order.
#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    file(dir.path(), "file", b"x");
    fs::create_dir(path("folder")).unwrap();
    let settings = format!(
        "[node]\nlisten = [\"unix://{}\"]\n[node.multicast]\nenabled = false\n",
        path("socket").display()
    );
    file(dir.path(), "config.toml", settings.as_bytes());
    let verbs: [&[&str]; 4] = [
        &["share", "file", "--listen", "127.0.0.1:0"],
        &["sync", "folder", "--listen", "127.0.0.1:0"],
        &["--config", "config.toml", "ndn", "node"],
        &["inbox", "--listen", "127.0.0.1:0"],
    ];
    // A shell can't restore a signal that was ignored when it started, as under nohup.
    let own = signals("self", "SigIgn:") & 1 == 1;
    if own {
        common::skipped("SIGHUP is ignored here, so no program ends by it");
    }
    let ways = [(true, "trap '' HUP;"), (false, "")];
    for (n, verb) in verbs.into_iter().enumerate() {
        for (ignored, trap) in ways.into_iter().filter(|(ignored, _)| *ignored || !own) {
            // A folder is kept in step from one store.
            fs::remove_dir_all(path("folder")).unwrap();
            fs::create_dir(path("folder")).unwrap();
            let mut command = xylem(&path(&format!("store-{n}-{ignored}")));
            command.args(verb);
            let mut command = under("sh", &["-c", &format!("{trap} exec \"$@\""), "sh"], &command);
            command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            let pid = child.id().to_string();
            // Once it handles signals, none of them ends it at once; its line in /proc shows the handlers.
            common::until("it listens for signals", || {
                signals(&pid, "SigCgt:") >> (15 - 1) & 1 == 1
            });
            let send = |signal: &str| {
                assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
            };
            send("-HUP");
            if ignored {
                // The next signal ends it, which shows that the first one had not.
                std::thread::sleep(std::time::Duration::from_millis(500));
                assert!(child.try_wait().unwrap().is_none(), "{verb:?} ended at SIGHUP");
                send("-TERM");
            }
            assert_eq!(child.wait().unwrap().code(), Some(0), "{verb:?}, ignored: {ignored}");
        }
    }
}
