//! Files of the mail store: each is there as a whole or not at all, on the disk before the call
//! returns, and only its owner reads it.
//!
//! Nothing is cached: several programs may have one store, and take turns by a lock on a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::Error;
use crate::failure;

/// Marks files that are not whole yet; a crash may leave some.
const UNFINISHED: &str = ".new-";

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
        self.write_whole(&path, bytes).map_err(|e| trouble(&path, &e))
    }

    fn write_whole(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (directory, name) = place(path);
        let temporary = directory.join(format!("{UNFINISHED}{}-{name}", std::process::id()));
        self.count()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| self.count())
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() && self.works() {
            let _ = fs::remove_file(&temporary);
        }
        written.and_then(|()| sync(directory))
    }

    /// Gives a file another name, of the same directory.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (self.path(from), self.path(to));
        let renamed = self.count().and_then(|()| fs::rename(&from, &to));
        renamed.and_then(|()| sync(place(&to).0)).map_err(|e| trouble(&to, &e))
    }

    /// Removes a file; none is as good.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match self.count().and_then(|()| fs::remove_file(&path)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(trouble(&path, &e)),
            Ok(()) => sync(place(&path).0).map_err(|e| trouble(&path, &e)),
        }
    }

    /// The names in a directory, in order; what a crash left unfinished is removed. None for a
    /// directory that is not there.
    pub fn list(&self, directory: &str) -> Result<Vec<String>, Error> {
        let path = self.path(directory);
        let mut names = Vec::new();
        let entries = match fs::read_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(names),
            other => other.map_err(|e| trouble(&path, &e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| trouble(&path, &e))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !name.starts_with(UNFINISHED) {
                names.push(name);
            } else if !name.starts_with(&format!("{UNFINISHED}{}-", std::process::id())) {
                // Another program's, which is at work only while it has the lock: so have we.
                let _ = fs::remove_file(entry.path());
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

    #[cfg(test)]
    fn works(&self) -> bool {
        self.left.load(std::sync::atomic::Ordering::Relaxed) > 0
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests count")]
    fn count(&self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests count")]
    fn works(&self) -> bool {
        true
    }
}

/// The directory and the name of a path that [`Disk::path`] made.
fn place(path: &Path) -> (&Path, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (path.parent().unwrap_or(Path::new(".")), name)
}

/// A name is on the disk when its directory is.
fn sync(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn trouble(path: &Path, e: &io::Error) -> Error {
    failure::local(&path.display().to_string(), e)
}
