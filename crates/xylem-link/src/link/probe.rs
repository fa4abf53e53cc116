//! [`PathProber`]: probes at addresses that this side chose, or that the peer has named in a sealed frame. An address that
//! answers is a way to the peer, and the link moves there at once if it is better.
//!
//! A peer may name a victim's address. So each challenge to an address that has not answered is counted ([`ProbeBudget`]): a
//! few for one source, some more for all of them together, until time has passed. A search of many ports is larger, and
//! runs only if the announced NATs make it useful.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use super::MAX_ANSWERS;
use crate::kdf::LinkRng;
use crate::source::source;
use crate::way::{PathKind, SyntheticPrefixes};

/// Addresses probed at a time, apart from a search.
const MAX_ASKED: usize = 24;
/// Addresses of one source probed at a time.
const MAX_OF_SOURCE: usize = 4;
/// Milliseconds between challenges at an address without an answer. An early one may meet a NAT that the peer's own
/// challenge has not opened yet.
const AGAIN_MS: [u64; 5] = [50, 100, 200, 400, 750];
/// Longest wait for an answer.
const MAX_ANSWER: Duration = Duration::from_secs(3);

/// Interval of the limits on challenges to addresses that have not answered.
const SPENDING: Duration = Duration::from_secs(30);
/// Most such challenges in an interval to addresses of one source.
const SPENT_OF_SOURCE: u16 = 24;
/// Most such challenges in an interval to all addresses.
const SPENT_OF_ALL: u16 = 128;

/// Most addresses of one search.
const MAX_SEARCHED: usize = 1_024;
/// Addresses of a search that are challenged in one step.
const SEARCHED_AT_ONCE: usize = 16;
/// Time between two steps of a search.
const SEARCH_STEP: Duration = Duration::from_millis(10);
/// The bits of a search's token that hold the index of its address.
const INDEX_MASK: u64 = MAX_SEARCHED as u64 - 1;

/// Longest datagram with a challenge, in bytes, padding included.
pub(super) const MAX_CHALLENGE_LEN: usize = 128;

/// How addresses are probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbePace {
    /// Six times within 1.5 s, until there is an answer: for the peer's candidates.
    Each,
    /// Once each, 1,600 a second: for many sockets or ports of which one may match one of the peer's, where one side
    /// has a symmetric NAT.
    Search,
}

/// The probes of a link; nearly every link has none.
#[derive(Default, Debug)]
pub(super) struct PathProber(Option<Box<Probes>>);

#[derive(Default, Debug)]
struct Probes {
    asked: Vec<AddressProbe>,
    search: Option<PortSearch>,
    /// When the last search began.
    searched: Option<Duration>,
    /// Challenges to be answered at their source, beside the answer on the link's own path: address and token.
    answers: VecDeque<(SocketAddr, u64)>,
    /// The addresses that the program probed last, for when the path in use fails.
    last: Vec<SocketAddr>,
    spent: ProbeBudget,
}

/// Probes at one address.
#[derive(Debug)]
struct AddressProbe {
    to: SocketAddr,
    token: u64,
    /// How often it was challenged.
    times: usize,
    /// When it is challenged again, or forgotten.
    next: Duration,
}

/// One challenge at each of many addresses.
#[derive(Debug)]
struct PortSearch {
    /// Addresses and tokens; a token's last bits are its index here.
    asked: Vec<(SocketAddr, u64)>,
    done: usize,
    next: Duration,
}

/// Recent challenges to addresses that have not answered, counted.
#[derive(Default, Debug)]
struct ProbeBudget {
    since: Duration,
    all: u16,
    of: Vec<(IpAddr, u16)>,
}

