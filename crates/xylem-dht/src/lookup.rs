//! [`Lookup`]: one question to the network: its searches, what was found, and what is stored in the end.

use core::net::SocketAddr;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::address::{AddressScope, Host};
use crate::id::{DhtId, KEY_LEN};
use crate::item::{MAX_SALT, MutableItem};
use crate::krpc::{AnnouncedPort, AnnouncedPorts, Query, Response};
use crate::search::Search;

/// Most addresses of peers that one lookup reports.
pub const MAX_PEERS: usize = 64;
/// Most of them from one node.
pub(crate) const MAX_PEERS_OF_NODE: usize = 24;
/// Most of them at one host.
pub(crate) const MAX_PEERS_OF_HOST: u8 = 4;
/// Most values of one item that a lookup reports.
pub(crate) const MAX_VALUES: usize = 16;
/// Most queries in progress that store.
const STORES_IN_PROGRESS: usize = 8;

/// Names a lookup of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LookupId(pub(crate) u64);

/// What to look up, and what to store then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupKind {
    /// Find the peers that are listed under a target.
    Peers(DhtId),
    /// The same, and list us at the nodes closest to the target.
    Announce(DhtId, AnnouncedPorts),
    /// Find the values of an item.
    Item {
        /// Ed25519 key.
        key: [u8; KEY_LEN],
        /// Distinguishes the items of one key.
        salt: Vec<u8>,
    },
    /// The same, and store the item at the nodes closest to it. `cas`: only in place of a value with this number.
    Put(MutableItem, Option<i64>),
}

impl LookupKind {
    /// The target that nodes learn.
    pub fn target(&self) -> DhtId {
        match self {
            Self::Peers(hash) | Self::Announce(hash, _) => *hash,
            Self::Item { key, salt } => DhtId::of_item(key, salt),
            Self::Put(item, _) => item.target(),
        }
    }

    pub(crate) fn fits(&self) -> bool {
        match self {
            Self::Peers(_) => true,
            Self::Announce(_, ports) => ports.fits(),
            Self::Item { salt, .. } => salt.len() <= MAX_SALT,
            Self::Put(item, _) => item.fits(),
        }
    }
}

/// Why a lookup has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// No node answers.
    #[error("no node of the DHT answers")]
    NoNode,
    /// Nodes answer, and none stores the announcement or item.
    #[error("no node of the DHT stores it{}", code(*.0))]
    NotStored(Option<i64>),
}

fn code(code: Option<i64>) -> String {
    code.map(|code| format!(" (error {code})")).unwrap_or_default()
}

/// How a lookup has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupEnd {
    /// Nodes that have answered.
    pub answered: usize,
    /// Nodes that have stored the announcement or item.
    pub stored: usize,
    /// Why there is no result. That nothing was found is no error.
    pub error: Option<LookupError>,
}

/// What a lookup does.
#[derive(Debug)]
pub(crate) enum Work {
    /// Meet nodes of one family, by a search for an id of no meaning.
    Enter,
    /// Ask nodes that are known already, and no others.
    Poll,
    Question(LookupKind),
}

#[derive(Debug)]
struct Store {
    at: SocketAddr,
    token: Vec<u8>,
    state: StoreState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreState {
    New,
    Asked,
    Over,
}

#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) id: LookupId,
    pub(crate) work: Work,
    pub(crate) target: DhtId,
    /// The id that we claim in it. Each lookup has its own, so that nodes learn nothing about other lookups from it.
    own: DhtId,
    scope: AddressScope,
    pub(crate) searches: Vec<Search>,
    /// Whether it was begun anew after all nodes were silent.
    pub(crate) again: bool,
    peers: HashSet<SocketAddr>,
    hosts: HashMap<Host, u8>,
    values: Vec<(i64, Vec<u8>)>,
    stores: Option<VecDeque<Store>>,
    stored: usize,
    refused: Option<i64>,
}

