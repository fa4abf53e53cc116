//! Where else the peer may be asked for: questions at addresses that this side chose, or that the peer has named
//! in a sealed frame. What answers there is a way to the peer, and taken at once where it is a better one.
//!
//! A peer may name somebody else's address. So each question that goes to an address which has not answered is
//! counted ([`Spent`]): a few to one source, some more to all of them together, and no more until time has
//! passed. A search of many ports is larger, and there is none unless both sides have told that it is of use.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use super::MAX_ANSWERS;
use crate::kdf::Rng;
use crate::source::source;
use crate::way::{Way, Ways};

/// Addresses that are asked at a time, apart from a search.
const MAX_ASKED: usize = 24;
/// Of one source.
const MAX_OF_SOURCE: usize = 4;
/// After the first question at an address the next ones follow, if there is no answer: one may have come to a NAT
/// that the peer's own question had not opened yet.
const AGAIN_MS: [u64; 5] = [50, 100, 200, 400, 750];
/// An answer may take so long.
const MAX_ANSWER: Duration = Duration::from_secs(3);

/// In this time …
const SPENDING: Duration = Duration::from_secs(30);
/// … so many questions go to addresses of one source that have not answered …
const SPENT_OF_SOURCE: u16 = 24;
/// … and so many to all of them.
const SPENT_OF_ALL: u16 = 128;

/// Addresses of one search.
const MAX_SEARCHED: usize = 1_024;
/// So many are asked at a time …
const SEARCHED_AT_ONCE: usize = 16;
/// … so far apart.
const SEARCH_STEP: Duration = Duration::from_millis(10);
/// The bits of a token that say which address it went to.
const PLACE: u64 = MAX_SEARCHED as u64 - 1;

/// Bytes that are asked with at most, padding included.
pub(super) const MOST: usize = 128;

/// How addresses are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Six times within a second and a half, until there is an answer: the peer's candidates.
    Each,
    /// Once, 1,600 a second: sockets or ports of which one may meet one of the peer's, where one of the two
    /// sides has a symmetric NAT.
    Search,
}

/// Nearly every link asks nobody.
#[derive(Default, Debug)]
pub(super) struct Reach(Option<Box<Probes>>);

#[derive(Default, Debug)]
struct Probes {
    asked: Vec<Ask>,
    search: Option<Search>,
    /// When the last search began.
    searched: Option<Duration>,
    /// What is to be answered, beside by the way that the link has: where, and with which token.
    answers: VecDeque<(SocketAddr, u64)>,
    /// What the program asked last, for when the way in use fails.
    last: Vec<SocketAddr>,
    spent: Spent,
}

/// Questions at one address.
#[derive(Debug)]
struct Ask {
    to: SocketAddr,
    token: u64,
    /// How often it was asked.
    times: usize,
    /// When it is asked again, or forgotten.
    next: Duration,
}

/// One question at each of many addresses.
#[derive(Debug)]
struct Search {
    /// A token's last bits are its place here.
    asked: Vec<(SocketAddr, u64)>,
    done: usize,
    next: Duration,
}

/// Questions to addresses that have not answered, lately.
#[derive(Default, Debug)]
struct Spent {
    since: Duration,
    all: u16,
    of: Vec<(IpAddr, u16)>,
}

impl Spent {
    /// Whether one more may go there, which is counted.
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

    /// Somebody who is the peer is there.
    fn answered(&mut self, at: SocketAddr) {
        let of = source(at.ip());
        self.of.retain(|(ip, _)| *ip != of);
    }
}

impl Probes {
    /// Asks at these addresses. Gives how many it asks.
    fn ask(&mut self, now: Duration, addresses: &[SocketAddr], rng: &mut Rng) -> usize {
        let mut count: usize = 0;
        for to in addresses {
            let known = self.asked.iter().position(|ask| ask.to == *to);
            if let Some(at) = known {
                // It goes on as it is, or begins again.
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
                self.asked.push(Ask { to: *to, token: rng.u64(), times: 0, next: now });
                count = count.saturating_add(1);
            }
        }
        count
    }

    fn search(&mut self, now: Duration, addresses: &[SocketAddr], rng: &mut Rng) -> usize {
        if self.searched.is_some_and(|begun| now < begun.saturating_add(SPENDING)) {
            return 0;
        }
        let places = (0..).zip(addresses.iter().take(MAX_SEARCHED));
        let asked: Vec<_> =
            places.map(|(place, to): (u64, _)| (*to, rng.u64() & !PLACE | place)).collect();
        let count = asked.len();
        if count > 0 {
            self.searched = Some(now);
            self.search = Some(Search { asked, done: 0, next: now });
        }
        count
    }

    /// Where the question was that has this answer.
    fn on_response(&mut self, token: u64) -> Option<SocketAddr> {
        let asked = self.asked.iter().position(|ask| ask.token == token && ask.times > 0);
        let at = match asked {
            Some(at) => self.asked.remove(at).to,
            None => {
                let search = self.search.as_ref()?;
                let place = usize::try_from(token & PLACE).ok()?;
                let sent = search.asked.get(..search.done)?;
                sent.get(place).filter(|(_, asked)| *asked == token)?.0
            }
        };
        self.spent.answered(at);
        Some(at)
    }

