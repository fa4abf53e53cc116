//! [`Objects`]: an interface to finished parts, small enough for other storage than a directory.
//!
//! A fetch or publication that writes piece by piece needs real files ([`Medium`](crate::Medium)). Finished parts are
//! only read in ranges, written whole, listed and removed. An object store with an S3 interface can do that as well:
//! docs/spec/store.md, "Another place for objects". [`Store`] implements it over files.

use std::path::Path;

use xylem_hash::Hash;

use crate::catalog::hash_of_name;
use crate::error::StoreError;
use crate::layout::OBJECTS;
use crate::medium::FileKind;
use crate::parts::{ObjectPart, object_name};
use crate::store::Store;

/// One finished part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Root of the object.
    pub root: Hash,
    /// Which part.
    pub part: ObjectPart,
    /// Size in bytes.
    pub size: u64,
    /// When it was written, seconds since 1970.
    pub written_s: i64,
}

/// Storage of finished parts, each under its root and kind. A part is stored whole or not at all.
pub trait Objects: Send + Sync {
    /// Size and time of a stored part; `None` if there is none.
    ///
    /// # Errors
    /// The storage's.
    fn info(&self, root: &Hash, part: ObjectPart) -> Result<Option<ObjectInfo>, StoreError>;

    /// Reads from byte `offset` until `out` is full or the part ends. Returns the bytes read.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; the storage's.
    fn read_at(
        &self,
        root: &Hash,
        part: ObjectPart,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, StoreError>;

    /// Stores a whole part, replacing an older one.
    ///
    /// # Errors
    /// The storage's; the older part stays then.
    fn put(&self, root: &Hash, part: ObjectPart, bytes: &[u8]) -> Result<(), StoreError>;

    /// Calls `each` for every part, in no particular order. Other files are skipped.
    ///
    /// # Errors
    /// The storage's.
    fn list(&self, each: &mut dyn FnMut(ObjectInfo)) -> Result<(), StoreError>;

    /// Removes a part; no error if there is none.
    ///
    /// # Errors
    /// The storage's.
    fn remove(&self, root: &Hash, part: ObjectPart) -> Result<(), StoreError>;
}

impl Objects for Store {
    fn info(&self, root: &Hash, part: ObjectPart) -> Result<Option<ObjectInfo>, StoreError> {
        let meta = self.metadata_of(&object_name(root, part))?;
        Ok(meta.filter(|meta| meta.kind == FileKind::File).map(|meta| {
            let (size, written_s) = (meta.size, meta.mtime.secs);
            ObjectInfo { root: *root, part, size, written_s }
        }))
    }

    fn read_at(
        &self,
        root: &Hash,
        part: ObjectPart,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, StoreError> {
        match self.object(root, part)? {
            Some(file) => file.read_full(out, offset),
            None => Err(StoreError::NotFound { path: self.object_path(root, part) }),
        }
    }

    fn put(&self, root: &Hash, part: ObjectPart, bytes: &[u8]) -> Result<(), StoreError> {
        let new = self.new_file()?;
        new.file().write_all(bytes, 0)?;
        self.keep(new, root, part).map(drop)
    }

    fn list(&self, each: &mut dyn FnMut(ObjectInfo)) -> Result<(), StoreError> {
        for item in self.names_in(OBJECTS)? {
            if let Some((root, part)) = part_of_name(Path::new(&item.name))
                && let Some(info) = self.info(&root, part)?
            {
                each(info);
            }
        }
        Ok(())
    }

    fn remove(&self, root: &Hash, part: ObjectPart) -> Result<(), StoreError> {
        self.remove_named(&object_name(root, part))
    }
}

/// The root and part of a name under `partial`: as [`part_of_name`], and also for further fetches of the same root.
pub(crate) fn partial_of_name(name: &Path) -> Option<(Hash, ObjectPart)> {
    let text = name.to_str()?;
    let Some((root, place)) = text.split_once('-') else { return part_of_name(name) };
    let (key, extension) = place.split_once('.')?;
    u64::from_str_radix(key, 16).ok()?;
    part_of_name(Path::new(&format!("{root}.{extension}")))
}

/// The root and part of a name under `objects`.
pub(crate) fn part_of_name(name: &Path) -> Option<(Hash, ObjectPart)> {
    let root = hash_of_name(name.file_stem()?)?;
    let extension = name.extension()?;
    ObjectPart::ALL.into_iter().find(|p| extension == p.extension()).map(|part| (root, part))
}
