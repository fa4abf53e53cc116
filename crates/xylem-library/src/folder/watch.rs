//! [`Watcher`]: waits until something below a directory changes.

use std::io;
use std::path::Path;

/// Tells when something below a directory has changed.
pub struct Watcher(imp::Watcher);

impl Watcher {
    /// Watches `root` with everything in it but `not`, a name in it, and the directory `beside`.
    ///
    /// # Errors
    /// The system's: on Linux above all that it watches as many directories as it may.
    pub fn new(root: &Path, not: &str, beside: &Path) -> io::Result<Self> {
        imp::Watcher::new(root, not, beside).map(Self)
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&mut self) -> io::Result<()> {
        self.0.wait()
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::collections::HashMap;
    use std::ffi::OsStr;
    use std::fs;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use rustix::fd::OwnedFd;
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

    pub(super) struct Watcher {
        inotify: OwnedFd,
        folders: HashMap<i32, PathBuf>,
        root: PathBuf,
        not: PathBuf,
        buffer: Box<[MaybeUninit<u8>]>,
    }

    impl Watcher {
        pub(super) fn new(root: &Path, not: &str, beside: &Path) -> io::Result<Self> {
            let inotify = inotify::init(CreateFlags::CLOEXEC)?;
            let (folders, not) = (HashMap::new(), root.join(not));
            let buffer = vec![MaybeUninit::uninit(); 16 * 1024].into();
            let mut watcher = Self { inotify, folders, root: root.to_path_buf(), not, buffer };
            watcher.add(beside)?;
            watcher.add_all(root)?;
            Ok(watcher)
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

        /// What vanishes meanwhile needs no watch, and what can't be read is not shared.
        fn add_all(&mut self, folder: &Path) -> io::Result<()> {
            if folder == self.not {
                return Ok(());
            }
            match self.add(folder) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::StorageFull => return Err(e),
                Err(_) => return Ok(()),
            }
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.add_all(&entry.path())?;
                }
            }
            Ok(())
        }

        pub(super) fn wait(&mut self) -> io::Result<()> {
            let mut new = Vec::new();
            let mut reader = Reader::new(&self.inotify, &mut self.buffer);
            loop {
                let event = match reader.next() {
                    Err(rustix::io::Errno::INTR) => continue,
                    event => event?,
                };
                let appeared = ReadFlags::CREATE | ReadFlags::MOVED_TO;
                if event.events().contains(ReadFlags::ISDIR)
                    && event.events().intersects(appeared)
                    && let (Some(folder), Some(name)) =
                        (self.folders.get(&event.wd()), event.file_name())
                {
                    new.push(folder.join(OsStr::from_bytes(name.to_bytes())));
                }
                if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                    // Which folders have come meanwhile nobody tells.
                    new.push(self.root.clone());
                }
                if event.events().contains(ReadFlags::IGNORED) {
                    self.folders.remove(&event.wd());
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
            new.iter().try_for_each(|folder| self.add_all(folder))
        }
    }
}

/// Elsewhere it is looked at now and then.
#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::path::Path;
    use std::thread;
    use std::time::Duration;

    /// How often.
    const LOOK: Duration = Duration::from_secs(5);

    pub(super) struct Watcher;

    impl Watcher {
        pub(super) fn new(_root: &Path, _not: &str, _beside: &Path) -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn wait(&mut self) -> io::Result<()> {
            thread::sleep(LOOK);
            Ok(())
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn changes_wake_whoever_waits() {
        let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::create_dir_all(dir.path().join("not")).unwrap();
        let mut watcher = Watcher::new(dir.path(), "not", beside.path()).unwrap();
        fs::write(dir.path().join("a/b/file"), "x").unwrap();
        watcher.wait().unwrap();
        // A folder that came later is watched as well, with those that are in it by then.
        fs::create_dir_all(dir.path().join("c/d")).unwrap();
        watcher.wait().unwrap();
        fs::write(dir.path().join("c/d/file"), "x").unwrap();
        watcher.wait().unwrap();
        fs::write(beside.path().join("file"), "x").unwrap();
        watcher.wait().unwrap();
    }

    /// Linux keeps so many changes for who does not read them, and then says only that there were more.
    #[test]
    fn a_folder_that_came_among_too_many_changes_is_watched() {
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let most: usize = most.trim().parse().unwrap();
        let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut watcher = Watcher::new(dir.path(), "not", beside.path()).unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::write(&one, "x").unwrap();
        for _ in 0..most / 4 + 1 {
            // Two changes each.
            fs::rename(&one, &other).unwrap();
            fs::rename(&other, &one).unwrap();
        }
        fs::create_dir_all(dir.path().join("late/d")).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let wait = move || while watcher.wait().is_ok() && tell.send(()).is_ok() {};
        std::thread::Builder::new().spawn(wait).unwrap();
        let quiet = std::time::Duration::from_millis(500);
        while told.recv_timeout(quiet).is_ok() {}
        fs::write(dir.path().join("late/d/file"), "x").unwrap();
        told.recv_timeout(quiet * 20).expect("a change in a folder that is watched");
    }
}
