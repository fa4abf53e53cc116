//! `xylem bench SUBJECT [TABLE]...`: runs `xylem-bench`, which prints tables of measurements.
//!
//! `xylem-bench` is a program of its own, so that the libraries that it compares with are no part of what users
//! install.

use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The subjects of which there are tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchSubject {
    /// The hash engine.
    Hash,
    /// Tree-signed segments.
    Ndn,
    /// The link: frames, seals, keys, handshake, ratchet, shaping, carriers, sessions.
    Link,
    /// Transfers: missing pieces, asking, trees, files, whole transfers beside other programs.
    Transfer,
}

/// Measures hash, NDN segments, link and transfers beside others
///
/// Prints Markdown tables. In each row all candidates take turns in short slices, in one process. Figures are medians,
/// and ratios are ratios of medians. A ratio below the project's own target is marked MISSED. A missed target is no
/// failure: the exit status is 0.
///
/// The program `xylem-bench` measures; `cargo install --path bench` in the source tree makes it. Programs to compare
/// with that are not installed are listed as absent. Comparisons with other configurations of the official crate, and
/// sessions and transfers between processes, need programs that bench/peers in the source tree builds. They are looked
/// for beside this program and on the PATH.
#[derive(Debug, Args)]
#[command(
    after_help = "Tables of `hash` (beside the official BLAKE3, SHA-256 and others), all where none is named:
  single     one thread against the official crate: lengths, updates, output
  busy       the same while every other core hashes
  batches    many messages in one call against SHA-256 one by one
  blocks     cycles for a block of 4 KiB: CRC32C, XXH3, BLAKE2b, SHA-256, BLAKE3, KangarooTwelve
  large      256 KiB to 4 MiB, one thread and all cores, against SHA-256
  streaming  updates of 64 bytes against one call
  cores      all cores against one at every power of two (RAYON_NUM_THREADS=2: two cores)

Tables of `ndn` (a BLAKE3 tree beside a SHA-256 tree and a signature on each segment):
  producer    all packets of 1, 4 and 16 MB
  consumer    a tenth of the segments out of order
  end-to-end  the same through the forwarder
  pipeline    what an Interest and its Data cost there
  parallel    two threads against one
  signatures  types 0, 4, 5, 6 and 7, packet by packet

Tables of `link` (beside the libraries that it is built on):
  frames     building and parsing frames against copying their bytes
  seal       datagrams sealed and opened against the plain AEAD
  keys       X25519, key derivation, hashing, comparisons, against the plain libraries
  handshake  Noise XX, both sides, against snow as it comes
  ratchet    messages of the double ratchet against their AEAD and curve alone
  session    one stream and packets between two processes, beside quinn
  sessions   ten thousand idle sessions: memory and processor time
  flood      forged first messages while others dial in earnest

Tables of `transfer` (beside plain libraries and WRAITH's figures):
  pieces     the set of missing pieces: listing, counting, marking, the next one
  asking     sessions made, pieces chosen and asked for, peers added
  tree       hashing, trees, Merkle roots, verification of 256 KiB
  files      reading, writing and completing files
  copies     1 GiB and 10,000 small files by xylem, rsync, scp, sendme and others that are installed

Examples:
  xylem bench hash                   everything, in under four minutes
  xylem bench hash --quick           everything, in about 20 seconds
  xylem bench hash single --json     one table, for a script
  xylem bench ndn                    everything, in about half a minute
  xylem bench link seal              one table of the link
  xylem bench transfer pieces        one table of the transfer
  xylem bench hash --save before     and after a change:
  xylem bench hash --against before --plot now.svg

Exit status:
  0  measured
  1  two implementations of one function gave different results
  2  wrong usage, or no xylem-bench
  4  standard output or a file could not be written"
)]
pub(crate) struct BenchArgs {
    /// What to measure: hash, ndn, link or transfer
    subject: BenchSubject,

    /// The tables to print [default: all of the subject]
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,

    /// Measure for a tenth of the time: the same rows, more noise
    #[arg(long)]
    quick: bool,

    /// Draw the tables into this file, as an SVG picture
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Write the measurements to this file, for --against
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Report what is faster and what is slower than the measurements in this file, which --save wrote
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// Runs `xylem bench`: runs the program `xylem-bench` and returns its exit status.
pub(crate) fn run(args: BenchArgs, out: &mut Out) -> Result<Exit, CommandFailure> {
    let Some(program) = program() else {
        return Err(CommandFailure::new(
            Exit::Usage,
            "no xylem-bench beside this program or on the PATH; `cargo install --path bench` in the \
             source tree makes it",
        ));
    };
    let mut command = Command::new(&program);
    let subject = args.subject.to_possible_value().expect("no subject is skipped");
    command.arg(subject.get_name()).args(&args.tables);
    command.args(args.quick.then_some("--quick")).args(out.is_json().then_some("--json"));
    let files = [("--plot", args.plot), ("--save", args.save), ("--against", args.against)];
    for (flag, file) in files {
        command.args(
            file.map(|file| [OsString::from(flag), file.into_os_string()]).into_iter().flatten(),
        );
    }
    let status = command.status().map_err(|error| {
        CommandFailure::new(Exit::Local, format!("cannot run {}: {error}", program.display()))
    })?;
    Ok(match status.code() {
        Some(0) => Exit::Done,
        Some(1) => Exit::Damaged,
        Some(2) => Exit::Usage,
        Some(4) => Exit::Local,
        _ => Exit::Interrupted,
    })
}

/// Finds `xylem-bench`: beside this program first, then on the PATH.
fn program() -> Option<PathBuf> {
    let file = format!("xylem-bench{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_path_buf()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = beside.into_iter().chain(std::env::split_paths(&path));
    places.find_map(|dir| Some(dir.join(&file)).filter(|file| file.is_file()))
}
