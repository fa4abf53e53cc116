//! Wrong usage, pipes that close, full disks, signals and bugs, as a person or a script meets them.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const XYLEM: &str = env!("CARGO_BIN_EXE_xylem");

/// The program without environment variables that change its behaviour.
fn xylem(args: &[&str]) -> Command {
    let mut command = Command::new(XYLEM);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("XYLEM_") || name.starts_with("XDG_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    xylem(args).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One line on standard error, nothing on standard output, and this exit code.
fn assert_one_line(output: &Output, code: i32, part: &str) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("xylem: "), "{said}");
    assert!(said.contains(part), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_usage_is_one_line_and_2() {
    for (args, part) in [
        (&["frobnicate"][..], "'frobnicate'"),
        (&["receive", "xylem:a"], "type xylem get TICKET"),
        (&["recv"], "type xylem get TICKET"),
        (&["push", "x"], "type xylem share PATH"),
        (&["hash", "x"], "type xylem sum FILE"),
        (&["status"], "type xylem shares"),
        (&["send", "x"], "xylem share --code FILE"),
        (&["shre", "x"], "'share'"),
        (&["node"], "node is no verb of xylem: type xylem ndn node"),
        (&["reach"], "type xylem net reach"),
        (&["key", "request", "/org"], "request is no verb of key: type xylem ndn request"),
        (&["ndn", "reach"], "type xylem net reach"),
        (&["node", "get"], "node is no verb of xylem: type xylem ndn node"),
        (&["fetch", "get"], "fetch is no verb of xylem: type xylem get TICKET"),
        (&["ndn", "node", "--relay"], "type xylem relay"),
        (&["man", "node"], "type xylem man ndn node"),
        (&["get", "xylem:a", "--background"], "get has no --background: type --low-priority"),
        (&["mirror", "xylem:a", "s3://b", "--check"], "mirror has no --check: type --repair"),
        (&["send", "x", "ann", "--via", "h:1"], "type --node HOST:PORT"),
        (&["inbox", "--from=h:1"], "inbox has no --from: type --node HOST:PORT"),
        (&["inbox", "card", "--at", "h:1"], "type --announce HOST:PORT"),
        (&["share", "x", "--key", "k"], "type --sign ed25519:FILE"),
        (&["ndn", "put", "/a", "x", "--announce"], "type --announce-prefix"),
        (&["get", "/a", "--schema", "s", "--anchor", "c"], "type --trust CERT"),
        (&["get"], "<TICKET|CODE|NAME>...; see `xylem get --help`"),
        (&["get", "/a/name"], "--publisher, --key or --trust"),
        (&["get", "/a", "--insecure", "--key", "hmac:x"], "cannot be used with"),
        (&["get", "xylem:a", "--insecure"], "are for names"),
        (&["get", "/a", "--key", "rot13:x"], "hmac:FILE"),
        (&["ndn", "peek", "/a", "--at", "ftp://h"], "udp://"),
        (&["ndn", "put", "/a", "--sign", "rot13"], "digest-sha256"),
        (&["ndn", "ping", "/a", "--size", "5"], "--serve"),
        (&["ndn", "traffic", "/a", "--rate", "0"], "Interests a second"),
        (&["ndn", "traffic", "/a", "--window", "0"], "1..=1048576"),
        (&["ndn", "ctl", "route", "add", "/a", "b"], "udp://HOST"),
        (&["ndn", "ca", "/org", "--challenge", "dns"], "pin, email or possession"),
        (&["ndn", "ca", "/org", "--smtp", "h"], "--smtp-from"),
        (&["ndn", "request", "/org"], "--name"),
        (&["ndn", "request", "/org", "--name", "/org/a", "--ca-digest", "0a"], "64 hexadecimal"),
        (&["verify"], "<PATH|NEW_TICKET>, <TICKET>; see `xylem verify --help`"),
        (&["get", "xylem:a", "--limti", "5"], "'--limit'"),
        (&["get", "xylem:a", "--limit", "5Q"], "or 2GB; see `xylem get --help`"),
        (&["get", "xylem:a", "--limit", "0"], "never end; see `xylem get --help`"),
        (&["--quiet", "store", "gc", "--older-than", "x"], "; see `xylem store gc --help`"),
        (&["key", "--config", "x", "new"], "; see `xylem key new --help`"),
        (&["--config", "get", "verify"], "; see `xylem verify --help`"),
        (&["get", "xylem:a", "--timeout", "-5"], "seconds above 0"),
        (&["get", "xylem:a", "--range", "7..7"], "empty"),
        (&["get", "xylem:a", "--from", "ftp://h:1"], "udp://"),
        (&["get", "xylem:a", "--overwrite", "--rename"], "cannot be used with"),
        (&["share", "x", "--listen", "nowhere"], "HOST:PORT"),
        (&["share", "x", "--plain-listen", "1:2:3"], "HOST:PORT"),
        (&["share", "x", "--web-listen", "1:2:3"], "HOST:PORT"),
        (&["share", "x", "--follow", "--web"], "does not follow"),
        (&["sum", "--color", "pink"], "always"),
        (&["sum", "--tree"], "<FILE>"),
        (&["sum", "--tree", "--check", "x"], "cannot be used with"),
        (&["completions", "cmd.exe"], "bash"),
        (&["man", "frobnicate"], "frobnicate"),
        (&["sum", "a\nb", "--bogus\nflag"], "--bogus"),
        (&["--json", "get", "xylem:a", "-o", "-"], "standard output"),
    ] {
        let output = run(args);
        if args.contains(&"--json") {
            // The error is an event as well.
            assert_eq!(output.status.code(), Some(2));
            assert!(said(&output).contains(part), "{}", said(&output));
        } else {
            assert_one_line(&output, 2, part);
        }
    }
}

/// A share that is signed by another key than its user means would be worse than none.
#[test]
fn a_variable_that_named_the_signing_key_ends_a_share() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = xylem(&["--store", dir.path().to_str().unwrap(), "share", "/nowhere"]);
    let output = command.env("XYLEM_KEY", "/nowhere").stdin(Stdio::null()).output().unwrap();
    assert_one_line(&output, 2, "XYLEM_SIGN=ed25519:FILE");
}

/// As with git, restic and uv, the list of verbs is printed. It goes to standard error because no help was asked for.
#[test]
fn a_missing_verb_shows_the_help_and_is_2() {
    for (args, part) in [
        (&["ndn"][..], "Usage: xylem ndn [OPTIONS] <VERB>"),
        (&["store"], "Usage: xylem store [OPTIONS] <VERB>"),
        (&["ndn", "ctl"], "Usage: xylem ndn ctl"),
        (&["ndn", "ctl", "face"], "Usage: xylem ndn ctl face"),
    ] {
        let output = run(args);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part) && said.contains("Verbs:"), "{said}");
        assert!(output.stdout.is_empty());
    }
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(said(&output), String::from_utf8_lossy(&run(&["--help"]).stdout));
    let output = run(&["--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
}

/// A ticket is a secret: a text in its place, or a ticket in a wrong place, is named by its kind and never repeated.
#[test]
fn a_wrong_ticket_is_recognised_and_not_repeated() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let store = dir.path().join("store");
    let file = dir.path().join("ticket.txt");
    std::fs::write(&file, "xylem:secretsecret").expect("a file can be written");
    let (file, folder) = (file.to_str().expect("text"), dir.path().to_str().expect("text"));
    let pasted = "http://192.0.2.1:7380/#xylem:secretsecret";
    for (args, part) in [
        (&["get", file][..], format!("give @{file}")),
        (&["get", pasted], "behind the #".to_owned()),
        (&["ticket", pasted], "behind the #".to_owned()),
        (&["get", "xylem-sync:secretsecret"], "xylem sync DIR TICKET".to_owned()),
        (&["get", "xylem:secretsecret", "xylem:secretsecret"], "several tickets".to_owned()),
        (&["sync", folder, "xylem:secretsecret"], "for `xylem get`".to_owned()),
        (&["sync", "xylem-sync:secretsecret", folder], "the folder comes first".to_owned()),
        (&["mount", folder, "xylem:secretsecret"], "the ticket comes first".to_owned()),
    ] {
        let mut command = xylem(args);
        let output = command.env("XYLEM_STORE", &store).output().expect("the program starts");
        assert_one_line(&output, 2, &part);
        assert!(!said(&output).contains("secretsecret"), "{}", said(&output));
    }
}

