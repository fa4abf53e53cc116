//! The forwarder: its tables, and the dispatch of packets.

use core::num::NonZeroU8;
use core::time::Duration;

use xylem_congestion::SplitMix64;
use xylem_packet::{NameRef, Packet};

use crate::content_store::ContentStore;
use crate::faces::{FaceTable, Ingress};
use crate::measurements::NextHopMeasurement;
use crate::memory::Flat;
use crate::name_hash::{NameHasher, NameHashes};
use crate::pit::Pit;
use crate::prefixes::Prefixes;
use crate::recent::RecentCache;
use crate::self_learning::Announcements;
use crate::storage::{Standard, Storage};
use crate::strategy_choice::ForwardingStrategy;
use crate::{
    CsInfo, CsSettings, DropReason, FaceCounters, FaceId, FaceScope, FaceSettings, ForwarderConfig,
    ForwarderCounters, ForwarderSeed, IncomingPacket, Outlet, UnsolicitedPolicy, sha256,
};

/// An NDN forwarder.
///
/// Call [`Self::add_face`] and [`Self::add_route`] as links come up, [`Self::handle_packet`] for every packet that
/// arrives, and [`Self::handle_timeout`] at the time that [`Self::poll_timeout`] returns or later. `now` is the time
/// since any fixed beginning and does not go backwards.
///
/// Its tables lie on the heap or, as `Forwarder<Fixed<…>>`, in arrays ([`crate::Fixed`]).
pub struct Forwarder<S: Storage = Standard> {
    pub(crate) hasher: NameHasher,
    pub(crate) random: SplitMix64,
    /// In microseconds.
    pub(crate) max_lifetime: u64,
    pub(crate) probing_interval: u64,
    pub(crate) max_next_hops: usize,
    pub(crate) unsolicited: UnsolicitedPolicy,
    pub(crate) default_hop_limit: Option<NonZeroU8>,
    pub(crate) faces: FaceTable<S>,
    pub(crate) fib: Prefixes<S::Hops, S::Routes, S::Buckets, S::Pieces>,
    pub(crate) strategies: Prefixes<ForwardingStrategy, S::Choices, S::Buckets, S::Pieces>,
    pub(crate) regions: Prefixes<(), S::Regions, S::Buckets, S::Pieces>,
    pub(crate) pit: Pit<S>,
    pub(crate) content_store: ContentStore<S>,
    pub(crate) dead_nonces: RecentCache<(), S::Nonces>,
    pub(crate) measurements: RecentCache<NextHopMeasurement, S::Measurements>,
    pub(crate) announcements: Announcements,
    #[cfg(feature = "alloc")]
    pub(crate) kept: crate::kept::KeptInterests,
    pub(crate) counters: ForwarderCounters,
    /// The sum of the counters of removed faces.
    removed_counters: FaceCounters,
    /// The number of the Data delivered last.
    pub(crate) serial: u64,
    // Buffers that are reused for every packet.
    pub(crate) hashes: NameHashes,
    pub(crate) other_hashes: NameHashes,
    pub(crate) matches: S::Ids,
    pub(crate) scratch: S::Scratch,
}

/// Microseconds since the beginning.
#[inline]
pub(crate) fn micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(time.subsec_micros()))
}

/// Minimum time that the ASF strategy keeps a measurement (NFD: 5 minutes), in microseconds.
const MEASURED_FOR: u64 = 300_000_000;

impl<S: Storage> Forwarder<S> {
    /// A forwarder without faces and routes.
    pub fn new(config: ForwarderConfig, seed: ForwarderSeed) -> Self {
        let hasher = NameHasher::new(seed.hash_key);
        let name_bytes = config.pit_name_bytes.unwrap_or(config.pit_capacity.saturating_mul(256));
        let probing_interval = micros(config.probing_interval);
        let measured_for = MEASURED_FOR.max(probing_interval.saturating_mul(2));
        Forwarder {
            hasher,
            random: SplitMix64::new(seed.nonces),
            max_lifetime: micros(config.max_lifetime),
            probing_interval,
            max_next_hops: config.max_next_hops,
            unsolicited: config.unsolicited,
            default_hop_limit: config.default_hop_limit,
            faces: FaceTable::new(config.useless_per_second),
            fib: Prefixes::new(config.max_routes),
            strategies: Prefixes::new(config.max_routes),
            regions: Prefixes::new(config.max_routes),
            pit: Pit::new(config.pit_capacity, name_bytes),
            content_store: ContentStore::new(config.cs_capacity_bytes, config.cs_capacity_packets),
            dead_nonces: RecentCache::new(config.dead_nonces, micros(config.dead_nonce_lifetime)),
            measurements: RecentCache::new(config.measurements, measured_for),
            announcements: Announcements::default(),
            #[cfg(feature = "alloc")]
            kept: crate::kept::KeptInterests::default(),
            counters: ForwarderCounters::default(),
            removed_counters: FaceCounters::default(),
            serial: 0,
            hashes: NameHashes::default(),
            other_hashes: NameHashes::default(),
            matches: S::Ids::default(),
            scratch: S::Scratch::default(),
        }
    }

