//! From a path to something that can be served: hashed, signed, and read from where it lies.

mod directory;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_hash::Hash;
use xylem_object::naming::{self, ObjectId};
use xylem_object::{Kind, Manifest, PublisherKey, Source, sign_manifest};
use xylem_packet::Name;
use xylem_store::{
    DiskMedium, FileCache, FileKind, FileRef, FileState, Medium, Meta, OutboardFile,
    OutboardReader, Part, SharedFile, Store, StoreError,
};
use xylem_tree::{Geometry, NODE_LEN, SegmentSize};

use crate::clock::microseconds_now;
use crate::failure;
use crate::hashing::{self, Job, packed_slots};
use crate::record::{self, Record};
use crate::walk::os_bytes;
use crate::{Error, LibraryEvent, Stop};

use directory::Members;

/// Files of a publication held open while it is served.
const OPEN_FILES: usize = 64;
/// Content is read in aligned runs of this length: one call for eight segments.
const READ_AHEAD: u64 = 64 * 1024;
/// Runs that are kept: one for each of a few peers that read at different places.
const RUNS: usize = 8;

/// A hashed file or directory and where its parts lie.
pub struct Published {
    /// What is signed.
    pub manifest: Manifest,
    files: Files,
    /// The listing's bytes and outboard, for a directory.
    listing: Option<(FileRef, OutboardFile)>,
    /// Outboards of the files, each at its slot.
    outboards: Option<OutboardFile>,
}

/// The file, or the files of the directory in listing order.
enum Files {
    One(Served),
    Many(Box<Members>),
}

/// A file that is served.
#[derive(Clone)]
struct Served {
    file: SharedFile,
    root: Hash,
    slot: u64,
}

/// A published thing opened for serving.
pub struct Serving {
    published: Published,
    cache: FileCache,
    nodes: Option<OutboardReader>,
    listing_nodes: Option<OutboardReader>,
    ahead: VecDeque<Ahead>,
    /// The file that was asked for last, with its number.
    current: Option<(u64, Served)>,
}

/// Content that was read with what was asked for, because it is asked for next.
struct Ahead {
    file: u64,
    start: u64,
    bytes: Vec<u8>,
    /// A bit for each KiB that was handed out: what is asked for a second time is read again, in
    /// case the first answer did not verify.
    given: u64,
}

/// The disk, as the store wants it.
pub fn disk() -> Arc<dyn Medium> {
    Arc::new(DiskMedium::new())
}

