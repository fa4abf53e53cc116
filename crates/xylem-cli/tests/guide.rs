//! Types the commands of docs/guide.md, and of a section of docs/node.md, on loopback, with a home for each person in a
//! temporary folder.
//!
//! A line `NAME$ COMMAND` in a console block is a command of that person. The lines up to the next prompt are expected
//! in its output, in order; `…` stands for anything. `xylem:WORD…` and `xylem-sync:WORD…` are tickets: where a line with
//! one is expected, the printed ticket gets this word, and in commands the word is replaced by it. `<!-- word TEXT -->`
//! makes any other text of the guide such a word. A command that ends in `&`, and every program that serves, goes on in
//! the background after its expected output. `NAME> TEXT` is typed into that person's newest background program, and the
//! lines below are expected in its further output. `^C` interrupts this program, `wait` waits for its end.
//!
//! In comments: `<!-- setup NAME: COMMAND -->` is typed and not shown, `<!-- file NAME: PATH -->` stores the block below.
#![cfg(unix)]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common;
use crate::common::decaying::decay;
use crate::common::{skipped, until};

/// Beginnings of commands that serve until Ctrl-C.
const SERVE: [&str; 8] = [
    "xylem share ",
    "xylem relay",
    "xylem mount ",
    "xylem ndn node",
    "xylem key serve ",
    "xylem ndn ca ",
    "xylem ndn put ",
    "xylem ndn request ",
];

/// Whether a command goes on after its first lines.
fn serves(command: &str) -> bool {
    // With a name or a key, `sync` begins or joins; its other options act on a running member.
    let member = command.starts_with("xylem sync ")
        && [" --as ", " --schema ", " --sign "].iter().any(|option| command.contains(option));
    // A renewal asks for nothing.
    let renewal = command.contains(" --challenge possession");
    member || SERVE.iter().any(|begins| command.starts_with(begins)) && !renewal
}

/// A program in the background.
struct Running {
    child: Child,
    output: PathBuf,
    /// How many bytes of its output earlier expectations have covered.
    seen: usize,
}

impl Running {
    fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap()).into_owned()
    }

    /// Waits for its end, which must be a success.
    fn end(mut self, context: &str) {
        until(context, || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{context}: {status}\n{}", self.output());
    }
}

/// A person in the guide, with a home.
struct Person {
    home: PathBuf,
    /// The socket of the machine's node.
    node: PathBuf,
    running: Vec<Running>,
    outputs: usize,
}

impl Person {
    fn new(home: PathBuf, node: PathBuf) -> Self {
        fs::create_dir(&home).unwrap();
        Self { home, node, running: Vec::new(), outputs: 0 }
    }

