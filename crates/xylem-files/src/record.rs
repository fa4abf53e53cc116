//! `Record`: what is remembered of a shared or fetched path: enough to avoid hashing it again, to keep its name, and to
//! find peers for it. The store keeps it ([`CatalogRecord`]); the note in it belongs to this crate.

use std::path::Path;

use xylem_base::{UnixTime, canonical_in, os_bytes, os_path};
use xylem_hash::{Hash, Hasher};
use xylem_object::listing::{EntryKind, ListingWriter};
use xylem_object::{Manifest, PublicationKind, Ticket};
use xylem_store::{
    CatalogRecord, DiskAttributes, DiskAttributesWriter, FileKind, FileState, FileTime, Meta,
    ObjectPart, RecordOrigin, Store, StoreError,
};
use xylem_tree::SegmentSize;

use crate::event::LibraryEvent;
use crate::listed::{Listed, ListedFiles};
use crate::save::SaveOptions;
use crate::signed;

/// Layout of a note, numbers little-endian: layout 1, version 8 (0: none), port 2 (0: none), sealed version 8 (0:
/// none), sealed root 32, ticket (length 4, UTF-8), excluded patterns (each length 4, UTF-8). Older layouts lack the
/// sealed fields, and the oldest lacks the port.
const LAYOUT: u8 = 3;
const WITHOUT_SEALED: u8 = 2;
const WITHOUT_PORT: u8 = 1;
/// Interval at which a use is recorded again, seconds.
const USED_EVERY: u64 = 24 * 3600;

/// This crate's part of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordNote {
    /// Version component of the name under which it was shared, microseconds since 1970.
    pub version: Option<u64>,
    /// UDP port at which it was shared last, which its tickets name.
    pub(crate) port: Option<u16>,
    /// Root and version of its last private publication.
    pub sealed: Option<(Hash, u64)>,
    /// A ticket for it: that of the fetch, or else our own.
    pub ticket: Option<String>,
    /// Patterns excluded when a directory was fetched or shared (`--exclude`).
    pub excluded: Vec<String>,
}

impl RecordNote {
    /// The note of a publication under `version` that leaves out what matches `excluded`.
    #[must_use]
    pub fn of_version(version: u64, excluded: Vec<String>) -> Self {
        Self { version: Some(version), excluded, ..Self::default() }
    }
}

impl RecordNote {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![LAYOUT];
        out.extend_from_slice(&self.version.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.port.unwrap_or(0).to_le_bytes());
        let sealed = self.sealed.map(|(root, version)| (*root.as_bytes(), version));
        let (root, version) = sealed.unwrap_or_default();
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&root);
        let ticket = self.ticket.as_deref().unwrap_or_default();
        for text in std::iter::once(ticket).chain(self.excluded.iter().map(String::as_str)) {
            let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    /// Decodes a note; an invalid one becomes an empty note, so that only the root is known.
    pub fn decode(bytes: &[u8]) -> Self {
        Self::read(bytes).unwrap_or_default()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (layout, rest) = bytes.split_first_chunk::<1>()?;
        let (version, rest) = rest.split_first_chunk::<8>()?;
        let (port, mut rest) = match layout[0] {
            WITHOUT_PORT => (&[0; 2], rest),
            WITHOUT_SEALED | LAYOUT => rest.split_first_chunk::<2>()?,
            _ => return None,
        };
        let mut sealed = None;
        if layout[0] == LAYOUT {
            let (version, after) = rest.split_first_chunk::<8>()?;
            let (root, after) = after.split_first_chunk::<32>()?;
            let version = u64::from_le_bytes(*version);
            sealed = (version != 0).then(|| (Hash::from_bytes(*root), version));
            rest = after;
        }
        let mut texts = Vec::new();
        while !rest.is_empty() {
            let (len, after) = rest.split_first_chunk::<4>()?;
            let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
            let (text, after) = after.split_at_checked(len)?;
            texts.push(std::str::from_utf8(text).ok()?.to_owned());
            rest = after;
        }
        let mut texts = texts.into_iter();
        let ticket = texts.next().filter(|t| !t.is_empty());
        let version = Some(u64::from_le_bytes(*version)).filter(|v| *v != 0);
        let port = Some(u16::from_le_bytes(*port)).filter(|p| *p != 0);
        Some(Self { version, port, sealed, ticket, excluded: texts.collect() })
    }
}

