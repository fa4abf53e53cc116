//! Where proven bytes go: a file, a directory, a range of a file, a pipe.

mod audit;
mod directory;
mod file;
mod range;
mod stream;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use xylem_object::{Kind, Manifest, ObjectId};
use xylem_store::{Attributes, FileTime, OverwritePolicy, Store, Unset};
use xylem_transfer::Transfer;
use xylem_tree::{Node, NodeValue, Recording, Segment, Verified, Verifier};

use crate::held::Holdings;
use crate::{Error, LibraryEvent};
use crate::{failure, walk};

pub use directory::{DirectorySink, SMALL_FILE};
pub use file::FileSink;
pub use range::RangeSink;
pub use stream::StreamSink;

/// What was verified lies on disk after this long even if nothing more comes: a kill during a stall
/// costs next to nothing.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// Proven nodes of a tree with their places.
pub type Nodes = Verified<Vec<(Node, NodeValue)>>;

/// Where fetched bytes go.
#[derive(Clone, Debug)]
pub enum Output {
    /// Under the publisher's suggested name in this directory.
    Into(PathBuf),
    /// At exactly this path.
    At(PathBuf),
    /// In order to standard output.
    Stdout,
}

/// What to do when the final name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Refuse, unless what is there already verifies.
    #[default]
    Refuse,
    /// Replace it once the new one is whole.
    Overwrite,
    /// Choose `NAME.1`, `NAME.2`, … instead.
    Rename,
}

/// What becomes of what is fetched.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// Where the result goes.
    pub output: Output,
    /// Byte range of the file to fetch: start and, if bounded, end (exclusive).
    pub range: Option<(u64, Option<u64>)>,
    /// What to do when the final name is taken.
    pub existing: Existing,
    /// Glob patterns of listed paths to leave out (directories only).
    pub exclude: Vec<String>,
}

/// What a sink may use while it works.
pub struct Context<'a> {
    pub transfer: &'a mut Transfer,
    pub tally: &'a mut Tally,
    pub on_event: &'a mut dyn FnMut(LibraryEvent),
    pub now: Duration,
    /// Told of what is verified and written, where somebody serves it meanwhile.
    pub holdings: Option<&'a Holdings>,
}

/// Bytes of content by where they came from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Over the network, in this run.
    pub fetched: u64,
    /// Left by an earlier run, read back and proven.
    pub resumed: u64,
    /// All that the result will have.
    pub total: u64,
    /// Files in the result.
    pub files: u64,
}

