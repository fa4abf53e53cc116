//! [`FileLayout`]: all files of a publication in one run of bytes, one after the other.
//!
//! The browser keeps one file for all of them, and offers each as a slice of it.

use xylem_hash::Hash;
use xylem_object::listing::{self, EntryKind};
use xylem_object::{Manifest, ObjectId};
use xylem_tree::Geometry;

/// Limit of a listing in bytes: some hundred thousand names.
pub const MAX_LISTING: u64 = 64 << 20;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutFile {
    /// The object of the publication.
    pub id: ObjectId,
    /// Its path, for people; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Its modification time: seconds since 1970, and nanoseconds after that second.
    pub mtime: (i64, u32),
    /// Its tree's root.
    pub root: Hash,
    /// Its tree's shape.
    pub geometry: Geometry,
    /// Where it begins in the run of all files.
    pub base: u64,
    /// Where its tree's nodes begin among those of all files.
    pub first_slot: u64,
}

/// All files of a publication, in the order of its listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLayout {
    /// The files.
    pub files: Vec<LayoutFile>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Slots of all their trees.
    pub slots: u64,
}

/// Reasons for which a signed listing cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// It is not a valid listing.
    #[error("the list of files is invalid: {0}")]
    Listing(#[from] listing::ListingError),
    /// It exceeds the limit.
    #[error("its list of files has {0} bytes, more than a page can hold: fetch it with xylem get")]
    TooLong(u64),
    /// Its files are more than 2^53 bytes, which scripts cannot count.
    #[error("its files have more bytes than a browser can count: fetch it with xylem get")]
    TooLarge,
    /// Its number of files or bytes differs from the manifest's.
    #[error("the list of files disagrees with the manifest")]
    Totals,
}

/// The geometry of a file of `size` bytes in this publication.
fn geometry(size: u64, manifest: &Manifest) -> Result<Geometry, LayoutError> {
    if size > xylem_object::MAX_SIZE {
        return Err(LayoutError::TooLarge);
    }
    Ok(Geometry::new(size, manifest.segment).with_kind(manifest.tree))
}

impl FileLayout {
    /// The layout of a publication that is one file.
    pub fn of_file(manifest: &Manifest) -> Result<Self, LayoutError> {
        let name = String::from_utf8_lossy(&manifest.file_name).into_owned();
        let path = if name.is_empty() { "file".to_owned() } else { name };
        let mut layout = Self::default();
        let (mode, mtime) = (manifest.mode, (manifest.mtime_s, manifest.mtime_ns));
        let geometry = geometry(manifest.size, manifest)?;
        layout.push(ObjectId::Root, path, mode, mtime, manifest.root, geometry)?;
        Ok(layout)
    }

    /// The layout of a directory, from its listing. Links are left out: a browser keeps files.
    pub fn of_listing(manifest: &Manifest, bytes: &[u8]) -> Result<Self, LayoutError> {
        let mut layout = Self::default();
        for entry in listing::entries(bytes) {
            let entry = entry?;
            if let EntryKind::File { size, root } = entry.kind {
                let id = ObjectId::File(layout.files.len() as u64);
                let path = String::from_utf8_lossy(&entry.path).into_owned();
                let mtime = (entry.mtime_s, entry.mtime_ns);
                layout.push(id, path, entry.mode, mtime, root, geometry(size, manifest)?)?;
            }
        }
        let said = (manifest.file_count, manifest.total_size);
        match (layout.files.len() as u64, layout.bytes) == said {
            true => Ok(layout),
            false => Err(LayoutError::Totals),
        }
    }

    fn push(
        &mut self,
        id: ObjectId,
        path: String,
        mode: u32,
        mtime: (i64, u32),
        root: Hash,
        geometry: Geometry,
    ) -> Result<(), LayoutError> {
        let (base, first_slot) = (self.bytes, self.slots);
        self.bytes = base
            .checked_add(geometry.size())
            .filter(|all| *all < 1 << 53)
            .ok_or(LayoutError::TooLarge)?;
        self.slots = first_slot.checked_add(geometry.slots()).ok_or(LayoutError::TooLarge)?;
        self.files.push(LayoutFile { id, path, mode, mtime, root, geometry, base, first_slot });
        Ok(())
    }

    /// The file of an object.
    pub fn file(&self, id: ObjectId) -> Option<&LayoutFile> {
        let at = match id {
            ObjectId::File(n) => usize::try_from(n).ok()?,
            ObjectId::Root => 0,
            ObjectId::Sums => return None,
        };
        self.files.get(at).filter(|file| file.id == id)
    }
}