/// Record of a path from an earlier run.
#[derive(Clone, Debug)]
pub struct PathRecord {
    /// Root of its content.
    pub root: Hash,
    /// State of the file (or of the directory itself) then.
    pub state: FileState,
    /// When it was last shared or fetched, seconds since 1970; 0 if an older program did not record it.
    pub used_s: u64,
    /// The rest.
    pub note: RecordNote,
}

impl PathRecord {
    /// Returns the record of a canonical path. An unreadable store counts as empty, which costs hashing.
    pub fn recall(store: &Store, key: &[u8]) -> Option<Self> {
        if let Some(known) = store.known_at(key).ok().flatten() {
            return Some(Self::of(&known));
        }
        let old = store.old_share(key).ok().flatten()?;
        let note = RecordNote { version: Some(old.version), ..RecordNote::default() };
        Some(Self { root: old.root, state: old.state, used_s: 0, note })
    }

    /// Returns whether there is a record of a canonical path whose note can't be read, so that the patterns that the
    /// last share excluded are unknown.
    ///
    /// # Errors
    /// The store's.
    pub fn is_note_lost(store: &Store, key: &[u8]) -> Result<bool, StoreError> {
        let is_unreadable = |known: CatalogRecord| {
            !known.note.is_empty() && RecordNote::read(&known.note).is_none()
        };
        Ok(store.is_record_damaged(key)? || store.known_at(key)?.is_some_and(is_unreadable))
    }

    /// Decodes a record from the store.
    pub fn of(known: &CatalogRecord) -> Self {
        let CatalogRecord { root, state, used_s, .. } = *known;
        Self { root, state, used_s, note: RecordNote::decode(&known.note) }
    }
}

/// Returns whether a record is of a fetched growing file, which may be longer by now.
pub fn is_growing(store: &Store, known: &CatalogRecord) -> bool {
    if known.directory || known.origin != RecordOrigin::Fetched {
        return false;
    }
    let ticket =
        RecordNote::decode(&known.note).ticket.and_then(|text| text.parse::<Ticket>().ok());
    let signed = ticket.and_then(|ticket| {
        signed::find(store, &known.root, &ticket.publisher, ticket.name.as_ref())
    });
    signed.is_some_and(|signed| signed.manifest.growing.is_some())
}

/// Returns the size of a file with this root, if the store has a record of one.
pub fn known_size(store: &Store, root: &Hash) -> Option<u64> {
    let mut known = store.known().ok()?.filter_map(Result::ok);
    known.find(|known| known.root == *root && !known.directory).map(|known| known.state.size)
}

/// Records that `key` is shared with this manifest, under the version and with the patterns of `note`. Its port, ticket
/// and private publication are those of the record `before`.
///
/// # Errors
/// The store's.
pub fn shared(
    store: &Store,
    key: &[u8],
    manifest: &Manifest,
    state: FileState,
    note: RecordNote,
    before: Option<&PathRecord>,
    now: UnixTime,
) -> Result<(), StoreError> {
    // A ticket for the same content stays: it may name other peers that have it.
    let same = before.filter(|r| r.root == manifest.root);
    let ticket = same.and_then(|r| r.note.ticket.clone());
    let port = before.and_then(|r| r.note.port);
    let sealed = before.and_then(|r| r.note.sealed);
    let note = RecordNote { port, sealed, ticket, ..note };
    keep(store, &known(key, manifest, state, RecordOrigin::Shared, &note, now))
}

/// Records root and version of the private publication of a path that is already recorded.
///
/// # Errors
/// The store's.
pub fn sealed(store: &Store, key: &[u8], sealed: (Hash, u64)) -> Result<(), StoreError> {
    let Some(mut known) = store.known_at(key)? else { return Ok(()) };
    let mut note = RecordNote::decode(&known.note);
    if note.sealed == Some(sealed) {
        return Ok(());
    }
    note.sealed = Some(sealed);
    known.note = note.encode();
    store.remember(&known)
}

