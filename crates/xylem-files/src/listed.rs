//! [`ListedFiles`]: a directory's verified listing on disk, read block by block.
//!
//! The listing of a million entries takes a hundred megabytes. It stays in its file. Memory holds one mark for 64
//! entries (their offset, and the numbers of files and outboard slots before them) and a few blocks of decoded entries.
//! The file is the store's `objects/<root>.listing`. [`ListedFiles::open`] hashes and checks all of it once. Each later
//! read of a block is compared with the block's own hash, so that it returns what was verified. This module does not
//! know where the files lie, nor whether they exist.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_hash::{Hash, Hasher};
use xylem_object::listing::{self, Entry, EntryKind, ListingError, ListingFault, Totals};
use xylem_store::{FileRef, StoreError};
use xylem_tree::SegmentSize;

use crate::hashing::packed_slots;
use crate::reads::Reads;

/// Entries in a block, between two marks. Finding a file reads one block.
const BLOCK: usize = 64;
/// Most blocks kept decoded: one for each of a few peers that read at different places.
const KEPT_BLOCKS: usize = 8;
/// Bytes read at once in the first pass.
const PIECE: usize = 256 * 1024;

/// Where a block begins, and what comes before it.
#[derive(Clone, Copy, Debug)]
struct BlockMark {
    offset: u64,
    /// Regular files before it.
    files: u64,
    /// Slots of those files' outboards.
    slots: u64,
    /// The first bytes of the block's hash.
    check: [u8; 16],
}

/// One entry and its place.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The entry itself.
    pub entry: Entry,
    /// Number of the first file at or after this entry: its own, if it is a file.
    pub number: u64,
    /// First slot of its outboard in the packed outboards, if it is a file of more than one segment.
    pub slot: u64,
}

/// Why a listing could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ListedError {
    /// It could not be read.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// The bytes in this file do not have the expected root.
    #[error("{}: damaged at byte 0: the listing changed", .0.display())]
    NotTheRoot(PathBuf),
    /// Its bytes have the expected root and break a rule of listings.
    #[error("the publisher signed a listing that can't be used: {0}")]
    Bad(ListingError),
}

impl Failure for ListedError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::NotTheRoot(_) => Blame::Local,
            Self::Bad(_) => Blame::Data,
        }
    }
}

fn changed(file: &FileRef, offset: u64) -> StoreError {
    StoreError::Corrupt { path: file.path().into(), offset, what: "the listing changed" }
}

/// A verified listing on disk. Cheap to clone; a clone starts without decoded blocks.
#[derive(Debug)]
pub struct ListedFiles {
    file: FileRef,
    size: u64,
    marks: Arc<[BlockMark]>,
    totals: Totals,
    segment: SegmentSize,
    /// Least recently used block first.
    kept: VecDeque<(usize, Vec<Listed>)>,
}

impl Clone for ListedFiles {
    fn clone(&self) -> Self {
        let (file, marks) = (self.file.clone(), self.marks.clone());
        Self { file, marks, kept: VecDeque::new(), ..*self }
    }
}

impl ListedFiles {
    /// Reads the listing of `size` bytes in `file` once, checks its root and all rules, and marks its blocks. Hard
    /// links must name regular files.
    ///
    /// # Errors
    /// See [`ListedError`].
    pub fn open(
        file: FileRef,
        size: u64,
        root: &Hash,
        segment: SegmentSize,
    ) -> Result<Self, ListedError> {
        let mut pass = Pass::new(segment);
        let (mut whole, mut buffer, mut at) = (Hasher::new(), vec![0; PIECE], 0);
        let mut faulty = None;
        while at < size {
            let piece = &mut buffer[..(size - at).min(PIECE as u64) as usize];
            if file.read_full(piece, at)? < piece.len() {
                return Err(ListedError::NotTheRoot(file.path().into()));
            }
            whole.update(piece);
            at += piece.len() as u64;
            if faulty.is_none() {
                faulty = pass.piece(piece).err();
            }
        }
        if whole.finalize() != *root {
            return Err(ListedError::NotTheRoot(file.path().into()));
        }
        if let Some(e) = faulty {
            return Err(ListedError::Bad(e));
        }
        let hard_links = pass.hard_links;
        let (marks, totals) = pass.finish().map_err(ListedError::Bad)?;
        let kept = VecDeque::new();
        let mut listed = Self { file, size, marks: marks.into(), totals, segment, kept };
        if hard_links > 0 {
            listed.check_hard_links()?;
        }
        Ok(listed)
    }

