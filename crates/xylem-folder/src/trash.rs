//! [`Trash`]: keeps what other members replace or remove for some time, as `DIR/.xylem-sync/trash/DAY/PATH`.
//!
//! A file arrives here by one rename, or by the exchange that puts its successor in place. It therefore has a name at
//! every moment, whenever the process ends. Nothing here is shared, and no operation follows a symbolic link. The
//! [`VersionPolicy`] decides what stays, and for how long.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{FileMedium, os_bytes};
use xylem_files::ours::OWN;
use xylem_store::{Clobber, FileKind, FileTime, Medium, Meta};

use super::index::ItemKind;
use super::local::SyncFolder;
use super::place::{NEW_DIRECTORY, Parents, rename_new, within};
use super::versions::{APART_MS, DAY_MS, PathVersion, VersionPolicy, leaving};

/// Name of the trash within the folder's own directory.
const DIR: &str = "trash";
/// The trash takes at most one part in so many of the file system. It also leaves at least as much free space as it
/// takes.
const PART: u64 = 10;
/// Milliseconds between scans of the trash for old versions.
const LOOK_EVERY_MS: u64 = 3_600_000;
/// Milliseconds between scans for surplus versions of a path, while new ones arrive.
const COUNT_EVERY_MS: u64 = 60_000;
/// Most paths of which the newest version is remembered: few paths are written to again and again.
const MAX_BUSY: usize = 4_096;
/// Most names that are tried for one file.
const TRIES: u64 = 1_000;

/// The trash of one folder.
#[derive(Debug)]
pub(super) struct Trash {
    medium: FileMedium,
    dir: PathBuf,
    policy: VersionPolicy,
    now_ms: u64,
    /// Time of the last scan, in milliseconds since 1970.
    looked: Option<u64>,
    /// Bytes in the trash, as far as known.
    bytes: Cell<u64>,
    /// Files that arrived since [`Trash::begin`].
    came: Cell<u64>,
    /// Where the files that arrived lie, and what they were.
    fresh: RefCell<Vec<(PathBuf, ItemKind)>>,
    /// Newest versions of the paths that changed a short while ago.
    busy: RefCell<HashMap<PathBuf, BusyPath>>,
}

/// The newest versions of one path.
#[derive(Debug)]
struct BusyPath {
    /// Arrival of the last version that stays, in milliseconds since 1970.
    since_ms: u64,
    /// The newest version, if it arrived too soon after the one that stays. It is removed when the next one arrives.
    newest: Option<PathBuf>,
}

/// A file in the trash.
struct TrashFile {
    /// When it arrived, in milliseconds since 1970.
    since_ms: u64,
    bytes: u64,
    path: PathBuf,
}

impl Trash {
    /// Makes a trash that keeps nothing yet.
    pub(super) fn none(medium: &FileMedium, own: &Path) -> Self {
        Self {
            medium: medium.clone(),
            dir: own.join(DIR),
            policy: VersionPolicy::None,
            now_ms: 0,
            looked: None,
            bytes: Cell::new(0),
            came: Cell::new(0),
            fresh: RefCell::default(),
            busy: RefCell::default(),
        }
    }

    /// Sets which versions are kept from now on.
    pub(super) fn keep(&mut self, policy: VersionPolicy) {
        (self.policy, self.looked) = (policy, None);
    }

    /// Begins a round at the time `now_ms`, and removes what is too old or too much. Without a policy, what is in the
    /// trash stays.
    pub(super) fn begin(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let came = self.came.take();
        self.fresh.take();
        self.busy.borrow_mut().retain(|_, busy| is_within(2 * APART_MS, busy.since_ms, now_ms));
        if self.policy == VersionPolicy::None {
            return;
        }
        let limit = || limit(&*self.medium, &self.dir, self.bytes.get());
        let by_count =
            matches!(self.policy, VersionPolicy::Simple { .. } | VersionPolicy::Staggered { .. });
        let every = if came > 0 && by_count { COUNT_EVERY_MS } else { LOOK_EVERY_MS };
        let due = self.looked.is_none_or(|at| now_ms < at || now_ms - at >= every);
        if due || self.bytes.get() > limit() {
            self.scan(limit());
        }
    }

    /// Returns the time of the last [`Trash::begin`], in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns how many files arrived since [`Trash::begin`].
    pub(super) fn came(&self) -> u64 {
        self.came.get()
    }

