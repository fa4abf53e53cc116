//! The forwarder itself: its tables, its faces, and where a packet goes first.

use core::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use xylem_packet::{NackReason, NameRef, Packet};

use crate::content_store::ContentStore;
use crate::dead_nonce::DeadNonces;
use crate::face::Face;
use crate::fib::{Fib, MAX_ROUTE_COMPONENTS, NextHop};
use crate::name_hash::{NameHasher, NumberHasher, split_mix};
use crate::pit::{EntryId, Pit, Token};
use crate::{Config, Counters, DropReason, FaceCounters, FaceId, FaceScope, RouteError, rewrite};

/// Names that stay on one machine, and names that stay on one link: the TLV of the first component
/// (NFD's scope control).
pub(crate) const LOCALHOST: &[u8] = b"\x08\x09localhost";
pub(crate) const LOCALHOP: &[u8] = b"\x08\x08localhop";

/// Does the name begin with this component?
#[inline]
pub(crate) fn is_under(name: NameRef<'_>, component: &[u8]) -> bool {
    name.value().starts_with(component)
}

/// What a link packet said around the network packet.
#[derive(Clone, Copy)]
pub(crate) struct Headers {
    pub(crate) token: Token,
    pub(crate) nack: Option<NackReason>,
    pub(crate) congestion_mark: Option<u64>,
    pub(crate) next_hop: Option<FaceId>,
}

/// An NDN forwarder.
///
/// Call order: [`Self::add_face`] and [`Self::add_route`] as links come up;
/// [`Self::handle_packet`] for every packet that arrives, then send what it appended;
/// [`Self::handle_timeout`] no earlier than [`Self::poll_timeout`] says. `now` is the time since
/// any fixed beginning and does not go backwards.
pub struct Forwarder {
    pub(crate) hasher: NameHasher,
    pub(crate) random: u64,
    pub(crate) max_lifetime: Duration,
    max_routes: usize,
    pub(crate) faces: HashMap<FaceId, Face, NumberHasher>,
    next_face: u64,
    pub(crate) fib: Fib,
    pub(crate) pit: Pit,
    pub(crate) content_store: ContentStore,
    pub(crate) dead_nonces: DeadNonces,
    pub(crate) counters: Counters,
    // Memory used again for every packet.
    pub(crate) hashes: Vec<u64>,
    pub(crate) matches: Vec<EntryId>,
    pub(crate) downstream: Vec<(FaceId, Token)>,
}

impl Forwarder {
    /// A forwarder without faces and routes.
    pub fn new(config: Config) -> Self {
        let mut random = config.seed;
        let hasher = NameHasher::new(split_mix(&mut random));
        Forwarder {
            hasher,
            random,
            max_lifetime: config.max_lifetime,
            max_routes: config.max_routes,
            faces: HashMap::default(),
            next_face: 1,
            fib: Fib::default(),
            pit: Pit::new(config.pit_capacity),
            content_store: ContentStore::new(config.cs_capacity_bytes),
            dead_nonces: DeadNonces::new(config.dead_nonces, config.dead_nonce_lifetime),
            counters: Counters::default(),
            hashes: Vec::new(),
            matches: Vec::new(),
            downstream: Vec::new(),
        }
    }

    /// A new face. How many there may be is for the owner of the links to limit.
    pub fn add_face(&mut self, scope: FaceScope) -> FaceId {
        let id = FaceId(self.next_face);
        self.next_face += 1;
        self.faces.insert(id, Face { scope, counters: FaceCounters::default() });
        id
    }

    /// Forgets a face and its routes. What it had asked for is no longer delivered.
    pub fn remove_face(&mut self, face: FaceId) {
        if self.faces.remove(&face).is_some() {
            self.fib.remove_face(face);
        }
    }

    /// Lets Interests under `prefix` go to `face`; of several next hops the cheapest is tried
    /// first. A route that exists gets the new cost.
    pub fn add_route(
        &mut self,
        prefix: NameRef<'_>,
        face: FaceId,
        cost: u32,
    ) -> Result<(), RouteError> {
        if !self.faces.contains_key(&face) {
            return Err(RouteError::NoSuchFace);
        }
        if prefix.len() > MAX_ROUTE_COMPONENTS {
            return Err(RouteError::PrefixTooLong);
        }
        if self.fib.len() >= self.max_routes {
            return Err(RouteError::TableFull);
        }
        self.fib.insert(&self.hasher, prefix, NextHop { face, cost });
        Ok(())
    }

    /// Takes a route back; true if there was one.
    pub fn remove_route(&mut self, prefix: NameRef<'_>, face: FaceId) -> bool {
        prefix.len() <= MAX_ROUTE_COMPONENTS && self.fib.remove(&self.hasher, prefix, face)
    }

    /// What a face has carried; `None` if it is not known.
    pub fn counters(&self, face: FaceId) -> Option<FaceCounters> {
        self.faces.get(&face).map(|face| face.counters)
    }

    /// What the forwarder has done.
    pub fn totals(&self) -> Counters {
        self.counters
    }

    /// Pending Interests.
    pub fn pit_len(&self) -> usize {
        self.pit.len()
    }

