//! [`UnprovenAllowance`]: what addresses are sent beyond three bytes for one before they have answered.
//!
//! A program that only consumes answers no probe (NDNd, NDNts, python-ndn). Its address therefore has a budget of bytes,
//! which is full at first and refills slowly. Its site has one too, and so have all unproven addresses of this process
//! together; a frame leaves only if all three have room. `docs/spec/faces.md` states what an attacker gets from that.
//!
//! Addresses fall into a fixed number of places by a hash under a secret. Addresses in one place share its budget. So
//! memory is fixed, nothing is evicted, and no number of other addresses refills a budget.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::net::IpAddr;
use std::time::Duration;

use xylem_hash::keyed_hash;
use xylem_link::source;

use super::site;

/// The usual budget of an address: a file of 1 MB with its headers, and nearly as much again for repeated requests. NDNd
/// draws up to 1.7 MB for 1 MB where its receive buffer loses bursts.
pub const UNPROVEN_BYTES: u32 = 2_000_000;

/// Places for sources, and as many for sites.
const PLACES: usize = 4_096;
/// An empty budget of a source or a site is full again after this long.
const REFILL: Duration = Duration::from_secs(20 * 60);
/// A site has as much as this many sources.
const SITE: u64 = 4;
/// All unproven addresses together have as much as this many sources, and their budget refills sooner.
const ALL: u64 = 12;
const REFILL_OF_ALL: Duration = Duration::from_secs(60);

/// A budget, by the time at which it is full. It starts full.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    full_at: Duration,
}

impl Budget {
    /// Returns what is left after `bytes` of `capacity`; `None` if there is less. Rounds against the address.
    fn less(self, now: Duration, bytes: u64, capacity: u64, refill: Duration) -> Option<Self> {
        let capacity = u128::from(capacity);
        let nanos = u128::from(bytes).checked_mul(refill.as_nanos())?;
        let nanos = nanos.checked_add(capacity.saturating_sub(1))?.checked_div(capacity)?;
        let takes = Duration::from_nanos(u64::try_from(nanos).ok()?);
        let full_at = self.full_at.max(now).checked_add(takes)?;
        (full_at <= now.checked_add(refill)?).then_some(Self { full_at })
    }
}

/// The budgets of all unproven addresses; see the module's documentation.
#[derive(Debug)]
pub struct UnprovenAllowance {
    of_source: u64,
    secret: [u8; 32],
    /// Empty until something is drawn: most engines have no plain UDP.
    sources: Vec<Budget>,
    sites: Vec<Budget>,
    all: Budget,
}

impl UnprovenAllowance {
    /// Full budgets, of so many bytes for each source; 0: none. The secret decides which addresses share a place.
    #[must_use]
    pub fn new(of_source: u32, secret: [u8; 32]) -> Self {
        let of_source = of_source.into();
        Self { of_source, secret, sources: vec![], sites: vec![], all: Budget::default() }
    }

    /// Changes the budget of each source. What was drawn before counts in proportion.
    pub fn set_budget(&mut self, of_source: u32) {
        self.of_source = of_source.into();
    }

    /// Takes this many bytes for this address; returns false, and takes nothing, if one of its budgets has less.
    pub fn draw(&mut self, now: Duration, ip: IpAddr, bytes: usize) -> bool {
        self.try_draw(now, ip, bytes).is_some()
    }

    fn try_draw(&mut self, now: Duration, ip: IpAddr, bytes: usize) -> Option<()> {
        if self.of_source == 0 {
            return None;
        }
        if self.sources.is_empty() {
            self.sources = vec![Budget::default(); PLACES];
            self.sites = vec![Budget::default(); PLACES];
        }
        let bytes = u64::try_from(bytes).ok()?;
        let (source, site) = (self.place(source(ip)), self.place(site(ip)));
        let many = |count| self.of_source.saturating_mul(count);
        let (of_source, of_site, of_all) = (self.of_source, many(SITE), many(ALL));
        let (source, site) = (self.sources.get_mut(source)?, self.sites.get_mut(site)?);
        let left_source = source.less(now, bytes, of_source, REFILL)?;
        let left_site = site.less(now, bytes, of_site, REFILL)?;
        let left_all = self.all.less(now, bytes, of_all, REFILL_OF_ALL)?;
        (*source, *site, self.all) = (left_source, left_site, left_all);
        Some(())
    }

