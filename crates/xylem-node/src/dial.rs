//! Reaching the peers that a ticket or `--from` names, and those that peers tell of; and reaching the
//! named ones again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_link::CloseReason;
use xylem_mgmt::Persistency;
use xylem_object::Ticket;

use crate::fetch::FetchError;
use crate::look_up::resolved;
use xylem_engine::Engine;
use xylem_library::peers::Found;
use xylem_library::reachable::{FaceAddress, KEYLESS, Peer};

/// Pause before everybody is dialled again when nobody is left.
const REDIAL: Duration = Duration::from_secs(1);

/// Who can be asked, and who is.
pub(crate) struct Dialler {
    peers: Vec<Peer>,
    /// Of each, whether its publisher has to vouch for its key.
    must_vouch: Vec<bool>,
    /// All addresses lead to one node: the first that answers is enough.
    one_node: bool,
    dialled: HashMap<FaceId, usize>,
    /// Faces to peers that others told of, by key; the first address of one that answers is enough.
    found: HashMap<FaceId, [u8; 32]>,
    up: HashMap<FaceId, FaceAddress>,
    /// Whether anybody has ever been.
    was_up: bool,
    redial_at: Option<Duration>,
    /// What became of each peer, the last word counts.
    warnings: Vec<Option<String>>,
}

/// A face of a peer that others told of, among its other ones.
pub(crate) struct FoundAt {
    pub(crate) key: [u8; 32],
    pub(crate) others: usize,
    /// Whether one of the others is up.
    pub(crate) up: bool,
}

impl Dialler {
    /// The peers of `from`, or else those of the ticket.
    pub(crate) fn new(ticket: &Ticket, from: &[Peer]) -> Result<Self, FetchError> {
        let one_node = from.is_empty();
        let (of_ticket, unknown) = resolved(&ticket.addresses);
        unknown.iter().for_each(|why| tracing::warn!(%why, "an address of the ticket"));
        let link = |address: &_| Peer::Link { address: *address, key: None };
        let mut peers = if one_node { of_ticket.iter().map(link).collect() } else { from.to_vec() };
        let mut must_vouch = vec![false; peers.len()];
        for (peer, must_vouch) in peers.iter_mut().zip(&mut must_vouch) {
            // What the ticket says of an address holds, whoever named it. Anybody may answer at another.
            let named = peer.link_address().is_some_and(|address| of_ticket.contains(&address));
            if let Some(key @ None) = peer.link_key_mut().filter(|_| named) {
                *key = ticket.link_key;
                *must_vouch = key.is_none();
            }
        }
        match unknown.into_iter().next() {
            Some(why) if peers.is_empty() => return Err(FetchError::NoSuchHost(why)),
            None if peers.is_empty() => return Err(FetchError::NoAddress),
            _ => {}
        }
        Ok(Self {
            warnings: vec![None; peers.len()],
            peers,
            must_vouch,
            one_node,
            dialled: HashMap::new(),
            found: HashMap::new(),
            up: HashMap::new(),
            was_up: false,
            redial_at: None,
        })
    }

    /// Dials everybody.
    pub(crate) fn dial(&mut self, engine: &mut Engine) {
        self.redial_at = None;
        for (i, peer) in self.peers.iter().enumerate() {
            match engine.dial(peer, Persistency::Persistent) {
                Ok(face) => drop(self.dialled.insert(face, i)),
                Err(e) => self.warnings[i] = Some(e.to_string()),
            }
        }
        if self.dialled.is_empty() {
            self.redial_at = Some(engine.now() + REDIAL);
        }
    }

    /// Dials an address where the ticket's sharer says to be, as if the ticket named it.
    pub(crate) fn dial_nearby(
        &mut self,
        engine: &mut Engine,
        address: SocketAddr,
        key: Option<[u8; 32]>,
    ) {
        let peer = Peer::Link { address, key };
        if self.peers.iter().any(|known| known.link_address() == Some(address)) {
            return;
        }
        if let Ok(face) = engine.dial(&peer, Persistency::Persistent) {
            self.dialled.insert(face, self.peers.len());
            self.redial_at = None;
            self.peers.push(peer);
            self.must_vouch.push(key.is_none());
            self.warnings.push(None);
        }
    }

    /// Dials somebody that a peer told of: how many of its addresses are tried.
    pub(crate) fn dial_found(&mut self, engine: &mut Engine, found: &Found) -> usize {
        let before = self.found.len();
        for address in &found.addresses {
            let peer = Peer::Link { address: *address, key: Some(found.key) };
            // An address that the system refuses is as good as none.
            if let Ok(face) = engine.dial(&peer, Persistency::Persistent) {
                self.found.insert(face, found.key);
            }
        }
        self.found.len() - before
    }

    /// The peer behind a face that others told of, and what else there is of it.
    pub(crate) fn found_at(&self, face: FaceId) -> Option<FoundAt> {
        let key = *self.found.get(&face)?;
        let others = || self.found.iter().filter(|(other, k)| **other != face && **k == key);
        let up = others().any(|(other, _)| self.up.contains_key(other));
        Some(FoundAt { key, others: others().count(), up })
    }

    /// Whether dialling somebody is all that could be wanted: no peers were given by `--from`.
    pub(crate) fn may_find(&self) -> bool {
        self.one_node
    }