/// Hashes `path`, or takes what was hashed before and has not changed since.
///
/// Returns the versioned prefix of object name `object` too.
pub fn publish(
    store: &Store,
    path: &Path,
    name: &dyn Fn(&[u8]) -> Result<Name, Error>,
    portable: bool,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<(Published, Name), Error> {
    let at = |e| failure::store(&StoreError::from_io("share", path, None, e));
    let canonical = path.canonicalize().map_err(at)?;
    let key = os_bytes(canonical.as_os_str());
    let file_name = os_bytes(canonical.file_name().unwrap_or_default());
    let object = name(&file_name)?;
    let meta = store.medium().metadata(&canonical).map_err(at)?;
    let record = Record::recall(store, &key);
    let known = record.as_ref();
    let published = match meta.kind {
        FileKind::File => {
            publish_file(store, &canonical, &meta, &file_name, known, stop, on_event)?
        }
        FileKind::Directory => {
            // The outboards of a fetched directory may have holes.
            let known = known.filter(|r| !r.fetched).map(|r| r.root);
            directory::publish(store, &canonical, known, portable, stop, on_event)?
                .described(&meta, &file_name)
        }
        _ => return Err(failure::usage(format!("{}: not a file or directory", path.display()))),
    };
    // The same bytes under the same name keep their version, so that tickets stay good.
    let root = published.manifest.root;
    let version = known.filter(|r| r.root == root).and_then(|r| r.note.version);
    let version = version.unwrap_or_else(microseconds_now);
    let state = FileState::of(&meta);
    record::shared(store, &key, &published.manifest, state, version, known)
        .map_err(|e| failure::store(&e))?;
    let prefix = naming::versioned(object.as_ref(), version)
        .map_err(|e| failure::usage(format!("{object}: {e}")))?;
    Ok((published, prefix))
}

fn publish_file(
    store: &Store,
    path: &Path,
    meta: &Meta,
    file_name: &[u8],
    record: Option<&Record>,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Published, Error> {
    let at = |e: StoreError| failure::store(&e);
    let state = FileState::of(meta);
    let small = packed_slots(state.size, SegmentSize::DEFAULT) == 0;
    let known = record.filter(|r| r.state == state).map(|r| r.root);
    let outboard = known.and_then(|root| store.object(&root, Part::Outboard).ok().flatten());
    // One of a fetch may be of another segment size.
    let slots = packed_slots(state.size, SegmentSize::DEFAULT);
    let fits = |o: &FileRef| o.metadata().is_ok_and(|m| m.size == slots * NODE_LEN as u64);
    let outboard = outboard.filter(fits);
    let (root, outboard) = match (known, outboard) {
        (Some(root), outboard) if small || outboard.is_some() => (root, outboard),
        _ => {
            let new = store.new_file().map_err(at)?;
            let job = Job { path: path.to_path_buf(), state, slot: (!small).then_some(0) };
            let outboard = OutboardFile::new(new.file().clone());
            let roots =
                hashing::hash_all(&**store.medium(), &[job], Some(&outboard), stop, on_event)?;
            let root = roots[0];
            let kept = if small {
                None
            } else {
                Some(store.keep(new, &root, Part::Outboard).map_err(at)?)
            };
            (root, kept)
        }
    };
    let mut manifest = Manifest::file(root, state.size, file_name);
    describe(&mut manifest, meta);
    let file = SharedFile { path: path.to_path_buf(), state };
    let files = Files::One(Served { file, root, slot: 0 });
    Ok(Published { manifest, files, listing: None, outboards: outboard.map(OutboardFile::new) })
}

fn describe(manifest: &mut Manifest, meta: &Meta) {
    manifest.mode = meta.mode & 0o777;
    (manifest.mtime_s, manifest.mtime_ns) = (meta.mtime.secs, meta.mtime.nanos);
}

impl Published {
    fn described(mut self, meta: &Meta, file_name: &[u8]) -> Self {
        describe(&mut self.manifest, meta);
        self.manifest.file_name = file_name.to_vec();
        self
    }

    /// Signs the manifest under `prefix`.
    pub fn sign(&self, prefix: &Name, key: &PublisherKey) -> Result<Vec<u8>, Error> {
        sign_manifest(&self.manifest, prefix.as_ref(), key)
            .map_err(|e| failure::usage(e.to_string()))
    }

    /// Opens it for serving.
    pub fn serve(self, medium: Arc<dyn Medium>) -> Serving {
        Serving {
            cache: FileCache::new(medium, OPEN_FILES),
            nodes: self.outboards.as_ref().map(|o| o.reader_at(0)),
            listing_nodes: self.listing.as_ref().map(|(_, o)| o.reader_at(0)),
            ahead: VecDeque::new(),
            current: None,
            published: self,
        }
    }
}

impl Serving {
    /// The file behind an object, with its number.
    fn file(&mut self, object: ObjectId) -> Result<Option<(u64, &Served)>, StoreError> {
        let number = match (object, self.published.manifest.kind) {
            (ObjectId::Root, Kind::File) => 0,
            (ObjectId::File(number), Kind::Directory) => number,
            _ => return Ok(None),
        };
        if self.current.as_ref().is_none_or(|(at, _)| *at != number) {
            let served = match &mut self.published.files {
                Files::One(served) => Some(served.clone()),
                Files::Many(members) => members.get(number)?,
            };
            self.current = served.map(|served| (number, served));
        }
        Ok(self.current.as_ref().map(|(number, served)| (*number, served)))
    }

    /// Fills `out` from the run that it lies in, which is read if it is not at hand.
    fn read_ahead(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        self.file(object)?;
        let (file, served) = self.current.as_ref().ok_or_else(Self::nowhere)?;
        let (file, shared) = (*file, &served.file);
        let start = offset / READ_AHEAD * READ_AHEAD;
        let end = (start + READ_AHEAD).min(shared.state.size);
        if offset + out.len() as u64 > end || end - start <= out.len() as u64 {
            return self.cache.read_at(file, shared, offset, out);
        }
        let bit = 1_u64 << ((offset - start) / 1024);
        self.ahead.retain(|a| (a.file, a.start) != (file, start) || a.given & bit == 0);
        let known = self.ahead.iter().position(|a| (a.file, a.start) == (file, start));
        let at = match known {
            Some(at) => at,
            None => {
                let mut bytes = match self.ahead.len() {
                    RUNS => self.ahead.pop_front().map(|a| a.bytes).unwrap_or_default(),
                    _ => Vec::new(),
                };
                bytes.resize((end - start) as usize, 0);
                self.cache.read_at(file, shared, start, &mut bytes)?;
                self.ahead.push_back(Ahead { file, start, bytes, given: 0 });
                self.ahead.len() - 1
            }
        };
        let from = (offset - start) as usize;
        out.copy_from_slice(&self.ahead[at].bytes[from..from + out.len()]);
        self.ahead[at].given |= bit;
        Ok(())
    }

    fn nowhere() -> StoreError {
        StoreError::NotFound { path: PathBuf::new() }
    }
}

impl Source for Serving {
    type Error = StoreError;

    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        if object == ObjectId::Root {
            return Some(self.published.manifest.geometry());
        }
        // A listing that can't be read has no files; that it can't is told when it is asked for itself.
        let (_, served) = self.file(object).ok().flatten()?;
        Some(Geometry::new(served.file.state.size, SegmentSize::DEFAULT))
    }

    fn read_content(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        if let (ObjectId::Root, Some((listing, _))) = (object, &self.published.listing) {
            let got = listing.read_full(out, offset)?;
            return if got == out.len() { Ok(()) } else { Err(Self::nowhere()) };
        }
        self.read_ahead(object, offset, out)
    }

    fn read_nodes(
        &mut self,
        object: ObjectId,
        first_slot: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        if let (ObjectId::Root, Some(reader)) = (object, &mut self.listing_nodes) {
            return reader.read(first_slot, out);
        }
        let slot = self.file(object)?.ok_or_else(Self::nowhere)?.1.slot;
        let reader = self.nodes.as_mut().ok_or_else(Self::nowhere)?;
        reader.rebase(slot);
        reader.read(first_slot, out)
    }

    fn root(&mut self, object: ObjectId) -> Option<Hash> {
        if object == ObjectId::Root {
            return Some(self.published.manifest.root);
        }
        self.file(object).ok().flatten().map(|(_, served)| served.root)
    }
}

/// Hashes `path` as if nothing were known of it and keeps its trees, as [`publish`] would; returns
/// its root.
pub fn rebuild(
    store: &Store,
    path: &Path,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Hash, Error> {
    let at = |e| failure::store(&StoreError::from_io("read", path, None, e));
    let meta = store.medium().metadata(path).map_err(at)?;
    let published = match meta.kind {
        FileKind::Directory => directory::publish(store, path, None, false, stop, on_event)?,
        _ => publish_file(store, path, &meta, b"", None, stop, on_event)?,
    };
    Ok(published.manifest.root)
}

/// The root that publishing `path` would give; nothing is kept.
pub fn root_of(path: &Path, on_event: &mut dyn FnMut(LibraryEvent)) -> Result<Hash, Error> {
    let medium = disk();
    let at = |e| failure::store(&StoreError::from_io("read", path, None, e));
    let canonical = path.canonicalize().map_err(at)?;
    let stop = Stop::new();
    if medium.metadata(&canonical).map_err(at)?.kind != FileKind::Directory {
        let state = hashing::state_of(&*medium, &canonical).map_err(|e| failure::store(&e))?;
        let job = Job { path: canonical, state, slot: None };
        return Ok(hashing::hash_all(&*medium, &[job], None, &stop, on_event)?[0]);
    }
    directory::root_of(&*medium, &canonical, on_event)
}
