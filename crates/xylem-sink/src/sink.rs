//! [`make`] returns the [`Sink`] that takes verified bytes: a file, a directory, a range of a file, or a pipe.

mod attributes;
mod context;
mod destination;
mod error;

mod like;

mod audit;
mod writer;

mod file;

mod directory;

mod dry;
mod range;
mod stream;

use std::ops::Range;
use std::path::{Path, PathBuf};

use xylem_files::ours::part_name;
use xylem_files::{FetchMode, SaveOptions};
use xylem_hash::Hash;
use xylem_object::{Manifest, PublicationKind};
use xylem_store::{Staging, Store, StoreError};
use xylem_transfer::TransferEvent;
use xylem_tree::TreeKind;

use destination::require_room;
use directory::DirectorySink;
use dry::DryFile;
use file::FileSink;
use range::RangeSink;
use stream::StreamSink;

pub(crate) use attributes::attributes_of;
pub use context::{Context, Nodes, Sink, Tally};
pub use destination::{Destination, file_name_of};
pub(crate) use directory::copies::Copies;
pub use error::SaveError;
pub use file::restore_attributes;

/// Returns where a fetch of a directory to `at` stores files until it is complete.
pub fn staging_path(at: &Path) -> PathBuf {
    at.with_file_name(part_name(at.file_name().unwrap_or_default()))
}

/// Abandons the fetch of the directory with this listing to `at`: removes its partial files, in the store as well.
///
/// # Errors
/// [`StoreError`]: another process is fetching it; the disk's.
pub fn abandon_fetch(store: &Path, listing: Hash, at: &Path) -> Result<(), StoreError> {
    let store = Store::open(xylem_base::disk(), store)?;
    Staging::open(&store, listing, &staging_path(at), &mut |_| Ok(None))?.discard()
}

/// Makes the sink for `options` and `manifest`; `destination` is `None` for standard output.
///
/// # Errors
/// [`SaveError`] for options that do not fit the content.
pub fn make(
    options: &SaveOptions,
    manifest: &Manifest,
    destination: Option<Destination>,
    store: &Store,
) -> Result<Box<dyn Sink>, SaveError> {
    let directory = manifest.kind == PublicationKind::Directory;
    let range = options.range.map(|range| clip(range, manifest.size)).transpose()?;
    let at_once =
        |to: &Destination, bytes| require_room(&**store.medium(), &to.part, bytes, options.room);
    let dry = options.doing == FetchMode::DryRun;
    match (destination, range) {
        (None, _) | (_, Some(_)) if dry => Err(SaveError::NoDryRun("ranges and standard output")),
        (_, Some(_)) if directory => Err(SaveError::RangeOfDirectory),
        (None, _) if directory => Err(SaveError::DirectoryToStdout),
        (None, range) => {
            Ok(Box::new(StreamSink::new(manifest.clone(), range.unwrap_or(0..manifest.size))?))
        }
        (Some(to), Some(range)) => {
            at_once(&to, range.end - range.start)?;
            Ok(Box::new(RangeSink::new(manifest.clone(), to, range, store)))
        }
        (Some(to), None) if directory => {
            Ok(Box::new(DirectorySink::new(manifest.clone(), to, options, store)?))
        }
        (Some(to), None) if dry => Ok(Box::new(DryFile::new(manifest.clone(), to, store))),
        // A file with another kind of tree is verified and written segment by segment; it is not resumed after a kill.
        (Some(to), None) if manifest.tree != TreeKind::Blake3 => {
            at_once(&to, manifest.size)?;
            Ok(Box::new(RangeSink::new(manifest.clone(), to, 0..manifest.size, store)))
        }
        (Some(to), None) => Ok(Box::new(FileSink::new(manifest.clone(), to, options, store)?)),
    }
}

/// Passes an event of a transfer to a sink.
///
/// # Errors
/// The sink's.
pub fn deliver(
    sink: &mut dyn Sink,
    event: TransferEvent,
    cx: &mut Context<'_>,
) -> Result<(), SaveError> {
    match event {
        TransferEvent::Segment { object, segment } => {
            let Tally { total, pieces, .. } = &mut *cx.tally;
            pieces.add(*total, object, segment.offset, segment.content.len() as u64);
            sink.segment(object, segment, cx)
        }
        TransferEvent::Nodes { object, nodes } => sink.nodes(object, nodes),
        TransferEvent::ObjectComplete(object) => sink.complete(object, cx),
        _ => Ok(()),
    }
}

fn clip(range: (u64, Option<u64>), size: u64) -> Result<Range<u64>, SaveError> {
    let (start, end) = (range.0, range.1.unwrap_or(size).min(size));
    if start >= end {
        return Err(SaveError::EmptyRange { start, end: range.1, size });
    }
    Ok(start..end)
}
