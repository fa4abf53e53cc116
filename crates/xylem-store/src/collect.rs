//! [`Store::collect`]: removes what nothing needs.
//!
//! An object is needed if a record, a pin or a fetch in progress names it. Outside of the store's directory, only data
//! of interrupted fetches are removed, and only together with what proves them (unfinished.rs). Names are removed one
//! at a time, and the run may stop anywhere: the next one removes the rest. Other processes may work meanwhile. Two
//! rules protect what is about to be needed: locked files are in use; and a part that nothing names must have a minimum
//! age, since a part gets its name a moment before the record that needs it.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use xylem_hash::Hash;

use crate::catalog::record_name;
use crate::error::StoreError;
use crate::file::FileRef;
use crate::known::CatalogRecord;
use crate::layout::{KNOWN, NEW, OBJECTS, PARTIAL};
use crate::medium::{FileKind, Meta, OpenHow};
use crate::objects::{ObjectInfo, Objects, part_of_name, partial_of_name};
use crate::old_shares::old_share_name;
use crate::part::require_same;
use crate::parts::{ObjectPart, object_name};
use crate::store::Store;
use crate::sweep::{os_path, remove_tree};
use crate::unfinished::{UnfinishedKind, UnfinishedNote, held_bytes};

/// Options of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectOptions {
    /// Current time, seconds since 1970.
    pub now_s: u64,
    /// Age in seconds at which unneeded parts are removed. A value below the time between writing a part and its record
    /// endangers work in progress; an hour is ample.
    pub unneeded_s: u64,
    /// Time without use in seconds after which interrupted fetches, and records of paths that no longer exist, are
    /// removed.
    pub forgotten_s: u64,
    /// Whether to report only, and remove nothing.
    pub dry_run: bool,
}

/// Counts of what was removed, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectSummary {
    /// Finished parts.
    pub parts: u64,
    /// Parts of interrupted fetches.
    pub partials: u64,
    /// Interrupted fetches that lost their data beside the wanted file.
    pub fetches: u64,
    /// Records of paths that no longer exist.
    pub records: u64,
    /// Files that were under construction when their process died.
    pub leftovers: u64,
    /// Total bytes.
    pub bytes: u64,
    /// Unneeded parts that are not old enough yet.
    pub young: u64,
    /// Files that a running process has locked.
    pub busy: u64,
    /// Damaged records. While there are any, no finished part is removed: they may name it.
    pub damaged_records: u64,
}

impl Store {
    /// Removes what nothing needs. `on_gone` is called with each name (below the store's directory; for data of an
    /// interrupted fetch, the whole path) and its bytes.
    ///
    /// # Errors
    /// The medium's. Names removed before stay removed; the next run removes the rest.
    pub fn collect(
        &self,
        how: &CollectOptions,
        on_gone: &mut dyn FnMut(&Path, u64),
    ) -> Result<CollectSummary, StoreError> {
        // List parts first, then what names them: a part that is added in between is not in the list.
        let mut parts = Vec::new();
        self.list(&mut |info| parts.push(info))?;
        let mut run = CollectionRun {
            store: self,
            how,
            on_gone,
            needed: HashSet::new(),
            done: CollectSummary::default(),
        };
        run.records()?;
        run.old_records()?;
        run.needed.extend(self.pins()?);
        run.partials()?;
        run.leftovers()?;
        if run.done.damaged_records == 0 {
            run.parts(&parts)?;
        }
        Ok(run.done)
    }
}

struct CollectionRun<'a> {
    store: &'a Store,
    how: &'a CollectOptions,
    on_gone: &'a mut dyn FnMut(&Path, u64),
    /// Roots that are needed.
    needed: HashSet<Hash>,
    done: CollectSummary,
}

/// The data of an interrupted fetch, and their note.
struct Abandoned {
    name: PathBuf,
    root: Hash,
    path: PathBuf,
    found: Meta,
    /// The lock of a part file, so that no fetch resumes it meanwhile.
    #[expect(dead_code, reason = "held until it is gone")]
    held: Option<FileRef>,
}

/// The result of locking a file.
enum LockOutcome {
    /// No other process has it. The lock lasts as long as the file is open.
    Free(FileRef),
    Busy,
    Gone,
}

