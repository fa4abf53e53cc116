//! A fetched private publication: a recipient decrypts it into the original files. docs/spec/sealed.md.
//!
//! The ciphertext lies in a folder beside the result meanwhile. [`UnsealedList::unseal`] gives it to the same
//! [`Sink`](crate::Sink) that fetches use, as an old copy that contains everything. The sink decides which names
//! are allowed, what is replaced and what stays, and compares every file with its root.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xylem_base::{Blame, Failure, Stop, disk};
use xylem_files::overlay::{Ciphered, FILES, KEYS, LIST, Overlay, Virtual};
use xylem_files::{LibraryEvent, ListedError, ListedFiles, Output, SaveOptions};
use xylem_hash::{Hash, Hasher};
use xylem_keys::KeyFileError;
use xylem_link::StaticKey;
use xylem_mail::sealed::{MAX_LIST, SealedError, SealedList, open, padded};
use xylem_object::listing::{EntryKind, entries};
use xylem_object::witness::WitnessSubject;
use xylem_object::{Manifest, PublicationKind, PublisherId, PublisherKey, naming, sign_manifest};
use xylem_packet::NameRef;
use xylem_store::{
    Attributes, Clobber, Durability, FileKind, FileRef, Medium, ObjectPart, OpenHow,
    OverwritePolicy, PartFile, Store, StoreError,
};
use xylem_transfer::{Misbehaviour, Transfer, TransferConfig, TransferSpec};

use crate::{Context, Copies, Destination, SaveError, Tally};

/// Exclusion pattern for the first fetch, which brings only `keys` and `list`.
pub const ALL_BUT_THE_LIST: &str = "/f";
/// Bytes decrypted and written at once.
const PIECE: usize = 1 << 20;

/// Why a private publication could not be read.
#[derive(Debug, thiserror::Error)]
pub enum UnsealError {
    /// The encryption is not valid or not for this recipient.
    #[error(transparent)]
    Sealed(#[from] SealedError),
    /// A key for decryption cannot be read.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The decrypted content does not match the publisher's list.
    #[error("{}: the decrypted content is not what its publisher's list names", .0.display())]
    NotAsListed(PathBuf),
    /// The request needs all of the content in the clear.
    #[error(
        "{0} is not possible with content that is encrypted to you: fetch all of it, to a path"
    )]
    NotPossible(&'static str),
    /// A resulting file cannot be saved.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// Asked to stop.
    #[error("interrupted; what was fetched is kept")]
    Interrupted,
}

impl From<StoreError> for UnsealError {
    fn from(e: StoreError) -> Self {
        Self::Save(e.into())
    }
}

impl Failure for UnsealError {
    fn blame(&self) -> Blame {
        match self {
            Self::Sealed(
                SealedError::NotForUs | SealedError::Outdated | SealedError::UnknownVersion(_),
            )
            | Self::NotPossible(_) => Blame::Usage,
            Self::Sealed(_) | Self::NotAsListed(_) => Blame::Data,
            Self::Key(e) => e.blame(),
            Self::Save(e) => e.blame(),
            Self::Interrupted => Blame::Interrupted,
        }
    }
}

/// Returns where the ciphertext of this root is stored meanwhile: beside the result.
///
/// # Errors
/// [`UnsealError::NotPossible`] for standard output and ranges.
pub fn ciphertext_at(save: &SaveOptions, root: &Hash) -> Result<PathBuf, UnsealError> {
    if save.range.is_some() {
        return Err(UnsealError::NotPossible("--range"));
    }
    let name = format!(".xylem-sealed-{}", &root.to_string()[..16]);
    match &save.output {
        Output::Stdout => Err(UnsealError::NotPossible("-o -")),
        Output::At(path) => Ok(path.with_file_name(name)),
        Output::Into(directory) => {
            if !directory.as_os_str().is_empty() && !directory.is_dir() {
                let made = disk().create_dir(directory, 0o777);
                made.map_err(|_| SaveError::NoDirectory(directory.clone()))?;
            }
            Ok(directory.join(name))
        }
    }
}

/// The list of a private publication, decrypted by one of its recipients.
pub struct UnsealedList {
    list: SealedList,
    /// Where the ciphertext lies.
    at: PathBuf,
}

