//! The Interest pipeline: loop detection, cache lookup, aggregation, forwarding.

use core::num::NonZeroU8;

use xylem_packet::{Interest, NackReason};

use crate::content_store::CsLookup;
use crate::crowding::MAX_EVICTIONS;
use crate::faces::{Ingress, LOCALHOP, LOCALHOST, is_under};
use crate::forwarder::Forwarder;
use crate::pit::PitTableFull;
use crate::rewrite::{InterestChanges, rewrite};
use crate::storage::Storage;
use crate::strategy::OutgoingInterest;
use crate::{DropReason, FaceScope, IncomingPacket, OutgoingPacket, Outlet};

impl<S: Storage> Forwarder<S> {
    #[inline]
    pub(crate) fn on_interest(
        &mut self,
        now: u64,
        from: Ingress,
        interest: &Interest<'_>,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        let name = interest.name();
        let face = self.faces.of(from);
        face.counters.in_interests += 1;
        if from.scope == FaceScope::NonLocal && is_under(name, LOCALHOST) {
            return Err(DropReason::Scope);
        }
        if interest.hop_limit() == Some(0) {
            return Err(DropReason::HopLimit);
        }
        if !face.admits(now) {
            return Err(DropReason::RateLimit);
        }
        self.pursue(now, from, interest, None, incoming, out)
    }

    /// The pipeline of an Interest that the face may send. `kept_for`: when the lifetime ends of an Interest that was kept
    /// and did not get an answer from the second level of the content store.
    #[inline]
    pub(crate) fn pursue(
        &mut self,
        now: u64,
        from: Ingress,
        interest: &Interest<'_>,
        kept_for: Option<u64>,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        let name = interest.name();
        let nonce = match interest.nonce() {
            Some(nonce) => nonce,
            None => self.new_nonce(),
        };
        self.hasher.hash_prefixes(name, &mut self.hashes);
        let hash = self.hashes.whole();
        if self.dead_nonces.get(now, self.hasher.with_nonce(hash, nonce)).is_some() {
            return Err(self.looped(from, incoming, out));
        }
        let known = self.pit.find(interest, hash);
        if let Some(id) = known {
            let asker =
                self.pit.in_records(id).find(|record| record.nonce == nonce).map(|r| r.face);
            if asker == Some(from.face) {
                return Err(DropReason::Duplicate);
            }
            if asker.is_some() || self.pit.out_records(id).any(|record| record.nonce == nonce) {
                return Err(self.looped(from, incoming, out));
            }
        }
        let waited_for = known.is_some_and(|id| self.pit.in_records(id).next().is_some());
        if !waited_for && self.answer_from_cache(now, from, interest, kept_for, incoming, out)? {
            return Ok(());
        }
        let leaving = self.prepare(from, interest, incoming, nonce)?;
        let id =
            self.note_downstream(now, &leaving, interest, kept_for, known, incoming.pit_token)?;
        self.forward(now, id, &leaving, interest, incoming, out)
    }

    pub(crate) fn new_nonce(&mut self) -> [u8; 4] {
        (self.random.next_u64() as u32).to_le_bytes()
    }

