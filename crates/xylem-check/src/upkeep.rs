//! Maintenance of a store: [`list_store`] lists its records, [`check_store`] finds damage, [`collect_store`] removes
//! what is no longer needed, and [`pin`] protects from that.
//!
//! No function here touches a user's file. Only `collect_store` and a repair remove anything; the former also removes
//! the hidden data of interrupted fetches and their trees.

mod error;

mod check;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Serialize, Serializer};
use xylem_base::{UnixTime, disk, json, os_bytes, os_path};
use xylem_files::record::RecordNote;
use xylem_hash::Hash;
use xylem_object::Ticket;
use xylem_store::{
    CatalogRecord, CollectOptions, CollectSummary, FileState, ObjectPart, Objects, Store,
    StoreError, Unfinished,
};

pub use check::{CheckFinding, CheckOptions, CheckSummary, DamagedFiles, FindingKind, check_store};
pub use error::UpkeepError;
pub use xylem_store::{RecordOrigin, UnfinishedKind};

/// How long parts without a use are left alone: another process may be about to need them.
const UNNEEDED: Duration = Duration::from_secs(3600);
/// How long interrupted fetches, and records of files that are gone, are kept.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 3600);

/// Present state of a recorded file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// As it was when it was shared or fetched (of a directory: itself, not its contents).
    #[serde(rename = "ok")]
    Unchanged,
    /// Edited or replaced.
    Changed,
    /// Missing.
    Gone,
}

/// One record of a store.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "known")]
pub struct StoreEntry {
    /// Its path.
    #[serde(serialize_with = "json::path")]
    pub path: PathBuf,
    /// Root of the file or of the listing.
    #[serde(serialize_with = "json::text")]
    pub root: Hash,
    /// Whether it is a directory.
    pub directory: bool,
    /// Whether it was shared or fetched.
    #[serde(serialize_with = "origin")]
    pub origin: RecordOrigin,
    /// Bytes of content.
    pub bytes: u64,
    /// Its present state.
    #[serde(rename = "state")]
    pub standing: PathState,
    /// Whether it is pinned.
    pub pinned: bool,
    /// When it was last shared or fetched, seconds since 1970.
    pub used_s: u64,
    /// A ticket for it.
    #[serde(serialize_with = "json::some_text")]
    pub ticket: Option<Ticket>,
}

fn origin<S: Serializer>(origin: &RecordOrigin, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match origin {
        RecordOrigin::Shared => "shared",
        RecordOrigin::Fetched => "fetched",
    })
}

/// Passes each record to `each`, in the order of paths; returns the number of damaged records.
///
/// # Errors
/// There is no store, or it cannot be read.
pub fn list_store(dir: &Path, each: &mut dyn FnMut(StoreEntry)) -> Result<u64, UpkeepError> {
    let store = open(dir)?;
    let mut all = store.known()?;
    let mut entries = Vec::new();
    for known in all.by_ref() {
        let known = known?;
        entries.push(StoreEntry {
            path: os_path(&known.path),
            root: known.root,
            directory: known.directory,
            origin: known.origin,
            bytes: known.size,
            standing: standing(&store, &known),
            pinned: known.pinned,
            used_s: known.used_s,
            ticket: RecordNote::decode(&known.note).ticket.and_then(|ticket| ticket.parse().ok()),
        });
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries.into_iter().for_each(each);
    Ok(all.damaged())
}

/// Data of a fetch that is under way or was interrupted, or the cache of a mount.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "unfinished")]
pub struct UnfinishedEntry {
    /// Where the data lie.
    #[serde(serialize_with = "json::path")]
    pub path: PathBuf,
    /// Root of the fetched file or listing.
    #[serde(serialize_with = "json::text")]
    pub root: Hash,
    /// A part file, a folder, or the cache of a mount.
    #[serde(serialize_with = "unfinished_kind")]
    pub kind: UnfinishedKind,
    /// Their size, bytes.
    pub bytes: u64,
    /// When they were last written, seconds since 1970.
    pub written_s: u64,
}

/// Disk use of a store, and of its data beside the wanted files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename = "store_totals")]
pub struct StoreTotals {
    /// Bytes of all in the store's directory, `cache_bytes` included.
    pub bytes: u64,
    /// Fetches that are under way or were interrupted.
    pub unfinished: u64,
    /// Bytes of their data, outside of the store's directory.
    pub unfinished_bytes: u64,
    /// Bytes cached by mounts, inside the store's directory.
    pub cache_bytes: u64,
}

fn unfinished_kind<S: Serializer>(kind: &UnfinishedKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match kind {
        UnfinishedKind::File => "file",
        UnfinishedKind::Directory => "directory",
        UnfinishedKind::Cache => "cache",
    })
}

