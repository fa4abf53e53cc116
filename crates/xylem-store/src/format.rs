//! The format of a store's directory, and the migration of older formats.
//!
//! The file `format` contains `xylem store N`. Format 0, that of the first releases, has no such file and keeps records
//! of shared paths under `shares/` (see `old_shares`). Opening migrates it to format 1: new directories first, the file
//! last, so that an interrupted migration is simply repeated. Old records stay in their places and are used until their
//! path is shared again, since they do not contain their path.
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

/// Name of the file that contains the format.
const NAME: &str = "format";
/// Text before the number.
const LEAD: &str = "xylem store ";
/// Longest valid file, bytes.
const MAX_LEN: u64 = 64;

/// Whether the directory `dir` is a store of any format, newer ones included: by its file `format`, or by the folders
/// that every store has had from the beginning.
///
/// # Errors
/// The medium's, except for missing or inaccessible files.
pub fn is_store(medium: &dyn Medium, dir: &Path) -> io::Result<bool> {
    if let Some(meta) = existing_metadata(medium, &dir.join(NAME))?
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
        Ok(existing_metadata(medium, &dir.join(name))?
            .is_some_and(|meta| meta.kind == FileKind::Directory))
    };
    Ok(folder(OBJECTS)? && folder(PARTIAL)? && (folder(SHARES)? || folder(KNOWN)?))
}

/// Metadata of a file; `None` if it is missing or inaccessible.
fn existing_metadata(medium: &dyn Medium, path: &Path) -> io::Result<Option<Meta>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match medium.metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(None),
        Err(e) => Err(e),
    }
}

impl Store {
    /// The format stated in the directory; 0 if there is no statement.
    ///
    /// # Errors
    /// [`StoreError::Format`] for a newer one than [`FORMAT`]; [`StoreError::Corrupt`] if the file
    /// contains anything else; the medium's.
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
                what: "it does not name the store's format; remove the file, unless a newer xylem wrote it",
            }),
        }
    }

    /// Writes [`FORMAT`] into the directory: the last step of creation or migration.
    pub(crate) fn write_format(&self) -> Result<(), StoreError> {
        let new = self.new_file()?;
        new.file().write_all(format!("{LEAD}{FORMAT}\n").as_bytes(), 0)?;
        // This happens once in a store's life. Without it, a newer program's store could look like an old one.
        new.keep_as(Path::new(NAME), Durability::Device)
    }
}
