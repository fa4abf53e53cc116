//! [`FolderRules`]: which paths a member leaves out of its folder.
//!
//! Rules are each member's own: `.xylemignore` at the top of the folder is neither sent nor taken over. A line
//! `#include FILE` inserts the lines of a file that is exchanged. The copy of that file that this member has accepted
//! applies. A change made here is accepted at once; one from another member waits for `--accept-rules`. Whatever is
//! wrong with the files, all earlier rules stay in force.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xylem_base::{FileMedium, os_bytes};
use xylem_files::ours::{IGNORE_FILE, folds_to, is_members_own};
use xylem_files::{Exclusion, RulesError, read_rules};
use xylem_hash::Hash;
use xylem_object::listing;
use xylem_store::{FileKind, FileRef, OpenHow, create_dirs};

use super::error::{FolderError, at};
use super::index::IndexItem;
use super::own_files::{OwnFiles, ROLES};
use super::place::{Parents, within};

/// Looks up the known item of a path in the folder.
type KnownItem<'a> = dyn Fn(&[u8]) -> Result<Option<IndexItem>, FolderError> + 'a;

/// Prefix of a line that includes a file; git reads it as a comment.
const INCLUDE: &str = "#include";
/// Most bytes of a file of rules, and most included files.
const MAX_RULES: u64 = 32 * 1024;
const MAX_INCLUDED: usize = 16;
/// File in the state directory with the lines that were last in force.
const RULES: &str = "rules";
/// File with the accepted content of included files. It lies where a running process notices a change.
const ACCEPTED: &str = "accepted-rules";
/// Most bytes of that file: at worst, JSON takes six for each byte of a file.
const MAX_ACCEPTED: u64 = 6 * MAX_RULES * MAX_INCLUDED as u64 + 1024 * 1024;
/// Most paths that a [`RulesChange`] names.
const MAX_NAMED: usize = 1_000;

/// Why rules are not in force.
#[derive(Debug, thiserror::Error)]
pub enum NoRules {
    /// A line is not a valid pattern.
    #[error(transparent)]
    Line(#[from] RulesError),
    /// The path of the rules is a directory or a pipe, or a link to one.
    #[error("the rules must be in a regular file, and this is not one")]
    NoFile,
    /// The file is too large.
    #[error("it has more than {MAX_RULES} bytes")]
    TooLarge,
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Too many files are included.
    #[error("it includes more than {MAX_INCLUDED} files")]
    TooMany,
    /// The text after `#include` is not a path below the folder.
    #[error("{INCLUDE} {0}: not a path of a file in the folder")]
    NoPath(String),
    /// The included file came from another member, and is not accepted.
    #[error(
        "{0} is included and came from another member; `xylem sync DIR --accept-rules` puts it in force"
    )]
    NotAccepted(String),
    /// The included file is invalid.
    #[error("{path} is included: {why}")]
    Included {
        /// The included file.
        path: String,
        /// The defect.
        why: Box<NoRules>,
    },
}

/// An included file that came from another member, and is not in force here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRules {
    /// Its path in the folder.
    pub path: String,
    /// Root hash of its content.
    pub root: Hash,
}

/// Result of [`super::SyncFolder::read_rules`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesNews {
    /// The rules in force have changed since the last read.
    pub changed: bool,
    /// Defects of the files, one line each; the earlier rules stay in force.
    pub wrong: Vec<String>,
    /// Changes by other members that this member has not accepted.
    pub waiting: Vec<WaitingRules>,
}

/// State of an included file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Included {
    /// The accepted text; `None` if none was ever accepted.
    text: Option<String>,
    /// BLAKE3 hash of the content that waits, so that touching the file does not count as a local change.
    waits: Option<String>,
}

type Accepted = BTreeMap<String, Included>;

/// A line of `.xylemignore`.
enum RuleLine {
    Pattern(String),
    Include(String),
}

/// The rules of one folder.
pub(super) struct FolderRules {
    medium: FileMedium,
    root: PathBuf,
    kept: PathBuf,
    exclusion: Exclusion,
    /// The lines in force; `None` if none were ever read.
    lines: Option<Vec<String>>,
    /// Paths of included files.
    included: Vec<String>,
}

