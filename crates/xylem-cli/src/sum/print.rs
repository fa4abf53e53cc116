//! Writes digests as text: the lines of `b3sum`.

use super::engine::{Digest, SumSink};
use super::meter::ByteMeter;
use super::paths::SumInput;
use super::{complain, exit_for};
use crate::exit::{CommandFailure, Exit};
use crate::output::json_line;
use crate::output::text::path_for_sums;
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use xylem_hash::{Hash, OUT_LEN};

/// Bytes of a long output that are computed at a time.
const PIECE: usize = 8 << 10;

/// The form of each digest.
pub(super) struct SumFormat {
    pub(super) json: bool,
    pub(super) raw: bool,
    pub(super) names: bool,
    pub(super) tag: bool,
    pub(super) length: u64,
}

/// Prints one line per file, in order, and keeps the worst exit code.
pub(super) struct SumPrinter<'a> {
    form: SumFormat,
    meter: &'a ByteMeter,
    out: BufWriter<Stdout>,
    /// Whether standard output is a terminal.
    terminal: bool,
    exit: Exit,
}

impl<'a> SumPrinter<'a> {
    pub(super) fn new(form: SumFormat, meter: &'a ByteMeter) -> Self {
        let out = BufWriter::with_capacity(64 << 10, io::stdout());
        let terminal = io::stdout().is_terminal();
        Self { form, meter, out, terminal, exit: Exit::Done }
    }

    /// Flushes; returns the exit code of the whole run.
    pub(super) fn end(mut self) -> Result<Exit, CommandFailure> {
        self.idle()?;
        Ok(self.exit)
    }

    /// Writes the line of one file.
    pub(super) fn write(&mut self, path: &std::path::Path, mut digest: Digest) -> io::Result<()> {
        let SumFormat { json, raw, names, tag, length } = self.form;
        let out = &mut self.out;
        if json {
            let mut hash = Vec::new();
            digest.write_with(length, |bytes| write_hex(bytes, &mut hash))?;
            let hash = String::from_utf8(hash).expect("hexadecimal is ASCII");
            let event = SumRow { path: path.to_string_lossy().into_owned(), hash: &hash };
            return writeln!(out, "{}", json_line(&event));
        }
        if raw {
            return digest.write_with(length, |bytes| out.write_all(bytes));
        }
        let (mark, name) =
            if names { path_for_sums(path, self.terminal) } else { ("", String::new()) };
        out.write_all(mark.as_bytes())?;
        if names && tag {
            write!(out, "BLAKE3 ({name}) = ")?;
        }
        digest.write_with(length, |bytes| write_hex(bytes, out))?;
        if names && !tag {
            out.write_all(b"  ")?;
            out.write_all(name.as_bytes())?;
        }
        out.write_all(b"\n")
    }
}

impl<'a> SumSink<SumInput<'a>> for SumPrinter<'_> {
    fn result(
        &mut self,
        input: SumInput<'a>,
        found: Option<io::Result<Digest>>,
    ) -> Result<(), CommandFailure> {
        let found = match (found, input.error) {
            (_, Some(error)) => Err(error),
            (Some(found), None) => found,
            (None, None) => return Ok(()),
        };
        match found {
            Ok(digest) => self.write(&input.path, digest).map_err(|e| CommandFailure::writing(&e)),
            Err(error) => {
                self.exit = self.exit.max(exit_for(&error));
                // Flush first, so that a terminal shows lines and errors in order.
                self.idle()?;
                self.meter.aside(|| complain(&input.path, &error));
                Ok(())
            }
        }
    }

    fn idle(&mut self) -> Result<(), CommandFailure> {
        if self.out.buffer().is_empty() {
            return Ok(());
        }
        self.meter.aside(|| self.out.flush()).map_err(|e| CommandFailure::writing(&e))
    }
}

/// Writes lowercase hexadecimal.
fn write_hex(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 128];
    for bytes in bytes.chunks(text.len() / 2) {
        for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out.write_all(&text[..2 * bytes.len()])?;
    }
    Ok(())
}

impl Digest {
    /// Passes `length` bytes to `write`, in pieces.
    fn write_with(
        &mut self,
        mut length: u64,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            // The engine uses this form only if no more is wanted.
            Self::Short(bytes) => write(&bytes[..length.min(OUT_LEN as u64) as usize]),
            Self::Long(reader) => {
                let mut piece = vec![0; length.min(PIECE as u64) as usize];
                while length > 0 {
                    let take = length.min(PIECE as u64) as usize;
                    reader.fill(&mut piece[..take]);
                    write(&piece[..take])?;
                    length -= take as u64;
                }
                Ok(())
            }
        }
    }

    /// The first 32 bytes as a [`Hash`](struct@Hash), which compares in constant time.
    pub(super) fn into_hash(self) -> Hash {
        Hash::from_bytes(match self {
            Self::Short(bytes) => bytes,
            Self::Long(mut reader) => {
                let mut bytes = [0; OUT_LEN];
                reader.fill(&mut bytes);
                bytes
            }
        })
    }
}

/// Event: one result of `sum`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sum")]
pub(crate) struct SumRow<'a> {
    pub(crate) path: String,
    pub(crate) hash: &'a str,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&SumRow { path: "a".into(), hash: "00" });
    }
}
