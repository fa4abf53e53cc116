//! [`Exclusion`]: patterns that exclude parts of a directory, with gitignore's rules.

mod pattern;

use std::collections::BTreeSet;
use std::sync::Arc;

use xylem_base::{Blame, Failure};
use xylem_object::listing::{Entry, EntryKind};

use self::pattern::{Pattern, Sense};
use crate::copies::original_of;
use crate::ours::is_members_own;

pub use self::pattern::PatternError;

/// Text by which a pattern refers to conflict copies.
const COPIES: &[u8] = b"conflict";

/// Patterns that exclude what they match and everything below. They are read as the lines of a `.gitignore` in the
/// directory: a later one overrides an earlier one, `!` re-includes, and a slash inside or in front anchors the pattern
/// to one path.
#[derive(Clone)]
pub struct Exclusion {
    patterns: Arc<[Pattern]>,
    /// If present, only these paths and the directories that lead to them are included.
    only: Option<Arc<BTreeSet<Vec<u8>>>>,
    /// Paths excluded because they are unavailable.
    lost: Arc<BTreeSet<Vec<u8>>>,
    /// Whether the private files of `xylem sync` in the folder are excluded.
    in_step: bool,
}

/// An invalid pattern.
#[derive(Debug, thiserror::Error)]
#[error("--exclude {}: {why}", pattern)]
pub struct ExcludeError {
    /// The pattern as given.
    pub pattern: String,
    /// Why it is not valid.
    pub why: PatternError,
}

impl Failure for ExcludeError {
    fn blame(&self) -> Blame {
        Blame::Usage
    }
}

/// A line of a file of rules that cannot be read. None of that file's lines applies then.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The line is not UTF-8.
    #[error("line {line}: it is not UTF-8")]
    NotText {
        /// Its number, from 1.
        line: usize,
    },
    /// The line is not a valid pattern.
    #[error("line {line}: {}: {why}", pattern)]
    Pattern {
        /// Its number, from 1.
        line: usize,
        /// The pattern as written.
        pattern: String,
        /// Why it is not valid.
        why: PatternError,
    },
}

impl Failure for RulesError {
    fn blame(&self) -> Blame {
        Blame::Usage
    }
}

/// Reads the patterns of a file like `.gitignore`, without blank lines and comments. Ignores a byte order mark at the
/// beginning of the file and a carriage return at the end of a line.
///
/// # Errors
/// [`RulesError`]: the first invalid line.
pub fn read_rules(text: &[u8]) -> Result<Vec<String>, RulesError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut rules = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = str::from_utf8(line).map_err(|_| RulesError::NotText { line: number })?;
        let bad = |why| RulesError::Pattern { line: number, pattern: line.to_owned(), why };
        if Pattern::read(line).map_err(bad)?.is_some() {
            rules.push(line.to_owned());
        }
    }
    Ok(rules)
}

/// Why a pattern given by itself cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LonePatternError {
    /// In a file it would be a comment.
    #[error("a line of .gitignore that begins with # is a comment; write \\{0}")]
    Comment(String),
    /// It is blank.
    #[error("it contains no name")]
    Blank,
    /// It is not valid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// Checks a pattern given by itself; a blank one or a comment is an error.
///
/// # Errors
/// [`LonePatternError`].
pub fn read_rule(text: &str) -> Result<String, LonePatternError> {
    match Pattern::read(text)? {
        Some(_) => Ok(text.to_owned()),
        None if text.starts_with('#') => Err(LonePatternError::Comment(text.to_owned())),
        None => Err(LonePatternError::Blank),
    }
}

impl Exclusion {
    /// Excludes nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { patterns: Arc::default(), only: None, lost: Arc::default(), in_step: false }
    }

    /// Excludes what these patterns match.
    ///
    /// # Errors
    /// The first invalid pattern.
    pub fn new(patterns: &[String]) -> Result<Self, ExcludeError> {
        let read = |pattern: &String| {
            let bad = |why| ExcludeError { pattern: pattern.clone(), why };
            Pattern::read(pattern).map_err(bad).transpose()
        };
        let patterns: Result<Vec<_>, _> = patterns.iter().filter_map(read).collect();
        Ok(Self { patterns: patterns?.into(), ..Self::none() })
    }

    /// Also excludes everything but `only`, if that is given.
    pub fn but(self, only: Option<Arc<BTreeSet<Vec<u8>>>>) -> Self {
        Self { only, ..self }
    }

    /// Also excludes the private files of `xylem sync` in the folder, whatever the patterns state. A conflict copy is
    /// excluded if its original is: the user did not choose its name, so its ending must not decide. Patterns that
    /// refer to conflict copies are matched against the copy's own name as well.
    #[must_use]
    pub fn in_step(self) -> Self {
        Self { in_step: true, ..self }
    }

    /// Also excludes these paths, which are unavailable.
    pub fn without(&mut self, lost: Arc<BTreeSet<Vec<u8>>>) {
        self.lost = lost;
    }

    /// Returns the paths that are [unavailable](Self::without).
    pub fn lost(&self) -> BTreeSet<Vec<u8>> {
        (*self.lost).clone()
    }

    /// Returns whether a path is neither wanted nor leads to a wanted one.
    fn is_unwanted(&self, path: &[u8]) -> bool {
        let Some(only) = &self.only else { return false };
        let below = [path, b"/"].concat();
        let leads = |wanted: &Vec<u8>| wanted.starts_with(&below);
        !only.contains(path) && !only.range(below.clone()..).next().is_some_and(leads)
    }

    /// Returns whether a listed entry is excluded.
    pub fn leaves_out(&self, entry: &Entry) -> bool {
        self.matches(&entry.path, entry.kind == EntryKind::Directory)
    }

    /// Returns whether a path below the directory, or a directory above it, is excluded.
    #[must_use]
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        if self.is_unwanted(path)
            || self.lost.contains(path)
            || (self.in_step && is_members_own(path, is_directory))
        {
            return true;
        }
        !self.patterns.is_empty()
            && ends.chain([path.len()]).any(|end| {
                let is_directory = is_directory || end < path.len();
                self.verdict_of(&path[..end], is_directory) == Some(Sense::LeaveOut)
            })
    }

    /// Returns the verdict of the last pattern that matches this path itself.
    fn verdict_of(&self, path: &[u8], is_directory: bool) -> Option<Sense> {
        let original = if self.in_step { original_of(path) } else { None };
        let says = |pattern: &Pattern| {
            let of_original = || pattern.verdict(original.as_deref()?, is_directory);
            match &original {
                Some(_) if !pattern.has(COPIES) => of_original(),
                // The pattern may mean copies, or a file with `conflict` in its own name.
                _ => pattern.verdict(path, is_directory).or_else(of_original),
            }
        };
        self.patterns.iter().rev().find_map(says)
    }
}

#[cfg(test)]
mod tests;
