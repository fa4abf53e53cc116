//! [`Versions`]: which versions of a publication a place in a bucket keeps.
//!
//! `.xylem/versions` below the place is text: the line `xylem mirror 1`, then a ticket for each version, the newest first
//! (docs/spec/mirror.md). It is written last, so that what it names is there. Anybody who may write to the
//! bucket can write it: nothing that it says is believed before the publisher's signature was checked.

use std::fmt::Write;

use xylem_object::Ticket;

use crate::error::BucketError;
use crate::place::Place;

/// The folder of what belongs to versions and is no content.
const FOLDER: &str = ".xylem";
/// The list of versions in it.
const LIST: &str = "versions";
/// First line of the list.
const HEAD: &str = "xylem mirror 1";
/// Most versions that a list has.
pub const MAX_VERSIONS: usize = 64;
/// Longest list.
pub const MAX_LIST: u64 = 256 << 10;

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Versions {
    /// The newest first.
    pub tickets: Vec<Ticket>,
}

impl Versions {
    /// Reads a list.
    ///
    /// # Errors
    /// [`BucketError::Incomplete`]: it is none, in words.
    pub fn read(bytes: &[u8]) -> Result<Self, BucketError> {
        let wrong = |what: &str| BucketError::Incomplete(format!("no list of versions: {what}"));
        if bytes.len() as u64 > MAX_LIST {
            return Err(wrong("it is too long"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not text"))?;
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(wrong("it does not begin with \"xylem mirror 1\""));
        }
        let tickets: Result<Vec<Ticket>, _> =
            lines.by_ref().take(MAX_VERSIONS).map(str::parse).collect();
        let tickets = tickets.map_err(|e| wrong(&e.to_string()))?;
        match lines.next() {
            Some(_) => Err(wrong("it has too many")),
            None => Ok(Self { tickets }),
        }
    }

    /// As it is kept.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for ticket in self.tickets.iter().take(MAX_VERSIONS) {
            // A string takes everything.
            let _ = writeln!(text, "{ticket}");
        }
        text
    }

    /// Where the list of a place is.
    ///
    /// # Errors
    /// [`BucketError::NoPlace`]: the key would be too long.
    pub fn list_of(place: &Place) -> Result<Place, BucketError> {
        place.below(&format!("{FOLDER}/{LIST}"))
    }

    /// Where the parts of all versions of a place are, named by their roots.
    ///
    /// # Errors
    /// As [`Versions::list_of`].
    pub fn parts_of(place: &Place) -> Result<Place, BucketError> {
        place.below(FOLDER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_list_is_refused() {
        assert_eq!(Versions::read(b"xylem mirror 1\n").expect("an empty one"), Versions::default());
        assert_eq!(Versions::default().write(), "xylem mirror 1\n");
        let many = format!("{HEAD}\n{}", "x\n".repeat(MAX_VERSIONS + 1));
        let long = vec![b'x'; MAX_LIST as usize + 1];
        for text in [
            &b""[..],
            b"xylem mirror 2\n",
            b"xylem mirror 1\nxylem:nothing\n",
            b"\xff",
            many.as_bytes(),
            &long,
        ] {
            assert!(Versions::read(text).is_err());
        }
    }
}
