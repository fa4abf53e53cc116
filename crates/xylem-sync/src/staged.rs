//! [`Staged`]: content that has arrived and is not in its place yet, by its root: whole files, and parts of interrupted ones. Verified
//! content is kept until no member's version needs it, whichever version of which folder it came with.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{FileMedium, os_path};
use xylem_folder::holds_content;
use xylem_hash::Hash;
use xylem_store::{Clobber, FileKind, Medium};

/// Suffix after the root for a part of a file.
const PART: &str = ".part";
/// Suffix of a name that is being written.
const NEW: &str = ".new";

/// See the module's documentation.
pub(crate) struct Staged {
    medium: FileMedium,
    dir: PathBuf,
    /// Roots of files that were verified in this run.
    proven: HashSet<Hash>,
}

impl Staged {
    /// Opens the content in `dir`. Content of an earlier run is not trusted before it is verified.
    pub(crate) fn at(medium: &FileMedium, dir: PathBuf) -> Self {
        Self { medium: medium.clone(), dir, proven: HashSet::new() }
    }

    fn is_file(&self, path: &Path) -> bool {
        self.medium.metadata(path).is_ok_and(|meta| meta.kind == FileKind::File)
    }

    /// Gives a file another name in the directory; a file of that name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.medium.rename(from, to, Clobber::Replace)
    }

    fn make_dir(&self) -> io::Result<()> {
        match self.medium.create_dir(&self.dir, 0o777) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// The directory of whole files, each named by its root.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn whole_at(&self, root: &Hash) -> PathBuf {
        self.dir.join(root.to_string())
    }

    fn part_at(&self, root: &Hash) -> PathBuf {
        self.dir.join(format!("{root}{PART}"))
    }

    /// Whether all of this content is here. It is verified once in a run.
    pub(crate) fn has(&mut self, root: &Hash) -> bool {
        let path = self.whole_at(root);
        if self.proven.contains(root) {
            if self.is_file(&path) {
                return true;
            }
            self.proven.remove(root);
            return false;
        }
        if !self.is_file(&path) {
            return false;
        }
        if holds_content(&*self.medium, &path, root) {
            self.proven.insert(*root);
            return true;
        }
        // Perhaps a loss of power before it was on the disk: keep it as a part.
        let _ = self.rename(&path, &self.part_at(root));
        false
    }

    /// The parts of contents that have not arrived completely.
    pub(crate) fn parts(&self, wanted: &HashMap<Hash, Vec<u8>>) -> HashMap<Hash, PathBuf> {
        let parts = wanted.keys().map(|root| (*root, self.part_at(root)));
        parts.filter(|(_, path)| self.is_file(path)).collect()
    }

    /// Copies a file that may hold this content; returns whether it does.
    pub(crate) fn copy(&mut self, from: &Path, root: &Hash) -> io::Result<bool> {
        self.make_dir()?;
        let new = self.dir.join(format!("{root}{NEW}"));
        let copied = self.medium.copy(from, &new);
        let is_it = copied.is_ok() && holds_content(&*self.medium, &new, root);
        if is_it {
            self.rename(&new, &self.whole_at(root))?;
            self.proven.insert(*root);
        } else {
            let _ = self.medium.remove_file(&new);
        }
        copied.map(|()| is_it)
    }

    /// Takes content that a fetch has put into the directory `fetched`, each at its path of `wanted`. The fetch has
    /// verified all that is there.
    pub(crate) fn take(
        &mut self,
        fetched: &Path,
        wanted: &HashMap<Hash, Vec<u8>>,
    ) -> io::Result<()> {
        self.make_dir()?;
        // A fetched directory has the permissions of the original, which may forbid removal.
        permit_all(&*self.medium, fetched);
        for (root, path) in wanted {
            match self.rename(&fetched.join(os_path(path)), &self.whole_at(root)) {
                Ok(()) => {
                    self.proven.insert(*root);
                    let _ = self.medium.remove_file(&self.part_at(root));
                }
                // The fetch has refused this path.
                Err(e) if is_absent(&e) => {}
                Err(e) => return Err(e),
            }
        }
        remove_tree(&*self.medium, fetched)
    }

    /// Takes what a failed or interrupted fetch has left in `fetched`: whole files, and parts.
    pub(crate) fn keep(
        &mut self,
        fetched: &Path,
        wanted: &HashMap<Hash, Vec<u8>>,
    ) -> io::Result<()> {
        if self.medium.metadata(fetched).is_err() {
            return Ok(());
        }
        self.make_dir()?;
        permit_all(&*self.medium, fetched);
        for (root, path) in wanted {
            let from = fetched.join(os_path(path));
            if !self.is_file(&from) {
                continue;
            }
            if holds_content(&*self.medium, &from, root) {
                self.rename(&from, &self.whole_at(root))?;
                self.proven.insert(*root);
            } else {
                self.rename(&from, &self.part_at(root))?;
            }
        }
        remove_tree(&*self.medium, fetched)
    }

    /// Drops all content except `wanted`. What cannot be removed is tried another time.
    pub(crate) fn keep_only(&mut self, wanted: &HashSet<Hash>) {
        for entry in self.medium.list_dir(&self.dir).unwrap_or_default() {
            let name = entry.name.to_string_lossy();
            let root = name.strip_suffix(PART).unwrap_or(&name).parse::<Hash>().ok();
            if root.is_none_or(|root| !wanted.contains(&root)) {
                let _ = self.medium.remove_file(&self.dir.join(&entry.name));
            }
        }
        self.proven.retain(|root| wanted.contains(root));
        let _ = self.medium.remove_dir(&self.dir);
    }
}

fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Removes a directory of ours with all that is in it, even if its directories are write-protected.
pub(crate) fn remove_tree(medium: &dyn Medium, dir: &Path) -> io::Result<()> {
    xylem_store::remove_tree(medium, dir).map_err(io::Error::other)
}

/// Gives us all rights to a directory and to those below it.
fn permit_all(medium: &dyn Medium, dir: &Path) {
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let _ = medium.set_mode(&dir, 0o700);
        for entry in medium.list_dir(&dir).unwrap_or_default() {
            if entry.kind == FileKind::Directory {
                dirs.push(dir.join(entry.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn hash(content: &[u8]) -> Hash {
        xylem_hash::hash(content)
    }

    #[test]
    fn staged_content_counts_only_after_verification() {
        let dir = tempfile::tempdir().unwrap();
        let (fetched, at) = (dir.path().join("fetched"), dir.path().join("staged"));
        fs::create_dir_all(fetched.join("d")).unwrap();
        fs::write(fetched.join("d/whole"), "whole").unwrap();
        fs::write(fetched.join("part"), "par").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let read_only = fs::Permissions::from_mode(0o555);
            fs::set_permissions(fetched.join("d"), read_only).unwrap();
        }
        let (whole, part, none) = (hash(b"whole"), hash(b"part"), hash(b"none"));
        let wanted = [(whole, "d/whole"), (part, "part"), (none, "none")];
        let wanted: HashMap<_, _> = wanted.map(|(root, path)| (root, path.into())).into();
        let mut staged = Staged::at(&FileMedium::default(), at.clone());
        staged.keep(&fetched, &wanted).unwrap();
        assert!(!fetched.exists());
        assert_eq!([whole, part, none].map(|root| staged.has(&root)), [true, false, false]);
        let parts = staged.parts(&wanted);
        assert_eq!(parts.keys().collect::<Vec<_>>(), [&part]);
        assert_eq!(fs::read(&parts[&part]).unwrap(), b"par");
        // Another run trusts nothing that it has not verified.
        fs::write(at.join(whole.to_string()), "whelo").unwrap();
        let mut again = Staged::at(&FileMedium::default(), at.clone());
        assert!(!again.has(&whole));
        assert_eq!(again.parts(&wanted).len(), 2);
        again.keep_only(&[part].into());
        assert_eq!(fs::read_dir(&at).unwrap().count(), 1);
        again.keep_only(&HashSet::new());
        assert!(!at.exists());
    }

    #[test]
    fn a_copy_is_staged_only_if_its_hash_matches() {
        let dir = tempfile::tempdir().unwrap();
        let (from, at) = (dir.path().join("from"), dir.path().join("staged"));
        fs::write(&from, "content").unwrap();
        let mut staged = Staged::at(&FileMedium::default(), at.clone());
        assert!(!staged.copy(&from, &hash(b"other")).unwrap());
        assert!(fs::read_dir(&at).unwrap().next().is_none());
        assert!(staged.copy(&from, &hash(b"content")).unwrap());
        assert!(staged.has(&hash(b"content")));
        assert!(staged.copy(&dir.path().join("none"), &hash(b"content")).is_err());
    }
}
