//! [`MirrorVersions`]: the list of a publication's versions kept at a place, as tickets.
//!
//! It is text: the line `xylem mirror 1`, then a ticket for each version, newest first (docs/spec/mirror.md). Any
//! program that may write at the place can write it. So the reader believes nothing in it before it has checked the
//! publisher's signature.

use std::fmt::Write;

use super::{Ticket, TicketError};

/// First line of the list.
const HEAD: &str = "xylem mirror 1";
/// Most versions in a list.
pub const MAX_VERSIONS: usize = 64;
/// Longest list, in bytes.
pub const MAX_LIST: u64 = 256 << 10;

/// Why bytes are no list of versions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionsError {
    /// The first line is wrong.
    #[error("not a list of versions: it does not begin with the line {HEAD:?}")]
    NoList,
    /// More than [`MAX_VERSIONS`] lines, or [`MAX_LIST`] bytes.
    #[error("the list of versions is too long")]
    TooMany,
    /// A line is not a ticket.
    #[error("the list of versions: {0}")]
    Ticket(#[from] TicketError),
}

/// A list of versions; see the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MirrorVersions {
    /// The tickets, newest first.
    pub tickets: Vec<Ticket>,
}

impl MirrorVersions {
    /// Reads a list.
    ///
    /// # Errors
    /// See [`VersionsError`].
    pub fn read(bytes: &[u8]) -> Result<Self, VersionsError> {
        if bytes.len() as u64 > MAX_LIST {
            return Err(VersionsError::TooMany);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| VersionsError::NoList)?;
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(VersionsError::NoList);
        }
        let tickets = lines.by_ref().take(MAX_VERSIONS).map(str::parse);
        let tickets = tickets.collect::<Result<Vec<Ticket>, TicketError>>()?;
        match lines.next() {
            Some(_) => Err(VersionsError::TooMany),
            None => Ok(Self { tickets }),
        }
    }

    /// The text of the list.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for ticket in self.tickets.iter().take(MAX_VERSIONS) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{ticket}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_version_lists_are_refused() {
        assert_eq!(
            MirrorVersions::read(b"xylem mirror 1\n").expect("an empty one"),
            MirrorVersions::default()
        );
        assert_eq!(MirrorVersions::default().write(), "xylem mirror 1\n");
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
            assert!(MirrorVersions::read(text).is_err());
        }
    }
}
