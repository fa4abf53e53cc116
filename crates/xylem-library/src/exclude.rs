//! [`Exclusion`]: patterns of what of a directory is left out, with gitignore's rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use xylem_object::listing::{Entry, EntryKind};

use crate::error::{Blame, Failure};
use crate::path::os_path;

/// Patterns that leave out what they match, and everything below. They are read as the lines of a
/// `.gitignore` in the directory: a later one overrides an earlier one, `!` takes back, a slash inside
/// or in front means that path alone.
#[derive(Clone)]
pub(crate) struct Exclusion {
    rules: Gitignore,
    /// Nothing but these, with the directories that lead there.
    only: Option<Arc<BTreeSet<Vec<u8>>>>,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
pub enum ExcludeError {
    /// One by itself.
    #[error("--exclude {pattern}: {source}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        source: ignore::Error,
    },
    /// All of them together.
    #[error("--exclude: {0}")]
    Together(ignore::Error),
}

impl Failure for ExcludeError {
    fn blame(&self) -> Blame {
        Blame::Usage
    }
}

impl Exclusion {
    /// Leaves nothing out.
    pub(crate) fn none() -> Self {
        Self { rules: Gitignore::empty(), only: None }
    }

    pub(crate) fn new(patterns: &[String]) -> Result<Self, ExcludeError> {
        let mut rules = GitignoreBuilder::new("");
        for pattern in patterns {
            let bad = |source| ExcludeError::Pattern { pattern: pattern.clone(), source };
            rules.add_line(None, pattern).map_err(bad)?;
        }
        let rules = rules.build().map_err(ExcludeError::Together)?;
        Ok(Self { rules, only: None })
    }

    /// Leaves out everything else as well, if there are such paths.
    pub(crate) fn but(self, only: Option<Arc<BTreeSet<Vec<u8>>>>) -> Self {
        Self { only, ..self }
    }

    /// Whether a path is none of those that are wanted, and leads to none.
    fn is_unwanted(&self, path: &[u8]) -> bool {
        let Some(only) = &self.only else { return false };
        let below = [path, b"/"].concat();
        let leads = |wanted: &Vec<u8>| wanted.starts_with(&below);
        !only.contains(path) && !only.range(below.clone()..).next().is_some_and(leads)
    }

    /// Whether something listed is left out.
    pub(crate) fn leaves_out(&self, entry: &Entry) -> bool {
        self.matches(&entry.path, entry.kind == EntryKind::Directory)
    }

    /// Whether a path below the directory is left out: itself, or something above it.
    pub(crate) fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        if self.is_unwanted(path) {
            return true;
        }
        !self.rules.is_empty()
            && ends.chain([path.len()]).any(|end| {
                let is_directory = is_directory || end < path.len();
                self.rules.matched(os_path(&path[..end]), is_directory).is_ignore()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_gitignore_s() {
        let lines =
            ["# comment", "", "*.tmp", "!keep.tmp", "/only-here", "build/", "a/b", "x/**/y"];
        let exclusion = Exclusion::new(&lines.map(str::to_owned)).unwrap();
        let out = |path: &str, is_directory| exclusion.matches(path.as_bytes(), is_directory);
        for path in
            ["s.tmp", "sub/s.tmp", "only-here", "build/keep.tmp", "sub/build/x", "a/b/c", "x/1/2/y"]
        {
            assert!(out(path, false), "{path}");
        }
        for path in ["keep.tmp", "sub/only-here", "build", "sub/a/b", "# comment", "tmp"] {
            assert!(!out(path, false), "{path}");
        }
        assert!(out("build", true) && out("d.tmp", true) && out("d.tmp/x", false));
        assert!(!Exclusion::none().matches(b"s.tmp", false));
        let wanted = ["a/b", "c"].map(|path| path.as_bytes().to_vec());
        let exclusion = Exclusion::none().but(Some(Arc::new(wanted.into())));
        assert!(!exclusion.matches(b"a", true) && !exclusion.matches(b"a/b", false));
        assert!(exclusion.matches(b"a/bc", false) && exclusion.matches(b"a.b", false));
        assert!(Exclusion::new(&["a{".to_owned()]).is_err());
    }
}
