//! The contents of the screen: sessions under a pseudo-terminal of 80×24 and of 40×24, drawn by a terminal emulator.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::common;
use crate::common::{Share, file, noise, text, until, until_all_is_read};

/// Columns of the two terminals; both have 24 rows.
const WIDTHS: [u16; 2] = [80, 40];
const ROWS: u16 = 24;

fn cells(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap()
}

/// A program on a terminal of its own; killed when dropped.
struct Session {
    child: Child,
    keyboard: File,
    output: Arc<Mutex<(vt100::Parser, Vec<u8>)>>,
}

impl Session {
    fn start(columns: u16, store: &Path, arguments: &[&str]) -> Self {
        Self::on("xterm-256color", columns, store, arguments)
    }

    fn on(term: &str, columns: u16, store: &Path, arguments: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = || {
            let end = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
            Stdio::from(end)
        };
        // In a session of its own with this terminal, so that Ctrl-C reaches it.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(common::XYLEM).arg("--store").arg(store).args(arguments);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("XYLEM_") || name == "NO_COLOR" {
                command.env_remove(name);
            }
        }
        command.env("TERM", term).stdin(slave()).stdout(slave()).stderr(slave());
        let child = command.spawn().expect("util-linux has setsid");
        drop(command);
        let mut screen = File::from(master.try_clone().unwrap());
        let output =
            Arc::new(Mutex::new((vt100::Parser::new(cells(ROWS), cells(columns), 0), Vec::new())));
        let into = output.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal ends with an error once no process holds its other end.
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                let mut output = into.lock().unwrap();
                output.0.process(&bytes[..n]);
                output.1.extend_from_slice(&bytes[..n]);
            }
        });
        Self { child, keyboard: File::from(master), output }
    }

    /// The contents of the screen, with wrapped lines joined.
    fn screen(&self) -> String {
        self.output.lock().unwrap().0.screen().contents()
    }

    /// All output so far.
    fn written(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap().1).into_owned()
    }

    fn until_shows(&self, part: &str) -> String {
        let mut screen = String::new();
        until(part, || {
            screen = self.screen();
            screen.contains(part)
        });
        screen
    }

    fn press_ctrl_c(&mut self) {
        self.keyboard.write_all(b"\x03").unwrap();
    }

    /// Waits for its end; returns the exit code, and the screen at that time.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut status = None;
        until("the end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        until_all_is_read(&self.output);
        (status.and_then(|status| status.code()), self.screen())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asserts that no row is torn: a bar wider than the screen would leave its pieces behind.
fn assert_one_bar(screen: &str) {
    assert_eq!(screen.matches(" verified").count(), 1, "{screen}");
}

#[test]
fn a_share_shows_its_ticket_and_keeps_it_on_the_screen() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "film.mkv", &noise(100_000, 1));
    for columns in WIDTHS {
        let store = dir.path().join(format!("store-{columns}"));
        let listen = ["share", "--listen", "127.0.0.1:0", text(&source)];
        let mut session = Session::start(columns, &store, &listen);
        let screen = session.until_shows("Serving until Ctrl-C.");
        let written = session.written();
        let ticket = written.split_whitespace().find(|word| word.starts_with("xylem:")).unwrap();
        assert!(screen.contains(ticket), "{columns}: the ticket is gone from\n{screen}");
        assert!(screen.contains(&format!("xylem get {ticket}")), "{columns}:\n{screen}");
        assert!(screen.contains("Reachable at 127.0.0.1:"), "{columns}:\n{screen}");
        session.press_ctrl_c();
        assert_eq!(session.end().0, Some(0), "{columns}");
    }
}

#[test]
fn a_get_draws_one_bar_and_is_interrupted_by_ctrl_c() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "film.mkv", &noise(8_000_000, 2));
    let share = Share::start(&source, &dir.path().join("store"));
    for columns in WIDTHS {
        let (store, out) = (dir.path().join("other"), dir.path().join(format!("out-{columns}")));
        let slow = ["get", &share.ticket, "--limit", "1M", "-o", text(&out)];
        let mut session = Session::start(columns, &store, &slow);
        session.until_shows("Fetching film.mkv");
        let screen = session.until_shows("7.63 MiB verified");
        assert_one_bar(&screen);
        session.press_ctrl_c();
        let (code, screen) = session.end();
        assert_eq!(code, Some(130), "{screen}");
        assert!(screen.contains("interrupted; what was verified is kept"), "{screen}");
        let rest = ["get", &share.ticket, "-o", text(&out)];
        let (code, screen) = Session::start(columns, &store, &rest).end();
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains("from an earlier run verified"), "{screen}");
        assert!(screen.contains("Verified 7.63 MiB in 1 file"), "{screen}");
        assert!(!screen.contains('█'), "the bar is taken away: {screen}");
    }
}

#[test]
fn an_unreachable_peer_is_on_the_screen_before_anything_ends() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "film.mkv", &noise(1_000, 3));
    let share = Share::start(&source, &dir.path().join("store"));
    let (ticket, at) = (share.ticket.clone(), share.link.clone());
    drop(share);
    for columns in WIDTHS {
        let mut session = Session::start(columns, &dir.path().join("other"), &["get", &ticket]);
        let screen = session.until_shows("still trying");
        assert!(screen.contains(&format!("No answer yet from {at}")), "{screen}");
        session.until_shows("--announce HOST:PORT");
        session.press_ctrl_c();
        let (code, screen) = session.end();
        assert_eq!(code, Some(130), "{screen}");
    }
}

#[test]
fn an_error_is_one_red_word_and_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    for columns in WIDTHS {
        let mut wrong = Session::start(columns, dir.path(), &["get", "xylem:nonsense"]);
        let (code, screen) = wrong.end();
        assert_eq!(code, Some(2), "{screen}");
        assert!(screen.starts_with("xylem: "), "{screen}");
        let written = wrong.written();
        assert!(written.contains("\x1b[1;31mxylem\x1b[0m: "), "{written:?}");
    }
}

/// A terminal without cursor movement gets lines, as a file does.
#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "film.mkv", &noise(4_000_000, 4));
    let share = Share::start(&source, &dir.path().join("store"));
    let out = dir.path().join("out");
    let slow = ["get", &share.ticket, "--limit", "1M", "-o", text(&out)];
    let mut session = Session::on("dumb", 80, &dir.path().join("other"), &slow);
    session.until_shows("Verified 3.81 MiB");
    let written = session.written();
    assert!(written.contains(" verified ("), "progress is told: {written}");
    assert!(!written.contains('\x1b'), "{written:?}");
    // The terminal itself turns each newline into a carriage return and a newline.
    assert!(!written.replace("\r\n", "\n").contains('\r'), "{written:?}");
    assert_eq!(session.end().0, Some(0));
    let mut wrong = Session::on("dumb", 80, dir.path(), &["get", "xylem:nonsense"]);
    assert_eq!(wrong.end().0, Some(2));
    assert!(!wrong.written().contains('\x1b'));
}