    /// Keys of those that are dialled because somebody named them.
    pub(crate) fn named_keys(&self) -> impl Iterator<Item = [u8; 32]> + '_ {
        self.peers.iter().filter_map(|peer| match peer {
            Peer::Link { key, .. } | Peer::Carried { key, .. } => *key,
            _ => None,
        })
    }

    /// A face came up: whether it should be asked. One that is not needed is closed.
    pub(crate) fn came_up(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        peer: &FaceAddress,
    ) -> bool {
        if let Some(key) = self.found.get(&face) {
            let twin = |up: &FaceId| self.found.get(up) == Some(key);
            if self.up.keys().any(twin) {
                engine.drop_face(face, "another address of the same peer answered first");
                return false;
            }
        } else if self.one_node && self.up.keys().any(|up| self.dialled.contains_key(up)) {
            // The node has answered: nothing went wrong with this address.
            self.dialled.remove(&face);
            engine.drop_face(face, "another address of the same node answered first");
            return false;
        }
        self.was_up = true;
        self.up.insert(face, peer.clone());
        true
    }

    /// A face came up that need not have been dialled: it is another answer to a dial that expects no
    /// key, and has to show as much as the first.
    pub(crate) fn adopt(&mut self, face: FaceId, at: &FaceAddress) {
        let is_it = |peer: &Peer| peer.is_keyless() && FaceAddress::from(peer) == *at;
        if !self.dialled.contains_key(&face)
            && !self.found.contains_key(&face)
            && let Some(i) = self.peers.iter().position(is_it)
        {
            self.dialled.insert(face, i);
            self.redial_at = None;
        }
    }

    /// Somebody with another key answers there: whether that is news, while nobody is up.
    pub(crate) fn other_key(&mut self, face: FaceId) -> bool {
        let Some(warning) = self.dialled.get(&face).map(|i| &mut self.warnings[*i]) else {
            return false;
        };
        let why = CloseReason::WrongPeer.to_string();
        let known = warning.replace(why.clone());
        known != Some(why) && self.up.is_empty()
    }

    /// Whether a face leads to one node over an encrypted link, and not to whoever is behind a
    /// forwarder.
    pub(crate) fn is_link(&self, face: FaceId) -> bool {
        let peer = self.dialled.get(&face).map(|i| &self.peers[*i]);
        self.found.contains_key(&face)
            || matches!(peer, Some(Peer::Link { .. } | Peer::Carried { .. }))
    }

    /// Whether somebody who was named is up, or may still come up.
    pub(crate) fn is_dialling(&self) -> bool {
        !self.dialled.is_empty()
    }

    /// Whether whoever answers on a face has to show that the publisher vouches for it.
    pub(crate) fn must_vouch(&self, face: FaceId) -> bool {
        self.dialled.get(&face).is_some_and(|i| self.must_vouch[*i])
    }

    /// Whether whoever answers on a face may have any key.
    pub(crate) fn is_anybody(&self, face: FaceId) -> bool {
        self.dialled.get(&face).is_some_and(|i| self.peers[*i].is_keyless() && !self.must_vouch[*i])
    }

    /// Whether anybody is to be reached over an encrypted link.
    pub(crate) fn has_links(&self) -> bool {
        self.peers.iter().any(|peer| peer.link_address().is_some())
    }

    /// Faces that are up and lead over an encrypted link.
    pub(crate) fn links(&self) -> impl Iterator<Item = FaceId> + '_ {
        self.up.keys().copied().filter(|face| self.is_link(*face))
    }

    /// Faces that are up, and whether each leads over an encrypted link.
    pub(crate) fn ups(&self) -> impl Iterator<Item = (FaceId, bool)> + '_ {
        self.up.keys().map(|face| (*face, self.is_link(*face)))
    }

    /// A face is gone: whether it had been asked.
    pub(crate) fn went_down(&mut self, now: Duration, face: FaceId, why: &str) -> bool {
        if let Some(i) = self.dialled.remove(&face) {
            self.warnings[i] = Some(why.to_owned());
        }
        self.found.remove(&face);
        let was_up = self.up.remove(&face).is_some();
        if self.dialled.is_empty() {
            self.redial_at = Some(now + REDIAL);
        }
        was_up
    }

    /// When [`Dialler::dial`] should be called again, because nobody is left.
    pub(crate) fn redial_at(&self) -> Option<Duration> {
        self.redial_at
    }

    /// Peers that are up.
    pub(crate) fn count(&self) -> usize {
        self.up.len()
    }

    /// The address of a face that is up.
    pub(crate) fn address(&self, face: FaceId) -> FaceAddress {
        self.up.get(&face).cloned().unwrap_or(FaceAddress::Gone(face))
    }

    /// Whether anybody has ever been up.
    pub(crate) fn was_up(&self) -> bool {
        self.was_up
    }

    /// Whether somebody named the peer behind a face.
    pub(crate) fn is_named(&self, face: FaceId) -> bool {
        self.dialled.contains_key(&face)
    }

    /// Whether somebody else who was named may still come up.
    pub(crate) fn is_reaching(&self) -> bool {
        !self.one_node && self.dialled.keys().any(|face| !self.up.contains_key(face))
    }

    /// Those that are dialled because somebody named them, and whether each is up.
    pub(crate) fn tried(&self) -> impl Iterator<Item = (&Peer, bool)> {
        let is_up = |i| self.up.keys().any(|face| self.dialled.get(face) == Some(&i));
        self.peers.iter().enumerate().map(move |(i, peer)| (peer, is_up(i)))
    }

    /// What went wrong with one of them, or may be about to.
    pub(crate) fn warning(&self, i: usize) -> Option<&str> {
        let keyless = self.peers[i].is_keyless() && !self.must_vouch[i];
        let silent = |why: &str| why == CloseReason::HandshakeTimeout.to_string();
        let known = self.warnings[i].as_deref();
        if keyless && known.is_none_or(silent) { Some(KEYLESS) } else { known }
    }

    /// What went wrong with whom, in one line.
    pub(crate) fn warnings(&self) -> String {
        let lines = self.peers.iter().zip(&self.warnings).filter_map(|(peer, warning)| {
            warning.as_ref().map(|warning| format!("{peer}: {warning}"))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}
