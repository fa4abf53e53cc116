//! Writes a listing entry by entry into any sink of bytes.

use super::path::PathOrder;
use super::{
    Entry, EntryKind, KIND_DIRECTORY, KIND_FILE, KIND_HARD_LINK, KIND_SYMLINK, ListingError,
    ListingFault, MAGIC, MODE_MASK, NANOS_PER_SECOND, Totals, VERSION, check_hard_link,
    check_target,
};

/// Streams a listing into `sink`; memory is bounded by one entry.
///
/// Call [`ListingWriter::push`] with the entries in ascending order of their path bytes, whatever the order of the file
/// system, then [`ListingWriter::finish`]. A refused entry leaves the listing as it was, so the caller may go on without it.
#[derive(Debug)]
pub struct ListingWriter<S: FnMut(&[u8])> {
    sink: S,
    order: PathOrder,
    totals: Totals,
    entry: Vec<u8>,
}

impl<S: FnMut(&[u8])> ListingWriter<S> {
    /// Writes the header.
    pub fn new(mut sink: S) -> Self {
        sink(&MAGIC);
        sink(&[VERSION]);
        Self { sink, order: PathOrder::default(), totals: Totals::default(), entry: Vec::new() }
    }

    /// Writes one entry, without what a listing does not carry: set-id bits, and a link's mode and time.
    ///
    /// # Errors
    /// [`ListingFault`]; nothing is written then.
    pub fn push(&mut self, entry: &Entry) -> Result<(), ListingError> {
        self.try_push(entry).map_err(|fault| ListingError {
            entry: self.totals.entries,
            path: entry.path.clone(),
            fault,
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "MODE_MASK has nine bits; lengths are checked"
    )]
    fn try_push(&mut self, entry: &Entry) -> Result<(), ListingFault> {
        if entry.mtime_ns >= NANOS_PER_SECOND {
            return Err(ListingFault::Nanos(entry.mtime_ns));
        }
        let mut totals = self.totals;
        totals.add(&entry.kind)?;
        match &entry.kind {
            EntryKind::Symlink { target } => check_target(target)?,
            EntryKind::HardLink { target } => check_hard_link(&entry.path, target)?,
            EntryKind::File { .. } | EntryKind::Directory => {}
        }
        self.order.admit(&entry.path, entry.kind == EntryKind::Directory)?;
        self.totals = totals;
        let (mode, time) = (entry.mode & MODE_MASK, (entry.mtime_s, entry.mtime_ns));
        let (kind, mode, (mtime_s, mtime_ns)) = match entry.kind {
            EntryKind::File { .. } => (KIND_FILE, mode, time),
            EntryKind::Directory => (KIND_DIRECTORY, mode, time),
            EntryKind::Symlink { .. } => (KIND_SYMLINK, MODE_MASK, (0, 0)),
            EntryKind::HardLink { .. } => (KIND_HARD_LINK, MODE_MASK, (0, 0)),
        };
        let out = &mut self.entry;
        out.clear();
        out.push(kind);
        out.extend_from_slice(&(mode as u16).to_be_bytes());
        out.extend_from_slice(&mtime_s.to_be_bytes());
        out.extend_from_slice(&mtime_ns.to_be_bytes());
        out.extend_from_slice(&(entry.path.len() as u16).to_be_bytes());
        out.extend_from_slice(&entry.path);
        match &entry.kind {
            EntryKind::File { size, root } => {
                out.extend_from_slice(&size.to_be_bytes());
                out.extend_from_slice(root.as_bytes());
            }
            EntryKind::Directory => {}
            EntryKind::Symlink { target } | EntryKind::HardLink { target } => {
                out.extend_from_slice(&(target.len() as u16).to_be_bytes());
                out.extend_from_slice(target);
            }
        }
        (self.sink)(out);
        Ok(())
    }

    /// Totals of the entries so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Ends the listing. It has no trailer, as its length is signed with its root.
    pub fn finish(self) -> Totals {
        self.totals
    }
}
