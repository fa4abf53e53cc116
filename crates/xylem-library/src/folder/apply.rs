//! [`Folder::apply`]: what a plan says is done on disk, so that nothing of the user's is lost.
//!
//! Before anything is replaced or removed it has to be what the index says: same kind, size and time. What was changed
//! meanwhile stays, is seen at the next look, and is a conflict then. Files come whole, by exchanging them with what was
//! there; what comes back from the exchange is looked at once more before it goes.
//!
//! What goes is in the trash until all is done. Then what has the same content elsewhere in the folder, as what was moved
//! has, is let go: an end at any moment leaves it in one of the two.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xylem_hash::Hash;
use xylem_store::{DiskMedium, hash_file};
use xylem_tree::SegmentSize;

use super::index::{Item, ItemKind, name};
use super::local::{Folder, FolderError};
use super::merge::{Place, Plan, aside};
use super::place::within;
use super::stored::Paths;
use super::versions::VersionPolicy;
use crate::path::{os_bytes, os_path};

/// What became of one thing.
enum Done {
    /// It is there.
    Yes,
    /// It was changed here meanwhile, or can't be: another look is needed.
    NotNow,
    /// A directory that something of ours is in stays.
    Stays,
}

/// What is lost with a file or link if it is nowhere else.
#[derive(PartialEq, Eq, Hash)]
enum Content {
    /// A file's.
    Root(Hash),
    /// Where a link points.
    Target(Vec<u8>),
}

impl Content {
    fn of(kind: ItemKind) -> Option<Self> {
        match kind {
            ItemKind::File { root, .. } => Some(Self::Root(root)),
            ItemKind::Symlink { target } => Some(Self::Target(target)),
            ItemKind::Directory { .. } | ItemKind::Gone => None,
        }
    }
}

impl Folder {
    /// From now on what others replace or remove is kept for so many days, among what is ours in the folder; 0: not at all.
    pub fn keep_removed(&mut self, days: u64) {
        self.trash.keep(VersionPolicy::for_days(days));
    }

    /// How many files the last [`Folder::apply`] replaced or removed and kept.
    pub fn removed(&self) -> u64 {
        self.trash.came()
    }

    /// Does what `plan` says, with content from below `staged` at the paths of `wanted`. Returns whether all of it was
    /// done; what was not stays to be done after another look at the folder.
    ///
    /// # Errors
    /// What is known can't be written down.
    pub fn apply(
        &mut self,
        plan: Plan,
        staged: &Path,
        wanted: &HashMap<Hash, Vec<u8>>,
        now_ms: u64,
    ) -> Result<bool, FolderError> {
        let aside = plan.aside.iter().map(|(to, place)| (to, &place.item));
        let places = plan.gone.iter().chain(&plan.put).map(|place| (&place.path, &place.item));
        self.begin(aside.chain(places))?;
        self.trash.begin(now_ms);
        let mut whole = true;
        let mut blocked = Vec::new();
        self.changes.extend(plan.known);
        for (to, place) in plan.aside {
            let done = self.set_aside(&to, &place);
            if done.is_ok_and(|done| done) {
                self.changes.insert(to, place.item);
            } else {
                blocked.push(place.path);
                whole = false;
            }
        }
        for place in plan.gone {
            match self.remove(&place).unwrap_or(Done::NotNow) {
                Done::Yes => drop(self.changes.insert(place.path, place.item)),
                Done::NotNow => whole = false,
                Done::Stays => {
                    let kept = Item { kind: place.before, ..place.item };
                    self.keep_after_all(place.path, kept, now_ms);
                }
            }
        }
        let mut uses: HashMap<Hash, usize> = HashMap::new();
        for place in &plan.put {
            if let ItemKind::File { root, .. } = place.item.kind {
                *uses.entry(root).or_default() += 1;
            }
        }
        for place in plan.put {
            if blocked.contains(&place.path) {
                continue;
            }
            // What was not fetched is asked for again.
            let Ok(content) = self.content(&place, staged, wanted, &mut uses) else {
                whole = false;
                continue;
            };
            match self.put(&place, content.as_deref()).unwrap_or(Done::NotNow) {
                Done::Yes => drop(self.changes.insert(place.path, place.item)),
                Done::NotNow => whole = false,
                Done::Stays => whole &= self.put_beside(place, content.as_deref(), now_ms),
            }
        }
        self.settle()?;
        self.let_moved_go()?;
        Ok(whole)
    }

    /// Of what has come to the trash just now, what is in the folder under some name need not be kept there.
    fn let_moved_go(&self) -> Result<(), FolderError> {
        let mut kept: HashMap<Content, Vec<PathBuf>> = HashMap::new();
        for (path, what) in self.trash.fresh() {
            if let Some(content) = Content::of(what) {
                kept.entry(content).or_default().push(path);
            }
        }
        // It is on the disk before the other goes, or both stay.
        if kept.is_empty() || write_through(&self.root).is_err() {
            return Ok(());
        }
        for entry in self.stored.entries()? {
            let (path, Item { kind, absent: false, .. }) = entry? else { continue };
            // What was changed meanwhile has it no more.
            let is_there = |kind| self.place(&path, false).is_ok_and(|at| is(&at, kind));
            // It is read before the other goes: size and time prove nothing.
            let holds = |content: &Content| match content {
                Content::Root(root) => self.place(&path, false).is_ok_and(|at| holds(&at, root)),
                Content::Target(_) => true,
            };
            if let Some(content) = Content::of(kind.clone())
                && kept.contains_key(&content)
                && is_there(&kind)
                && holds(&content)
            {
                kept.remove(&content).iter().flatten().for_each(|path| self.trash.needs_not(path));
            }
        }
        Ok(())
    }