/// The benchmark tables are a program of their own, which `bench` looks for beside itself and on the PATH.
#[test]
fn a_missing_bench_program_is_reported_with_advice() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let alone = dir.path().join("xylem");
    std::fs::copy(env!("CARGO_BIN_EXE_xylem"), &alone).expect("the program can be copied");
    let output = Command::new(alone).args(["bench", "hash"]).env("PATH", "").output();
    assert_one_line(&output.expect("it starts"), 2, "`cargo install --path bench`");
}

#[test]
fn settings_that_cannot_be_read() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let missing = dir.path().join("missing.toml");
    let missing = missing.to_str().expect("a temporary path is text");
    assert_one_line(&run(&["--config", missing, "sum", "/dev/null"]), 2, "--config");
    let folder = dir.path().to_str().expect("a temporary path is text");
    assert_one_line(&run(&["sum", "--config", folder, "/dev/null"]), 2, "not a file");
    let settings = dir.path().join("config.toml");
    std::fs::write(&settings, "").expect("a file can be written");
    let settings = settings.to_str().expect("a temporary path is text");
    assert_eq!(run(&["sum", "--config", settings, "--no-names"]).status.code(), Some(0));
    let output = xylem(&["sum"]).env("XYLEM_CONFIG", missing).output().expect("it starts");
    assert_one_line(&output, 2, "missing.toml");
}

