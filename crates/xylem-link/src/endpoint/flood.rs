//! What a flood of first messages may cost: fewer demands for cookies, in turn by address.
//!
//! Each demand costs a system call, and who forges addresses can ask for as many as the line carries.
//! A limit by chance would shut out dialers in earnest as often as others. Instead each address has
//! times when it is answered, three fifths of every half second, and which times these are hangs on
//! the address alone: who was not answered and sends again after the 250 ms of docs/spec/link.md is
//! answered then, give or take 50 ms, and completes with the third first message at the latest. Who
//! brings a good cookie is always let in.

use core::net::SocketAddr;
use core::time::Duration;

use xylem_hash::Hasher;

use crate::cookie::address;

/// A time in which demands are counted.
const COUNTED: Duration = Duration::from_millis(250);
/// As many in such a time make a flood.
const MANY: u32 = 2_500;
/// After this an address is answered again: twice the wait before a first message is repeated.
const ANSWER_PERIOD: Duration = Duration::from_millis(500);
/// How long it is answered then.
const ANSWER_TIME: Duration = Duration::from_millis(300);

/// How many first messages came without a good cookie, lately.
pub(super) struct Flood {
    /// Keys the hash of an address that says when it is answered.
    schedule_key: [u8; 32],
    /// Which of the counted times it is.
    time: u128,
    count: u32,
    before: u32,
}

impl Flood {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { schedule_key: key, time: 0, count: 0, before: 0 }
    }

    /// Counts a first message that cannot show a good cookie. `false`: this is not a time at which the address is
    /// answered.
    pub(super) fn answers(&mut self, now: Duration, from: SocketAddr) -> bool {
        let time = now.as_millis() / COUNTED.as_millis();
        if time != self.time {
            self.before = if time == self.time + 1 { self.count } else { 0 };
            (self.time, self.count) = (time, 0);
        }
        self.count = self.count.saturating_add(1);
        !self.is_on() || self.is_answer_time(now, from)
    }

    /// Whether a first message of this address that brings no cookie may be dropped unread.
    pub(super) fn drops(&self, now: Duration, from: SocketAddr) -> bool {
        self.is_on() && !self.is_answer_time(now, from)
    }

    fn is_on(&self) -> bool {
        self.before.max(self.count) > MANY
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
    fn few_are_all_answered_and_a_flood_is_over_when_it_is_over() {
        let mut flood = Flood::new([1; 32]);
        for n in 0..MANY {
            assert!(flood.answers(ms(7), at(n)));
        }
        let answered = (0..10_000).filter(|n| flood.answers(ms(8), at(*n))).count();
        assert!((5_500..6_500).contains(&answered), "{answered}");
        assert!((0..100).any(|n| flood.drops(ms(8), at(n))), "it is one");
        // The time after is counted anew, but it has begun in a flood.
        flood.answers(ms(260), at(0));
        assert!((0..100).any(|n| flood.drops(ms(261), at(n))));
        flood.answers(ms(510), at(0));
        assert!((0..100).all(|n| !flood.drops(ms(511), at(n))));
    }

    /// Whoever dials when, and is up to 50 ms late with the second first message.
    #[test]
    fn who_asks_again_is_answered() {
        for n in 0..200 {
            for late in [0, 1, 20, 49] {
                let mut flood = Flood::new([2; 32]);
                for n in 0..=MANY {
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
