//! Reads passphrases from a file that the user names, else from the terminal without echo.
//!
//! Passphrases are never arguments, which other users can see, and never in the log. A file descriptor is a file as
//! well (`/dev/fd/3`).

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use xylem_keys::{NoPassphrase, Passphrase, ask_passphrases};
use zeroize::Zeroizing;

/// Longest passphrase in bytes.
const MOST: usize = 1_024;

/// Makes every verb ask in the same way when it meets a key under a passphrase.
pub(crate) fn ask_when_needed(common: &Common) {
    let file = common.passphrase_file.clone();
    // A key may be read several times in a run. The answer is kept, so that the user types it once and a pipe is read
    // once.
    let last = Mutex::new(None::<(String, Passphrase)>);
    ask_passphrases(move |what| {
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, known)) = last.as_ref().filter(|(of, _)| file.is_some() || of == what) {
            return Ok(known.clone());
        }
        let said = match &file {
            Some(file) => from_file(file).map_err(NoPassphrase::Because)?,
            None => terminal::ask(&format!("Passphrase of {what}: "))
                .map_err(|no| with_flag(no, FLAG))?,
        };
        *last = Some((what.to_owned(), said.clone()));
        Ok(said)
    });
}

/// A new passphrase for a key: from this file, or typed twice. `flag` names the file to users without a terminal.
pub(crate) fn new(
    what: &str,
    file: Option<&PathBuf>,
    flag: &str,
) -> Result<Passphrase, CommandFailure> {
    let usage = |why: String| CommandFailure::new(Exit::Usage, why);
    let failed = |no| match with_flag(no, flag) {
        NoPassphrase::Interrupted => CommandFailure::new(Exit::Interrupted, "interrupted"),
        NoPassphrase::Because(why) => usage(format!("no passphrase for {what}: {why}")),
    };
    let passphrase = match file {
        Some(file) => from_file(file).map_err(usage)?,
        None => {
            let typed = terminal::ask(&format!("New passphrase for {what}: ")).map_err(failed)?;
            let again = terminal::ask("Repeat the passphrase: ").map_err(failed)?;
            if typed != again {
                return Err(usage("the two passphrases differ; nothing was changed".to_owned()));
            }
            typed
        }
    };
    if passphrase.is_empty() {
        return Err(usage("the passphrase is empty".to_owned()));
    }
    Ok(passphrase)
}

/// The first line of a file.
fn from_file(path: &Path) -> Result<Passphrase, String> {
    let cannot = |why: String| format!("cannot read the passphrase in {}: {why}", path.display());
    let mut bytes = Zeroizing::new(Vec::with_capacity(MOST + 2));
    let read = File::open(path).and_then(|f| f.take(MOST as u64 + 2).read_to_end(&mut bytes));
    read.map_err(|e| cannot(e.to_string()))?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > MOST {
        return Err(cannot(format!("more than {MOST} bytes")));
    }
    Ok(Zeroizing::new(line.to_vec()))
}

/// The flag that names a file with the passphrase of a key.
pub(crate) const FLAG: &str = "--passphrase-file FILE (or XYLEM_PASSPHRASE_FILE)";

const NO_TERMINAL: &str = "there is no terminal to ask at";

/// Adds the flag that makes a terminal unnecessary.
fn with_flag(no: NoPassphrase, flag: &str) -> NoPassphrase {
    match no {
        NoPassphrase::Because(why) => NoPassphrase::Because(format!("{why}; give {flag}")),
        other => other,
    }
}

#[cfg(unix)]
mod terminal {
    use super::{MOST, NO_TERMINAL, NoPassphrase, Passphrase};
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
    use std::fs::File;
    use std::io::{Read, Write};
    use zeroize::Zeroizing;

    /// Restores the terminal's settings on drop.
    struct Restore<'a>(&'a File, Termios);

    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            let _ = tcsetattr(self.0, OptionalActions::Flush, &self.1);
        }
    }

    /// Asks at the terminal of this process, even if standard input is something else. Keys are read one by one, and
    /// Ctrl-C is one of them, so that the terminal is never left without echo.
    pub(super) fn ask(prompt: &str) -> Result<Passphrase, NoPassphrase> {
        let because = |why: &str| NoPassphrase::Because(why.to_owned());
        let opened = File::options().read(true).write(true).open("/dev/tty");
        let mut terminal = opened.map_err(|_| because(NO_TERMINAL))?;
        let before = tcgetattr(&terminal).map_err(|_| because(NO_TERMINAL))?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&terminal, OptionalActions::Flush, &silent).map_err(|_| because(NO_TERMINAL))?;
        let mut keys = terminal.try_clone().map_err(|_| because(NO_TERMINAL))?;
        let restore = Restore(&terminal, before);
        let _ = (&terminal).write_all(prompt.as_bytes());
        let typed = line(&mut keys);
        drop(restore);
        let _ = terminal.write_all(b"\n");
        typed
    }

    /// Reads keys up to Enter. Backspace and Ctrl-U have their usual effects.
    fn line(keys: &mut impl Read) -> Result<Passphrase, NoPassphrase> {
        let mut typed = Zeroizing::new(Vec::with_capacity(MOST));
        let mut key = [0];
        loop {
            match keys.read(&mut key) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(1) => {}
                _ => return Err(NoPassphrase::Interrupted),
            }
            match key[0] {
                b'\r' | b'\n' => return Ok(typed),
                // Ctrl-C and Ctrl-D, Ctrl-U, Backspace.
                3 | 4 => return Err(NoPassphrase::Interrupted),
                0x15 => typed.clear(),
                8 | 0x7F => while typed.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {},
                other if typed.len() < MOST => typed.push(other),
                _ => {}
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn keys_make_a_line() {
            let typed = |keys: &[u8]| line(&mut &*keys).map(|typed| typed.to_vec());
            assert_eq!(typed(b"secret\rmore"), Ok(b"secret".to_vec()));
            assert_eq!(typed(b"wrong\x15se\xC3\xA4\x7Fcret\n"), Ok(b"secret".to_vec()));
            for end in [&b"sec\x03"[..], b"sec\x04", b"sec"] {
                assert_eq!(typed(end), Err(NoPassphrase::Interrupted), "{end:?}");
            }
            assert_eq!(typed(&[vec![b'x'; 5000], b"\n".to_vec()].concat()).unwrap().len(), MOST);
        }
    }
}

#[cfg(not(unix))]
mod terminal {
    use super::{NO_TERMINAL, NoPassphrase, Passphrase};

    pub(super) fn ask(_: &str) -> Result<Passphrase, NoPassphrase> {
        Err(NoPassphrase::Because(NO_TERMINAL.to_owned()))
    }
}