    /// Returns a free name for the file that leaves this path; `None` if no version is kept.
    ///
    /// # Errors
    /// There is no free name. Then the file must stay where it is.
    pub(super) fn place(&self, path: &[u8]) -> io::Result<Option<PathBuf>> {
        if self.policy == VersionPolicy::None {
            return Ok(None);
        }
        if !is_there(&*self.medium, &self.dir)? {
            self.medium.create_dir(&self.dir, NEW_DIRECTORY)?;
        }
        let mut why = io::ErrorKind::AlreadyExists.into();
        // Where the directory of the day has this path already, or another kind of file on the way to it, that of the
        // moment is free.
        let moments = (0..TRIES).map(|n| moment(self.now_ms.saturating_add(n)));
        for name in std::iter::once(day(self.now_ms)).chain(moments) {
            let path = [name.as_bytes(), b"/", path].concat();
            match within(&*self.medium, &self.dir, &path, Parents::Create) {
                Ok(at) if self.medium.metadata(&at).is_err() => return Ok(Some(at)),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotADirectory => why = e,
                Err(e) => return Err(e),
            }
        }
        Err(why)
    }

    /// Records that a file arrived under the name that [`Trash::place`] gave, and what it was.
    pub(super) fn record_arrival(&self, path: PathBuf, what: &ItemKind) {
        let bytes = self.medium.metadata(&path).map_or(0, |meta| meta.size);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        self.came.set(self.came.get() + 1);
        self.thin_out(&path);
        self.fresh.borrow_mut().push((path, what.clone()));
    }

    /// Thins out the versions of a path that is written to again and again: one version in [`APART_MS`] stays, and the
    /// newest.
    fn thin_out(&self, path: &Path) {
        let mut all = self.busy.borrow_mut();
        let (of, now_ms) = (path_of_version(&self.dir, path), self.now_ms);
        let Some(busy) = all.get_mut(of) else {
            if all.len() < MAX_BUSY {
                all.insert(of.to_path_buf(), BusyPath { since_ms: now_ms, newest: None });
            }
            return;
        };
        if let Some(before) = busy.newest.take() {
            self.remove_file(&before);
        }
        if is_within(APART_MS, busy.since_ms, now_ms) {
            busy.newest = Some(path.to_path_buf());
        } else {
            busy.since_ms = now_ms;
        }
    }

    /// Takes the list of what arrived since [`Trash::begin`], and clears it.
    pub(super) fn take_arrivals(&self) -> Vec<(PathBuf, ItemKind)> {
        self.fresh.take()
    }

    /// Removes a file that need not be kept, since the folder still has the same content. A file that cannot be removed
    /// stays.
    pub(super) fn remove_redundant(&self, path: &Path) {
        if self.remove_file(path) {
            self.came.set(self.came.get().saturating_sub(1));
        }
    }

    /// Removes a file from the trash; false if that fails.
    fn remove_file(&self, path: &Path) -> bool {
        let bytes = self.medium.metadata(path).map_or(0, |meta| meta.size);
        if self.medium.remove_file(path).is_err() {
            return false;
        }
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
        self.remove_dirs_above(path);
        true
    }

    /// Removes the directories that were made for a file, up to the trash itself, as far as they are empty.
    fn remove_dirs_above(&self, path: &Path) {
        let above = path.ancestors().skip(1).take_while(|dir| dir.starts_with(&self.dir));
        let _ = above.map(|dir| self.medium.remove_dir(dir)).find(Result::is_err);
    }

    /// Scans the trash and removes old and surplus versions. Files that cannot be read or removed wait for the next
    /// scan.
    fn scan(&mut self, limit: u64) {
        self.looked = Some(self.now_ms);
        if !is_there(&*self.medium, &self.dir).unwrap_or(false) {
            self.bytes.set(0);
            return;
        }
        let (kept, dirs) = self.all();
        let versions: Vec<PathVersion<'_>> = kept
            .iter()
            .map(|kept| PathVersion {
                of: path_of_version(&self.dir, &kept.path),
                since_ms: kept.since_ms,
                bytes: kept.bytes,
            })
            .collect();
        let mut bytes: u64 = kept.iter().fold(0, |sum, kept| sum.saturating_add(kept.bytes));
        for (file, goes) in kept.iter().zip(leaving(&versions, self.policy, self.now_ms, limit)) {
            if goes && self.medium.remove_file(&file.path).is_ok() {
                bytes = bytes.saturating_sub(file.bytes);
            }
        }
        self.bytes.set(bytes);
        // Remove empty directories. The innermost ones were found last.
        dirs.iter().rev().for_each(|dir| drop(self.medium.remove_dir(dir)));
    }

