//! Types the commands of docs/guide.md, on loopback, with three homes in a temporary folder.
//!
//! A line `NAME$ COMMAND` in a console block is a command of that person. The lines up to the next command are expected
//! in its output, in order; `…` stands for anything. `xylem:WORD…` is a ticket: where `share` is expected to print one,
//! that ticket gets this word, and in commands the word is replaced by it. A command that ends in `&`, and every
//! `share`, goes on in the background after its expected output. `^C` interrupts the last of them, `wait` waits for its
//! end.
#![cfg(unix)]

mod common;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::decaying::decay;
use common::until;

/// A person in the guide, with a home.
struct Person {
    home: PathBuf,
    /// Background processes, and the files of their output.
    running: Vec<(Child, PathBuf)>,
    outputs: usize,
}

impl Person {
    fn new(home: PathBuf) -> Self {
        fs::create_dir(&home).unwrap();
        Self { home, running: Vec::new(), outputs: 0 }
    }

    /// Starts a command; returns it and the file that its output goes to.
    fn start(&mut self, bin: &Path, command: &str) -> (Child, PathBuf) {
        self.outputs += 1;
        let output = self.home.with_extension(format!("output-{}", self.outputs));
        let into = File::create(&output).unwrap();
        let mut shell = Command::new("sh");
        // Ctrl-C is meant for the program itself and not for the shell.
        let simple = !command.contains(['|', ';', '>', '&']);
        let command = if simple { format!("exec {command}") } else { command.to_owned() };
        shell.args(["-c", &command]).current_dir(&self.home).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("XYLEM_") || name.starts_with("XDG_") {
                shell.env_remove(name);
            }
        }
        let path = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{path}", bin.display())).env("HOME", &self.home);
        shell.env("XYLEM_LISTEN", "127.0.0.1:0");
        shell.stdout(into.try_clone().unwrap()).stderr(into);
        (shell.spawn().unwrap(), output)
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        for (child, _) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether `line` is `pattern`, in which `…` stands for anything.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The first expected line that is missing in the output, if any.
fn missing<'a>(expected: &[&'a str], said: &str) -> Option<&'a str> {
    expected.iter().find(|pattern| !said.lines().any(|line| fits(pattern, line))).copied()
}

struct Guide {
    dir: tempfile::TempDir,
    people: HashMap<String, Person>,
    tickets: Vec<(String, String)>,
}

impl Guide {
    fn person(&mut self, name: &str) -> &mut Person {
        let home = self.dir.path().join(name);
        self.people.entry(name.to_owned()).or_insert_with(|| Person::new(home))
    }

    fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    fn type_in(&mut self, name: &str, command: &str, expected: &[&str]) {
        let bin = self.bin();
        let (command, code) = match command.split_once("   # exits with ") {
            Some((command, code)) => (command, code.parse().expect("an exit code")),
            None => (command, 0),
        };
        let mut typed = command.to_owned();
        for (word, ticket) in &self.tickets {
            typed = typed.replace(word, ticket);
        }
        let context = format!("{name}$ {command}");
        let person = self.person(name);
        match typed.as_str() {
            "^C" => {
                let (mut child, output) = person.running.pop().expect("something runs");
                let pid = child.id().to_string();
                assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
                let status = child.wait().unwrap();
                assert!(status.success(), "{context}: {}", fs::read_to_string(output).unwrap());
            }
            // Damage as by a disk, for which there is no command.
            decays if decays.starts_with("decay ") => {
                let words: Vec<&str> = decays.split(' ').collect();
                let [_, path, offset] = words[..] else { panic!("decay PATH OFFSET") };
                let (path, offset) = (person.home.join(path), offset.parse().expect("a number"));
                decay(&person.home.join(".local/share/xylem"), &path, |file| {
                    file.write_all_at(b"damaged!", offset).unwrap();
                });
            }
            "wait" => {
                let (mut child, output) = person.running.pop().expect("something runs");
                until("the end", || child.try_wait().unwrap().is_some());
                let status = child.wait().unwrap();
                assert!(status.success(), "{context}: {}", fs::read_to_string(output).unwrap());
            }
            shares if shares.starts_with("xylem share") => {
                let running = person.start(&bin, shares);
                let output = running.1.clone();
                person.running.push(running);
                let said = || fs::read_to_string(&output).unwrap();
                let (first, rest) = expected.split_first().expect("a share prints a ticket");
                until(&context, || said().contains("Serving until"));
                let said = said();
                let ticket = said.lines().find(|line| line.starts_with("xylem:"));
                self.tickets.push((first.to_string(), ticket.expect(&said).to_owned()));
                assert_eq!(missing(rest, &said), None, "{context} said\n{said}");
            }
            typed => match typed.strip_suffix(" &") {
                Some(background) => {
                    let running = person.start(&bin, background);
                    let output = running.1.clone();
                    person.running.push(running);
                    let said = || fs::read_to_string(&output).unwrap();
                    until(&context, || missing(expected, &said()).is_none());
                }
                None => {
                    let (mut child, output) = person.start(&bin, typed);
                    until(&context, || child.try_wait().unwrap().is_some());
                    let status = child.wait().unwrap();
                    let said = fs::read_to_string(output).unwrap();
                    assert_eq!(status.code(), Some(code), "{context} said\n{said}");
                    assert_eq!(missing(expected, &said), None, "{context} said\n{said}");
                }
            },
        }
    }
}

#[test]
fn commands_of_the_guide_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut guide = Guide { dir, people: HashMap::new(), tickets: Vec::new() };
    fs::create_dir(guide.bin()).unwrap();
    std::os::unix::fs::symlink(common::XYLEM, guide.bin().join("xylem")).unwrap();
    let prompt = |line: &'static str| {
        let (name, command) = line.split_once("$ ")?;
        name.chars().all(|c| c.is_ascii_lowercase()).then_some((name, command))
    };
    let (mut in_block, mut jobs, mut commands) = (false, 0, 0);
    let guide_md = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
    let text: &'static str = fs::read_to_string(guide_md).unwrap().leak();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        // A section to be typed has a number; the sections after those are for reading only.
        let heading = line.strip_prefix("## ");
        jobs += usize::from(heading.is_some_and(|h| h.starts_with(|c: char| c.is_ascii_digit())));
        if let Some(setup) = line.strip_prefix("<!-- setup ") {
            let (name, command) = setup.strip_suffix(" -->").unwrap().split_once(": ").unwrap();
            guide.type_in(name, command, &[]);
        }
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if let Some((name, command)) = prompt(line).filter(|_| in_block) {
            let mut expected = Vec::new();
            let goes_on = |line: &&'static str| prompt(line).is_none() && !line.starts_with("```");
            while let Some(line) = lines.next_if(goes_on) {
                expected.push(line);
            }
            guide.type_in(name, command, &expected);
            commands += 1;
        }
    }
    assert!(jobs == 5 && commands > 20, "{jobs} jobs, {commands} commands");
}
