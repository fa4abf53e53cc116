//! `-vv` and `XYLEM_LOG`: what is logged, and what never is.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common;
use crate::common::{assert_exit, file, finish, noise, stderr, text, until, xylem};

fn logging(store: &Path) -> Command {
    let mut command = xylem(store);
    command.env("XYLEM_LOG", "trace").stdin(Stdio::null());
    command
}

/// Every file below a directory of keys.
fn secrets(dir: &Path, into: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path: PathBuf = entry.path();
        match path.is_dir() {
            true => secrets(&path, into),
            false => into.push(fs::read(path).expect("is readable")),
        }
    }
}

#[test]
fn the_log_has_faces_and_never_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let shared = file(dir.path(), "f", &noise(300_000, 1));
    let log = dir.path().join("share.log");
    let mut share = logging(&ours);
    share.args(["--json", "share", "--listen", "127.0.0.1:0", text(&shared)]);
    share.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let mut share = share.spawn().expect("the program starts");
    let mut lines = BufReader::new(share.stdout.take().expect("piped")).lines();
    let told = lines.by_ref().map_while(Result::ok).find(|line| line.contains("\"shared\""));
    let told: serde_json::Value = serde_json::from_str(&told.expect("a ticket")).unwrap();
    let ticket = told["ticket"].as_str().expect("text").to_owned();

    let mut get = logging(&theirs);
    get.args(["-q", "get", &ticket, "-o", text(&dir.path().join("out"))]);
    let got = finish(get);
    assert_exit(&got, 0);
    until("the end of the link", || fs::read_to_string(&log).unwrap().contains("face is gone"));
    share.kill().unwrap();
    share.wait().unwrap();

    let logs = stderr(&got) + &fs::read_to_string(&log).unwrap();
    for what in ["dialling", "face is up", "fetching", "sharing", "DEBUG xylem_engine"] {
        assert!(logs.contains(what), "{what}: {logs}");
    }
    let (_, body) = ticket.split_once(':').expect("a scheme");
    assert!(!logs.contains(body), "a ticket is a capability");
    let mut keys = Vec::new();
    secrets(&ours.join("keys"), &mut keys);
    secrets(&theirs.join("keys"), &mut keys);
    assert!(keys.len() >= 2, "publisher and link");
    for key in keys {
        let hex: String = key.iter().map(|b| format!("{b:02x}")).collect();
        let lower = logs.to_lowercase();
        assert!(!lower.contains(&hex) && !lower.contains(&hex[..32]), "{hex}");
        assert!(!logs.as_bytes().windows(key.len()).any(|bytes| bytes == key), "raw");
        assert!(!logs.contains(&format!("{key:?}")), "as a list of numbers");
    }
}

#[test]
fn nothing_is_logged_unless_asked_and_nonsense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let get = |more: &[&str], level: &str| {
        let mut command = xylem(&dir.path().join("store"));
        command.env("XYLEM_LOG", level).stdin(Stdio::null()).args(more);
        // A ticket of a publisher that does not run.
        command.args(["verify", text(&file(dir.path(), "f", b"x")), "nonsense"]);
        finish(command)
    };
    let quiet = get(&[], "");
    assert_exit(&quiet, 2);
    assert_eq!(stderr(&quiet).lines().count(), 1, "{}", stderr(&quiet));
    let refused = get(&[], "loud");
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("XYLEM_LOG"), "{}", stderr(&refused));
}

#[test]
fn the_log_can_be_json_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = logging(&dir.path().join("store"));
    command.args(["-q", "--log-format", "json", "get", "xylem:x", "-o", "-"]);
    assert_exit(&finish(command), 2);
    let shared = file(dir.path(), "f", b"something");
    let mut share = logging(&dir.path().join("store"));
    share.args(["-q", "--log-format", "json", "share", "--listen", "127.0.0.1:0", text(&shared)]);
    let mut share = share.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(share.stderr.take().expect("piped")).lines();
    let rows = lines.map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
    let row = rows.into_iter().find(|row| row["message"] == "sharing").expect("it is logged");
    share.kill().unwrap();
    share.wait().unwrap();
    assert!(row["level"] == "INFO" && row["size"] == 9, "{row}");
    assert!(row["target"].as_str().unwrap().starts_with("xylem_node::share"), "{row}");
    assert!(row["time_ms"].as_u64().unwrap() > 1_700_000_000_000, "{row}");
}