/// One way to keep what was fetched. Called in this order: `begin`, then `segment`, `nodes`,
/// `complete` and `turn` as things happen until `is_done`, then `finish`.
pub trait Sink {
    /// Takes up what an earlier run left and tells the transfer what is wanted.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), Error>;
    /// Keeps a segment.
    fn segment(
        &mut self,
        object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), Error>;
    /// Keeps tree nodes, for the next run and for serving.
    fn nodes(&mut self, _object: ObjectId, _nodes: Nodes) -> Result<(), Error> {
        Ok(())
    }
    /// Every wanted segment of an object has been handed in.
    fn complete(&mut self, object: ObjectId, cx: &mut Context<'_>) -> Result<(), Error>;
    /// Called once a turn: adds work, holds the transfer back. Returns when to be called again.
    fn turn(&mut self, _cx: &mut Context<'_>) -> Result<Option<Duration>, Error> {
        Ok(None)
    }
    /// Whether nothing is missing any more.
    fn is_done(&self) -> bool;
    /// Gives the result its name; returns it.
    fn finish(&mut self) -> Result<Option<PathBuf>, Error>;
    /// What `finish` could not do and the result is right without, a line each.
    fn troubles(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// The final name and the name of the partial data beside it.
pub struct Destination {
    pub path: PathBuf,
    pub part: PathBuf,
    pub policy: OverwritePolicy,
}

impl Destination {
    /// Chooses the final name. `None`: standard output.
    pub fn choose(options: &SaveOptions, manifest: &Manifest) -> Result<Option<Self>, Error> {
        Self::place(&options.output, options.existing, || suggested_name(manifest))
    }

    /// Chooses the final name of something that suggests its own. `None`: standard output.
    pub fn place(
        output: &Output,
        existing: Existing,
        suggested: impl FnOnce() -> PathBuf,
    ) -> Result<Option<Self>, Error> {
        let mut path = match output {
            Output::Stdout => return Ok(None),
            Output::At(path) => path.clone(),
            Output::Into(directory) => directory.join(suggested()),
        };
        if existing == Existing::Rename {
            path = free_name(path);
        }
        let name = path.file_name().ok_or_else(|| {
            failure::usage(format!("{}: not a name to write to; give -o PATH", path.display()))
        })?;
        let mut part = std::ffi::OsString::from(".");
        part.push(name);
        part.push(".xylem-part");
        let part = path.with_file_name(part);
        let policy = match existing {
            Existing::Overwrite => OverwritePolicy::Replace,
            _ => OverwritePolicy::Never,
        };
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty())
            && !parent.is_dir()
        {
            let message = format!("{}: no such directory to write into", parent.display());
            return Err(failure::usage(message));
        }
        Ok(Some(Self { path, part, policy }))
    }
}

/// The publisher's name for it, which the manifest's check has made a plain component.
fn suggested_name(manifest: &Manifest) -> PathBuf {
    if manifest.file_name.is_empty() {
        let kind = if manifest.kind == Kind::Directory { "directory" } else { "file" };
        return PathBuf::from(format!("xylem-{kind}-{}", &manifest.root.to_string()[..16]));
    }
    walk::os_path(&manifest.file_name)
}

/// `path`, or `path.1`, `path.2`, … whichever is free first.
fn free_name(path: PathBuf) -> PathBuf {
    let taken = |p: &Path| p.symlink_metadata().is_ok();
    let numbered = (1_u32..).map(|n| {
        let mut name = path.clone().into_os_string();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    });
    let mut candidates = std::iter::once(path.clone()).chain(numbered);
    candidates.find(|p| !taken(p)).unwrap_or(path)
}

/// Mode and mtime as the store sets them.
pub fn attributes(mode: u32, mtime_s: i64, mtime_ns: u32) -> Attributes {
    Attributes { mode: Some(mode), mtime: Some(FileTime { secs: mtime_s, nanos: mtime_ns }) }
}

/// Attributes that could not be set and are told one by one in a run.
const MAX_UNSET_TOLD: u64 = 10;

/// Tells of attributes that the file system would not take. As with `cp` onto a memory stick, the
/// content is there and right, so that this fails no fetch.
fn tell_unset(unset: Unset, told: &mut u64, on_event: &mut dyn FnMut(LibraryEvent)) {
    for e in unset.told {
        *told += 1;
        if *told <= MAX_UNSET_TOLD {
            on_event(LibraryEvent::Warning { what: format!("{e}; the content is right") });
        } else if *told == MAX_UNSET_TOLD + 1 {
            let what = "modes or times of more files could not be set".to_owned();
            on_event(LibraryEvent::Warning { what });
        }
    }
}

/// The store's errors as ours.
pub fn stored<T>(result: Result<T, xylem_store::StoreError>) -> Result<T, Error> {
    result.map_err(|e| failure::store(&e))
}

/// A verifier for a result that has no outboard: what it proves is not kept to be written.
fn unrecorded(manifest: &Manifest) -> Verifier {
    let mut verifier = Verifier::new(manifest.geometry(), manifest.root);
    verifier.set_recording(Recording::Off);
    verifier
}

/// Adds an object to the transfer; what can go wrong is a limit of ours.
pub fn added(result: Result<(), xylem_transfer::AddError>) -> Result<(), Error> {
    result.map_err(|e| failure::usage(e.to_string()))
}

/// Makes the sink that `options` and `manifest` ask for.
pub fn make(
    options: &SaveOptions,
    manifest: &Manifest,
    destination: Option<Destination>,
    store: &Store,
) -> Result<Box<dyn Sink>, Error> {
    let directory = manifest.kind == Kind::Directory;
    let range = options.range.map(|range| clip(range, manifest.size)).transpose()?;
    match (destination, range) {
        (_, Some(_)) if directory => {
            Err(failure::usage("--range is for files; this ticket is a directory"))
        }
        (None, _) if directory => {
            Err(failure::usage("a directory can't go to standard output; leave `-o -` away"))
        }
        (None, range) => {
            Ok(Box::new(StreamSink::new(manifest.clone(), range.unwrap_or(0..manifest.size))))
        }
        (Some(to), Some(range)) => Ok(Box::new(RangeSink::new(manifest.clone(), to, range, store))),
        (Some(to), None) if directory => {
            Ok(Box::new(DirectorySink::new(manifest.clone(), to, &options.exclude, store)?))
        }
        (Some(to), None) => Ok(Box::new(FileSink::new(manifest.clone(), to, store))),
    }
}

fn clip(range: (u64, Option<u64>), size: u64) -> Result<std::ops::Range<u64>, Error> {
    let (start, end) = (range.0, range.1.unwrap_or(size).min(size));
    if start >= end {
        let message = format!(
            "--range {start}..{}: the file has {size} bytes",
            range.1.map_or_else(String::new, |e| e.to_string())
        );
        return Err(failure::usage(message));
    }
    Ok(start..end)
}
