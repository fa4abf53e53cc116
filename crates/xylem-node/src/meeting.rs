//! [`DhtEntry`]: an engine in the mainline DHT by its own sockets for links, where it is listed and meets peers
//! (docs/spec/reach.md, "Codes in the DHT" and "Tickets in the DHT").

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use xylem_dht::{DhtEvent, DhtId, ListedPeers, LookupId, LookupKind, is_symmetric};
use xylem_discovery::{
    DhtOptions, FirstNodes, MAX_KEPT_NODES, Wake, is_local, keep_nodes, known_nodes, nodes_to_keep,
};
use xylem_engine::{Engine, Meeting};

use crate::discovery::DhtStart;

/// How codes and tickets use the DHT.
#[derive(Clone, Debug)]
pub struct CodeDht {
    /// First nodes.
    pub start: DhtStart,
    /// Directory for nodes of the DHT.
    pub store: PathBuf,
}

impl CodeDht {
    /// The DHT as an option of a call, with the nodes that this store knows.
    pub fn new(start: DhtStart, store: &Path) -> Self {
        Self { start, store: store.to_path_buf() }
    }
}

/// An entry into the DHT by an engine, for one kind of meeting.
pub(crate) struct DhtEntry {
    of: Meeting,
    options: DhtOptions,
    /// `None` before the first call: nothing is looked up before the user is told of it.
    first: Option<FirstNodes>,
    near: bool,
    store: PathBuf,
    wake: Wake,
    /// When it was entered.
    entered: Option<Duration>,
}

impl DhtEntry {
    pub(crate) fn new(engine: &mut Engine, of: Meeting, how: &CodeDht) -> Self {
        let options = known_nodes(&how.store, how.start.bootstrap.clone());
        let waker = engine.waker().ok();
        // If waking fails, the loop looks again soon anyway.
        let wake: Wake = Arc::new(move || drop(waker.as_ref().map(|waker| waker.wake())));
        let (near, store) = (is_local(&options), how.store.clone());
        Self { of, options, first: None, near, store, wake, entered: None }
    }

    /// What it is for.
    pub(crate) fn of(&self) -> Meeting {
        self.of
    }

    /// Enters once the first nodes are known. Returns whether it has done so now.
    pub(crate) fn poll(&mut self, engine: &mut Engine) -> bool {
        let first = || FirstNodes::new(&self.options, self.wake.clone());
        let nodes = self.first.get_or_insert_with(first).poll();
        let (Some(nodes), Ok(seed)) = (nodes, xylem_base::random()) else { return false };
        if nodes.is_empty() && engine.dht(self.of).is_some() {
            // The names could not be looked up. What is known stays.
            return false;
        }
        match engine.dht(self.of) {
            // Those before were all silent.
            Some(dht) => dht.set_bootstrap(nodes),
            None => engine.enter_dht(self.of, nodes, seed),
        }
        self.entered = self.entered.or(Some(engine.now()));
        true
    }

    /// After all first nodes were silent: whether others are looked up.
    pub(crate) fn more(&mut self) -> bool {
        self.first.as_mut().is_some_and(FirstNodes::more)
    }

    /// The same. If there are no others and none has ever answered, all are looked up again: this machine may have been
    /// offline.
    pub(crate) fn more_or_again(&mut self, engine: &mut Engine) {
        if !self.more() && !self.has_answers(engine) {
            self.first = None;
        }
    }

    /// Whether the DHT is one on this machine, so that its peers may be here as well.
    pub(crate) fn is_near(&self) -> bool {
        self.near
    }

    /// When it was entered.
    pub(crate) fn entered(&self) -> Option<Duration> {
        self.entered
    }

    /// Whether peers that meet there get in: the engine does not listen for this machine's programs alone.
    pub(crate) fn is_open(&self, engine: &Engine) -> bool {
        self.near || engine.link_addresses().iter().any(|at| !at.ip().is_loopback())
    }

    /// Whether a node has answered.
    pub(crate) fn has_answers(&self, engine: &mut Engine) -> bool {
        engine.dht(self.of).is_some_and(|dht| !dht.known_nodes(1).is_empty())
    }

    /// How many nodes have answered lately.
    pub(crate) fn answers(&self, engine: &mut Engine) -> usize {
        engine.dht(self.of).map_or(0, |dht| dht.known_nodes(usize::MAX).len())
    }

    pub(crate) fn look_up(&self, engine: &mut Engine, kind: LookupKind) -> Option<LookupId> {
        let now = engine.now();
        engine.dht(self.of)?.lookup(now, kind).ok()
    }

    /// Asks some nodes again that were closest to a target in its last lookup.
    pub(crate) fn ask_again(&self, engine: &mut Engine, target: DhtId) -> Option<LookupId> {
        engine.dht(self.of)?.poll_peers(target).ok()
    }

    pub(crate) fn poll_event(&self, engine: &mut Engine) -> Option<DhtEvent> {
        engine.dht(self.of)?.poll_event()
    }

    /// Whether this side's NAT gives each destination another port, as far as nodes of the DHT see it.
    pub(crate) fn is_symmetric(&self, engine: &mut Engine) -> Option<bool> {
        let seen = engine.dht(self.of).map(|dht| dht.observed_v4()).unwrap_or_default();
        is_symmetric(&seen)
    }

    /// Has listed addresses punched; returns whether one is new.
    pub(crate) fn punch_to(&self, engine: &mut Engine, place: usize, peers: &ListedPeers) -> bool {
        let now = engine.now();
        let symmetric = self.is_symmetric(engine);
        let Some(punching) = engine.punching(self.of, place) else { return false };
        punching.set_symmetric(symmetric);
        let all = peers.new.iter().chain(&peers.again);
        all.filter(|at| punching.add(now, **at, peers.by)).count() > 0
    }

    /// Ends it: nothing is sent any more.
    pub(crate) fn leave(&self, engine: &mut Engine) {
        if let Some(dht) = engine.dht(self.of) {
            keep_nodes(&self.store, &nodes_to_keep(dht.known_nodes(MAX_KEPT_NODES)));
        }
        engine.leave_dht(self.of);
    }
}

/// Gives the engine sockets of both families, if it has none of one.
pub(crate) fn bind_both_families(engine: &mut Engine) {
    for wildcard in ["0.0.0.0:0", "[::]:0"] {
        let Ok(at) = wildcard.parse::<SocketAddr>() else { continue };
        if !engine.link_addresses().iter().any(|known| known.is_ipv4() == at.is_ipv4()) {
            // A machine without IPv6 uses IPv4 alone.
            let _ = engine.bind_link(at);
        }
    }
}