    fn start(&mut self, command: &str) -> Running {
        self.outputs += 1;
        let output = self.home.with_extension(format!("output-{}", self.outputs));
        let into = File::create(&output).unwrap();
        let mut shell = Command::new("sh");
        // Ctrl-C is meant for the program itself and not for the shell.
        let simple = !command.contains(['|', ';', '>', '&']);
        let line = if simple { format!("exec {command}") } else { command.to_owned() };
        let input = if serves(command) { Stdio::piped() } else { Stdio::null() };
        shell.args(["-c", &line]).current_dir(&self.home).stdin(input);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("XYLEM_") || name.starts_with("XDG_") {
                shell.env_remove(name);
            }
        }
        let path = std::env::var("PATH").unwrap();
        let people = self.home.parent().expect("the folder of all");
        shell.env("PATH", format!("{}:{path}", people.join("bin").display()));
        shell
            .env("HOME", &self.home)
            .env("XYLEM_LISTEN", "127.0.0.1:0")
            .env("XYLEM_NO_MAP", "1")
            .env("XYLEM_NO_DHT", "1")
            .env("XYLEM_NO_LAN", "1");
        shell.env("XYLEM_RELAY_LISTEN", "xylem://127.0.0.1:0");
        let node = format!("unix://{}", self.node.display());
        shell.env("XYLEM_NODE_LISTEN", format!("{node},udp4://127.0.0.1:0"));
        shell.env("NDN_CLIENT_TRANSPORT", node);
        shell.stdout(into.try_clone().unwrap()).stderr(into);
        Running { child: shell.spawn().unwrap(), output, seen: 0 }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        // A mount would outlive the folder that it is in, so each program has a moment to end.
        for running in &mut self.running {
            let pid = running.child.id().to_string();
            let _ = Command::new("kill").args(["-INT", &pid]).status();
            for _ in 0..50 {
                if running.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// A part of an expected line.
enum Part {
    Text(String),
    Anything,
    /// A word that nothing was printed for yet, by its place in the list.
    Word(usize),
}

/// A text of the guide, and what the program printed in its place.
struct Word {
    text: String,
    printed: Option<String>,
}

/// The ticket that `text` begins with, as the guide writes it.
fn ticket(text: &str) -> Option<&str> {
    let scheme = ["xylem:", "xylem-sync:"].into_iter().find(|scheme| text.starts_with(scheme))?;
    let name = text[scheme.len()..].bytes().take_while(u8::is_ascii_lowercase).count();
    let end = scheme.len() + name;
    (name > 0 && text[end..].starts_with('…')).then(|| &text[..end + '…'.len_utf8()])
}

/// Whether `line` is these parts; binds the words in it.
fn fits(parts: &[Part], line: &str, bound: &mut Vec<(usize, String)>) -> bool {
    let Some((first, rest)) = parts.split_first() else { return line.is_empty() };
    let mut ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    match first {
        Part::Text(text) => {
            line.strip_prefix(text.as_str()).is_some_and(|line| fits(rest, line, bound))
        }
        Part::Anything => ends.any(|at| fits(rest, &line[at..], bound)),
        Part::Word(word) => {
            let ends: Vec<usize> =
                ends.take_while(|&at| !line[..at].contains([' ', ','])).collect();
            ends.into_iter().rev().filter(|&at| at > 0).any(|at| {
                bound.push((*word, line[..at].to_owned()));
                let fit = fits(rest, &line[at..], bound);
                if !fit {
                    bound.pop();
                }
                fit
            })
        }
    }
}

struct Guide {
    /// The document, as a path in docs/.
    document: &'static str,
    /// Whether each person has a machine with a node of its own; else one node serves all.
    own_nodes: bool,
    dir: tempfile::TempDir,
    people: HashMap<String, Person>,
    words: Vec<Word>,
    commands: usize,
}

impl Guide {
    fn new() -> Self {
        Self::of("guide.md", false)
    }

    fn of(document: &'static str, own_nodes: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(common::XYLEM, dir.path().join("bin/xylem")).unwrap();
        Guide { document, own_nodes, dir, people: HashMap::new(), words: Vec::new(), commands: 0 }
    }

    fn person(&mut self, name: &str) -> &mut Person {
        let home = self.dir.path().join(name);
        let node = match self.own_nodes {
            true => home.with_extension("sock"),
            false => self.dir.path().join("node.sock"),
        };
        self.people.entry(name.to_owned()).or_insert_with(|| Person::new(home, node))
    }

    fn declare(&mut self, text: &str) -> usize {
        let known = self.words.iter().position(|word| word.text == text);
        known.unwrap_or_else(|| {
            self.words.push(Word { text: text.to_owned(), printed: None });
            self.words.len() - 1
        })
    }

    /// A command with what was printed in place of its words.
    fn typed(&self, command: &str) -> String {
        self.words.iter().fold(command.to_owned(), |typed, word| match &word.printed {
            Some(printed) => typed.replace(&word.text, printed),
            None => typed,
        })
    }

    fn parts(&mut self, pattern: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            if let Some(ticket) = ticket(rest) {
                self.declare(ticket);
            }
            let word = self.words.iter().position(|word| rest.starts_with(&word.text));
            let (part, len) = match word {
                Some(word) => {
                    let Word { text, printed } = &self.words[word];
                    let part = printed.clone().map_or(Part::Word(word), Part::Text);
                    (part, text.len())
                }
                None if first == '…' => (Part::Anything, first.len_utf8()),
                None => (Part::Text(first.to_string()), first.len_utf8()),
            };
            parts.push(part);
            rest = &rest[len..];
        }
        parts
    }

    /// The first expected line that the output lacks after the lines before it, if any. Binds words.
    fn missing<'a>(&mut self, expected: &[&'a str], output: &str) -> Option<&'a str> {
        let mut lines = output.lines();
        expected
            .iter()
            .find(|pattern| {
                let parts = self.parts(pattern);
                let mut bound = Vec::new();
                let found = lines.any(|line| {
                    bound.clear();
                    // A ticket is no ticket without its scheme.
                    fits(&parts, line, &mut bound)
                        && bound.iter().all(|(word, printed)| {
                            let scheme =
                                self.words[*word].text.split_once(':').map_or("", |(s, _)| s);
                            !scheme.starts_with("xylem") || printed.starts_with(scheme)
                        })
                });
                for (word, printed) in bound {
                    self.words[word].printed = Some(printed);
                }
                !found
            })
            .copied()
    }

    /// Waits for these lines in the further output of a person's newest background program.
    fn await_lines(&mut self, name: &str, expected: &[&str], context: &str) {
        let mut output = String::new();
        let mut lacks = None;
        for _ in 0..1200 {
            let running = self.person(name).running.last_mut().expect("something runs");
            let ended = running.child.try_wait().unwrap();
            output = running.output().split_off(running.seen);
            lacks = self.missing(expected, &output);
            if lacks.is_none() || ended.is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(lacks, None, "{context} printed\n{output}");
        let running = self.person(name).running.last_mut().expect("something runs");
        running.seen += if expected.is_empty() { 0 } else { output.len() };
    }

    fn type_in(&mut self, name: &str, command: &str, expected: &[&str]) {
        let context = format!("{name}$ {command}");
        let (command, comment) = match command.split_once("   #") {
            Some((command, comment)) => (command.trim_end(), comment.trim()),
            None => (command, ""),
        };
        // `exits with 1`, or `exits with 3 if …`, where 0 is right, too.
        let exit = comment
            .strip_prefix("exits with ")
            .map(|exit| exit.split_once(" if ").unwrap_or((exit, "")));
        let codes: Vec<i32> = match exit {
            None => vec![0],
            Some((code, "")) => vec![code.parse().expect("a number")],
            Some((code, _)) => vec![0, code.parse().expect("a number")],
        };
        let typed = self.typed(command);
        let person = self.person(name);
        match typed.as_str() {
            "^C" => {
                let running = person.running.pop().expect("something runs");
                let pid = running.child.id().to_string();
                assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
                running.end(&context);
            }
            "wait" => person.running.pop().expect("something runs").end(&context),
            // Damage as by a disk, for which there is no command.
            decays if decays.starts_with("decay ") => {
                let words: Vec<&str> = decays.split(' ').collect();
                let [_, path, offset] = words[..] else { panic!("decay PATH OFFSET") };
                let (path, offset) = (person.home.join(path), offset.parse().expect("a number"));
                decay(&person.home.join(".local/share/xylem"), &path, |file| {
                    file.write_all_at(b"damaged!", offset).unwrap();
                });
            }
            typed if serves(typed) || typed.ends_with(" &") => {
                let share = typed.starts_with("xylem share ");
                let running = person.start(typed.strip_suffix(" &").unwrap_or(typed));
                person.running.push(running);
                self.await_lines(name, expected, &context);
                if share {
                    let running = self.person(name).running.last().expect("the share");
                    until(&context, || running.output().contains("Serving until"));
                }
            }
            typed => {
                let mut running = person.start(typed);
                until(&context, || running.child.try_wait().unwrap().is_some());
                let status = running.child.wait().unwrap();
                let output = running.output();
                let others: String = person.running.iter().map(Running::output).collect();
                let all = format!("{context} printed\n{output}\nothers of {name}:\n{others}");
                let ends = status.code().is_some_and(|code| codes.contains(&code));
                assert!(ends, "{status}, not {codes:?}: {all}");
                assert_eq!(self.missing(expected, &output), None, "{all}");
            }
        }
    }

    /// Types what a prompt of the guide shows.
    fn prompt(&mut self, prompt: Prompt, expected: &[&str]) {
        self.commands += 1;
        let Prompt { name, sign, text } = prompt;
        if sign == '$' {
            return self.type_in(name, text, expected);
        }
        let typed = self.typed(text);
        let running = self.person(name).running.last_mut().expect("something runs");
        if !typed.is_empty() {
            let input = running.child.stdin.as_mut().expect("it reads what is typed");
            writeln!(input, "{typed}").unwrap();
        }
        self.await_lines(name, expected, &format!("{name}> {text}"));
    }

    /// Types the commands of one job, and returns how many there were.
    fn job(&mut self, heading: &str) -> usize {
        let text = document(self.document);
        let job = sections(&text).into_iter().find(|(title, _)| *title == heading);
        let (_, lines) = job.unwrap_or_else(|| panic!("no job {heading}"));
        let before = self.commands;
        let mut lines = lines.into_iter().peekable();
        let mut fence = None;
        let mut file: Option<PathBuf> = None;
        while let Some(line) = lines.next() {
            if let Some(kind) = line.strip_prefix("```") {
                let opens = fence.is_none();
                fence = opens.then_some(kind);
                if let Some(path) = file.take_if(|_| opens) {
                    let within = |line: &&str| !line.starts_with("```");
                    let mut content = String::new();
                    while let Some(line) = lines.next_if(within) {
                        content += &format!("{line}\n");
                    }
                    // A second block with the same path continues the file.
                    let mut into = File::options().create(true).append(true).open(path).unwrap();
                    into.write_all(content.as_bytes()).unwrap();
                }
            } else if let Some(comment) = comment(line).filter(|_| fence.is_none()) {
                if let Some(word) = comment.strip_prefix("word ") {
                    self.declare(word);
                } else if let Some(setup) = comment.strip_prefix("setup ") {
                    let (name, command) = setup.split_once(": ").expect("NAME: COMMAND");
                    self.type_in(name, command, &[]);
                } else if let Some(block) = comment.strip_prefix("file ") {
                    let (name, path) = block.split_once(": ").expect("NAME: PATH");
                    file = Some(self.person(name).home.join(path));
                }
            } else if let Some(prompt) = Prompt::read(line).filter(|_| fence == Some("console")) {
                let mut expected = Vec::new();
                let goes_on =
                    |line: &&str| Prompt::read(line).is_none() && !line.starts_with("```");
                while let Some(line) = lines.next_if(goes_on) {
                    expected.push(line);
                }
                self.prompt(prompt, &expected);
            }
        }
        self.commands - before
    }
}

