//! The inputs of a run: the paths as they were given, or the files of directories.

use super::engine::SumItem;
use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A path to hash, or the error of a directory that could not be listed.
pub(super) struct SumInput<'a> {
    pub(super) path: Cow<'a, Path>,
    pub(super) error: Option<io::Error>,
}

impl SumItem for SumInput<'_> {
    fn path(&self) -> Option<&Path> {
        self.error.is_none().then_some(&self.path)
    }
}

impl<'a, P: Into<Cow<'a, Path>>> From<P> for SumInput<'a> {
    fn from(path: P) -> Self {
        Self { path: path.into(), error: None }
    }
}

/// `--recursive`: yields the given paths, and in place of each directory all regular files in and below it, sorted by
/// name.
///
/// As with `grep -r`, symbolic links are followed if they are arguments and skipped below directories, so that no file
/// comes twice and no loop is endless. Pipes, sockets and devices are skipped, too. Memory holds the names in one chain
/// of directories.
pub(super) struct SumWalk<I> {
    given: I,
    /// Entries that are left, of the directories from the outermost to the present one.
    open: Vec<std::vec::IntoIter<SumWalkEntry>>,
}

struct SumWalkEntry {
    path: PathBuf,
    is_directory: bool,
}

impl<'a, I: Iterator<Item = &'a PathBuf>> SumWalk<I> {
    pub(super) fn new(given: I) -> Self {
        Self { given, open: Vec::new() }
    }

    /// Opens a directory; returns the error as an input if it cannot be read.
    fn enter(&mut self, directory: Cow<'a, Path>) -> Option<SumInput<'a>> {
        match list(&directory) {
            Ok(entries) => {
                self.open.push(entries.into_iter());
                None
            }
            Err(error) => Some(SumInput { path: directory, error: Some(error) }),
        }
    }
}

impl<'a, I: Iterator<Item = &'a PathBuf>> Iterator for SumWalk<I> {
    type Item = SumInput<'a>;

    fn next(&mut self) -> Option<SumInput<'a>> {
        loop {
            let Some(directory) = self.open.last_mut() else {
                let path = self.given.next()?;
                if !path.is_dir() {
                    return Some(path.into());
                }
                if let Some(failed) = self.enter(path.into()) {
                    return Some(failed);
                }
                continue;
            };
            match directory.next() {
                None => drop(self.open.pop()),
                Some(SumWalkEntry { path, is_directory: false }) => return Some(path.into()),
                Some(SumWalkEntry { path, is_directory: true }) => {
                    if let Some(failed) = self.enter(path.into()) {
                        return Some(failed);
                    }
                }
            }
        }
    }
}

/// Lists the regular files and directories in a directory, sorted by name.
fn list(directory: &Path) -> io::Result<Vec<SumWalkEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() || kind.is_dir() {
            entries.push(SumWalkEntry { path: entry.path(), is_directory: kind.is_dir() });
        }
    }
    entries.sort_unstable_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_in_the_order_of_names() {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/deep/er")).expect("folders can be made");
        fs::create_dir(at("empty")).expect("a folder can be made");
        for name in ["a/2", "a/deep/er/x", "a/1", "a-file", "z"] {
            fs::write(at(name), name).expect("a file can be written");
        }
        #[cfg(unix)]
        for (target, link) in [("..", "a/up"), ("z", "link")] {
            std::os::unix::fs::symlink(target, at(link)).expect("a link can be made");
        }
        let given = [at("z"), dir.path().to_owned(), at("missing")];
        let found: Vec<_> =
            SumWalk::new(given.iter()).map(|input| input.path.into_owned()).collect();
        let names = ["z", "a/1", "a/2", "a/deep/er/x", "a-file", "z", "missing"];
        assert_eq!(found, names.map(at));
    }
}