/// Passes each unfinished entry to `each`, in the order of paths; returns the disk use.
///
/// # Errors
/// As [`list_store`].
pub fn list_unfinished(
    dir: &Path,
    each: &mut dyn FnMut(UnfinishedEntry),
) -> Result<StoreTotals, UpkeepError> {
    let store = open(dir)?;
    let mut totals = StoreTotals { bytes: store.held_bytes(), ..StoreTotals::default() };
    for Unfinished { root, path, kind, bytes, written_s } in store.unfinished()? {
        if kind == UnfinishedKind::Cache {
            totals.cache_bytes = totals.cache_bytes.saturating_add(bytes);
        } else {
            totals.unfinished += 1;
            totals.unfinished_bytes = totals.unfinished_bytes.saturating_add(bytes);
        }
        each(UnfinishedEntry { path, root, kind, bytes, written_s });
    }
    Ok(totals)
}

/// Removes what is no longer needed at `now`. `older_than`: only what was not written or used for that long; the
/// default is an hour for parts, and thirty days for interrupted fetches and for records of files that are gone.
/// `on_gone` receives each name below the store's directory (for an interrupted fetch the whole path of its data) and
/// its bytes.
///
/// # Errors
/// As [`list_store`].
pub fn collect_store(
    dir: &Path,
    older_than: Option<Duration>,
    dry_run: bool,
    now: UnixTime,
    on_gone: &mut dyn FnMut(&Path, u64),
) -> Result<CollectSummary, UpkeepError> {
    let store = if dry_run { open(dir)? } else { open_writable(dir)? };
    let how = CollectOptions {
        now_s: now.seconds(),
        unneeded_s: older_than.unwrap_or(UNNEEDED).as_secs(),
        forgotten_s: older_than.unwrap_or(FORGOTTEN).as_secs(),
        dry_run,
    };
    Ok(store.collect(&how, on_gone)?)
}

/// A pinned or unpinned path or root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// A record, by its canonical path.
    Path(PathBuf),
    /// A root, and whether any part of it is in the store.
    Root(Hash, bool),
}

/// Pins a recorded path, or a root of 64 hexadecimal digits. Pinned content is never collected.
///
/// # Errors
/// A path without a record.
pub fn pin(dir: &Path, what: &Path) -> Result<Pinned, UpkeepError> {
    change_pin(dir, what, PinChange::Pin)
}

/// Unpins what [`pin`] has pinned.
///
/// # Errors
/// A path without a record, or one that is not pinned.
pub fn unpin(dir: &Path, what: &Path) -> Result<Pinned, UpkeepError> {
    change_pin(dir, what, PinChange::Unpin)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PinChange {
    Pin,
    Unpin,
}

fn change_pin(dir: &Path, what: &Path, change: PinChange) -> Result<Pinned, UpkeepError> {
    let keep = change == PinChange::Pin;
    let store = open_writable(dir)?;
    let absolute = what.canonicalize().or_else(|_| std::path::absolute(what));
    let key = os_bytes(absolute.unwrap_or_else(|_| what.to_path_buf()).as_os_str());
    let root = what.to_str().and_then(|text| Hash::from_hex(text).ok());
    let known = store.known_at(&key)?;
    let not_pinned = || UpkeepError::NotPinned(what.to_path_buf());
    match (known, root) {
        (None, Some(root)) => {
            if keep {
                store.pin(&root)?;
            } else if !store.unpin(&root)? {
                return Err(not_pinned());
            }
            let mut here = false;
            for part in ObjectPart::ALL {
                here |= store.info(&root, part)?.is_some();
            }
            Ok(Pinned::Root(root, here))
        }
        (Some(_), _) if keep => {
            store.pin_path(&key)?;
            Ok(Pinned::Path(os_path(&key)))
        }
        (known, _) => {
            if !keep && store.unpin_path(&key)? {
                return Ok(Pinned::Path(os_path(&key)));
            }
            let path = what.to_path_buf();
            Err(match known {
                Some(CatalogRecord { pinned: true, root, .. }) => {
                    UpkeepError::PinnedByRoot { path, root }
                }
                Some(_) => not_pinned(),
                None => UpkeepError::Unknown(path),
            })
        }
    }
}

/// Returns the present state of a recorded path. An unreadable path counts as changed.
fn standing(store: &Store, known: &CatalogRecord) -> PathState {
    match store.medium().metadata(&os_path(&known.path)) {
        Ok(meta) if known.state.difference(&FileState::of(&meta)).is_none() => PathState::Unchanged,
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            PathState::Gone
        }
        _ => PathState::Changed,
    }
}

/// Makes a store private, as opening it does; returns its former mode if other users could read it.
///
/// # Errors
/// Other users may have changed its content. A missing store is no error.
pub fn close_to_others(dir: &Path) -> Result<Option<u32>, StoreError> {
    match Store::close_to_others(&*disk(), dir) {
        Err(e @ (StoreError::Writable { .. } | StoreError::Foreign { .. })) => Err(e),
        other => Ok(other.unwrap_or(None)), // opening the store reports any other error
    }
}

fn open(dir: &Path) -> Result<Store, UpkeepError> {
    match Store::open_existing(disk(), dir) {
        Err(StoreError::NotFound { .. }) => Err(UpkeepError::NoStore(dir.to_path_buf())),
        other => Ok(other?),
    }
}

/// Opens an existing store; upgrades an older format.
fn open_writable(dir: &Path) -> Result<Store, UpkeepError> {
    open(dir)?;
    Ok(Store::open(disk(), dir)?)
}
