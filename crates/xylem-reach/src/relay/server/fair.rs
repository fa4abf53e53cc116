//! [`RateShares`]: divides the rate of a whole relay among the sites whose clients use it, and a site's part among its pairs.
//!
//! A relay forwards at once and has no queue, so what exceeds a part is dropped. Every [`WINDOW`] the parts are computed
//! anew, max-min fair: who wants less than an equal part gets what it wants, and the others divide the rest equally. A
//! pair counts for the site that asked for it. State: one entry for each site and pair of the last window.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::IpAddr;
use core::time::Duration;
use std::collections::HashMap;

use crate::relay::crowd::site;
use crate::relay::rate::{Allowance, LeakyBucket};

/// Time after which parts are computed anew, and the time that a part may be saved for.
const WINDOW: Duration = Duration::from_millis(100);
/// Windows in a second.
const WINDOWS: u64 = 10;

/// What a site or a pair has offered in this window.
#[derive(Default, Debug)]
struct OfferedTraffic {
    bucket: LeakyBucket,
    bytes: u64,
}

#[derive(Debug)]
struct SiteTraffic {
    whole: OfferedTraffic,
    /// Most bytes a second of each of its pairs.
    level: u64,
    pairs: HashMap<u32, OfferedTraffic>,
}

/// The parts of all sites: see the module's documentation.
#[derive(Default, Debug)]
pub(super) struct RateShares {
    began: Duration,
    sites: HashMap<IpAddr, SiteTraffic>,
    /// Most bytes a second of each site; `None` before the first datagram.
    level: Option<u64>,
    /// Bytes that passed in this window.
    passed: u64,
    /// Bytes that passed beyond the rate, as parts are known only when a window is over.
    debt: u64,
}

impl RateShares {
    /// Whether a datagram of `much` bytes passes, of the pair with this number, which `host` asked for. `rate`: bytes a
    /// second of all together, or no limit.
    pub(super) fn take(
        &mut self,
        now: Duration,
        rate: Option<u64>,
        host: IpAddr,
        pair: u32,
        much: u64,
    ) -> bool {
        let Some(rate) = rate else { return true };
        let gone = now.saturating_sub(self.began);
        if gone >= WINDOW {
            self.divide(rate, gone);
            self.began = now;
        }
        let level = self.level.unwrap_or(rate);
        let new = || SiteTraffic { whole: OfferedTraffic::default(), level, pairs: HashMap::new() };
        let of_site = self.sites.entry(site(host)).or_insert_with(new);
        let of_pair = of_site.pairs.entry(pair).or_default();
        of_site.whole.bytes = of_site.whole.bytes.saturating_add(much);
        of_pair.bytes = of_pair.bytes.saturating_add(much);
        let (for_site, for_pair) = (part(level), part(of_site.level));
        let passes = of_site.whole.bucket.has(now, for_site) && of_pair.bucket.has(now, for_pair);
        if passes {
            of_site.whole.bucket.pay(now, much, for_site);
            of_pair.bucket.pay(now, much, for_pair);
            self.passed = self.passed.saturating_add(much);
        }
        passes
    }

    /// Computes the parts from what was offered in the `gone` time of the last window.
    fn divide(&mut self, rate: u64, gone: Duration) {
        let millis = u64::try_from(gone.as_millis()).unwrap_or(u64::MAX).max(1);
        let a_second = |bytes: u64| bytes.saturating_mul(1_000).checked_div(millis).unwrap_or(0);
        let budget = rate.saturating_mul(millis).checked_div(1_000).unwrap_or(0);
        self.debt = self.debt.saturating_add(self.passed).saturating_sub(budget);
        self.passed = 0;
        // What passed beyond the rate is saved in the next window, at most three quarters of it.
        let saved = self.debt.saturating_mul(WINDOWS).min(rate.saturating_sub(rate.div_ceil(4)));
        let rate = rate.saturating_sub(saved);
        self.sites.retain(|_, one| one.whole.bytes > 0);
        let level = level(self.sites.values().map(|one| a_second(one.whole.bytes)), rate);
        self.level = Some(level);
        for one in self.sites.values_mut() {
            one.whole.bytes = 0;
            one.pairs.retain(|_, pair| pair.bytes > 0);
            one.level = self::level(one.pairs.values().map(|pair| a_second(pair.bytes)), level);
            one.pairs.values_mut().for_each(|pair| pair.bytes = 0);
        }
    }
}

/// A part, of which a window's worth may be used at once.
fn part(per_second: u64) -> Allowance {
    Allowance { per_second, burst: WINDOW }
}

