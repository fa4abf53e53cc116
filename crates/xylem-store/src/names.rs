//! [`FolderNames`]: the names in one directory, in the order of a listing.
//!
//! A listing is sorted by whole paths, so the content of the directory `a` comes after its neighbour `a-b`: `a`, `a-b`,
//! `a/c`. A directory therefore has two places among its neighbours: its own, and that of its content, under its name
//! and a slash. All names share one buffer: a directory of a million files takes a few tens of megabytes. No metadata
//! is read here and no directory is entered.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::medium::{FileKind, Medium};
use crate::sweep::os_bytes;

/// One step through a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderVisit<'a> {
    /// A name, and its kind.
    Name(&'a [u8], FileKind),
    /// The content of the directory of this name, which was visited before.
    Inside(&'a [u8]),
}

/// The names in one directory in canonical order.
#[derive(Debug, Default)]
pub struct FolderNames {
    bytes: Vec<u8>,
    items: Vec<NameItem>,
}

/// A name in the buffer. That of a directory's content ends in a slash.
#[derive(Debug, Clone, Copy)]
struct NameItem {
    start: u32,
    len: u16,
    kind: FileKind,
}

impl FolderNames {
    /// Reads the directory at `path`. Names for which `keep` is false are left out.
    ///
    /// # Errors
    /// The medium's; `FileTooLarge` for names of 4 GiB in total.
    pub fn read(
        medium: &dyn Medium,
        path: &Path,
        keep: &mut dyn FnMut(&OsStr, FileKind) -> bool,
    ) -> io::Result<Self> {
        let mut names = Self::default();
        let mut too_large = false;
        medium.for_each_name(path, &mut |name, kind| {
            if keep(name, kind) {
                let bytes = os_bytes(name);
                too_large |= !names.push(bytes, false, kind);
                if kind == FileKind::Directory {
                    too_large |= !names.push(bytes, true, kind);
                }
            }
        })?;
        if too_large {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let Self { bytes, items } = &mut names;
        items.sort_unstable_by(|a, b| a.bytes(bytes).cmp(b.bytes(bytes)));
        Ok(names)
    }

    fn push(&mut self, name: &[u8], inside: bool, kind: FileKind) -> bool {
        let len = name.len() + usize::from(inside);
        let (Ok(start), Ok(len)) = (u32::try_from(self.bytes.len()), u16::try_from(len)) else {
            return false;
        };
        self.bytes.extend_from_slice(name);
        if inside {
            self.bytes.push(b'/');
        }
        self.items.push(NameItem { start, len, kind });
        true
    }

    /// Number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Step `i`; `None` past the last.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<FolderVisit<'_>> {
        let item = self.items.get(i)?;
        let name = item.bytes(&self.bytes);
        Some(match name.split_last() {
            Some((b'/', name)) => FolderVisit::Inside(name),
            _ => FolderVisit::Name(name, item.kind),
        })
    }

    /// All names, each once, in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|i| match self.get(i) {
            Some(FolderVisit::Name(name, _)) => Some(name),
            _ => None,
        })
    }
}

impl NameItem {
    fn bytes<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let start = self.start as usize;
        &bytes[start..start + usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskMedium;

    #[test]
    fn a_folder_s_content_comes_after_neighbours_that_sort_before_a_slash() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "a-b", "b"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["a.x", "a0", "left out"] {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        let mut keep = |name: &OsStr, _| name != "left out";
        let names = FolderNames::read(&DiskMedium::new(), dir.path(), &mut keep).unwrap();
        let steps: Vec<_> = (0..names.len()).map(|i| names.get(i).unwrap()).collect();
        let folder = |name| FolderVisit::Name(name, FileKind::Directory);
        let file = |name| FolderVisit::Name(name, FileKind::File);
        let wanted = [
            folder(b"a"),
            folder(b"a-b"),
            FolderVisit::Inside(b"a-b"),
            file(b"a.x"),
            FolderVisit::Inside(b"a"),
            file(b"a0"),
            folder(b"b"),
            FolderVisit::Inside(b"b"),
        ];
        assert_eq!(steps, wanted);
        assert_eq!(names.get(steps.len()), None);
        assert!(names.names().eq([&b"a"[..], b"a-b", b"a.x", b"a0", b"b"]));
    }
}