/// Returns the UDP port at which `path` was shared last.
pub fn port(store: &Store, path: &Path) -> Option<u16> {
    let key = os_bytes(canonical_in(&**store.medium(), path).ok()?.as_os_str());
    PathRecord::recall(store, &key)?.note.port
}

/// Adds our own ticket to the record of a shared path, unless it has one, and the present port. Failures are ignored:
/// the record is a convenience. `None`: the ticket is for something else.
pub fn keep_ticket(store: &Store, path: &Path, ticket: Option<&Ticket>, port: Option<u16>) {
    let Ok(path) = canonical_in(&**store.medium(), path) else { return };
    let key = os_bytes(path.as_os_str());
    if let Ok(Some(mut known)) = store.known_at(&key) {
        let mut note = RecordNote::decode(&known.note);
        note.ticket = note.ticket.take().or_else(|| ticket.map(ToString::to_string));
        note.port = port.or(note.port);
        let note = note.encode();
        if known.note != note {
            known.note = note;
            let _ = store.remember(&known);
        }
    }
}

/// Records how the files at a canonical path look now that they have this root: first the path itself, then each listed
/// entry of a directory.
///
/// # Errors
/// The store's.
pub fn record_looks(
    store: &Store,
    path: &Path,
    root: &Hash,
    all: impl Iterator<Item = DiskAttributes>,
) -> Result<(), StoreError> {
    let mut looks = DiskAttributesWriter::new(store)?;
    for seen in all {
        looks.push(&seen)?;
    }
    looks.keep(&os_bytes(path.as_os_str()), root)
}

/// Records how the files fetched to `place` look on disk; entries that were not fetched have an empty record. If all
/// are there and the disk stores other modes or times than listed, returns the root of the directory as it looks there.
fn record_fetched_looks(
    store: &Store,
    place: &Path,
    top: &Meta,
    root: &Hash,
) -> Result<Option<Hash>, StoreError> {
    let listing = store.object(root, ObjectPart::Listing)?;
    let Some(listing) = listing.filter(|_| top.kind == FileKind::Directory) else {
        return record_looks(store, place, root, std::iter::once(DiskAttributes::of(top)))
            .map(|()| None);
    };
    let size = listing.metadata()?.size;
    let listed = ListedFiles::open(listing, size, root, SegmentSize::DEFAULT);
    let Ok(listed) = listed else { return Ok(None) };
    let (mut hasher, mut is_as_listed, mut is_whole) = (Hasher::new(), true, true);
    let mut writer = ListingWriter::new(|piece: &[u8]| {
        hasher.update(piece);
    });
    let entries = listed.entries().map_while(Result::ok);
    let looks = entries.map(|Listed { mut entry, .. }| {
        let there = store.medium().metadata(&place.join(os_path(&entry.path)));
        if let Ok(there) = &there
            && matches!(entry.kind, EntryKind::File { .. } | EntryKind::Directory)
        {
            let FileTime { secs, nanos } = there.mtime;
            let has = (there.mode & 0o777, secs, nanos);
            is_as_listed &= has == (entry.mode, entry.mtime_s, entry.mtime_ns);
            (entry.mode, entry.mtime_s, entry.mtime_ns) = has;
        }
        is_whole &= there.is_ok() && writer.push(&entry).is_ok();
        there.map(|meta| DiskAttributes::of(&meta)).unwrap_or_default()
    });
    record_looks(store, place, root, std::iter::once(DiskAttributes::of(top)).chain(looks))?;
    writer.finish();
    Ok((is_whole && !is_as_listed).then(|| hasher.finalize()))
}

/// The signed manifest of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchedManifest<'a> {
    /// Its content.
    pub manifest: &'a Manifest,
    /// The packet that it was received in.
    pub packet: &'a [u8],
}