    /// Lists all files in the trash, and all directories, outer ones first.
    fn all(&self) -> (Vec<TrashFile>, Vec<PathBuf>) {
        let (mut kept, mut dirs) = (Vec::new(), vec![self.dir.clone()]);
        let mut at = 0;
        while let Some(dir) = dirs.get(at).cloned() {
            at += 1;
            for entry in self.medium.list_dir(&dir).unwrap_or_default() {
                let path = dir.join(entry.name);
                match self.medium.metadata(&path) {
                    Ok(meta) if meta.kind == FileKind::Directory => dirs.push(path),
                    Ok(meta) => {
                        kept.push(TrashFile { since_ms: came(&meta), bytes: meta.size, path });
                    }
                    Err(_) => {}
                }
            }
        }
        (kept, dirs)
    }
}

/// Returns whether less than `ms` has passed since `since_ms`. A clock that was set back counts as more.
fn is_within(ms: u64, since_ms: u64, now_ms: u64) -> bool {
    (since_ms..since_ms.saturating_add(ms)).contains(&now_ms)
}

/// Returns whether a directory exists; another kind of file of that name, a symbolic link included, is an error.
fn is_there(medium: &dyn Medium, dir: &Path) -> io::Result<bool> {
    match medium.metadata(dir) {
        Ok(meta) if meta.kind == FileKind::Directory => Ok(true),
        Ok(_) => {
            let what = format!("{}: not a directory, so no versions are kept in it", dir.display());
            Err(io::Error::new(io::ErrorKind::NotADirectory, what))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Returns the folder's path of a version in the trash: what follows the day or moment.
fn path_of_version<'a>(trash: &Path, at: &'a Path) -> &'a Path {
    let mut below = at.strip_prefix(trash).unwrap_or(at).components();
    below.next();
    below.as_path()
}

impl SyncFolder {
    /// Sets which versions of replaced and removed files are kept from now on, in the folder's own directory.
    pub fn keep_versions(&mut self, policy: VersionPolicy) {
        self.trash.keep(policy);
    }
}

/// A version of a path in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptVersion {
    /// Where it lies.
    pub at: PathBuf,
    /// When it arrived, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Lists the versions of `path` (`/` between components) that are kept in the folder `root`, the newest first.
///
/// # Errors
/// The system's; the place of the trash is not a directory.
pub fn kept_versions(
    medium: &FileMedium,
    root: &Path,
    path: &[u8],
) -> io::Result<Vec<KeptVersion>> {
    let (medium, dir) = (&**medium, root.join(OWN).join(DIR));
    if !is_there(medium, &root.join(OWN))? || !is_there(medium, &dir)? {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    for moment in medium.list_dir(&dir)? {
        let path = [&os_bytes(&moment.name), b"/".as_slice(), path].concat();
        let Ok(at) = within(medium, &dir, &path, Parents::Exist) else { continue };
        match medium.metadata(&at) {
            Ok(meta) if meta.kind != FileKind::Directory => {
                kept.push(KeptVersion { at, since_ms: came(&meta), bytes: meta.size });
            }
            _ => {}
        }
    }
    kept.sort_by(|a, b| (b.since_ms, &b.at).cmp(&(a.since_ms, &a.at)));
    Ok(kept)
}

/// Lists the paths at and below `path` of the folder `root` that have kept versions; an empty path means the whole
/// folder.
///
/// # Errors
/// The system's; the place of the trash is not a directory.
pub fn kept_paths(medium: &FileMedium, root: &Path, path: &[u8]) -> io::Result<BTreeSet<Vec<u8>>> {
    let (medium, dir) = (&**medium, root.join(OWN).join(DIR));
    let mut found = BTreeSet::new();
    if !is_there(medium, &root.join(OWN))? || !is_there(medium, &dir)? {
        return Ok(found);
    }
    for moment in medium.list_dir(&dir)? {
        let name = os_bytes(&moment.name);
        let below: &[&[u8]] = if path.is_empty() { &[&name] } else { &[&name, b"/", path] };
        let Ok(top) = within(medium, &dir, &below.concat(), Parents::Exist) else { continue };
        let mut left = vec![top];
        while let Some(at) = left.pop() {
            match medium.metadata(&at) {
                Ok(meta) if meta.kind == FileKind::Directory => {
                    left.extend(medium.list_dir(&at)?.into_iter().map(|item| at.join(item.name)));
                }
                Ok(_) => drop(found.insert(os_bytes(path_of_version(&dir, &at).as_os_str()))),
                Err(_) => {}
            }
        }
    }
    found.remove(b"".as_slice());
    Ok(found)
}

/// Result of [`restore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The version is in place; there was nothing before.
    Put,
    /// The version is in place; what was there before is a kept version now.
    Replaced,
    /// Nothing was done: a directory, or another thing that is no file, is there.
    Occupied,
}

/// Puts a version back at `path` of the folder `root`, at the time `now_ms`; it stays in the trash too. The file
/// appears whole: by one rename, or by an exchange with what is there.
///
/// # Errors
/// The system's; another thing than a directory is on the way.
pub fn restore(
    medium: &FileMedium,
    root: &Path,
    path: &[u8],
    version: &KeptVersion,
    now_ms: u64,
) -> io::Result<Restored> {
    let own = root.join(OWN);
    let to = within(&**medium, root, path, Parents::Create)?;
    let is_occupied = |at: &Path| {
        let is_file = |kind| matches!(kind, FileKind::File | FileKind::Symlink);
        medium.metadata(at).is_ok_and(|meta| !is_file(meta.kind))
    };
    if is_occupied(&to) {
        return Ok(Restored::Occupied);
    }
    let mut trash = Trash::none(medium, &own);
    trash.keep(VersionPolicy::default());
    trash.now_ms = now_ms;
    // The copy is made at the name under which the file that it replaces is to be kept.
    let fresh = trash.place(path)?.ok_or(io::ErrorKind::NotFound)?;
    let put = || {
        copy(&**medium, &version.at, &fresh)?;
        if rename_new(&**medium, &fresh, &to)? {
            return Ok(Restored::Put);
        }
        match medium.exchange(&fresh, &to) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                // The name is free for a moment.
                let away = trash.place(path)?.ok_or(io::ErrorKind::NotFound)?;
                medium.rename(&to, &away, Clobber::Replace)?;
                let put = rename_new(&**medium, &fresh, &to);
                if !matches!(put, Ok(true)) {
                    rename_new(&**medium, &away, &to)?;
                }
                return Ok(if put? { Restored::Replaced } else { Restored::Occupied });
            }
            exchanged => exchanged?,
        }
        if is_occupied(&fresh) {
            medium.exchange(&fresh, &to)?;
            return Ok(Restored::Occupied);
        }
        Ok(Restored::Replaced)
    };
    let done: io::Result<Restored> = put();
    if !matches!(done, Ok(Restored::Replaced)) {
        trash.remove_file(&fresh);
        trash.remove_dirs_above(&fresh);
    }
    done
}

