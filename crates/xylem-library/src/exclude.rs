//! [`Exclusion`]: patterns of what of a directory is left out, with gitignore's rules.

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use xylem_object::listing::{Entry, EntryKind};

use crate::error::{Blame, Failure};
use crate::path::os_path;

/// Patterns that leave out what they match, and everything below. They are read as the lines of a
/// `.gitignore` in the directory: a later one overrides an earlier one, `!` takes back, a slash inside
/// or in front means that path alone.
#[derive(Clone)]
pub(crate) struct Exclusion(Gitignore);

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
        Self(Gitignore::empty())
    }

    pub(crate) fn new(patterns: &[String]) -> Result<Self, ExcludeError> {
        let mut rules = GitignoreBuilder::new("");
        for pattern in patterns {
            let bad = |source| ExcludeError::Pattern { pattern: pattern.clone(), source };
            rules.add_line(None, pattern).map_err(bad)?;
        }
        rules.build().map(Self).map_err(ExcludeError::Together)
    }

    /// Whether something listed is left out.
    pub(crate) fn leaves_out(&self, entry: &Entry) -> bool {
        self.matches(&entry.path, entry.kind == EntryKind::Directory)
    }

    /// Whether a path below the directory is left out: itself, or something above it.
    pub(crate) fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        !self.0.is_empty()
            && ends.chain([path.len()]).any(|end| {
                let is_directory = is_directory || end < path.len();
                self.0.matched(os_path(&path[..end]), is_directory).is_ignore()
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
        assert!(Exclusion::new(&["a{".to_owned()]).is_err());
    }
}
