//! `xylem sum [FILE]...`: prints what `b3sum` prints, byte for byte, with the same flags.
//!
//! [`parts`] hashes a range of a file, and combines the parts of several machines into one hash.
//!
//! Arguments become items ([`paths`], or the lines of the lists that [`check`] reads). The [`mod@engine`] hashes many
//! files at once, and one big file on all cores ([`pool`], [`region`]). Results are printed in the order of the
//! arguments ([`mod@print`]). Files are read, never mapped: a mapped file that another program truncates would kill the
//! process.

mod check;
mod engine;
mod meter;
#[cfg(test)]
#[path = "tests/model.rs"]
mod model;
mod parts;
mod paths;
mod pool;
mod print;
mod processor;
mod region;
mod sync;

use xylem_base::{Stop, canonical, disk};
use xylem_node::Event;
use xylem_publish::root_of;

use self::print::SumRow;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Out, error_line, not_with_json};
use crate::values::{ByteRange, parse_bytes};
use clap::Args;
use engine::{SumSettings, ThreadCount};
use meter::{ByteMeter, metered, total_size};
use paths::{SumInput, SumWalk};
use print::SumFormat;
use std::io::{self, Read};
use std::path::PathBuf;
use xylem_hash::tree::Tree;
use xylem_hash::{Hasher, KEY_LEN, OUT_LEN};
use xylem_tree::parts::{AnyTree, PartMode};

/// Longest output in bytes of a JSON event, which is made in memory.
const MAX_JSON_LENGTH: u64 = 1 << 16;

/// Items that a worker takes at a time, unless they arrive one by one.
const AHEAD: usize = 64;

/// Prints BLAKE3 checksums, or checks them, as b3sum does
///
/// The output is b3sum's, byte for byte. With --tree, prints the root that `xylem share` would publish for a directory.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  xylem sum *.iso > SUMS    prints HASH  NAME for each file
  xylem sum --check SUMS    reads them back and checks each file
  xylem sum -r photos/      all files in and below a directory, sorted by name
  xylem sum --tree photos/  one root for the whole directory
  tar c src | xylem sum     standard input
  xylem sum --part --range 0..4G big > a        one hash by two machines: here this one,
  xylem sum --part --range 4G..  big > b        there that one,
  xylem sum --merge a b                         and what b3sum would print of all of it

Exit status (b3sum ends with 1 in all cases but the first, and with 2 for wrong flags):
  0  every file was hashed, every check was good
  1  a check failed: a checksum differs, a line makes no sense, a listed file cannot be read
  2  wrong flags or input: a missing file, a directory, a list that cannot be read as text
  4  a file could not be read for another reason, or standard output not be written
  Ctrl-C ends it by the signal, which a shell shows as 130.")]
pub(crate) struct SumArgs {
    /// Files to hash or check; - or none: standard input
    file: Vec<PathBuf>,

    /// Keyed hash, with the 32-byte key read from standard input
    #[arg(long, requires = "file")]
    keyed: bool,

    /// Derive a key, for the purpose that CONTEXT names
    #[arg(long, value_name = "CONTEXT", conflicts_with = "keyed")]
    derive_key: Option<String>,

    /// Bytes of output, before hexadecimal
    #[arg(short, long, value_name = "LEN", default_value_t = OUT_LEN as u64)]
    length: u64,

    /// Where the output starts, in bytes
    #[arg(long, value_name = "SEEK", default_value_t = 0)]
    seek: u64,

    /// Threads at most; 0: one per core
    #[arg(long, value_name = "NUM", env = "XYLEM_NUM_THREADS", hide_env_values = true)]
    num_threads: Option<usize>,

    /// Accepted for compatibility with b3sum: files are read and never mapped
    #[arg(long)]
    no_mmap: bool,

    /// Leave the file names out
    #[arg(long)]
    no_names: bool,

    /// Write raw bytes instead of hexadecimal; one input only
    #[arg(long)]
    raw: bool,

    /// Write BLAKE3 (FILE) = HASH
    #[arg(long)]
    tag: bool,

    /// Read checksums from the files and check them
    ///
    /// With --quiet there are no OK lines.
    #[arg(short, long,
          conflicts_with_all = ["derive_key", "keyed", "length", "raw", "tag", "no_names"])]
    check: bool,

    /// With --check: skip missing files
    #[arg(long, requires = "check")]
    ignore_missing: bool,

    /// Hash all files in and below a directory
    ///
    /// Links and devices there are left out.
    #[arg(short, long, requires = "file", conflicts_with_all = ["check", "raw", "tree"])]
    recursive: bool,

    /// Print the root that `xylem share` would publish
    #[arg(long, requires = "file",
          conflicts_with_all = ["derive_key", "keyed", "length", "seek", "raw", "tag", "check"])]
    tree: bool,

    /// Print the part of a hash that --merge needs, for one file or a --range of it
    #[arg(long, conflicts_with_all = ["check", "recursive", "tree", "length", "seek", "raw", "tag"])]
    part: bool,

    /// With --part: only these bytes, A..B or A..; A and B are multiples of 1024, or B is the end. With standard input,
    /// the input is these bytes
    #[arg(long, value_name = "A..B", requires = "part")]
    range: Option<ByteRange>,

    /// With --part of standard input: the size in bytes of the whole, so that --merge notices a missing last part
    #[arg(long, value_name = "BYTES", requires = "part", value_parser = parse_bytes)]
    size: Option<u64>,

    /// Combine the parts in these files, in any order, into one hash
    #[arg(long, conflicts_with_all = ["check", "recursive", "tree", "part", "tag"])]
    merge: bool,
}

