//! `xylem ndn put NAME [FILE]`: publishes a file for any NDN program.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::output::text::{bytes, count};
use crate::peek::AtArgs;
use crate::stop;
use crate::values::{parse_bytes, parse_seconds};
use clap::Args;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xylem_app::{Client, RunError, SignWith, parse_name};
use xylem_client::{Driver, Producer, PutSettings, SEGMENT_SIZE, announce, register};
use xylem_keys::signer;

/// Publishes a file under a name for any NDN program
///
/// Content that fits into one packet is published as that packet, and as segments, too. Larger content becomes segments
/// only. Segments have a version and RDR metadata, which `ndnd cat`, NDNts, python-ndn and `xylem get NAME` fetch. Each
/// segment has a signature of its own; `xylem share` signs once for all and proves every byte.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  echo hello | xylem ndn put /alice/note     one packet
  xylem ndn put /alice/film film.mkv         segments, signed with your own key
  xylem ndn put /alice/note note.txt --once  until one Interest was answered
  xylem ndn put /alice/film film.mkv --sign digest-sha256   fast, without a signature of a key

",
    exit_help!()
))]
pub(crate) struct PutArgs {
    /// The name, such as /alice/note; a version at its end (/v=7) is kept
    name: String,

    /// The file to publish [default: standard input]
    file: Option<PathBuf>,

    /// Publish segments only, even if one packet would do
    #[arg(long, conflicts_with = "one")]
    segments: bool,

    /// Publish one packet of exactly this name, or fail
    #[arg(long)]
    one: bool,

    /// Bytes of content in each segment
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes,
          default_value_t = SEGMENT_SIZE as u64)]
    segment_size: u64,

    /// Sign with this key, or a digest
    ///
    /// ed25519 (the key that `share` signs with), key:NAME (of `xylem key`), digest-sha256, digest-blake3, hmac:FILE,
    /// blake3-keyed:FILE, ed25519:FILE or ecdsa:FILE.
    #[arg(long, value_name = "KEY", default_value = "ed25519")]
    sign: SignWith,

    /// How long caches treat the content as fresh (FreshnessPeriod)
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "4",
          allow_negative_numbers = true)]
    freshness: Duration,

    /// End when one Interest was answered
    #[arg(long)]
    once: bool,

    /// Do not register the name: a route leads here already
    #[arg(long, conflicts_with = "announce_prefix")]
    no_register: bool,

    /// Register the name by an announcement that is signed like the packets and valid for a week: forwarders with the
    /// strategy self-learning pass it on to those that search
    #[arg(long)]
    announce_prefix: bool,

    #[command(flatten)]
    at: AtArgs,
}

/// Runs `xylem ndn put`.
pub(crate) fn run(args: PutArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let store = common.store()?;
    let (content, size) = open(args.file.as_deref(), &store)?;
    let name = parse_name(&args.name)?;
    let signer = signer(&args.sign, &store, &name)?;
    let settings = PutSettings {
        segments: (args.segments || args.one).then_some(args.segments),
        segment_size: usize::try_from(args.segment_size).unwrap_or(usize::MAX),
        freshness: args.freshness,
        count: args.once.then_some(1),
    };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let version = xylem_node::wall_clock().microseconds();
    let mut producer =
        Producer::new(&name, &settings, signer, content, size, version).map_err(RunError::from)?;
    let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
    if args.announce_prefix {
        announce(&mut client, producer.served(), producer.signer())?;
    } else if !args.no_register {
        register(&mut client, producer.served(), producer.signer())?;
    }
    tell(&producer, size, out)?;
    client.run(&mut producer)?;
    Ok(Exit::Done)
}

/// The name is the result; it stands alone on standard output.
fn tell(producer: &Producer, size: u64, out: &mut Out) -> Result<(), CommandFailure> {
    let (name, segments) = (producer.published().to_string(), producer.segments());
    if out.is_json() {
        return out.json(&PublishedRow { name: &name, segments, bytes: size });
    }
    let pieces = match segments {
        Some(segments) => count(segments, "segment"),
        None => "one packet".to_owned(),
    };
    out.note(&format!("publishing {} in {pieces} until Ctrl-C", bytes(size)));
    out.line(&name)
}

/// Opens a file for reads at any position. Input from a pipe is copied to a file without a name in the store.
fn open(path: Option<&Path>, store: &Path) -> Result<(File, u64), CommandFailure> {
    let usage = |path: &Path, why: &dyn std::fmt::Display| {
        CommandFailure::new(Exit::Usage, format!("cannot publish {}: {why}", path.display()))
    };
    if let Some(path) = path {
        let file = File::open(path).map_err(|error| usage(path, &error))?;
        let found = file.metadata().map_err(|error| usage(path, &error))?;
        if found.is_dir() {
            return Err(usage(path, &"it is a directory; `xylem share` publishes those"));
        }
        // A file of /proc has size 0 and yet content.
        if found.is_file() && found.len() > 0 {
            return Ok((file, found.len()));
        }
        return spool(file, store);
    }
    spool(io::stdin().lock(), store)
}

fn spool(mut from: impl io::Read, store: &Path) -> Result<(File, u64), CommandFailure> {
    let local = |error: io::Error| {
        CommandFailure::new(
            Exit::Local,
            format!("cannot copy the content to a temporary file: {error}"),
        )
    };
    // Temporary directories are often memory, which long input would fill. A store that can't be written to needs one.
    let file = tempfile::tempfile_in(store).or_else(|_| tempfile::tempfile());
    let mut file = file.map_err(local)?;
    let size = io::copy(&mut from, &mut file).map_err(local)?;
    Ok((file, size))
}

/// Event: `put` is ready.
#[derive(Serialize)]
#[serde(tag = "event", rename = "published")]
pub(crate) struct PublishedRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) segments: Option<u64>,
    pub(crate) bytes: u64,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&PublishedRow { name: "/a", segments: None, bytes: 1 });
    }
}
