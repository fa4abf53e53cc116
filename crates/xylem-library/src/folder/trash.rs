//! [`Trash`]: what other members replace or remove is kept for some days, as `DIR/.xylem-sync/trash/DAY/PATH`.
//!
//! A file comes here by one rename or by the exchange that puts the new one in its place, so that it has a name at every moment,
//! whatever ends the process. Nothing here is part of what is shared.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::index::ItemKind;
use super::place::within;

/// Where, among what is ours in the folder.
const DIR: &str = "trash";
/// It has this part of the file system at most, and leaves as much free as it has itself.
const PART: u64 = 10;
/// When it is too large so much of what it may have is left, so that not each file that comes has it looked through.
const LEAVES: (u64, u64) = (9, 10);
/// So often it is looked through for what is too old.
const LOOK_EVERY_MS: u64 = 3_600_000;
const DAY_MS: u64 = 86_400_000;
/// Names that are tried for one file.
const TRIES: u64 = 1_000;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Trash {
    dir: PathBuf,
    /// 0: nothing is kept.
    days: u64,
    now_ms: u64,
    /// When it was last looked through.
    looked: Option<u64>,
    /// Bytes in it, as far as known.
    bytes: Cell<u64>,
    /// Files that came since [`Trash::begin`],
    came: Cell<u64>,
    /// and where they are and what they were.
    fresh: RefCell<Vec<(PathBuf, ItemKind)>>,
}

/// A file in it.
struct Kept {
    /// By age: when it came.
    since: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl Trash {
    /// Nothing is kept yet.
    pub(super) fn none(own: &Path) -> Self {
        let (bytes, came, fresh) = (Cell::new(0), Cell::new(0), RefCell::default());
        Self { dir: own.join(DIR), days: 0, now_ms: 0, looked: None, bytes, came, fresh }
    }

    /// From now on what goes is kept for so many days.
    pub(super) fn keep_for(&mut self, days: u64) {
        (self.days, self.looked) = (days, None);
    }

    /// It is this time now; what is too old or too much goes. Who keeps nothing any more is left what is there.
    pub(super) fn begin(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.came.set(0);
        self.fresh.take();
        if self.days == 0 {
            return;
        }
        let limit = || limit(&self.dir, self.bytes.get());
        let due = self.looked.is_none_or(|at| now_ms.saturating_sub(at) >= LOOK_EVERY_MS);
        if due || self.bytes.get() > limit() {
            self.look(limit());
        }
    }

    /// Files that came since [`Trash::begin`].
    pub(super) fn came(&self) -> u64 {
        self.came.get()
    }

    /// A free name for what goes from this path; `None`: it is not kept.
    ///
    /// # Errors
    /// There is none. What was to go stays, then.
    pub(super) fn place(&self, path: &[u8]) -> io::Result<Option<PathBuf>> {
        if self.days == 0 {
            return Ok(None);
        }
        let mut why = io::ErrorKind::AlreadyExists.into();
        // Where the day has it already, or has something else on the way to it, the moment has not.
        let moments = (0..TRIES).map(|n| moment(self.now_ms.saturating_add(n)));
        for name in std::iter::once(day(self.now_ms)).chain(moments) {
            let dir = self.dir.join(name);
            fs::create_dir_all(&dir)?;
            match within(&dir, path, true) {
                Ok(at) if at.symlink_metadata().is_err() => return Ok(Some(at)),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotADirectory => why = e,
                Err(e) => return Err(e),
            }
        }
        Err(why)
    }

    /// It has come to the name that was given, and was this.
    pub(super) fn has(&self, path: PathBuf, what: &ItemKind) {
        let bytes = path.symlink_metadata().map_or(0, |meta| meta.len());
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        self.came.set(self.came.get() + 1);
        self.fresh.borrow_mut().push((path, what.clone()));
    }

    /// What came since [`Trash::begin`]; after this it is not known any more.
    pub(super) fn fresh(&self) -> Vec<(PathBuf, ItemKind)> {
        self.fresh.take()
    }

    /// What came to this name need not be kept: it is in the folder still. What can't be removed stays.
    pub(super) fn needs_not(&self, path: &Path) {
        let bytes = path.symlink_metadata().map_or(0, |meta| meta.len());
        if fs::remove_file(path).is_err() {
            return;
        }
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
        self.came.set(self.came.get().saturating_sub(1));
        // Nor need the directories that were made for it, the trash's own included.
        let above = path.ancestors().skip(1).take_while(|dir| dir.starts_with(&self.dir));
        let _ = above.map(fs::remove_dir).find(Result::is_err);
    }

    /// Looks it through. What can't be read or removed is left for the next time.
    fn look(&mut self, limit: u64) {
        self.looked = Some(self.now_ms);
        let mut kept = Vec::new();
        let age = Duration::from_millis(self.days.saturating_mul(DAY_MS));
        let oldest = (UNIX_EPOCH + Duration::from_millis(self.now_ms)).checked_sub(age);
        let mut dirs = vec![self.dir.clone()];
        let mut at = 0;
        while let Some(dir) = dirs.get(at).cloned() {
            at += 1;
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(meta) if meta.is_dir() => dirs.push(entry.path()),
                    Ok(meta) => kept.push(Kept {
                        since: came(&meta),
                        bytes: meta.len(),
                        path: entry.path(),
                    }),
                    Err(_) => {}
                }
            }
        }
        kept.sort_by_key(|kept| kept.since);
        let mut bytes: u64 = kept.iter().fold(0, |sum, kept| sum.saturating_add(kept.bytes));
        let most = if bytes > limit { limit / LEAVES.1 * LEAVES.0 } else { limit };
        for file in kept {
            let is_old = oldest.is_some_and(|oldest| file.since < oldest);
            if (is_old || bytes > most) && fs::remove_file(&file.path).is_ok() {
                bytes = bytes.saturating_sub(file.bytes);
            }
        }
        self.bytes.set(bytes);
        // What is empty goes; the last ones found are the innermost.
        dirs.iter().rev().for_each(|dir| drop(fs::remove_dir(dir)));
    }
}

