//! The way back: Data and Nacks follow the PIT to those who asked.

use core::time::Duration;

use xylem_packet::{Data, Interest, NackReason};

use crate::forwarder::{Forwarder, Headers, LOCALHOST, is_under};
use crate::pit::Token;
use crate::strategy::severity;
use crate::{DropReason, FaceId, FaceScope, Outgoing, Outlet, rewrite};

impl Forwarder {
    pub(crate) fn on_data(
        &mut self,
        now: Duration,
        (from, scope): (FaceId, FaceScope),
        data: &Data<'_>,
        packet: &[u8],
        headers: Headers,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        self.count(from, |counters| counters.in_data += 1);
        if scope == FaceScope::NonLocal && is_under(data.name(), LOCALHOST) {
            return Err(DropReason::Scope);
        }
        self.hasher.hash_prefixes(data.name(), &mut self.hashes);
        self.matches.clear();
        self.pit.matches(&self.hasher, data, &self.hashes, &mut self.matches);
        // A face that was not asked cannot answer: it could only be guessing names, to take the
        // place of the true Data.
        let pit = &mut self.pit;
        self.matches.retain(|id| pit.get(*id).out_records.iter().any(|r| r.face == from));
        if self.matches.is_empty() {
            return Err(DropReason::Unsolicited);
        }
        if self.content_store.is_enabled() && !headers.no_cache {
            self.content_store.insert(now, data, self.hashes[data.name().len()]);
        }
        self.counters.satisfied += self.matches.len() as u64;
        self.downstream.clear();
        for i in 0..self.matches.len() {
            let id = self.matches[i];
            let records = &self.pit.get(id).in_records;
            let waiting = records.iter().filter(|r| r.face != from && r.expires > now);
            self.downstream.extend(waiting.map(|r| (r.face, r.token)));
            self.end_entry(now, id);
        }
        if self.matches.len() > 1 {
            // One face may wait in several entries; it gets one copy for each of its tokens.
            self.downstream.sort_unstable();
            self.downstream.dedup();
        }
        for i in 0..self.downstream.len() {
            let (face, token) = self.downstream[i];
            let leaving = Outgoing {
                packet,
                pit_token: token.get(),
                congestion_mark: headers.congestion_mark,
                incoming_face: Some(from),
                ..Outgoing::default()
            };
            self.send_data(face, leaving, out);
        }
        Ok(())
    }

    /// An Interest that we sent comes back: once all that we asked have refused, so do we.
    pub(crate) fn on_nack(
        &mut self,
        now: Duration,
        from: FaceId,
        interest: &Interest<'_>,
        reason: NackReason,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        self.count(from, |counters| counters.in_nacks += 1);
        let hash = self.hasher.hash(interest.name());
        let id = self.pit.find(interest, hash).ok_or(DropReason::Unsolicited)?;
        let (Some(nonce), Some(offset)) = (interest.nonce(), interest.nonce_offset()) else {
            return Err(DropReason::Unsolicited);
        };
        let entry = self.pit.get(id);
        let refused = entry.out_records.iter_mut().find(|r| r.face == from && r.nonce == nonce);
        refused.ok_or(DropReason::Unsolicited)?.nacked = Some(reason);
        if entry.out_records.iter().any(|record| record.nacked.is_none()) {
            return Ok(());
        }
        let mildest = entry.out_records.iter().filter_map(|r| r.nacked).min_by_key(severity);
        let waiting: Vec<(FaceId, [u8; 4], Token)> = entry
            .in_records
            .iter()
            .filter(|record| record.face != from && record.expires > now)
            .map(|record| (record.face, record.nonce, record.token))
            .collect();
        self.end_entry(now, id);
        for (face, nonce, token) in waiting {
            let theirs = rewrite::patch(interest.wire(), offset, &nonce);
            self.send_nack(face, &theirs, token, mildest.unwrap_or(reason), out);
        }
        Ok(())
    }
}
