//! Sharing many things: in one process, in the background node of a user, and again after restarts.

mod common;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use common::{
    assert_exit, file, finish, get, noise, printed_root, stderr, sum, text, until, xylem,
};

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn several_paths_are_shared_at_once_with_a_ticket_each() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let tree = dir.path().join("tree");
    fs::create_dir_all(&tree).unwrap();
    file(&tree, "inside", &noise(20_000, 3));
    // The same name and other bytes, the same bytes and another name.
    fs::create_dir_all(dir.path().join("other")).unwrap();
    let paths = [
        file(dir.path(), "one.bin", &noise(300_000, 1)),
        file(&dir.path().join("other"), "one.bin", &noise(200_000, 2)),
        tree,
        file(dir.path(), "same.bin", &noise(300_000, 1)),
    ];
    let mut command = xylem(&store);
    command.args(["share", "--listen", "127.0.0.1:0"]).args(&paths);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let tickets: Vec<String> = lines.take(paths.len()).map(Result::unwrap).collect();
    let _share = Running(child);
    // From the last to the first: each is found by its own name.
    for (at, (path, ticket)) in paths.iter().zip(&tickets).enumerate().rev() {
        assert!(ticket.starts_with("xylem:"), "{ticket}");
        let out = dir.path().join(format!("out-{at}"));
        let output = get(&dir.path().join("getter"), &[ticket, "-o", text(&out)]);
        assert_exit(&output, 0);
        let (source, got) = match path.is_dir() {
            true => (path.join("inside"), out.join("inside")),
            false => (path.clone(), out),
        };
        assert!(fs::read(got).unwrap() == fs::read(&source).unwrap(), "{}", path.display());
        if path.is_file() {
            assert_eq!(printed_root(&output), sum(&source));
        }
    }
    let distinct: HashMap<_, _> = tickets.iter().map(|t| (t, ())).collect();
    assert_eq!(distinct.len(), paths.len());
}

#[test]
fn a_name_is_for_one_path() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = xylem(&dir.path().join("store"));
    command.args(["share", "--as", "/a/b", "one", "two"]).stdin(Stdio::null());
    let output = finish(command);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("--as names one PATH"), "{}", stderr(&output));
}

/// A running command, its standard output read line by line.
struct Started {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Started {
    fn new(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next event of this kind.
    fn event(&mut self, event: &str) -> serde_json::Value {
        let events = self.lines.by_ref().map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        let mut found = events.filter(|e: &serde_json::Value| e["event"] == event);
        found.next().unwrap_or_else(|| panic!("no {event} before the end"))
    }

    /// Ends it by a signal; its exit code.
    #[cfg(unix)]
    fn signal(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(
            std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success()
        );
        self.child.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A share at the places that it chooses by itself.
#[cfg(unix)]
fn share_anywhere(store: &Path, path: &Path) -> (Started, String, u16) {
    let mut command = xylem(store);
    command.args(["--json", "share"]).arg(path);
    let mut share = Started::new(command);
    let shared = share.event("shared");
    let listen = shared["listen"][0].as_str().unwrap();
    let port = listen.rsplit_once(':').unwrap().1.parse().unwrap();
    (share, shared["ticket"].as_str().unwrap().to_owned(), port)
}

/// Fetches from this machine, whatever addresses the ticket names, but at the port that it names.
#[cfg(unix)]
fn fetched_at(dir: &Path, ticket: &str, port: u16, name: &str) -> std::process::Output {
    let (out, from) = (dir.join(name), format!("127.0.0.1:{port}"));
    get(&dir.join("getter"), &[ticket, "--from", &from, "-o", text(&out)])
}

#[cfg(unix)]
#[test]
fn each_publication_keeps_its_port_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let a = file(dir.path(), "a", &noise(50_000, 1));
    let b = file(dir.path(), "b", &noise(60_000, 2));
    let (share_a, ticket_a, port_a) = share_anywhere(&store, &a);
    let (share_b, ticket_b, port_b) = share_anywhere(&store, &b);
    assert_ne!(port_a, port_b);
    assert_eq!((share_a.signal("-TERM"), share_b.signal("-TERM")), (Some(0), Some(0)));
    // In the other order: before, the one that began first took the usual port.
    let (_share_b, again_b, port) = share_anywhere(&store, &b);
    assert_eq!((port, &again_b), (port_b, &ticket_b));
    let (_share_a, again_a, port) = share_anywhere(&store, &a);
    assert_eq!((port, &again_a), (port_a, &ticket_a));
    assert_exit(&fetched_at(dir.path(), &ticket_b, port_b, "got-b"), 0);
    assert_exit(&fetched_at(dir.path(), &ticket_a, port_a, "got-a"), 0);
}

#[test]
fn the_sharer_is_told_who_has_fetched_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "film.mkv", &noise(3_000_000, 9));
    let mut command = xylem(&dir.path().join("store"));
    command.args(["share", "--listen", "127.0.0.1:0"]).arg(&source);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let ticket = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let _share = Running(child);
    let mut told = || {
        let mut lines = said.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(" all of ")).expect("it goes on")
    };
    let (store, out) = (dir.path().join("getter"), dir.path().join("out"));
    // A range is not all of it, and says nothing.
    assert_exit(&get(&store, &[&ticket, "--range", "0..1000", "-o", "-"]), 0);
    assert_exit(&get(&store, &[&ticket, "-o", text(&out)]), 0);
    let line = told();
    assert!(line.contains(" fetched all of film.mkv (2.86 MiB in "), "{line}");
    // As events, too; a second getter is told of once more.
    assert_exit(&get(&store, &[&ticket, "-o", text(&dir.path().join("second"))]), 0);
    assert!(told().contains(" fetched all of film.mkv "));
}

