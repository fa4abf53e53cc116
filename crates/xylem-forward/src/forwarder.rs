//! The forwarder itself: its tables, its faces, and where a packet goes first.

use core::time::Duration;

use hashbrown::HashMap;
use xylem_packet::{NackReason, Name, NameRef, Packet};

use crate::content_store::ContentStore;
use crate::dead_nonce::DeadNonces;
use crate::face::Face;
use crate::fib::{Fib, MAX_ROUTE_COMPONENTS, NextHop};
use crate::name_hash::{NameHasher, NumberHasher, split_mix};
use crate::pit::{EntryId, Pit, Token};
use crate::{
    Config, Counters, CsInfo, CsSettings, DropReason, FaceCounters, FaceId, FaceScope,
    FaceSettings, Incoming, Outgoing, Outlet, RouteError, Strategy,
};

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
    pub(crate) no_cache: bool,
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
    pub(crate) strategies: std::collections::BTreeMap<Name, Strategy>,
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
            strategies: Default::default(),
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
    pub fn add_face(&mut self, settings: impl Into<FaceSettings>) -> FaceId {
        let id = FaceId(self.next_face);
        self.next_face += 1;
        self.faces
            .insert(id, Face { settings: settings.into(), counters: FaceCounters::default() });
        id
    }

    /// Changes a face's settings; true if it is known.
    pub fn update_face(&mut self, face: FaceId, settings: impl Into<FaceSettings>) -> bool {
        let Some(known) = self.faces.get_mut(&face) else { return false };
        known.settings = settings.into();
        true
    }

    /// The faces, in no particular order.
    pub fn faces(&self) -> impl Iterator<Item = FaceId> {
        self.faces.keys().copied()
    }

    /// A face's settings; `None` if it is not known.
    pub fn face_settings(&self, face: FaceId) -> Option<FaceSettings> {
        self.faces.get(&face).map(|face| face.settings)
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

    /// Calls `f` with every prefix that has next hops, and these, cheapest first.
    pub fn for_each_route(&self, f: &mut dyn FnMut(NameRef<'_>, &[NextHop])) {
        self.fib.for_each(f);
    }

    /// Number of prefixes that have next hops.
    pub fn fib_len(&self) -> usize {
        self.fib.prefixes()
    }

    /// Sets the strategy of the names under `prefix` that no longer prefix says otherwise of.
    pub fn set_strategy(
        &mut self,
        prefix: NameRef<'_>,
        strategy: Strategy,
    ) -> Result<(), RouteError> {
        if prefix.len() > MAX_ROUTE_COMPONENTS {
            return Err(RouteError::PrefixTooLong);
        }
        self.strategies.insert(prefix.to_name(), strategy);
        Ok(())
    }

    /// Takes a choice back; true if there was one. That of `/` becomes best-route again.
    pub fn unset_strategy(&mut self, prefix: NameRef<'_>) -> bool {
        self.strategies.remove(prefix.value()).is_some()
    }

    /// The strategy that a name is forwarded by.
    pub fn strategy_of(&self, name: NameRef<'_>) -> Strategy {
        (0..=name.len())
            .rev()
            .find_map(|n| self.strategies.get(name.prefix(n).value()))
            .copied()
            .unwrap_or_default()
    }

    /// Calls `f` with every choice of strategy; that of `/` is always among them.
    pub fn for_each_strategy(&self, f: &mut dyn FnMut(NameRef<'_>, Strategy)) {
        if !self.strategies.contains_key(&b""[..]) {
            f(NameRef::default(), Strategy::default());
        }
        self.strategies.iter().for_each(|(name, strategy)| f(name.as_ref(), *strategy));
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

    /// The content store's limits, contents and luck.
    pub fn cs(&self) -> CsInfo {
        CsInfo {
            hits: self.counters.cs_hits,
            misses: self.counters.cs_misses,
            ..self.content_store.info()
        }
    }

    /// Changes the content store's limits and flags; what no longer fits is dropped.
    pub fn configure_cs(&mut self, settings: CsSettings) {
        self.content_store.configure(settings);
    }

    /// Removes Data under `prefix`, at most `limit` packets; gives how many.
    pub fn erase_cs(&mut self, prefix: NameRef<'_>, limit: Option<u64>) -> u64 {
        self.content_store.erase(prefix, limit.unwrap_or(u64::MAX))
    }

    /// When [`Self::handle_timeout`] wants to be called; `None` while nothing is pending.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.pit.next_timeout()
    }

    /// Ends the Interests whose lifetime is over.
    pub fn handle_timeout(&mut self, now: Duration, _out: &mut impl Outlet) {
        self.matches.clear();
        self.pit.expire(now, &mut self.matches);
        self.counters.expired += self.matches.len() as u64;
        for i in 0..self.matches.len() {
            self.end_entry(now, self.matches[i]);
        }
    }

    /// Takes in one packet and hands what is to be sent to `out`. An error says why the packet
    /// went no further; a Nack may have been sent back then.
    pub fn handle_packet(
        &mut self,
        now: Duration,
        from: FaceId,
        packet: Incoming<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        let face = self.faces.get_mut(&from).ok_or(DropReason::NoSuchFace)?;
        face.counters.in_bytes += packet.packet.len() as u64;
        let scope = face.settings.scope;
        let result = self.dispatch(now, from, scope, packet, out);
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

    fn dispatch(
        &mut self,
        now: Duration,
        from: FaceId,
        scope: FaceScope,
        incoming: Incoming<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        if incoming.next_hop.is_some() && scope != FaceScope::Local {
            return Err(DropReason::LocalField);
        }
        let packet = incoming.packet;
        let headers = Headers {
            token: Token::new(incoming.pit_token),
            nack: incoming.nack,
            congestion_mark: incoming.congestion_mark.filter(|mark| *mark != 0),
            next_hop: incoming.next_hop,
            no_cache: incoming.no_cache,
        };
        match Packet::decode(packet)? {
            Packet::Lp(_) => Err(DropReason::Nested),
            // Only Interests come back.
            Packet::Data(_) if headers.nack.is_some() => Err(DropReason::Unsolicited),
            Packet::Data(data) => self.on_data(now, (from, scope), &data, packet, headers, out),
            Packet::Interest(interest) => match headers.nack {
                Some(reason) => self.on_nack(now, from, &interest, reason, out),
                None => self.on_interest(now, (from, scope), &interest, packet, headers, out),
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

    pub(crate) fn send_data(&mut self, to: FaceId, leaving: Outgoing<'_>, out: &mut impl Outlet) {
        let Some(face) = self.faces.get_mut(&to) else { return };
        face.counters.out_data += 1;
        face.counters.out_bytes += leaving.packet.len() as u64;
        out.send(to, leaving);
    }

    pub(crate) fn send_nack(
        &mut self,
        to: FaceId,
        interest: &[u8],
        token: Token,
        reason: NackReason,
        out: &mut impl Outlet,
    ) {
        let Some(face) = self.faces.get_mut(&to) else { return };
        face.counters.out_nacks += 1;
        face.counters.out_bytes += interest.len() as u64;
        let leaving = Outgoing {
            packet: interest,
            pit_token: token.get(),
            nack: Some(reason),
            ..Outgoing::default()
        };
        out.send(to, leaving);
    }

    #[inline]
    pub(crate) fn count(&mut self, face: FaceId, change: impl FnOnce(&mut FaceCounters)) {
        if let Some(face) = self.faces.get_mut(&face) {
            change(&mut face.counters);
        }
    }
}