impl FolderRules {
    pub(super) fn of(medium: &FileMedium, root: &Path, kept: &Path) -> Self {
        let medium = medium.clone();
        let (root, kept) = (root.to_path_buf(), kept.to_path_buf());
        let exclusion = Exclusion::none().in_step();
        Self { medium, root, kept, exclusion, lines: None, included: Vec::new() }
    }

    /// Returns whether the rules leave a path out of this folder.
    pub(super) fn leaves_out(&self, path: &[u8], is_directory: bool) -> bool {
        self.exclusion.matches(path, is_directory)
    }

    /// Returns whether a change at this path may change the rules.
    pub(super) fn are_in(&self, path: &[u8]) -> bool {
        let is_file = |name: &str| name.as_bytes() == path;
        folds_to(path, IGNORE_FILE) || self.included.iter().any(|name| is_file(name))
    }

    /// Returns the lines in force.
    pub(super) fn lines(&self) -> Option<&[String]> {
        self.lines.as_deref()
    }

    /// Reads the files anew. `known` gives the item of a path at the last scan; `me` is this member, to which its own
    /// changes are attributed.
    ///
    /// # Errors
    /// The rules are invalid, and none were ever in force: nothing can be shared then.
    pub(super) fn read(
        &mut self,
        known: &KnownItem<'_>,
        me: &[u8; 8],
    ) -> Result<RulesNews, FolderError> {
        let mut news = RulesNews::default();
        let lines = match self.look(known, me, &mut news)? {
            Ok(lines) => lines,
            Err(why) => {
                let path = self.root.join(IGNORE_FILE);
                let Some(before) = self.lines.clone().or_else(|| self.before()) else {
                    return Err(FolderError::Rules { path, why });
                };
                news.wrong
                    .push(format!("{}: {why}; the previous rules stay in force", path.display()));
                before
            }
        };
        if self.lines.as_ref() != Some(&lines) {
            let exclusion = Exclusion::new(&lines)?.in_step();
            let text = lines.join("\n");
            news.changed = true;
            // The rules apply even if they cannot be stored for the next run now.
            (self.exclusion, self.lines) = (exclusion, Some(lines));
            OwnFiles::of(&self.medium).replace(&self.kept.join(RULES), text.as_bytes())?;
        }
        Ok(news)
    }

    /// Returns the lines that an earlier run had in force.
    fn before(&self) -> Option<Vec<String>> {
        let text = OwnFiles::of(&self.medium).bytes(&self.kept.join(RULES), u64::MAX).ok()??;
        read_rules(&text).ok()
    }

    /// Reads the lines of all files.
    fn look(
        &mut self,
        known: &KnownItem<'_>,
        me: &[u8; 8],
        news: &mut RulesNews,
    ) -> Result<Result<Vec<String>, NoRules>, FolderError> {
        let own = match self.own_lines() {
            Ok(own) => own,
            Err(why) => return Ok(Err(why)),
        };
        self.included = included(&own);
        let before = self.accepted(&self.included);
        let mut accepted = Accepted::new();
        for path in &self.included {
            let (text, mut kept) = (self.included_text(path), before.get(path).cloned());
            if let Ok(text) = &text {
                let root = xylem_hash::hash(text.as_bytes());
                let is_accepted = match &mut kept {
                    // The `#include` line is new: it means the content that is there now.
                    None => true,
                    Some(kept) if kept.text.as_ref() == Some(text) => true,
                    Some(kept) => {
                        let waits = kept.waits.as_ref() == Some(&root.to_string());
                        !waits && is_ours(known(path.as_bytes())?, &root, me)
                    }
                };
                let kept = kept.get_or_insert_default();
                if is_accepted {
                    (kept.text, kept.waits) = (Some(text.clone()), None);
                } else {
                    kept.waits = Some(root.to_string());
                    news.waiting.push(WaitingRules { path: path.clone(), root });
                }
            }
            let kept = kept.unwrap_or_default();
            match text {
                Err(why) if kept.text.is_some() => news.wrong.push(format!(
                    "{}; its previous content stays in force",
                    NoRules::Included { path: path.clone(), why: Box::new(why) }
                )),
                _ => {}
            }
            accepted.insert(path.clone(), kept);
        }
        if accepted != before {
            keep_accepted(&self.medium, &self.kept, &accepted)?;
        }
        Ok(self.in_force(own, &accepted))
    }