    /// Returns the place of an address or a site.
    fn place(&self, ip: IpAddr) -> usize {
        let hash = match ip {
            IpAddr::V4(v4) => keyed_hash(&self.secret, &v4.octets()),
            IpAddr::V6(v6) => keyed_hash(&self.secret, &v6.octets()),
        };
        let [low, high, ..] = *hash.as_bytes();
        usize::from(u16::from_le_bytes([low, high])) % PLACES
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::Ipv4Addr;

    use xylem_sim::noise;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);
    const FRAME: usize = 8_000;
    const BUDGET: usize = UNPROVEN_BYTES as usize;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Address `of_site` of site `n`.
    fn address(n: usize, of_site: u8) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 | (n as u32) << 8 | u32::from(of_site)).into()
    }

    fn allowance() -> UnprovenAllowance {
        UnprovenAllowance::new(UNPROVEN_BYTES, [7; 32])
    }

    /// Draws frames until one is refused; returns the bytes granted.
    fn exhaust(allowance: &mut UnprovenAllowance, now: Duration, ip: IpAddr) -> usize {
        (0..10_000).take_while(|_| allowance.draw(now, ip, FRAME)).count() * FRAME
    }

    fn is_budget(granted: usize, bytes: usize) {
        assert!((bytes - FRAME..=bytes).contains(&granted), "{granted} of {bytes}");
    }

    #[test]
    fn an_address_gets_its_budget_and_then_a_slow_refill() {
        let (mut allowance, victim) = (allowance(), ip("192.0.2.1"));
        is_budget(exhaust(&mut allowance, NOW, victim), BUDGET);
        let minute = NOW + Duration::from_secs(60);
        is_budget(exhaust(&mut allowance, minute, victim), BUDGET / 20);
        // Days of silence give no more than one budget.
        let days = NOW + Duration::from_secs(1_000_000);
        is_budget(exhaust(&mut allowance, days, victim), BUDGET);
        // Twenty minutes of requests without pause give one budget, too.
        let granted = (1..=9_000_u32)
            .map(|n| exhaust(&mut allowance, days + REFILL * n / 9_000, victim))
            .sum::<usize>();
        is_budget(granted, BUDGET);
    }

    #[test]
    fn a_site_gets_four_budgets_however_many_addresses_it_has() {
        let mut allowance = allowance();
        let granted: usize = (0..=255).map(|n| exhaust(&mut allowance, NOW, address(1, n))).sum();
        is_budget(granted, 4 * BUDGET);
        let later = NOW + REFILL / 2;
        let granted: usize = (0..=255).map(|n| exhaust(&mut allowance, later, address(1, n))).sum();
        is_budget(granted, 2 * BUDGET);
        assert!(allowance.draw(later, address(2, 1), FRAME), "another site has its own");
    }

    #[test]
    fn all_addresses_together_get_twelve_budgets_a_minute() {
        let mut allowance = allowance();
        let all = |allowance: &mut UnprovenAllowance, now, sites: std::ops::Range<usize>| {
            sites.map(|n| exhaust(allowance, now, address(n, 1))).sum::<usize>()
        };
        is_budget(all(&mut allowance, NOW, 0..2_000), 12 * BUDGET);
        let later = NOW + Duration::from_secs(30);
        is_budget(all(&mut allowance, later, 2_000..4_000), 6 * BUDGET);
    }

    #[test]
    fn no_number_of_addresses_refills_the_budget_of_another() {
        let (mut allowance, victim) = (allowance(), ip("192.0.2.1"));
        exhaust(&mut allowance, NOW, victim);
        for n in 0..100_000 {
            allowance.draw(NOW, address(n, 1), 1);
            assert!(n % 1_000 > 0 || !allowance.draw(NOW, victim, FRAME), "{n}");
        }
        assert_eq!([allowance.sources.len(), allowance.sites.len()], [PLACES; 2]);
    }

    #[test]
    fn addresses_of_one_source_share_one_budget() {
        for [one, other, site, far] in [
            ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.9", "192.0.3.1"],
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:9::1", "2001:db8:1::1"],
        ] {
            let mut allowance = allowance();
            is_budget(exhaust(&mut allowance, NOW, ip(one)), BUDGET);
            assert_eq!(exhaust(&mut allowance, NOW, ip(other)), 0, "{other}");
            is_budget(exhaust(&mut allowance, NOW, ip(site)), BUDGET);
            is_budget(exhaust(&mut allowance, NOW, ip(far)), BUDGET);
        }
    }

    #[test]
    fn a_budget_of_nothing_grants_nothing() {
        let mut allowance = UnprovenAllowance::new(0, [7; 32]);
        assert!(!allowance.draw(NOW, ip("192.0.2.1"), 1));
        allowance.set_budget(10);
        assert!(allowance.draw(NOW, ip("192.0.2.1"), 10));
        assert!(!allowance.draw(NOW, ip("192.0.2.1"), 1));
    }

    #[test]
    fn extreme_numbers_grant_nothing_beyond_the_budget() {
        for budget in [1, 10, u32::MAX] {
            for now in [Duration::ZERO, NOW, Duration::MAX - REFILL, Duration::MAX] {
                let mut allowance = UnprovenAllowance::new(budget, [7; 32]);
                assert!(!allowance.draw(now, ip("192.0.2.1"), usize::MAX));
                assert!(!allowance.draw(now, ip("192.0.2.1"), budget as usize + 1));
            }
        }
    }

    /// A budget as a count of bytes, kept exactly: bytes times nanoseconds of its refill.
    struct Model {
        capacity: u128,
        refill: u128,
        used: u128,
        at: Duration,
    }

    impl Model {
        fn new(budgets: u64, refill: Duration) -> Self {
            let capacity = u128::from(budgets) * u128::from(UNPROVEN_BYTES);
            Self { capacity, refill: refill.as_nanos(), used: 0, at: NOW }
        }

        /// Bytes times nanoseconds that are left.
        fn left(&mut self, now: Duration) -> u128 {
            let refilled = self.capacity * (now - self.at).as_nanos();
            (self.used, self.at) = (self.used.saturating_sub(refilled), now);
            self.capacity * self.refill - self.used
        }
    }

    #[test]
    fn budgets_are_those_of_an_exact_count() {
        let addresses: Vec<IpAddr> = (1..=24_u8).map(|n| address(usize::from(n % 4), n)).collect();
        // A secret under which no two of them share a place.
        let alone = |allowance: &UnprovenAllowance| {
            let places = |part: fn(IpAddr) -> IpAddr| {
                let places: HashMap<_, _> =
                    addresses.iter().map(|ip| (allowance.place(part(*ip)), part(*ip))).collect();
                places.len()
            };
            (places(source), places(site)) == (24, 4)
        };
        let mut secrets = (0..=255).map(|n| UnprovenAllowance::new(UNPROVEN_BYTES, [n; 32]));
        let mut allowance = secrets.find(alone).expect("most are such");
        let mut models: HashMap<IpAddr, Model> = HashMap::new();
        let mut all = Model::new(ALL, REFILL_OF_ALL);
        let script = noise(400_000, 5);
        let (mut now, mut granted) = (NOW, [0; 2]);
        for step in script.chunks_exact(4) {
            let [who, long, wait, far] = *step else { unreachable!() };
            // Bursts, and now and then some minutes of silence.
            let pause = if far < 2 { 1_000 * u64::from(wait) } else { u64::from(wait) };
            now += Duration::from_millis(pause);
            let address = addresses[usize::from(who) % addresses.len()];
            let bytes = usize::from(long) * 999;
            let may = allowance.draw(now, address, bytes);
            // Networks and addresses differ in their last byte.
            let mut of = |part: IpAddr, budgets| {
                models.entry(part).or_insert_with(|| Model::new(budgets, REFILL));
            };
            of(address, 1);
            of(site(address), SITE);
            let mut kept = [
                models.remove(&address).expect("it was put there"),
                models.remove(&site(address)).expect("it is another"),
            ];
            let [own, whole] = &mut kept;
            let missing = [own, whole, &mut all].map(|model| {
                let (left, asked) = (model.left(now), bytes as u128 * model.refill);
                model.used += if may { asked } else { 0 };
                assert!(!may || asked <= left, "{bytes} bytes were granted at {now:?}");
                // The rounding of all draws is less than a byte.
                asked + model.refill > left
            });
            assert!(may || missing.contains(&true), "{bytes} bytes were refused at {now:?}");
            granted[usize::from(may)] += 1;
            let [own, whole] = kept;
            models.insert(address, own);
            models.insert(site(address), whole);
        }
        assert!(granted.iter().all(|count| *count > 1_000), "{granted:?}");
    }
}
