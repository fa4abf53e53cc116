//! Resolves paths below a directory, and finds out how its disk treats names and permissions. No operation follows a
//! symbolic link, or touches another file that the disk takes for the same name.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{FileMedium, os_path};
use xylem_store::{Clobber, FileKind, Medium, OpenHow};

/// Permissions with which an owner may list a directory and change its entries.
const OWNER: u32 = 0o700;
/// Name of the file that probes a disk, and names that a disk may take for the same: another case, another Unicode
/// form.
const TRIED: &str = "tried-\u{e9}";
const SAME: [&str; 2] = ["TRIED-\u{e9}", "tried-e\u{301}"];
/// Permission bits of a new file, before the umask.
const NEW_FILE: u32 = 0o666;
/// Permission bits of a new directory, before the umask.
pub(super) const NEW_DIRECTORY: u32 = 0o777;
/// Permissions that no disk gives to a file by default.
const ODD: u32 = 0o610;

/// How missing parent directories of a path are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parents {
    /// A missing one is an error.
    Exist,
    /// Missing ones are created.
    Create,
}

/// Returns the path below `root`.
///
/// # Errors
/// A parent is something else than a directory, a symbolic link included; or it is missing or cannot be created.
pub(super) fn within(
    medium: &dyn Medium,
    root: &Path,
    path: &[u8],
    parents: Parents,
) -> io::Result<PathBuf> {
    let whole = os_path(path);
    let mut at = root.to_path_buf();
    let mut components = whole.components().peekable();
    while let Some(component) = components.next() {
        at.push(component);
        if components.peek().is_none() {
            break;
        }
        match medium.metadata(&at) {
            Ok(meta) if meta.kind == FileKind::Directory => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && parents == Parents::Create => {
                medium.create_dir(&at, NEW_DIRECTORY)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(at)
}

/// Parent directories that deny their owner to list or change them. While this value lives, the owner may.
pub(super) struct UnlockedParents {
    medium: FileMedium,
    all: Vec<(PathBuf, u32)>,
}

impl UnlockedParents {
    pub(super) fn on_the_way(medium: &FileMedium, root: &Path, path: &[u8]) -> io::Result<Self> {
        let mut unlocked = Self { medium: medium.clone(), all: Vec::new() };
        let (whole, mut at) = (os_path(path), root.to_path_buf());
        let mut components = whole.components().peekable();
        while let Some(component) = components.next() {
            at.push(component);
            if components.peek().is_none() {
                break;
            }
            match medium.metadata(&at) {
                Ok(meta) if meta.kind == FileKind::Directory => {
                    if meta.mode & OWNER != OWNER {
                        medium.set_mode(&at, meta.mode | OWNER)?;
                        unlocked.all.push((at.clone(), meta.mode));
                    }
                }
                _ => break,
            }
        }
        Ok(unlocked)
    }
}

impl Drop for UnlockedParents {
    fn drop(&mut self) {
        for (path, mode) in self.all.iter().rev() {
            if is_directory(&*self.medium, path) {
                // A mode that cannot be restored is seen as a change at the next scan.
                let _ = self.medium.set_mode(path, *mode);
            }
        }
    }
}

/// Returns whether a directory is here; a symbolic link to one is none.
pub(super) fn is_directory(medium: &dyn Medium, path: &Path) -> bool {
    medium.metadata(path).is_ok_and(|meta| meta.kind == FileKind::Directory)
}

/// Renames to a free name; false if that is taken.
pub(super) fn rename_new(medium: &dyn Medium, from: &Path, to: &Path) -> io::Result<bool> {
    match medium.rename(from, to, Clobber::Never) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        renamed => renamed.map(|()| true),
    }
}

/// How a folder's disk treats names and permissions.
#[derive(Debug, Default)]
pub(super) struct DiskTraits {
    found: OnceCell<ProbeResult>,
    /// Names in directories that were listed since [`DiskTraits::forget`]. Empty where the disk keeps all names apart.
    names: RefCell<HashMap<PathBuf, HashSet<OsString>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ProbeResult {
    /// Different names may be one file.
    folds: bool,
    /// Permissions are kept as they are set.
    keeps_modes: bool,
}

impl DiskTraits {
    /// Probes the disk in the directory `own`, once.
    fn probe(&self, medium: &dyn Medium, own: &Path) -> ProbeResult {
        *self.found.get_or_init(|| {
            let at = own.join(TRIED);
            let tried = medium.open(&at, OpenHow::Create { mode: NEW_FILE });
            let tried = tried.and_then(|_| medium.set_mode(&at, ODD));
            let mode = medium.metadata(&at).map(|meta| meta.mode);
            let folds = SAME.iter().any(|name| medium.metadata(&own.join(name)).is_ok());
            let _ = medium.remove_file(&at);
            // If the probe fails, no file can be changed there either.
            let keeps_modes = tried.is_err() || mode.is_ok_and(|mode| mode == ODD);
            ProbeResult { folds, keeps_modes: cfg!(unix) && keeps_modes }
        })
    }

    /// Returns whether the disk of `own` keeps permissions as they are set.
    pub(super) fn keeps_modes(&self, medium: &dyn Medium, own: &Path) -> bool {
        self.probe(medium, own).keeps_modes
    }

    /// Forgets the names that were listed.
    pub(super) fn forget(&self) {
        self.names.borrow_mut().clear();
    }

    /// Checks that the path below `root` is free or has exactly this name, and so have all parent directories.
    ///
    /// # Errors
    /// The disk takes another name for the same; the system's.
    pub(super) fn check_exact_name(
        &self,
        medium: &dyn Medium,
        own: &Path,
        root: &Path,
        path: &[u8],
    ) -> io::Result<()> {
        if !self.probe(medium, own).folds {
            return Ok(());
        }
        let (whole, mut at) = (os_path(path), root.to_path_buf());
        for component in whole.components() {
            let dir = at.clone();
            at.push(component);
            match medium.metadata(&at) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(e) => return Err(e),
                Ok(_) => {}
            }
            let name = component.as_os_str();
            let is_known = |names: &HashMap<PathBuf, HashSet<OsString>>| {
                names.get(&dir).is_some_and(|names| names.contains(name))
            };
            if is_known(&self.names.borrow()) {
                continue;
            }
            let names = medium.list_dir(&dir)?.into_iter().map(|item| item.name);
            let names: HashSet<OsString> = names.collect();
            let other = (!names.contains(name)).then(|| alike(&names, &name.to_string_lossy()));
            self.names.borrow_mut().insert(dir, names);
            if let Some(other) = other {
                let why = format!("on this disk its name is the same as {other}");
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
        }
        Ok(())
    }
}

/// Finds the name that equals this one but for its case, as far as this can be decided here.
fn alike(names: &HashSet<OsString>, name: &str) -> String {
    let lower = name.to_lowercase();
    let mut names = names.iter().map(|name| name.to_string_lossy());
    let alike = names.find(|name| name.to_lowercase() == lower);
    alike.map_or_else(|| "another name".to_owned(), std::borrow::Cow::into_owned)
}
