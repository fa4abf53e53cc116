//! [`Exclusion`]: patterns of what of a directory is left out.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::error::{Blame, Failure};
use crate::path::os_path;

/// Patterns that leave out what they match, and everything below.
#[derive(Clone)]
pub(crate) struct Exclusion(GlobSet);

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
pub enum ExcludeError {
    /// One by itself.
    #[error("--exclude {pattern}: {source}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        source: globset::Error,
    },
    /// All of them together.
    #[error("--exclude: {0}")]
    Together(globset::Error),
}

impl Failure for ExcludeError {
    fn blame(&self) -> Blame {
        Blame::Usage
    }
}

impl Exclusion {
    pub(crate) fn new(patterns: &[String]) -> Result<Self, ExcludeError> {
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            let glob = Glob::new(pattern);
            let bad = |source| ExcludeError::Pattern { pattern: pattern.clone(), source };
            globs.add(glob.map_err(bad)?);
        }
        globs.build().map(Self).map_err(ExcludeError::Together)
    }

    /// Whether a listed path is left out.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        !self.0.is_empty()
            && ends.chain([path.len()]).any(|end| {
                let path = os_path(&path[..end]);
                self.0.is_match(&path) || path.file_name().is_some_and(|name| self.0.is_match(name))
            })
    }
}