    /// A question that is due. Of one that is answered as well, its token.
    fn poll(&mut self, now: Duration, ways: &Ways) -> Option<Question> {
        if let Some((to, answer)) = self.answers.pop_front() {
            let due = self.asked.iter_mut().find(|ask| ask.to == to && ask.is_due(now));
            let token = due.map(|ask| ask.sent(now));
            return Some(Question { to, answer: Some(answer), token });
        }
        self.asked.retain(|ask| !ask.is_over(now));
        let Self { asked, spent, .. } = self;
        for ask in asked.iter_mut().filter(|ask| ask.is_due(now)) {
            let (to, token) = (ask.to, ask.sent(now));
            if ways.way(to) != Way::Direct || spent.takes(now, to) {
                return Some(Question { to, answer: None, token: Some(token) });
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
        Some(Question { to, answer: None, token: Some(token) })
    }

    fn next_timeout(&self) -> Option<Duration> {
        let search = self.search.as_ref().map(|search| search.next);
        self.asked.iter().map(|ask| ask.next).chain(search).min()
    }
}

impl Ask {
    fn is_due(&self, now: Duration) -> bool {
        self.times <= AGAIN_MS.len() && now >= self.next
    }

    fn is_over(&self, now: Duration) -> bool {
        self.times > AGAIN_MS.len() && now >= self.next
    }

    /// It is asked now: with its token.
    fn sent(&mut self, now: Duration) -> u64 {
        let again = AGAIN_MS.get(self.times).map(|ms| Duration::from_millis(*ms));
        self.next = now.saturating_add(again.unwrap_or(MAX_ANSWER));
        self.times = self.times.saturating_add(1);
        self.token
    }
}

/// A datagram to an address where the link is not.
pub(super) struct Question {
    pub to: SocketAddr,
    /// The token of a question from there.
    pub answer: Option<u64>,
    /// That of ours.
    pub token: Option<u64>,
}

impl Reach {
    fn probes(&mut self) -> &mut Probes {
        self.0.get_or_insert_default()
    }

    /// Asks at these addresses, which the program has chosen; at how many of them.
    pub(super) fn ask(&mut self, now: Duration, mut to: Vec<SocketAddr>, rng: &mut Rng) -> usize {
        to.truncate(MAX_ASKED);
        let probes = self.probes();
        let count = probes.ask(now, &to, rng);
        probes.last = to;
        count
    }

    pub(super) fn search(&mut self, now: Duration, to: &[SocketAddr], rng: &mut Rng) -> usize {
        self.probes().search(now, to, rng)
    }

    /// Answers a question there; `free`, without counting it. Whether that is possible.
    pub(super) fn answer(&mut self, now: Duration, answer: (SocketAddr, u64), free: bool) -> bool {
        let probes = self.probes();
        let may = probes.answers.len() < MAX_ANSWERS && (free || probes.spent.takes(now, answer.0));
        if may {
            probes.answers.push_back(answer);
        }
        may
    }

    /// Asks where a question came from: what it went through is open now.
    pub(super) fn ask_back(&mut self, now: Duration, from: SocketAddr, rng: &mut Rng) {
        let probes = self.probes();
        probes.ask(now, &[from], rng);
        let asked = probes.asked.iter_mut().filter(|ask| ask.to == from);
        asked.for_each(|ask| ask.next = ask.next.min(now));
    }

    pub(super) fn poll(&mut self, now: Duration, ways: &Ways) -> Option<Question> {
        self.0.as_mut()?.poll(now, ways)
    }

    pub(super) fn on_response(&mut self, token: u64) -> Option<SocketAddr> {
        self.0.as_mut()?.on_response(token)
    }

    /// Asks once more what the program has asked last: the way in use has failed.
    pub(super) fn ask_again(&mut self, now: Duration, rng: &mut Rng) {
        if let Some(probes) = &mut self.0 {
            let last = core::mem::take(&mut probes.last);
            probes.ask(now, &last, rng);
            probes.last = last;
        }
    }

    pub(super) fn may_ask_again(&self) -> bool {
        self.0.as_ref().is_some_and(|probes| !probes.last.is_empty())
    }

    /// A better way has been found.
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
        core::iter::from_fn(|| probes.poll(now, &Ways::default())).map(|q| q.to).collect()
    }

    #[test]
    fn an_address_is_asked_six_times_and_forgotten() {
        let (mut probes, mut rng) = (Probes::default(), Rng::new(&[1; 32]));
        assert_eq!(probes.ask(MS, &[at(1, 1)], &mut rng), 1);
        let mut times = vec![];
        while let Some(next) = probes.next_timeout() {
            times.extend(asked(&mut probes, next).iter().map(|_| (next - MS).as_millis()));
        }
        assert_eq!(times, [0, 50, 150, 350, 750, 1_500]);
        assert!(probes.asked.is_empty());
    }

    /// Whatever a peer names, and however often: a bounded number goes out.
    #[test]
    fn a_victim_gets_a_few_questions() {
        let (mut probes, mut rng) = (Probes::default(), Rng::new(&[1; 32]));
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
    fn a_search_asks_each_once_within_a_second_and_knows_its_answers() {
        let (mut probes, mut rng) = (Probes::default(), Rng::new(&[1; 32]));
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
