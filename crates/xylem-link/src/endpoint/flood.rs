//! Bounds the cost of a flood of first messages: fewer retries, taken in turn by address.
//!
//! Each retry costs a system call, and a sender that forges addresses can ask for as many as the line carries. A random
//! limit would refuse genuine dialers as often as forged ones. Instead each address is answered during three fifths of
//! every half second, at times that depend on the address alone. A dialer that was not answered and repeats its initial
//! after 250 ms (docs/spec/link.md) is answered then, with 50 ms of tolerance, and completes with the third first
//! message at the latest. A dialer with a valid cookie is always accepted.

use core::net::SocketAddr;
use core::time::Duration;

use xylem_hash::Hasher;

use crate::cookie::address;

/// Interval in which initials without a valid cookie are counted.
const COUNTED: Duration = Duration::from_millis(250);
/// More than this many in one interval make a flood.
const FLOOD_THRESHOLD: u32 = 2_500;
/// Period after which an address is answered again: twice the wait before a first message is repeated.
const ANSWER_PERIOD: Duration = Duration::from_millis(500);
/// How long it is answered in each period.
const ANSWER_TIME: Duration = Duration::from_millis(300);

/// Recent first messages without a valid cookie, counted.
pub(super) struct FloodGuard {
    /// Keys the hash of an address that determines when it is answered.
    schedule_key: [u8; 32],
    /// Index of the current interval.
    time: u128,
    count: u32,
    before: u32,
}

impl FloodGuard {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { schedule_key: key, time: 0, count: 0, before: 0 }
    }

    /// Counts a first message without a valid cookie. `false`: the address is not answered at this time.
    pub(super) fn answers(&mut self, now: Duration, from: SocketAddr) -> bool {
        let time = now.as_millis() / COUNTED.as_millis();
        if time != self.time {
            self.before = if time == self.time + 1 { self.count } else { 0 };
            (self.time, self.count) = (time, 0);
        }
        self.count = self.count.saturating_add(1);
        !self.is_on() || self.is_answer_time(now, from)
    }

    /// Returns whether a first message of this address without a cookie may be dropped unread.
    pub(super) fn drops(&self, now: Duration, from: SocketAddr) -> bool {
        self.is_on() && !self.is_answer_time(now, from)
    }

    fn is_on(&self) -> bool {
        self.before.max(self.count) > FLOOD_THRESHOLD
    }

    fn is_answer_time(&self, now: Duration, from: SocketAddr) -> bool {
        let hash = Hasher::new_keyed(&self.schedule_key).update(&address(from)).finalize();
        let hash = hash.as_bytes().first_chunk().expect("8 of 32 bytes");
        let round = ANSWER_PERIOD.as_millis();
        let shift = u128::from(u64::from_le_bytes(*hash)) % round;
        (now.as_millis() + shift) % round < ANSWER_TIME.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u32) -> SocketAddr {
        SocketAddr::from((n.to_be_bytes(), 5))
    }

    fn ms(n: u32) -> Duration {
        Duration::from_millis(u64::from(n))
    }

    #[test]
    fn few_initials_are_answered_and_a_flood_ends() {
        let mut flood = FloodGuard::new([1; 32]);
        for n in 0..FLOOD_THRESHOLD {
            assert!(flood.answers(ms(7), at(n)));
        }
        let answered = (0..10_000).filter(|n| flood.answers(ms(8), at(*n))).count();
        assert!((5_500..6_500).contains(&answered), "{answered}");
        assert!((0..100).any(|n| flood.drops(ms(8), at(n))), "it is one");
        // The next interval has a count of its own, but it began during a flood.
        flood.answers(ms(260), at(0));
        assert!((0..100).any(|n| flood.drops(ms(261), at(n))));
        flood.answers(ms(510), at(0));
        assert!((0..100).all(|n| !flood.drops(ms(511), at(n))));
    }

    /// For any time of the dial, and up to 50 ms of delay of the second first message.
    #[test]
    fn a_repeated_initial_is_answered_within_a_flood() {
        for n in 0..200 {
            for late in [0, 1, 20, 49] {
                let mut flood = FloodGuard::new([2; 32]);
                for n in 0..=FLOOD_THRESHOLD {
                    flood.answers(ms(1_000), at(n));
                }
                let start = 1_000 + n;
                let again = start + 250 + late;
                let first = flood.is_answer_time(ms(start), at(n));
                assert!(first || flood.is_answer_time(ms(again), at(n)), "{n}, {late} ms late");
            }
        }
    }
}
