//! [`Store::collect`]: removes what nothing needs.
//!
//! Needed is what a record, a pin or a fetch under way names. It touches nothing outside the store's
//! directory but the data of interrupted fetches, which go together with what proves them or not at all
//! (unfinished.rs). It removes one name at a time, and may stop anywhere: what is left is collected the next
//! time. Other processes may work meanwhile. Two rules keep it from taking what is about to be
//! needed: whatever is locked is in use, and what nothing names must have been lying there for a
//! while, since a part gets its name a moment before the record that needs it.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use xylem_hash::Hash;

use crate::catalog::record_name;
use crate::error::StoreError;
use crate::file::FileRef;
use crate::known::Known;
use crate::layout::{KNOWN, NEW, OBJECTS, PARTIAL};
use crate::medium::{FileKind, Meta, OpenHow};
use crate::objects::{ObjectInfo, Objects, part_of_name, partial_of_name};
use crate::old_shares::old_share_name;
use crate::part::require_same;
use crate::parts::{Part, object_name};
use crate::store::Store;
use crate::sweep::{os_path, remove_tree};
use crate::unfinished::{Note, UnfinishedKind, held_bytes};

/// What is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collecting {
    /// The time, seconds since 1970.
    pub now_s: u64,
    /// Parts that nothing needs go when they are this old, seconds. Less than the time between
    /// writing a part and remembering it puts what others do just now at risk; an hour is ample.
    pub unneeded_s: u64,
    /// Interrupted fetches, and records of paths where nothing is any more, go after this long
    /// without use, seconds.
    pub forgotten_s: u64,
    /// Only says what would go.
    pub dry_run: bool,
}

/// What went, or would go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Finished parts.
    pub parts: u64,
    /// Parts of interrupted fetches.
    pub partials: u64,
    /// Interrupted fetches whose data, beside the wanted file, went.
    pub fetches: u64,
    /// Records of paths where nothing is any more.
    pub records: u64,
    /// Files that were under construction when their process died.
    pub leftovers: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// What nothing needs and is not old enough yet.
    pub young: u64,
    /// What a running process holds.
    pub busy: u64,
    /// Records that are damaged. While there are any, no finished part goes: they may name it.
    pub damaged_records: u64,
}

impl Store {
    /// Removes what nothing needs; `on_gone` hears each name (below the store's directory; of an interrupted
    /// fetch the whole path of its data) and its bytes.
    ///
    /// # Errors
    /// The medium's. What went before is gone, the rest goes the next time.
    pub fn collect(
        &self,
        how: &Collecting,
        on_gone: &mut dyn FnMut(&Path, u64),
    ) -> Result<Collected, StoreError> {
        // Parts first and what names them second: a part that comes in between is not in the list.
        let mut parts = Vec::new();
        self.list(&mut |info| parts.push(info))?;
        let mut run =
            Run { store: self, how, on_gone, needed: HashSet::new(), done: Collected::default() };
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

struct Run<'a> {
    store: &'a Store,
    how: &'a Collecting,
    on_gone: &'a mut dyn FnMut(&Path, u64),
    /// Roots.
    needed: HashSet<Hash>,
    done: Collected,
}

/// The data of an interrupted fetch, and the note of them.
struct Abandoned {
    name: PathBuf,
    root: Hash,
    path: PathBuf,
    found: Meta,
    /// Its lock, of a part file: no fetch takes it up meanwhile.
    #[expect(dead_code, reason = "held until it is gone")]
    held: Option<FileRef>,
}

/// What holding a lock showed.
enum Locked {
    /// Nobody else has it; the lock lasts as long as the file.
    Free(FileRef),
    Busy,
    Gone,
}

impl Run<'_> {
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

    /// Whether nothing is under the path. Anything but a plain "no" counts as something.
    fn is_gone(&self, known: &Known) -> bool {
        let Some(path) = os_path(&known.path) else { return false };
        let found = self.store.medium().metadata(path);
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        found.is_err_and(|e| missing.contains(&e.kind()))
    }