    /// What was to replace or remove a directory does not: the directory is as if it had been made anew.
    fn keep_after_all(&mut self, path: Vec<u8>, mut item: Item, now_ms: u64) {
        item.version.changed(self.me, now_ms);
        item.by = self.me;
        self.changes.insert(path, item);
    }

    /// A file that was to replace a directory with something of ours in it; false if it has no place now.
    fn put_beside(&mut self, place: Place, content: Option<&Path>, now_ms: u64) -> bool {
        let root = match &place.item.kind {
            ItemKind::File { root, .. } => *root.as_bytes(),
            _ => [0; 32],
        };
        let to = aside(&place.path, &name(&self.names, &place.item.by), &root);
        let kept = Item { kind: place.before.clone(), ..place.item.clone() };
        let beside = Place { path: to, item: place.item, before: ItemKind::Gone };
        if !matches!(self.put(&beside, content), Ok(Done::Yes)) {
            return false;
        }
        self.changes.insert(beside.path, beside.item);
        self.keep_after_all(place.path, kept, now_ms);
        true
    }

    /// A file of ours with what is to come, to be moved to its place; `None`: a directory.
    fn content(
        &self,
        place: &Place,
        staged: &Path,
        wanted: &HashMap<Hash, Vec<u8>>,
        uses: &mut HashMap<Hash, usize>,
    ) -> io::Result<Option<PathBuf>> {
        let fresh = self.own("placing");
        let _ = fs::remove_file(&fresh);
        match &place.item.kind {
            ItemKind::File { root, mode, mtime, .. } => {
                let from = wanted.get(root).ok_or(io::ErrorKind::NotFound)?;
                let from = staged.join(os_path(from));
                let left = uses.get_mut(root).map_or(1, |left| {
                    *left = left.saturating_sub(1);
                    *left
                });
                if left == 0 {
                    fs::rename(&from, &fresh)?;
                } else {
                    fs::copy(&from, &fresh)?;
                }
                describe(&fresh, *mode, *mtime)?;
            }
            ItemKind::Symlink { target } => link(&os_path(target), &fresh)?,
            ItemKind::Directory { .. } | ItemKind::Gone => return Ok(None),
        }
        Ok(Some(fresh))
    }

    fn place(&self, path: &[u8], make: bool) -> io::Result<PathBuf> {
        within(&self.root, path, make)
    }

    fn put(&self, place: &Place, content: Option<&Path>) -> io::Result<Done> {
        let to = self.place(&place.path, true)?;
        let Some(content) = content else {
            let ItemKind::Directory { mode } = place.item.kind else { return Ok(Done::NotNow) };
            if !matches!(place.before, ItemKind::Gone | ItemKind::Directory { .. })
                && !self.take_away(&to, place)?
            {
                return Ok(Done::NotNow);
            }
            return match fs::create_dir(&to) {
                Ok(()) => permit(&to, mode).map(|()| Done::Yes),
                Err(_) if to.symlink_metadata().is_ok_and(|meta| meta.is_dir()) => Ok(Done::Yes),
                Err(_) => Ok(Done::NotNow),
            };
        };
        match &place.before {
            ItemKind::Gone => {}
            ItemKind::Directory { .. } => {
                if !remove_directory(&to)? {
                    return Ok(Done::Stays);
                }
            }
            before => {
                if !is(&to, before) {
                    return Ok(Done::NotNow);
                }
                // What is exchanged has the name already under which it is kept.
                let kept = self.kept_at(place)?;
                let from = kept.as_deref().unwrap_or(content);
                if let Some(kept) = &kept {
                    fs::rename(content, kept)?;
                }
                exchange(from, &to, &self.own("third"))?;
                if is(from, before) {
                    self.done_with(from, kept.is_some(), before)?;
                    return Ok(Done::Yes);
                }
                // Somebody was at it in between: it goes back.
                exchange(from, &to, &self.own("third"))?;
                if kept.is_some() {
                    fs::remove_file(from)?;
                }
                return Ok(Done::NotNow);
            }
        }
        Ok(if rename_new(content, &to)? { Done::Yes } else { Done::NotNow })
    }

