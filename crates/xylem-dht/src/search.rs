//! [`Search`]: which nodes of one family a lookup asks, in which order, and when it has asked enough.
//!
//! The nodes closest to the target that answer are wanted. Every address comes from foreign nodes, so that each is
//! asked once, few of one host are, and nodes are asked last if the node that listed them has listed others that do not
//! answer.

use core::net::SocketAddr;
use std::collections::{HashMap, HashSet};

use crate::address::{AddressScope, Host};
use crate::id::DhtId;

/// Nodes closest to the target that have to answer (k of Kademlia).
pub(crate) const NEAREST: usize = 8;
/// Nodes closest to the target among those with an id bound to their address (BEP 42) that have to answer too: an
/// attacker chooses other ids at will, and these only by its addresses.
pub(crate) const NEAREST_BOUND: usize = 4;
/// Most queries in progress for one search (alpha), not counting late ones.
pub(crate) const IN_PROGRESS: usize = 4;
/// Most queries of one search.
pub(crate) const MAX_QUERIES: usize = 96;
/// Most nodes that are taken from one answer. Nodes send 8, some 20.
pub(crate) const MAX_LISTED: usize = 20;
/// Most nodes of one host that are asked.
pub(crate) const MAX_OF_HOST: u8 = 2;
/// Most candidates.
const MAX_CANDIDATES: usize = 100;
/// Silent nodes of one answer after which the rest of them is asked last.
const MAX_SILENT: u16 = 4;
/// Most nodes remembered that have listed one candidate.
const MAX_SOURCES: usize = 4;
/// Datagrams to an address where the network is entered, which has no id yet.
const ENTRY_TRIES: u8 = 2;
/// Nodes that have to answer until the network is entered.
const ENTERED: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CandidateState {
    New,
    Asked,
    /// Asked, and silent for longer than usual. The search does not wait for it.
    Late,
    Answered,
}

#[derive(Debug)]
struct Candidate {
    id: DhtId,
    at: SocketAddr,
    bound: bool,
    state: CandidateState,
    token: Option<Vec<u8>>,
    /// Nodes that have listed it, [`MAX_SOURCES`] at most; none for one that has answered before.
    sources: Vec<SocketAddr>,
}

#[derive(Debug)]
struct EntryAddress {
    at: SocketAddr,
    tries: u8,
    asked: bool,
}

/// How the nodes fared that one node has listed.
#[derive(Clone, Copy, Debug, Default)]
struct SourceRecord {
    answered: u16,
    silent: u16,
}

/// A node that has answered.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredNode {
    pub(crate) id: DhtId,
    pub(crate) at: SocketAddr,
    pub(crate) token: Option<Vec<u8>>,
}

#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) v6: bool,
    target: DhtId,
    scope: AddressScope,
    /// Whether nodes of answers are asked too. A poll asks the given ones alone.
    follows: bool,
    /// Sorted by the distance from the target.
    candidates: Vec<Candidate>,
    entries: Vec<EntryAddress>,
    asked: HashSet<SocketAddr>,
    hosts: HashMap<Host, u8>,
    sources: HashMap<SocketAddr, SourceRecord>,
    queries: usize,
    answered: usize,
}

enum Pick {
    Entry(usize),
    Candidate(usize),
}

impl Search {
    /// A search that follows the nodes that others name.
    pub(crate) fn new(v6: bool, target: DhtId, scope: AddressScope) -> Self {
        Self {
            v6,
            target,
            scope,
            follows: true,
            candidates: Vec::new(),
            entries: Vec::new(),
            asked: HashSet::new(),
            hosts: HashMap::new(),
            sources: HashMap::new(),
            queries: 0,
            answered: 0,
        }
    }

    /// A search that asks the given nodes alone.
    pub(crate) fn poll(v6: bool, target: DhtId, scope: AddressScope) -> Self {
        Self { follows: false, ..Self::new(v6, target, scope) }
    }

    /// Adds an address where the network is entered.
    pub(crate) fn enter_at(&mut self, at: SocketAddr) {
        self.entries.push(EntryAddress { at, tries: 0, asked: false });
    }

    /// Adds nodes that have answered before.
    pub(crate) fn start(&mut self, nodes: impl IntoIterator<Item = (DhtId, SocketAddr)>) {
        for (id, at) in nodes {
            self.insert(id, at, None);
        }
    }

    /// Adds the nodes that an answer lists.
    pub(crate) fn listed(
        &mut self,
        nodes: impl Iterator<Item = (DhtId, SocketAddr)>,
        source: SocketAddr,
    ) {
        if self.follows {
            nodes.take(MAX_LISTED).for_each(|(id, at)| self.insert(id, at, Some(source)));
        }
    }

