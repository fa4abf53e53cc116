//! Names derived from other names, within the limits of file systems.

use std::ffi::{OsStr, OsString};

use crate::sweep::{os_bytes, os_path};

/// Longest name of a file, in bytes (`NAME_MAX` of common file systems).
const MAX_NAME: usize = 255;
/// Hexadecimal digits of the hash that replaces the removed end.
const DIGITS: usize = 16;

/// Joins `before`, `name` and `after`. If that is longer than a file system permits, `~` and a hash of the whole
/// replace the end of `name`. The same name gives the same result in every run, and two long names give two results.
#[must_use]
pub fn name_around(before: &str, name: &OsStr, after: &str) -> OsString {
    let mut made = OsString::from(before);
    let bytes = os_bytes(name);
    if before.len() + bytes.len() + after.len() <= MAX_NAME {
        made.push(name);
    } else {
        let hash = xylem_hash::hash(bytes).to_string();
        let room = MAX_NAME.saturating_sub(before.len() + 1 + DIGITS + after.len());
        // Do not cut within a character.
        let cut = match std::str::from_utf8(bytes) {
            Ok(text) => (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0),
            Err(_) => room,
        };
        made.push(os_path(&bytes[..cut.min(bytes.len())]).unwrap_or("".as_ref()));
        made.push(format!("~{}", &hash[..DIGITS]));
    }
    made.push(after);
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn derived_names_fit_and_do_not_collide() {
        let mut seen = HashSet::new();
        for len in 1..=255 {
            for last in ["x", "y"] {
                let name = format!("{}{last}", "a".repeat(len - 1));
                let made = name_around(".", name.as_ref(), ".xylem-part");
                assert!(made.len() <= MAX_NAME, "{len}");
                assert!(len > 243 || made.to_str() == Some(&format!(".{name}.xylem-part")));
                assert!(made.as_encoded_bytes().ends_with(b".xylem-part"));
                assert!(seen.insert(made));
            }
        }
    }

    #[test]
    fn characters_are_not_cut_in_two() {
        for ahead in 0..4 {
            let name = format!("{}{}", "a".repeat(ahead), "\u{1f333}".repeat(62));
            let made = name_around(".", name.as_ref(), ".xylem-part");
            assert!(made.len() <= MAX_NAME && made.to_str().is_some(), "{ahead}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_no_text_are_cut_too() {
        let name: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(&[0xff; 255]);
        let made = name_around(".", name, ".new-15");
        assert_eq!(made.len(), MAX_NAME);
    }
}