/// Runs `xylem sum`.
pub(crate) fn run(args: SumArgs, out: &mut Out) -> Result<Exit, CommandFailure> {
    if args.tree {
        return tree(&args, out);
    }
    if args.raw {
        not_with_json(out, "--raw")?;
        if args.file.len() > 1 && !args.merge {
            return Err(unusable("Only one filename can be provided when using --raw"));
        }
    }
    if out.is_json() && args.length > MAX_JSON_LENGTH {
        return Err(unusable("--json takes --length up to 65536; leave --json out for more"));
    }
    let engine = engine(&args)?;
    let mode = match args.derive_key {
        _ if args.keyed => PartMode::Keyed,
        Some(_) => PartMode::DeriveKey,
        None => PartMode::Plain,
    };
    let mut files = args.file;
    if files.is_empty() {
        files.push(PathBuf::from("-"));
    }
    if args.part {
        let wanted = parts::PartOptions { file: one(files)?, range: args.range, size: args.size };
        return parts::part(&engine, mode, wanted, out);
    }
    if args.check {
        let wanted = check::SumCheckOptions { lists: files, ignore_missing: args.ignore_missing };
        return check::run(&engine, wanted, out);
    }
    let form = SumFormat {
        json: out.is_json(),
        raw: args.raw,
        names: !args.no_names,
        tag: args.tag,
        length: args.length,
    };
    if args.merge {
        return parts::merge(&engine, mode, files, form);
    }
    let total = || total_size(&files);
    metered(out, &files, total, |meter| {
        if args.recursive {
            sums(&engine, SumWalk::new(files.iter()), form, meter)
        } else {
            sums(&engine, files.iter().map(SumInput::from), form, meter)
        }
    })
}

fn sums<'a>(
    engine: &SumSettings,
    inputs: impl Iterator<Item = SumInput<'a>> + Send,
    form: SumFormat,
    meter: &ByteMeter,
) -> Result<Exit, CommandFailure> {
    let mut sums = print::SumPrinter::new(form, meter);
    engine.run(inputs, AHEAD, meter, &mut sums)?;
    sums.end()
}

/// The only file of a verb that takes one.
fn one(files: Vec<PathBuf>) -> Result<PathBuf, CommandFailure> {
    <[PathBuf; 1]>::try_from(files)
        .map(|[file]| file)
        .map_err(|_| unusable("--part takes one file; the lines of several would be mixed up"))
}

/// The hasher and its settings; `--keyed` reads the key from standard input.
fn engine(args: &SumArgs) -> Result<SumSettings, CommandFailure> {
    if args.seek.checked_add(args.length.max(OUT_LEN as u64)).is_none() {
        return Err(unusable("--seek and --length reach past the end of the output, 2^64 bytes"));
    }
    let (base, tree): (_, Box<dyn AnyTree>) = match &args.derive_key {
        _ if args.keyed => {
            let key = read_key(io::stdin().lock())?;
            (Hasher::new_keyed(&key), Box::new(Tree::keyed(&key)))
        }
        Some(context) => (Hasher::new_derive_key(context), Box::new(Tree::derive_key(context))),
        None => (Hasher::new(), Box::new(Tree::plain())),
    };
    let stdin_is_taken = if args.keyed {
        Some("Cannot open `-` in keyed mode")
    } else {
        (args.check && args.file.iter().any(|f| f.as_os_str() == "-"))
            .then_some("standard input is the list itself")
    };
    Ok(SumSettings {
        base,
        seek: args.seek,
        length: args.length,
        tree,
        threads: ThreadCount::new(args.num_threads),
        stdin_is_taken,
    })
}

fn tree(args: &SumArgs, out: &mut Out) -> Result<Exit, CommandFailure> {
    for path in &args.file {
        let place = canonical(path).map_err(xylem_base::Error::from)?;
        let root =
            root_of(&*disk(), &place, &Stop::new(), &mut |event| out.event(Event::Library(event)));
        out.take_broken()?;
        let root = root?.to_string();
        if out.is_json() {
            out.json(&SumRow { path: path.to_string_lossy().into_owned(), hash: &root })?;
        } else if args.no_names {
            out.line(&root)?;
        } else {
            out.sum_line(&root, path)?;
        }
    }
    Ok(Exit::Done)
}

/// The failure for an unusable input.
fn unusable(message: impl Into<String>) -> CommandFailure {
    CommandFailure::new(Exit::Usage, message)
}

/// The exit code for a file that could not be read: wrong input, or a failure of this machine.
fn exit_for(error: &io::Error) -> Exit {
    use io::ErrorKind::{
        InvalidData, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound,
    };
    match error.kind() {
        NotFound | IsADirectory | NotADirectory | InvalidFilename | InvalidInput | InvalidData => {
            Exit::Usage
        }
        _ => Exit::Local,
    }
}

/// Reads the key of `--keyed`: exactly 32 bytes.
fn read_key(input: impl Read) -> Result<[u8; KEY_LEN], CommandFailure> {
    let mut bytes = Vec::with_capacity(KEY_LEN + 1);
    input
        .take(KEY_LEN as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unusable(format!("cannot read the key from standard input: {error}")))?;
    <[u8; KEY_LEN]>::try_from(bytes.as_slice()).map_err(|_| {
        let found = if bytes.len() > KEY_LEN { "more".to_owned() } else { bytes.len().to_string() };
        unusable(format!(
            "--keyed needs {KEY_LEN} key bytes on standard input and found {found}; pipe the key in"
        ))
    })
}

/// Prints b3sum's message about a file that could not be hashed to standard error.
fn complain(path: &std::path::Path, error: &io::Error) {
    error_line(&format!("{}: {error}", path.to_string_lossy()));
}
