//! One sharer and one getter, and the model of both.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{self, finish, noise, text, until};
use crate::tree::{self, Tree};
use crate::verb::{EXCLUDES, End, FILES, Getting, OUTS, Sharing, Side, Target, Verb};

/// Seconds to wait: for an expected result, several times what a busy machine needs; and for a result that can't come.
const PATIENT: &str = "60";
const BRIEF: &str = "1";

/// A running process, killed when dropped.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn end(mut self, how: End) -> Result<(), String> {
        match how {
            End::Killed => self.0.kill().map_err(|e| e.to_string()),
            End::Interrupted => {
                let pid = self.0.id().to_string();
                let sent = Command::new("kill").args(["-INT", &pid]).status();
                assert!(sent.expect("kill runs").success(), "it has ended by itself");
                let code = self.0.wait().map_err(|e| e.to_string())?.code();
                ensure(code == Some(0), || format!("interrupted, it ended with {code:?}"))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that serves a share.
#[derive(Debug)]
enum Server {
    Service { id: String },
    Foreground(Process),
    Nobody,
}

/// A publication, as it was when it was shared.
#[derive(Debug)]
struct Share {
    ticket: String,
    target: Target,
    /// The content as it is fetched: below the folder's name, or the file's.
    content: Tree,
    server: Server,
    /// Paths of the sharer's folder that were written or removed since.
    changed: BTreeSet<String>,
}

impl Share {
    /// Its name in a destination.
    fn name(&self) -> &'static str {
        match self.target {
            Target::Folder => "src",
            Target::File(file) => base(FILES[file]),
        }
    }
}

fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Fails unless the exit code is one of those allowed.
fn exits(output: &Output, allowed: &[i32]) -> Result<i32, String> {
    let code = output.status.code().unwrap_or(-1);
    let said = || common::stderr(output);
    ensure(allowed.contains(&code), || format!("exit {code} of {allowed:?}: {}", said()))?;
    ensure(!said().contains("panicked") && !said().contains("a bug"), said)?;
    Ok(code)
}

/// The folders, the processes, and the model.
pub(crate) struct World {
    dir: tempfile::TempDir,
    service: Option<Process>,
    port: u16,
    /// A relay, once a share has named one, and its URI.
    relay: Option<(Process, String)>,
    shares: Vec<Share>,
    /// The rule of `--exclude` when the folder was shared last. It applies again until another is given.
    remembered: Option<usize>,
    src: Tree,
    outs: [Tree; OUTS],
    follower: Option<Process>,
    log_ticket: Option<String>,
    log: Vec<u8>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let src = dir.path().join("src");
        fs::create_dir_all(src.join("d")).expect("made");
        let mut world = Self {
            dir,
            service: None,
            port: 0,
            relay: None,
            shares: Vec::new(),
            remembered: None,
            src: Tree::new(),
            outs: Default::default(),
            follower: None,
            log_ticket: None,
            log: noise(5000, 77),
        };
        for (at, (path, len)) in FILES.iter().zip([1000, 0, 40, 70_000, 9000]).enumerate() {
            let content = noise(len, at as u64 + 1);
            fs::write(src.join(path), &content).expect("written");
            world.src.insert((*path).to_owned(), content);
        }
        fs::write(world.log_path(), &world.log).expect("written");
        world
    }

    fn src_path(&self) -> PathBuf {
        self.dir.path().join("src")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn out_path(&self, out: usize) -> PathBuf {
        self.dir.path().join(format!("out{out}"))
    }

    fn path_of(&self, target: Target) -> PathBuf {
        match target {
            Target::Folder => self.src_path(),
            Target::File(file) => self.src_path().join(FILES[file]),
        }
    }

    fn store(&self, side: Side) -> PathBuf {
        let name = match side {
            Side::Sharer => "sharer",
            Side::Getter => "getter",
        };
        self.dir.path().join(name)
    }

    /// Runs a command on a store; it has to succeed if the store exists.
    fn of_store(&self, side: Side, arguments: &[&str]) -> Result<(), String> {
        let allowed = if self.store(side).exists() { 0 } else { 2 };
        exits(&self.run(side, arguments), &[allowed]).map(|_| ())
    }

    fn command(&self, side: Side) -> Command {
        let mut command = common::xylem(&self.store(side));
        command.env("HOME", self.dir.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, side: Side, arguments: &[&str]) -> Output {
        let mut command = self.command(side);
        command.args(arguments);
        finish(command)
    }

    /// Runs a verb and compares its results with the model.
    pub(crate) fn apply(&mut self, verb: &Verb) -> Result<(), String> {
        match verb {
            Verb::Write { file, len, seed } => self.write(*file, noise(*len, *seed)),
            Verb::EditKeepingTime { file } => self.edit_keeping_time(*file),
            Verb::Append { file, len } => {
                let mut content = self.src.get(FILES[*file]).cloned().unwrap_or_default();
                content.extend(noise(*len, 5));
                self.write(*file, content);
            }
            Verb::Remove { file } => self.remove(*file),
            Verb::Touch { file } => {
                if let Some(content) = self.src.get(FILES[*file]).cloned() {
                    self.write(*file, content);
                }
            }
            Verb::Share(sharing) => self.share(*sharing)?,
            Verb::UnsharePath(target) => self.unshare_path(*target)?,
            Verb::UnshareId(share) => self.unshare_id(*share)?,
            Verb::Serve => self.serve()?,
            Verb::EndService(how) => {
                if let Some(service) = self.service.take() {
                    service.end(*how)?;
                }
            }
            Verb::EndForeground(share, how) => self.end_foreground(*share, *how)?,
            Verb::Get(share, getting) => self.get(*share, *getting)?,
            Verb::EditCopy { out, file, seed } => self.edit_copy(*out, *file, *seed),
            Verb::Print(share) => self.print(*share)?,
            Verb::Verify { share, out, allow_extra } => self.verify(*share, *out, *allow_extra)?,
            Verb::Scrub { side, repair } => {
                let mut arguments = vec!["scrub", "--timeout", BRIEF];
                arguments.extend(repair.then_some("--repair"));
                exits(&self.run(*side, &arguments), &[0, 1, 3])?;
                if *repair {
                    self.take_restored();
                }
            }
            Verb::Collect { side } => {
                self.of_store(*side, &["store", "gc", "--older-than", "0"])?;
            }
            Verb::CheckStore { side } => {
                self.of_store(*side, &["store", "check"])?;
            }
            Verb::Follow => self.follow()?,
            Verb::EndFollow(how) => {
                if let Some(follower) = self.follower.take() {
                    follower.end(*how)?;
                }
            }
            Verb::AppendLog { len } => self.append_log(*len),
            Verb::GetLog { out, overwrite } => self.get_log(*out, *overwrite)?,
            Verb::FollowLog { out, killed_after } => self.follow_log(*out, *killed_after)?,
        }
        self.hold()
    }

    /// Fails unless the folders and the list of the background node equal the model.
    fn hold(&self) -> Result<(), String> {
        let differs = |what: &str, expected: &Tree, dir: &Path| {
            let found = tree::difference(expected, &tree::read(dir));
            found.map_or(Ok(()), |how| Err(format!("{what}: {how}")))
        };
        differs("the sharer's folder", &self.src, &self.src_path())?;
        for (out, expected) in self.outs.iter().enumerate() {
            differs(&format!("destination {out}"), expected, &self.out_path(out))?;
        }
        if self.service.is_none() {
            return Ok(());
        }
        let listed: BTreeSet<String> = self.rows()?.iter().map(|row| string(row, "id")).collect();
        let expected = self.shares.iter().filter_map(|share| match &share.server {
            Server::Service { id } => Some(id.clone()),
            _ => None,
        });
        let expected: BTreeSet<String> = expected.collect();
        ensure(listed == expected, || format!("`shares` lists {listed:?}, not {expected:?}"))
    }

    /// The list of the background node, once it has scanned every path.
    fn rows(&self) -> Result<Vec<Value>, String> {
        let mut rows = Vec::new();
        let mut failed = None;
        until("every share is looked at", || {
            let output = self.run(Side::Sharer, &["--json", "shares"]);
            if let Err(why) = exits(&output, &[0]) {
                failed = Some(why);
                return true;
            }
            let text = String::from_utf8_lossy(&output.stdout);
            rows = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
            !rows.iter().any(|row: &Value| row["why"] == "it is being checked")
        });
        failed.map_or(Ok(rows), Err)
    }
}

/// The sharer's files.
impl World {
    fn write(&mut self, file: usize, content: Vec<u8>) {
        let path = FILES[file];
        fs::create_dir_all(self.src_path().join("d")).expect("made");
        fs::write(self.src_path().join(path), &content).expect("written");
        self.src.insert(path.to_owned(), content);
        self.changed(path);
    }

    fn edit_keeping_time(&mut self, file: usize) {
        let path = FILES[file];
        let Some(content) = self.src.get_mut(path).filter(|content| !content.is_empty()) else {
            return;
        };
        let at = content.len() / 2;
        content[at] ^= 0x40;
        let content = content.clone();
        let whole = self.src_path().join(path);
        let times = fs::metadata(&whole).expect("it is there").modified().expect("it has a time");
        fs::write(&whole, &content).expect("written");
        let file = File::options().write(true).open(&whole).expect("opened");
        file.set_times(FileTimes::new().set_modified(times)).expect("its time is set");
        self.changed(path);
    }

    fn remove(&mut self, file: usize) {
        let path = FILES[file];
        if self.src.remove(path).is_some() {
            fs::remove_file(self.src_path().join(path)).expect("removed");
            self.changed(path);
        }
    }

    /// Takes into the model that `scrub --repair` restores missing files as published. An empty file needs no peer for
    /// that.
    fn take_restored(&mut self) {
        for (path, content) in tree::read(&self.src_path()) {
            let was_published =
                self.shares.iter().any(|share| share.published(&path) == Some(&content));
            if !self.src.contains_key(&path) && was_published {
                self.changed(&path);
                self.src.insert(path, content);
            }
        }
    }

    fn changed(&mut self, path: &str) {
        for share in &mut self.shares {
            share.changed.insert(path.to_owned());
        }
    }
}

/// The sharer's commands.
impl World {
    /// The sharer's files that a share publishes, as they are fetched.
    fn published(&self, target: Target, rule: Option<usize>) -> Tree {
        match target {
            Target::File(file) => {
                let content = self.src.get(FILES[file]).cloned();
                content.map(|content| (base(FILES[file]).to_owned(), content)).into_iter().collect()
            }
            Target::Folder => {
                let is_in = |path: &str| rule.is_none_or(|r| !tree::is_left_out(EXCLUDES[r], path));
                let files = self.src.iter().filter(|(path, _)| is_in(path));
                files.map(|(path, content)| (format!("src/{path}"), content.clone())).collect()
            }
        }
    }

    fn share(&mut self, sharing: Sharing) -> Result<(), String> {
        let target = sharing.target;
        let path = self.path_of(target);
        let mut command = self.command(Side::Sharer);
        command.arg("share").arg(&path);
        if sharing.foreground || self.service.is_none() {
            command.args(["--foreground", "--listen", "127.0.0.1:0"]);
        }
        if sharing.relayed {
            command.args(["--relay", &self.relay()?]);
        }
        let flags = [(sharing.strict, "--strict"), (sharing.portable, "--portable")];
        command.args(flags.iter().filter(|(given, _)| *given).map(|(_, flag)| flag));
        let name = sharing.named.map(|k| format!("/n/{k}/{}", path.file_name().unwrap().display()));
        command.args(name.iter().flat_map(|name| ["--as", name]));
        if let Some(rule) = sharing.exclude {
            command.args(["--exclude", EXCLUDES[rule]]);
            self.remembered = Some(rule);
        } else if sharing.no_exclude {
            command.arg("--no-exclude");
            if target == Target::Folder {
                self.remembered = None;
            }
        }
        let rule = self.remembered.filter(|_| target == Target::Folder);
        let content = self.published(target, rule);
        let started = started(command)?;
        if !path.exists() {
            let code = started.ended.map(|code| code == Some(2));
            return ensure(code == Some(true), || format!("{} was shared", path.display()));
        }
        let ticket = started.ticket.ok_or_else(|| format!("no ticket: {}", started.said))?;
        let server = match started.process {
            Some(process) => Server::Foreground(process),
            None => {
                let rows = self.rows()?;
                let row = rows.iter().find(|row| row["ticket"] == *ticket);
                Server::Service { id: string(row.ok_or("it is not listed")?, "id") }
            }
        };
        if let Server::Service { id: new } = &server {
            for share in &mut self.shares {
                if matches!(&share.server, Server::Service { id } if id == new) {
                    share.server = Server::Nobody;
                }
            }
        }
        self.shares.push(Share { ticket, target, content, server, changed: BTreeSet::new() });
        Ok(())
    }

    /// The URI of a relay, which is started if there is none.
    fn relay(&mut self) -> Result<String, String> {
        if let Some((_, uri)) = &self.relay {
            return Ok(uri.clone());
        }
        let mut command = common::xylem(&self.dir.path().join("relay"));
        command.args(["relay", "--listen", "xylem://127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("runs");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let process = Process(child);
        let mut named = lines.by_ref().map_while(Result::ok);
        let starts = named.any(|line| line.contains("Others name it with --relay"));
        let uri = named.next().filter(|_| starts).ok_or("the relay does not start")?;
        let uri = uri.trim().to_owned();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        self.relay = Some((process, uri.clone()));
        Ok(uri)
    }

    /// The share of a number, if there is any.
    fn nth(&self, share: usize) -> Option<usize> {
        (!self.shares.is_empty()).then(|| share % self.shares.len())
    }

    fn unshare_path(&mut self, target: Target) -> Result<(), String> {
        let path = self.path_of(target);
        let of_path = |share: &&mut Share| {
            share.target == target && matches!(share.server, Server::Service { .. })
        };
        let mut ended = 0;
        for share in self.shares.iter_mut().filter(of_path) {
            share.server = Server::Nobody;
            ended += 1;
        }
        let output = self.run(Side::Sharer, &["unshare", text(&path)]);
        exits(&output, if ended == 0 { &[2] } else { &[0] }).map(|_| ())
    }

    fn unshare_id(&mut self, share: usize) -> Result<(), String> {
        let Some(share) = self.nth(share) else { return Ok(()) };
        let Server::Service { id } = &self.shares[share].server else { return Ok(()) };
        exits(&self.run(Side::Sharer, &["unshare", id]), &[0])?;
        self.shares[share].server = Server::Nobody;
        Ok(())
    }

    fn serve(&mut self) -> Result<(), String> {
        if self.service.is_some() {
            return Ok(());
        }
        let mut command = self.command(Side::Sharer);
        let at = format!("127.0.0.1:{}", self.port);
        command.args(["--json", "service", "run", "--listen", &at]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let process = Process(child);
        let listening = lines.by_ref().map_while(Result::ok).find(|l| l.contains("\"listening\""));
        let listening = listening.ok_or("the background node does not start")?;
        let listening: Value = serde_json::from_str(&listening).expect("JSON");
        let uri = string(&listening, "uri");
        self.port = uri.rsplit_once(':').expect("a port").1.parse().expect("a number");
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        self.service = Some(process);
        until("the background node answers", || {
            self.run(Side::Sharer, &["service", "status"]).status.code() == Some(0)
        });
        self.look_again()
    }

    /// A restarted background node shares its paths again with their present content: takes the new tickets into the
    /// model.
    fn look_again(&mut self) -> Result<(), String> {
        let rows = self.rows()?;
        for share in 0..self.shares.len() {
            let Server::Service { id } = &self.shares[share].server else { continue };
            let row = rows.iter().find(|row| row["id"] == *id);
            let row = row.ok_or_else(|| format!("share {share} is forgotten"))?;
            let (target, is_served) = (self.shares[share].target, row["served"] == true);
            let is_there = self.path_of(target).exists();
            ensure(is_served == is_there, || format!("share {share}: {row}"))?;
            let is_unchanged = self.shares[share].changed.is_empty();
            if is_there && string(row, "ticket") == self.shares[share].ticket {
                ensure(self.shares[share].holds(&self.src), || format!("stale: {row}"))?;
                self.shares[share].changed.clear();
            } else if is_there {
                // Of two shares of the same content under two names, the first one has the ticket without a name.
                let now = root(&string(row, "ticket"));
                let alike = rows.iter().filter(|row| root(&string(row, "ticket")) == now).count();
                let is_other_form = alike > 1 && now == root(&self.shares[share].ticket);
                ensure(!is_unchanged || is_other_form, || {
                    format!("another ticket for the same: {row}")
                })?;
                let rule = self.remembered.filter(|_| target == Target::Folder);
                let content = self.published(target, rule);
                let server = std::mem::replace(&mut self.shares[share].server, Server::Nobody);
                let (ticket, changed) = (string(row, "ticket"), BTreeSet::new());
                self.shares.push(Share { ticket, target, content, server, changed });
            }
        }
        Ok(())
    }

    fn end_foreground(&mut self, share: usize, how: End) -> Result<(), String> {
        let Some(share) = self.nth(share) else { return Ok(()) };
        let server = &mut self.shares[share].server;
        if !matches!(server, Server::Foreground(_)) {
            return Ok(());
        }
        match std::mem::replace(server, Server::Nobody) {
            Server::Foreground(process) => process.end(how),
            _ => Ok(()),
        }
    }

    fn is_served(&self, share: usize) -> bool {
        match &self.shares[share].server {
            Server::Service { .. } => self.service.is_some(),
            Server::Foreground(_) => true,
            Server::Nobody => false,
        }
    }
}

impl Share {
    /// The content that it published of a path of the sharer's folder.
    fn published(&self, path: &str) -> Option<&Vec<u8>> {
        match self.target {
            Target::Folder => self.content.get(&format!("src/{path}")),
            Target::File(file) => self.content.get(base(path)).filter(|_| FILES[file] == path),
        }
    }

    /// Whether the sharer's files still equal what it publishes.
    fn holds(&self, src: &Tree) -> bool {
        self.content.iter().all(|(path, content)| {
            let path = match self.target {
                Target::Folder => &path["src/".len()..],
                Target::File(file) => FILES[file],
            };
            src.get(path) == Some(content)
        })
    }

    /// Whether a path of `content` was changed since.
    fn is_changed(&self, path: &str) -> bool {
        match self.target {
            Target::Folder => self.changed.contains(&path["src/".len()..]),
            Target::File(file) => self.changed.contains(FILES[file]),
        }
    }
}

/// The result of starting `xylem share`.
struct Started {
    ticket: Option<String>,
    /// The process, if it still runs.
    process: Option<Process>,
    /// Its exit code, if it has ended.
    ended: Option<Option<i32>>,
    said: String,
}

/// Starts `xylem share` and waits until it serves, has handed over, or has failed.
fn started(mut command: Command) -> Result<Started, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut errors = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut tickets = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut process = Process(child);
    let (mut said, mut serves) = (String::new(), false);
    for line in errors.by_ref() {
        let line = line.map_err(|e| e.to_string())?;
        said = said + &line + "\n";
        if line.starts_with("Serving until Ctrl-C") {
            serves = true;
            break;
        }
    }
    if serves {
        let ticket = tickets.next().and_then(Result::ok);
        std::thread::spawn(move || errors.map_while(Result::ok).for_each(drop));
        return Ok(Started { ticket, process: Some(process), ended: None, said });
    }
    let code = process.0.wait().map_err(|e| e.to_string())?.code();
    let ticket = tickets.next().and_then(Result::ok).filter(|_| code == Some(0));
    Ok(Started { ticket, process: None, ended: Some(code), said })
}

/// The getter's commands.
impl World {
    fn get(&mut self, share: usize, getting: Getting) -> Result<(), String> {
        let Some(share) = self.nth(share) else { return Ok(()) };
        let Getting { out, overwrite, delete, exclude, like, serves, durable, dry, killed_after } =
            getting;
        let named = &self.shares[share];
        let is_folder = named.target == Target::Folder;
        let rule = exclude.filter(|_| is_folder).map(|rule| EXCLUDES[rule]);
        let is_left_out =
            |path: &str| rule.is_some_and(|rule| tree::is_left_out(rule, &path["src/".len()..]));
        let mut wanted = named.content.clone();
        wanted.retain(|path, _| !is_left_out(path));
        let is_intact = !wanted.keys().any(|path| named.is_changed(path));
        let comes = self.is_served(share) && is_intact;
        let name = named.name();
        let to = format!("{}/", self.out_path(out).display());
        let mut command = self.command(Side::Getter);
        let timeout = if comes { PATIENT } else { BRIEF };
        command.args(["get", &named.ticket, "-o", &to, "--timeout", timeout]);
        command.args(if serves { &["--listen", "127.0.0.1:0"][..] } else { &["--no-serve"] });
        let large = self.src_path().join("large");
        let flags = [
            (overwrite, "--overwrite"),
            (delete && is_folder, "--delete"),
            (durable, "--fsync"),
            (dry, "--dry-run"),
        ];
        command.args(flags.iter().filter(|(given, _)| *given).map(|(_, flag)| flag));
        command.args(rule.iter().flat_map(|rule| ["--exclude", rule]));
        if like && large.exists() {
            command.arg("--like").arg(&large);
        }
        if dry {
            // Nothing may have changed, as `hold` finds out.
            let output = finish(command);
            return exits(&output, if comes { &[0, 2] } else { &[0, 1, 2, 3] }).map(|_| ());
        }
        // Possible contents afterwards: all new, or each file old or new.
        let before = self.outs[out].clone();
        let is_taken = self.out_path(out).join(name).symlink_metadata().is_ok();
        let is_inside = |path: &str| path.strip_prefix(name).is_some_and(|p| p.starts_with('/'));
        let goes = |path: &str| {
            delete
                && is_folder
                && is_inside(path)
                && !wanted.contains_key(path)
                && !is_left_out(path)
        };
        let mut whole = before.clone();
        whole.retain(|path, _| !goes(path));
        whole.extend(wanted.clone());
        let may_change = !is_taken || overwrite;
        let partly = |after: &Tree| {
            let old_or_new = |path: &String, content: &Vec<u8>| {
                before.get(path) == Some(content)
                    || (may_change && wanted.get(path) == Some(content))
            };
            after.iter().all(|(path, content)| old_or_new(path, content))
                && before.keys().all(|path| after.contains_key(path) || (overwrite && goes(path)))
        };
        let Some(after_ms) = killed_after else {
            let output = finish(command);
            let after = tree::read(&self.out_path(out));
            let code = exits(&output, if comes { &[0, 2] } else { &[0, 1, 2, 3] })?;
            let said = || common::stderr(&output);
            match code {
                0 if may_change => {
                    let how = tree::difference(&whole, &after);
                    how.map_or(Ok(()), |how| Err(format!("verified, but {how}: {}", said())))?;
                }
                0 => {
                    let is_there = wanted.iter().all(|(p, content)| before.get(p) == Some(content));
                    ensure(is_there && after == before, || format!("0 without it: {}", said()))?;
                }
                _ => {
                    ensure(!comes || !may_change, || format!("it did not come: {}", said()))?;
                    let how = || tree::difference(&before, &after).unwrap_or_default();
                    let rest = code == 1 && partly(&after);
                    ensure(after == before || rest, || format!("{code}, {}: {}", how(), said()))?;
                }
            }
            self.outs[out] = after;
            return Ok(());
        };
        kill_after(command, after_ms);
        let after = tree::read(&self.out_path(out));
        let how = || tree::difference(&before, &after).unwrap_or_default();
        ensure(partly(&after), || format!("killed, it left: {}", how()))?;
        self.outs[out] = after;
        Ok(())
    }

    /// Standard output gets the published bytes, or the first of them, and nothing else.
    fn print(&self, share: usize) -> Result<(), String> {
        let Some(share) = self.nth(share) else { return Ok(()) };
        let named = &self.shares[share];
        let is_folder = named.target == Target::Folder;
        let is_intact = !named.content.keys().any(|path| named.is_changed(path));
        let comes = self.is_served(share) && is_intact;
        let timeout = if comes { PATIENT } else { BRIEF };
        let arguments = ["get", &named.ticket, "-o", "-", "--no-serve", "--timeout", timeout];
        let output = self.run(Side::Getter, &arguments);
        let allowed: &[i32] = match (is_folder, comes) {
            (true, true) => &[2],
            (true, false) => &[2, 3],
            (false, true) => &[0],
            (false, false) => &[0, 1, 3],
        };
        let code = exits(&output, allowed)?;
        let nothing = Vec::new();
        let content = named.content.get(named.name()).filter(|_| !is_folder).unwrap_or(&nothing);
        let printed = &output.stdout;
        ensure(content.starts_with(printed), || format!("{} other bytes", printed.len()))?;
        ensure(code != 0 || printed == content, || format!("0 after {} bytes", printed.len()))
    }

    fn edit_copy(&mut self, out: usize, file: usize, seed: u64) {
        let is_folder = self.out_path(out).join("src").is_dir();
        let path =
            if is_folder { format!("src/{}", FILES[file]) } else { base(FILES[file]).into() };
        let (whole, content) = (self.out_path(out).join(&path), noise(500, seed));
        fs::create_dir_all(whole.parent().expect("a folder")).expect("made");
        fs::write(whole, &content).expect("written");
        self.outs[out].insert(path, content);
    }

    fn verify(&self, share: usize, out: usize, allow_extra: bool) -> Result<(), String> {
        let Some(share) = self.nth(share) else { return Ok(()) };
        let named = &self.shares[share];
        let path = self.out_path(out).join(named.name());
        if path.symlink_metadata().is_err() {
            return Ok(());
        }
        let is_of_it = |path: &str| match named.target {
            Target::Folder => path.starts_with("src/"),
            Target::File(_) => path == named.name(),
        };
        let is_meant = |path: &str| !allow_extra || named.content.contains_key(path);
        let found = self.outs[out].iter().filter(|(path, _)| is_of_it(path) && is_meant(path));
        let found: Tree = found.map(|(path, content)| (path.clone(), content.clone())).collect();
        let comes = self.is_served(share) && named.changed.is_empty();
        let right = if found == named.content { 0 } else { 1 };
        let timeout = if comes { PATIENT } else { BRIEF };
        let mut arguments = vec!["verify", text(&path), &named.ticket, "--timeout", timeout];
        arguments.extend(allow_extra.then_some("--allow-extra"));
        let allowed = if comes { &[right][..] } else { &[right, 3] };
        exits(&self.run(Side::Getter, &arguments), allowed).map(|_| ())
    }
}

/// A file that grows.
impl World {
    fn follow(&mut self) -> Result<(), String> {
        if self.follower.is_some() {
            return Ok(());
        }
        let mut command = self.command(Side::Sharer);
        command.args(["share", "--follow", "--every", "0.05", "--listen", "127.0.0.1:0"]);
        command.arg(self.log_path());
        let started = started(command)?;
        self.follower = Some(started.process.ok_or(started.said)?);
        self.log_ticket = started.ticket;
        Ok(())
    }

    fn append_log(&mut self, len: usize) {
        let more = noise(len, self.log.len() as u64);
        let file = File::options().append(true).open(self.log_path());
        file.expect("opened").write_all(&more).expect("written");
        self.log.extend(more);
    }

    fn get_log(&mut self, out: usize, overwrite: bool) -> Result<(), String> {
        let Some(ticket) = self.log_ticket.clone() else { return Ok(()) };
        let to = format!("{}/", self.out_path(out).display());
        let timeout = if self.follower.is_some() { PATIENT } else { BRIEF };
        let mut command = self.command(Side::Getter);
        command.args(["get", &ticket, "-o", &to, "--no-serve", "--timeout", timeout]);
        command.args(overwrite.then_some("--overwrite"));
        let is_new = !self.outs[out].contains_key("log");
        let output = finish(command);
        let allowed: &[i32] = match self.follower {
            None => &[0, 2, 3],
            Some(_) if is_new => &[0],
            Some(_) => &[0, 2],
        };
        let code = exits(&output, allowed)?;
        if code == 0 && is_new {
            ensure(self.out_path(out).join("log").exists(), || "0, and no log".to_owned())?;
        }
        self.take_log(out)
    }

    fn follow_log(&mut self, out: usize, killed_after: u64) -> Result<(), String> {
        let Some(ticket) = self.log_ticket.clone() else { return Ok(()) };
        let mut command = self.command(Side::Getter);
        let to = format!("{}/", self.out_path(out).display());
        command.args(["get", "--follow", &ticket, "-o", &to, "--timeout", BRIEF]);
        kill_after(command, killed_after);
        self.take_log(out)
    }

    /// A copy of the log is a prefix of it, and never shorter than before.
    fn take_log(&mut self, out: usize) -> Result<(), String> {
        let after = tree::read(&self.out_path(out));
        if let Some(copy) = after.get("log") {
            ensure(self.log.starts_with(copy), || "the copy is no beginning of the log".into())?;
            let before = self.outs[out].get("log").map_or(0, Vec::len);
            let len = copy.len();
            ensure(len >= before, || format!("the copy had {before} bytes and has {len}"))?;
            self.outs[out].insert("log".into(), copy.clone());
        }
        Ok(())
    }
}

/// Runs a command and kills it after `ms` milliseconds, if it has not ended.
fn kill_after(mut command: Command, ms: u64) {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process(command.spawn().expect("the program starts"));
    std::thread::sleep(Duration::from_millis(ms));
    let _ = process.0.kill();
}

/// The root that a ticket names.
fn root(ticket: &str) -> xylem_hash::Hash {
    ticket.parse::<xylem_object::ticket::Ticket>().expect("a ticket").root
}

fn string(row: &Value, field: &str) -> String {
    row[field].as_str().unwrap_or_else(|| panic!("no {field} in {row}")).to_owned()
}