impl UnsealedList {
    /// Decrypts the list below `at`, fetched from the publication that `publisher` has signed as `prefix`, with the
    /// first of our keys that is a recipient's. The ciphertext is bound to publisher and name, so that another
    /// publisher cannot republish it.
    ///
    /// # Errors
    /// [`SealedError::NotForUs`]; an invalid publication; a key's, before one fits; the disk's.
    pub fn read(
        medium: &dyn Medium,
        at: &Path,
        publisher: PublisherId,
        prefix: NameRef<'_>,
        us: impl IntoIterator<Item = Result<StaticKey, KeyFileError>>,
    ) -> Result<Self, UnsealError> {
        let (keys, sealed) = (whole(medium, &at.join(KEYS))?, whole(medium, &at.join(LIST))?);
        let subject =
            WitnessSubject::of_version(publisher, prefix).ok_or(SealedError::Malformed)?;
        let mut opened = Err(SealedError::NotForUs);
        for key in us {
            opened = open(&key?, &subject, &keys, &sealed);
            if opened != Err(SealedError::NotForUs) {
                break;
            }
        }
        let list = opened?;
        if list.manifest.kind == PublicationKind::Directory
            && xylem_hash::hash(&list.listing) != list.manifest.root
        {
            return Err(UnsealError::NotAsListed(PathBuf::from(LIST)));
        }
        Ok(Self { list, at: at.to_path_buf() })
    }

