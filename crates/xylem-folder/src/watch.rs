//! [`FolderWatcher`]: waits for changes below a directory, and reports the changed paths.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most paths that are reported one by one.
const MAX_TOLD: usize = 256;

/// Changed paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Exactly these paths; none, if nothing changed until the timeout.
    Paths(BTreeSet<PathBuf>),
    /// Too many paths to report, or unknown ones.
    Much,
}

impl Watched {
    /// Adds the changes of `other`.
    pub fn join(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Paths(ours), Self::Paths(theirs)) if ours.len() + theirs.len() <= MAX_TOLD => {
                ours.extend(theirs);
            }
            _ => *self = Self::Much,
        }
    }

    /// Returns whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Paths(paths) if paths.is_empty())
    }
}

/// Waits for changes below a directory.
pub struct FolderWatcher(imp::Watcher);

impl FolderWatcher {
    /// Watches `root` with everything in it except the name `not`, and also the directory `beside`.
    ///
    /// # Errors
    /// The system's; on Linux mostly that the limit of watched directories is reached.
    pub fn new(root: &Path, not: &str, beside: &Path) -> io::Result<Self> {
        imp::Watcher::new(root, not, beside).map(Self)
    }

    /// Waits for the next change, at most this long.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&mut self, most: Duration) -> io::Result<Watched> {
        self.0.wait(most)
    }

    /// Watches directories again, including those that appeared without a report: for example below a new mount, or
    /// readable only now.
    ///
    /// # Errors
    /// As for [`FolderWatcher::new`].
    pub fn watch_again(&mut self) -> io::Result<()> {
        self.0.watch_again()
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::collections::{BTreeSet, HashMap};
    use std::ffi::OsStr;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fd::OwnedFd;
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

    use xylem_base::disk;
    use xylem_store::FileKind;

    use super::Watched;

    pub(super) struct Watcher {
        inotify: OwnedFd,
        pub(super) folders: HashMap<i32, PathBuf>,
        root: PathBuf,
        not: PathBuf,
        buffer: Box<[MaybeUninit<u8>]>,
    }

    impl Watcher {
        pub(super) fn new(root: &Path, not: &str, beside: &Path) -> io::Result<Self> {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let (folders, not) = (HashMap::new(), root.join(not));
            let buffer = vec![MaybeUninit::uninit(); 16 * 1024].into();
            let mut watcher = Self { inotify, folders, root: root.to_path_buf(), not, buffer };
            watcher.add(beside)?;
            watcher.watch_again()?;
            Ok(watcher)
        }

        pub(super) fn watch_again(&mut self) -> io::Result<()> {
            self.add_all(&self.root.clone())
        }

        fn add(&mut self, folder: &Path) -> io::Result<()> {
            let flags = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MODIFY
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::ATTRIB
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            let number = inotify::add_watch(&self.inotify, folder, flags)?;
            self.folders.insert(number, folder.to_path_buf());
            Ok(())
        }

        /// Watches a directory and all below it. A directory that disappears meanwhile needs no watch, and an
        /// unreadable one is not shared.
        fn add_all(&mut self, folder: &Path) -> io::Result<()> {
            if folder == self.not {
                return Ok(());
            }
            match self.add(folder) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::StorageFull => return Err(e),
                Err(_) => return Ok(()),
            }
            for entry in disk().list_dir(folder).unwrap_or_default() {
                if entry.kind == FileKind::Directory {
                    self.add_all(&folder.join(entry.name))?;
                }
            }
            Ok(())
        }

        /// Returns whether there is something to read before `most` has passed.
        fn is_ready(&self, most: Duration) -> io::Result<bool> {
            let most = Timespec {
                tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: most.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], Some(&most)) {
                Err(rustix::io::Errno::INTR) => Ok(false),
                ready => Ok(ready? > 0),
            }
        }

        pub(super) fn wait(&mut self, most: Duration) -> io::Result<Watched> {
            let mut changed = Watched::Paths(BTreeSet::new());
            if !self.is_ready(most)? {
                return Ok(changed);
            }
            let mut new = Vec::new();
            let mut reader = Reader::new(&self.inotify, &mut self.buffer);
            loop {
                let event = match reader.next() {
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(rustix::io::Errno::AGAIN) => break,
                    event => event?,
                };
                if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                    // The overflow hides which directories appeared meanwhile.
                    new.push(self.root.clone());
                    changed = Watched::Much;
                }
                if let Some(folder) = self.folders.get(&event.wd()) {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    let path = name.map_or_else(|| folder.clone(), |name| folder.join(name));
                    // A directory that appeared, or that can be read now.
                    let opened = ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::ATTRIB;
                    if event.events().contains(ReadFlags::ISDIR)
                        && event.events().intersects(opened)
                    {
                        new.push(path.clone());
                    }
                    changed.join(Watched::Paths(BTreeSet::from([path])));
                }
                if event.events().contains(ReadFlags::IGNORED) {
                    self.folders.remove(&event.wd());
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
            new.iter().try_for_each(|folder| self.add_all(folder))?;
            Ok(changed)
        }
    }
}

