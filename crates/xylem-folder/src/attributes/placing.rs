//! Extended attributes of a [`SyncFolder`]: what a scan finds, and how those of other members get to the disk.
//!
//! A failure stops nothing else: the entry stays [unapplied](IndexItem::unapplied), the reason is an
//! [obstacle](SyncFolder::obstacles), and scans try again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::Path;

use xylem_base::os_path;
use xylem_store::Medium;

use super::{ExtendedAttributes, SeenAttributes, on_disk};
use crate::apply::Applied;
use crate::index::{IndexItem, ItemKind, MAX_INDEX};
use crate::local::SyncFolder;
use crate::obstacles::ObstacleKind;
use crate::place::{Parents, within};

/// Most bytes of the attributes of all paths that a member records: its index has room for the rest.
const MAX_FOLDER_ATTRIBUTES: u64 = MAX_INDEX / 4;
/// Path of the obstacle that concerns no file more than others, such as a disk that keeps no attributes.
const WHOLE: &[u8] = b".";

/// Most paths with an obstacle that a scan names.
const MAX_FAILED: usize = 10_000;

/// What a scan finds out about attributes besides those of the entries.
#[derive(Debug, Default)]
pub(crate) struct AttributeScan {
    /// Paths that have an obstacle, with the reason.
    failed: Vec<(Vec<u8>, String)>,
    /// Paths with an obstacle that are not tried again yet.
    waiting: BTreeSet<Vec<u8>>,
    /// Paths that got their attributes.
    placed: Vec<Vec<u8>>,
    /// Why none are read or set any more in this scan.
    whole: Option<String>,
    /// Bytes of all attributes that were read.
    bytes: u64,
}

impl AttributeScan {
    /// Counts attributes that were read; `None` if all have more bytes than a folder may have.
    pub(crate) fn count(&mut self, these: ExtendedAttributes) -> Option<ExtendedAttributes> {
        let bytes = these.all().iter().map(|(name, value)| name.len().saturating_add(value.len()));
        self.bytes = bytes.fold(self.bytes, |all, bytes| all.saturating_add(bytes as u64));
        if self.bytes <= MAX_FOLDER_ATTRIBUTES {
            return Some(these);
        }
        let mib = MAX_FOLDER_ATTRIBUTES >> 20;
        let why = format!(
            "the extended attributes of all files have more than {mib} MiB, and some do not travel"
        );
        self.whole = Some(why);
        None
    }

    /// Records why the attributes of a path of the folder at `root` cannot be read or set.
    pub(crate) fn fail(&mut self, medium: &dyn Medium, root: &Path, path: &[u8], e: &io::Error) {
        match e.kind() {
            // The next scan finds out.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
            io::ErrorKind::Unsupported if is_on_disk_of(medium, root, path) => {
                self.whole = Some(e.to_string());
            }
            _ if self.failed.len() >= MAX_FAILED => {}
            _ => self.failed.push((path.to_vec(), e.to_string())),
        }
    }
}

/// Returns whether a path lies on the folder's own file system: another one may be mounted at one of its directories.
fn is_on_disk_of(medium: &dyn Medium, root: &Path, path: &[u8]) -> bool {
    let disk = |at: &Path| medium.metadata(at).ok().map(|meta| meta.dev);
    disk(root) == disk(&root.join(os_path(path)))
}

/// Result of putting attributes in place.
enum PlacedAttributes {
    Done,
    /// The user changed them meanwhile: these are there.
    Changed(ExtendedAttributes),
}

impl SyncFolder {
    /// Sets whether extended attributes are read from this disk, sent, and put in place.
    pub fn exchange_attributes(&mut self, chosen: bool) {
        self.attributes_chosen = chosen;
    }

    /// Returns when the first attributes that could not be set are to be tried again, in milliseconds since 1970.
    pub fn attributes_due_ms(&self) -> Option<u64> {
        let failed = self.obstacles.iter().filter(|(_, one)| one.kind == ObstacleKind::Attributes);
        failed.map(|(_, one)| one.again_ms).min()
    }

    /// Reads the attributes of a path that a scan found.
    pub(crate) fn see_attributes(
        &self,
        path: &[u8],
        kind: &ItemKind,
        scan: &mut AttributeScan,
    ) -> SeenAttributes {
        if !self.attributes_chosen {
            return SeenAttributes::NotLooked;
        }
        if kind.description().is_none() || scan.whole.is_some() {
            return SeenAttributes::Unreadable;
        }
        let read = on_disk::read(&self.root.join(os_path(path)));
        // Most have none, and need no second look at the way to them.
        let read = match read {
            Ok(these) if !these.all().is_empty() => {
                within(&*self.medium, &self.root, path, Parents::Exist).map(|_| these)
            }
            read => read,
        };
        match read {
            Ok(these) => {
                scan.count(these).map_or(SeenAttributes::Unreadable, SeenAttributes::These)
            }
            Err(e) => {
                scan.fail(&*self.medium, &self.root, path, &e);
                SeenAttributes::Unreadable
            }
        }
    }