    /// Sends a looping Interest back.
    #[cold]
    fn looped(
        &mut self,
        from: Ingress,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> DropReason {
        let reason = NackReason::DUPLICATE;
        self.faces.send_nack(from.face, incoming.packet, incoming.pit_token, reason, out);
        DropReason::Loop
    }

    /// Answers from the content store if possible, or keeps the Interest while the second level reads. Returns whether it
    /// did.
    #[inline]
    fn answer_from_cache(
        &mut self,
        now: u64,
        from: Ingress,
        interest: &Interest<'_>,
        kept_for: Option<u64>,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<bool, DropReason> {
        if !self.content_store.is_enabled() {
            return Ok(false);
        }
        // Kept Interests have asked the second level already, and are counted where they are resumed.
        let asker = kept_for.is_none().then(|| from.id());
        match self.content_store.find(now, interest, &self.hashes, asker) {
            CsLookup::Found(packet) => {
                self.counters.cs_hits += 1;
                let pit_token = incoming.pit_token;
                let leaving = OutgoingPacket { packet, pit_token, ..OutgoingPacket::default() };
                self.faces.send_data(from.face, leaving, out);
                return Ok(true);
            }
            #[cfg(feature = "alloc")]
            CsLookup::Reading(read) => {
                if self.keep(now, from, interest, read, incoming, out)? {
                    return Ok(true);
                }
            }
            CsLookup::Absent => {}
        }
        self.counters.cs_misses += u64::from(kept_for.is_none());
        Ok(false)
    }

    /// The hop limit of the outgoing Interest: one less, or the usual one, which NFD adds undiminished too.
    #[inline]
    pub(crate) fn hops_left(&self, interest: &Interest<'_>) -> Option<u8> {
        match interest.hop_limit() {
            Some(hops) => Some(hops.saturating_sub(1)),
            None => self.default_hop_limit.map(NonZeroU8::get),
        }
    }

    /// The outgoing Interest: as it arrived, or changed in `scratch`.
    #[inline]
    fn prepare<'a>(
        &mut self,
        from: Ingress,
        interest: &Interest<'a>,
        incoming: &IncomingPacket<'a>,
        nonce: [u8; 4],
    ) -> Result<OutgoingInterest<'a>, DropReason> {
        let name = interest.name();
        let hops_left = self.hops_left(interest);
        let only_local = hops_left == Some(0)
            || is_under(name, LOCALHOST)
            || (from.scope == FaceScope::NonLocal && is_under(name, LOCALHOP));
        let mut delegations = interest.forwarding_hint();
        let has_arrived = self.regions.len() != 0
            && delegations.any(|delegation| self.regions.any_under(delegation));
        let changes = InterestChanges {
            hop_limit: hops_left,
            nonce: interest.nonce().is_none().then_some(nonce),
            without_hint: has_arrived,
        };
        let is_changed = changes != InterestChanges::default();
        if is_changed && !rewrite(interest, changes, &mut self.scratch) {
            return Err(DropReason::TooLong);
        }
        Ok(OutgoingInterest {
            packet: (!is_changed).then_some(incoming.packet),
            nonce,
            congestion_mark: incoming.congestion_mark.filter(|mark| *mark != 0),
            from,
            only_local,
            has_arrived,
            non_discovery: incoming.non_discovery,
        })
    }

    /// Records the face that asked, in the existing entry or a new one.
    #[inline]
    fn note_downstream(
        &mut self,
        now: u64,
        leaving: &OutgoingInterest<'_>,
        interest: &Interest<'_>,
        kept_for: Option<u64>,
        mut known: Option<u32>,
        token: Option<&[u8]>,
    ) -> Result<u32, DropReason> {
        let (from, nonce) = (leaving.from, leaving.nonce);
        let is_waiting =
            known.is_some_and(|id| self.pit.in_records(id).any(|record| record.face == from.face));
        let face = self.faces.of(from);
        if !is_waiting && face.settings.pit_quota.is_some_and(|quota| face.pending >= quota) {
            // The face does not wait in the known entry, so evicting its oldest record keeps that entry.
            if !self.evict_oldest_of(now, from.face) {
                return Err(DropReason::Quota);
            }
        }
        let lifetime = interest.lifetime_ms().saturating_mul(1000).min(self.max_lifetime);
        let expires = kept_for.unwrap_or_else(|| now.saturating_add(lifetime));
        let mut others = 0;
        let id = loop {
            match self.try_note(from, interest, nonce, known, expires, token) {
                Ok(id) => break id,
                Err(PitTableFull) if others < MAX_EVICTIONS && self.make_room(now, interest) => {
                    others += 1
                }
                Err(PitTableFull) => return Err(DropReason::PitFull),
            }
            // The entry may have been evicted.
            known = self.pit.find(interest, self.hashes.whole());
        };
        let last = self.pit.in_records(id).map(|record| record.expires).max().unwrap_or(expires);
        self.pit.arm(id, last);
        Ok(id)
    }

    #[inline]
    fn try_note(
        &mut self,
        from: Ingress,
        interest: &Interest<'_>,
        nonce: [u8; 4],
        known: Option<u32>,
        expires: u64,
        token: Option<&[u8]>,
    ) -> Result<u32, PitTableFull> {
        let id = match known {
            Some(id) => id,
            None => self.pit.insert(interest, self.hashes.whole())?,
        };
        let noted = self.pit.set_in_record(&mut self.faces, id, from, nonce, expires, token);
        if noted.is_err() && known.is_none() {
            self.pit.remove(id);
        }
        noted.map(|()| id)
    }
}