impl CollectionRun<'_> {
    fn records(&mut self) -> Result<(), StoreError> {
        let mut all = self.store.known()?;
        for known in all.by_ref() {
            let known = known?;
            let old = self.how.now_s.saturating_sub(known.used_s) >= self.how.forgotten_s;
            if known.pinned || !self.is_gone(&known) {
                self.needed.insert(known.root);
            } else if old {
                let name = record_name(&known.path);
                let size = known.encode().map_or(0, |bytes| bytes.len() as u64);
                self.remove(&name, size)?;
                if !self.how.dry_run {
                    self.store.forget_seen(&known.path)?;
                }
                self.done.records += 1;
            } else {
                self.needed.insert(known.root);
                self.done.young += 1;
            }
        }
        self.done.damaged_records = all.damaged();
        Ok(())
    }

    /// Whether nothing exists at the path. Any error but a plain "not found" counts as something.
    fn is_gone(&self, known: &CatalogRecord) -> bool {
        let Some(path) = os_path(&known.path) else { return false };
        let found = self.store.medium().metadata(path);
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        found.is_err_and(|e| missing.contains(&e.kind()))
    }

    /// Records of the first format do not contain their path, so their age decides.
    fn old_records(&mut self) -> Result<(), StoreError> {
        for (key, share) in self.store.old_shares()? {
            let name = old_share_name(&key);
            match self.age(&name)? {
                Some((age, size)) if age >= self.how.forgotten_s => {
                    self.remove(&name, size)?;
                    self.done.records += 1;
                }
                _ => drop(self.needed.insert(share.root)),
            }
        }
        Ok(())
    }

    fn partials(&mut self) -> Result<(), StoreError> {
        let mut old = Vec::new();
        for item in self.store.names_in(PARTIAL)? {
            let name = Path::new(PARTIAL).join(&item.name);
            let part = partial_of_name(Path::new(&item.name));
            let (Some((root, _)), FileKind::File) = (part, item.kind) else { continue };
            match self.lock(&name)? {
                LockOutcome::Gone => {}
                LockOutcome::Busy => {
                    self.done.busy += 1;
                    self.needed.insert(root);
                }
                LockOutcome::Free(file) => match self.age(&name)? {
                    Some((age, _)) if age < self.how.forgotten_s => {
                        self.done.young += 1;
                        self.needed.insert(root);
                    }
                    Some(_) => old.push((root, name)),
                    None => drop(file),
                },
            }
        }
        let abandoned = self.old_interrupted_fetches()?;
        for one in abandoned {
            self.abandon(&one)?;
        }
        // A fetch holds one part's lock, and needs the others, too.
        for (root, name) in old {
            if self.needed.contains(&root) {
                continue;
            }
            // Check again under the lock, which keeps a fetch from resuming it meanwhile.
            let LockOutcome::Free(held) = self.lock(&name)? else { continue };
            let size = held.metadata()?.size;
            self.remove(&name, size)?;
            self.done.partials += 1;
        }
        Ok(())
    }

    /// Data of interrupted fetches that are old enough. Data in use or too young keep what proves them.
    fn old_interrupted_fetches(&mut self) -> Result<Vec<Abandoned>, StoreError> {
        let mut old = Vec::new();
        for (name, note) in self.store.notes()? {
            let Some(UnfinishedNote { root, kind, path }) = note else {
                self.remove_note(&name)?;
                continue;
            };
            let found = match self.store.part_at(&path, kind) {
                Ok(Some(found)) => found,
                // It has its final name, or its user has removed it.
                Ok(None) => {
                    self.remove_note(&name)?;
                    continue;
                }
                // Unknown.
                Err(_) => {
                    self.needed.insert(root);
                    continue;
                }
            };
            let held = match kind {
                UnfinishedKind::File => match self.lock_part(&path)? {
                    LockOutcome::Free(file) => Some(file),
                    LockOutcome::Gone => continue,
                    // If what proves it is in use or young as well, it was counted already.
                    LockOutcome::Busy => {
                        self.done.busy += u64::from(self.needed.insert(root));
                        continue;
                    }
                },
                // Its lock is a file in the store, which was checked already.
                UnfinishedKind::Directory | UnfinishedKind::Cache => None,
            };
            let noted = self.store.metadata_of(&name)?.map_or(0, |meta| meta.mtime.secs);
            let written = u64::try_from(noted.max(found.mtime.secs)).unwrap_or(0);
            if self.how.now_s.saturating_sub(written) < self.how.forgotten_s {
                self.done.young += u64::from(self.needed.insert(root));
                continue;
            }
            old.push(Abandoned { name, root, path, found, held });
        }
        Ok(old)
    }

    /// Locks the part file, unless a fetch has it.
    fn lock_part(&self, path: &Path) -> Result<LockOutcome, StoreError> {
        let file = match FileRef::open(&**self.store.medium(), path, OpenHow::ReadWrite) {
            Err(StoreError::NotFound { .. }) => return Ok(LockOutcome::Gone),
            file => file?,
        };
        match file.lock() {
            Ok(()) => Ok(LockOutcome::Free(file)),
            Err(StoreError::Busy { .. }) => Ok(LockOutcome::Busy),
            Err(e) => Err(e),
        }
    }

    /// Removes the data of an interrupted fetch, then their note. The caller removes the nodes that prove them next.
    fn abandon(&mut self, one: &Abandoned) -> Result<(), StoreError> {
        if self.needed.contains(&one.root) {
            return Ok(());
        }
        let medium = self.store.medium().clone();
        let bytes = held_bytes(&*medium, &one.path, &one.found, 0);
        if !self.how.dry_run {
            require_same(&*medium, &one.path, &one.found)?;
            remove_tree(&*medium, &one.path)?;
            self.store.remove_named(&one.name)?;
        }
        self.done.fetches += 1;
        self.done.bytes += bytes;
        (self.on_gone)(&one.path, bytes);
        Ok(())
    }

    /// Removes a note that leads to nothing, without reporting it.
    fn remove_note(&self, name: &Path) -> Result<(), StoreError> {
        if self.how.dry_run { Ok(()) } else { self.store.remove_named(name) }
    }

    fn leftovers(&mut self) -> Result<(), StoreError> {
        for item in self.store.names_in(NEW)? {
            let name = Path::new(NEW).join(&item.name);
            if item.kind != FileKind::File {
                continue;
            }
            match self.lock(&name)? {
                LockOutcome::Gone => {}
                LockOutcome::Busy => self.done.busy += 1,
                LockOutcome::Free(held) => {
                    let size = held.metadata()?.size;
                    self.remove(&name, size)?;
                    self.done.leftovers += 1;
                }
            }
        }
        Ok(())
    }

    fn parts(&mut self, listed: &[ObjectInfo]) -> Result<(), StoreError> {
        for info in listed {
            if self.needed.contains(&info.root) {
                continue;
            }
            let written = u64::try_from(info.written_s).unwrap_or(0);
            let young = self.how.now_s.saturating_sub(written) < self.how.unneeded_s;
            // Another process may have written it anew since it was listed.
            if young || self.store.info(&info.root, info.part)? != Some(*info) {
                self.done.young += 1;
                continue;
            }
            self.remove(&object_name(&info.root, info.part), info.size)?;
            self.done.parts += 1;
        }
        Ok(())
    }

    fn remove(&mut self, name: &Path, size: u64) -> Result<(), StoreError> {
        if !self.how.dry_run {
            self.store.remove_named(name)?;
        }
        self.done.bytes += size;
        (self.on_gone)(name, size);
        Ok(())
    }

    /// Seconds since a file was written, and its size in bytes.
    fn age(&self, name: &Path) -> Result<Option<(u64, u64)>, StoreError> {
        Ok(self.store.metadata_of(name)?.map(|meta| {
            let written = u64::try_from(meta.mtime.secs).unwrap_or(0);
            (self.how.now_s.saturating_sub(written), meta.size)
        }))
    }

    fn lock(&self, name: &Path) -> Result<LockOutcome, StoreError> {
        let Some(file) = self.store.open_named(name, OpenHow::ReadWrite)? else {
            return Ok(LockOutcome::Gone);
        };
        match file.lock() {
            Ok(()) => {}
            Err(StoreError::Busy { .. }) => return Ok(LockOutcome::Busy),
            Err(e) => return Err(e),
        }
        // Its owner may have renamed it before we had the lock.
        let held = file.metadata()?;
        Ok(match self.store.metadata_of(name)? {
            Some(named) if (named.ino, named.dev) == (held.ino, held.dev) => {
                LockOutcome::Free(file)
            }
            Some(_) => LockOutcome::Busy,
            None => LockOutcome::Gone,
        })
    }
}

