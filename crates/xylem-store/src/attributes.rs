//! Attributes of finished files and directories, and those that their file system refused.

use crate::error::StoreError;
use crate::file::FileRef;
use crate::medium::{Clobber, FileTime, Meta};
use crate::sweep::cannot_be_set;

/// Most refused attributes that are listed individually.
const MAX_UNSET_NAMED: usize = 10;

/// Attributes of a finished file. `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits. Only 0o777 is used, never set-uid, set-gid or sticky.
    pub mode: Option<u32>,
    /// Modification time.
    pub mtime: Option<FileTime>,
}

/// Whether to replace a final name that is taken.
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

/// Attributes that could not be set. The content is correct all the same.
#[derive(Debug, Default)]
pub struct RefusedAttributes {
    /// The first errors.
    pub errors: Vec<StoreError>,
    /// Number of further errors.
    pub more_errors: u64,
}

impl RefusedAttributes {
    /// Records an error that concerns only an attribute. Returns any other.
    ///
    /// # Errors
    /// The error in `outcome`, if it concerns more than an attribute.
    pub(crate) fn record_refused(
        &mut self,
        outcome: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Err(e) = outcome else { return Ok(()) };
        match &e {
            StoreError::Permission { .. } => {}
            StoreError::Io { source, .. } if cannot_be_set(source.kind()) => {}
            _ => return Err(e),
        }
        if self.errors.len() < MAX_UNSET_NAMED {
            self.errors.push(e)
        } else {
            self.more_errors += 1
        }
        Ok(())
    }
}

/// Sets those attributes that the open file does not have yet.
///
/// # Errors
/// The medium's, if more than an attribute is concerned.
pub fn set_attributes(
    file: &FileRef,
    attributes: &Attributes,
    unset: &mut RefusedAttributes,
) -> Result<(), StoreError> {
    apply(file, &differing(attributes, &file.metadata()?), unset)
}

/// The attributes that the file does not have yet.
pub(crate) fn differing(attributes: &Attributes, meta: &Meta) -> Attributes {
    Attributes {
        mode: attributes.mode.filter(|mode| mode & 0o777 != meta.mode & 0o777),
        mtime: attributes.mtime.filter(|mtime| *mtime != meta.mtime),
    }
}

/// Sets the given attributes of an open file. The time comes last, as nothing is written after it.
pub(crate) fn apply(
    file: &FileRef,
    attributes: &Attributes,
    unset: &mut RefusedAttributes,
) -> Result<(), StoreError> {
    if let Some(mode) = attributes.mode {
        unset.record_refused(file.set_mode(mode))?;
    }
    attributes.mtime.map_or(Ok(()), |mtime| unset.record_refused(file.set_mtime(mtime)))
}
