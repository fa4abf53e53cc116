//! What a finished file or directory should look like, and what its file system would not take.

use crate::error::StoreError;
use crate::file::FileRef;
use crate::medium::{Clobber, FileTime, Meta};
use crate::sweep::cannot_be_set;

/// Attributes that could not be set and are named one by one.
const MAX_UNSET_NAMED: usize = 10;

/// What a finished file should look like. `None` leaves it as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits; only 0o777 is taken over, never set-uid, set-gid or sticky.
    pub mode: Option<u32>,
    /// Modification time.
    pub mtime: Option<FileTime>,
}

/// What to do when the final name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverwritePolicy {
    /// Fail with [`StoreError::Exists`].
    Never,
    /// Replace it, in one step.
    Replace,
}

impl From<OverwritePolicy> for Clobber {
    fn from(policy: OverwritePolicy) -> Self {
        match policy {
            OverwritePolicy::Never => Self::Never,
            OverwritePolicy::Replace => Self::Replace,
        }
    }
}

/// Attributes that could not be set: the content is right all the same.
#[derive(Debug, Default)]
pub struct Unset {
    /// The first few.
    pub told: Vec<StoreError>,
    /// How many more there were.
    pub more: u64,
}

impl Unset {
    /// An error that concerns an attribute alone is kept here; any other is handed back.
    ///
    /// # Errors
    /// What `outcome` says, if it is about more than an attribute.
    pub(crate) fn note(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        let Err(e) = outcome else { return Ok(()) };
        match &e {
            StoreError::Permission { .. } => {}
            StoreError::Io { source, .. } if cannot_be_set(source.kind()) => {}
            _ => return Err(e),
        }
        if self.told.len() < MAX_UNSET_NAMED {
            self.told.push(e)
        } else {
            self.more += 1
        }
        Ok(())
    }
}

/// Those that something does not have yet.
pub(crate) fn differing(attributes: &Attributes, meta: &Meta) -> Attributes {
    Attributes {
        mode: attributes.mode.filter(|mode| mode & 0o777 != meta.mode & 0o777),
        mtime: attributes.mtime.filter(|mtime| *mtime != meta.mtime),
    }
}

/// Sets what is asked for on an open file. The time comes last, as nothing is written after it.
pub(crate) fn apply(
    file: &FileRef,
    attributes: &Attributes,
    unset: &mut Unset,
) -> Result<(), StoreError> {
    if let Some(mode) = attributes.mode {
        unset.note(file.set_mode(mode))?;
    }
    attributes.mtime.map_or(Ok(()), |mtime| unset.note(file.set_mtime(mtime)))
}