/// Addresses that one node lists under a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPeers {
    /// The node.
    pub by: SocketAddr,
    /// Addresses that no node has listed before in this lookup.
    pub new: Vec<SocketAddr>,
    /// Addresses among those that other nodes have listed in this lookup.
    pub again: Vec<SocketAddr>,
}

/// What a lookup has learned from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    Peers(ListedPeers),
    Item(MutableItem),
    Nothing,
}

impl Lookup {
    pub(crate) fn new(
        id: LookupId,
        work: Work,
        target: DhtId,
        own: DhtId,
        scope: AddressScope,
    ) -> Self {
        Self {
            id,
            work,
            target,
            own,
            scope,
            searches: Vec::new(),
            again: false,
            peers: HashSet::new(),
            hosts: HashMap::new(),
            values: Vec::new(),
            stores: None,
            stored: 0,
            refused: None,
        }
    }

    /// The next node to ask, and whether it is asked to store. It counts as asked.
    pub(crate) fn next_query(&mut self) -> Option<(SocketAddr, bool)> {
        let Some(stores) = &mut self.stores else {
            return self.searches.iter_mut().find_map(Search::next_query).map(|at| (at, false));
        };
        let asked = stores.iter().filter(|store| store.state == StoreState::Asked).count();
        if asked >= STORES_IN_PROGRESS {
            return None;
        }
        let next = stores.iter_mut().find(|store| store.state == StoreState::New)?;
        next.state = StoreState::Asked;
        Some((next.at, true))
    }

    /// Whether it asks nodes of this family.
    pub(crate) fn wants(&self, v6: bool) -> bool {
        match &self.work {
            Work::Question(LookupKind::Announce(_, ports)) => ports.for_family(v6).is_some(),
            _ => true,
        }
    }

    /// The datagram for a node from [`Lookup::next_query`].
    pub(crate) fn encode(
        &self,
        to: SocketAddr,
        stores: bool,
        transaction: [u8; 4],
        both: bool,
    ) -> Vec<u8> {
        let target = &self.target;
        let of_node = |store: &&Store| store.at == to;
        let store = self.stores.iter().flatten().find(of_node).filter(|_| stores);
        let query = match (&self.work, store) {
            (Work::Question(LookupKind::Announce(_, ports)), Some(store)) => {
                let port = ports.for_family(to.is_ipv6()).unwrap_or(AnnouncedPort::Implied);
                Query::AnnouncePeer { hash: target, port, token: &store.token }
            }
            (Work::Question(LookupKind::Put(item, cas)), Some(store)) => {
                Query::Put { item, target, cas: *cas, token: &store.token }
            }
            (Work::Enter, _) => Query::FindNode(target),
            (Work::Question(LookupKind::Item { .. } | LookupKind::Put(..)), _) => {
                Query::Get(target)
            }
            (Work::Poll | Work::Question(_), _) => Query::GetPeers(target),
        };
        query.encode(transaction, &self.own, both)
    }

    /// Takes an answer to a query of a search.
    pub(crate) fn answered(&mut self, from: SocketAddr, response: &Response<'_>) -> Learned {
        for search in &mut self.searches {
            if search.v6 == from.is_ipv6() {
                search.answered(from, response.id, response.token());
            }
            search
                .listed(crate::address::compact_nodes(response.nodes(search.v6), search.v6), from);
        }
        match &self.work {
            Work::Enter => Learned::Nothing,
            Work::Poll | Work::Question(LookupKind::Peers(_) | LookupKind::Announce(..)) => {
                let peers = self.listed_peers(from, response);
                let is_empty = peers.new.is_empty() && peers.again.is_empty();
                if is_empty { Learned::Nothing } else { Learned::Peers(peers) }
            }
            Work::Question(LookupKind::Item { key, salt }) => {
                response.item(key, salt).map_or(Learned::Nothing, |item| self.new_value(item))
            }
            Work::Question(LookupKind::Put(item, _)) => response
                .item(&item.key, &item.salt)
                .map_or(Learned::Nothing, |item| self.new_value(item)),
        }
    }