/// Copies a file or symbolic link, with its content and permissions.
fn copy(medium: &dyn Medium, from: &Path, to: &Path) -> io::Result<()> {
    if medium.metadata(from)?.kind == FileKind::Symlink {
        return medium.symlink(&medium.read_link(from)?, to);
    }
    medium.copy(from, to)
}

/// Returns when a file arrived, in milliseconds since 1970. Only the file's name has changed since, and a rename sets
/// the change time. Without change times, it is when the content was written.
fn came(meta: &Meta) -> u64 {
    let time = if meta.ctime == FileTime::default() { meta.mtime } else { meta.ctime };
    let seconds = u64::try_from(time.secs).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(u64::from(time.nanos / 1_000_000))
}

/// Returns how many bytes the trash may take, when it takes `has` now.
fn limit(medium: &dyn Medium, dir: &Path, has: u64) -> u64 {
    let own = dir.parent().unwrap_or(dir);
    match (medium.total_bytes(own), medium.free_bytes(own)) {
        (Ok(Some(total)), Ok(Some(free))) => (total / PART).min(free.saturating_add(has) / 2),
        _ => u64::MAX,
    }
}

/// Formats a day as `2026-11-24`, in UTC, by Howard Hinnant's algorithm `civil_from_days`.
fn day(ms: u64) -> String {
    // Days since the first of March of the year 0. 400 years have 146,097 days.
    let days = ms / DAY_MS + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let years = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + years + next)
}