    /// Adds a face. `None` if there is no room, which happens with arrays only.
    pub fn try_add_face(&mut self, settings: impl Into<FaceSettings>) -> Option<FaceId> {
        self.faces.add(settings.into())
    }

    /// Removes a face, its routes, and its waiting Interests, so that faces that come and go leave nothing behind.
    pub fn remove_face(&mut self, face: FaceId) {
        if let Some(number) = self.faces.number(face) {
            while self.release_oldest_of(self.faces.now, number) {}
            #[cfg(feature = "alloc")]
            self.forget_kept_of(number);
            self.removed_counters += self.counters(face).unwrap_or_default();
            let routes = self.faces.get(number).map_or(0, |face| face.routes);
            self.faces.remove(number);
            self.remove_routes_over(face, routes);
            self.announcements.forget(face);
        }
    }

    /// The faces, in no particular order.
    pub fn faces(&self) -> impl Iterator<Item = FaceId> + '_ {
        self.faces.ids()
    }

    /// A face's settings; `None` if it is unknown.
    pub fn face_settings(&self, face: FaceId) -> Option<FaceSettings> {
        Some(self.faces.get(self.faces.number(face)?)?.settings)
    }

    /// A face's counters; `None` if it is unknown.
    pub fn counters(&self, face: FaceId) -> Option<FaceCounters> {
        Some(self.faces.get(self.faces.number(face)?)?.counters)
    }

    /// The time until which the caller should not read from a face while others wait. It is set if all faces together
    /// send more useless packets (refused, malformed, repeated) than [`ForwarderConfig::useless_per_second`], and this face more
    /// than a normal consumer. `None`: the face may be read from. The forwarder itself drops nothing because of this.
    pub fn held_back_until(&self, now: Duration, face: FaceId) -> Option<Duration> {
        let until = self.faces.rests_until(micros(now), u32::try_from(face.0).ok()?)?;
        Some(Duration::from_micros(until))
    }

    /// The counters of all faces, including removed ones.
    pub fn carried(&self) -> FaceCounters {
        self.faces().filter_map(|face| self.counters(face)).fold(
            self.removed_counters,
            |mut sum, counters| {
                sum += counters;
                sum
            },
        )
    }

    /// Counters of the whole forwarder.
    pub fn totals(&self) -> ForwarderCounters {
        self.counters
    }

    /// Number of pending Interests. It includes entries that are satisfied and wait for the answer to a probe of the
    /// ASF strategy.
    pub fn pit_len(&self) -> usize {
        self.pit.len()
    }

    /// Bytes of the PIT's tables. They grow with the highest number of Interests pending at one time, up to the
    /// configured limits, and are not released.
    pub fn pit_memory(&self) -> usize {
        self.pit.memory()
    }

    /// The content store's limits, contents, and hit counts.
    pub fn cs(&self) -> CsInfo {
        let (hits, misses) = (self.counters.cs_hits, self.counters.cs_misses);
        CsInfo { hits, misses, ..self.content_store.info() }
    }

    /// Changes the content store's limits and flags. Packets that no longer fit are dropped.
    pub fn configure_cs(&mut self, settings: CsSettings) {
        self.content_store.configure(settings);
    }

    /// Removes Data under `prefix`, at most `limit` packets. Returns their number.
    pub fn erase_cs(&mut self, prefix: NameRef<'_>, limit: Option<u64>) -> u64 {
        self.content_store.erase(&self.hasher, prefix, limit.unwrap_or(u64::MAX))
    }

    /// When to call [`Self::handle_timeout`]; `None` while nothing is pending.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let next = self.pit.next_timeout();
        #[cfg(feature = "alloc")]
        let next = next.into_iter().chain(self.kept.next_timeout()).min();
        next.map(Duration::from_micros)
    }

    /// Removes the Interests that have expired; nothing is sent for them. Forwards those that have waited for the content
    /// store's second level long enough.
    pub fn handle_timeout(&mut self, now: Duration, out: &mut impl Outlet) {
        self.expire_pending(micros(now));
        #[cfg(feature = "alloc")]
        {
            self.take_up_reads(now, out);
            self.resume_due(micros(now), out);
        }
        #[cfg(not(feature = "alloc"))]
        let _ = out;
    }

    fn expire_pending(&mut self, now: u64) {
        self.pit.expire(now, &mut self.matches);
        for i in 0..self.matches.as_slice().len() {
            let id = self.matches.as_slice()[i];
            self.counters.expired += u64::from(self.pit.in_records(id).next().is_some());
            self.record_missing_answers(now, id);
            self.end_entry(now, id);
        }
    }

    /// Handles one packet and passes what is to be sent to `out`. An error states why the packet went no further; a
    /// Nack may have been sent back.
    pub fn handle_packet(
        &mut self,
        now: Duration,
        from: FaceId,
        packet: IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        let ingress = self.faces.ingress(from).ok_or(DropReason::NoSuchFace)?;
        self.faces.of(ingress).counters.in_bytes += packet.packet.len() as u64;
        self.faces.now = micros(now);
        let result = self.dispatch(self.faces.now, ingress, &packet, out);
        if let Err(reason) = result {
            self.count_drop(ingress, reason);
        }
        result
    }

    #[cold]
    pub(crate) fn count_drop(&mut self, from: Ingress, reason: DropReason) {
        let counters = &mut self.counters;
        match reason {
            DropReason::Loop => counters.loops += 1,
            DropReason::PitFull => counters.pit_full += 1,
            DropReason::NoRoute => counters.no_route += 1,
            DropReason::Unsolicited => counters.unsolicited += 1,
            DropReason::RateLimit | DropReason::Quota => counters.limited += 1,
            _ => {}
        }
        self.faces.of(from).counters.in_dropped += 1;
        // A Nack, for a loop or a missing route, is counted when it is sent.
        if matches!(
            reason,
            DropReason::Malformed(_)
                | DropReason::Duplicate
                | DropReason::HopLimit
                | DropReason::LocalField
                | DropReason::Scope
        ) {
            self.faces.note_useless(from);
        }
    }

    #[inline]
    fn dispatch(
        &mut self,
        now: u64,
        from: Ingress,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        if incoming.next_hop.is_some() && from.scope != FaceScope::Local {
            return Err(DropReason::LocalField);
        }
        match Packet::decode_with(incoming.packet, sha256)? {
            Packet::Lp(_) => Err(DropReason::LinkPacket),
            // Only Interests are sent back as Nacks.
            Packet::Data(_) if incoming.nack.is_some() => Err(DropReason::Unsolicited),
            Packet::Data(data) => self.on_data(now, from, &data, incoming, out),
            Packet::Interest(interest) => match incoming.nack {
                Some(reason) => self.on_nack(now, from, &interest, reason, out),
                None => self.on_interest(now, from, &interest, incoming, out),
            },
        }
    }

    /// Removes a PIT entry. The nonces that it sent are remembered for a while.
    #[inline]
    pub(crate) fn end_entry(&mut self, now: u64, id: u32) {
        let (hash, hasher, nonces) = (self.pit.hash_of(id), &self.hasher, &mut self.dead_nonces);
        self.pit.release_out_records(id, |record| {
            nonces.set(now, hasher.with_nonce(hash, record.nonce), ());
        });
        self.pit.release_in_records(&mut self.faces, id);
        self.pit.remove(id);
    }
}

#[cfg(feature = "alloc")]
impl Forwarder<crate::Heap> {
    /// Adds a face. The owner of the links has to limit their number.
    pub fn add_face(&mut self, settings: impl Into<FaceSettings>) -> FaceId {
        // There is room for 2^32 - 1 faces. Past that the returned number belongs to no face.
        self.try_add_face(settings).unwrap_or(FaceId(u64::MAX))
    }

    /// Sets the content store's second level, or removes it. Interests that wait for the earlier one are forwarded.
    pub fn set_second_level(
        &mut self,
        cache: Option<alloc::boxed::Box<dyn crate::SecondLevelCache + Send>>,
    ) {
        self.kept.forget_reads();
        self.content_store.set_second_level(cache);
    }
}