/// A background node with its store, on loopback.
#[cfg(unix)]
struct Service {
    dir: tempfile::TempDir,
    running: Option<Started>,
    port: Option<String>,
}

#[cfg(unix)]
impl Service {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut service = Self { dir, running: None, port: None };
        service.again(&[]);
        service
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// Starts it, at the port where it was.
    fn again(&mut self, more: &[&str]) {
        let at = format!("127.0.0.1:{}", self.port.as_deref().unwrap_or("0"));
        let mut command = xylem(&self.store());
        command.args(["--json", "service", "run", "--listen", &at]).args(more);
        let mut running = Started::new(command);
        let uri = running.event("listening")["uri"].as_str().unwrap().to_owned();
        self.port = Some(uri.rsplit_once(':').unwrap().1.to_owned());
        self.running = Some(running);
        // It answers before it has looked at what it shared before.
        until("the service answers", || {
            let mut command = xylem(&self.store());
            command.args(["service", "status"]);
            finish(command).status.code() == Some(0)
        });
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = xylem(&self.store());
        command.args(arguments).stdin(Stdio::null()).current_dir(self.dir.path());
        finish(command)
    }

    /// What `shares --json` has, when all of it is served or known not to be.
    fn shares(&self) -> Vec<serde_json::Value> {
        let mut rows = Vec::new();
        until("every share is looked at", || {
            let output = self.run(&["--json", "shares"]);
            assert_exit(&output, 0);
            let text = String::from_utf8(output.stdout).unwrap();
            rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            !rows.iter().any(|row: &serde_json::Value| row["why"] == "it is being looked at")
        });
        rows
    }