/// Formats a moment as `2026-11-24T02-34-10.123`, in UTC.
fn moment(ms: u64) -> String {
    let of_day = ms % DAY_MS;
    let (seconds, ms_of) = (of_day / 1_000, of_day % 1_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{}T{hours:02}-{minutes:02}-{:02}.{ms_of:03}", day(ms), seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    const NOW: u64 = 1_795_487_650_123;

    fn put(trash: &Trash, path: &str, content: &[u8]) -> PathBuf {
        let at = trash.place(path.as_bytes()).unwrap().unwrap();
        fs::write(&at, content).unwrap();
        trash.record_arrival(at.clone(), &ItemKind::Gone);
        at
    }

    #[test]
    fn days_and_moments_are_those_of_the_calendar() {
        for (ms, expected) in [
            (0, "1970-01-01T00-00-00.000"),
            (951_782_400_000, "2000-02-29T00-00-00.000"),
            (951_868_799_999, "2000-02-29T23-59-59.999"),
            (1_709_251_199_000, "2024-02-29T23-59-59.000"),
            (1_709_251_200_000, "2024-03-01T00-00-00.000"),
            (NOW, "2026-11-24T02-34-10.123"),
            (4_107_542_399_000, "2100-02-28T23-59-59.000"),
            (4_107_542_400_000, "2100-03-01T00-00-00.000"),
        ] {
            assert_eq!(moment(ms), expected);
        }
        // Any reading of a clock gives a name.
        assert!(!moment(u64::MAX).is_empty());
    }

    #[test]
    fn trashed_files_get_distinct_names_within_the_trash() {
        let dir = tempfile::tempdir().unwrap();
        let mut trash = Trash::none(&FileMedium::default(), dir.path());
        assert_eq!(trash.place(b"a").unwrap(), None);
        trash.keep(VersionPolicy::default());
        trash.begin(NOW);
        let first = put(&trash, "d/a", b"one");
        let second = put(&trash, "d/a", b"two");
        assert_eq!(first, dir.path().join("trash/2026-11-24/d/a"));
        assert_eq!(second, dir.path().join("trash/2026-11-24T02-34-10.123/d/a"));
        // A directory stands where a file is to go, and the other way round.
        let file = put(&trash, "d", b"three");
        let below = put(&trash, "d/a/below", b"four");
        for (at, content) in [(first, "one"), (second, "two"), (file, "three"), (below, "four")] {
            assert_eq!(fs::read_to_string(at).unwrap(), content);
        }
        // A symbolic link in the trash is not followed.
        #[cfg(unix)]
        {
            let elsewhere = dir.path().join("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            let link = trash.place(b"link").unwrap().unwrap();
            std::os::unix::fs::symlink(&elsewhere, link).unwrap();
            let at = put(&trash, "link/file", b"five");
            assert_eq!(fs::read(at).unwrap(), b"five");
            assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
        }
    }

    #[test]
    fn old_and_surplus_versions_go_oldest_first() {
        let dir = tempfile::tempdir().unwrap();
        let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = u64::try_from(since_1970().as_millis()).unwrap();
        let mut trash = Trash::none(&FileMedium::default(), dir.path());
        trash.keep(VersionPolicy::default());
        trash.begin(now);
        let old = put(&trash, "deep/er/old", &[1; 4_000]);
        // Arrival is the time of the last rename. The scan compares it in seconds.
        std::thread::sleep(Duration::from_millis(2_100));
        let new = put(&trash, "new", &[2; 5_000]);
        assert_eq!((trash.came(), trash.bytes.get()), (2, 9_000));
        trash.scan(9_000);
        assert!(old.exists() && new.exists());
        trash.scan(8_000);
        assert!(!old.exists() && new.exists());
        assert!(!dir.path().join("trash").join(day(now)).join("deep").exists());
        assert_eq!(trash.bytes.get(), 5_000);
        trash.begin(now + 6 * DAY_MS);
        assert!(new.exists());
        trash.begin(now + 7 * DAY_MS + 5_000);
        assert!(!new.exists() && !dir.path().join("trash").exists());
        trash.begin(now);
        let moved = put(&trash, "deep/er/moved", b"seven");
        trash.remove_redundant(&moved);
        assert_eq!((trash.came(), trash.bytes.get()), (0, 0));
        assert!(!dir.path().join("trash").exists());
        let again = put(&trash, "again", b"six");
        trash.keep(VersionPolicy::None);
        trash.begin(now + 7 * DAY_MS);
        assert!(again.exists() && trash.place(b"a").unwrap().is_none());
    }
    #[test]
    fn a_busy_file_keeps_one_version_in_30_s_and_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let mut trash = Trash::none(&FileMedium::default(), dir.path());
        trash.keep(VersionPolicy::default());
        let mut all = Vec::new();
        for n in 0..61 {
            trash.begin(NOW + n * 1_000);
            all.push(put(&trash, "log", &[b'x'; 100]));
        }
        let there: Vec<usize> =
            all.iter().enumerate().filter(|(_, at)| at.exists()).map(|(n, _)| n).collect();
        assert_eq!(there, [0, 30, 60]);
        assert_eq!(trash.bytes.get(), 300);
        trash.begin(NOW + 61_000);
        all.push(put(&trash, "log", b"the newest"));
        assert!(all[60].exists() && all[61].exists());
        // Another path has versions of its own.
        let other = put(&trash, "d/log", b"other");
        assert!(other.exists() && all[60].exists());
    }

    #[cfg(unix)]
    #[test]
    fn the_trash_follows_no_symbolic_link() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (own, elsewhere) = (dir.path().join(OWN), dir.path().join("elsewhere"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("a"), "mine").unwrap();
        symlink(&elsewhere, own.join(DIR)).unwrap();
        let mut trash = Trash::none(&FileMedium::default(), &own);
        trash.keep(VersionPolicy::Simple { newest: 1 });
        trash.begin(NOW);
        trash.scan(0);
        let why = trash.place(b"a").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::NotADirectory);
        assert!(kept_versions(&FileMedium::default(), dir.path(), b"a").is_err());
        fs::remove_file(own.join(DIR)).unwrap();
        fs::create_dir(own.join(DIR)).unwrap();
        symlink(&elsewhere, own.join(DIR).join(day(NOW))).unwrap();
        let at = put(&trash, "a", b"kept");
        assert_eq!(at, own.join(DIR).join(moment(NOW)).join("a"));
        trash.scan(0);
        assert_eq!(fs::read_to_string(elsewhere.join("a")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    }

    #[test]
    fn a_restored_version_keeps_the_file_that_it_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join(OWN)).unwrap();
        let mut trash = Trash::none(&FileMedium::default(), &root.join(OWN));
        trash.keep(VersionPolicy::default());
        trash.begin(NOW);
        put(&trash, "d/a", b"one");
        assert_eq!(kept_versions(&FileMedium::default(), root, b"d").unwrap(), []);
        let versions = kept_versions(&FileMedium::default(), root, b"d/a").unwrap();
        assert_eq!((versions.len(), versions[0].bytes), (1, 3));
        // The file's directory is gone, too.
        assert_eq!(
            restore(&FileMedium::default(), root, b"d/a", &versions[0], NOW).unwrap(),
            Restored::Put
        );
        assert_eq!(fs::read(root.join("d/a")).unwrap(), b"one");
        fs::write(root.join("d/a"), "two").unwrap();
        assert_eq!(
            restore(&FileMedium::default(), root, b"d/a", &versions[0], NOW).unwrap(),
            Restored::Replaced
        );
        assert_eq!(fs::read(root.join("d/a")).unwrap(), b"one");
        let kept = kept_versions(&FileMedium::default(), root, b"d/a").unwrap();
        let mut contents: Vec<Vec<u8>> =
            kept.iter().map(|kept| fs::read(&kept.at).unwrap()).collect();
        contents.sort();
        assert_eq!(contents, [b"one", b"two"]);
        // A directory has the name now.
        fs::remove_file(root.join("d/a")).unwrap();
        fs::create_dir(root.join("d/a")).unwrap();
        assert_eq!(
            restore(&FileMedium::default(), root, b"d/a", &versions[0], NOW).unwrap(),
            Restored::Occupied
        );
        assert_eq!(kept_versions(&FileMedium::default(), root, b"d/a").unwrap().len(), 2);
        assert_eq!(fs::read_dir(root.join(OWN)).unwrap().count(), 1);
        // The versions of a directory are those below it.
        put(&trash, "d/e/f", b"three");
        put(&trash, "g", b"four");
        let below = |path: &str| {
            let all =
                kept_paths(&FileMedium::default(), root, path.as_bytes()).unwrap().into_iter();
            all.map(|path| String::from_utf8(path).unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!([below(""), below("d"), below("d/e/f")], ["d/a d/e/f g", "d/a d/e/f", "d/e/f"]);
        assert_eq!([below("x"), below("d/a/b")], ["", ""]);
    }
}