#[test]
fn no_place_for_the_store() {
    let mut command = xylem(&["get", "xylem:a"]);
    command.env_remove("HOME");
    assert_one_line(&command.output().expect("it starts"), 2, "--store DIR");
}

#[test]
fn json_errors_are_events_too() {
    let output = run(&["--json", "man", "frobnicate"]);
    let line = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let event: serde_json::Value = serde_json::from_str(&line).expect("one object");
    assert_eq!(event["event"], "error");
    assert_eq!(event["exit"], 2);
    assert!(event["message"].as_str().is_some_and(|m| m.contains("frobnicate")));
}

/// A script that reads events reads no other stream, so a mistyped flag is an event as well.
#[test]
fn wrong_usage_is_an_event_as_well() {
    let by_variable = |value| {
        let mut command = xylem(&["frobnicate"]);
        command.env("XYLEM_JSON", value);
        command.output().expect("the program starts")
    };
    for output in [
        run(&["--json", "frobnicate"]),
        run(&["get", "xylem:a", "--limti", "5", "--json"]),
        run(&["ndn", "ctl", "--json"]),
        run(&["--json"]),
        by_variable("1"),
    ] {
        let text = String::from_utf8(output.stdout.clone()).expect("JSON is UTF-8");
        assert_eq!(text.lines().count(), 1, "{text}");
        let event: serde_json::Value = serde_json::from_str(&text).expect("one object");
        assert_eq!((&event["event"], &event["exit"]), (&"error".into(), &2.into()), "{event}");
        let message = event["message"].as_str().expect("a sentence");
        assert_eq!(said(&output), format!("xylem: {message}\n"));
        assert_eq!(output.status.code(), Some(2));
    }
    assert_one_line(&run(&["sum", "--bogus", "--", "--json"]), 2, "--bogus");
    assert_one_line(&by_variable("0"), 2, "frobnicate");
}

/// Each verb and group, as `xylem man --list` lists them.
fn verbs() -> Vec<String> {
    let listed = String::from_utf8(run(&["man", "--list"]).stdout).expect("names are text");
    let verbs: Vec<String> = listed.lines().map(str::to_owned).collect();
    assert!(verbs.len() > 60 && verbs.contains(&"ndn node".to_owned()), "{verbs:?}");
    assert!(verbs.contains(&"key new".to_owned()), "{verbs:?}");
    verbs
}

