//! [`adopt`] takes the trees, lists and listing of a publication into a store. They are kept elsewhere under the names
//! that they have in a store. Each is verified against the publisher's signature first; a wrong one is left out, and
//! recomputed where it is needed. [`parts`] is the inverse.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use xylem_files::hashing::packed_slots;
use xylem_files::signed::SignedPublication;
use xylem_files::{ListedError, ListedFiles, sums, trees};
use xylem_hash::Hash;
use xylem_object::PublicationKind;
use xylem_object::listing::EntryKind;
use xylem_store::{FileRef, NewFile, ObjectPart, OpenHow, Store, StoreError};
use xylem_tree::NODE_LEN;

/// Bytes copied at once.
const PIECE: usize = 1 << 20;
/// The parts of a publication beside its manifest and its content.
const PARTS: [ObjectPart; 4] =
    [ObjectPart::Listing, ObjectPart::Outboard, ObjectPart::FileOutboards, ObjectPart::Sums];

/// The result of [`adopt`].
#[derive(Debug)]
pub struct Adopted {
    /// A directory's listing.
    pub listing: Option<ListedFiles>,
    /// Files that exist and did not verify.
    pub flawed: Vec<PathBuf>,
}

/// Returns the file name of a part, wherever it is kept.
pub fn part_name(store: &Store, root: &Hash, part: ObjectPart) -> OsString {
    store.object_path(root, part).file_name().unwrap_or_default().to_owned()
}

/// Returns the parts of a publication that a store has, except its manifest.
///
/// # Errors
/// The store's.
pub fn parts(store: &Store, root: &Hash) -> Result<Vec<(OsString, FileRef)>, StoreError> {
    let mut parts = Vec::new();
    for part in PARTS {
        if let Some(file) = store.object(root, part)? {
            parts.push((part_name(store, root, part), file));
        }
    }
    Ok(parts)
}

/// Takes the parts of `signed` that lie below `from` into the store. The store's medium must be able to read `from`.
///
/// # Errors
/// A directory's listing is missing or not the signed one: nothing else can be verified without it. Other errors are
/// those of the medium.
pub fn adopt(
    store: &Store,
    signed: &SignedPublication,
    from: &Path,
) -> Result<Adopted, ListedError> {
    let manifest = &signed.manifest;
    let (root, segment, geometry) = (manifest.root, manifest.segment, manifest.geometry());
    let from = |part| from.join(part_name(store, &root, part));
    let (mut listing, mut flawed) = (None, Vec::new());
    let (mut slots, mut list) = (0, manifest.sums.map_or(0, |sums| sums.size));
    if manifest.kind == PublicationKind::Directory {
        let open = |file| ListedFiles::open(file, manifest.size, &root, segment);
        let kept = store.object(&root, ObjectPart::Listing)?.and_then(|file| open(file).ok());
        let listed = match kept {
            Some(listed) => listed,
            None => {
                let from = from(ObjectPart::Listing);
                let new =
                    copy(store, &from, manifest.size)?.ok_or(ListedError::NotTheRoot(from))?;
                open(new.file().clone())?;
                open(store.keep(new, &root, ObjectPart::Listing)?)?
            }
        };
        for found in listed.entries() {
            if let EntryKind::File { size, .. } = found?.entry.kind {
                slots += packed_slots(size, segment);
            }
        }
        listing = Some(listed);
    } else if packed_slots(manifest.size, segment) == 0 {
        list = 0;
    }
    let outboard = match listing.is_some() || geometry.segments() > 1 {
        true => geometry.slots().saturating_mul(NODE_LEN as u64),
        false => 0,
    };
    let wanted = [
        (ObjectPart::Outboard, outboard),
        (ObjectPart::FileOutboards, slots.saturating_mul(NODE_LEN as u64)),
        (ObjectPart::Sums, if list == 0 { 0 } else { list.saturating_add(sums::TRAILER) }),
    ];
    for (part, size) in wanted.into_iter().filter(|(_, size)| *size > 0) {
        if store.object(&root, part)?.is_some() {
            continue;
        }
        let from = from(part);
        let Some(new) = copy(store, &from, size)? else {
            flawed.push(from);
            continue;
        };
        let file = new.file();
        let is_right = match (part, &listing) {
            (ObjectPart::Outboard, _) => trees::is_whole(file, geometry, &root)?,
            (ObjectPart::FileOutboards, Some(listed)) => {
                trees::packed(file, listed, segment, true)?.0.is_none()
            }
            _ => sums::check(file)?.is_none(),
        };
        if is_right {
            store.keep(new, &root, part)?;
        } else {
            flawed.push(from);
        }
    }
    Ok(Adopted { listing, flawed })
}

/// Copies the file at `path` if it exists and has this size.
fn copy(store: &Store, path: &Path, size: u64) -> Result<Option<NewFile>, StoreError> {
    let from = match FileRef::open(&**store.medium(), path, OpenHow::ReadNoFollow) {
        Ok(from) => from,
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(e) => return Err(e),
    };
    if from.metadata()?.size != size {
        return Ok(None);
    }
    let new = store.new_file()?;
    let (mut buffer, mut at) = (vec![0; PIECE], 0);
    while at < size {
        let piece = &mut buffer[..(size - at).min(PIECE as u64) as usize];
        if from.read_full(piece, at)? < piece.len() {
            return Ok(None);
        }
        new.file().write_all(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(Some(new))
}
