//! Resolves paths below a directory, and finds out how its disk treats names and permissions. No operation follows a
//! symbolic link, or touches another file that the disk takes for the same name.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use xylem_base::os_path;

/// Permissions with which an owner may list a directory and change its entries.
const OWNER: u32 = 0o700;
/// Name of the file that probes a disk, and names that a disk may take for the same: another case, another Unicode
/// form.
const TRIED: &str = "tried-\u{e9}";
const SAME: [&str; 2] = ["TRIED-\u{e9}", "tried-e\u{301}"];
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
pub(super) fn within(root: &Path, path: &[u8], parents: Parents) -> io::Result<PathBuf> {
    let whole = os_path(path);
    let mut at = root.to_path_buf();
    let mut components = whole.components().peekable();
    while let Some(component) = components.next() {
        at.push(component);
        if components.peek().is_none() {
            break;
        }
        match at.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && parents == Parents::Create => {
                fs::create_dir(&at)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(at)
}

/// Parent directories that deny their owner to list or change them. While this value lives, the owner may.
pub(super) struct UnlockedParents(Vec<(PathBuf, u32)>);

impl UnlockedParents {
    pub(super) fn on_the_way(root: &Path, path: &[u8]) -> io::Result<Self> {
        let mut all = Self(Vec::new());
        let (whole, mut at) = (os_path(path), root.to_path_buf());
        let mut components = whole.components().peekable();
        while let Some(component) = components.next() {
            at.push(component);
            if components.peek().is_none() {
                break;
            }
            match at.symlink_metadata() {
                Ok(meta) if meta.is_dir() => {
                    let mode = mode_of(&meta);
                    if mode & OWNER != OWNER {
                        set_mode(&at, mode | OWNER)?;
                        all.0.push((at.clone(), mode));
                    }
                }
                _ => break,
            }
        }
        Ok(all)
    }
}

impl Drop for UnlockedParents {
    fn drop(&mut self) {
        for (path, mode) in self.0.iter().rev() {
            if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                // A mode that cannot be restored is seen as a change at the next scan.
                let _ = set_mode(path, *mode);
            }
        }
    }
}

/// Returns all permission bits, set-user-id, set-group-id and sticky included.
#[cfg(unix)]
pub(super) fn mode_of(meta: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o7777
}

#[cfg(not(unix))]
pub(super) fn mode_of(_meta: &fs::Metadata) -> u32 {
    OWNER
}

#[cfg(unix)]
pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(super) fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
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
    fn probe(&self, own: &Path) -> ProbeResult {
        *self.found.get_or_init(|| {
            let at = own.join(TRIED);
            let tried = File::create(&at).and_then(|_| set_mode(&at, ODD));
            let mode = at.symlink_metadata().map(|meta| mode_of(&meta));
            let folds = SAME.iter().any(|name| own.join(name).symlink_metadata().is_ok());
            let _ = fs::remove_file(&at);
            // If the probe fails, no file can be changed there either.
            let keeps_modes = tried.is_err() || mode.is_ok_and(|mode| mode == ODD);
            ProbeResult { folds, keeps_modes: cfg!(unix) && keeps_modes }
        })
    }

    /// Returns whether the disk of `own` keeps permissions as they are set.
    pub(super) fn keeps_modes(&self, own: &Path) -> bool {
        self.probe(own).keeps_modes
    }

    /// Forgets the names that were listed.
    pub(super) fn forget(&self) {
        self.names.borrow_mut().clear();
    }

    /// Checks that the path below `root` is free or has exactly this name, and so have all parent directories.
    ///
    /// # Errors
    /// The disk takes another name for the same; the system's.
    pub(super) fn check_exact_name(&self, own: &Path, root: &Path, path: &[u8]) -> io::Result<()> {
        if !self.probe(own).folds {
            return Ok(());
        }
        let (whole, mut at) = (os_path(path), root.to_path_buf());
        for component in whole.components() {
            let dir = at.clone();
            at.push(component);
            match at.symlink_metadata() {
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
            let names = fs::read_dir(&dir)?.map(|entry| entry.map(|entry| entry.file_name()));
            let names: HashSet<OsString> = names.collect::<io::Result<_>>()?;
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