fn comment(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- ")?.strip_suffix(" -->")
}

/// `NAME$ COMMAND` or `NAME> INPUT`.
struct Prompt<'a> {
    name: &'a str,
    sign: char,
    text: &'a str,
}

impl<'a> Prompt<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let end = line.bytes().take_while(u8::is_ascii_lowercase).count();
        let (name, rest) = line.split_at(end);
        let sign = rest.chars().next().filter(|sign| matches!(sign, '$' | '>'))?;
        let text = rest[1..].strip_prefix(' ').or((rest.len() == 1).then_some(""))?;
        (!name.is_empty()).then_some(Prompt { name, sign, text })
    }
}

fn document(path: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(path)).unwrap()
}

/// A document's sections with their lines.
fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push((title, Vec::new()));
        } else if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        }
    }
    sections
}

/// Jobs of the guide by the test that types them.
const SEND_TO_WITNESS: [&str; 6] = [
    "1. Send something to a friend",
    "2. Publish a data set",
    "3. Mirror it, and bring the mirror up to date",
    "4. Back up a log while it is written",
    "5. Check an archive, and mend it",
    "Insist on a witness: one history for all",
];
const SYNC: &str = "Keep a folder in step (sync)";
const MOUNT: &str = "Mount a data set";
const BROWSER: &str = "From a browser";
const RECIPIENTS: &str = "Share with named people";
const NAT: &str = "Behind a router or NAT";
const CERTIFICATES: &str = "Certificates for the members of an organisation";
const SCHEMAS: &str = "Trust schemas: which key may sign which name";
/// Typed elsewhere: by interop/bucket/run.py, and by the tests of the Python package.
const ELSEWHERE: [&str; 2] = ["Share from and mirror into an S3 bucket", "The same from Python"];