    /// Returns the manifest of the plaintext.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.list.manifest
    }

    /// Prepares old copies for the fetch of the ciphertext, if the result is to be merged into an existing directory:
    /// files there are encrypted as they are read. Returns the store through which they are read, and where they are.
    ///
    /// # Errors
    /// See [`UnsealError`].
    pub fn encrypted_again(
        &self,
        store: &Store,
        save: &SaveOptions,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(Store, Vec<PathBuf>), UnsealError> {
        let SealedList { manifest, listing, keys, .. } = &self.list;
        let to = Destination::choose(save, manifest)?;
        let place = to.filter(|to| to.policy == OverwritePolicy::Replace && to.path.is_dir());
        let Some(place) = place.filter(|_| manifest.kind == PublicationKind::Directory) else {
            return Ok((store.clone(), Vec::new()));
        };
        let listed = self.keep_listing(store)?;
        let places = [place.path];
        let found = Copies::find(store.medium(), &places, &listed, &|_| true, on_event)?;
        let (mut files, mut number) = (BTreeMap::new(), 0);
        for entry in entries(listing) {
            let entry = entry.map_err(|e| SaveError::Listed(ListedError::Bad(e)))?;
            let EntryKind::File { size, root } = entry.kind else { continue };
            if let (Some(path), Some(key)) = (found.path(&root), keys.get(number)) {
                let file = Ciphered {
                    path: path.to_path_buf(),
                    source: size,
                    size: self.sealed_size(size),
                    key: key.clone(),
                    check: None,
                };
                files.insert(PathBuf::from(key.name()), Virtual::Ciphered(Arc::new(file)));
            }
            number += 1;
        }
        let shown = self.at.join("old");
        let overlay = Overlay::new(store.medium().clone(), shown.clone(), files);
        Ok((store.with_medium(Arc::new(overlay)), vec![shown]))
    }

    /// Decrypts the complete ciphertext into the original files. Returns their path and counts.
    ///
    /// # Errors
    /// See [`UnsealError`]; the ciphertext stays.
    pub fn unseal(
        &self,
        store: &Store,
        save: &SaveOptions,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(PathBuf, Tally), UnsealError> {
        let destination = Destination::choose(save, &self.list.manifest)?;
        let destination = destination.ok_or(UnsealError::NotPossible("-o -"))?;
        match self.list.manifest.kind {
            PublicationKind::File => self.file(store, &destination, stop, on_event),
            PublicationKind::Directory => self.directory(store, save, destination, stop, on_event),
        }
    }

    /// Returns the ciphertext of a file as a virtual file of its plaintext.
    fn decrypted(&self, size: u64, number: usize) -> Option<Ciphered> {
        let key = self.list.keys.get(number)?.clone();
        let path = self.at.join(FILES).join(key.name());
        Some(Ciphered { path, source: self.sealed_size(size), size, key, check: None })
    }

    /// Returns the length of the ciphertext of `size` bytes.
    fn sealed_size(&self, size: u64) -> u64 {
        if self.list.padded { padded(size) } else { size }
    }

    fn file(
        &self,
        store: &Store,
        to: &Destination,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(PathBuf, Tally), UnsealError> {
        let manifest = &self.list.manifest;
        let wrong = || UnsealError::NotAsListed(to.path.clone());
        let file = self.decrypted(manifest.size, 0).ok_or_else(wrong)?;
        let mut files = BTreeMap::new();
        files.insert(PathBuf::from("0"), Virtual::Ciphered(Arc::new(file)));
        let (medium, shown) = (store.medium(), self.at.join("plain"));
        let overlay = Overlay::new(medium.clone(), shown.clone(), files);
        let part = PartFile::open(&**medium, &to.part)?;
        part.file().set_len(manifest.size)?;
        let (mut hasher, mut at, mut piece) = (Hasher::new(), 0, vec![0; PIECE]);
        if manifest.size > 0 {
            let source = FileRef::open(&overlay, &shown.join("0"), OpenHow::ReadNoFollow)?;
            while at < manifest.size {
                if stop.raised() {
                    return Err(UnsealError::Interrupted);
                }
                let left = usize::try_from(manifest.size - at).unwrap_or(PIECE).min(PIECE);
                let got = source.read_full(&mut piece[..left], at)?;
                if got < left {
                    return Err(wrong());
                }
                hasher.update(&piece[..got]);
                part.file().write_all(&piece[..got], at)?;
                at += got as u64;
            }
        }
        if hasher.finalize() != manifest.root {
            medium
                .remove_file(part.path())
                .map_err(|e| StoreError::from_io("remove", part.path(), None, e))?;
            return Err(wrong());
        }
        // Attributes that the file system refuses are only warned of: the content is right.
        let Attributes { mode, mtime } = crate::attributes_of(manifest);
        let mode = mode.map_or(Ok(()), |mode| part.file().set_mode(mode & !medium.umask()));
        let mtime = mtime.map_or(Ok(()), |mtime| part.file().set_mtime(mtime));
        for what in [mode, mtime].into_iter().filter_map(Result::err) {
            on_event(LibraryEvent::Warning { what: format!("{what}; the content is right") });
        }
        let clobber = match to.policy {
            OverwritePolicy::Replace => Clobber::Replace,
            OverwritePolicy::Never => Clobber::Never,
        };
        let durability = if store.is_durable() { Durability::Device } else { Durability::Cached };
        part.finish_as(&**medium, &to.path, clobber, durability)?;
        let tally = Tally { total: manifest.size, files: 1, ..Tally::default() };
        Ok((to.path.clone(), tally))
    }

    fn directory(
        &self,
        store: &Store,
        save: &SaveOptions,
        destination: Destination,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(PathBuf, Tally), UnsealError> {
        let SealedList { manifest, listing, .. } = &self.list;
        self.keep_listing(store)?;
        let (mut files, mut roots, mut number) = (BTreeMap::new(), HashSet::new(), 0);
        for entry in entries(listing) {
            let entry = entry.map_err(|e| SaveError::Listed(ListedError::Bad(e)))?;
            let EntryKind::File { size, root } = entry.kind else { continue };
            if size > 0 && roots.insert(root) {
                let wrong = || UnsealError::NotAsListed(xylem_base::os_path(&entry.path));
                let file = self.decrypted(size, number).ok_or_else(wrong)?;
                let file = Virtual::Ciphered(Arc::new(file));
                files.insert(PathBuf::from(number.to_string()), file);
            }
            number += 1;
        }
        let shown = self.at.join("plain");
        let overlay = Overlay::new(store.medium().clone(), shown.clone(), files);
        let store = store.with_medium(Arc::new(overlay));
        let save = SaveOptions { like: vec![shown], range: None, ..save.clone() };
        let mut sink = crate::make(&save, manifest, Some(destination), &store)?;
        let (mut transfer, mut tally) = (transfer_without_peers(manifest)?, Tally::default());
        let mut context = |transfer: &mut Transfer, tally: &mut Tally, begin| {
            let now = Duration::ZERO;
            let mut cx = Context { transfer, tally, on_event, now, holdings: None };
            if begin {
                return sink.begin(&mut cx).map(|()| false);
            }
            while let Some(event) = cx.transfer.poll_event() {
                crate::deliver(&mut *sink, event, &mut cx)?;
            }
            sink.poll(&mut cx).map(|_| sink.is_done())
        };
        context(&mut transfer, &mut tally, true)?;
        while !context(&mut transfer, &mut tally, false)? {
            if stop.raised() {
                return Err(UnsealError::Interrupted);
            }
            // There is no peer to request missing content from.
            if transfer.progress().objects > 0 {
                return Err(UnsealError::NotAsListed(self.at.clone()));
            }
        }
        let path = sink.finish()?;
        sink.warnings().into_iter().for_each(|what| on_event(LibraryEvent::Warning { what }));
        Ok((path.unwrap_or_default(), tally))
    }

    /// Stores the listing, from where the sink reads it.
    fn keep_listing(&self, store: &Store) -> Result<ListedFiles, UnsealError> {
        let Manifest { root, size, segment, .. } = &self.list.manifest;
        let open = |file| ListedFiles::open(file, *size, root, *segment);
        // A damaged one is replaced.
        let kept = store.object(root, ObjectPart::Listing).ok().flatten();
        if let Some(listed) = kept.and_then(|file| open(file).ok()) {
            return Ok(listed);
        }
        let new = store.new_file()?;
        new.file().write_all(&self.list.listing, 0)?;
        let kept = store.keep(new, root, ObjectPart::Listing)?;
        Ok(open(kept).map_err(SaveError::Listed)?)
    }

    /// Removes the ciphertext, and no other file in its folder.
    ///
    /// # Errors
    /// The disk's.
    pub fn remove_ciphertext(&self, medium: &dyn Medium) -> Result<(), StoreError> {
        let files = self.at.join(FILES);
        for file in self.list.keys.iter().map(|key| files.join(key.name())) {
            ignore_missing(&file, medium.remove_file(&file))?;
        }
        remove_if_empty(&files, medium)?;
        remove_list(medium, &self.at)
    }
}

/// Removes the files of the first fetch.
///
/// # Errors
/// The disk's.
pub fn remove_list(medium: &dyn Medium, at: &Path) -> Result<(), StoreError> {
    for file in [at.join(KEYS), at.join(LIST)] {
        ignore_missing(&file, medium.remove_file(&file))?;
    }
    remove_if_empty(at, medium)
}

/// Removes a directory, unless it contains other files.
fn remove_if_empty(directory: &Path, medium: &dyn Medium) -> Result<(), StoreError> {
    match medium.remove_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => ignore_missing(directory, removed),
    }
}

/// Treats a missing file as removed.
fn ignore_missing(path: &Path, removed: io::Result<()>) -> Result<(), StoreError> {
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::from_io("remove", path, None, e))
        }
        _ => Ok(()),
    }
}