/// Records a complete fetch to `path`, and stores its signed manifest. The fetch is done by then, so errors
/// become warnings. If the disk stores other modes or times than published, returns the root of the directory as it
/// looks there.
pub fn keep_fetched(
    store: &Store,
    options: &SaveOptions,
    ticket: &Ticket,
    fetched: FetchedManifest<'_>,
    path: Option<&Path>,
    now: UnixTime,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Option<Hash> {
    let path = path.filter(|_| options.range.is_none())?;
    let FetchedManifest { manifest, packet } = fetched;
    let remember = || -> Result<Option<Hash>, StoreError> {
        let at = |e| StoreError::from_io("remember", path, None, e);
        let place = canonical_in(&**store.medium(), path)?;
        let key = os_bytes(place.as_os_str());
        let meta = store.medium().metadata(&place).map_err(at)?;
        let state = FileState::of(&meta);
        let there = record_fetched_looks(store, &place, &meta, &manifest.root)?;
        let note = RecordNote {
            ticket: Some(ticket.to_string()),
            excluded: options.exclude.clone(),
            ..RecordNote::default()
        };
        signed::keep(store, &manifest.root, packet)?;
        keep(store, &known(&key, manifest, state, RecordOrigin::Fetched, &note, now))?;
        Ok(there)
    };
    let what = match remember() {
        Ok(None) => return None,
        Ok(Some(there)) => {
            let what = format!(
                "{}: this disk cannot store the published modes or times, so `xylem sum --tree` prints another root than the \
                 published {}; the store knows it by the published one",
                path.display(),
                manifest.root
            );
            on_event(LibraryEvent::Warning { what });
            return Some(there);
        }
        Err(e) => format!("the fetch is complete, but the store has no record of it: {e}"),
    };
    on_event(LibraryEvent::Warning { what });
    None
}

fn known(
    key: &[u8],
    manifest: &Manifest,
    state: FileState,
    origin: RecordOrigin,
    note: &RecordNote,
    now: UnixTime,
) -> CatalogRecord {
    CatalogRecord {
        path: key.to_vec(),
        root: manifest.root,
        directory: manifest.kind == PublicationKind::Directory,
        origin,
        size: manifest.total_size,
        state,
        pinned: false,
        used_s: now.seconds(),
        note: note.encode(),
    }
}

/// Writes a record unless the stored one is equal.
fn keep(store: &Store, known: &CatalogRecord) -> Result<(), StoreError> {
    let there = store.known_at(&known.path).ok().flatten();
    let same = there.is_some_and(|there| {
        let fresh = known.used_s.abs_diff(there.used_s) < USED_EVERY;
        let (used_s, pinned) = (there.used_s, there.pinned);
        fresh && CatalogRecord { used_s, pinned, ..known.clone() } == there
    });
    if same { Ok(()) } else { store.remember(known) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_round_trip_and_damaged_ones_are_empty() {
        let whole = RecordNote {
            version: Some(7),
            port: Some(7348),
            sealed: Some((xylem_hash::hash(b"sealed"), 8)),
            ticket: Some("xylem:abc".to_owned()),
            excluded: vec!["*.tmp".to_owned(), "é".to_owned()],
        };
        for note in
            [whole.clone(), RecordNote::default(), RecordNote { ticket: None, ..whole.clone() }]
        {
            assert_eq!(RecordNote::decode(&note.encode()), note);
        }
        let bytes = whole.encode();
        for len in 0..bytes.len() {
            let got = RecordNote::decode(&bytes[..len]);
            assert!(got == RecordNote::default() || got.version == Some(7), "{len}: {got:?}");
        }
        assert_eq!(RecordNote::decode(&[&[4], &bytes[1..]].concat()), RecordNote::default());
        // The older layouts: before private publications, and before ports.
        let before = [&[2], &bytes[1..11], &bytes[51..]].concat();
        let whole = RecordNote { sealed: None, ..whole };
        assert_eq!(RecordNote::decode(&before), whole);
        let before = [&[1], &bytes[1..9], &bytes[51..]].concat();
        assert_eq!(RecordNote::decode(&before), RecordNote { port: None, ..whole });
        let endless = [&bytes[..51], &[255; 4], b"x"].concat();
        assert_eq!(RecordNote::decode(&endless), RecordNote::default());
    }
}
