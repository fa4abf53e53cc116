//! Recently given codes, counted so that strangers fill neither a mailbox nor the operator's screen.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::VecDeque;

use super::config::CaLimits;

const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;

#[derive(Default)]
pub(super) struct SentCodes {
    /// Time of each email, and hash of its mailbox.
    emails: VecDeque<(u64, [u8; 32])>,
    /// Time of each shown code.
    pins: VecDeque<u64>,
}

impl SentCodes {
    /// Whether one more email may go to this address now; counts it.
    pub(super) fn email(&mut self, address: &str, now_ms: u64, limits: &CaLimits) -> bool {
        while self.emails.front().is_some_and(|(at, _)| at.saturating_add(HOUR_MS) <= now_ms) {
            self.emails.pop_front();
        }
        let mailbox = *xylem_hash::hash(mailbox(address).as_bytes()).as_bytes();
        let to_it = self.emails.iter().filter(|(_, to)| *to == mailbox).count();
        if self.emails.len() >= limits.emails || to_it >= limits.emails_to_one {
            return false;
        }
        self.emails.push_back((now_ms, mailbox));
        true
    }

    /// Whether one more code may be shown now; counts it.
    pub(super) fn pin(&mut self, now_ms: u64, limits: &CaLimits) -> bool {
        while self.pins.front().is_some_and(|at| at.saturating_add(MINUTE_MS) <= now_ms) {
            self.pins.pop_front();
        }
        let room = self.pins.len() < limits.pins;
        if room {
            self.pins.push_back(now_ms);
        }
        room
    }
}

/// The mailbox of an address: most mail servers deliver `al+anything` to `al`.
fn mailbox(address: &str) -> String {
    let (user, domain) = address.split_once('@').unwrap_or((address, ""));
    let user = user.split('+').next().unwrap_or_default();
    format!("{user}@{domain}")
}
