//! Sharing many things: in one process, in the background node of a user, and again after restarts.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::common;
use crate::common::{
    assert_exit, file, finish, get, noise, printed_root, stderr, sum, text, until, xylem,
};

/// A process that is killed when dropped.
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

    /// Ends it by a signal; returns its exit code.
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

/// A share at the ports that it chooses by itself.
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

/// Fetches from this machine at the ticket's port, whatever addresses the ticket names.
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
    // In the other order: before, the first one took the usual port.
    let (_share_b, again_b, port) = share_anywhere(&store, &b);
    assert_eq!((port, &again_b), (port_b, &ticket_b));
    let (_share_a, again_a, port) = share_anywhere(&store, &a);
    assert_eq!((port, &again_a), (port_a, &ticket_a));
    assert_exit(&fetched_at(dir.path(), &ticket_b, port_b, "got-b"), 0);
    assert_exit(&fetched_at(dir.path(), &ticket_a, port_a, "got-a"), 0);
}

#[test]
fn a_complete_fetch_is_reported_to_the_sharer() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "film.mkv", &noise(3_000_000, 9));
    let mut command = xylem(&dir.path().join("store"));
    command.args(["share", "--listen", "127.0.0.1:0"]).arg(&source);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let ticket = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let _share = Running(child);
    let mut told = |what: &str| {
        let mut lines = said.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(what)).expect("it goes on")
    };
    let (store, out) = (dir.path().join("getter"), dir.path().join("out"));
    // A range is not all of it: its line states how much was sent.
    assert_exit(&get(&store, &[&ticket, "--range", "0..1000", "-o", "-"]), 0);
    told(" fetches film.mkv over the local network");
    let line = told(" has ended: ");
    assert!(line.contains(" of film.mkv sent over the local network in "), "{line}");
    assert_exit(&get(&store, &[&ticket, "-o", text(&out)]), 0);
    let line = told(" all of ");
    assert!(line.contains(" fetched all of film.mkv (2.86 MiB in "), "{line}");
    // As events, too; a second getter is reported once more.
    assert_exit(&get(&store, &[&ticket, "-o", text(&dir.path().join("second"))]), 0);
    assert!(told(" all of ").contains(" fetched all of film.mkv "));
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

    /// Starts it at its former port.
    fn again(&mut self, more: &[&str]) {
        let at = format!("127.0.0.1:{}", self.port.as_deref().unwrap_or("0"));
        let mut command = xylem(&self.store());
        command.args(["--json", "service", "run", "--listen", &at]).args(more);
        let mut running = Started::new(command);
        let uri = running.event("listening")["uri"].as_str().unwrap().to_owned();
        self.port = Some(uri.rsplit_once(':').unwrap().1.to_owned());
        self.running = Some(running);
        // It answers before it has scanned its former shares.
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

    /// Rows of `shares --json`, once each is either served or known not to be.
    fn shares(&self) -> Vec<serde_json::Value> {
        let mut rows = Vec::new();
        until("every share is looked at", || {
            let output = self.run(&["--json", "shares"]);
            assert_exit(&output, 0);
            let text = String::from_utf8(output.stdout).unwrap();
            rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            !rows.iter().any(|row: &serde_json::Value| row["why"] == "it is being checked")
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
fn background_shares_are_served_again_after_a_kill() {
    let mut service = Service::start();
    let dir = service.dir.path().to_path_buf();
    let a = file(&dir, "a.bin", &noise(400_000, 1));
    let b = file(&dir, "b.bin", &noise(400_000, 1));
    let (ticket_a, ticket_b) = (service.ticket(&a), service.ticket(&b));
    assert_ne!(ticket_a, ticket_b, "the same bytes under two names");
    // Relative paths are those of the calling process; a path shared again is the same share.
    let output = service.run(&["share", "a.bin", "b.bin"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{ticket_a}\n{ticket_b}\n"));
    assert_exit(&service.get(&ticket_a, "got-a"), 0);
    // Killed as by a loss of power; the remaining socket has no owner.
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
    // A second node of the same store ends at once.
    let output = service.run(&["service", "run", "--listen", "127.0.0.1:0"]);
    assert_exit(&output, 4);
    assert!(stderr(&output).contains("runs already"), "{}", stderr(&output));
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
}

/// The port was also the path's last one: a share must not take it, or the node could not start.
#[cfg(unix)]
#[test]
fn a_share_leaves_the_port_of_the_background_node_free() {
    let mut service = Service::start();
    let dir = service.dir.path().to_path_buf();
    let path = file(&dir, "data", &noise(50_000, 6));
    let ticket = service.ticket(&path);
    assert_eq!(service.running.take().unwrap().signal("-KILL"), None);
    let mut command = xylem(&service.store());
    command.args(["--json", "share", "--foreground", "--listen", "127.0.0.1:0"]).arg(&path);
    let mut share = Started::new(command);
    share.event("shared");
    service.again(&[]);
    assert_exit(&service.get(&ticket, "got"), 0);
}

#[cfg(unix)]
#[test]
fn shares_shows_bytes_served_and_unshare_ends_a_share() {
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
    // The list survives a restart.
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
    service.again(&[]);
    assert_eq!(service.shares()[0]["fetched"], 2);
    let shown = service.run(&["shares"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("fetched 2") && shown.contains(text(&path)), "{shown}");
    let output = service.run(&["shares", "--tickets", "data"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), ticket);
    // By its id; then it is not served, and the file is unchanged.
    let id = row["id"].as_str().unwrap();
    assert_exit(&service.run(&["unshare", id]), 0);
    assert!(service.shares().is_empty());
    assert_eq!(fs::read(&path).unwrap().len(), 500_000);
    let output = service.get(&ticket, "three");
    assert_exit(&output, 3);
    let output = service.run(&["unshare", "data"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("not shared"), "{}", stderr(&output));
    // A share that needs its own sockets runs in the foreground as before.
    let mut command = xylem(&service.store());
    command.args(["--json", "share", "--foreground", "--listen", "127.0.0.1:0"]).arg(&path);
    let mut share = Started::new(command);
    share.event("shared");
    assert!(service.shares().is_empty());
    // A missing path is the caller's mistake.
    let output = service.run(&["share", "nothing-here"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("nothing-here"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn unshare_ends_a_path_s_shares_and_lists_others() {
    let mut service = Service::start();
    let dir = service.dir.path().to_path_buf();
    let tree = dir.join("tree");
    fs::create_dir_all(&tree).unwrap();
    let path = file(&tree, "secret", &noise(50_000, 3));
    let first = service.ticket(&path);
    let output = service.run(&["share", text(&path), "--as", "/me/secret"]);
    assert_exit(&output, 0);
    let second = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let whole = service.ticket(&tree);
    // The list distinguishes them, and each has an id.
    let shown = String::from_utf8(service.run(&["shares"]).stdout).unwrap();
    assert_eq!(shown.lines().filter(|line| line.contains(" as /me/secret")).count(), 1, "{shown}");
    let names: Vec<_> = service.shares().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names[1], "/me/secret");
    assert_eq!(names[0], serde_json::Value::Null);
    let output = service.run(&["unshare", text(&path)]);
    assert_exit(&output, 0);
    let said = stderr(&output);
    assert_eq!(said.matches("is no longer shared").count(), 2, "{said}");
    assert!(said.contains("is still shared by") && said.contains(text(&tree)), "{said}");
    assert_exit(&service.get(&first, "one"), 3);
    assert_exit(&service.get(&second, "two"), 3);
    assert_exit(&service.get(&whole, "three"), 0);
    // One of two ends by its id; without a running node, too.
    service.ticket(&path);
    assert_exit(&service.run(&["share", text(&path), "--as", "/me/secret"]), 0);
    let id = service.shares()[1]["id"].as_str().unwrap().to_owned();
    assert_exit(&service.run(&["unshare", &id]), 0);
    assert_eq!(service.shares().len(), 2);
    assert_exit(&service.run(&["share", text(&path), "--as", "/me/secret"]), 0);
    assert_exit(&service.run(&["share", text(&path)]), 0);
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
    let output = service.run(&["--json", "unshare", text(&path)]);
    assert_exit(&output, 0);
    let ended = String::from_utf8(output.stdout).unwrap();
    assert_eq!(ended.matches("\"event\":\"unshared\"").count(), 2, "{ended}");
    service.again(&[]);
    assert_eq!(service.shares().len(), 1);
}

/// Exclusions and recipients of a share are handed over and hold in every later run, whatever options another share of
/// the same path has meanwhile.
#[cfg(unix)]
#[test]
fn restrictions_of_a_share_are_handed_over_and_kept() {
    let mut service = Service::start();
    let dir = service.dir.path().to_path_buf();
    let tree = dir.join("tree");
    fs::create_dir_all(&tree).unwrap();
    file(&tree, "public", &noise(20_000, 1));
    file(&tree, "secret", &noise(20_000, 2));
    let all = service.ticket(&tree);
    // In place of the earlier share.
    let output = service.run(&["share", text(&tree), "--exclude", "secret"]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("Served in the background"), "{}", stderr(&output));
    assert_eq!(service.shares().len(), 1);
    assert_exit(&service.get(&all, "all"), 3);
    let part = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_exit(&service.get(&part, "part"), 0);
    assert!(dir.join("part/public").exists() && !dir.join("part/secret").exists());
    // A share of all of it by another process: a line reports that the first one goes on.
    let mut command = xylem(&service.store());
    command.args(["--json", "share", "--listen", "127.0.0.1:0", "--no-exclude"]).arg(&tree);
    let mut other = Started::new(command);
    let trouble = other.event("trouble");
    let id = service.shares()[0]["id"].as_str().unwrap().to_owned();
    let what = trouble["what"].as_str().unwrap();
    assert!(what.contains(&format!("`xylem unshare {id}` ends that")), "{what}");
    other.event("shared");
    drop(other);
    assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
    service.again(&[]);
    let rows = service.shares();
    assert_eq!(rows[0]["exclude"], serde_json::json!(["secret"]));
    let again = rows[0]["ticket"].as_str().unwrap().to_owned();
    assert_exit(&service.get(&again, "again"), 0);
    assert!(!dir.join("again/secret").exists());
    // For one reader: the ticket alone no longer suffices. A getter without the key is refused with a line, after a
    // restart as well.
    let bob = dir.join("bob");
    let mut command = xylem(&bob);
    command.args(["inbox", "card"]).stdin(Stdio::null());
    let card = finish(command);
    let card = String::from_utf8(card.stdout).unwrap().trim().to_owned();
    let output = service.run(&["share", text(&tree), "--for", &card]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("is shared with 1 reader alone now"), "{}", stderr(&output));
    let sealed = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_exit(&service.get(&again, "open"), 3);
    for restart in [false, true] {
        if restart {
            assert_eq!(service.running.take().unwrap().signal("-TERM"), Some(0));
            service.again(&[]);
        }
        let rows = service.shares();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0]["recipients"].as_array().unwrap().len(), 1);
        assert_eq!(rows[0]["ticket"], *sealed);
        let stranger = service.get(&sealed, &format!("stranger-{restart}"));
        assert_ne!(stranger.status.code(), Some(0), "{}", stderr(&stranger));
        let out = dir.join(format!("bobs-{restart}"));
        assert_exit(&get(&bob, &[&sealed, "-o", text(&out)]), 0);
        assert!(out.join("public").exists() && !out.join("secret").exists());
    }
}

/// One port asks one router: a share that must not ask the router is not served by a node that does, now or later.
#[cfg(unix)]
#[test]
fn a_share_without_the_router_is_not_taken_over_by_a_node_that_asks_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, path) = (dir.path().join("store"), file(dir.path(), "data", b"data"));
    let run = |map: bool| {
        let mut command = xylem(&store);
        command.args(["--json", "service", "run", "--listen", "127.0.0.1:0"]);
        if map {
            command.env_remove("XYLEM_NO_MAP");
        }
        let mut running = Started::new(command);
        running.event("listening");
        running
    };
    let ask = |arguments: &[&str]| {
        let mut command = xylem(&store);
        command.args(arguments).stdin(Stdio::null());
        finish(command)
    };
    let rows = || {
        let mut rows: Vec<serde_json::Value> = Vec::new();
        until("they are looked at", || {
            let output = ask(&["--json", "shares"]);
            let text = String::from_utf8(output.stdout).unwrap();
            rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            !rows.iter().any(|row| row["why"] == "it is being checked")
        });
        rows
    };
    let asking = run(true);
    until("it answers", || ask(&["service", "status"]).status.success());
    let mut command = xylem(&store);
    command.args(["--json", "share", "--no-map"]).arg(&path);
    let mut itself = Started::new(command);
    itself.event("shared");
    assert!(rows().is_empty());
    drop(itself);
    drop(asking);
    let silent = run(false);
    until("it answers", || ask(&["service", "status"]).status.success());
    assert_exit(&ask(&["share", "--no-map", text(&path)]), 0);
    assert_eq!(rows()[0]["served"], true);
    drop(silent);
    let _asking = run(true);
    until("it answers", || ask(&["service", "status"]).status.success());
    let row = rows().remove(0);
    assert_eq!(row["served"], false);
    assert!(row["why"].as_str().unwrap().contains("--no-map"), "{row}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_service_listens_where_it_was_asked_to_last() {
    let dir = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let mut command = xylem(&dir.path().join("store"));
        command.args(["--json", "service", "run"]).args(more);
        let mut running = Started::new(command);
        let uri = running.event("listening")["uri"].as_str().unwrap().to_owned();
        assert_eq!(running.signal("-TERM"), Some(0));
        uri
    };
    let first = run(&["--listen", "127.0.0.1:0"]);
    assert!(first.contains("//127.0.0.1:") || first.contains("@127.0.0.1:"), "{first}");
    assert_eq!(run(&[]), first);
    let other = run(&["--listen", "127.0.0.2"]);
    assert!(other.contains("127.0.0.2:"), "{other}");
    assert_eq!(run(&[]), other);
}

/// Edited or removed files are no longer served, and every report on what is served shows that.
#[cfg(unix)]
#[test]
fn edited_or_removed_files_are_not_listed_as_served() {
    let service = Service::start();
    let dir = service.dir.path().to_path_buf();
    let tree = dir.join("tree");
    fs::create_dir_all(&tree).unwrap();
    let (file_in, other) = (file(&tree, "a", b"one"), file(&tree, "b", b"two"));
    let single = file(&dir, "single", b"three");
    service.ticket(&tree);
    let ticket = service.ticket(&single);
    assert!(service.shares().iter().all(|row| row["served"] == true));
    fs::write(&file_in, b"other").unwrap();
    let rows = service.shares();
    assert_eq!((&rows[0]["served"], &rows[1]["served"]), (&false.into(), &true.into()));
    assert!(rows[0]["why"].as_str().unwrap().contains(text(&file_in)), "{}", rows[0]);
    fs::remove_file(&other).unwrap();
    let away = dir.join("away");
    fs::rename(&single, &away).unwrap();
    let rows = service.shares();
    assert!(rows.iter().all(|row| row["served"] == false && row["why"].is_string()), "{rows:?}");
    let shown = service.run(&["shares"]);
    assert!(stderr(&shown).contains("not served as it was shared"), "{}", stderr(&shown));
    // Shared again it is served again, at once; a restored file is served within a minute.
    service.ticket(&tree);
    assert_eq!(service.shares()[0]["served"], true);
    fs::rename(&away, &single).unwrap();
    assert_eq!(service.ticket(&single), ticket);
    assert_eq!(service.shares()[1]["served"], true);
}

/// A member's name and listening address hold for its later runs.
#[cfg(target_os = "linux")]
#[test]
fn a_member_goes_on_under_its_name_and_where_it_listened() {
    let dir = tempfile::tempdir().unwrap();
    let run_in = |folder: &str, more: &[&str]| {
        let folder = dir.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let mut command = xylem(&dir.path().join("store"));
        command.args(["--json", "sync", text(&folder)]).args(more);
        command.env_remove("USERNAME").env("USER", "eve");
        let mut running = Started::new(command);
        let at = running.event("listening")["uri"].as_str().unwrap().to_owned();
        let name = running.event("sync_ready")["name"].as_str().unwrap().to_owned();
        assert_eq!(running.signal("-TERM"), Some(0));
        (name, at)
    };
    let run = |more: &[&str]| run_in("folder", more);
    let first = run(&["--as", "ann", "--listen", "127.0.0.1"]);
    assert!(first.0 == "ann" && first.1.contains("127.0.0.1:"), "{first:?}");
    assert_eq!(run(&[]), first);
    let other = run(&["--as", "bob"]);
    assert_eq!((&*other.0, &other.1), ("bob", &first.1));
    assert_eq!(run(&[]), other);
    // A member without a given name has that of the user and the machine.
    let (name, _) = run_in("another", &["--listen", "127.0.0.1"]);
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    assert_eq!(name, format!("eve@{}", host.split('.').next().unwrap()));
}

/// A mistake in the settings ends every command that reads them, in whichever table it stands.
#[test]
fn an_unknown_setting_is_reported_with_line_and_nearest_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "data", b"data");
    let store = dir.path().join("store");
    let said = |settings: &str, arguments: &[&str]| {
        let config = file(dir.path(), "config.toml", settings.as_bytes());
        let mut command = xylem(&store);
        command.arg("--config").arg(config).args(arguments).stdin(Stdio::null());
        let output = finish(command);
        assert_exit(&output, 2);
        stderr(&output)
    };
    let share = ["share", "--listen", "127.0.0.1:0", text(&path)];
    let line = said("\nno_lan = true\n", &share);
    assert!(line.contains("line 2: \"no_lan\" is not a setting here; write lan = false"), "{line}");
    let line = said("relays = []\n", &["ndn", "node"]);
    assert!(line.contains("line 1: \"relays\"") && line.contains("nearest is \"relay\""), "{line}");
    // Also in a table that the command does not use.
    let line = said("[node]\nlissen = []\n", &share);
    assert!(line.contains("line 2: \"lissen\"") && line.contains("\"listen\""), "{line}");
    let line = said("[nodes]\nlisten = []\n", &share);
    assert!(line.contains("\"nodes\" is not a setting here; the nearest is \"node\""), "{line}");
}

#[cfg(unix)]
#[test]
fn a_vanished_path_stays_in_the_list_with_the_reason() {
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
    fs::write(&path, b"edited").unwrap();
    let page = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(page.contains("\nxylem_shares 1\n") && page.contains("\nxylem_shares_served 0\n"));
    assert!(sent.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap() > 100_000, "{sent}");
    assert!(ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405 "));
}

/// While a large path is hashed, other getters fetch.
#[cfg(unix)]
#[test]
fn hashing_does_not_keep_others_waiting() {
    let service = Service::start();
    let small = file(service.dir.path(), "small", &noise(100_000, 6));
    let ticket = service.ticket(&small);
    // A pipe in a directory's place would be refused at once; many files take time.
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

/// The unit that `service install` writes, checked by systemd.
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
    // Environment variables of the installing shell become options of the unit, which has no such variables.
    let run = "service run --metrics \"9700\" --no-lan --no-map --no-dht";
    let start = format!(" --store \"{}\" {run}\n", store.display());
    assert!(text.contains(&start), "{text}");
    assert!(text.contains("\nProtectSystem=strict\n"), "{text}");
    let analyze = |arguments: &[&str]| {
        let mut command = std::process::Command::new("systemd-analyze");
        command.args(arguments).arg(&unit).env("XDG_RUNTIME_DIR", dir.path()).output()
    };
    match analyze(&["verify", "--user", "--man=no"]) {
        Err(_) => common::skipped("no systemd-analyze"),
        Ok(verified) => {
            // systemd-analyze prints nothing about a sound unit.
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
    // Where systemd does not run, the command reports that and writes nothing.
    if !Path::new("/run/systemd/system").exists() {
        let mut command = xylem(&store);
        command.env("XDG_CONFIG_HOME", dir.path().join("config")).args(["service", "install"]);
        let output = finish(command);
        assert_exit(&output, 4);
        assert!(stderr(&output).contains("does not run systemd"), "{}", stderr(&output));
        assert!(!unit.exists());
    }
}

/// The unit of the system's node, which packages install, checked by systemd.
#[test]
fn the_system_unit_is_sandboxed_and_not_root() {
    let unit = include_str!("../../../packaging/xylem.service");
    assert!(unit.contains("\nUser=xylem\nDynamicUser=yes\n"), "{unit}");
    analyzed("xylem.service", unit);
}

/// The unit of a relay has the node's sandbox, and the right to ports below 1024 alone.
#[test]
fn the_relay_unit_is_sandboxed_and_may_bind_443() {
    let unit = include_str!("../../../packaging/xylem-relay.service");
    let node = include_str!("../../../packaging/xylem.service");
    assert!(unit.contains("\nUser=xylem-relay\nDynamicUser=yes\n"), "{unit}");
    for set in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        assert!(unit.contains(&format!("\n{set}=CAP_NET_BIND_SERVICE\n")), "{unit}");
    }
    let own = ["CapabilityBoundingSet", "PrivateUsers"];
    let is_fence = |line: &&str| {
        let fences =
            ["Protect", "Private", "Restrict", "System", "Memory", "Lock", "NoNew", "Remove"];
        fences.iter().any(|fence| line.starts_with(fence))
            && !own.iter().any(|own| line.starts_with(own))
    };
    for line in node.lines().filter(is_fence) {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
    analyzed("xylem-relay.service", unit);
}

/// Has systemd check a unit and rate its sandbox.
fn analyzed(name: &str, unit: &str) {
    let dir = tempfile::tempdir().unwrap();
    // The program lies elsewhere here.
    let installed = unit.replace("/usr/bin/xylem", common::XYLEM);
    let path = file(dir.path(), name, installed.as_bytes());
    let analyze = |arguments: &[&str]| {
        std::process::Command::new("systemd-analyze").args(arguments).arg(&path).output()
    };
    match analyze(&["verify", "--man=no"]) {
        Err(_) => common::skipped("no systemd-analyze"),
        Ok(verified) => {
            let said = stderr(&verified);
            assert!(!said.contains(name), "{said}");
            let rated = analyze(&["security", "--offline=true", "--threshold=30"]).unwrap();
            let said = String::from_utf8_lossy(&rated.stdout);
            assert!(rated.status.success(), "{said}{}", stderr(&rated));
        }
    }
}
