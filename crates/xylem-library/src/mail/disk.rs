//! Files of the mail store: each is there as a whole or not at all, on the disk before the call
//! returns, and only its owner reads it.
//!
//! Nothing is cached: several programs may have one store, and take turns by a lock on a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use xylem_store::{Clobber, DiskMedium, remove_unfinished, write_atomically};
use zeroize::Zeroizing;

use crate::Error;
use crate::failure;

/// A directory of such files.
pub struct Disk {
    root: PathBuf,
    /// Changes that still happen before all fail, as if the machine had stopped: for tests.
    #[cfg(test)]
    left: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

/// While this is kept, no other program changes the store.
pub struct Turn(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl Disk {
    /// Makes the directory if it is not there.
    pub fn open(root: PathBuf, directories: &[&str]) -> Result<Self, Error> {
        let disk = Self {
            root,
            #[cfg(test)]
            left: std::sync::Arc::new(usize::MAX.into()),
        };
        for directory in [""].iter().chain(directories) {
            let path = disk.path(directory);
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(&path).map_err(|e| trouble(&path, &e))?;
        }
        Ok(disk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Waits for the lock.
    pub fn lock(&self) -> Result<Turn, Error> {
        let path = self.path("lock");
        let open = || OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let locked = open().and_then(|file| file.lock().map(|()| Turn(file)));
        locked.map_err(|e| trouble(&path, &e))
    }

    /// A file of at most `limit` bytes; `None` if it is not there. A longer one is cut, which no
    /// reader takes for whole.
    pub fn read(&self, name: &str, limit: usize) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let path = self.path(name);
        let read = File::open(&path).and_then(|file| {
            let size = usize::try_from(file.metadata()?.len()).unwrap_or(limit).min(limit);
            // Enough room from the start: a vector that grows leaves copies of secrets behind.
            let mut bytes = Zeroizing::new(Vec::with_capacity(size + 64));
            file.take(limit as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        match read {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some).map_err(|e| trouble(&path, &e)),
        }
    }

    /// Writes a file, whatever was there before.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(name);
        self.count().map_err(|e| trouble(&path, &e))?;
        write_atomically(&DiskMedium::new(), &path, bytes, 0o600, Clobber::Replace)
            .map_err(|e| failure::store(&e))
    }

    /// Gives a file another name, of the same directory.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (self.path(from), self.path(to));
        let renamed = self.count().and_then(|()| fs::rename(&from, &to));
        renamed.and_then(|()| sync_above(&to)).map_err(|e| trouble(&to, &e))
    }

    /// Removes a file; none is as good.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match self.count().and_then(|()| fs::remove_file(&path)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(trouble(&path, &e)),
            Ok(()) => sync_above(&path).map_err(|e| trouble(&path, &e)),
        }
    }

    /// The names in a directory, in order; what a crash left unfinished is removed. None for a
    /// directory that is not there.
    pub fn list(&self, directory: &str) -> Result<Vec<String>, Error> {
        let path = self.path(directory);
        let (disk, mut names) = (DiskMedium::new(), Vec::new());
        let entries = match fs::read_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(names),
            other => other.map_err(|e| trouble(&path, &e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| trouble(&path, &e))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // None of ours begins with a dot; an older program's unfinished ones do.
            if !remove_unfinished(&disk, &entry.path()) && !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Makes a directory below one that is there.
    pub fn make_directory(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(trouble(&path, &e)),
            _ => Ok(()),
        }
    }

    /// Removes a directory if nothing is in it.
    pub fn remove_directory(&self, name: &str) {
        let _ = fs::remove_dir(self.path(name));
    }

    #[cfg(test)]
    pub fn fail_after(&self, changes: usize) {
        self.left.store(changes, std::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(test)]
    fn count(&self) -> io::Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        let left = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("the machine stopped"))
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests count")]
    fn count(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A name is on the disk when its directory is.
fn sync_above(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn trouble(path: &Path, e: &io::Error) -> Error {
    failure::local(&path.display().to_string(), e)
}
