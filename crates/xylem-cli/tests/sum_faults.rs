//! `xylem sum` with failures, odd files and large numbers of files: each a real one.
#![cfg(unix)]

use crate::common::{XYLEM, assert_exit, file, finish, noise, skipped, stderr, xylem};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `xylem sum` in a folder, with nothing on standard input.
fn sum(dir: &Path) -> Command {
    let mut command = xylem(dir);
    command.arg("sum").current_dir(dir).stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = sum(dir);
    command.args(args);
    finish(command)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

fn line(bytes: &[u8], name: &str) -> String {
    format!("{}  {name}\n", xylem_hash::hash(bytes))
}

#[test]
fn exit_codes() {
    let dir = folder();
    file(dir.path(), "a", b"a");
    fs::create_dir(dir.path().join("folder")).unwrap();
    file(dir.path(), "good", line(b"a", "a").as_bytes());
    file(dir.path(), "bad", line(b"b", "a").as_bytes());
    file(dir.path(), "gone", line(b"a", "missing").as_bytes());
    file(dir.path(), "odd", b"no list\n");
    file(dir.path(), "binary", b"\xff\xfe\n");
    for (args, exit) in [
        (&["a"][..], 0),
        (&["a", "missing", "a"], 2),
        (&["folder"], 2),
        (&["a/b"], 2),
        (&["--raw", "a", "a"], 2),
        (&["--keyed", "a"], 2),
        (&["--seek", "18446744073709551584", "a"], 2),
        (&["--seek", "1", "-l", "18446744073709551615", "a"], 2),
        (&["-c", "good"], 0),
        (&["-c", "bad"], 1),
        (&["-c", "gone"], 1),
        (&["-c", "odd"], 1),
        (&["-c", "binary"], 2),
        (&["-c", "missing"], 2),
        (&["-c", "folder"], 2),
        (&["-c", "--ignore-missing", "good", "gone"], 0),
        (&["-c", "--ignore-missing", "gone"], 1),
        (&["--ignore-missing", "a"], 2),
        (&["-r"], 2),
        (&["-r", "missing"], 2),
    ] {
        let output = run(dir.path(), args);
        assert_eq!(output.status.code(), Some(exit), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("bug"), "{args:?}: {}", stderr(&output));
    }
    let output = run(dir.path(), &["-c", "--ignore-missing", "good", "gone"]);
    assert_eq!(stdout(&output), "a: OK\n");
    assert_eq!(stderr(&output), "");
}

/// One file that fails does not stop the others, and the worst result is the exit code.
#[cfg(target_os = "linux")]
#[test]
fn a_failed_read_is_4_and_the_rest_goes_on() {
    let dir = folder();
    file(dir.path(), "a", b"a");
    // Reading its first byte is an input/output error on every Linux.
    let output = run(dir.path(), &["missing", "/proc/self/mem", "a"]);
    assert_exit(&output, 4);
    assert_eq!(stdout(&output), line(b"a", "a"));
    assert_eq!(
        stderr(&output),
        "xylem: missing: No such file or directory (os error 2)\n\
         xylem: /proc/self/mem: Input/output error (os error 5)\n"
    );
}

#[test]
fn an_unreadable_file_is_4() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder();
    let locked = file(dir.path(), "locked", b"secret");
    file(dir.path(), "open", b"open");
    for (path, mode) in [(dir.path(), 0o755), (&locked, 0o000)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = sum(dir.path());
    command.args(["locked", "open"]);
    if fs::read(&locked).is_ok() {
        // A user that may read everything runs this as `nobody`.
        command.uid(65534).gid(65534);
    }
    if command.stdout(Stdio::null()).status().is_err() {
        return skipped("nobody may not run the program where it lies");
    }
    let output = finish(command);
    assert_exit(&output, 4);
    assert_eq!(stdout(&output), line(b"open", "open"));
    assert!(stderr(&output).contains("locked: Permission denied"), "{}", stderr(&output));
}

#[test]
fn a_pipe_is_read_to_its_end_and_once() {
    let dir = folder();
    file(dir.path(), "a", b"a");
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo belongs to every Unix");
    let bytes = noise(3_000_000, 1);
    let mut command = sum(dir.path());
    command.args(["a", "pipe", "a"]);
    let writer = std::thread::spawn({
        let (pipe, bytes) = (dir.path().join("pipe"), bytes.clone());
        move || fs::write(pipe, bytes)
    });
    let output = finish(command);
    writer.join().unwrap().unwrap();
    assert_exit(&output, 0);
    let expected = [line(b"a", "a"), line(&bytes, "pipe"), line(b"a", "a")].concat();
    assert_eq!(stdout(&output), expected);
}

#[cfg(target_os = "linux")]
#[test]
fn files_without_a_size_are_hashed() {
    let output = run(Path::new("/"), &["/proc/version", "/dev/null"]);
    assert_exit(&output, 0);
    let version = fs::read("/proc/version").unwrap();
    let expected = [line(&version, "/proc/version"), line(b"", "/dev/null")].concat();
    assert_eq!(stdout(&output), expected);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_endless_work() {
    let dir = folder();
    for args in [&["/dev/zero"][..], &["a", "/dev/zero", "-"]] {
        let mut command = interruptible(&sum(dir.path()));
        let mut child = command.args(args).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > Duration::from_secs(30) {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // It dies by the signal itself, so that a shell's loop over files ends too; the shell shows 130.
        assert_eq!(child.wait().unwrap().signal(), Some(2), "{args:?}");
    }
}

/// The command with the SIGINT handling of a terminal's shell. A shell that runs the tests in the background ignores
/// the signal, and every program inherits that, as it should.
fn interruptible(command: &Command) -> Command {
    let mut wrapped = Command::new(if cfg!(target_os = "linux") { "env" } else { XYLEM });
    if cfg!(target_os = "linux") {
        wrapped.arg("--default-signal=INT").arg(command.get_program());
    }
    wrapped.args(command.get_args()).stdin(Stdio::null());
    if let Some(dir) = command.get_current_dir() {
        wrapped.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

#[test]
fn a_reader_that_leaves_ends_the_run() {
    let dir = folder();
    let name = "a".repeat(200);
    file(dir.path(), &name, b"a");
    let mut command = sum(dir.path());
    // More lines than any pipe holds, so that there is a write after the reader left.
    command.args((0..4000).map(|_| &name)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, line(b"a", &name));
    let output = child.wait_with_output().unwrap();
    assert_exit(&output, 130);
    assert_eq!(stderr(&output), "");
}

/// A file that is cut off while it is read never kills the process, as a mapped one would.
#[test]
fn a_file_that_shrinks_is_no_crash() {
    let dir = folder();
    let size = 1 << 30;
    for threads in ["1", "2"] {
        let big = fs::File::create(dir.path().join("big")).unwrap();
        big.set_len(size).unwrap();
        let child = sum(dir.path())
            .args(["--num-threads", threads, "big"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(2));
            big.set_len(size / 2).unwrap();
            big.set_len(size).unwrap();
        }
        big.set_len(12_345).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
        let short = stderr(&output).contains("big: it became shorter while it was read");
        assert_eq!(output.status.code() == Some(4), short, "{output:?}");
    }
}

#[test]
fn a_file_that_grows_is_a_prefix_of_itself() {
    let dir = folder();
    let mut log = fs::File::create(dir.path().join("log")).unwrap();
    let chunk = vec![7; 1 << 20];
    for _ in 0..64 {
        log.write_all(&chunk).unwrap();
    }
    let child = sum(dir.path()).arg("log").stdout(Stdio::piped()).spawn().unwrap();
    for _ in 0..64 {
        log.write_all(&chunk).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_exit(&output, 0);
    // The writes are whole pieces, but the size may be read in the midst of one.
    let mut hasher = xylem_hash::Hasher::new();
    let page = vec![7; 4096];
    let found = (0..=(128 << 20) / page.len()).any(|_| {
        let hit = stdout(&output) == format!("{}  log\n", hasher.finalize());
        hasher.update(&page);
        hit
    });
    assert!(found, "{}", stdout(&output));
}

/// Twenty thousand files with twelve file descriptors, named in every possible way.
#[test]
fn many_files_with_few_descriptors() {
    let dir = folder();
    let mut expected = String::new();
    let mut names = Vec::new();
    for i in 0..20_000 {
        let name = format!("d/{i:05}");
        if i == 0 {
            fs::create_dir(dir.path().join("d")).unwrap();
        }
        // One huge among the many.
        let bytes = if i == 7_777 { noise(20_000_000, 7) } else { i.to_string().into_bytes() };
        file(dir.path(), &name, &bytes);
        expected.push_str(&line(&bytes, &name));
        names.push(name);
    }
    file(dir.path(), "list", expected.as_bytes());
    let oks: String = names.iter().map(|name| format!("{name}: OK\n")).collect();
    for (args, expected) in [
        ("--num-threads 4 d/*", &expected),
        ("--num-threads 1 d/*", &expected),
        ("--num-threads 4 -r d", &expected),
        ("--num-threads 4 -c list", &oks),
    ] {
        let mut command = Command::new("sh");
        command.current_dir(dir.path()).stdin(Stdio::null());
        command.args(["-c", &format!("ulimit -n 12; exec \"$0\" sum {args}"), XYLEM]);
        let output = finish(command);
        assert_exit(&output, 0);
        assert!(stdout(&output) == *expected, "{args}: not the lines that were expected");
    }
}

#[test]
fn recursive() {
    let dir = folder();
    fs::create_dir_all(dir.path().join("t/sub/empty")).unwrap();
    for name in ["t/z", "t/sub/b", "t/sub/a\nb", "t/sub.x", "alone"] {
        file(dir.path(), name, name.as_bytes());
    }
    std::os::unix::fs::symlink("z", dir.path().join("t/link")).unwrap();
    std::os::unix::fs::symlink("..", dir.path().join("t/sub/loop")).unwrap();
    let made = Command::new("mkfifo").arg(dir.path().join("t/pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let expected = [
        line(b"alone", "alone"),
        format!("\\{}", line(b"t/sub/a\nb", "t/sub/a\\nb")),
        line(b"t/sub/b", "t/sub/b"),
        line(b"t/sub.x", "t/sub.x"),
        line(b"t/z", "t/z"),
    ]
    .concat();
    for threads in ["1", "3"] {
        let output = run(dir.path(), &["-r", "--num-threads", threads, "alone", "t"]);
        assert_exit(&output, 0);
        assert_eq!(stdout(&output), expected);
    }
    // Its output is a list like any other.
    file(dir.path(), "list", expected.as_bytes());
    assert_exit(&run(dir.path(), &["--check", "list"]), 0);
    assert_eq!(stdout(&run(dir.path(), &["-r", "t/link"])), line(b"t/z", "t/link"));
}

/// A progress bar on a terminal, and not a byte of it elsewhere.
#[cfg(target_os = "linux")]
#[test]
fn progress_on_a_terminal_only() {
    let dir = folder();
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let slow = || {
        let pipe = dir.path().join("pipe");
        std::thread::spawn(move || {
            let mut pipe = fs::OpenOptions::new().write(true).open(pipe).unwrap();
            for _ in 0..6 {
                pipe.write_all(&[1; 50_000]).unwrap();
                std::thread::sleep(Duration::from_millis(250));
            }
        })
    };
    let bytes = vec![1; 300_000];
    let writer = slow();
    let output = run(dir.path(), &["pipe"]);
    writer.join().unwrap();
    assert_eq!((stdout(&output), stderr(&output)), (line(&bytes, "pipe"), String::new()));

    let mut command = Command::new("script");
    command.args(["-qec", &format!("'{XYLEM}' sum pipe"), "/dev/null"]);
    command.env("TERM", "xterm").current_dir(dir.path());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        return skipped("no `script`, so no terminal to draw on");
    };
    let writer = slow();
    let mut seen = String::new();
    child.stdout.take().unwrap().read_to_string(&mut seen).unwrap();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success(), "{seen}");
    assert!(seen.contains("KiB read"), "{seen}");
    assert!(seen.contains(line(&bytes, "pipe").trim_end()), "{seen}");
}

#[test]
fn a_foreign_list_commands_no_terminal() {
    let dir = folder();
    let names = ["a\u{1b}[2Jb", "c\u{202e}fdp.exe", "d\u{200b}e", "plain \u{e9}"];
    let mut list = String::new();
    for name in names {
        list += &line(b"", name);
    }
    file(dir.path(), names[3], b"");
    file(dir.path(), names[1], b"");
    file(dir.path(), "list", list.as_bytes());
    let checked = run(dir.path(), &["--check", "list"]);
    let told = stdout(&checked) + &stderr(&checked);
    assert!(told.contains("plain \u{e9}: OK"), "{told:?}");
    assert!(told.contains("c\\u{202e}fdp.exe: OK"), "{told:?}");
    assert!(told.contains("a\\u{1b}[2Jb: FAILED"), "{told:?}");
    assert!(!told.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{told:?}");
    // A written list stays byte for byte that of b3sum, and JSON has the same names escaped.
    let written = run(dir.path(), &[names[1]]);
    assert_eq!(stdout(&written), line(b"", names[1]));
    for json in [&["--json", names[1]][..], &["--json", "--check", "list"]] {
        let told = stdout(&run(dir.path(), json));
        assert!(told.contains("c\\u202efdp.exe") && !told.contains('\u{202e}'), "{told:?}");
    }
}