/// With a JSON log all of standard error is JSON: a supervisor reads one object a line.
#[test]
fn with_a_json_log_all_of_standard_error_is_json() {
    let dir = tempfile::tempdir().unwrap();
    let shared = file(dir.path(), "f", &noise(300_000, 1));
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let mut share = xylem(&ours);
    share.args(["--log-format", "json", "-v", "share", "--listen", "127.0.0.1:0", text(&shared)]);
    let log = dir.path().join("share.log");
    share.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut share = share.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
    let ticket = BufReader::new(share.stdout.take().expect("piped")).lines().next();
    let ticket = ticket.unwrap().unwrap();
    let rows = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    };
    let mut get = xylem(&theirs);
    get.args(["--log-format", "json", "get", &ticket, "-o", text(&dir.path().join("out"))]);
    get.stdin(Stdio::null()).env("XYLEM_COLOR", "always");
    let got = finish(get);
    assert_exit(&got, 0);
    assert!(!rows(&stderr(&got)).is_empty());
    until("it is told", || fs::read_to_string(&log).unwrap().contains("fetched all of"));
    share.kill().unwrap();
    share.wait().unwrap();
    let said = rows(&fs::read_to_string(&log).unwrap());
    let told = |what: &str| {
        said.iter().any(|row| row["message"].as_str().is_some_and(|message| message.contains(what)))
    };
    assert!(told("Serving until Ctrl-C") && told("fetched all of"), "{said:?}");
    // The error that ends a run is JSON, too.
    let mut wrong = xylem(&theirs);
    wrong.args(["--log-format", "json", "get", "xylem:x"]).stdin(Stdio::null());
    let wrong = finish(wrong);
    assert_exit(&wrong, 2);
    let rows = rows(&stderr(&wrong));
    assert_eq!((rows.len(), &rows[0]["level"]), (1, &"ERROR".into()), "{rows:?}");
}

/// A wrong command line is reported before its flags are known as a whole.
#[test]
fn with_a_json_log_wrong_usage_is_json() {
    let dir = tempfile::tempdir().unwrap();
    for (words, variable) in [
        (&["--log-format", "json", "get"][..], None),
        (&["get", "xylem:a", "--limit", "5Q", "--log-format=json"], None),
        (&["frobnicate"], Some("json")),
        (&[], Some("json")),
        (&["ndn", "ctl"], Some("json")),
    ] {
        let mut command = xylem(dir.path());
        command.args(words).stdin(Stdio::null());
        variable.into_iter().for_each(|format| {
            command.env("XYLEM_LOG_FORMAT", format);
        });
        let output = finish(command);
        assert_exit(&output, 2);
        let text = stderr(&output);
        let row: serde_json::Value = serde_json::from_str(&text).expect(&text);
        assert_eq!(row["level"], "ERROR", "{words:?}");
    }
}

/// `--no-progress` applies to JSON events, too.
#[test]
fn without_progress_there_are_no_progress_events() {
    let dir = tempfile::tempdir().unwrap();
    let shared = file(dir.path(), "f", &noise(3_000_000, 1));
    let share = common::Share::start(&shared, &dir.path().join("ours"));
    for (flag, some) in [("--no-progress", false), ("-v", true)] {
        let mut get = xylem(&dir.path().join(flag));
        let out = dir.path().join(format!("out{flag}"));
        get.args(["--json", flag, "get", &share.ticket, "--limit", "1M", "-o", text(&out)])
            .stdin(Stdio::null());
        let got = finish(get);
        assert_exit(&got, 0);
        let events = String::from_utf8(got.stdout).unwrap();
        let steps =
            events.contains("\"event\":\"progress\"") || events.contains("\"event\":\"hashing\"");
        assert_eq!(steps, some, "{events}");
        assert!(events.contains("\"event\":\"done\""), "{events}");
    }
}
