//! Verified bytes in order: [`VerifiedStream`] to a pipe, [`GrowingFile`] to the end of a file.
//!
//! Both take segments as [`Verified`] and nothing else, so that no byte reaches them that a root does
//! not vouch for. Which root that is may change for a growing file alone, and only by a
//! [`Continuation`]: evidence that the newer checkpoint begins with all that was written.

use std::io::{self, Write};
use std::ops::Range;

use xylem_hash::Hash;
use xylem_tree::consistency::Continuation;
use xylem_tree::{Checkpoint, Segment, Verified};

use crate::error::StoreError;
use crate::file::FileRef;

/// Which bytes come next, and of what.
#[derive(Debug)]
struct Cursor {
    root: Hash,
    next: u64,
    end: u64,
}

impl Cursor {
    /// The bytes of a segment that come next, empty where they came before; `None` for a segment of
    /// another object and for one that would leave a gap.
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

    /// Goes on with a checkpoint that begins with all that came; false if it begins with something else.
    fn advance(&mut self, to: &Continuation) -> bool {
        let continues = to.older() == (self.next, self.root);
        if continues {
            (self.end, self.root) = to.newer();
        }
        continues
    }
}

/// Part of one file, or a growing one, written in order to a pipe.
#[derive(Debug)]
pub struct VerifiedStream<W> {
    to: W,
    cursor: Cursor,
}

impl<W: Write> VerifiedStream<W> {
    /// The bytes `range` of the object `root`, to `to`.
    pub fn new(to: W, root: Hash, range: Range<u64>) -> Self {
        Self { to, cursor: Cursor { root, next: range.start, end: range.end } }
    }

    /// All that is to come after `begun`, which was written before or is empty.
    pub fn growing(to: W, begun: &Checkpoint) -> Self {
        let size = begun.geometry().size();
        Self::new(to, begun.root(), size..size)
    }

    /// Writes what of a segment comes next: all of it, less what lies outside the range or was
    /// written before.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a segment of another object and for one that would leave a
    /// gap; what the pipe says.
    pub fn put<B: AsRef<[u8]>>(&mut self, segment: &Verified<Segment<B>>) -> io::Result<()> {
        let new = self.cursor.admit(segment).ok_or_else(out_of_order)?;
        self.to.write_all(new)?;
        self.cursor.next = self.cursor.next.saturating_add(new.len() as u64);
        Ok(())
    }

    /// From now on segments are those of a newer checkpoint.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it continues something else than what was written.
    pub fn advance(&mut self, to: &Continuation) -> io::Result<()> {
        self.cursor.advance(to).then_some(()).ok_or_else(out_of_order)
    }

    /// Hands on what the pipe holds back.
    ///
    /// # Errors
    /// What the pipe says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn out_of_order() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not what comes next in the stream")
}

/// A file at whose end a growing object's segments are written.
#[derive(Debug)]
pub struct GrowingFile {
    file: FileRef,
    cursor: Cursor,
}

impl GrowingFile {
    /// Goes on after `begun`, the tree of what the file begins with: whoever calls has hashed it.
    #[must_use]
    pub fn new(file: FileRef, begun: &Checkpoint) -> Self {
        let size = begun.geometry().size();
        Self { file, cursor: Cursor { root: begun.root(), next: size, end: size } }
    }

    /// Writes what of a segment is not there yet.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] for a segment of another checkpoint and for one that would leave a
    /// gap; [`StoreError::NoSpace`], the medium's: putting it again is right then.
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
    /// [`StoreError::OutOfRange`] if it continues something else than what is in the file.
    pub fn advance(&mut self, to: &Continuation) -> Result<(), StoreError> {
        let size = to.older().0;
        self.cursor.advance(to).then_some(()).ok_or_else(|| self.out_of_order(size))
    }

    fn out_of_order(&self, offset: u64) -> StoreError {
        StoreError::OutOfRange { path: self.file.path().into(), offset }
    }
}
