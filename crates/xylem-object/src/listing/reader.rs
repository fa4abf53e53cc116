//! Reads a listing entry by entry from pieces of any size.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_hash::Hash;

use super::path::PathOrder;
use super::{
    Entry, EntryKind, FILE_TAIL, HEADER_LEN, KIND_AT, KIND_DIRECTORY, KIND_FILE, KIND_HARD_LINK,
    KIND_SYMLINK, LINK_HEAD, ListingError, ListingFault, MAGIC, MAX_PATH, MAX_TARGET, MODE_AT,
    MODE_MASK, MTIME_NS_AT, MTIME_S_AT, NANOS_PER_SECOND, PATH_AT, PATH_LEN_AT, PathError, Totals,
    VERSION, check_hard_link, check_path, check_target,
};

/// Reads a listing in pieces; memory is bounded by one entry.
///
/// Call [`ListingReader::pull`] on each piece until it returns `None`, then, after the last piece, [`ListingReader::finish`]. After
/// an error the reader cannot be used further. Feed verified bytes only: the reader does not prove them. Act on an
/// entry before the end only if a later error can be undone.
#[derive(Debug, Default)]
pub struct ListingReader {
    header_read: bool,
    pending: Vec<u8>,
    order: PathOrder,
    totals: Totals,
}

impl ListingReader {
    /// A reader at the first byte of a listing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Consumes bytes from the front of `input` until an entry is complete. Returns `None` when `input` is used up.
    ///
    /// # Errors
    /// Anything that a [`super::ListingWriter`] would not have written.
    pub fn pull(&mut self, input: &mut &[u8]) -> Result<Option<Entry>, ListingError> {
        self.try_pull(input).map_err(|fault| self.error(fault))
    }

    fn try_pull(&mut self, input: &mut &[u8]) -> Result<Option<Entry>, ListingFault> {
        loop {
            let required = match self.header_read {
                false => HEADER_LEN,
                true => required(&self.pending)?,
            };
            let missing = required.saturating_sub(self.pending.len());
            if missing > 0 {
                let (now, later) = input.split_at(missing.min(input.len()));
                self.pending.extend_from_slice(now);
                *input = later;
                if now.len() < missing {
                    return Ok(None);
                }
            } else if self.header_read {
                let entry = parse(&self.pending)?;
                let mut totals = self.totals;
                totals.add(&entry.kind)?;
                self.order.admit(&entry.path, entry.kind == EntryKind::Directory)?;
                self.totals = totals;
                self.pending.clear();
                return Ok(Some(entry));
            }
            if !self.header_read {
                check_header(&self.pending)?;
                self.header_read = true;
                self.pending.clear();
            }
        }
    }

    /// Totals so far. If the entry returned last is a file, its number is `totals().files - 1`.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Ends the listing after its last byte.
    ///
    /// # Errors
    /// [`ListingFault::CutOff`] inside the header or an entry.
    pub fn finish(self) -> Result<Totals, ListingError> {
        match self.header_read && self.pending.is_empty() {
            true => Ok(self.totals),
            false => Err(self.error(ListingFault::CutOff)),
        }
    }

    fn error(&self, fault: ListingFault) -> ListingError {
        let path = match self.header_read && required(&self.pending) == Ok(self.pending.len()) {
            true => path_of(&self.pending).to_vec(),
            false => Vec::new(),
        };
        ListingError { entry: self.totals.entries, path, fault }
    }
}

/// Iterates over the entries of a complete listing in memory.
pub fn entries(listing: &[u8]) -> ListingEntries<'_> {
    ListingEntries { reader: Some(ListingReader::new()), input: listing }
}

/// Consumes one entry from the front of `input`: a piece of a listing that a [`ListingReader`] has accepted as a whole. The
/// piece must begin at an entry. The entry itself is checked again; its order among the others is not. Returns `None`
/// when `input` is used up.
///
/// # Errors
/// [`ListingFault::CutOff`] inside an entry, and the other faults of a single entry.
pub fn next_entry(input: &mut &[u8]) -> Result<Option<Entry>, ListingFault> {
    if input.is_empty() {
        return Ok(None);
    }
    let mut seen = 0;
    loop {
        let required = required(&input[..seen])?;
        if required == seen {
            break;
        }
        if required > input.len() {
            return Err(ListingFault::CutOff);
        }
        seen = required;
    }
    let (entry, rest) = input.split_at(seen);
    let entry = parse(entry)?;
    check_path(&entry.path)?;
    *input = rest;
    Ok(Some(entry))
}

