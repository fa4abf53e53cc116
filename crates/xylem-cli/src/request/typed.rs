//! [`Typed`]: reads codes, one per line, from a terminal or a pipe.

use super::{CodeWantedRow, WantedCode, now_ms};
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::log::has_json_lines;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use xylem_base::Stop;
use xylem_client::STOP_CHECK_EVERY;
use xylem_ndncert::ChallengeKind;

/// Longest line that is read.
const MOST: u64 = 1024;

/// Standard input. It is not read before a code is needed.
pub(super) struct Typed {
    stop: Stop,
    lines: Option<Receiver<String>>,
}

impl Typed {
    pub(super) fn new(stop: Stop) -> Self {
        Typed { stop, lines: None }
    }

    /// The next line that is not empty.
    pub(super) fn code(
        &mut self,
        wanted: &WantedCode,
        out: &mut Out,
    ) -> Result<String, CommandFailure> {
        self.ask(wanted, out)?;
        let lines = match &mut self.lines {
            Some(lines) => lines,
            none => none.insert(lines()?),
        };
        loop {
            if self.stop.raised() {
                return Err(CommandFailure::new(Exit::Interrupted, "interrupted"));
            }
            if now_ms() >= wanted.until_ms {
                let late =
                    "the CA no longer takes the code: its time is over; run the command again";
                return Err(CommandFailure::new(Exit::Unreachable, late));
            }
            match lines.recv_timeout(STOP_CHECK_EVERY) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let none = "the CA wants a code, and standard input has none: type it at a terminal, or pipe \
                                it in, a line for each try";
                    return Err(CommandFailure::new(Exit::Usage, none));
                }
            }
        }
    }

    fn ask(&self, wanted: &WantedCode, out: &mut Out) -> Result<(), CommandFailure> {
        let &WantedCode { kind, wrong, tries, until_ms } = wanted;
        if out.is_json() {
            let challenge = kind.name();
            return out.json(&CodeWantedRow { challenge, wrong, tries, until_ms });
        }
        if wrong {
            out.warn("the code is wrong");
        }
        let whence = match kind {
            ChallengeKind::Email => "which comes by email",
            _ => "which the CA's operator tells you",
        };
        let tries = if tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") };
        if io::stdin().is_terminal() && !has_json_lines() {
            let mut err = io::stderr().lock();
            let _ = write!(err, "Code, {whence} ({tries}): ").and_then(|()| err.flush());
        } else {
            out.note(&format!("Code, {whence} ({tries}):"));
        }
        Ok(())
    }
}

/// Starts a thread that reads lines. It ends with the program, as it blocks in reads alone.
fn lines() -> Result<Receiver<String>, CommandFailure> {
    let (send, lines) = sync_channel(4);
    let read = move || {
        let mut from = BufReader::new(io::stdin());
        loop {
            let mut line = Vec::new();
            let read = from.by_ref().take(MOST).read_until(b'\n', &mut line);
            let text = String::from_utf8_lossy(&line).into_owned();
            if !matches!(read, Ok(1..)) || send.send(text).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("typed".to_owned()).spawn(read);
    started.map_err(|e| CommandFailure::no_thread(&e))?;
    Ok(lines)
}