/// Files in a store's directories that do not belong to it: names in each that the layout does not explain.
impl Store {
    /// Names in the store's directories that the layout does not explain, and damaged records, each with a description
    /// of the problem.
    ///
    /// # Errors
    /// The medium's.
    pub fn unexplained_names(&self) -> Result<Vec<(PathBuf, &'static str)>, StoreError> {
        let mut odd = Vec::new();
        type PartOf = fn(&Path) -> Option<(Hash, ObjectPart)>;
        let dirs: [(_, PartOf); 2] = [(OBJECTS, part_of_name), (PARTIAL, partial_of_name)];
        for (dir, part_of) in dirs {
            for item in self.names_in(dir)? {
                if part_of(Path::new(&item.name)).is_none() || item.kind != FileKind::File {
                    odd.push((self.full(&Path::new(dir).join(item.name)), "not part of a store"));
                }
            }
        }
        for item in self.names_in(KNOWN)? {
            let name = Path::new(KNOWN).join(item.name);
            if let Some(Err(e)) = self.read_record(&name)? {
                odd.push((self.full(&name), e.what()));
            }
        }
        Ok(odd)
    }

    /// Removes a damaged record that [`Store::unexplained_names`] named. Returns whether it was one.
    ///
    /// # Errors
    /// The medium's.
    pub fn remove_damaged_record(&self, path: &Path) -> Result<bool, StoreError> {
        let Some(name) = path.file_name() else { return Ok(false) };
        let name = Path::new(KNOWN).join(name);
        if self.full(&name) != path || !matches!(self.read_record(&name)?, Some(Err(_))) {
            return Ok(false);
        }
        self.remove_named(&name)?;
        Ok(true)
    }

    /// Names and bytes of files left by interrupted fetches and dead processes, without those in use.
    ///
    /// # Errors
    /// The medium's.
    pub fn leftovers(&self) -> Result<Vec<(PathBuf, u64)>, StoreError> {
        let how = CollectOptions { now_s: u64::MAX, unneeded_s: 0, forgotten_s: 0, dry_run: true };
        let mut found = Vec::new();
        let mut on_gone = |name: &Path, size| found.push((self.full(name), size));
        let mut run = CollectionRun {
            store: self,
            how: &how,
            on_gone: &mut on_gone,
            needed: HashSet::new(),
            done: CollectSummary::default(),
        };
        run.partials()?;
        run.leftovers()?;
        Ok(found)
    }
}
