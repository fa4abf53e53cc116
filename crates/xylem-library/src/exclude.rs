//! [`Exclusion`]: patterns of what of a directory is left out.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::Error;
use crate::{failure, walk};

/// Patterns that leave out what they match, and everything below.
#[derive(Clone)]
pub struct Exclusion(GlobSet);

impl Exclusion {
    /// # Errors
    /// [`crate::Blame::Usage`] for a pattern that is none.
    pub fn new(patterns: &[String]) -> Result<Self, Error> {
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            let glob = Glob::new(pattern);
            globs.add(glob.map_err(|e| failure::usage(format!("--exclude {pattern}: {e}")))?);
        }
        let globs = globs.build().map_err(|e| failure::usage(format!("--exclude: {e}")))?;
        Ok(Self(globs))
    }

    /// Whether a listed path is left out.
    pub fn matches(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        !self.0.is_empty()
            && ends.chain([path.len()]).any(|end| {
                let path = walk::os_path(&path[..end]);
                self.0.is_match(&path) || path.file_name().is_some_and(|name| self.0.is_match(name))
            })
    }
}