#[test]
fn every_job_of_the_guide_is_typed() {
    let text = document("guide.md");
    let mut typed = SEND_TO_WITNESS.to_vec();
    typed.extend([SYNC, MOUNT, BROWSER, RECIPIENTS, NAT, CERTIFICATES, SCHEMAS]);
    typed.extend(ELSEWHERE);
    let mut jobs: Vec<&str> = sections(&text).into_iter().map(|(title, _)| title).collect();
    typed.sort_unstable();
    jobs.sort_unstable();
    assert_eq!(jobs, typed);
}

#[test]
fn jobs_from_sending_a_file_to_a_witness_work() {
    let mut guide = Guide::new();
    for job in SEND_TO_WITNESS {
        assert!(guide.job(job) > 1, "{job}");
    }
    assert!(guide.commands > 35, "{}", guide.commands);
}

#[test]
fn the_job_of_sync_works() {
    assert!(Guide::new().job(SYNC) > 15);
}

#[test]
fn the_job_of_mount_works() {
    let fuse = File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let programs = ["python3 -c 'import numpy'", "sqlite3 --version", "fusermount3 -V"];
    let there = |line: &&str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().is_ok_and(|status| status.success())
    };
    if !fuse || !programs.iter().all(there) {
        return skipped("no /dev/fuse, python3 with numpy, sqlite3 or fusermount3");
    }
    assert!(Guide::new().job(MOUNT) > 5);
}

#[test]
fn the_job_of_a_browser_works() {
    assert!(Guide::new().job(BROWSER) > 2);
}

#[test]
fn the_job_of_named_people_works() {
    assert!(Guide::new().job(RECIPIENTS) > 6);
}

#[test]
fn the_job_of_a_router_works() {
    assert!(Guide::new().job(NAT) > 3);
}

#[test]
fn the_job_of_certificates_works() {
    assert!(Guide::new().job(CERTIFICATES) > 6);
}

#[test]
fn the_job_of_schemas_works() {
    assert!(Guide::new().job(SCHEMAS) > 8);
}

#[test]
fn a_node_of_a_testbed_works_from_start_to_finish() {
    let job = "A node of a testbed, from start to finish";
    assert!(Guide::of("node.md", true).job(job) > 12);
}