    fn ticket(&self, path: &Path) -> String {
        let output = self.run(&["share", text(path)]);
        assert_exit(&output, 0);
        assert!(stderr(&output).contains("Served in the background"), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn get(&self, ticket: &str, name: &str) -> std::process::Output {
        let out = self.dir.path().join(name);
        get(&self.dir.path().join("getter"), &[ticket, "-o", text(&out)])
    }
}

#[cfg(unix)]
#[test]
fn what_is_handed_over_is_served_again_after_a_kill() {
    let mut service = Service::start();
    let dir = service.dir.path().to_path_buf();
    let a = file(&dir, "a.bin", &noise(400_000, 1));
    let b = file(&dir, "b.bin", &noise(400_000, 1));
    let (ticket_a, ticket_b) = (service.ticket(&a), service.ticket(&b));
    assert_ne!(ticket_a, ticket_b, "the same bytes under two names");
    // Relative paths are those of whoever asks; a path shared again is the same share.
    let output = service.run(&["share", "a.bin", "b.bin"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{ticket_a}\n{ticket_b}\n"));
    assert_exit(&service.get(&ticket_a, "got-a"), 0);
    // Killed as by a loss of power; the socket that is left is nobody's.
    assert_eq!(service.running.take().unwrap().signal("-KILL"), None);
    assert_eq!(service.run(&["service", "status"]).status.code(), Some(3));
    let output = service.run(&["shares"]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("does not run"), "{}", stderr(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
    service.again(&[]);
    let rows = service.shares();
    let paths: Vec<_> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [text(&a), text(&b)]);
    assert_eq!(rows[1]["ticket"], *ticket_b);
    assert_exit(&service.get(&ticket_b, "got-b"), 0);
    assert_exit(&service.get(&ticket_a, "got-a2"), 0);
    assert!(fs::read(dir.join("got-b")).unwrap() == fs::read(&b).unwrap());
    // A second one of the same store ends at once.
    let output = service.run(&["service", "run", "--listen", "127.0.0.1:0"]);
    assert_exit(&output, 4);
    assert!(stderr(&output).contains("runs already"), "{}", stderr(&output));
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
}

#[cfg(unix)]
#[test]
fn shares_says_how_much_was_served_and_unshare_ends_it() {
    let mut service = Service::start();
    let dir = service.dir.path().to_path_buf();
    let path = file(&dir, "data", &noise(500_000, 4));
    let ticket = service.ticket(&path);
    assert_exit(&service.get(&ticket, "one"), 0);
    assert_exit(&service.get(&ticket, "two"), 0);
    until("both are counted", || service.shares()[0]["fetched"] == 2);
    let row = service.shares().remove(0);
    assert!(row["sent"].as_u64().unwrap() > 1_000_000 && row["served"] == true, "{row}");
    assert!(row["peers"].as_u64().unwrap() >= 2 && row["bytes"] == 500_000, "{row}");
    // It is remembered.
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
    service.again(&[]);
    assert_eq!(service.shares()[0]["fetched"], 2);
    let shown = service.run(&["shares"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("fetched 2") && shown.contains(text(&path)), "{shown}");
    let output = service.run(&["shares", "--tickets", "data"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), ticket);
    // By its id; then nobody has it, and the file is as it was.
    let id = row["id"].as_str().unwrap();
    assert_exit(&service.run(&["unshare", id]), 0);
    assert!(service.shares().is_empty());
    assert_eq!(fs::read(&path).unwrap().len(), 500_000);
    let output = service.get(&ticket, "three");
    assert_exit(&output, 3);
    let output = service.run(&["unshare", "data"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("not shared"), "{}", stderr(&output));
    // What needs its own sockets is served as ever.
    let mut command = xylem(&service.store());
    command.args(["--json", "share", "--foreground", "--listen", "127.0.0.1:0"]).arg(&path);
    let mut share = Started::new(command);
    share.event("shared");
    assert!(service.shares().is_empty());
    // What is not there is the asker's mistake.
    let output = service.run(&["share", "nothing-here"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("nothing-here"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn what_has_vanished_stays_in_the_list_and_says_why() {
    let mut service = Service::start();
    let dir = service.dir.path().to_path_buf();
    let (here, gone) = (file(&dir, "here", b"here"), file(&dir, "gone", b"gone"));
    let (ticket, _) = (service.ticket(&here), service.ticket(&gone));
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
    fs::remove_file(&gone).unwrap();
    service.again(&[]);
    let rows = service.shares();
    assert_eq!(rows[0]["served"], true);
    assert_eq!(rows[1]["served"], false);
    assert!(rows[1]["why"].as_str().unwrap().contains("gone"), "{}", rows[1]);
    assert_exit(&service.get(&ticket, "got"), 0);
    assert_exit(&service.run(&["unshare", text(&gone)]), 0);
    assert_eq!(service.shares().len(), 1);
    // Without the node, the list can be changed as well.
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
    assert_exit(&service.run(&["unshare", "here"]), 0);
    let output = service.run(&["--json", "shares"]);
    assert_eq!(output.stdout, b"");
}

#[cfg(unix)]
#[test]
fn the_socket_is_for_its_user_alone_and_survives_rubbish() {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    let service = Service::start();
    let folder = service.store().join("service");
    let socket = folder.join("control.sock");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&socket)), (0o700, 0o600));
    let mut open = Vec::new();
    for rubbish in [&b"\xff\xfe\n"[..], b"{}\n", b"[[[[[[\n", b"", &[b'['; 100_000], b"{\"do\":\"s"]
    {
        let mut connection = UnixStream::connect(&socket).unwrap();
        // A long one may be cut off before its end.
        let _ = connection.write_all(rubbish);
        if rubbish.ends_with(b"\n") {
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            assert!(answer.contains("\"failed\""), "{answer}");
        }
        open.push(connection);
    }
    assert!(service.shares().is_empty());
}

#[cfg(unix)]
#[test]
fn metrics_are_shown_on_loopback() {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    let mut service = Service::start();
    let path = file(service.dir.path(), "da\"ta", &noise(100_000, 5));
    let ticket = service.ticket(&path);
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    service.again(&["--metrics", &port.to_string()]);
    assert!(service.shares()[0]["served"] == true);
    assert_exit(&service.get(&ticket, "got"), 0);
    let ask = |request: &str| {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut page = String::new();
        connection.read_to_string(&mut page).unwrap();
        page
    };
    let mut page = String::new();
    until("the fetch is counted", || {
        page = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        page.lines().any(|l| l.starts_with("xylem_share_fetched_total{") && l.ends_with(" 1"))
    });
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("\nxylem_shares 1\n") && page.contains("\nxylem_shares_served 1\n"));
    let sent = page.lines().find(|l| l.starts_with("xylem_share_sent_bytes_total{")).unwrap();
    assert!(sent.contains("/da\\\"ta\"}"), "{sent}");
    assert!(sent.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap() > 100_000, "{sent}");
    assert!(ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405 "));
}

/// While a large path is hashed, others fetch.
#[cfg(unix)]
#[test]
fn hashing_does_not_keep_others_waiting() {
    let service = Service::start();
    let small = file(service.dir.path(), "small", &noise(100_000, 6));
    let ticket = service.ticket(&small);
    // A pipe in a directory's place would be refused at once; many files take their time.
    let large = service.dir.path().join("large");
    fs::create_dir_all(&large).unwrap();
    let block = noise(1 << 20, 7);
    for i in 0..192_u32 {
        let mut content = block.clone();
        content[..4].copy_from_slice(&i.to_le_bytes());
        file(&large, &format!("{i}"), &content);
    }
    let mut command = xylem(&service.store());
    command.args(["--json", "share"]).arg(&large);
    let mut share = Started::new(command);
    let mut fetches = 0;
    let ended = loop {
        assert_exit(&service.get(&ticket, &format!("got-{fetches}")), 0);
        fetches += 1;
        if let Some(status) = share.child.try_wait().unwrap() {
            break status;
        }
    };
    assert!(ended.success());
    assert!(share.event("shared")["bytes"] == 192 << 20);
    assert!(fetches >= 1);
}

/// What `service install` writes, as systemd sees it.
#[cfg(unix)]
#[test]
fn the_unit_is_sound_and_sandboxed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("a store");
    let mut command = xylem(&store);
    command.env("XDG_CONFIG_HOME", dir.path().join("config"));
    command.args(["service", "install", "--no-start", "--metrics", "9700"]);
    let output = finish(command);
    assert_exit(&output, 0);
    let unit = dir.path().join("config/systemd/user/xylem.service");
    let text = fs::read_to_string(&unit).unwrap();
    let start = format!(" --store \"{}\" service run --metrics \"9700\"\n", store.display());
    assert!(text.contains(&start), "{text}");
    assert!(text.contains("\nProtectSystem=strict\n"), "{text}");
    let analyze = |arguments: &[&str]| {
        let mut command = std::process::Command::new("systemd-analyze");
        command.args(arguments).arg(&unit).env("XDG_RUNTIME_DIR", dir.path()).output()
    };
    match analyze(&["verify", "--user", "--man=no"]) {
        Err(_) => println!("SKIPPED: systemd-analyze is not here"),
        Ok(verified) => {
            // It says nothing of a unit that it has nothing against.
            let said = String::from_utf8_lossy(&verified.stderr).into_owned();
            assert!(!said.contains("xylem.service"), "{said}");
            let rated =
                analyze(&["security", "--user", "--offline=true", "--threshold=65"]).unwrap();
            let said = String::from_utf8_lossy(&rated.stdout);
            assert!(rated.status.success(), "{said}{}", stderr(&rated));
        }
    }
    let mut command = xylem(&store);
    command.env("XDG_CONFIG_HOME", dir.path().join("config")).args(["service", "remove"]);
    assert_exit(&finish(command), 0);
    assert!(!unit.exists());
    // Where systemd does not run, it says so and writes nothing.
    if !Path::new("/run/systemd/system").exists() {
        let mut command = xylem(&store);
        command.env("XDG_CONFIG_HOME", dir.path().join("config")).args(["service", "install"]);
        let output = finish(command);
        assert_exit(&output, 4);
        assert!(stderr(&output).contains("does not run systemd"), "{}", stderr(&output));
        assert!(!unit.exists());
    }
}

/// What packages install for the system's node, as systemd sees it.
#[test]
fn the_system_unit_is_sandboxed_and_not_root() {
    let unit = include_str!("../../../packaging/xylem.service");
    assert!(unit.contains("\nUser=xylem\nDynamicUser=yes\n"), "{unit}");
    let dir = tempfile::tempdir().unwrap();
    // The program lies elsewhere here.
    let installed = unit.replace("/usr/bin/xylem", common::XYLEM);
    let path = file(dir.path(), "xylem.service", installed.as_bytes());
    let analyze = |arguments: &[&str]| {
        std::process::Command::new("systemd-analyze").args(arguments).arg(&path).output()
    };
    match analyze(&["verify", "--man=no"]) {
        Err(_) => println!("SKIPPED: systemd-analyze is not here"),
        Ok(verified) => {
            let said = stderr(&verified);
            assert!(!said.contains("xylem.service"), "{said}");
            let rated = analyze(&["security", "--offline=true", "--threshold=30"]).unwrap();
            let said = String::from_utf8_lossy(&rated.stdout);
            assert!(rated.status.success(), "{said}{}", stderr(&rated));
        }
    }
}
