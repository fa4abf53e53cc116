//! `xylem sum --part` and `--merge`: several machines compute one hash.

use super::check::ChecksumList;
use super::engine::{Digest, SumSettings};
use super::meter::{ByteMeter, metered};
use super::print::{SumFormat, SumPrinter};
use super::region::{REGION, SplitFile};
use super::{exit_for, sync, unusable};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Out, json_line};
use crate::values::ByteRange;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use xylem_hash::{CHUNK_LEN, Hash, OUT_LEN};
use xylem_tree::parts::{
    LineValue, Merged, MessagePart, PartLine, PartMerger, PartMode, lines, subtrees,
};

/// The arguments of a part.
pub(super) struct PartOptions {
    pub(super) file: PathBuf,
    /// The range; without one, the whole file.
    pub(super) range: Option<ByteRange>,
    /// Size in bytes of the whole, if standard input is a range of it.
    pub(super) size: Option<u64>,
}

/// Prints the part.
pub(super) fn part(
    engine: &SumSettings,
    mode: PartMode,
    wanted: PartOptions,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let json = out.is_json();
    let range = wanted.range.unwrap_or(ByteRange { start: 0, end: None });
    if !range.start.is_multiple_of(CHUNK_LEN as u64) {
        return Err(unusable("--range has to begin at a multiple of 1024 bytes"));
    }
    let source = if wanted.file.as_os_str() == "-" {
        if let Some(why) = engine.stdin_is_taken {
            return Err(unusable(why));
        }
        PartSource::Stream(wanted.size)
    } else {
        if wanted.size.is_some() {
            return Err(unusable("--size is for standard input; a file's size is known"));
        }
        PartSource::of(&wanted.file)?
    };
    let total = source.total();
    let end = match (range.end, total) {
        (Some(end), Some(total)) if end > total => {
            return Err(unusable(format!(
                "--range ends at byte {end}, but there are only {total} bytes"
            )));
        }
        (None, Some(total)) if range.start > 0 && range.start >= total => {
            return Err(unusable(format!(
                "--range begins at byte {}, but there are only {total} bytes",
                range.start
            )));
        }
        (end, total) => end.or(total),
    };
    if end
        .is_some_and(|end| !end.is_multiple_of(CHUNK_LEN as u64) && total.is_some_and(|t| end < t))
    {
        return Err(unusable(
            "--range has to end at a multiple of 1024 bytes, or at the end of the file",
        ));
    }
    let inputs = [wanted.file.clone()];
    let bytes = end.map_or(0, |end| end - range.start);
    let hashed = metered(
        out,
        &inputs,
        || bytes,
        |meter| {
            source.hash(engine, range.start, end, meter).map_err(|error| {
                let name = wanted.file.to_string_lossy();
                CommandFailure::new(exit_for(&error), format!("{name}: {error}"))
            })
        },
    )?;
    let mut out = BufWriter::new(io::stdout());
    let own = || hashed.own.unwrap_or_else(|| engine.base.finalize());
    for line in lines(mode, total, &hashed.part, own) {
        let written = if json {
            writeln!(out, "{}", json_line(&PartRow::of(&line)))
        } else {
            writeln!(out, "{line}")
        };
        written.map_err(|e| CommandFailure::writing(&e))?;
    }
    out.flush().map_err(|e| CommandFailure::writing(&e))?;
    Ok(Exit::Done)
}

/// Prints the hash of the message that the parts make up.
pub(super) fn merge(
    engine: &SumSettings,
    mode: PartMode,
    files: Vec<PathBuf>,
    form: SumFormat,
) -> Result<Exit, CommandFailure> {
    let mut whole = PartMerger::default();
    for file in files {
        if let (Some(why), "-") = (engine.stdin_is_taken, &*file.to_string_lossy()) {
            return Err(unusable(why));
        }
        let mut list = ChecksumList::new(file.clone());
        let mut number = 0_u64;
        while let Some(line) = list.next_line()? {
            number += 1;
            let taken =
                line.trim_end_matches(['\r', '\n']).parse().and_then(|line| whole.add(line));
            taken.map_err(|error| {
                unusable(format!("{}, line {number}: {error}", file.to_string_lossy()))
            })?;
        }
    }
    let merged = whole.output(engine.tree.as_ref(), mode).map_err(|e| unusable(e.to_string()))?;
    let digest = match merged {
        Merged::Output(output) => engine.digest(output),
        Merged::Hash(hash) if engine.seek == 0 && engine.length <= OUT_LEN as u64 => {
            Digest::Short(*hash.as_bytes())
        }
        Merged::Hash(_) => {
            return Err(unusable(
                "parts of a message of at most 1024 bytes give 32 bytes of output: hash it whole",
            ));
        }
    };
    let meter = ByteMeter::silent();
    let mut sums = SumPrinter::new(SumFormat { names: false, ..form }, &meter);
    sums.write(Path::new("-"), digest).map_err(|e| CommandFailure::writing(&e))?;
    sums.end()
}