    /// Checks that the target of each hard link is a regular file.
    fn check_hard_links(&mut self) -> Result<(), ListedError> {
        let (mut known, mut number) = (Vec::new(), 0);
        for listed in self.entries() {
            let Listed { entry, .. } = listed?;
            if let EntryKind::HardLink { target } = entry.kind
                && known != target
            {
                let found = self.find(&target)?;
                if !found.is_some_and(|f| matches!(f.entry.kind, EntryKind::File { .. })) {
                    let fault = ListingFault::Path(listing::PathError::LinkToLater);
                    let (entry, path) = (number, entry.path);
                    return Err(ListedError::Bad(ListingError { entry, path, fault }));
                }
                known = target;
            }
            number += 1;
        }
        Ok(())
    }

    /// Reads the listing through `reads` from now on.
    pub fn read_by(&mut self, reads: &Reads) {
        self.file = reads.file(&self.file);
    }

    /// Returns the total entries, files and bytes.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the size of the listing, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the listing's file.
    pub fn source(&self) -> &FileRef {
        &self.file
    }

    /// Returns the regular file of this number; `None` if there are fewer.
    ///
    /// # Errors
    /// Those of reading; [`StoreError::Corrupt`] if the listing has changed.
    pub fn file(&mut self, number: u64) -> Result<Option<&Listed>, StoreError> {
        if number >= self.totals.files {
            return Ok(None);
        }
        let block = self.marks.partition_point(|mark| mark.files <= number) - 1;
        let is_it =
            |l: &&Listed| l.number == number && matches!(l.entry.kind, EntryKind::File { .. });
        Ok(self.block(block)?.iter().find(is_it))
    }

    /// Returns the entry at `path`; `None` if there is none.
    ///
    /// # Errors
    /// Those of reading; [`StoreError::Corrupt`] if the listing has changed.
    pub fn find(&mut self, path: &[u8]) -> Result<Option<&Listed>, StoreError> {
        let at = self.at_or_after(path)?;
        Ok(self.entry(at)?.filter(|listed| listed.entry.path == path))
    }

    /// Returns the entry of this number among all entries, from 0; `None` if there are fewer.
    ///
    /// # Errors
    /// Those of reading; [`StoreError::Corrupt`] if the listing has changed.
    pub fn entry(&mut self, number: u64) -> Result<Option<&Listed>, StoreError> {
        let (block, at) = (number / BLOCK as u64, (number % BLOCK as u64) as usize);
        let block = usize::try_from(block).unwrap_or(usize::MAX);
        Ok(self.block(block)?.get(at))
    }

    /// Returns the number of the first entry at or after `path`; the number of all entries if there is none.
    ///
    /// # Errors
    /// Those of reading; [`StoreError::Corrupt`] if the listing has changed.
    pub fn at_or_after(&mut self, path: &[u8]) -> Result<u64, StoreError> {
        // Finds the last block that begins at or before `path`.
        let (mut low, mut high) = (0, self.marks.len());
        let mut first = vec![0; listing::MAX_ENTRY];
        while low < high {
            let middle = (low + high) / 2;
            let is_before = self.first_path(middle, &mut first)? <= path;
            if is_before { low = middle + 1 } else { high = middle }
        }
        let Some(number) = low.checked_sub(1) else { return Ok(0) };
        let at = self.block(number)?.partition_point(|l| l.entry.path.as_slice() < path);
        Ok((number * BLOCK + at) as u64)
    }

    /// Returns all entries in order. Ends after the first error.
    pub fn entries(&self) -> ListedEntries {
        ListedEntries { listed: self.clone(), next: 0, block: Vec::new().into_iter() }
    }

    /// Returns all entries in reverse order. Ends after the first error.
    pub fn entries_reversed(&self) -> impl Iterator<Item = Result<Listed, StoreError>> {
        let listed = self.clone();
        let blocks = (0..self.marks.len()).rev().map(move |i| listed.read_block(i));
        let mut failed = false;
        blocks
            .flat_map(|block| match block {
                Ok(block) => block.into_iter().rev().map(Ok).collect::<Vec<_>>(),
                Err(e) => vec![Err(e)],
            })
            .take_while(move |item| !std::mem::replace(&mut failed, item.is_err()))
    }