impl ProbeBudget {
    /// Returns whether one more challenge may go there, and counts it.
    fn takes(&mut self, now: Duration, to: SocketAddr) -> bool {
        if now >= self.since.saturating_add(SPENDING) {
            *self = Self { since: now, ..Self::default() };
        }
        let of = source(to.ip());
        let place = self.of.iter().position(|(ip, _)| *ip == of);
        let count = place.and_then(|at| self.of.get(at)).map_or(0, |(_, count)| *count);
        let may = self.all < SPENT_OF_ALL && count < SPENT_OF_SOURCE;
        if may {
            self.all = self.all.saturating_add(1);
            match place.and_then(|at| self.of.get_mut(at)) {
                Some((_, count)) => *count = count.saturating_add(1),
                None => self.of.push((of, 1)),
            }
        }
        may
    }

    /// An answer from a source begins its count anew.
    fn answered(&mut self, at: SocketAddr) {
        let of = source(at.ip());
        self.of.retain(|(ip, _)| *ip != of);
    }
}

impl Probes {
    /// Probes these addresses. Returns how many it probes.
    fn ask(&mut self, now: Duration, addresses: &[SocketAddr], rng: &mut LinkRng) -> usize {
        let mut count: usize = 0;
        for to in addresses {
            let known = self.asked.iter().position(|ask| ask.to == *to);
            if let Some(at) = known {
                // A probe under way goes on as it is; one that only waits for its last answer begins again.
                if self.asked.get(at).is_some_and(|ask| ask.times > AGAIN_MS.len()) {
                    self.asked.remove(at);
                } else {
                    count = count.saturating_add(1);
                    continue;
                }
            }
            let of = source(to.ip());
            let same = self.asked.iter().filter(|ask| source(ask.to.ip()) == of).count();
            if self.asked.len() < MAX_ASKED && same < MAX_OF_SOURCE {
                self.asked.push(AddressProbe { to: *to, token: rng.u64(), times: 0, next: now });
                count = count.saturating_add(1);
            }
        }
        count
    }

    fn search(&mut self, now: Duration, addresses: &[SocketAddr], rng: &mut LinkRng) -> usize {
        if self.searched.is_some_and(|begun| now < begun.saturating_add(SPENDING)) {
            return 0;
        }
        let places = (0..).zip(addresses.iter().take(MAX_SEARCHED));
        let asked: Vec<_> =
            places.map(|(place, to): (u64, _)| (*to, rng.u64() & !INDEX_MASK | place)).collect();
        let count = asked.len();
        if count > 0 {
            self.searched = Some(now);
            self.search = Some(PortSearch { asked, done: 0, next: now });
        }
        count
    }

    /// The address that was challenged with this token.
    fn on_response(&mut self, token: u64) -> Option<SocketAddr> {
        let asked = self.asked.iter().position(|ask| ask.token == token && ask.times > 0);
        let at = match asked {
            Some(at) => self.asked.remove(at).to,
            None => {
                let search = self.search.as_ref()?;
                let place = usize::try_from(token & INDEX_MASK).ok()?;
                let sent = search.asked.get(..search.done)?;
                sent.get(place).filter(|(_, asked)| *asked == token)?.0
            }
        };
        self.spent.answered(at);
        Some(at)
    }

    /// The challenge or answer that is due; one datagram may hold both.
    fn poll(&mut self, now: Duration, ways: &SyntheticPrefixes) -> Option<ProbeDatagram> {
        if let Some((to, answer)) = self.answers.pop_front() {
            let due = self.asked.iter_mut().find(|ask| ask.to == to && ask.is_due(now));
            let token = due.map(|ask| ask.sent(now));
            return Some(ProbeDatagram { to, answer: Some(answer), token });
        }
        self.asked.retain(|ask| !ask.is_over(now));
        let Self { asked, spent, .. } = self;
        for ask in asked.iter_mut().filter(|ask| ask.is_due(now)) {
            let (to, token) = (ask.to, ask.sent(now));
            if ways.way(to) != PathKind::Direct || spent.takes(now, to) {
                return Some(ProbeDatagram { to, answer: None, token: Some(token) });
            }
        }
        let search = self.search.as_mut().filter(|search| now >= search.next)?;
        let Some((to, token)) = search.asked.get(search.done).copied() else {
            self.search = None;
            return None;
        };
        search.done = search.done.saturating_add(1);
        if search.done == search.asked.len() {
            search.next = now.saturating_add(MAX_ANSWER);
        } else if search.done.is_multiple_of(SEARCHED_AT_ONCE) {
            search.next = search.next.max(now).saturating_add(SEARCH_STEP);
        }
        Some(ProbeDatagram { to, answer: None, token: Some(token) })
    }

