//! `xylem sum --check`: reads lists of checksums and checks the files that they name.
//!
//! The wording and the strictness are b3sum's. A check may fail for a right file, but never succeeds for a wrong one:
//! names that could stand for several files are refused.

use super::engine::{Digest, SumItem, SumSettings, SumSink};
use super::meter::{ByteMeter, metered};
use super::{AHEAD, exit_for};
use crate::exit::{CommandFailure, Exit};
use crate::output::text::clean;
use crate::output::{Out, error_line, json_line};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Stdout, Write};
use std::path::{Path, PathBuf};
use xylem_hash::{Hash, OUT_LEN};

/// Longest line of a list in bytes; the longest path of any system is well below.
const MAX_LINE: u64 = 1 << 20;

/// The arguments of a check.
pub(super) struct SumCheckOptions {
    /// The lists.
    pub(super) lists: Vec<PathBuf>,
    /// Whether missing files are skipped.
    pub(super) ignore_missing: bool,
}

/// Runs the check. The exit code is 0 if all is good, 1 if anything is not.
pub(super) fn run(
    engine: &SumSettings,
    wanted: SumCheckOptions,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let SumCheckOptions { lists, ignore_missing } = wanted;
    let (json, quiet) = (out.is_json(), out.is_quiet());
    // Lines that come one by one, as from a pipe, are checked and shown one by one.
    let ahead = if lists.iter().all(|list| list.is_file()) { AHEAD } else { 1 };
    let inputs = lists.clone();
    let [failed, verified] = metered(
        out,
        &inputs,
        || 0,
        |meter| {
            let entries = lists.into_iter().flat_map(ChecksumList::new);
            let out = BufWriter::with_capacity(64 << 10, io::stdout());
            let mut results =
                Results { json, quiet, ignore_missing, failed: 0, verified: 0, out, meter };
            let ran = engine.run(entries, ahead, meter, &mut results);
            results.idle()?;
            ran.map(|()| [results.failed, results.verified])
        },
    )?;
    if failed > 0 {
        let s = if failed == 1 { "" } else { "s" };
        error_line(&format!("WARNING: {failed} computed checksum{s} did NOT match"));
        return Ok(Exit::Damaged);
    }
    if ignore_missing && verified == 0 {
        error_line("none of the listed files exists: no checksum was verified");
        return Ok(Exit::Damaged);
    }
    Ok(Exit::Done)
}

/// A line that can be checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckLine {
    /// The name with its escapes, as the list contains it.
    shown: String,
    path: PathBuf,
    expected: Hash,
}

pub(super) enum ListedEntry {
    /// A line to check, or the reason why it is invalid.
    Line(Result<CheckLine, &'static str>),
    /// The list itself cannot be read further.
    Broken(CommandFailure),
}

impl SumItem for ListedEntry {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Line(Ok(line)) => Some(&line.path),
            Self::Line(Err(_)) | Self::Broken(_) => None,
        }
    }
}

/// The entries of one list, read as they are needed.
pub(super) struct ChecksumList {
    path: PathBuf,
    reader: Option<io::Result<Box<dyn BufRead + Send>>>,
}

impl ChecksumList {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, reader: None }
    }

    fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
        if path == Path::new("-") {
            return Ok(Box::new(BufReader::new(io::stdin())));
        }
        Ok(Box::new(BufReader::new(File::open(path)?)))
    }

    /// The next line, with its line end; `None` at the end.
    pub(super) fn next_line(&mut self) -> Result<Option<String>, CommandFailure> {
        self.read_line().map_err(|error| {
            let name = self.path.to_string_lossy();
            CommandFailure::new(exit_for(&error), format!("cannot read the list {name}: {error}"))
        })
    }

    fn read_line(&mut self) -> io::Result<Option<String>> {
        let path = &self.path;
        let reader = match self.reader.get_or_insert_with(|| Self::open(path)) {
            Ok(reader) => reader,
            Err(error) => return Err(io::Error::new(error.kind(), error.to_string())),
        };
        let mut bytes = Vec::new();
        let read = reader.take(MAX_LINE).read_until(b'\n', &mut bytes)?;
        if read as u64 == MAX_LINE {
            return Err(io::Error::other(
                "a line is longer than 1 MiB; this is no list of checksums",
            ));
        }
        let not_text =
            |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
        Ok(Some(String::from_utf8(bytes).map_err(not_text)?).filter(|line| !line.is_empty()))
    }
}

impl Iterator for ChecksumList {
    type Item = ListedEntry;

    fn next(&mut self) -> Option<ListedEntry> {
        match self.next_line() {
            Ok(line) => line.map(|line| ListedEntry::Line(parse(&line))),
            Err(failure) => Some(ListedEntry::Broken(failure)),
        }
    }
}