    fn insert(&mut self, id: DhtId, at: SocketAddr, source: Option<SocketAddr>) {
        if at.is_ipv6() != self.v6 || !self.scope.admits(at) || self.asked.contains(&at) {
            return;
        }
        let mut sources: Vec<SocketAddr> = source.into_iter().collect();
        if let Some(place) = self.candidates.iter().position(|known| known.at == at) {
            let mut known = self.candidates.remove(place);
            if source.is_some() && !known.sources.is_empty() && known.sources.len() < MAX_SOURCES {
                known.sources.extend(source);
            }
            // The closer id counts. A node that lists an honest one under a distant id does not hide it; one that lists
            // it under a close id causes one query.
            if known.id.distance(&self.target) <= id.distance(&self.target) {
                self.place(known);
                return;
            }
            sources = known.sources;
        }
        let host = Host::of(at, self.scope);
        let waiting = self.candidates.iter().filter(|known| known.state == CandidateState::New);
        let waiting = waiting.filter(|known| Host::of(known.at, self.scope) == host).count();
        let asked = usize::from(self.hosts.get(&host).copied().unwrap_or(0));
        if waiting.saturating_add(asked) >= usize::from(MAX_OF_HOST) {
            return;
        }
        let bound = id.is_bound_to(at.ip());
        let state = CandidateState::New;
        self.place(Candidate { id, at, bound, state, token: None, sources });
        if self.candidates.len() > MAX_CANDIDATES
            && let Some(farthest) =
                self.candidates.iter().rposition(|c| c.state == CandidateState::New)
        {
            self.candidates.remove(farthest);
        }
    }

    fn place(&mut self, candidate: Candidate) {
        let target = self.target;
        let distance = candidate.id.distance(&target);
        let place = self.candidates.partition_point(|c| c.id.distance(&target) <= distance);
        self.candidates.insert(place, candidate);
    }

    /// Whether the nodes of all that list this one are mostly silent.
    fn distrusts(&self, candidate: &Candidate) -> bool {
        let lists_silent = |source| {
            self.sources.get(source).is_some_and(|record: &SourceRecord| {
                record.silent >= MAX_SILENT && record.silent > record.answered.saturating_mul(2)
            })
        };
        !candidate.sources.is_empty() && candidate.sources.iter().all(lists_silent)
    }

    fn pick(&self) -> Option<Pick> {
        if self.queries >= MAX_QUERIES || self.has_entered() {
            return None;
        }
        // Addresses of an entry are tried again only while none has answered.
        let tries = if self.answered == 0 { ENTRY_TRIES } else { 1 };
        let entry = |e: &EntryAddress| !e.asked && e.tries < tries && !self.asked.contains(&e.at);
        if let Some(entry) = self.entries.iter().position(entry) {
            return Some(Pick::Entry(entry));
        }
        let picked = self.pick_candidate(false);
        let few = self.answered < NEAREST;
        picked.or_else(|| self.pick_candidate(true).filter(|_| few)).map(Pick::Candidate)
    }

    /// The next node among those that have to answer. Distrusted ones are passed over at first.
    fn pick_candidate(&self, distrusted: bool) -> Option<usize> {
        let (mut nearest, mut nearest_bound) = (0_usize, 0_usize);
        for (place, candidate) in self.candidates.iter().enumerate() {
            let is_new = candidate.state == CandidateState::New;
            let passed_over = is_new && !distrusted && self.distrusts(candidate);
            if candidate.state == CandidateState::Late || passed_over {
                continue;
            }
            let wanted = nearest < NEAREST || (candidate.bound && nearest_bound < NEAREST_BOUND);
            if is_new && wanted {
                return Some(place);
            }
            nearest = nearest.saturating_add(1);
            nearest_bound = nearest_bound.saturating_add(usize::from(candidate.bound));
            if nearest >= NEAREST && nearest_bound >= NEAREST_BOUND {
                break;
            }
        }
        None
    }

    /// Whether an entry has met enough nodes.
    fn has_entered(&self) -> bool {
        !self.entries.is_empty() && self.answered >= ENTERED
    }

    fn in_progress(&self) -> usize {
        let asked = self.candidates.iter().filter(|c| c.state == CandidateState::Asked).count();
        asked.saturating_add(self.entries.iter().filter(|entry| entry.asked).count())
    }

