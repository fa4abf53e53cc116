//! Digests as text: the lines of `b3sum`.

use super::complain;
use super::engine::{Digest, Sink};
use crate::exit::{Exit, Failure};
use crate::output::Json;
use crate::output::text::path_for_sums;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::PathBuf;
use xylem_hash::{BLOCK_LEN, Hash, OUT_LEN};

/// How each digest is written.
pub(super) struct Form {
    pub(super) json: bool,
    pub(super) raw: bool,
    pub(super) names: bool,
    pub(super) tag: bool,
    pub(super) seek: u64,
    pub(super) length: u64,
}

/// Prints one line per file, in order, and counts those that could not be read.
pub(super) struct Sums {
    form: Form,
    out: BufWriter<Stdout>,
    failed: bool,
}

impl Sums {
    pub(super) fn new(form: Form) -> Self {
        Self { form, out: BufWriter::with_capacity(64 << 10, io::stdout()), failed: false }
    }

    /// Writes out what is left; the exit code of the whole run.
    pub(super) fn end(mut self) -> Result<Exit, Failure> {
        self.out.flush().map_err(|e| Failure::writing(&e))?;
        Ok(if self.failed { Exit::Damaged } else { Exit::Done })
    }

    fn write(&mut self, path: &std::path::Path, mut digest: Digest) -> io::Result<()> {
        let form = &self.form;
        let out = &mut self.out;
        if form.json {
            let hash = digest.hex(form.seek, form.length);
            let event = Json::Sum { path: path.to_string_lossy().into_owned(), hash: &hash };
            return writeln!(out, "{}", event.to_line());
        }
        if form.raw {
            return digest.write_with(form.seek, form.length, |bytes| out.write_all(bytes));
        }
        let (mark, name) = if form.names { path_for_sums(path) } else { ("", String::new()) };
        out.write_all(mark.as_bytes())?;
        if form.names && form.tag {
            write!(out, "BLAKE3 ({name}) = ")?;
        }
        let mut text = String::with_capacity(2 * BLOCK_LEN);
        digest.write_with(form.seek, form.length, |bytes| {
            text.clear();
            hex(bytes, &mut text);
            out.write_all(text.as_bytes())
        })?;
        if form.names && !form.tag {
            write!(out, "  {name}")?;
        }
        out.write_all(b"\n")
    }
}

impl Sink<PathBuf> for Sums {
    fn result(&mut self, path: PathBuf, found: Option<io::Result<Digest>>) -> Result<(), Failure> {
        match found {
            Some(Ok(digest)) => self.write(&path, digest).map_err(|e| Failure::writing(&e)),
            Some(Err(error)) => {
                self.failed = true;
                // In the order in which a person would see them.
                self.out.flush().map_err(|e| Failure::writing(&e))?;
                complain(&path, &error);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn idle(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|e| Failure::writing(&e))
    }
}

/// Appends lowercase hexadecimal.
fn hex(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
    }
}

impl Digest {
    /// Hands `length` bytes from `seek` on to `write`, in pieces of at most a block.
    pub(super) fn write_with(
        &mut self,
        seek: u64,
        mut length: u64,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::Root(hash) => {
                // The engine makes this form only where all that is asked for is within the hash.
                let from = seek.min(32) as usize;
                let to = seek.saturating_add(length).min(32) as usize;
                write(&hash.as_bytes()[from..to])
            }
            Self::Output(reader) => {
                reader.set_position(seek);
                let mut block = [0; BLOCK_LEN];
                while length > 0 {
                    let take = length.min(BLOCK_LEN as u64) as usize;
                    reader.fill(&mut block[..take]);
                    write(&block[..take])?;
                    length -= take as u64;
                }
                Ok(())
            }
        }
    }

    /// The 32 bytes from `seek` on, compared in constant time as a [`xylem_hash::Hash`].
    pub(super) fn first_32(mut self, seek: u64) -> Hash {
        let mut bytes = Vec::with_capacity(OUT_LEN);
        self.write_with(seek, OUT_LEN as u64, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .expect("writing to a Vec cannot fail");
        let bytes = bytes.try_into().expect("32 bytes were asked for, and come in one piece");
        Hash::from_bytes(bytes)
    }

    fn hex(mut self, seek: u64, length: u64) -> String {
        let mut text = String::new();
        self.write_with(seek, length, |bytes| {
            hex(bytes, &mut text);
            Ok(())
        })
        .expect("writing to a String cannot fail");
        text
    }
}