    /// Those of the first format do not say which path they are about: their age decides.
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
                Locked::Gone => {}
                Locked::Busy => {
                    self.done.busy += 1;
                    self.needed.insert(root);
                }
                Locked::Free(file) => match self.age(&name)? {
                    Some((age, _)) if age < self.how.forgotten_s => {
                        self.done.young += 1;
                        self.needed.insert(root);
                    }
                    Some(_) => old.push((root, name)),
                    None => drop(file),
                },
            }
        }
        let abandoned = self.abandoned()?;
        for one in abandoned {
            self.abandon(&one)?;
        }
        // A fetch holds one part's lock and needs the others, too.
        for (root, name) in old {
            if self.needed.contains(&root) {
                continue;
            }
            // Looked at again, under the lock that keeps a fetch from taking it up meanwhile.
            let Locked::Free(held) = self.lock(&name)? else { continue };
            let size = held.metadata()?.size;
            self.remove(&name, size)?;
            self.done.partials += 1;
        }
        Ok(())
    }

    /// Data of interrupted fetches that are old enough. What is in use or young keeps what proves it.
    fn abandoned(&mut self) -> Result<Vec<Abandoned>, StoreError> {
        let mut old = Vec::new();
        for (name, note) in self.store.notes()? {
            let Some(Note { root, kind, path }) = note else {
                self.remove_note(&name)?;
                continue;
            };
            let found = match self.store.part_at(&path, kind) {
                Ok(Some(found)) => found,
                // It has its name, or was removed by its user.
                Ok(None) => {
                    self.remove_note(&name)?;
                    continue;
                }
                // It can't be told.
                Err(_) => {
                    self.needed.insert(root);
                    continue;
                }
            };
            let held = match kind {
                UnfinishedKind::File => match self.lock_part(&path)? {
                    Locked::Free(file) => Some(file),
                    Locked::Gone => continue,
                    // What proves it was counted already, where it is in use or young as well.
                    Locked::Busy => {
                        self.done.busy += u64::from(self.needed.insert(root));
                        continue;
                    }
                },
                // Whose lock is one in the store, which was looked at already.
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

    /// The part file, locked, unless a fetch has it.
    fn lock_part(&self, path: &Path) -> Result<Locked, StoreError> {
        let file = match FileRef::open(&**self.store.medium(), path, OpenHow::ReadWrite) {
            Err(StoreError::NotFound { .. }) => return Ok(Locked::Gone),
            file => file?,
        };
        match file.lock() {
            Ok(()) => Ok(Locked::Free(file)),
            Err(StoreError::Busy { .. }) => Ok(Locked::Busy),
            Err(e) => Err(e),
        }
    }

    /// Removes the data of an interrupted fetch, and then the note of them; what proves them goes next.
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

    /// A note that leads to nothing is not worth telling.
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
                Locked::Gone => {}
                Locked::Busy => self.done.busy += 1,
                Locked::Free(held) => {
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
            // Somebody may have written it anew since it was listed.
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

    /// Seconds since a file was written, and its bytes.
    fn age(&self, name: &Path) -> Result<Option<(u64, u64)>, StoreError> {
        Ok(self.store.metadata_of(name)?.map(|meta| {
            let written = u64::try_from(meta.mtime.secs).unwrap_or(0);
            (self.how.now_s.saturating_sub(written), meta.size)
        }))
    }

    fn lock(&self, name: &Path) -> Result<Locked, StoreError> {
        let Some(file) = self.store.open_named(name, OpenHow::ReadWrite)? else {
            return Ok(Locked::Gone);
        };
        match file.lock() {
            Ok(()) => {}
            Err(StoreError::Busy { .. }) => return Ok(Locked::Busy),
            Err(e) => return Err(e),
        }
        // Its owner may have given it another name before the lock was ours.
        let held = file.metadata()?;
        Ok(match self.store.metadata_of(name)? {
            Some(named) if (named.ino, named.dev) == (held.ino, held.dev) => Locked::Free(file),
            Some(_) => Locked::Busy,
            None => Locked::Gone,
        })
    }
}

/// What lies in a store's directories and is not ours: `names_in` of each, those that no part of the
/// layout explains.
impl Store {
    /// Names under the store's directories that no part of the layout explains, and records that are
    /// damaged, each with what is wrong with it.
    ///
    /// # Errors
    /// The medium's.
    pub fn oddities(&self) -> Result<Vec<(PathBuf, &'static str)>, StoreError> {
        let mut odd = Vec::new();
        type PartOf = fn(&Path) -> Option<(Hash, Part)>;
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

    /// Removes a damaged record that [`Store::oddities`] named; says whether it was one.
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

    /// What interrupted fetches and dead processes left: names and bytes; those in use left out.
    ///
    /// # Errors
    /// The medium's.
    pub fn leftovers(&self) -> Result<Vec<(PathBuf, u64)>, StoreError> {
        let how = Collecting { now_s: u64::MAX, unneeded_s: 0, forgotten_s: 0, dry_run: true };
        let mut found = Vec::new();
        let mut on_gone = |name: &Path, size| found.push((self.full(name), size));
        let mut run = Run {
            store: self,
            how: &how,
            on_gone: &mut on_gone,
            needed: HashSet::new(),
            done: Collected::default(),
        };
        run.partials()?;
        run.leftovers()?;
        Ok(found)
    }
}
