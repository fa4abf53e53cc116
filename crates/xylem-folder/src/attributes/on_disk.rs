//! Reads and sets extended attributes on a disk. No call follows a symbolic link in the last component.

use std::io;
use std::path::Path;

use xylem_store::Medium;
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
use xylem_store::{FileKind, Meta};

use super::ExtendedAttributes;

/// Most bytes of the names of a file's attributes (Linux).
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
const MAX_LIST: usize = 64 * 1024;

/// Returns the error for a disk that keeps no attributes of the namespace.
fn unsupported() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this file system keeps no extended attributes of users",
    )
}

/// Returns the attributes of the namespace.
///
/// # Errors
/// They are too large; [`io::ErrorKind::Unsupported`] if the disk keeps none; the system's.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(super) fn read(at: &Path) -> io::Result<ExtendedAttributes> {
    use super::{AttributesError, MAX_ATTRIBUTES, is_attribute_name};
    use rustix::fs::{lgetxattr, llistxattr, llistxattr_query};
    use std::collections::BTreeMap;

    let len = llistxattr_query(at).map_err(system_error)?;
    if len == 0 {
        return Ok(ExtendedAttributes::default());
    }
    let mut list = vec![0; len.min(MAX_LIST)];
    let len = llistxattr(at, &mut list[..]).map_err(system_error)?;
    let names = list.get(..len).unwrap_or_default().split(|byte| *byte == 0);
    let mut value = vec![0; MAX_ATTRIBUTES];
    let mut all = BTreeMap::new();
    // Names that are not exchanged are not touched either.
    for name in names.filter(|name| is_attribute_name(name)) {
        let len = match lgetxattr(at, name, &mut value[..]) {
            Ok(len) => len,
            Err(rustix::io::Errno::RANGE) => {
                return Err(io::Error::other(AttributesError::TooLarge));
            }
            Err(e) => return Err(system_error(e)),
        };
        all.insert(name.to_vec(), value.get(..len).unwrap_or_default().to_vec());
    }
    ExtendedAttributes::new(all).map_err(io::Error::other)
}

/// Gives a file or directory that has the attributes `before` the attributes `after` instead.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] if the disk keeps none; the system's. Some of them may be set then.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(super) fn write(
    medium: &dyn Medium,
    at: &Path,
    before: &ExtendedAttributes,
    after: &ExtendedAttributes,
) -> io::Result<()> {
    use rustix::fs::{XattrFlags, lremovexattr, lsetxattr};

    let set = || -> io::Result<()> {
        // Removals come first, since they make room.
        for name in before.all().keys().filter(|name| !after.all().contains_key(*name)) {
            lremovexattr(at, &name[..]).map_err(system_error)?;
        }
        for (name, value) in after.all() {
            if before.all().get(name) != Some(value) {
                lsetxattr(at, &name[..], value, XattrFlags::empty()).map_err(system_error)?;
            }
        }
        Ok(())
    };
    match set() {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            // They can be set only on a file that can be written to. Its owner may grant itself that for this moment.
            let Meta { kind, mode, .. } = medium.metadata(at)?;
            if !matches!(kind, FileKind::File | FileKind::Directory) {
                return Err(e);
            }
            medium.set_mode(at, mode | 0o200)?;
            let done = set();
            medium.set_mode(at, mode)?;
            done
        }
        done => done,
    }
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn system_error(e: rustix::io::Errno) -> io::Error {
    use rustix::io::Errno;
    // Two of these are one on Linux.
    let is_unsupported = [Errno::NOTSUP, Errno::OPNOTSUPP, Errno::NOSYS].contains(&e);
    if is_unsupported { unsupported() } else { e.into() }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn read(_at: &Path) -> io::Result<ExtendedAttributes> {
    Err(unsupported())
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn write(
    _medium: &dyn Medium,
    _at: &Path,
    _before: &ExtendedAttributes,
    _after: &ExtendedAttributes,
) -> io::Result<()> {
    Err(unsupported())
}

/// For tests: returns whether files at this place can have attributes of users, and their text if they have them.
#[cfg(all(test, target_os = "linux"))]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, lremovexattr, lsetxattr};
    use std::io::Write;

    /// Returns whether the disk keeps attributes of users; a line reports that it does not.
    pub(crate) fn keeps_attributes(dir: &Path) -> bool {
        let keeps = lsetxattr(dir, "user.tried", b"", XattrFlags::empty()).is_ok();
        if keeps {
            lremovexattr(dir, "user.tried").unwrap();
        } else {
            let _ = writeln!(io::stderr(), "skipped: no extended attributes in {}", dir.display());
        }
        keeps
    }

    pub(crate) fn set(at: &Path, name: &str, value: &str) {
        lsetxattr(at, name, value.as_bytes(), XattrFlags::empty()).unwrap();
    }

    pub(crate) fn remove(at: &Path, name: &str) {
        lremovexattr(at, name).unwrap();
    }

    pub(crate) fn get(at: &Path) -> ExtendedAttributes {
        read(at).unwrap()
    }

    #[test]
    fn attributes_of_files_and_directories_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        if !keeps_attributes(dir.path()) {
            return;
        }
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, dir.path().join("link")).unwrap();
        let these = |all: &[(&str, &str)]| {
            let all = all.iter().map(|(name, value)| (Vec::from(*name), Vec::from(*value)));
            ExtendedAttributes::new(all.collect()).unwrap()
        };
        let (one, other) = (these(&[("user.a", "1"), ("user.b", "")]), these(&[("user.b", "2")]));
        for mode in [0o444, 0o600] {
            let disk = xylem_base::disk();
            for at in [&file, dir.path()] {
                disk.set_mode(at, mode | 0o100).unwrap();
                assert_eq!(read(at).unwrap(), these(&[]));
                for (before, after) in [(these(&[]), &one), (one.clone(), &other)] {
                    write(&*disk, at, &before, after).unwrap();
                    assert_eq!(read(at).unwrap(), *after);
                }
                assert!(read(&dir.path().join("link")).unwrap().all().is_empty(), "not followed");
                write(&*disk, at, &other, &these(&[])).unwrap();
                assert_eq!(disk.metadata(at).unwrap().mode, mode | 0o100);
            }
        }
        set(&file, "user.large", &"x".repeat(3_000));
        assert!(read(&file).is_ok());
        set(&file, "user.l", &"x".repeat(700));
        assert!(read(&file).is_ok());
        set(&file, &format!("user.{}", "x".repeat(200)), "");
        assert!(read(&file).is_ok());
        if lsetxattr(&file, "user.m", &[b'x'; 3_000], XattrFlags::empty()).is_ok() {
            assert!(read(&file).is_err(), "too large");
        }
        assert!(read(&dir.path().join("missing")).is_err());
        // /proc keeps none.
        let refused = write(&*xylem_base::disk(), Path::new("/proc/self/comm"), &these(&[]), &one)
            .unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported, "{refused}");
    }
}
