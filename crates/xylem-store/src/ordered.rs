//! Verified bytes in order: [`VerifiedStream`] to a pipe, [`GrowingFile`] to the end of a file.
//!
//! Both accept segments only as [`Verified`], so that no byte reaches them without a root that vouches for it. Only for
//! a growing file may the root change, and only by a [`Continuation`]: evidence that the newer checkpoint begins with
//! all that was written.

use std::io::{self, Write};
use std::ops::Range;

use xylem_hash::Hash;
use xylem_tree::consistency::Continuation;
use xylem_tree::{Checkpoint, Segment, Verified};

use crate::error::StoreError;
use crate::file::FileRef;

/// The position of the next byte, and its object.
#[derive(Debug)]
struct Cursor {
    root: Hash,
    next: u64,
    end: u64,
}

impl Cursor {
    /// The next bytes of a segment, empty if they came before. `None` for a segment of another object, and for one that
    /// would leave a gap.
    fn admit<'s, B: AsRef<[u8]>>(&self, segment: &'s Verified<Segment<B>>) -> Option<&'s [u8]> {
        if segment.root() != self.root {
            return None;
        }
        let content = segment.content.as_ref();
        let from = usize::try_from(self.next.checked_sub(segment.offset)?).ok()?;
        let left = usize::try_from(self.end.saturating_sub(self.next)).unwrap_or(usize::MAX);
        let new = content.get(from..).unwrap_or_default();
        Some(new.get(..left).unwrap_or(new))
    }

    /// Changes to a checkpoint that begins with all bytes so far. False if it does not.
    fn advance(&mut self, to: &Continuation) -> bool {
        let continues = to.older() == (self.next, self.root);
        if continues {
            (self.end, self.root) = to.newer();
        }
        continues
    }
}

/// Writes a part of one file, or a growing one, in order to a pipe.
#[derive(Debug)]
pub struct VerifiedStream<W> {
    to: W,
    cursor: Cursor,
}

impl<W: Write> VerifiedStream<W> {
    /// Writes the bytes `range` of the object `root` to `to`.
    pub fn new(to: W, root: Hash, range: Range<u64>) -> Self {
        Self { to, cursor: Cursor { root, next: range.start, end: range.end } }
    }

    /// Writes all bytes after `begun`, which was written before or is empty.
    pub fn growing(to: W, begun: &Checkpoint) -> Self {
        let size = begun.geometry().size();
        Self::new(to, begun.root(), size..size)
    }

    /// Writes the next bytes of a segment: all of it, except for those outside the range or written before.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a segment of another object and for one that would leave a
    /// gap; the pipe's errors.
    pub fn put<B: AsRef<[u8]>>(&mut self, segment: &Verified<Segment<B>>) -> io::Result<()> {
        let new = self.cursor.admit(segment).ok_or_else(out_of_order)?;
        self.to.write_all(new)?;
        self.cursor.next = self.cursor.next.saturating_add(new.len() as u64);
        Ok(())
    }

    /// From now on segments are those of a newer checkpoint.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it does not continue what was written.
    pub fn advance(&mut self, to: &Continuation) -> io::Result<()> {
        self.cursor.advance(to).then_some(()).ok_or_else(out_of_order)
    }

    /// Flushes the pipe.
    ///
    /// # Errors
    /// The pipe's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn out_of_order() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not the next bytes of the stream")
}

/// A file that a growing object's segments are appended to.
#[derive(Debug)]
pub struct GrowingFile {
    file: FileRef,
    cursor: Cursor,
}

impl GrowingFile {
    /// Continues after `begun`, the tree of the bytes in the file, which the caller has hashed.
    #[must_use]
    pub fn new(file: FileRef, begun: &Checkpoint) -> Self {
        let size = begun.geometry().size();
        Self { file, cursor: Cursor { root: begun.root(), next: size, end: size } }
    }

    /// Writes the bytes of a segment that are not in the file yet.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] for a segment of another checkpoint and for one that would leave a
    /// gap; [`StoreError::NoSpace`], the medium's: the segment may be put again then.
    pub fn put<B: AsRef<[u8]>>(
        &mut self,
        segment: &Verified<Segment<B>>,
    ) -> Result<(), StoreError> {
        let new = self.cursor.admit(segment).ok_or_else(|| self.out_of_order(segment.offset))?;
        self.file.write_all(new, self.cursor.next)?;
        self.cursor.next = self.cursor.next.saturating_add(new.len() as u64);
        Ok(())
    }

    /// From now on segments are those of a newer checkpoint.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] if it does not continue the bytes in the file.
    pub fn advance(&mut self, to: &Continuation) -> Result<(), StoreError> {
        let size = to.older().0;
        self.cursor.advance(to).then_some(()).ok_or_else(|| self.out_of_order(size))
    }

    fn out_of_order(&self, offset: u64) -> StoreError {
        StoreError::OutOfRange { path: self.file.path().into(), offset }
    }
}
