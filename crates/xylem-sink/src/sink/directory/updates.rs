//! [`Updates`]: files of a directory that old copies may provide, and their lists of sums under way.
//!
//! The lists of all files are one object. Only the segments over wanted files are fetched, for some files at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use xylem_base::os_path;
use xylem_object::listing::{Entry, EntryKind};
use xylem_object::sums::list_len;
use xylem_object::{Manifest, ObjectId};
use xylem_store::{FileKind, FileRef, OpenHow, Partial, Store};
use xylem_transfer::AddError;
use xylem_tree::{Anchor, Geometry, Segment, SegmentIndex, SegmentSize, Verified};

use crate::sink::context::{Context, Nodes};
use crate::sink::error::SaveError;
use crate::update::{ListDeadline, UpdateSink, UpdateStart};

/// Most files that are searched for, or wait for that, at once: each has some threads.
const MAX_FILES: usize = 8;

/// Files waiting for lists of sums; see the module's own text.
pub(super) struct Updates {
    store: Store,
    /// Old copies of the directory.
    like: Vec<PathBuf>,
    /// Root and geometry of the lists; `None` if there are none.
    lists: Option<(xylem_hash::Hash, Geometry)>,
    /// Where the next file's list begins.
    next: u64,
    waiting: Vec<WaitingFile>,
    coming: Option<Coming>,
    /// Number of files being searched for.
    pub(super) running: usize,
}

/// A file that waits for its list.
pub(super) struct WaitingFile {
    pub(super) number: u64,
    pub(super) start: UpdateStart,
    pub(super) copies: Vec<FileRef>,
    /// Its range in the lists.
    pub(super) range: Range<u64>,
}

/// Lists under way.
struct Coming {
    files: Vec<WaitingFile>,
    pieces: BTreeMap<u64, Bytes>,
    late: ListDeadline,
}

impl Updates {
    pub(super) fn new(manifest: &Manifest, like: &[PathBuf], store: &Store) -> Self {
        let root = manifest.sums.map(|sums| sums.root);
        Self {
            store: store.clone(),
            like: like.to_vec(),
            lists: root.zip(manifest.sums_geometry()),
            next: 0,
            waiting: Vec::new(),
            coming: None,
            running: 0,
        }
    }

    /// Returns the place of a file's list. Must be called for every file of the listing, in order.
    pub(super) fn place_of(&mut self, entry: &Entry, segment: SegmentSize) -> Option<Range<u64>> {
        let EntryKind::File { size, .. } = entry.kind else { return None };
        let start = self.next;
        self.next = self.next.saturating_add(list_len(size, segment));
        Some(start..self.next).filter(|range| !range.is_empty())
    }

    /// Returns old copies of a file; `there` is the one that it replaces.
    pub(super) fn copies(&self, entry: &Entry, there: Option<PathBuf>) -> Vec<FileRef> {
        let medium = &**self.store.medium();
        let like = self.like.iter().map(|folder| folder.join(os_path(&entry.path)));
        let regular =
            |path: &PathBuf| medium.metadata(path).is_ok_and(|meta| meta.kind == FileKind::File);
        let paths = there.into_iter().chain(like).filter(regular);
        let open = |path: PathBuf| FileRef::open(medium, &path, OpenHow::ReadNoFollow).ok();
        paths.filter_map(open).collect()
    }

    /// Returns whether the lists contain this range.
    pub(super) fn can_wait(&self, range: &Range<u64>) -> bool {
        self.lists.as_ref().is_some_and(|(_, geometry)| range.end <= geometry.size())
    }

    /// Returns whether there is room for more files.
    pub(super) fn has_room(&self) -> bool {
        let coming = self.coming.as_ref().map_or(0, |coming| coming.files.len());
        self.waiting.len() + coming + self.running < MAX_FILES
    }

    pub(super) fn wait(&mut self, file: WaitingFile) {
        self.waiting.push(file);
    }

