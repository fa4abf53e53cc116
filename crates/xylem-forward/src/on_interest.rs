//! The Interest pipeline: loops, cache, aggregation, forwarding.

use core::time::Duration;

use xylem_packet::{Interest, NackReason};

use crate::forwarder::{Forwarder, Headers, LOCALHOP, LOCALHOST, is_under};
use crate::name_hash::split_mix;
use crate::pit::{EntryId, InRecord, OutRecord, Token};
use crate::strategy::{best_route, next_hops};
use crate::{DropReason, FaceId, FaceScope, Outgoing, Outlet, rewrite};

impl Forwarder {
    pub(crate) fn on_interest(
        &mut self,
        now: Duration,
        (from, scope): (FaceId, FaceScope),
        interest: &Interest<'_>,
        packet: &[u8],
        headers: Headers,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        self.count(from, |counters| counters.in_interests += 1);
        let name = interest.name();
        if scope == FaceScope::NonLocal && is_under(name, LOCALHOST) {
            return Err(DropReason::Scope);
        }
        if interest.hop_limit() == Some(0) {
            return Err(DropReason::HopLimit);
        }
        let nonce = match interest.nonce() {
            Some(nonce) => nonce,
            None => (split_mix(&mut self.random) as u32).to_le_bytes(),
        };
        self.hasher.hash_prefixes(name, &mut self.hashes);
        let hash = self.hashes[name.len()];
        if self.dead_nonces.contains(now, self.hasher.with_nonce(hash, nonce)) {
            self.send_nack(from, packet, headers.token, NackReason::DUPLICATE, out);
            return Err(DropReason::Loop);
        }
        let id = match self.pit.find(interest, hash) {
            Some(id) => {
                if let Some(known) =
                    self.pit.get(id).in_records.iter().find(|record| record.nonce == nonce)
                {
                    if known.face == from {
                        return Err(DropReason::Duplicate);
                    }
                    self.send_nack(from, packet, headers.token, NackReason::DUPLICATE, out);
                    return Err(DropReason::Loop);
                }
                id
            }
            None => {
                if self.answer_from_cache(now, from, interest, headers.token, out) {
                    return Ok(());
                }
                if self.pit.is_full() {
                    return Err(DropReason::PitFull);
                }
                self.pit.insert(interest, &self.hashes)
            }
        };
        let lifetime = Duration::from_millis(interest.lifetime_ms()).min(self.max_lifetime);
        let record = InRecord {
            face: from,
            nonce,
            expires: now.saturating_add(lifetime),
            token: headers.token,
        };
        if self.record_downstream(now, id, record) {
            self.counters.aggregated += 1;
            return Ok(());
        }
        self.forward(now, (from, scope), (id, nonce), interest, packet, headers, out)
    }

    /// True if the content store had the answer.
    fn answer_from_cache(
        &mut self,
        now: Duration,
        from: FaceId,
        interest: &Interest<'_>,
        token: Token,
        out: &mut impl Outlet,
    ) -> bool {
        if !self.content_store.is_enabled() {
            return false;
        }
        let Some(data) = self.content_store.find(now, interest, &self.hashes) else {
            self.counters.cs_misses += 1;
            return false;
        };
        self.counters.cs_hits += 1;
        let leaving = Outgoing { packet: &data, pit_token: token.get(), ..Outgoing::default() };
        self.send_data(from, leaving, out);
        true
    }

    /// Notes who asked. True if the Interest needs no forwarding because one like it, from another
    /// face, is on its way to somebody else than this face.
    fn record_downstream(&mut self, now: Duration, id: EntryId, record: InRecord) -> bool {
        let entry = self.pit.get(id);
        let from = record.face;
        let is_pending = entry.in_records.iter().any(|r| r.face != from && r.expires > now)
            && entry.out_records.iter().any(|r| r.face != from && r.nacked.is_none());
        let again = match entry.in_records.iter_mut().find(|r| r.face == from) {
            // A new nonce from the same face: the consumer has lost patience.
            Some(known) => {
                *known = record;
                true
            }
            None => {
                entry.in_records.push(record);
                false
            }
        };
        let expires = entry.in_records.iter().map(|r| r.expires).max().unwrap_or(now);
        self.pit.arm(id, expires);
        is_pending && !again
    }

    // The parts of one decision; bundling them would only give them another name.
    #[allow(clippy::too_many_arguments)]
    fn forward(
        &mut self,
        now: Duration,
        (from, scope): (FaceId, FaceScope),
        (id, nonce): (EntryId, [u8; 4]),
        interest: &Interest<'_>,
        packet: &[u8],
        headers: Headers,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        let name = interest.name();
        let hops_left = interest.hop_limit().map(|hops| hops.saturating_sub(1));
        let only_local = hops_left == Some(0)
            || is_under(name, LOCALHOST)
            || (scope == FaceScope::NonLocal && is_under(name, LOCALHOP));
        let faces = &self.faces;
        let may_go = |face: FaceId| {
            face != from
                && faces
                    .get(&face)
                    .is_some_and(|f| !only_local || f.settings.scope == FaceScope::Local)
        };
        let next = match headers.next_hop {
            Some(face) => may_go(face).then_some(face),
            None => {
                let hops = next_hops(&self.fib, &self.hasher, interest, &self.hashes);
                best_route(hops, self.pit.get(id), may_go)
            }
        };
        let Some(next) = next else {
            let entry = self.pit.get(id);
            entry.in_records.retain(|record| record.face != from);
            if entry.in_records.is_empty() {
                self.pit.remove(id);
            }
            self.send_nack(from, packet, headers.token, NackReason::NO_ROUTE, out);
            return Err(DropReason::NoRoute);
        };
        let out_records = &mut self.pit.get(id).out_records;
        let record = OutRecord { face: next, nonce, sent: now, nacked: None };
        let earlier = match out_records.iter_mut().find(|r| r.face == next) {
            Some(known) => Some(core::mem::replace(known, record).nonce),
            None => {
                out_records.push(record);
                None
            }
        };
        if let Some(nonce) = earlier {
            // The entry will not remember it, and the Interest may still come back.
            let key = self.hasher.with_nonce(self.pit.get(id).hash, nonce);
            self.dead_nonces.insert(now, key);
        }
        let mut leaving = std::borrow::Cow::Borrowed(packet);
        if let (Some(hops), Some(offset)) = (hops_left, interest.hop_limit_offset()) {
            leaving = rewrite::patch(&leaving, offset, &[hops]).into();
        }
        if interest.nonce().is_none() {
            leaving = rewrite::with_nonce(&leaving, nonce).into();
        }
        self.count(next, |counters| {
            counters.out_interests += 1;
            counters.out_bytes += leaving.len() as u64;
        });
        let leaving = Outgoing {
            packet: &leaving,
            congestion_mark: headers.congestion_mark,
            incoming_face: Some(from),
            ..Outgoing::default()
        };
        out.send(next, leaving);
        Ok(())
    }
}