/// The source of a part's bytes.
enum PartSource {
    /// Standard input holds the part alone. The size of the whole message, if it is known.
    Stream(Option<u64>),
    /// A file and its size in bytes.
    File(File, u64),
}

/// A part. If it is a single chunk at the beginning, also the hash of its own bytes.
struct HashedPart {
    part: MessagePart,
    own: Option<Hash>,
}

impl PartSource {
    fn of(path: &Path) -> Result<Self, CommandFailure> {
        let opened = File::open(path).and_then(|file| {
            let kind = file.metadata()?;
            if kind.is_file() {
                return Ok(Self::File(file, kind.len()));
            }
            let why = "--part reads regular files; pipe the bytes of anything else in";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        });
        opened.map_err(|error| {
            CommandFailure::new(exit_for(&error), format!("{}: {error}", path.to_string_lossy()))
        })
    }

    fn total(&self) -> Option<u64> {
        match self {
            Self::Stream(size) => *size,
            Self::File(_, size) => Some(*size),
        }
    }

    fn hash(
        self,
        engine: &SumSettings,
        start: u64,
        end: Option<u64>,
        meter: &ByteMeter,
    ) -> io::Result<HashedPart> {
        match (self, end) {
            (Self::File(file, _), Some(end))
                if end - start > REGION as u64 && engine.threads.get() > 1 =>
            {
                let part = on_all_cores(engine, file, start..end, meter)?;
                Ok(HashedPart { part, own: None })
            }
            (Self::File(mut file, _), end) => {
                file.seek(SeekFrom::Start(start))?;
                let most = end.map_or(u64::MAX, |end| end - start);
                stream(engine, file.take(most), start, end, meter)
            }
            (Self::Stream(_), end) => stream(engine, io::stdin().lock(), start, end, meter),
        }
    }
}

fn on_all_cores(
    engine: &SumSettings,
    file: File,
    bytes: Range<u64>,
    meter: &ByteMeter,
) -> io::Result<MessagePart> {
    let tree = engine.tree.as_ref();
    let threads = engine.threads.get();
    let cut = SplitFile::new(0, (), file, bytes, threads);
    let outcome = Mutex::new(None);
    let work = || {
        let mut desk = engine.worker_buffers();
        while let Some(regions) = cut.take() {
            let nodes = cut.hash(regions.clone(), tree, &mut desk, meter);
            if let Some(((), part)) = cut.finish(regions, nodes, tree) {
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(part);
            }
        }
    };
    sync::scope(|scope| {
        for _ in 1..threads.min(cut.worth_helpers()) {
            // If the system cannot start another thread, the others do the work.
            sync::start(scope, work);
        }
        sync::yield_to_new_thread();
        work();
    });
    let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.unwrap_or_else(|| Err(io::Error::other("no thread finished the part")))
}

/// Hashes all that `from` gives. It has to end at byte `end` of the message, if that is known.
fn stream(
    engine: &SumSettings,
    mut from: impl Read,
    start: u64,
    end: Option<u64>,
    meter: &ByteMeter,
) -> io::Result<HashedPart> {
    let tree = engine.tree.as_ref();
    let (mut part, mut own, mut at) = (MessagePart::default(), None, start);
    let mut buffer = vec![0; REGION];
    loop {
        // Read up to the next region's start, so that nodes cover whole regions.
        let room = REGION - (at % REGION as u64) as usize;
        let len = fill(&mut from, &mut buffer[..room])?;
        if len == 0 {
            break;
        }
        let bytes = &buffer[..len];
        if at == 0 && len <= CHUNK_LEN {
            own = Some(engine.base.clone().update(bytes).finalize());
        }
        subtrees(tree, at, bytes).map_err(io::Error::other)?.for_each(|node| part.push(tree, node));
        at = at.checked_add(len as u64).ok_or_else(|| io::Error::other("no file is that long"))?;
        meter.add(len as u64);
        if len < room {
            break;
        }
        if end.is_some_and(|end| at > end) {
            break;
        }
    }
    match end {
        Some(end) if at < end => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("it ended at byte {at}; the part ends at byte {end}"),
        )),
        Some(end) if at > end => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it goes on after byte {end}, where the part ends"),
        )),
        _ => Ok(HashedPart { part, own }),
    }
}

/// Reads until `buffer` is full or the input ends; returns the number of bytes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match from.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Event: one line of a part.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sum_part")]
struct PartRow {
    root: bool,
    start: u64,
    length: u64,
    total: Option<u64>,
    value: String,
    line: String,
}

impl PartRow {
    fn of(line: &PartLine) -> Self {
        let (root, start, length, value) = match line.value {
            LineValue::Node(node) => (false, node.start, node.len, Hash::from_bytes(node.value.0)),
            LineValue::Root(len, hash) => (true, 0, len, hash),
        };
        let (total, value) = (line.total, value.to_string());
        Self { root, start, length, total, value, line: line.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let line = format!("root plain 0 0 0 {}", "00".repeat(32));
        assert_documented(&PartRow::of(&line.parse().expect("a line")));
    }
}
