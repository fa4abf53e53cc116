//! Looking after a store: what is known ([`list_store`]), what of it is damaged ([`check_store`]), what
//! nothing needs any more ([`collect_store`]), and what is to stay ([`pin`]).
//!
//! Nothing here touches a user's file, and nothing but `collect_store` and a repair removes anything.

mod check;

use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_hash::Hash;
use xylem_store::{Collecting, FileState, Known, Objects, Origin, Part, Store, StoreError};

use crate::Error;
use crate::clock::seconds_now;
use crate::failure;
use crate::publish::disk;
use crate::record::Note;
use crate::walk::{os_bytes, os_path};

pub use check::{CheckOptions, CheckSummary, Finding, FindingKind, check_store};
pub use xylem_store::Collected;

/// Parts that nothing needs are left alone this long: others may be about to need them.
const UNNEEDED: Duration = Duration::from_secs(3600);
/// Interrupted fetches, and what is known of files that are gone, are kept this long.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 3600);

/// How a known file or directory looks now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As it was when it was shared or fetched (of a directory: itself, not what is in it).
    Unchanged,
    /// Something else stands there, or it was edited.
    Changed,
    /// Nothing is there.
    Gone,
}

/// One thing that a store knows of.
#[derive(Clone, Debug)]
pub struct StoreEntry {
    /// Where it lies.
    pub path: PathBuf,
    /// Root, hexadecimal.
    pub root: String,
    /// Whether it is a directory.
    pub directory: bool,
    /// Whether it was fetched, not shared.
    pub fetched: bool,
    /// Bytes of content.
    pub bytes: u64,
    /// How it looks now.
    pub standing: Standing,
    /// Whether it is pinned.
    pub pinned: bool,
    /// When it was last shared or fetched, seconds since 1970.
    pub used_s: u64,
    /// A ticket for it.
    pub ticket: Option<String>,
}

/// Tells what is known, in the order of paths; returns how many records are damaged.
///
/// # Errors
/// [`crate::Blame::Usage`] if there is no store, [`crate::Blame::Local`] if it can't be read.
pub fn list_store(dir: &Path, each: &mut dyn FnMut(StoreEntry)) -> Result<u64, Error> {
    let store = open(dir)?;
    let mut all = store.known().map_err(|e| failure::store(&e))?;
    let mut entries = Vec::new();
    for known in all.by_ref() {
        let known = known.map_err(|e| failure::store(&e))?;
        entries.push(StoreEntry {
            path: os_path(&known.path),
            root: known.root.to_string(),
            directory: known.directory,
            fetched: known.origin == Origin::Fetched,
            bytes: known.size,
            standing: standing(&store, &known),
            pinned: known.pinned,
            used_s: known.used_s,
            ticket: Note::decode(&known.note).ticket,
        });
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries.into_iter().for_each(each);
    Ok(all.damaged())
}

/// Removes what nothing needs. `older_than`: only what was not written or used for that long; by
/// default an hour for parts, thirty days for interrupted fetches and for what is known of files
/// that are gone. `on_gone` hears each name below the store's directory and its bytes.
///
/// # Errors
/// As [`list_store`].
pub fn collect_store(
    dir: &Path,
    older_than: Option<Duration>,
    dry_run: bool,
    on_gone: &mut dyn FnMut(&Path, u64),
) -> Result<Collected, Error> {
    let store = if dry_run { open(dir)? } else { open_writable(dir)? };
    let how = Collecting {
        now_s: seconds_now(),
        unneeded_s: older_than.unwrap_or(UNNEEDED).as_secs(),
        forgotten_s: older_than.unwrap_or(FORGOTTEN).as_secs(),
        dry_run,
    };
    store.collect(&how, on_gone).map_err(|e| failure::store(&e))
}

/// What a pin is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// Something that is known, by its canonical path.
    Path(PathBuf),
    /// A root, hexadecimal, and whether anything of it is in the store.
    Root(String, bool),
}

/// Pins (or, with `keep` false, unpins) a path that the store knows, or a root of 64 hexadecimal
/// digits. What is pinned is never collected.
///
/// # Errors
/// [`crate::Blame::Usage`] for a path that is not known, and to unpin what is not pinned.
pub fn pin(dir: &Path, what: &Path, keep: bool) -> Result<Pinned, Error> {
    let store = open_writable(dir)?;
    let stored = |e: StoreError| failure::store(&e);
    let absolute = what.canonicalize().or_else(|_| std::path::absolute(what));
    let key = os_bytes(absolute.unwrap_or_else(|_| what.to_path_buf()).as_os_str());
    let root = what.to_str().and_then(|text| Hash::from_hex(text).ok());
    let known = store.known_at(&key).map_err(stored)?;
    let not_pinned = || failure::usage(format!("{} is not pinned", what.display()));
    match (known, root) {
        (None, Some(root)) => {
            if keep {
                store.pin(&root).map_err(stored)?;
            } else if !store.unpin(&root).map_err(stored)? {
                return Err(not_pinned());
            }
            let mut here = false;
            for part in Part::ALL {
                here |= store.info(&root, part).map_err(stored)?.is_some();
            }
            Ok(Pinned::Root(root.to_string(), here))
        }
        (Some(_), _) if keep => {
            store.pin_path(&key).map_err(stored)?;
            Ok(Pinned::Path(os_path(&key)))
        }
        (known, _) => {
            if !keep && store.unpin_path(&key).map_err(stored)? {
                return Ok(Pinned::Path(os_path(&key)));
            }
            let here = what.display();
            Err(match known {
                Some(known) if known.pinned => {
                    failure::usage(format!("{here} is pinned by its root; unpin {}", known.root))
                }
                Some(_) => not_pinned(),
                None => failure::usage(format!(
                    "the store does not know {here}; `xylem store list` shows what it knows"
                )),
            })
        }
    }
}

/// How what is known looks now. What can't be looked at counts as changed.
fn standing(store: &Store, known: &Known) -> Standing {
    match store.medium().metadata(&os_path(&known.path)) {
        Ok(meta) if known.state.difference(&FileState::of(&meta)).is_none() => Standing::Unchanged,
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Standing::Gone
        }
        _ => Standing::Changed,
    }
}

fn open(dir: &Path) -> Result<Store, Error> {
    Store::open_existing(disk(), dir).map_err(|e| none(dir, &e))
}

/// A store that is there; an older format is brought up to date.
fn open_writable(dir: &Path) -> Result<Store, Error> {
    open(dir)?;
    Store::open(disk(), dir).map_err(|e| failure::store(&e))
}

fn none(dir: &Path, e: &StoreError) -> Error {
    match e {
        StoreError::NotFound { .. } => failure::usage(format!(
            "{}: no store is there yet; share or get something, or name another with --store",
            dir.display()
        )),
        e => failure::store(e),
    }
}

#[cfg(test)]
mod tests;
