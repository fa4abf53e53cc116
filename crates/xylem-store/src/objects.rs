//! [`Objects`]: where finished parts lie, small enough to be something else than a directory.
//!
//! What a fetch or a publication writes piece by piece needs real files ([`Medium`](crate::Medium)).
//! What is finished is only read in ranges, put whole, listed and removed, which an object store with
//! an S3 interface can do as well: docs/spec/store.md, "Another place for objects". [`Store`] is the
//! implementation over files.

use std::path::Path;

use xylem_hash::Hash;

use crate::catalog::hash_of_name;
use crate::error::StoreError;
use crate::layout::OBJECTS;
use crate::medium::FileKind;
use crate::parts::{Part, object_name};
use crate::store::Store;

/// One finished part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Root of what it is a part of.
    pub root: Hash,
    /// Which part.
    pub part: Part,
    /// Bytes.
    pub size: u64,
    /// When it was written, seconds since 1970.
    pub written_s: i64,
}

/// A place for finished parts, each under its root and kind. A part is there whole or not at all.
pub trait Objects: Send + Sync {
    /// What is kept of a part; `None` if nothing is.
    ///
    /// # Errors
    /// The place's.
    fn info(&self, root: &Hash, part: Part) -> Result<Option<ObjectInfo>, StoreError>;

    /// Reads from byte `offset` until `out` is full or the part ends; returns the bytes read.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; the place's.
    fn read_at(
        &self,
        root: &Hash,
        part: Part,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, StoreError>;

    /// Keeps a whole part, replacing an older one.
    ///
    /// # Errors
    /// The place's; what was there before stays then.
    fn put(&self, root: &Hash, part: Part, bytes: &[u8]) -> Result<(), StoreError>;

    /// Names every part, in no particular order. What is not a part of anything is passed over.
    ///
    /// # Errors
    /// The place's.
    fn list(&self, each: &mut dyn FnMut(ObjectInfo)) -> Result<(), StoreError>;

    /// Forgets a part; no error if there is none.
    ///
    /// # Errors
    /// The place's.
    fn remove(&self, root: &Hash, part: Part) -> Result<(), StoreError>;
}

impl Objects for Store {
    fn info(&self, root: &Hash, part: Part) -> Result<Option<ObjectInfo>, StoreError> {
        let meta = self.metadata_of(&object_name(root, part))?;
        Ok(meta.filter(|meta| meta.kind == FileKind::File).map(|meta| {
            let (size, written_s) = (meta.size, meta.mtime.secs);
            ObjectInfo { root: *root, part, size, written_s }
        }))
    }

    fn read_at(
        &self,
        root: &Hash,
        part: Part,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, StoreError> {
        match self.object(root, part)? {
            Some(file) => file.read_full(out, offset),
            None => Err(StoreError::NotFound { path: self.object_path(root, part) }),
        }
    }

    fn put(&self, root: &Hash, part: Part, bytes: &[u8]) -> Result<(), StoreError> {
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

    fn remove(&self, root: &Hash, part: Part) -> Result<(), StoreError> {
        self.remove_named(&object_name(root, part))
    }
}

/// Which part of what a name under `partial` stands for: as [`part_of_name`], and those of further
/// fetches of the same root.
pub(crate) fn partial_of_name(name: &Path) -> Option<(Hash, Part)> {
    let text = name.to_str()?;
    let Some((root, place)) = text.split_once('-') else { return part_of_name(name) };
    let (key, extension) = place.split_once('.')?;
    u64::from_str_radix(key, 16).ok()?;
    part_of_name(Path::new(&format!("{root}.{extension}")))
}

/// Which part of what a name under `objects` stands for.
pub(crate) fn part_of_name(name: &Path) -> Option<(Hash, Part)> {
    let root = hash_of_name(name.file_stem()?)?;
    let extension = name.extension()?;
    Part::ALL.into_iter().find(|p| extension == p.extension()).map(|part| (root, part))
}