    /// Tries again to set the attributes of an entry that a scan found without them.
    pub(crate) fn retry_attributes(
        &self,
        path: &[u8],
        item: &mut IndexItem,
        scan: &mut AttributeScan,
        now_ms: u64,
    ) {
        let Some(wanted) = item.attributes.clone().filter(|_| item.unapplied) else { return };
        if !self.attributes_chosen || scan.whole.is_some() {
            return;
        }
        for waits in [WHOLE, path] {
            if self.obstacles.attributes_wait(waits, now_ms) {
                scan.waiting.insert(waits.to_vec());
                return;
            }
        }
        match self.place_attributes(path, &wanted, None) {
            Ok(_) => {
                item.unapplied = false;
                scan.placed.push(path.to_vec());
            }
            Err(e) => scan.fail(&*self.medium, &self.root, path, &e),
        }
    }

    /// Notes and clears the obstacles after a scan.
    pub(crate) fn end_attribute_scan(&mut self, scan: AttributeScan, now_ms: u64) {
        let AttributeScan { failed, mut waiting, placed, whole, .. } = scan;
        placed.iter().for_each(|path| self.looked.touch(path));
        let whole = whole.map(|why| (WHOLE.to_vec(), why));
        for (path, why) in failed.into_iter().chain(whole) {
            // An obstacle of the content is more important.
            let other =
                self.obstacles.get(&path).filter(|one| one.kind != ObstacleKind::Attributes);
            if other.is_none() && !self.obstacles.attributes_wait(&path, now_ms) {
                self.obstacles.note(&path, ObstacleKind::Attributes, why, now_ms);
            }
            waiting.insert(path);
        }
        self.obstacles.retain(&[ObstacleKind::Attributes], |path| waiting.contains(path));
    }

    /// Gives the changed entries their attributes on the disk. `expected` has what the disk had before, where that is
    /// known: anything else is a change by the user, and stays. `alone` are entries of which nothing else changed.
    pub(crate) fn apply_attributes(
        &mut self,
        expected: &BTreeMap<Vec<u8>, ExtendedAttributes>,
        alone: &HashSet<Vec<u8>>,
        now_ms: u64,
        applied: &mut Applied,
    ) {
        if !self.attributes_chosen {
            return;
        }
        let unapplied = self.changes.iter().filter(|(_, item)| item.unapplied && !item.absent);
        let unapplied: Vec<(Vec<u8>, IndexItem)> =
            unapplied.map(|(path, item)| (path.clone(), item.clone())).collect();
        for (path, mut item) in unapplied {
            // Other attributes than before are tried at once.
            let waits = self.obstacles.attributes_wait(WHOLE, now_ms);
            let Some(wanted) = item.attributes.clone().filter(|_| !waits) else { continue };
            match self.place_attributes(&path, &wanted, expected.get(&path)) {
                Ok(PlacedAttributes::Done) => {
                    item.unapplied = false;
                    let noted = self.obstacles.get(&path);
                    if noted.is_some_and(|one| one.kind == ObstacleKind::Attributes) {
                        self.obstacles.clear(&path);
                    }
                    if alone.contains(&path) {
                        applied.count_put(&path);
                    }
                }
                Ok(PlacedAttributes::Changed(these)) => {
                    item.attributes_changed(these, self.me, now_ms);
                }
                Err(e) => {
                    let mut failed = AttributeScan::default();
                    failed.fail(&*self.medium, &self.root, &path, &e);
                    let whole = failed.whole.map(|why| (WHOLE.to_vec(), why));
                    for (path, why) in failed.failed.into_iter().chain(whole) {
                        self.obstacles.note(&path, ObstacleKind::Attributes, why, now_ms);
                    }
                }
            }
            self.changes.insert(path, item);
        }
    }

    fn place_attributes(
        &self,
        path: &[u8],
        wanted: &ExtendedAttributes,
        expected: Option<&ExtendedAttributes>,
    ) -> io::Result<PlacedAttributes> {
        self.with_unlocked_parents(&[path], || {
            let at = self.place(path, Parents::Exist)?;
            let there = on_disk::read(&at)?;
            if expected.is_some_and(|expected| there != *expected && there != *wanted) {
                return Ok(PlacedAttributes::Changed(there));
            }
            on_disk::write(&*self.medium, &at, &there, wanted)?;
            // Else the next scan would take what the disk made of them for a change by the user.
            if on_disk::read(&at)? != *wanted {
                return Err(io::Error::other(
                    "this disk keeps other extended attributes than it gets",
                ));
            }
            Ok(PlacedAttributes::Done)
        })
    }
}