/// On other systems, the caller scans periodically.
#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::path::Path;
    use std::thread;
    use std::time::Duration;

    use super::Watched;

    /// Time between scans.
    const LOOK: Duration = Duration::from_secs(5);

    pub(super) struct Watcher;

    impl Watcher {
        pub(super) fn new(_root: &Path, _not: &str, _beside: &Path) -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn watch_again(&mut self) -> io::Result<()> {
            Ok(())
        }

        pub(super) fn wait(&mut self, most: Duration) -> io::Result<Watched> {
            thread::sleep(LOOK.min(most));
            Ok(Watched::Much)
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn changes_wake_the_watcher() {
        let long = Duration::from_secs(60);
        let paths = |paths: &[std::path::PathBuf]| Watched::Paths(paths.iter().cloned().collect());
        let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::create_dir_all(dir.path().join("not")).unwrap();
        let mut watcher = FolderWatcher::new(dir.path(), "not", beside.path()).unwrap();
        assert!(watcher.wait(Duration::ZERO).unwrap().is_empty());
        let file = dir.path().join("a/b/file");
        fs::write(&file, "x").unwrap();
        assert_eq!(watcher.wait(long).unwrap(), paths(&[file]));
        // A directory that appears later is watched as well, with those in it by then.
        fs::create_dir_all(dir.path().join("c/d")).unwrap();
        assert!(!watcher.wait(long).unwrap().is_empty());
        fs::write(dir.path().join("c/d/file"), "x").unwrap();
        assert!(!watcher.wait(long).unwrap().is_empty());
        fs::write(beside.path().join("file"), "x").unwrap();
        assert!(!watcher.wait(long).unwrap().is_empty());
    }

    /// Linux queues a limited number of changes, and reports only an overflow beyond it.
    #[test]
    fn a_new_folder_is_watched_after_a_queue_overflow() {
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let most: usize = most.trim().parse().unwrap();
        let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut watcher = FolderWatcher::new(dir.path(), "not", beside.path()).unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::write(&one, "x").unwrap();
        for _ in 0..most / 4 + 1 {
            // Two changes each.
            fs::rename(&one, &other).unwrap();
            fs::rename(&other, &one).unwrap();
        }
        fs::create_dir_all(dir.path().join("late/d")).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let wait = move || {
            while let Ok(changed) = watcher.wait(Duration::from_secs(60)) {
                if changed.is_empty() || tell.send(()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().spawn(wait).unwrap();
        let quiet = std::time::Duration::from_millis(500);
        while told.recv_timeout(quiet).is_ok() {}
        fs::write(dir.path().join("late/d/file"), "x").unwrap();
        told.recv_timeout(quiet * 20).expect("a change in a folder that is watched");
    }

    /// A directory becomes readable. Root can read everything, so the test makes the watcher forget the directory
    /// instead.
    #[test]
    fn a_directory_whose_mode_changes_is_watched() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let long = Duration::from_secs(60);
        fs::create_dir_all(dir.path().join("d/e")).unwrap();
        let mut watcher = FolderWatcher::new(dir.path(), "not", beside.path()).unwrap();
        let set = |mode| {
            fs::set_permissions(dir.path().join("d"), fs::Permissions::from_mode(mode)).unwrap();
        };
        set(0);
        while !watcher.wait(Duration::from_millis(100)).unwrap().is_empty() {}
        // Forgets the directory, as if it could never be watched.
        let watched = &mut watcher.0;
        watched.folders.retain(|_, folder| !folder.starts_with(dir.path().join("d")));
        set(0o700);
        assert!(!watcher.wait(long).unwrap().is_empty());
        let file = dir.path().join("d/e/file");
        fs::write(&file, "x").unwrap();
        let told = watcher.wait(long).unwrap();
        assert!(matches!(&told, Watched::Paths(paths) if paths.contains(&file)), "{told:?}");
    }

    #[test]
    fn too_many_paths_are_reported_as_one() {
        let one =
            |n: usize| Watched::Paths(BTreeSet::from([std::path::PathBuf::from(n.to_string())]));
        let mut all = Watched::Paths(BTreeSet::new());
        (0..MAX_TOLD).for_each(|n| all.join(one(n)));
        assert!(matches!(&all, Watched::Paths(paths) if paths.len() == MAX_TOLD));
        all.join(one(MAX_TOLD));
        assert_eq!(all, Watched::Much);
        all.join(one(0));
        assert_eq!(all, Watched::Much);
    }
}