    /// Returns all lines, with those of included files inserted.
    fn in_force(&self, own: Vec<RuleLine>, accepted: &Accepted) -> Result<Vec<String>, NoRules> {
        let mut lines = Vec::new();
        for line in own {
            match line {
                RuleLine::Pattern(line) => lines.push(line),
                RuleLine::Include(path) => {
                    let text = accepted.get(&path).and_then(|kept| kept.text.as_ref());
                    let Some(text) = text else {
                        self.included_text(&path).map_err(|why| NoRules::Included {
                            path: path.clone(),
                            why: Box::new(why),
                        })?;
                        return Err(NoRules::NotAccepted(path));
                    };
                    lines.extend(read_rules(text.as_bytes())?);
                }
            }
        }
        Ok(lines)
    }

    /// Returns the text of an included file, if it is valid.
    fn included_text(&self, path: &str) -> Result<String, NoRules> {
        // A symbolic link is not followed.
        let place = within(&*self.medium, &self.root, path.as_bytes(), Parents::Exist)?;
        if self.medium.metadata(&place)?.kind != FileKind::File {
            return Err(NoRules::NoFile);
        }
        let text = self.text_of(&place)?;
        read_rules(&text)?;
        String::from_utf8(text).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e).into())
    }

    /// Returns the accepted content of the included files. If it cannot be read, none counts as accepted.
    fn accepted(&self, included: &[String]) -> Accepted {
        let path = self.kept.join(ROLES).join(ACCEPTED);
        let read = OwnFiles::of(&self.medium).bytes(&path, MAX_ACCEPTED);
        match read.map(|bytes| bytes.map(|bytes| serde_json::from_slice(&bytes))) {
            Ok(None) => Accepted::new(),
            Ok(Some(Ok(accepted))) => accepted,
            _ => included.iter().map(|path| (path.clone(), Included::default())).collect(),
        }
    }

    /// Returns the lines of `.xylemignore`; none if there is no such file.
    fn own_lines(&self) -> Result<Vec<RuleLine>, NoRules> {
        let path = self.root.join(IGNORE_FILE);
        match self.medium.metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            _ => {}
        }
        // A symbolic link to a file is read, as its author expects; a dangling one is an error.
        let text = self.text_of(&path)?;
        // The whole file has to be valid, and an error names the line.
        read_rules(&text)?;
        let mut lines = Vec::new();
        for line in text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text).split(|byte| *byte == b'\n')
        {
            let path = str::from_utf8(line).ok().and_then(|line| line.strip_prefix(INCLUDE));
            match path.filter(|path| path.starts_with([' ', '\t'])) {
                Some(path) => lines.push(RuleLine::Include(include_path(path.trim())?)),
                None => lines.extend(read_rules(line)?.into_iter().map(RuleLine::Pattern)),
            }
        }
        match included(&lines).len() > MAX_INCLUDED {
            true => Err(NoRules::TooMany),
            false => Ok(lines),
        }
    }

    /// Returns the text of a file; a symbolic link to one is followed.
    fn text_of(&self, path: &Path) -> Result<Vec<u8>, NoRules> {
        let file = FileRef::new(self.medium.open(path, OpenHow::Read)?, path);
        let meta = file.handle().metadata()?;
        if meta.kind != FileKind::File {
            return Err(NoRules::NoFile);
        }
        if meta.size > MAX_RULES {
            return Err(NoRules::TooLarge);
        }
        let mut text = vec![0; usize::try_from(meta.size).map_err(|_| NoRules::TooLarge)?];
        let got = file.read_full(&mut text, 0).map_err(io::Error::other)?;
        text.truncate(got);
        Ok(text)
    }
}

/// Returns whether a file with this content was changed here, by its item at the last scan: that has another content,
/// or this one by our own change.
fn is_ours(known: Option<IndexItem>, root: &Hash, me: &[u8; 8]) -> bool {
    match known {
        Some(IndexItem { kind, content, .. }) if kind.root() == Some(*root) => content.by == *me,
        _ => true,
    }
}