    fn next_timeout(&self) -> Option<Duration> {
        let search = self.search.as_ref().map(|search| search.next);
        self.asked.iter().map(|ask| ask.next).chain(search).min()
    }
}

impl AddressProbe {
    fn is_due(&self, now: Duration) -> bool {
        self.times <= AGAIN_MS.len() && now >= self.next
    }

    fn is_over(&self, now: Duration) -> bool {
        self.times > AGAIN_MS.len() && now >= self.next
    }

    /// Records a challenge that is sent now; returns its token.
    fn sent(&mut self, now: Duration) -> u64 {
        let again = AGAIN_MS.get(self.times).map(|ms| Duration::from_millis(*ms));
        self.next = now.saturating_add(again.unwrap_or(MAX_ANSWER));
        self.times = self.times.saturating_add(1);
        self.token
    }
}

/// A datagram to another address than the link's.
pub(super) struct ProbeDatagram {
    pub to: SocketAddr,
    /// The token of the peer's challenge from there, to be answered.
    pub answer: Option<u64>,
    /// The token of our challenge.
    pub token: Option<u64>,
}

impl PathProber {
    fn probes(&mut self) -> &mut Probes {
        self.0.get_or_insert_default()
    }

    /// Probes these addresses, which the program has chosen. Returns how many it probes.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        mut to: Vec<SocketAddr>,
        rng: &mut LinkRng,
    ) -> usize {
        to.truncate(MAX_ASKED);
        let probes = self.probes();
        let count = probes.ask(now, &to, rng);
        probes.last = to;
        count
    }

    pub(super) fn search(&mut self, now: Duration, to: &[SocketAddr], rng: &mut LinkRng) -> usize {
        self.probes().search(now, to, rng)
    }

    /// Answers a challenge at its source; `free`: without counting it. Returns whether the limits allow it.
    pub(super) fn answer(&mut self, now: Duration, answer: (SocketAddr, u64), free: bool) -> bool {
        let probes = self.probes();
        let may = probes.answers.len() < MAX_ANSWERS && (free || probes.spent.takes(now, answer.0));
        if may {
            probes.answers.push_back(answer);
        }
        may
    }

    /// Challenges the source of a challenge: the NATs it passed are open now.
    pub(super) fn probe_source(&mut self, now: Duration, from: SocketAddr, rng: &mut LinkRng) {
        let probes = self.probes();
        probes.ask(now, &[from], rng);
        let asked = probes.asked.iter_mut().filter(|ask| ask.to == from);
        asked.for_each(|ask| ask.next = ask.next.min(now));
    }

    pub(super) fn poll(
        &mut self,
        now: Duration,
        ways: &SyntheticPrefixes,
    ) -> Option<ProbeDatagram> {
        self.0.as_mut()?.poll(now, ways)
    }

    pub(super) fn on_response(&mut self, token: u64) -> Option<SocketAddr> {
        self.0.as_mut()?.on_response(token)
    }

    /// Probes again what the program probed last: the path in use has failed.
    pub(super) fn probe_again(&mut self, now: Duration, rng: &mut LinkRng) {
        if let Some(probes) = &mut self.0 {
            let last = core::mem::take(&mut probes.last);
            probes.ask(now, &last, rng);
            probes.last = last;
        }
    }

    pub(super) fn can_probe_again(&self) -> bool {
        self.0.as_ref().is_some_and(|probes| !probes.last.is_empty())
    }

    /// Ends a search: a better way has been found.
    pub(super) fn end_search(&mut self) {
        if let Some(probes) = &mut self.0 {
            probes.search = None;
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.0.as_ref()?.next_timeout()
    }

    pub(super) fn is_asked(&self, address: SocketAddr) -> bool {
        self.0.as_ref().is_some_and(|probes| {
            let searched = probes.search.iter().flat_map(|search| &search.asked);
            probes
                .asked
                .iter()
                .map(|ask| ask.to)
                .chain(searched.map(|a| a.0))
                .any(|to| to == address)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(n: u32, port: u16) -> SocketAddr {
        SocketAddr::from((n.to_be_bytes(), port))
    }

    fn asked(probes: &mut Probes, now: Duration) -> Vec<SocketAddr> {
        core::iter::from_fn(|| probes.poll(now, &SyntheticPrefixes::default()))
            .map(|q| q.to)
            .collect()
    }

    #[test]
    fn an_address_is_challenged_six_times_and_forgotten() {
        let (mut probes, mut rng) = (Probes::default(), LinkRng::new(&[1; 32]));
        assert_eq!(probes.ask(MS, &[at(1, 1)], &mut rng), 1);
        let mut times = vec![];
        while let Some(next) = probes.next_timeout() {
            times.extend(asked(&mut probes, next).iter().map(|_| (next - MS).as_millis()));
        }
        assert_eq!(times, [0, 50, 150, 350, 750, 1_500]);
        assert!(probes.asked.is_empty());
    }

    /// Whatever a peer names, and however often, the number of challenges is bounded.
    #[test]
    fn a_victim_receives_few_challenges() {
        let (mut probes, mut rng) = (Probes::default(), LinkRng::new(&[1; 32]));
        let mut to: Vec<SocketAddr> = vec![];
        for ms in 0..29_000 {
            let now = MS * ms;
            let named: Vec<_> = (0..16).map(|n| at(7, ms as u16 ^ n)).collect();
            assert!(probes.ask(now, &named, &mut rng) <= MAX_OF_SOURCE);
            to.extend(asked(&mut probes, now));
        }
        assert_eq!(to.len(), usize::from(SPENT_OF_SOURCE), "one source");
        for ms in 0..29_000 {
            let now = MS * (30_000 + ms);
            let named: Vec<_> = (0..16).map(|n| at(ms * 16 + n, 1)).collect();
            probes.ask(now, &named, &mut rng);
            assert!(probes.asked.len() <= MAX_ASKED);
            to.extend(asked(&mut probes, now));
            assert!(probes.spent.of.len() <= usize::from(SPENT_OF_ALL));
        }
        assert_eq!(to.len(), usize::from(SPENT_OF_SOURCE + SPENT_OF_ALL), "many sources");
    }

    #[test]
    fn a_search_challenges_each_address_once_and_recognizes_answers() {
        let (mut probes, mut rng) = (Probes::default(), LinkRng::new(&[1; 32]));
        let ports: Vec<_> = (0..3_000).map(|n| at(7, n)).collect();
        assert_eq!(probes.search(MS, &ports, &mut rng), 1_024);
        assert_eq!(probes.search(MS, &ports, &mut rng), 0, "one at a time");
        let tokens: Vec<_> = probes.search.as_ref().unwrap().asked.iter().map(|a| a.1).collect();
        assert_eq!(probes.on_response(tokens[0]), None, "not asked yet");
        let mut sent = vec![];
        let mut now = MS;
        while sent.len() < 1_024 {
            let some = asked(&mut probes, now);
            assert!(some.len() <= SEARCHED_AT_ONCE);
            sent.extend(some);
            now = probes.next_timeout().unwrap();
        }
        assert!(sent == ports[..1_024] && now < MS * 3_700, "{now:?}");
        for (n, token) in tokens.iter().enumerate() {
            assert_eq!(probes.on_response(*token), Some(ports[n]));
            assert_eq!(probes.on_response(*token ^ (1 << 20)), None);
        }
        asked(&mut probes, now);
        assert!(probes.search.is_none(), "it is forgotten");
        assert_eq!(probes.search(MS * 29_000, &ports, &mut rng), 0, "and rests");
        assert_eq!(probes.search(MS * 30_001, &ports, &mut rng), 1_024);
    }
}