    fn listed_peers(&mut self, by: SocketAddr, response: &Response<'_>) -> ListedPeers {
        let (mut new, mut again) = (Vec::new(), Vec::new());
        for at in response.peers().take(MAX_PEERS_OF_NODE).filter(|at| self.scope.admits(*at)) {
            if self.peers.contains(&at) {
                if !new.contains(&at) && !again.contains(&at) {
                    again.push(at);
                }
                continue;
            }
            let of_host = self.hosts.entry(Host::of(at, self.scope)).or_default();
            if self.peers.len() < MAX_PEERS && *of_host < MAX_PEERS_OF_HOST && self.peers.insert(at)
            {
                *of_host = of_host.saturating_add(1);
                new.push(at);
            }
        }
        ListedPeers { by, new, again }
    }

    fn new_value(&mut self, item: MutableItem) -> Learned {
        let known = self.values.iter().any(|(seq, value)| *seq == item.seq && *value == item.value);
        if known || self.values.len() >= MAX_VALUES {
            return Learned::Nothing;
        }
        self.values.push((item.seq, item.value.clone()));
        Learned::Item(item)
    }

    /// A node has been silent for longer than usual.
    pub(crate) fn late(&mut self, at: SocketAddr, stores: bool) {
        if stores {
            self.end_store(at);
        } else {
            self.search_of(at).into_iter().for_each(|search| search.late(at));
        }
    }

    /// A node has answered with an error or wrongly, or may not be asked.
    pub(crate) fn failed(&mut self, at: SocketAddr, stores: bool, error: Option<i64>) {
        if stores {
            self.end_store(at);
            self.refused = error.or(self.refused);
        } else {
            self.search_of(at).into_iter().for_each(|search| search.failed(at));
        }
    }

    /// A node has stored the announcement or item.
    pub(crate) fn stored(&mut self, at: SocketAddr) {
        self.end_store(at);
        self.stored = self.stored.saturating_add(1);
    }

    fn end_store(&mut self, at: SocketAddr) {
        for store in self.stores.iter_mut().flatten().filter(|store| store.at == at) {
            store.state = StoreState::Over;
        }
    }

    fn search_of(&mut self, at: SocketAddr) -> Option<&mut Search> {
        self.searches.iter_mut().find(|search| search.v6 == at.is_ipv6())
    }

    /// Whether there is nothing to ask and nothing to wait for.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.stores {
            None => self.searches.iter().all(Search::is_settled),
            Some(stores) => stores.iter().all(|store| store.state == StoreState::Over),
        }
    }

    /// Begins to store, after the searches have settled; returns whether there is anything to store.
    pub(crate) fn store(&mut self) -> bool {
        let stores =
            matches!(self.work, Work::Question(LookupKind::Announce(..) | LookupKind::Put(..)));
        if !stores || self.stores.is_some() {
            return false;
        }
        let nodes = self.searches.iter().flat_map(|search| search.nearest_with_token());
        let made = |node: crate::search::AnsweredNode| {
            let state = StoreState::New;
            node.token.map(|token| Store { at: node.at, token, state })
        };
        self.stores = Some(nodes.filter_map(made).collect());
        true
    }

    /// Number of nodes that have answered.
    pub(crate) fn answers(&self) -> usize {
        self.searches.iter().fold(0, |sum, search| sum.saturating_add(search.answers()))
    }

    pub(crate) fn end(&self) -> LookupEnd {
        let (answered, stored) = (self.answers(), self.stored);
        let error = match (answered, stored, &self.stores) {
            (0, ..) => Some(LookupError::NoNode),
            (_, 0, Some(_)) => Some(LookupError::NotStored(self.refused)),
            _ => None,
        };
        LookupEnd { answered, stored, error }
    }
}