/// The rate to which each demand is limited, so that together they take `rate` (max-min fairness).
fn level(demands: impl Iterator<Item = u64>, rate: u64) -> u64 {
    let mut demands: Vec<u64> = demands.collect();
    demands.sort_unstable();
    let (mut left, mut others) = (rate, u64::try_from(demands.len()).unwrap_or(u64::MAX));
    for demand in demands {
        let equal = left.checked_div(others).unwrap_or(0);
        if demand > equal {
            return equal;
        }
        (left, others) = (left.saturating_sub(demand), others.saturating_sub(1));
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: u64 = 1_000_000;
    const MS: Duration = Duration::from_millis(1);

    /// A sender of `rate` bytes a second in datagrams of `size` bytes.
    #[derive(Clone, Copy, Debug)]
    struct Sender {
        host: [u8; 4],
        rate: u64,
        size: u64,
    }

    /// Bytes a second of each sender that pass a relay of [`RATE`], in the 8 s after the first two.
    fn passed(senders: &[Sender]) -> Vec<u64> {
        let mut shares = RateShares::default();
        let mut passed = vec![0; senders.len()];
        let mut due = vec![0; senders.len()];
        for ms in 0..10_000_u32 {
            for (i, sender) in senders.iter().enumerate() {
                due[i] += sender.rate / 1_000;
                while due[i] >= sender.size {
                    due[i] -= sender.size;
                    let pair = u32::try_from(i).unwrap();
                    let passes =
                        shares.take(MS * ms, Some(RATE), sender.host.into(), pair, sender.size);
                    if passes && ms >= 2_000 {
                        passed[i] += sender.size;
                    }
                }
            }
        }
        passed.iter().map(|bytes| bytes / 8).collect()
    }

    fn of_site(i: u8) -> [u8; 4] {
        [192, 0, i, 1]
    }

    /// Nine modest pairs, and one that sends 200 times as much: of one site each, or all of one.
    #[test]
    fn a_greedy_pair_gets_at_most_twice_its_part() {
        for alone in [true, false] {
            let host = |i: u8| of_site(if alone { i } else { 0 });
            let modest = (0..9).map(|i| Sender { host: host(i), rate: RATE / 10, size: 1_000 });
            let greedy = Sender { host: host(9), rate: 20 * RATE, size: 1_000 };
            let passed = passed(&modest.chain([greedy]).collect::<Vec<_>>());
            assert!(passed[9] <= 2 * RATE / 10, "{passed:?}");
            assert!(passed[..9].iter().all(|one| *one >= RATE * 9 / 100), "{passed:?}");
        }
    }

    #[test]
    fn a_lone_pair_gets_the_whole_rate() {
        let passed = passed(&[Sender { host: of_site(1), rate: 5 * RATE, size: 1_200 }]);
        assert!((RATE * 95 / 100..=RATE * 105 / 100).contains(&passed[0]), "{passed:?}");
    }

    /// A site with many pairs gets no more than one with a single pair.
    #[test]
    fn many_pairs_of_a_site_divide_its_part() {
        let many = (0..30).map(|_| Sender { host: of_site(1), rate: RATE, size: 1_000 });
        let one = Sender { host: of_site(2), rate: RATE, size: 1_000 };
        let passed = passed(&many.chain([one]).collect::<Vec<_>>());
        assert!(passed[30] >= RATE * 45 / 100, "{passed:?}");
    }

    #[test]
    fn without_a_limit_all_passes() {
        let mut shares = RateShares::default();
        assert!(shares.take(MS, None, of_site(1).into(), 1, u64::MAX));
        assert!(shares.sites.is_empty());
    }

    #[test]
    fn idle_sites_are_forgotten() {
        let mut shares = RateShares::default();
        for i in 0..100 {
            assert!(shares.take(MS, Some(RATE), of_site(i).into(), i.into(), 100));
        }
        assert!(shares.take(2 * WINDOW, Some(RATE), of_site(1).into(), 1, 100));
        assert!(shares.take(4 * WINDOW, Some(RATE), of_site(1).into(), 1, 100));
        assert_eq!(shares.sites.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Whatever the others send: all together keep to the rate, and nobody gets more than a fifth beyond the max-min
        /// fair part or less than four fifths of it.
        #[test]
        fn parts_are_max_min_fair(
            rates in prop::collection::vec((1_u64..400, 200_u64..1_400), 2..12),
        ) {
            let sender = |(i, (rate, size)): (usize, &(u64, u64))| {
                Sender { host: of_site(u8::try_from(i).unwrap()), rate: rate * 20_000, size: *size }
            };
            let senders: Vec<Sender> = rates.iter().enumerate().map(sender).collect();
            let passed = passed(&senders);
            let fair = level(senders.iter().map(|sender| sender.rate), RATE);
            prop_assert!(passed.iter().sum::<u64>() <= RATE * 11 / 10, "{passed:?}");
            for (sender, passed) in senders.iter().zip(&passed) {
                let part = sender.rate.min(fair);
                prop_assert!(*passed <= part * 12 / 10 + 1_400, "{sender:?}: {passed} of {part}");
                prop_assert!(*passed + 1_400 >= part * 8 / 10, "{sender:?}: {passed} of {part}");
            }
        }
    }
}
