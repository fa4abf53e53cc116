//! [`parse_relay_list`]: the text of a list of relays that an organisation keeps (docs/spec/reach.md, "A list of relays").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use xylem_base::UnixTime;
use xylem_trust::parse_utc;

use crate::list_file::list_entries;
use crate::reachable::{Relay, RelayLimit, RelayUriError};

/// Relays of a list that one run uses: the first ones, so that both sides of a code use the same.
const MAX_USED: usize = 3;
/// First entry of every list. A file that the same key has signed for another purpose is none.
const HEADER: &str = "xylem relays 1";
/// Before the day after which the list is old.
const UNTIL: &str = "until ";
/// A list whose signature is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRelays {
    /// The relays to use.
    pub relays: Vec<Relay>,
    /// The last moment of the list, in milliseconds since 1970, if it names one.
    pub until_ms: Option<u64>,
}

/// A wrong line of a list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RelayLineError {
    /// The first entry is another one.
    #[error("not a list of relays: the first line is `{HEADER}`")]
    Header,
    /// A day is none.
    #[error("`until` is followed by a day, as 2027-06-30")]
    Day,
    /// There is an earlier line with a day.
    #[error("`until` is there a second time; a list has one last day")]
    SecondDay,
    /// It is no relay.
    #[error(transparent)]
    Relay(#[from] RelayUriError),
    /// It has a token, which a file for many would give away.
    #[error(
        "a list has no tokens, as many people read it; name this relay under `relay` in the settings"
    )]
    Token,
    /// It names too much of one relay.
    #[error(transparent)]
    Limit(#[from] RelayLimit),
}

impl ListedRelays {
    /// Whether its last day is over.
    pub fn is_old(&self, now: UnixTime) -> bool {
        self.until_ms.is_some_and(|until| now.milliseconds() > until)
    }
}

/// Parses a list: the header, then relays as `xylem relay` prints them, and at most a line `until YEAR-MONTH-DAY`. All lines
/// are checked, and the first relays are returned.
///
/// # Errors
/// The number of a wrong line, and its defect.
pub fn parse_relay_list(text: &str) -> Result<ListedRelays, (usize, RelayLineError)> {
    let mut entries = list_entries(text);
    let header = entries.next();
    if header.is_none_or(|(_, entry)| entry != HEADER) {
        return Err((header.map_or(1, |(number, _)| number), RelayLineError::Header));
    }
    let mut listed = ListedRelays { relays: Vec::new(), until_ms: None };
    for (number, entry) in entries {
        let wrong = |why: RelayLineError| (number, why);
        if let Some(day) = entry.strip_prefix(UNTIL) {
            // The readers of the file would not see which of two days counts.
            if listed.until_ms.is_some() {
                return Err(wrong(RelayLineError::SecondDay));
            }
            listed.until_ms = Some(end_of(day.trim()).ok_or_else(|| wrong(RelayLineError::Day))?);
            continue;
        }
        let relay: Relay = entry.parse().map_err(|e: RelayUriError| wrong(e.into()))?;
        if relay.token.is_some() {
            return Err(wrong(RelayLineError::Token));
        }
        let known = listed.relays.iter().any(|known| known.at.key == relay.at.key);
        if known || listed.relays.len() < MAX_USED {
            let all = listed.relays.iter().cloned().chain([relay]);
            listed.relays = Relay::gathered(all).map_err(|e| wrong(e.into()))?;
        }
    }
    Ok(listed)
}

/// The last moment of a day in UTC, in milliseconds since 1970.
fn end_of(day: &str) -> Option<u64> {
    let digits = day.bytes().zip(0..).all(|(byte, at)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    let day = digits.then(|| day.replace('-', ""))?;
    parse_utc(&format!("{day}T235959"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: &str) -> String {
        byte.repeat(32)
    }

    #[test]
    fn the_first_relays_of_a_list_are_used() {
        let text = format!(
            "# ours\n\nxylem relays 1 # the form\n{}@a.example:1 # Frankfurt\nuntil 2027-06-30\nxylem://{}@192.0.2.1\n\
             {}@a.example:2\n{}@c.example:3\n{}@d.example:4\n",
            key("a1"),
            key("b2"),
            key("a1"),
            key("c3"),
            key("d4")
        );
        let listed = parse_relay_list(&text).unwrap();
        let all = listed.relays.iter().flat_map(|relay| &relay.at.addresses);
        let hosts: Vec<String> = all.map(ToString::to_string).collect();
        assert_eq!(hosts, ["a.example:1", "a.example:2", "192.0.2.1:7348", "c.example:3"]);
        // The last second of that day.
        assert_eq!(listed.until_ms, Some(1_814_399_999_000));
        for (line, number) in [
            ("until tomorrow", 2),
            ("until 2027-02-30", 2),
            ("until 2027-06-3", 2),
            ("relay.example.org", 2),
            ("nonsense", 2),
            (&format!("{}@h:1?token=correct-horse-battery", key("a1")), 2),
            (&format!("{0}@h:1\n{0}@h:2\n{0}@h:3", key("a1")), 4),
            ("until 2027-06-30\nuntil 2099-06-30", 3),
        ] {
            let wrong = parse_relay_list(&format!("xylem relays 1\n{line}\n")).unwrap_err();
            assert_eq!(wrong.0, number, "{line}: {}", wrong.1);
            assert!(!wrong.1.to_string().contains("correct-horse"), "{}", wrong.1);
        }
        for text in ["", "# xylem relays 1", "xylem relays 2", &format!("{}@h:1", key("a1"))] {
            assert_eq!(parse_relay_list(text).unwrap_err().1, RelayLineError::Header, "{text}");
        }
    }
}