    /// Returns the first path of a block. It is not verified: it only selects a block, which is verified when it is
    /// read.
    fn first_path<'a>(&self, i: usize, buffer: &'a mut [u8]) -> Result<&'a [u8], StoreError> {
        let offset = self.marks.get(i).map_or(self.size, |mark| mark.offset);
        let len = buffer.len().min((self.size - offset) as usize);
        let got = self.file.read_full(&mut buffer[..len], offset)?;
        listing::leading_path(&buffer[..got]).ok_or_else(|| changed(&self.file, offset))
    }

    /// Returns a decoded block, from the cache or from the file.
    fn block(&mut self, i: usize) -> Result<&[Listed], StoreError> {
        let block = match self.kept.iter().position(|(at, _)| *at == i) {
            Some(at) if at + 1 == self.kept.len() => None,
            Some(at) => self.kept.remove(at),
            None => Some((i, self.read_block(i)?)),
        };
        if let Some(block) = block {
            if self.kept.len() == KEPT_BLOCKS {
                self.kept.pop_front();
            }
            self.kept.push_back(block);
        }
        Ok(self.kept.back().map_or(&[], |(_, block)| block.as_slice()))
    }

    fn read_block(&self, i: usize) -> Result<Vec<Listed>, StoreError> {
        let Some(mark) = self.marks.get(i) else { return Ok(Vec::new()) };
        let end = self.marks.get(i + 1).map_or(self.size, |next| next.offset);
        // At most 64 entries of at most 8 KiB: checked when the marks were made.
        let mut bytes = vec![0; (end - mark.offset) as usize];
        let got = self.file.read_full(&mut bytes, mark.offset)?;
        let check = xylem_hash::hash(&bytes);
        if got < bytes.len() || check.as_bytes()[..mark.check.len()] != mark.check {
            return Err(changed(&self.file, mark.offset));
        }
        let (mut input, mut block) = (bytes.as_slice(), Vec::with_capacity(BLOCK));
        let (mut number, mut slot) = (mark.files, mark.slots);
        while let Some(entry) =
            listing::next_entry(&mut input).map_err(|_| changed(&self.file, mark.offset))?
        {
            let (files, slots) = match entry.kind {
                EntryKind::File { size, .. } => (1, packed_slots(size, self.segment)),
                _ => (0, 0),
            };
            block.push(Listed { entry, number, slot });
            (number, slot) = (number + files, slot + slots);
        }
        Ok(block)
    }
}

/// Entries in order; see [`ListedFiles::entries`].
#[derive(Debug)]
pub struct ListedEntries {
    listed: ListedFiles,
    next: usize,
    block: std::vec::IntoIter<Listed>,
}

impl Iterator for ListedEntries {
    type Item = Result<Listed, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(listed) = self.block.next() {
                return Some(Ok(listed));
            }
            if self.next >= self.listed.marks.len() {
                return None;
            }
            match self.listed.read_block(self.next) {
                Ok(block) => self.block = block.into_iter(),
                Err(e) => {
                    self.next = usize::MAX;
                    return Some(Err(e));
                }
            }
            self.next += 1;
        }
    }
}

/// The first pass over a listing: checks every rule and marks every block.
struct Pass {
    reader: listing::ListingReader,
    segment: SegmentSize,
    marks: Vec<BlockMark>,
    block: Hasher,
    /// Whether the next entry's first bytes were read.
    begun: bool,
    /// Where the next entry begins, and how many bytes were fed.
    at: u64,
    fed: u64,
    entries: u64,
    files: u64,
    slots: u64,
    hard_links: u64,
}

impl Pass {
    fn new(segment: SegmentSize) -> Self {
        Self {
            reader: listing::ListingReader::new(),
            segment,
            marks: Vec::new(),
            block: Hasher::new(),
            begun: false,
            at: listing::HEADER_LEN as u64,
            fed: 0,
            entries: 0,
            files: 0,
            slots: 0,
            hard_links: 0,
        }
    }

    fn piece(&mut self, piece: &[u8]) -> Result<(), ListingError> {
        let mut input = piece;
        let mut from = (listing::HEADER_LEN as u64).saturating_sub(self.fed) as usize;
        while let Some(entry) = self.reader.pull(&mut input)? {
            self.begin();
            let end = piece.len() - input.len();
            self.block.update(&piece[from..end]);
            from = end;
            self.begun = false;
            self.at += entry.encoded_len() as u64;
            self.entries += 1;
            match entry.kind {
                EntryKind::File { size, .. } => {
                    self.files += 1;
                    self.slots += packed_slots(size, self.segment);
                }
                EntryKind::HardLink { .. } => self.hard_links += 1,
                _ => {}
            }
        }
        if from < piece.len() {
            self.begin();
            self.block.update(&piece[from..]);
        }
        self.fed += piece.len() as u64;
        Ok(())
    }

    /// Starts another entry, and another block if it is due.
    fn begin(&mut self) {
        if !self.begun && self.entries.is_multiple_of(BLOCK as u64) {
            self.end_block();
            let (offset, files, slots) = (self.at, self.files, self.slots);
            self.marks.push(BlockMark { offset, files, slots, check: [0; 16] });
        }
        self.begun = true;
    }

    fn end_block(&mut self) {
        let hash = std::mem::take(&mut self.block).finalize();
        if let Some(mark) = self.marks.last_mut() {
            mark.check.copy_from_slice(&hash.as_bytes()[..16]);
        }
    }

    fn finish(mut self) -> Result<(Vec<BlockMark>, Totals), ListingError> {
        self.end_block();
        let totals = self.reader.finish()?;
        Ok((self.marks, totals))
    }
}

#[cfg(test)]
mod tests;
