//! [`NameCheck`]: finds names that are valid here and cannot exist elsewhere, while a folder is shared.
//!
//! Two names that differ only in case or in the composition of letters are one name on the file systems of Windows and
//! macOS, and some names cannot exist on Windows at all. Such names are published unchanged with a warning; with
//! `--portable` the share is refused. The names of one folder are compared together, with eight bytes of memory for
//! each. The check changes no name, and does not know which systems will fetch.

use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;

use unicode_normalization::{UnicodeNormalization, is_nfc};
use xylem_base::os_path;
use xylem_object::listing;
use xylem_store::FolderNames;

use crate::event::LibraryEvent;

/// Most names warned of one by one; further ones are counted.
const MAX_WARNINGS: u64 = 20;

/// Policy about names that are not portable, and how many were found.
#[derive(Clone, Copy, Debug)]
pub struct NameCheck {
    policy: NamePolicy,
    found: u64,
}

/// A name that some system cannot store; paths are below the shared folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPortable {
    /// The name is not valid on Windows.
    #[error("{}: Windows does not allow this name", .0.display())]
    OnWindows(PathBuf),
    /// The two are one name where case or composition is ignored.
    #[error("{} and {} differ only in case or composition, and are the same name on some systems",
        .0.display(), .1.display())]
    SameName(PathBuf, PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamePolicy {
    Off,
    Warn,
    Refuse,
}

impl NameCheck {
    /// Checks nothing.
    pub fn off() -> Self {
        Self { policy: NamePolicy::Off, found: 0 }
    }

    /// Warns of names; with `portable`, refuses the first one.
    pub(crate) fn new(portable: bool) -> Self {
        Self { policy: if portable { NamePolicy::Refuse } else { NamePolicy::Warn }, found: 0 }
    }

    /// Checks the names of one folder, which is at `folder` below the shared one.
    ///
    /// # Errors
    /// A name that is not portable, if all must be.
    pub(crate) fn folder(
        &mut self,
        folder: &[u8],
        names: &FolderNames,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), NotPortable> {
        if self.policy == NamePolicy::Off {
            return Ok(());
        }
        let shown = |name: &[u8]| os_path(folder).join(os_path(name));
        let mut keys = Vec::with_capacity(names.len());
        for name in names.names() {
            keys.push(key(&folded(name)));
            if listing::check_path_on_windows(name).is_err() {
                self.found(NotPortable::OnWindows(shown(name)), on_event)?;
            }
        }
        keys.sort_unstable();
        let twice: Vec<u64> =
            keys.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        if twice.is_empty() {
            return Ok(());
        }
        // Compares whole names of equal keys: different names may share a key.
        let mut doubtful: Vec<(Vec<u8>, &[u8])> = names
            .names()
            .map(|name| (folded(name), name))
            .filter(|(folded, _)| twice.binary_search(&key(folded)).is_ok())
            .collect();
        doubtful.sort();
        for pair in doubtful.windows(2) {
            if pair[0].0 == pair[1].0 {
                self.found(NotPortable::SameName(shown(pair[0].1), shown(pair[1].1)), on_event)?;
            }
        }
        Ok(())
    }

    fn found(
        &mut self,
        found: NotPortable,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), NotPortable> {
        if self.policy == NamePolicy::Refuse {
            return Err(found);
        }
        self.found += 1;
        if self.found <= MAX_WARNINGS {
            on_event(LibraryEvent::Warning { what: found.to_string() });
        }
        Ok(())
    }

    /// Reports the number of names not reported one by one.
    pub(crate) fn warn_of_rest(&mut self, on_event: &mut dyn FnMut(LibraryEvent)) {
        let more = self.found.saturating_sub(MAX_WARNINGS);
        self.found = 0;
        if more > 0 {
            let what = format!("{more} more names cannot be stored on some systems");
            on_event(LibraryEvent::Warning { what });
        }
    }
}

/// Returns a hash that represents a name while names are sorted.
fn key(folded: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(folded);
    hasher.finish()
}

/// Returns a name in lowercase, its letters composed.
fn folded(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let Ok(name) = std::str::from_utf8(name) else { return name.to_vec() };
    let lower = name.to_lowercase();
    if is_nfc(&lower) { lower.into_bytes() } else { lower.nfc().collect::<String>().into_bytes() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use xylem_store::DiskMedium;

    use super::*;

    fn check(names: &[&str], mut policy: NameCheck) -> (Result<(), NotPortable>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        let read = |path: &Path| FolderNames::read(&DiskMedium::new(), path, &mut |_, _| true);
        let names = read(dir.path()).unwrap();
        let mut told = Vec::new();
        let mut on_event = |event| {
            if let LibraryEvent::Warning { what } = event {
                told.push(what);
            }
        };
        let outcome = policy.folder(b"in", &names, &mut on_event);
        policy.warn_of_rest(&mut on_event);
        (outcome, told)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn case_composition_and_windows_names_are_reported() {
        let names = ["README", "readme", "caf\u{e9}", "cafe\u{301}", "aux.c", "plain", "Plain2"];
        let (outcome, told) = check(&names, NameCheck::new(false));
        outcome.unwrap();
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(told[0], "in/aux.c: Windows does not allow this name");
        assert!(told[1].contains("in/cafe\u{301} and in/caf\u{e9} differ only"), "{told:?}");
        assert!(told[2].starts_with("in/README and in/readme differ only"), "{told:?}");
        let (outcome, told) = check(&names, NameCheck::new(true));
        assert_eq!(outcome, Err(NotPortable::OnWindows("in/aux.c".into())));
        assert_eq!(told.len(), 0);
        let (outcome, told) = check(&names, NameCheck::off());
        assert!(outcome.is_ok() && told.is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn further_unportable_names_are_only_counted() {
        let names: Vec<String> = (0..50).map(|n| format!("{n}:")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (_, told) = check(&names, NameCheck::new(false));
        assert_eq!(told.len(), 21);
        assert_eq!(told[20], "30 more names cannot be stored on some systems");
    }
}
