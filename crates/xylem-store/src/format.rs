//! Which format a store's directory has, and how an older one becomes this one.
//!
//! The file `format` says `xylem store N`. Format 0, that of the first releases, has no such file and
//! keeps what it knows of shared paths under `shares/` (see `old_shares`). It becomes format 1 when it
//! is opened: new directories first, the file last, so that being killed in between only means to
//! do it again. Its records stay where they are and serve until their path is shared again, since
//! they do not say which path they are about.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::io;
use std::path::Path;

use crate::atomic::Durability;
use crate::error::StoreError;
use crate::file::read_whole;
use crate::layout::{FORMAT, KNOWN, OBJECTS, PARTIAL};
use crate::medium::{FileKind, Medium, Meta, OpenHow, read_full_by};
use crate::old_shares::SHARES;
use crate::store::Store;

/// Where a store says which format it has.
const NAME: &str = "format";
/// What stands before the number.
const LEAD: &str = "xylem store ";
/// Longest file that can be one.
const MAX_LEN: u64 = 64;

/// Whether the directory `dir` is a store of any format, also of one that is newer than this
/// program: by its file `format`, or by the folders that a store has had from the beginning.
///
/// # Errors
/// The medium's, other than that something is not there or may not be looked at.
pub fn is_store(medium: &dyn Medium, dir: &Path) -> io::Result<bool> {
    if let Some(meta) = look(medium, &dir.join(NAME))?
        && meta.kind == FileKind::File
        && (LEAD.len() as u64..=MAX_LEN).contains(&meta.size)
    {
        let mut lead = [0; LEAD.len()];
        let file = medium.open(&dir.join(NAME), OpenHow::ReadNoFollow)?;
        read_full_by(|buf, at| file.read_at(buf, at), &mut lead, 0)?;
        if lead == *LEAD.as_bytes() {
            return Ok(true);
        }
    }
    let folder = |name: &str| -> io::Result<bool> {
        Ok(look(medium, &dir.join(name))?.is_some_and(|meta| meta.kind == FileKind::Directory))
    };
    Ok(folder(OBJECTS)? && folder(PARTIAL)? && (folder(SHARES)? || folder(KNOWN)?))
}

/// Metadata of what is there and may be looked at.
fn look(medium: &dyn Medium, path: &Path) -> io::Result<Option<Meta>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match medium.metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(None),
        Err(e) => Err(e),
    }
}

impl Store {
    /// The format that the directory says it has: 0 where it says nothing.
    ///
    /// # Errors
    /// [`StoreError::Format`] for a newer one than [`FORMAT`]; [`StoreError::Corrupt`] if the file
    /// says something else; the medium's.
    pub fn format(&self) -> Result<u32, StoreError> {
        let name = Path::new(NAME);
        let Some(file) = self.open_named(name, OpenHow::ReadNoFollow)? else { return Ok(0) };
        let bytes = read_whole(&file, MAX_LEN)?;
        // A loss of power may leave a name without its content.
        if bytes.iter().all(|b| *b == 0) {
            return Ok(0);
        }
        let number = std::str::from_utf8(&bytes).ok().and_then(|text| {
            text.strip_prefix(LEAD)?.strip_suffix('\n')?.parse::<u32>().ok().filter(|n| *n > 0)
        });
        match number {
            Some(newer) if newer > FORMAT => {
                Err(StoreError::Format { path: self.dir().to_path_buf(), version: newer })
            }
            Some(number) => Ok(number),
            None => Err(StoreError::Corrupt {
                path: file.path().to_path_buf(),
                offset: 0,
                what: "it does not say which format the store has; unless a newer xylem wrote it, remove the file",
            }),
        }
    }

    /// Says that the directory has [`FORMAT`]; the last step of making or migrating one.
    pub(crate) fn write_format(&self) -> Result<(), StoreError> {
        let new = self.new_file()?;
        new.file().write_all(format!("{LEAD}{FORMAT}\n").as_bytes(), 0)?;
        // Once in a store's life; without it a newer program's store could look like an old one.
        new.keep_as(Path::new(NAME), Durability::Device)
    }
}