/// Parses `HASH  NAME` or `BLAKE3 (NAME) = HASH`, either with a backslash before it if the name has escapes.
fn parse(line: &str) -> Result<CheckLine, &'static str> {
    let line = line.trim_end_matches(['\r', '\n']);
    if line.is_empty() {
        return Err("Empty line");
    }
    let (escaped, rest) = match line.strip_prefix('\\') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    // A name may contain either separator. So the first form is split at the first one, and the second form at the last
    // one.
    let tagged = |rest: &'_ str| -> Option<(String, String)> {
        let (name, hash) = rest.strip_prefix("BLAKE3 (")?.rsplit_once(") = ")?;
        Some((hash.to_owned(), name.to_owned()))
    };
    let (hash, name) = rest
        .split_once("  ")
        .map(|(hash, name)| (hash.to_owned(), name.to_owned()))
        .or_else(|| tagged(rest))
        .ok_or("Invalid check line format")?;
    let expected = parse_hash(&hash)?;
    let path = if escaped { unescape(&name)? } else { name.clone() };
    if path.is_empty() {
        return Err("empty file path");
    }
    if path.contains('\0') {
        return Err("Null character in path");
    }
    // U+FFFD replaces bytes that are not UTF-8, so several files may have this name.
    if path.contains(char::REPLACEMENT_CHARACTER) {
        return Err("Unicode replacement character in path");
    }
    if cfg!(windows) && path.contains('\\') {
        return Err("Backslash in path");
    }
    let shown = if escaped { format!("\\{name}") } else { name };
    Ok(CheckLine { shown, path: path.into(), expected })
}

/// Parses lowercase hexadecimal only, as b3sum does.
fn parse_hash(text: &str) -> Result<Hash, &'static str> {
    if text.len() != 2 * OUT_LEN {
        return Err("Invalid hash length");
    }
    let digit = |d: u8| match d {
        b'0'..=b'9' => Ok(d - b'0'),
        b'a'..=b'f' => Ok(d - b'a' + 10),
        _ => Err("Invalid hex"),
    };
    let mut bytes = [0; OUT_LEN];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(Hash::from_bytes(bytes))
}

fn unescape(name: &str) -> Result<String, &'static str> {
    let mut plain = String::with_capacity(name.len());
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('\\') => '\\',
                _ => return Err("Invalid backslash escape"),
            },
            other => other,
        });
    }
    Ok(plain)
}

/// Compares hashes, prints results and counts them.
struct Results<'a> {
    json: bool,
    quiet: bool,
    ignore_missing: bool,
    failed: u64,
    verified: u64,
    out: BufWriter<Stdout>,
    meter: &'a ByteMeter,
}

impl Results<'_> {
    fn print(&mut self, line: &CheckLine, ok: bool, why: Option<&str>) -> io::Result<()> {
        if self.json {
            let path = line.path.to_string_lossy().into_owned();
            return writeln!(self.out, "{}", json_line(&CheckRow { path, ok, why }));
        }
        // A list may come from a stranger: escape its names, so that none controls the terminal or looks like another
        // one.
        let shown = clean(&line.shown);
        match (ok, why) {
            (true, _) if self.quiet => Ok(()),
            (true, _) => writeln!(self.out, "{shown}: OK"),
            (false, None) => writeln!(self.out, "{shown}: FAILED"),
            (false, Some(why)) => writeln!(self.out, "{shown}: FAILED ({why})"),
        }
    }
}

impl SumSink<ListedEntry> for Results<'_> {
    fn result(
        &mut self,
        entry: ListedEntry,
        found: Option<io::Result<Digest>>,
    ) -> Result<(), CommandFailure> {
        let line = match entry {
            ListedEntry::Line(Ok(line)) => line,
            ListedEntry::Line(Err(why)) => {
                self.failed = self.failed.saturating_add(1);
                self.idle()?;
                self.meter.aside(|| error_line(why));
                return Ok(());
            }
            ListedEntry::Broken(failure) => return Err(failure),
        };
        let (ok, why) = match found {
            Some(Ok(digest)) => (digest.into_hash() == line.expected, None),
            Some(Err(error)) if self.ignore_missing && error.kind() == io::ErrorKind::NotFound => {
                return Ok(());
            }
            Some(Err(error)) => (false, Some(error.to_string())),
            None => (false, Some("not read".to_owned())),
        };
        let count = if ok { &mut self.verified } else { &mut self.failed };
        *count = count.saturating_add(1);
        self.print(&line, ok, why.as_deref()).map_err(|e| CommandFailure::writing(&e))
    }

    fn idle(&mut self) -> Result<(), CommandFailure> {
        if self.out.buffer().is_empty() {
            return Ok(());
        }
        self.meter.aside(|| self.out.flush()).map_err(|e| CommandFailure::writing(&e))
    }
}

/// Event: one result of `sum --check`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "check")]
struct CheckRow<'a> {
    path: String,
    ok: bool,
    why: Option<&'a str>,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&CheckRow { path: "a".into(), ok: true, why: None });
    }
}