/// When a file came: nothing but its name was changed since, and that changes this time.
#[cfg(unix)]
fn came(meta: &fs::Metadata) -> SystemTime {
    use std::os::unix::fs::MetadataExt;
    let since = Duration::from_secs(u64::try_from(meta.ctime()).unwrap_or(0));
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

#[cfg(not(unix))]
fn came(meta: &fs::Metadata) -> SystemTime {
    meta.modified().unwrap_or(UNIX_EPOCH)
}

/// Bytes that it may have, of which it has so many.
fn limit(dir: &Path, has: u64) -> u64 {
    let own = dir.parent().unwrap_or(dir);
    #[cfg(unix)]
    if let Ok(disk) = rustix::fs::statvfs(own) {
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        return (bytes(disk.f_blocks) / PART).min(bytes(disk.f_bavail).saturating_add(has) / 2);
    }
    let _ = (own, has);
    u64::MAX
}

/// `2026-11-24`, in UTC: the algorithm is Howard Hinnant's `civil_from_days`.
fn day(ms: u64) -> String {
    // From the first of March of the year 0: 400 years have 146,097 days.
    let days = ms / DAY_MS + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let years = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + years + next)
}

/// `2026-11-24T02-34-10.123`.
fn moment(ms: u64) -> String {
    let of_day = ms % DAY_MS;
    let (seconds, ms_of) = (of_day / 1_000, of_day % 1_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{}T{hours:02}-{minutes:02}-{:02}.{ms_of:03}", day(ms), seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_487_650_123;

    fn put(trash: &Trash, path: &str, content: &[u8]) -> PathBuf {
        let at = trash.place(path.as_bytes()).unwrap().unwrap();
        fs::write(&at, content).unwrap();
        trash.has(at.clone(), &ItemKind::Gone);
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
        // Whatever a clock says.
        assert!(!moment(u64::MAX).is_empty());
    }

    #[test]
    fn each_has_a_name_of_its_own_and_none_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut trash = Trash::none(dir.path());
        assert_eq!(trash.place(b"a").unwrap(), None);
        trash.keep_for(7);
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
        // A link that was removed leads nowhere.
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
    fn what_is_too_old_or_too_much_goes_the_oldest_first() {
        let dir = tempfile::tempdir().unwrap();
        let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = u64::try_from(since_1970().as_millis()).unwrap();
        let mut trash = Trash::none(dir.path());
        trash.keep_for(7);
        trash.begin(now);
        let old = put(&trash, "deep/er/old", &[1; 4_000]);
        // Its time is that of the last rename, in seconds.
        std::thread::sleep(Duration::from_millis(2_100));
        let new = put(&trash, "new", &[2; 5_000]);
        assert_eq!((trash.came(), trash.bytes.get()), (2, 9_000));
        trash.look(9_000);
        assert!(old.exists() && new.exists());
        trash.look(8_000);
        assert!(!old.exists() && new.exists());
        assert!(!dir.path().join("trash").join(day(now)).join("deep").exists());
        assert_eq!(trash.bytes.get(), 5_000);
        trash.begin(now + 6 * DAY_MS);
        assert!(new.exists());
        trash.begin(now + 7 * DAY_MS + 5_000);
        assert!(!new.exists() && !dir.path().join("trash").exists());
        trash.begin(now);
        let moved = put(&trash, "deep/er/moved", b"seven");
        trash.needs_not(&moved);
        assert_eq!((trash.came(), trash.bytes.get()), (0, 0));
        assert!(!dir.path().join("trash").exists());
        let again = put(&trash, "again", b"six");
        trash.keep_for(0);
        trash.begin(now + 7 * DAY_MS);
        assert!(again.exists() && trash.place(b"a").unwrap().is_none());
    }
}
