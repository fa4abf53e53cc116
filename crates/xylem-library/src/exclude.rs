//! [`Exclusion`]: patterns of what of a directory is left out, with gitignore's rules.

mod pattern;

use std::collections::BTreeSet;
use std::sync::Arc;

use xylem_object::listing::{Entry, EntryKind};

use self::pattern::{Pattern, Sense};
use crate::copies::original_of;
use crate::error::{Blame, Failure};
use crate::ours::is_members_own;

pub use self::pattern::PatternError;

/// What patterns have that speak of conflict copies.
const COPIES: &[u8] = b"conflict";

/// Patterns that leave out what they match, and everything below. They are read as the lines of a
/// `.gitignore` in the directory: a later one overrides an earlier one, `!` takes back, a slash inside
/// or in front means that path alone.
#[derive(Clone)]
pub(crate) struct Exclusion {
    patterns: Arc<[Pattern]>,
    /// Nothing but these, with the directories that lead there.
    only: Option<Arc<BTreeSet<Vec<u8>>>>,
    /// Nor these.
    lost: Arc<BTreeSet<Vec<u8>>>,
    /// Nor what `xylem sync` keeps in a folder for its member.
    in_step: bool,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("--exclude {}: {why}", pattern)]
pub struct ExcludeError {
    /// As it was given.
    pub pattern: String,
    /// What is wrong with it.
    pub why: PatternError,
}

impl Failure for ExcludeError {
    fn blame(&self) -> Blame {
        Blame::Usage
    }
}

/// A line of a file of rules that can't be read. No line of that file is in force then.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// It is no text.
    #[error("line {line}: it is not UTF-8")]
    NotText {
        /// Its number, from 1.
        line: usize,
    },
    /// It is no pattern.
    #[error("line {line}: {}: {why}", pattern)]
    Pattern {
        /// Its number, from 1.
        line: usize,
        /// As it stands there.
        pattern: String,
        /// What is wrong with it.
        why: PatternError,
    },
}

impl Failure for RulesError {
    fn blame(&self) -> Blame {
        Blame::Usage
    }
}

/// The patterns of a file like `.gitignore`, without blank lines and comments. A mark of the byte order in front of the first line is
/// no part of it, nor is a carriage return at the end of one.
///
/// # Errors
/// [`RulesError`]: the first line that is not understood.
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

/// One pattern that is given by itself, which is neither blank nor a comment.
///
/// # Errors
/// What is wrong with it.
pub fn read_rule(text: &str) -> Result<String, String> {
    match Pattern::read(text) {
        Ok(Some(_)) => Ok(text.to_owned()),
        Ok(None) if text.starts_with('#') => {
            Err(format!("as a line of .gitignore it is a comment; write \\{text}"))
        }
        Ok(None) => Err("it names nothing".to_owned()),
        Err(why) => Err(why.to_string()),
    }
}

impl Exclusion {
    /// Leaves nothing out.
    pub(crate) fn none() -> Self {
        Self { patterns: Arc::default(), only: None, lost: Arc::default(), in_step: false }
    }

    pub(crate) fn new(patterns: &[String]) -> Result<Self, ExcludeError> {
        let read = |pattern: &String| {
            let bad = |why| ExcludeError { pattern: pattern.clone(), why };
            Pattern::read(pattern).map_err(bad).transpose()
        };
        let patterns: Result<Vec<_>, _> = patterns.iter().filter_map(read).collect();
        Ok(Self { patterns: patterns?.into(), ..Self::none() })
    }

    /// Leaves out everything else as well, if there are such paths.
    pub(crate) fn but(self, only: Option<Arc<BTreeSet<Vec<u8>>>>) -> Self {
        Self { only, ..self }
    }

    /// Leaves out what `xylem sync` keeps in a folder for its member, too, whatever the patterns say. A conflict copy is left out where what it
    /// is a copy of is: its name is not the user's, and whether it travels does not hang on how it happens to end. Patterns that speak of
    /// such copies are held against its own name as well.
    pub(crate) fn in_step(self) -> Self {
        Self { in_step: true, ..self }
    }

    /// Leaves out these paths, too, as they can't be had.
    pub(crate) fn without(&mut self, lost: Arc<BTreeSet<Vec<u8>>>) {
        self.lost = lost;
    }

    /// The paths that [can't be had](Self::without).
    pub(crate) fn lost(&self) -> BTreeSet<Vec<u8>> {
        (*self.lost).clone()
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
        if self.is_unwanted(path)
            || self.lost.contains(path)
            || (self.in_step && is_members_own(path, is_directory))
        {
            return true;
        }
        !self.patterns.is_empty()
            && ends.chain([path.len()]).any(|end| {
                let is_directory = is_directory || end < path.len();
                self.says_of(&path[..end], is_directory) == Some(Sense::LeaveOut)
            })
    }

    /// What the last pattern says that says anything of this path itself.
    fn says_of(&self, path: &[u8], is_directory: bool) -> Option<Sense> {
        let original = if self.in_step { original_of(path) } else { None };
        let says = |pattern: &Pattern| {
            let of_original = || pattern.says(original.as_deref()?, is_directory);
            match &original {
                Some(_) if !pattern.has(COPIES) => of_original(),
                // It may mean copies, or the file that is called so.
                _ => pattern.says(path, is_directory).or_else(of_original),
            }
        };
        self.patterns.iter().rev().find_map(says)
    }
}

#[cfg(test)]
mod tests;
