//! Evidence types: values that are proven against a root hash.

use core::{fmt, ops::Deref};

use xylem_hash::Hash;

use crate::ids::SegmentIndex;

/// Something that has been proven to belong to the object with a certain root.
///
/// Only this crate makes one, after the hashes agreed, so a function that takes a `Verified<T>`
/// cannot be handed unproven bytes:
///
/// ```compile_fail,E0451
/// # use xylem_tree::{Segment, SegmentIndex, Verified};
/// # let root = xylem_hash::hash(b"");
/// let segment = Segment { index: SegmentIndex(0), offset: 0, content: b"never proven" };
/// let forged = Verified { root, value: segment }; // the fields are private
/// ```
///
/// ```compile_fail,E0624
/// # use xylem_tree::{Segment, SegmentIndex, Verified};
/// # let root = xylem_hash::hash(b"");
/// let segment = Segment { index: SegmentIndex(0), offset: 0, content: b"never proven" };
/// let forged = Verified::new(root, segment); // and so is the constructor
/// ```
///
/// It cannot be changed afterwards either; [`Verified::into_inner`] gives the value up without
/// the evidence.
///
/// ```compile_fail,E0594
/// # use xylem_tree::{Segment, Verified};
/// fn tamper(proven: &mut Verified<Segment<Vec<u8>>>) {
///     proven.offset = 8192;
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Verified<T> {
    root: Hash,
    value: T,
}

impl<T> Verified<T> {
    pub(crate) fn new(root: Hash, value: T) -> Self {
        Self { root, value }
    }

    /// The root hash against which the value was proven. A caller that stores the value should check that it is the
    /// root of the intended object.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.root
    }

    /// The proven value.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.value
    }

    /// The proven value, without the evidence.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Verified<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Verified").field(&self.value).finish()
    }
}

/// One segment of a file, in any container of bytes: a slice, a `Vec`, a slice of a packet.
#[derive(Clone, PartialEq, Eq)]
pub struct Segment<B> {
    /// Its number.
    pub index: SegmentIndex,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Its bytes.
    pub content: B,
}

impl<B: AsRef<[u8]>> fmt::Debug for Segment<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("index", &self.index.0)
            .field("offset", &self.offset)
            .field("bytes", &self.content.as_ref().len())
            .finish()
    }
}