fn keep_accepted(medium: &FileMedium, kept: &Path, accepted: &Accepted) -> Result<(), FolderError> {
    let dir = kept.join(ROLES);
    create_dirs(&**medium, &dir)?;
    let bytes = serde_json::to_vec(accepted).map_err(|e| at(&dir)(e.into()))?;
    OwnFiles::of(medium).replace(&dir.join(ACCEPTED), &bytes)
}

fn include_path(path: &str) -> Result<String, NoRules> {
    let is_path = listing::check_path(path.as_bytes()).is_ok();
    match is_path && !is_members_own(path.as_bytes(), false) {
        true => Ok(path.to_owned()),
        false => Err(NoRules::NoPath(path.to_owned())),
    }
}

fn included(lines: &[RuleLine]) -> Vec<String> {
    let mut included: Vec<String> = Vec::new();
    for line in lines {
        if let RuleLine::Include(path) = line
            && !included.contains(path)
        {
            included.push(path.clone());
        }
    }
    included
}

/// Effect of accepting included files that other members have changed.
#[derive(Debug)]
pub struct RulesChange {
    medium: FileMedium,
    kept: PathBuf,
    accepted: Accepted,
    /// The files that are put in force.
    pub files: Vec<String>,
    /// Local paths below the folder that will be shared.
    pub uncovers: Vec<PathBuf>,
    /// Local paths below the folder that will not be shared any more.
    pub covers: Vec<PathBuf>,
    /// Number of paths of both kinds that are not named.
    pub more: u64,
}

impl RulesChange {
    /// Collects the changes that wait in the folder `root`, with the state directory `kept`.
    ///
    /// # Errors
    /// The rules are invalid.
    pub fn waiting(medium: &FileMedium, root: &Path, kept: &Path) -> Result<Self, FolderError> {
        let rules = FolderRules::of(medium, root, kept);
        let wrong = |why| FolderError::Rules { path: root.join(IGNORE_FILE), why };
        let includes = included(&rules.own_lines().map_err(wrong)?);
        let before = rules.accepted(&includes);
        let (mut accepted, mut files) = (before.clone(), Vec::new());
        for path in includes {
            let text = rules.included_text(&path).map_err(|why| {
                wrong(NoRules::Included { path: path.clone(), why: Box::new(why) })
            })?;
            let kept = accepted.entry(path.clone()).or_default();
            if kept.text.as_ref() != Some(&text) {
                *kept = Included { text: Some(text), waits: None };
                files.push(path);
            }
        }
        let lines = |accepted| rules.in_force(rules.own_lines()?, accepted);
        let old = lines(&before).ok().or_else(|| rules.before()).unwrap_or_default();
        let old = Exclusion::new(&old)?.in_step();
        let new = Exclusion::new(&lines(&accepted).map_err(wrong)?)?.in_step();
        let (medium, kept) = (medium.clone(), kept.to_path_buf());
        let (uncovers, covers) = (Vec::new(), Vec::new());
        let mut change = Self { medium, kept, accepted, files, uncovers, covers, more: 0 };
        if !change.files.is_empty() {
            change.compare(root, &old, &new);
        }
        Ok(change)
    }

    /// Walks the folder. An unreadable path is shared neither before nor after.
    fn compare(&mut self, root: &Path, old: &Exclusion, new: &Exclusion) {
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in self.medium.list_dir(&root.join(&folder)).unwrap_or_default() {
                let path = folder.join(entry.name);
                let is_directory = entry.kind == FileKind::Directory;
                let bytes = os_bytes(path.as_os_str());
                let (before, after) =
                    (old.matches(&bytes, is_directory), new.matches(&bytes, is_directory));
                if before && after {
                    continue;
                }
                if is_directory {
                    folders.push(path);
                    continue;
                }
                let named = match (before, after) {
                    (true, false) => &mut self.uncovers,
                    (false, true) => &mut self.covers,
                    _ => continue,
                };
                if named.len() < MAX_NAMED {
                    named.push(path);
                } else {
                    self.more = self.more.saturating_add(1);
                }
            }
        }
        self.uncovers.sort();
        self.covers.sort();
    }

    /// Accepts the changes; a running process notices.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> Result<(), FolderError> {
        keep_accepted(&self.medium, &self.kept, &self.accepted)
    }
}

#[cfg(test)]
mod tests;
