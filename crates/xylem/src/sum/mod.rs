//! `xylem sum [FILE]...`: what `b3sum` prints, byte for byte, with its flags and exit codes.
//!
//! Files are read, never mapped: a mapped file that shrinks meanwhile would kill the process.
//! [`engine`] hashes many files at once, and one big file on all cores; results are printed in the
//! order of the arguments whatever order they come in.

mod check;
mod engine;
mod ordered;
mod print;
mod region;

use crate::exit::{Exit, Failure};
use crate::output::{Json, Out, error_line, not_with_json};
use clap::Args;
use engine::{Engine, Item};
use print::Form;
use std::io::{self, Read};
use std::path::PathBuf;
use xylem_hash::{Hasher, KEY_LEN, OUT_LEN};

/// A JSON event is made in memory, so its hash is not of any length.
const MAX_JSON_LENGTH: u64 = 1 << 16;

/// Prints BLAKE3 checksums, or checks them, as b3sum does
///
/// The output is b3sum's, byte for byte. With --tree, prints the root that `xylem share` would
/// publish for a directory.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  xylem sum *.iso > SUMS    prints HASH  NAME for each file
  xylem sum --check SUMS    reads them back and checks each file
  xylem sum --tree photos/  one root for the whole directory
  tar c src | xylem sum     standard input

Exit status, as b3sum has it:
  0  every file was hashed, every check was good
  1  a check failed, a file could not be read, or the input cannot be used
  2  wrong flags (4: standard output could not be written)")]
pub(crate) struct SumArgs {
    /// Files to hash, or lists of checksums to check; - or none: standard input
    file: Vec<PathBuf>,

    /// Keyed hash, with the 32-byte key read from standard input
    #[arg(long, requires = "file")]
    keyed: bool,

    /// Derive a key, for the purpose that CONTEXT names
    #[arg(long, value_name = "CONTEXT", conflicts_with = "keyed")]
    derive_key: Option<String>,

    /// How many bytes of output, before they are written in hexadecimal
    #[arg(short, long, value_name = "LEN", default_value_t = OUT_LEN as u64)]
    length: u64,

    /// Where the output starts, in bytes
    #[arg(long, value_name = "SEEK", default_value_t = 0)]
    seek: u64,

    /// Threads at most; 0: one per core
    #[arg(long, value_name = "NUM", env = "XYLEM_NUM_THREADS", hide_env_values = true)]
    num_threads: Option<usize>,

    /// Accepted for b3sum's sake; files are never mapped here
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

    /// Read checksums from the files and check them (with --quiet: no OK lines)
    #[arg(short, long,
          conflicts_with_all = ["derive_key", "keyed", "length", "raw", "tag", "no_names"])]
    check: bool,

    /// Print the root that `xylem share` would publish for each file or directory
    #[arg(long, requires = "file",
          conflicts_with_all = ["derive_key", "keyed", "length", "seek", "raw", "tag", "check"])]
    tree: bool,
}

/// Runs `xylem sum`.
pub(crate) fn run(args: SumArgs, out: &mut Out) -> Result<Exit, Failure> {
    if args.tree {
        return tree(&args, out);
    }
    if args.raw {
        not_with_json(out, "--raw")?;
        if args.file.len() > 1 {
            return Err(unusable("Only one filename can be provided when using --raw"));
        }
    }
    if out.is_json() && args.length > MAX_JSON_LENGTH {
        return Err(unusable("--json takes --length up to 65536; leave --json out for more"));
    }
    let keyed = args.keyed;
    let base = match &args.derive_key {
        _ if keyed => Hasher::new_keyed(&read_key(io::stdin().lock())?),
        Some(context) => Hasher::new_derive_key(context),
        None => Hasher::new(),
    };
    let plain = !keyed && args.derive_key.is_none();
    // Within the first 32 bytes a plain hash is its tree's root, and a tree can be split.
    let splits = plain && args.seek.checked_add(args.length).is_some_and(|end| end <= 32);
    let threads = match args.num_threads {
        Some(threads) if threads > 0 => threads,
        _ => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let stdin_is_taken = if keyed {
        Some("Cannot open `-` in keyed mode")
    } else {
        (args.check && args.file.iter().any(|f| f.as_os_str() == "-"))
            .then_some("standard input is the list itself")
    };
    let engine = Engine { base, splits, threads, stdin_is_taken };
    let mut files = args.file;
    if files.is_empty() {
        files.push(PathBuf::from("-"));
    }
    if args.check {
        return check::run(&engine, files, args.seek, out);
    }
    let form = Form {
        json: out.is_json(),
        raw: args.raw,
        names: !args.no_names,
        tag: args.tag,
        seek: args.seek,
        length: args.length,
    };
    let mut printer = print::Sums::new(form);
    let items = files.into_iter().map(|path| Item { path: Some(path.clone()), tag: path });
    engine.run(items, &mut printer)?;
    printer.end()
}

fn tree(args: &SumArgs, out: &mut Out) -> Result<Exit, Failure> {
    for path in &args.file {
        let root = xylem_node::tree_root(path, &mut |event| out.event(event));
        out.take_broken()?;
        let root = root?;
        if out.is_json() {
            out.json(&Json::Sum { path: path.to_string_lossy().into_owned(), hash: &root })?;
        } else if args.no_names {
            out.line(&root)?;
        } else {
            out.sum_line(&root, path)?;
        }
    }
    Ok(Exit::Done)
}

/// Input that cannot be used: b3sum ends with 1 there.
fn unusable(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Damaged, message)
}

/// The key of `--keyed`: 32 bytes and not one more.
fn read_key(input: impl Read) -> Result<[u8; KEY_LEN], Failure> {
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

/// What b3sum says on standard error about one file that could not be hashed.
fn complain(path: &std::path::Path, error: &io::Error) {
    error_line(&format!("{}: {error}", path.to_string_lossy()));
}