/// The path of the entry at the front of `input`, a piece as for [`next_entry`], without any check. `None` if the piece
/// ends before the path does.
pub fn leading_path(input: &[u8]) -> Option<&[u8]> {
    let head = input.get(PATH_LEN_AT..PATH_AT)?;
    let len = usize::from(u16::from_be_bytes(array(head, 0)));
    input.get(PATH_AT..PATH_AT + len)
}

/// The iterator that [`entries`] returns; it ends after the first error.
#[derive(Debug)]
pub struct ListingEntries<'a> {
    reader: Option<ListingReader>,
    input: &'a [u8],
}

impl Iterator for ListingEntries<'_> {
    type Item = Result<Entry, ListingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        match reader.pull(&mut self.input) {
            Ok(Some(entry)) => {
                self.reader = Some(reader);
                Some(Ok(entry))
            }
            Ok(None) => reader.finish().err().map(Err),
            Err(error) => Some(Err(error)),
        }
    }
}

fn check_header(header: &[u8]) -> Result<(), ListingFault> {
    if header[..MAGIC.len()] != MAGIC {
        return Err(ListingFault::NotAListing);
    }
    match header[MAGIC.len()] {
        VERSION => Ok(()),
        other => Err(ListingFault::UnknownVersion(other)),
    }
}

/// Number of bytes that the entry at the front of `bytes` needs, as far as is known; the entry is complete if `bytes`
/// has as many. At most [`super::MAX_ENTRY`], and never less than `bytes.len()` if it is called as bytes arrive.
#[expect(clippy::arithmetic_side_effects, reason = "lengths of two octets, checked against limits")]
fn required(bytes: &[u8]) -> Result<usize, ListingFault> {
    if bytes.len() < PATH_AT {
        return Ok(PATH_AT);
    }
    let path_len = usize::from(u16::from_be_bytes(array(bytes, PATH_LEN_AT)));
    if path_len > MAX_PATH {
        return Err(PathError::TooLong.into());
    }
    let path_end = PATH_AT + path_len;
    match bytes[KIND_AT] {
        KIND_FILE => Ok(path_end + FILE_TAIL),
        KIND_DIRECTORY => Ok(path_end),
        KIND_SYMLINK | KIND_HARD_LINK if bytes.len() < path_end + LINK_HEAD => {
            Ok(path_end + LINK_HEAD)
        }
        KIND_SYMLINK | KIND_HARD_LINK => {
            let target_len = usize::from(u16::from_be_bytes(array(bytes, path_end)));
            match target_len > MAX_TARGET {
                true => Err(PathError::TargetTooLong.into()),
                false => Ok(path_end + LINK_HEAD + target_len),
            }
        }
        other => Err(ListingFault::UnknownKind(other)),
    }
}

/// Parses an entry that is complete according to [`required`].
#[expect(clippy::arithmetic_side_effects, reason = "places in an entry, which is whole")]
fn parse(bytes: &[u8]) -> Result<Entry, ListingFault> {
    let mode = u32::from(u16::from_be_bytes(array(bytes, MODE_AT)));
    let mtime_s = i64::from_be_bytes(array(bytes, MTIME_S_AT));
    let mtime_ns = u32::from_be_bytes(array(bytes, MTIME_NS_AT));
    let path = path_of(bytes).to_vec();
    let tail = PATH_AT + path.len();
    let kind = match bytes[KIND_AT] {
        KIND_FILE => EntryKind::File {
            size: u64::from_be_bytes(array(bytes, tail)),
            root: Hash::from_bytes(array(bytes, tail + 8)),
        },
        KIND_DIRECTORY => EntryKind::Directory,
        link => {
            let target = bytes[tail + LINK_HEAD..].to_vec();
            if link == KIND_HARD_LINK {
                check_hard_link(&path, &target)?;
                EntryKind::HardLink { target }
            } else {
                check_target(&target)?;
                EntryKind::Symlink { target }
            }
        }
    };
    let link = matches!(kind, EntryKind::Symlink { .. } | EntryKind::HardLink { .. });
    if mode & !MODE_MASK != 0 || (link && mode != MODE_MASK) {
        return Err(ListingFault::Mode(mode));
    }
    if link && (mtime_s, mtime_ns) != (0, 0) {
        return Err(ListingFault::LinkTime);
    }
    if mtime_ns >= NANOS_PER_SECOND {
        return Err(ListingFault::Nanos(mtime_ns));
    }
    Ok(Entry { path, kind, mode, mtime_s, mtime_ns })
}

fn path_of(whole: &[u8]) -> &[u8] {
    let len = usize::from(u16::from_be_bytes(array(whole, PATH_LEN_AT)));
    &whole[PATH_AT..][..len]
}

/// The `N` bytes at `at`; callers have checked that they exist.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..][..N]);
    out
}