    /// Cached Data: how many, and the bytes that count against the capacity.
    pub fn cs_usage(&self) -> (usize, usize) {
        (self.content_store.len(), self.content_store.used())
    }

    /// When [`Self::handle_timeout`] wants to be called; `None` while nothing is pending.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.pit.next_timeout()
    }

    /// Ends the Interests whose lifetime is over. Nothing is sent for them in this version.
    pub fn handle_timeout(&mut self, now: Duration, _out: &mut Vec<(FaceId, Bytes)>) {
        self.matches.clear();
        self.pit.expire(now, &mut self.matches);
        self.counters.expired += self.matches.len() as u64;
        for i in 0..self.matches.len() {
            self.end_entry(now, self.matches[i]);
        }
    }

    /// Takes in one packet (Interest, Data, or either in an LpPacket) and appends what is to be
    /// sent. An error says why the packet went no further; a Nack may have been appended then.
    pub fn handle_packet(
        &mut self,
        now: Duration,
        from: FaceId,
        packet: Bytes,
        out: &mut Vec<(FaceId, Bytes)>,
    ) -> Result<(), DropReason> {
        let face = self.faces.get_mut(&from).ok_or(DropReason::NoSuchFace)?;
        face.counters.in_bytes += packet.len() as u64;
        let scope = face.scope;
        let result = self.unwrap_link_packet(now, from, scope, &packet, out);
        if let Err(reason) = result {
            match reason {
                DropReason::Loop => self.counters.loops += 1,
                DropReason::PitFull => self.counters.pit_full += 1,
                DropReason::NoRoute => self.counters.no_route += 1,
                DropReason::Unsolicited => self.counters.unsolicited += 1,
                _ => {}
            }
            if let Some(face) = self.faces.get_mut(&from) {
                face.counters.in_dropped += 1;
            }
        }
        result
    }

    fn unwrap_link_packet(
        &mut self,
        now: Duration,
        from: FaceId,
        scope: FaceScope,
        packet: &Bytes,
        out: &mut Vec<(FaceId, Bytes)>,
    ) -> Result<(), DropReason> {
        let bare =
            Headers { token: Token::new(None), nack: None, congestion_mark: None, next_hop: None };
        let lp = match Packet::decode(packet)? {
            Packet::Lp(lp) => lp,
            Packet::Interest(interest) => {
                return self.on_interest(now, (from, scope), &interest, packet, bare, out);
            }
            Packet::Data(data) => {
                return self.on_data(now, (from, scope), &data, packet, bare, out);
            }
        };
        // Without a fragment it is an idle packet, which says nothing to a forwarder.
        let Some(fragment) = lp.fragment else { return Ok(()) };
        if lp.is_fragmented() {
            return Err(DropReason::Fragmented);
        }
        if lp.next_hop_face_id.is_some() && scope != FaceScope::Local {
            return Err(DropReason::LocalField);
        }
        let headers = Headers {
            token: Token::new(lp.pit_token),
            nack: lp.nack,
            congestion_mark: lp.congestion_mark.filter(|mark| *mark != 0),
            next_hop: lp.next_hop_face_id.map(FaceId),
        };
        let inner = packet.slice_ref(fragment);
        match Packet::decode(&inner)? {
            Packet::Lp(_) => Err(DropReason::Nested),
            Packet::Data(_) if lp.nack.is_some() => {
                // Only Interests come back.
                Err(DropReason::Unsolicited)
            }
            Packet::Data(data) => self.on_data(now, (from, scope), &data, &inner, headers, out),
            Packet::Interest(interest) => match headers.nack {
                Some(reason) => self.on_nack(now, from, &interest, reason, out),
                None => self.on_interest(now, (from, scope), &interest, &inner, headers, out),
            },
        }
    }

    /// Ends a PIT entry; the nonces that it sent out stay known for a while.
    pub(crate) fn end_entry(&mut self, now: Duration, id: EntryId) {
        let entry = self.pit.get(id);
        for record in &entry.out_records {
            self.dead_nonces.insert(now, self.hasher.with_nonce(entry.hash, record.nonce));
        }
        self.pit.remove(id);
    }

    pub(crate) fn send_data(&mut self, to: FaceId, packet: Bytes, out: &mut Vec<(FaceId, Bytes)>) {
        let Some(face) = self.faces.get_mut(&to) else { return };
        face.counters.out_data += 1;
        face.counters.out_bytes += packet.len() as u64;
        out.push((to, packet));
    }

    pub(crate) fn send_nack(
        &mut self,
        to: FaceId,
        interest: &[u8],
        token: Token,
        reason: NackReason,
        out: &mut Vec<(FaceId, Bytes)>,
    ) {
        let Some(face) = self.faces.get_mut(&to) else { return };
        let packet = rewrite::nack(interest, token.get(), reason);
        face.counters.out_nacks += 1;
        face.counters.out_bytes += packet.len() as u64;
        out.push((to, packet));
    }

    #[inline]
    pub(crate) fn count(&mut self, face: FaceId, change: impl FnOnce(&mut FaceCounters)) {
        if let Some(face) = self.faces.get_mut(&face) {
            change(&mut face.counters);
        }
    }
}