/// Help is text without colour unless a terminal shows it. `-h` fits a screen and has examples; `--help` has the exit
/// statuses, too, where a verb has more than one.
#[test]
fn help_has_examples_and_exit_statuses() {
    for verb in verbs() {
        for flag in ["-h", "--help"] {
            let output = run(&verb.split(' ').chain([flag]).collect::<Vec<_>>());
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(0));
            let within = [
                "key ",
                "store ",
                "inbox ",
                "service ",
                "ndn ctl ",
                "ndn schema ",
                "relay ",
                "net relay ",
            ];
            if !within.iter().any(|outer| verb.starts_with(outer)) {
                assert!(text.contains("Examples:"), "{verb}: {text}");
            }
            assert!(text.contains("xylem "), "{verb}: {text}");
            assert!(!text.contains('\x1b'), "{verb}: colour without a terminal");
            if flag == "-h" {
                assert!(text.lines().count() <= 24, "{verb}: {text}");
            } else if ["share", "get", "sum", "verify", "try", "ndn peek", "ndn ca"]
                .contains(&&*verb)
            {
                assert!(text.contains("Exit status"), "{verb}: {text}");
            }
        }
    }
    for flag in ["-h", "--help"] {
        let text = String::from_utf8(run(&[flag]).stdout).expect("help is text");
        assert!(text.lines().count() <= 24, "{text}");
        for verb in verbs().iter().filter(|verb| !verb.contains(' ')) {
            assert!(text.contains(verb), "{verb} is not in {text}");
        }
    }
    // As with git and cargo.
    assert_eq!(run(&["help", "ndn", "put"]).stdout, run(&["ndn", "put", "-h"]).stdout);
    assert_eq!(run(&["help"]).stdout, run(&["-h"]).stdout);
    let output = run(&["--color", "always", "--help"]);
    assert!(output.stdout.contains(&0x1b));
    let output = run(&["--version"]);
    assert_eq!(output.stdout, format!("xylem {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = String::from_utf8(output.stdout).expect("a script is text");
        assert!(script.contains("share") && script.contains("overwrite"), "{shell}");
        assert!(script.contains("traffic"), "{shell}");
    }
    let output = run(&["man"]);
    assert_eq!(output.status.code(), Some(0));
    let whole = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(whole.contains(".TH xylem 1") && whole.contains("xylem\\-ndn(1)"), "{whole}");
    for verb in verbs() {
        let args: Vec<&str> = ["man"].into_iter().chain(verb.split(' ')).collect();
        let page = String::from_utf8_lossy(&run(&args).stdout).into_owned();
        assert!(page.contains(&format!(".TH xylem-{} 1", verb.replace(' ', "-"))), "{page}");
        assert!(page.contains("store"), "{verb} has the common flags: {page}");
        // Each option is followed by its text.
        let lines: Vec<&str> = page.lines().collect();
        for three in lines.windows(3).filter(|three| three[0] == ".TP") {
            assert!(
                !three[2].trim().is_empty() && !three[2].starts_with(".TP"),
                "{verb}: {three:?}"
            );
        }
    }
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_quiet() {
    for args in [
        &["sum", "/dev/null"][..],
        &["man"],
        &["--help"],
        &["completions", "bash"],
        &["--json", "sum", "/dev/null"],
        &["sum", "-l", "1000000", "/dev/null"],
    ] {
        let mut child = xylem(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
        let status = child.wait().expect("it ends");
        assert_eq!(said, "", "{args:?}");
        // Not 0 if part of the work was not done; 0 if all was done before the pipe was closed.
        assert!(matches!(status.code(), Some(130 | 0)), "{args:?}: {status}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_line_and_4() {
    for args in [&["sum", "/dev/null"][..], &["man"], &["--help"], &["completions", "zsh"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("on Linux");
        let output = xylem(args).stdout(full).output().expect("it starts");
        assert_one_line(&output, 4, "No space left");
    }
}

#[cfg(unix)]
#[test]
fn standard_error_may_be_closed() {
    let mut child =
        xylem(&["sum", "/no/such/file"]).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
}

#[test]
fn missing_input_is_2() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let store = dir.path().join("store");
    let store = store.to_str().expect("a temporary path is text");
    let missing = dir.path().join("missing");
    let missing = missing.to_str().expect("a temporary path is text");
    assert_one_line(&run(&["--store", store, "share", missing]), 2, "missing");
    assert_one_line(&run(&["--store", store, "get", "not a ticket"]), 2, "ticket");
    assert_one_line(&run(&["--store", store, "sum", "--tree", missing]), 2, "missing");
    assert_one_line(&run(&["--store", store, "try", missing]), 2, "missing");
}

#[test]
fn the_trial_works_and_cleans_up() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = xylem(&["try"]);
    // The caller's settings do not apply to the trial.
    command.env("TMPDIR", dir.path()).env("XYLEM_LISTEN", "nonsense").env("XYLEM_QUIET", "0");
    let output = command.output().expect("the program starts");
    let story = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{story}{}", said(&output));
    assert!(story.contains("equal: every byte arrived"), "{story}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Sending a list that is still being typed shows each result as soon as it is known.
#[cfg(unix)]
#[test]
fn results_are_not_held_back() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    let mut child = xylem(&["sum", "--check"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    std::fs::write(dir.path().join("a"), b"").expect("a file can be written");
    let mut typed = child.stdin.take().expect("it is piped");
    // Three lines: a few are read ahead before the first is checked.
    for _ in 0..3 {
        writeln!(typed, "{empty}  a").expect("it reads");
    }
    let mut first = [0; 6];
    child.stdout.as_mut().expect("it is piped").read_exact(&mut first).expect("a line comes");
    assert_eq!(&first, b"a: OK\n");
    drop(typed);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(Path::new(XYLEM).exists());
}