    fn remove(&self, place: &Place) -> io::Result<Done> {
        let at = match self.place(&place.path, false) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Done::Yes),
            at => at?,
        };
        match &place.before {
            ItemKind::Gone => Ok(Done::Yes),
            ItemKind::Directory { .. } => {
                Ok(if remove_directory(&at)? { Done::Yes } else { Done::Stays })
            }
            _ => Ok(if self.take_away(&at, place)? { Done::Yes } else { Done::NotNow }),
        }
    }

    /// Where what was there is kept; `None`: it is not, or what comes has the same content.
    fn kept_at(&self, place: &Place) -> io::Result<Option<PathBuf>> {
        let root = |kind: &ItemKind| match kind {
            ItemKind::File { root, .. } => Some(*root),
            _ => None,
        };
        let before = root(&place.before);
        if before.is_some() && before == root(&place.item.kind) {
            return Ok(None);
        }
        self.trash.place(&place.path)
    }

    /// What was there is gone from its place: it is kept where it is now, or removed.
    fn done_with(&self, at: &Path, kept: bool, what: &ItemKind) -> io::Result<()> {
        if kept {
            self.trash.has(at.to_path_buf(), what);
            return Ok(());
        }
        fs::remove_file(at)
    }

    /// Takes a file or link away if it is what is expected.
    fn take_away(&self, at: &Path, place: &Place) -> io::Result<bool> {
        let before = &place.before;
        if at.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            return Ok(true);
        }
        if !is(at, before) {
            return Ok(false);
        }
        let kept = self.kept_at(place)?;
        let is_kept = kept.is_some();
        let away = kept.unwrap_or_else(|| self.own("leaving"));
        fs::rename(at, &away)?;
        if is(&away, before) {
            return self.done_with(&away, is_kept, before).map(|()| true);
        }
        if !rename_new(&away, at)? {
            // Both the old name and the new are of the user: this one gets another.
            let mut other = os_bytes(at.as_os_str());
            other.extend_from_slice(b".kept");
            rename_new(&away, &os_path(&other))?;
        }
        Ok(false)
    }

    fn set_aside(&self, to: &[u8], place: &Place) -> io::Result<bool> {
        let (from, to) = (self.place(&place.path, false)?, self.place(to, true)?);
        Ok(is(&from, &place.before) && rename_new(&from, &to)?)
    }
}

/// Whether a file that can be read has the content with this root.
pub fn holds(path: &Path, root: &Hash) -> bool {
    let (medium, size) = (DiskMedium::new(), SegmentSize::DEFAULT);
    let hashed = hash_file(&medium, path, None, size, None, &mut Vec::new(), &|_| ());
    hashed.is_ok_and(|hashed| hashed.root == *root)
}

/// What was written to a folder stays there after a power cut: one call for all files, where there is such a call.
fn write_through(folder: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(folder)?)?;
    let _ = folder;
    Ok(())
}

/// Whether there is what the index says.
fn is(path: &Path, kind: &ItemKind) -> bool {
    let meta = path.symlink_metadata();
    match (kind, meta) {
        (ItemKind::Gone, meta) => meta.is_err_and(|e| e.kind() == io::ErrorKind::NotFound),
        (_, Err(_)) => false,
        (ItemKind::File { size, mtime, .. }, Ok(meta)) => {
            meta.is_file() && meta.len() == *size && modified(&meta) == Some(*mtime)
        }
        (ItemKind::Directory { .. }, Ok(meta)) => meta.is_dir(),
        (ItemKind::Symlink { target }, Ok(_)) => {
            fs::read_link(path).is_ok_and(|found| os_bytes(found.as_os_str()) == *target)
        }
    }
}

fn modified(meta: &Metadata) -> Option<(i64, u32)> {
    let time = meta.modified().ok()?;
    Some(match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).ok()?, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let secs = i64::try_from(before.as_secs()).ok()?;
            match before.subsec_nanos() {
                0 => (-secs, 0),
                nanos => (-secs - 1, 1_000_000_000 - nanos),
            }
        }
    })
}

fn describe(path: &Path, mode: u32, (secs, nanos): (i64, u32)) -> io::Result<()> {
    let whole = Duration::from_secs(secs.unsigned_abs());
    let time: Option<SystemTime> =
        if secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let time = time.and_then(|time| time.checked_add(Duration::from_nanos(nanos.into())));
    if let Some(time) = time {
        // Times can be set on what can be written to.
        permit(path, mode | 0o600)?;
        File::options().write(true).open(path)?.set_modified(time)?;
    }
    permit(path, mode)
}

#[cfg(unix)]
fn permit(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o777))
}

#[cfg(not(unix))]
fn permit(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(super) fn link(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(_target: &Path, _at: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Removes a directory; false if something is in it.
fn remove_directory(path: &Path) -> io::Result<bool> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(e) => Err(e),
    }
}

/// Moves to a free name; false if it is taken.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::EXIST) => return Ok(false),
            // Some file systems do not know the flag: look first instead.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            Err(e) => return Err(e.into()),
        }
    }
    if to.symlink_metadata().is_ok() {
        return Ok(false);
    }
    fs::rename(from, to).map(|()| true)
}

/// Each gets the other's name; `third` is a free one.
pub(super) fn exchange(one: &Path, other: &Path, third: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    // By way of a third name: there is nothing for a moment.
    fs::rename(other, third)?;
    fs::rename(one, other)?;
    fs::rename(third, one)
}

#[cfg(test)]
mod tests;
