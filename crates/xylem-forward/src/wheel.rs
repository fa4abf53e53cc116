//! A timer wheel: arming, cancelling and expiring in constant time for any number of timers.
//!
//! Timers are stored in the timed objects, which the caller passes in.
//!
//! Time is divided into ticks of 16 ms. A timer is in the list of the slot of its tick, modulo the number of slots. A
//! timer that is farther away than all slots together is met too early, and stays. Timers expire up to one tick late,
//! never early.

use crate::memory::Flat;
use crate::slab::NONE;

/// In microseconds.
const TICK: u64 = 16_000;
const SLOTS: usize = 512;

/// A timer's links in its slot's list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    before: u32,
    after: u32,
    /// `u64::MAX`: not armed.
    tick: u64,
}

impl Default for Timer {
    fn default() -> Self {
        Timer { before: NONE, after: NONE, tick: u64::MAX }
    }
}

/// The storage of the timers.
pub(crate) trait Timers {
    fn timer(&self, id: u32) -> &Timer;
    fn timer_mut(&mut self, id: u32) -> &mut Timer;
}

#[derive(Debug)]
pub(crate) struct Wheel {
    heads: [u32; SLOTS],
    /// One bit per slot: whether its list is non-empty.
    occupied: [u64; SLOTS / 64],
    /// Every tick before this one is handled.
    next_tick: u64,
    armed: usize,
}

fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Wheel { heads: [NONE; SLOTS], occupied: [0; SLOTS / 64], next_tick: 0, armed: 0 }
    }

    /// Arms timer `id` to expire at `time` (microseconds), whether or not it was armed.
    #[inline]
    pub(crate) fn arm(&mut self, timers: &mut impl Timers, id: u32, time: u64) {
        self.cancel(timers, id);
        // The first tick that begins at or after `time`. A time in the past expires at the next call.
        let tick = time.div_ceil(TICK).max(self.next_tick);
        let slot = slot_of(tick);
        let after = core::mem::replace(&mut self.heads[slot], id);
        if after != NONE {
            timers.timer_mut(after).before = id;
        }
        *timers.timer_mut(id) = Timer { before: NONE, after, tick };
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.armed += 1;
    }

    /// Cancels timer `id` if it is armed.
    #[inline]
    pub(crate) fn cancel(&mut self, timers: &mut impl Timers, id: u32) {
        let Timer { before, after, tick } = core::mem::take(timers.timer_mut(id));
        if tick == u64::MAX {
            return;
        }
        if after != NONE {
            timers.timer_mut(after).before = before;
        }
        if before != NONE {
            timers.timer_mut(before).after = after;
        } else {
            let slot = slot_of(tick);
            self.heads[slot] = after;
            if after == NONE {
                self.occupied[slot / 64] &= !(1 << (slot % 64));
            }
        }
        self.armed -= 1;
    }

    /// When to call [`Self::expire`] (microseconds): at or before the first timer's tick.
    pub(crate) fn next_timeout(&self) -> Option<u64> {
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
                return Some(tick.saturating_mul(TICK));
            }
        }
        None
    }

    /// Cancels every timer that has expired by `now` and appends its number to `expired`, as far as that has room.
    pub(crate) fn expire(
        &mut self,
        timers: &mut impl Timers,
        now: u64,
        expired: &mut impl Flat<u32>,
    ) {
        // The last tick that has begun. Each slot is visited at most once, however long ago the last call was.
        let now_tick = now / TICK;
        if now_tick < self.next_tick {
            return;
        }
        let slots = (now_tick - self.next_tick).saturating_add(1).min(SLOTS as u64);
        for i in 0..slots {
            let slot = slot_of(self.next_tick.wrapping_add(i));
            if self.occupied[slot / 64] & (1 << (slot % 64)) == 0 {
                continue;
            }
            let mut id = self.heads[slot];
            while id != NONE {
                let Timer { after, tick, .. } = *timers.timer(id);
                if tick <= now_tick {
                    if !expired.push(id) {
                        return;
                    }
                    self.cancel(timers, id);
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

    impl Timers for Vec<Timer> {
        fn timer(&self, id: u32) -> &Timer {
            &self[id as usize]
        }
        fn timer_mut(&mut self, id: u32) -> &mut Timer {
            &mut self[id as usize]
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Compares with a map of times: nothing expires early, everything expires within a tick, and following
        /// `next_timeout` alone suffices.
        #[test]
        fn timers_expire_as_in_a_map_of_times(
            steps in proptest::collection::vec((0u32..20, 0u64..40_000, 0u64..3000), 1..80),
        ) {
            let (mut wheel, mut timers) = (Wheel::new(), vec![Timer::default(); 20]);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = 0;
            for (id, delay, advance) in steps {
                let time = now + delay * 1000;
                if delay % 5 == 0 {
                    wheel.cancel(&mut timers, id);
                    model.remove(&id);
                } else {
                    wheel.arm(&mut timers, id, time);
                    model.insert(id, time);
                }
                prop_assert_eq!(wheel.armed, model.len());
                let target = now + advance * 1000;
                while let Some(next) = wheel.next_timeout().filter(|t| *t <= target) {
                    now = now.max(next);
                    let mut expired = Vec::new();
                    wheel.expire(&mut timers, now, &mut expired);
                    for id in expired {
                        let due = model.remove(&id).expect("an armed timer");
                        prop_assert!(due <= now, "early");
                    }
                }
                now = target;
                prop_assert!(model.values().all(|due| *due + TICK > now), "late");
            }
        }
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let (mut wheel, mut timers) = (Wheel::new(), vec![Timer::default(); 2]);
        wheel.arm(&mut timers, 0, u64::MAX);
        let mut expired = Vec::new();
        wheel.expire(&mut timers, 1 << 60, &mut expired);
        assert!(expired.is_empty() && wheel.next_timeout().is_some());
        wheel.expire(&mut timers, u64::MAX, &mut expired);
        assert!(expired.is_empty(), "its tick begins later");
        wheel.arm(&mut timers, 1, 5);
        wheel.expire(&mut timers, u64::MAX, &mut expired);
        assert!(expired.is_empty(), "not in a tick that is over");
    }
}
