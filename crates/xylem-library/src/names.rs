//! Names that are fine here and trouble elsewhere, told while a folder is shared.
//!
//! Two names that differ only in case or in how their letters are composed are one name on the file
//! systems of Windows and macOS, and some names cannot exist on Windows at all. They are published as
//! they are; whoever shares hears of it, or, with `--portable`, shares nothing. One folder's names are
//! looked at together; eight bytes are kept for each while that goes on.
//! It changes no name, and it does not know who will fetch.

use std::hash::{DefaultHasher, Hasher};

use unicode_normalization::{UnicodeNormalization, is_nfc};
use xylem_object::listing;
use xylem_store::FolderNames;

use crate::failure;
use crate::walk::os_path;
use crate::{Error, LibraryEvent};

/// Names that are told one by one; of more, only how many.
const MAX_TOLD: u64 = 20;

/// What to do about names that are trouble elsewhere, and how many there were.
#[derive(Clone, Copy, Debug)]
pub struct NameCheck {
    policy: Policy,
    found: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Off,
    Tell,
    Refuse,
}

impl NameCheck {
    /// Looks at nothing.
    pub fn off() -> Self {
        Self { policy: Policy::Off, found: 0 }
    }

    /// Tells, or refuses the first where everything has to be `portable`.
    pub fn new(portable: bool) -> Self {
        Self { policy: if portable { Policy::Refuse } else { Policy::Tell }, found: 0 }
    }

    /// Looks at the names of one folder, whose path below the shared one is `folder`.
    ///
    /// # Errors
    /// A name that is not portable, where all have to be.
    pub fn folder(
        &mut self,
        folder: &[u8],
        names: &FolderNames,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), Error> {
        if self.policy == Policy::Off {
            return Ok(());
        }
        let shown = |name: &[u8]| {
            let path =
                if folder.is_empty() { os_path(name) } else { os_path(folder).join(os_path(name)) };
            path.display().to_string()
        };
        let mut keys = Vec::with_capacity(names.len());
        for name in names.names() {
            keys.push(key(&folded(name)));
            if listing::check_path_on_windows(name).is_err() {
                self.tell(format!("{}: Windows cannot have this name", shown(name)), on_event)?;
            }
        }
        keys.sort_unstable();
        let twice: Vec<u64> =
            keys.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        if twice.is_empty() {
            return Ok(());
        }
        // Names of equal keys, compared as a whole: the key alone might err.
        let mut doubtful: Vec<(Vec<u8>, &[u8])> = names
            .names()
            .map(|name| (folded(name), name))
            .filter(|(folded, _)| twice.binary_search(&key(folded)).is_ok())
            .collect();
        doubtful.sort();
        for pair in doubtful.windows(2) {
            if pair[0].0 == pair[1].0 {
                let (one, other) = (shown(pair[0].1), shown(pair[1].1));
                let what = "differ only in case or composition, and are one name elsewhere";
                self.tell(format!("{one} and {other} {what}"), on_event)?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, what: String, on_event: &mut dyn FnMut(LibraryEvent)) -> Result<(), Error> {
        if self.policy == Policy::Refuse {
            return Err(failure::usage(format!("{what}; rename it, or share without --portable")));
        }
        self.found += 1;
        if self.found <= MAX_TOLD {
            on_event(LibraryEvent::Warning { what });
        }
        Ok(())
    }

    /// Says how many were not told one by one.
    pub fn tell_rest(&mut self, on_event: &mut dyn FnMut(LibraryEvent)) {
        let more = self.found.saturating_sub(MAX_TOLD);
        self.found = 0;
        if more > 0 {
            let what = format!("{more} more names are trouble on other systems");
            on_event(LibraryEvent::Warning { what });
        }
    }
}

/// Stands for a name while names are sorted.
fn key(folded: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(folded);
    hasher.finish()
}

/// A name without case, its letters composed.
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
    use crate::Blame;

    fn check(names: &[&str], mut policy: NameCheck) -> (Result<(), Error>, Vec<String>) {
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
        policy.tell_rest(&mut on_event);
        (outcome, told)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn case_composition_and_windows_names_are_told() {
        let names = ["README", "readme", "caf\u{e9}", "cafe\u{301}", "aux.c", "plain", "Plain2"];
        let (outcome, told) = check(&names, NameCheck::new(false));
        outcome.unwrap();
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(told[0], "in/aux.c: Windows cannot have this name");
        assert!(told[1].contains("in/cafe\u{301} and in/caf\u{e9} differ only"), "{told:?}");
        assert!(told[2].starts_with("in/README and in/readme differ only"), "{told:?}");
        let (outcome, told) = check(&names, NameCheck::new(true));
        assert_eq!((outcome.unwrap_err().blame, told.len()), (Blame::Usage, 0));
        let (outcome, told) = check(&names, NameCheck::off());
        assert!(outcome.is_ok() && told.is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn of_many_names_some_are_told_and_the_rest_counted() {
        let names: Vec<String> = (0..50).map(|n| format!("{n}:")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (_, told) = check(&names, NameCheck::new(false));
        assert_eq!(told.len(), 21);
        assert_eq!(told[20], "30 more names are trouble on other systems");
    }
}