    /// The next node to ask, if one is to be asked now. It counts as asked.
    pub(crate) fn next_query(&mut self) -> Option<SocketAddr> {
        let most = if self.entries.is_empty() { IN_PROGRESS } else { IN_PROGRESS * 2 };
        if self.in_progress() >= most {
            return None;
        }
        let at = match self.pick()? {
            Pick::Entry(place) => {
                let entry = self.entries.get_mut(place)?;
                entry.tries = entry.tries.saturating_add(1);
                entry.asked = true;
                entry.at
            }
            Pick::Candidate(place) => {
                let candidate = self.candidates.get_mut(place)?;
                candidate.state = CandidateState::Asked;
                let at = candidate.at;
                self.asked.insert(at);
                let of_host = self.hosts.entry(Host::of(at, self.scope)).or_default();
                *of_host = of_host.saturating_add(1);
                at
            }
        };
        self.queries = self.queries.saturating_add(1);
        Some(at)
    }

    /// Whether there is nothing to ask and nothing to wait for.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_entered() || (self.in_progress() == 0 && self.pick().is_none())
    }

    /// An answer has come from a node, under this id.
    pub(crate) fn answered(&mut self, at: SocketAddr, id: DhtId, token: Option<&[u8]>) {
        for entry in self.entries.iter_mut().filter(|entry| entry.at == at) {
            entry.asked = false;
        }
        self.asked.insert(at);
        let known = self.candidates.iter().position(|known| known.at == at);
        // Its id may be another than the listed one.
        let known = known.map(|known| self.candidates.remove(known));
        let sources = known.map(|known| known.sources).unwrap_or_default();
        for source in &sources {
            let record = self.sources.entry(*source).or_default();
            record.answered = record.answered.saturating_add(1);
        }
        let (bound, token) = (id.is_bound_to(at.ip()), token.map(<[u8]>::to_vec));
        self.answered = self.answered.saturating_add(1);
        self.place(Candidate { id, at, bound, state: CandidateState::Answered, token, sources });
    }

    /// A node has been silent for longer than usual.
    pub(crate) fn late(&mut self, at: SocketAddr) {
        for entry in self.entries.iter_mut().filter(|entry| entry.at == at) {
            entry.asked = false;
        }
        let asked = |c: &&mut Candidate| c.at == at && c.state == CandidateState::Asked;
        if let Some(candidate) = self.candidates.iter_mut().find(asked) {
            candidate.state = CandidateState::Late;
            for source in &candidate.sources {
                let record = self.sources.entry(*source).or_default();
                record.silent = record.silent.saturating_add(1);
            }
        }
    }

    /// A node has answered with an error or wrongly, or may not be asked.
    pub(crate) fn failed(&mut self, at: SocketAddr) {
        self.late(at);
        self.candidates.retain(|c| c.at != at || c.state == CandidateState::Answered);
    }

    /// Number of nodes that have answered.
    pub(crate) fn answers(&self) -> usize {
        self.answered
    }

    /// The closest nodes that have answered: [`NEAREST`], and as many more as it takes to have [`NEAREST_BOUND`] with
    /// bound ids among them.
    pub(crate) fn nearest(&self) -> Vec<AnsweredNode> {
        self.nearest_of(|_| true)
    }

    /// As [`Self::nearest`], of those alone that have sent a token.
    pub(crate) fn nearest_with_token(&self) -> Vec<AnsweredNode> {
        self.nearest_of(|candidate| candidate.token.is_some())
    }

    fn nearest_of(&self, counts: fn(&Candidate) -> bool) -> Vec<AnsweredNode> {
        let (mut nearest, mut bound) = (Vec::new(), 0_usize);
        let answered = |c: &&Candidate| c.state == CandidateState::Answered && counts(c);
        for candidate in self.candidates.iter().filter(answered) {
            if nearest.len() < NEAREST || (candidate.bound && bound < NEAREST_BOUND) {
                bound = bound.saturating_add(usize::from(candidate.bound));
                let (id, at, token) = (candidate.id, candidate.at, candidate.token.clone());
                nearest.push(AnsweredNode { id, at, token });
            }
        }
        nearest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(first: u8, last: u8) -> DhtId {
        let mut id = [0; 20];
        (id[0], id[19]) = (first, last);
        DhtId(id)
    }

    fn at(n: u32) -> SocketAddr {
        SocketAddr::from(((0x0800_0000 + n).to_be_bytes(), 1_000))
    }

    fn search() -> Search {
        Search::new(false, DhtId([0; 20]), AddressScope::Global)
    }

    /// Nodes asked until nothing is left to ask, all silent but those that `answers` names.
    fn run(search: &mut Search, answers: impl Fn(SocketAddr) -> Option<DhtId>) -> Vec<SocketAddr> {
        let mut all = Vec::new();
        while !search.is_settled() {
            let mut now = Vec::new();
            while let Some(at) = search.next_query() {
                now.push(at);
            }
            assert!(now.len() <= IN_PROGRESS);
            for at in now {
                all.push(at);
                match answers(at) {
                    Some(id) => search.answered(at, id, Some(b"t")),
                    None => search.late(at),
                }
            }
        }
        all
    }

    #[test]
    fn the_nearest_that_answer_are_asked_and_no_more() {
        let mut search = search();
        search.start((1..=60).map(|n| (id(n, 0), at(n.into()))));
        // Every third is silent.
        let asked = run(&mut search, |from| {
            let n = (1..=60).find(|n| at(*n) == from).unwrap();
            (n % 3 != 0).then(|| id(n as u8, 0))
        });
        let near: Vec<_> = search.nearest_with_token().iter().map(|node| node.id.0[0]).collect();
        assert_eq!(near[..8], [1, 2, 4, 5, 7, 8, 10, 11]);
        assert!(asked.len() <= 17, "{}", asked.len());
    }

    #[test]
    fn a_host_with_many_ports_is_asked_twice() {
        let mut search = search();
        let victim = |port: u16| SocketAddr::from(([9, 9, 9, 9], port));
        for n in 1..50 {
            search.answered(at(n), id(200, n as u8), None);
            search.listed((1..100).map(|p| (id(0, p as u8), victim(p))), at(n));
        }
        let asked = run(&mut search, |_| None);
        assert_eq!(asked.len(), 2, "{asked:?}");
    }

    #[test]
    fn endless_close_nodes_end_a_search() {
        let mut search = search();
        search.start([(id(9, 0), at(1))]);
        let mut n = 10_u32;
        let mut asked = 0;
        while !search.is_settled() {
            while let Some(from) = search.next_query() {
                asked += 1;
                search.answered(from, id(0, 255 - (n % 250) as u8), None);
                search.listed((n..n + 1_000).map(|n| (id(0, (n % 251) as u8), at(n))), from);
                n += 1_000;
            }
            assert!(asked <= MAX_QUERIES);
            assert!(search.candidates.len() <= MAX_CANDIDATES + MAX_QUERIES);
        }
        assert!(asked <= MAX_QUERIES, "{asked}");
    }

    #[test]
    fn nodes_listed_by_a_liar_are_asked_last() {
        let mut search = search();
        let (liar, honest) = (at(1), at(2));
        search.start([(id(100, 0), liar), (id(101, 0), honest)]);
        let first: Vec<_> = std::iter::from_fn(|| search.next_query()).collect();
        assert_eq!(first, [liar, honest]);
        search.answered(liar, id(100, 0), None);
        search.listed((0..20).map(|n| (id(0, n), at(100 + u32::from(n)))), liar);
        search.answered(honest, id(101, 0), None);
        search.listed((0..8).map(|n| (id(2, n), at(200 + u32::from(n)))), honest);
        let asked = run(&mut search, |from| {
            (200..208).find(|n| at(*n) == from).map(|n| id(2, (n - 200) as u8))
        });
        let place = asked.iter().position(|from| *from == at(200)).unwrap();
        assert!(place <= 8, "{place}");
        assert_eq!(search.nearest()[..8].iter().filter(|n| n.id.0[0] == 2).count(), 8);
    }

    #[test]
    fn a_listed_distant_id_does_not_hide_a_node() {
        let mut search = search();
        search.start((1..=20).map(|n| (id(n, 0), at(n.into()))));
        let hidden = at(500);
        search.listed([(id(250, 0), hidden)].into_iter(), at(1));
        search.listed([(id(0, 1), hidden)].into_iter(), at(2));
        search.listed([(id(240, 0), hidden)].into_iter(), at(3));
        assert_eq!(search.next_query(), Some(hidden));
    }

    #[test]
    fn entry_addresses_are_tried_twice_while_none_answers() {
        let mut search = search();
        search.enter_at(at(1));
        search.enter_at(at(2));
        assert_eq!(run(&mut search, |_| None), [at(1), at(2), at(1), at(2)]);
        let mut search = super::tests::search();
        search.enter_at(at(1));
        search.enter_at(at(2));
        assert_eq!(run(&mut search, |from| (from == at(1)).then(|| id(3, 0))), [at(1), at(2)]);
    }
}
