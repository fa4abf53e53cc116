//! A timer wheel: constant-time arm, cancel and expire for any number of timers.
//!
//! Time is cut into ticks of 16 ms and a timer hangs in the list of the slot of its tick, modulo
//! the number of slots. A timer farther away than one turn is met too early, and put back. Timers
//! run out up to one tick late, never early.

use core::time::Duration;

const TICK_MS: u64 = 16;
const SLOTS: usize = 1024;
const NONE: u32 = u32::MAX;

/// Timers are numbered by their owner, densely from 0.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Box<[u32; SLOTS]>,
    /// One bit a slot: is its list non-empty?
    occupied: [u64; SLOTS / 64],
    links: Vec<Link>,
    /// Every tick before this one has been dealt with.
    next_tick: u64,
    armed: usize,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    /// `u64::MAX`: not armed.
    tick: u64,
}

const IDLE: Link = Link { before: NONE, after: NONE, tick: u64::MAX };

/// The first tick that begins at or after `time`.
fn tick_of(time: Duration) -> u64 {
    let ms = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    ms.div_ceil(TICK_MS).min(u64::MAX - 1)
}

fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Wheel {
            heads: Box::new([NONE; SLOTS]),
            occupied: [0; SLOTS / 64],
            links: Vec::new(),
            next_tick: 0,
            armed: 0,
        }
    }

    /// Arms timer `id` to run out at `time`, whether or not it was armed.
    #[inline]
    pub(crate) fn arm(&mut self, id: u32, time: Duration) {
        self.cancel(id);
        if self.links.len() <= id as usize {
            self.links.resize(id as usize + 1, IDLE);
        }
        // A time in the past runs out at the next occasion.
        let tick = tick_of(time).max(self.next_tick);
        let slot = slot_of(tick);
        let after = core::mem::replace(&mut self.heads[slot], id);
        if after != NONE {
            self.links[after as usize].before = id;
        }
        self.links[id as usize] = Link { before: NONE, after, tick };
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.armed += 1;
    }

    /// Cancels timer `id` if it is armed.
    #[inline]
    pub(crate) fn cancel(&mut self, id: u32) {
        let Some(link) = self.links.get_mut(id as usize) else { return };
        if link.tick == u64::MAX {
            return;
        }
        let Link { before, after, tick } = core::mem::replace(link, IDLE);
        if after != NONE {
            self.links[after as usize].before = before;
        }
        if before != NONE {
            self.links[before as usize].after = after;
        } else {
            let slot = slot_of(tick);
            self.heads[slot] = after;
            if after == NONE {
                self.occupied[slot / 64] &= !(1 << (slot % 64));
            }
        }
        self.armed -= 1;
    }

    /// When [`Self::expire`] is to be called: at or before the first timer's tick.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        if self.armed == 0 {
            return None;
        }
        let first = slot_of(self.next_tick);
        // Whole words from the one that holds `first`, once around and into that word again.
        let words = self.occupied.len();
        for i in 0..=words {
            let word = (first / 64 + i) % words;
            let mut bits = self.occupied[word];
            if i == 0 {
                bits &= u64::MAX << (first % 64);
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - first) % SLOTS;
                let tick = self.next_tick.saturating_add(ahead as u64);
                return Some(Duration::from_millis(tick.saturating_mul(TICK_MS)));
            }
        }
        None
    }

    /// Cancels every timer that has run out by `now` and appends its number to `expired`.
    pub(crate) fn expire(&mut self, now: Duration, expired: &mut Vec<u32>) {
        // The last tick that has begun. Each slot is looked at once at most, however long ago the
        // last call was.
        let now_tick = u64::try_from(now.as_millis()).unwrap_or(u64::MAX) / TICK_MS;
        if now_tick < self.next_tick {
            return;
        }
        let turn = (now_tick - self.next_tick).saturating_add(1).min(SLOTS as u64);
        for i in 0..turn {
            let slot = slot_of(self.next_tick.wrapping_add(i));
            if self.occupied[slot / 64] & (1 << (slot % 64)) == 0 {
                continue;
            }
            let mut id = self.heads[slot];
            while id != NONE {
                let Link { after, tick, .. } = self.links[id as usize];
                if tick <= now_tick {
                    self.cancel(id);
                    expired.push(id);
                }
                id = after;
            }
        }
        self.next_tick = now_tick + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a map of times: nothing runs out early, all runs out within a tick, and
        /// following `next_timeout` alone is enough.
        #[test]
        fn a_wheel_is_a_map_of_times(
            steps in proptest::collection::vec((0u32..20, 0u64..40_000, 0u64..3000), 1..80),
        ) {
            let mut wheel = Wheel::new();
            let mut model: BTreeMap<u32, Duration> = BTreeMap::new();
            let mut now = Duration::ZERO;
            for (id, delay, advance) in steps {
                if delay % 5 == 0 {
                    wheel.cancel(id);
                    model.remove(&id);
                } else {
                    wheel.arm(id, now + Duration::from_millis(delay));
                    model.insert(id, now + Duration::from_millis(delay));
                }
                prop_assert_eq!(wheel.armed, model.len());
                let target = now + Duration::from_millis(advance);
                while let Some(next) = wheel.next_timeout().filter(|t| *t <= target) {
                    now = now.max(next);
                    let mut expired = Vec::new();
                    wheel.expire(now, &mut expired);
                    for id in expired {
                        let due = model.remove(&id).expect("an armed timer");
                        prop_assert!(due <= now, "early");
                    }
                }
                now = target;
                let tick = Duration::from_millis(TICK_MS);
                prop_assert!(model.values().all(|due| *due + tick > now), "late");
            }
        }
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let mut wheel = Wheel::new();
        wheel.arm(0, Duration::MAX);
        let mut expired = Vec::new();
        wheel.expire(Duration::from_secs(1 << 40), &mut expired);
        assert!(expired.is_empty());
        assert!(wheel.next_timeout().is_some());
    }
}