/// Reads a small file of the publication into memory.
fn whole(medium: &dyn Medium, path: &Path) -> Result<Vec<u8>, UnsealError> {
    let file = FileRef::open(medium, path, OpenHow::ReadNoFollow)?;
    let meta = file.metadata()?;
    let len = usize::try_from(meta.size).ok().filter(|len| *len <= MAX_LIST.saturating_add(64));
    let len = len.filter(|_| meta.kind == FileKind::File).ok_or(SealedError::Malformed)?;
    let mut bytes = vec![0; len];
    let got = file.read_full(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Makes a transfer that knows the manifest and has no peers.
fn transfer_without_peers(manifest: &Manifest) -> Result<Transfer, UnsealError> {
    let key = PublisherKey::from_bytes(&[0; 32]);
    let name = naming::default_name(&key.public(), b"sealed");
    let prefix = naming::versioned(name.as_ref(), 1).ok();
    let packet = prefix.as_ref().and_then(|p| sign_manifest(manifest, p.as_ref(), &key).ok());
    let (prefix, packet) = prefix.zip(packet).ok_or(SealedError::Malformed)?;
    let (root, size) = (Some(manifest.root), Some(manifest.size));
    let spec = TransferSpec { prefix, publisher: key.public(), root, size };
    let mut transfer = Transfer::new(spec, TransferConfig::default(), 0);
    let taken = transfer.offer_manifest(Duration::ZERO, &Bytes::from(packet));
    taken.map_err(|_: Misbehaviour| SealedError::Malformed)?;
    while transfer.poll_event().is_some() {}
    Ok(transfer)
}
