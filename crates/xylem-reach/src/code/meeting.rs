//! Where two peers with one code meet in the mainline DHT: keys that follow from the code's number and the time alone.
//!
//! The words are no part of them: three words can be guessed offline from anything that others see of them.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_object::PublisherKey;

use super::exchange::CodeRole;
use crate::names::DHT_KEY_LEN;

/// Seconds for which the keys of a number are the same.
pub const MEETING_WINDOW: u64 = 600;

/// The window of a time, given in seconds since 1970.
#[must_use]
pub fn meeting_window(seconds: u64) -> u64 {
    seconds / MEETING_WINDOW
}

/// The window of this time and its two neighbours, the most likely first. A code lives as long as a window, and the
/// clocks of two machines differ.
#[must_use]
pub fn meeting_windows(seconds: u64) -> [u64; 3] {
    let now = meeting_window(seconds);
    [now, now.saturating_sub(1), now.saturating_add(1)]
}

/// The key under which peers of this role are listed that show or take a code of this number.
#[must_use]
pub fn meeting_key(number: u32, window: u64, role: CodeRole) -> [u8; DHT_KEY_LEN] {
    let context = match role {
        CodeRole::Offerer => "xylem-reach v1 code offerer's key in the DHT",
        CodeRole::Taker => "xylem-reach v1 code taker's key in the DHT",
    };
    let mut material = [0; 12];
    let (of_number, of_window) = material.split_at_mut(4);
    of_number.copy_from_slice(&number.to_be_bytes());
    of_window.copy_from_slice(&window.to_be_bytes());
    let mut key = [0; DHT_KEY_LEN];
    key.copy_from_slice(&xylem_hash::derive_key(context, &material)[..DHT_KEY_LEN]);
    key
}

/// The key as whose publisher the offerer registers at volunteer relays, so that the taker can ask for it there. Whoever
/// knows the number can compute it: it authenticates nothing, which the words do.
#[must_use]
pub fn meeting_publisher(number: u32, window: u64) -> PublisherKey {
    let mut material = [0; 12];
    let (of_number, of_window) = material.split_at_mut(4);
    of_number.copy_from_slice(&number.to_be_bytes());
    of_window.copy_from_slice(&window.to_be_bytes());
    let context = "xylem-reach v1 code offerer's name at volunteer relays";
    PublisherKey::from_bytes(&xylem_hash::derive_key(context, &material))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_number_window_and_role() {
        let mut keys = Vec::new();
        for (number, window) in [(10_000, 5), (10_001, 5), (10_000, 6)] {
            keys.push(meeting_key(number, window, CodeRole::Offerer));
            keys.push(meeting_key(number, window, CodeRole::Taker));
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 6);
    }

    #[test]
    fn the_name_at_volunteers_follows_from_number_and_window() {
        let of = |number, window| meeting_publisher(number, window).public();
        assert_eq!(of(10_000, 5), of(10_000, 5));
        assert!(of(10_000, 5) != of(10_001, 5) && of(10_000, 5) != of(10_000, 6));
    }

    /// A code that is shown at any time is found by a taker at any time of its life, also if a clock is wrong by some
    /// minutes.
    #[test]
    fn windows_of_both_sides_overlap() {
        for shown in (0..1_200).step_by(7) {
            for later in (0..600).step_by(7) {
                let taken = 1_000_000 + shown + later;
                assert!(meeting_windows(taken).contains(&meeting_window(1_000_000 + shown)));
            }
        }
        assert_eq!(meeting_windows(0), [0, 0, 1]);
        assert_eq!(meeting_windows(u64::MAX)[0], u64::MAX / 600);
    }
}