    /// Requests the lists of waiting files, unless some are under way.
    pub(super) fn ask(&mut self, cx: &mut Context<'_>) -> Result<(), AddError> {
        let Some((root, geometry)) = self.lists else { return Ok(()) };
        if self.waiting.is_empty() || self.coming.is_some() {
            return Ok(());
        }
        let files = std::mem::take(&mut self.waiting);
        let wanted: Vec<_> = files.iter().map(|f| geometry.segments_of(f.range.clone())).collect();
        cx.transfer.add_object(ObjectId::Sums, root, geometry, wanted, [], None)?;
        let late = ListDeadline::new(cx.now);
        self.coming = Some(Coming { files, pieces: BTreeMap::new(), late });
        Ok(())
    }

    /// Saves a piece of the lists.
    pub(super) fn segment(&mut self, segment: &Verified<Segment<Bytes>>, now: Duration) {
        if let Some(coming) = &mut self.coming {
            coming.pieces.insert(segment.offset, segment.content.clone());
            coming.late.extend(now);
        }
    }

    /// Abandons lists that do not arrive. Returns whether it did, and when to check again.
    pub(super) fn late(&mut self, cx: &mut Context<'_>) -> (bool, Option<Duration>) {
        let Some(coming) = &mut self.coming else { return (false, None) };
        let again = coming.late.look(cx.now);
        if again.is_none() {
            cx.transfer.give_up_object(ObjectId::Sums);
        }
        (again.is_none(), again)
    }

    /// Takes the files with requested lists, each with its list, once all lists have arrived or failed.
    pub(super) fn take(&mut self) -> Vec<(WaitingFile, Vec<u8>)> {
        let Some(Coming { files, pieces, .. }) = self.coming.take() else { return Vec::new() };
        let list = |range: &Range<u64>| {
            let mut list = Vec::new();
            for (offset, piece) in &pieces {
                let (from, to) =
                    (range.start.max(*offset), range.end.min(offset + piece.len() as u64));
                if from < to && from == range.start + list.len() as u64 {
                    list.extend_from_slice(
                        &piece[(from - offset) as usize..(to - offset) as usize],
                    );
                }
            }
            list
        };
        files
            .into_iter()
            .map(|file| {
                let list = list(&file.range);
                (file, list)
            })
            .collect()
    }
}

/// Returns the segments of a small file if one of `copies` has its root.
pub(super) fn same(
    copies: &[FileRef],
    geometry: Geometry,
    root: xylem_hash::Hash,
) -> Option<(Vec<Verified<Segment<Bytes>>>, Nodes)> {
    let len = usize::try_from(geometry.size()).ok()?;
    copies.iter().find_map(|copy| {
        if copy.metadata().ok()?.size != geometry.size() {
            return None;
        }
        let mut bytes = vec![0; len];
        if copy.read_full(&mut bytes, 0).ok()? < len {
            return None;
        }
        let bytes = Bytes::from(bytes);
        let pieces = (0..geometry.segments()).map(|segment| {
            let range = geometry.segment_range(SegmentIndex(segment));
            bytes.slice(range.start as usize..range.end as usize)
        });
        Anchor::root(geometry, root).contents(pieces.collect()).ok()
    })
}

/// Saves what an update of a large file has proven.
pub(super) struct DirectoryReuse<'a> {
    pub(super) partial: &'a mut Partial,
    pub(super) bytes: &'a mut u64,
}

impl UpdateSink for DirectoryReuse<'_> {
    type Error = SaveError;

    fn reused(&mut self, segments: Vec<Verified<Segment<Bytes>>>) -> Result<(), SaveError> {
        *self.bytes += segments.iter().map(|segment| segment.content.len() as u64).sum::<u64>();
        Ok(self.partial.put_all(&segments.iter().collect::<Vec<_>>())?)
    }

    fn nodes(&mut self, nodes: Nodes) -> Result<(), SaveError> {
        Ok(self.partial.put_nodes(&nodes)?)
    }
}
