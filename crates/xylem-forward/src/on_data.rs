//! The downstream path: Data and Nacks follow the PIT to the faces that asked.

use xylem_packet::{Data, Interest, NackReason, NameRef};

use crate::faces::{Ingress, LOCALHOST, is_under};
use crate::forwarder::Forwarder;
use crate::memory::Flat;
use crate::pit::entry::{OutRecord, TokenBuffer, UpstreamStatus};
use crate::rewrite::{InterestChanges, rewrite};
use crate::storage::Storage;
use crate::{DropReason, FaceScope, IncomingPacket, LearnedRoute, OutgoingPacket, Outlet};

impl<S: Storage> Forwarder<S> {
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        now: u64,
        from: Ingress,
        data: &Data<'_>,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        self.faces.of(from).counters.in_data += 1;
        if from.scope == FaceScope::NonLocal && is_under(data.name(), LOCALHOST) {
            return Err(DropReason::Scope);
        }
        self.hasher.hash_prefixes(data.name(), &mut self.hashes);
        self.pit.matches(&self.hasher, data, &self.hashes, &mut self.matches);
        let is_pending = !self.matches.as_slice().is_empty();
        self.keep_matches_asked_of(from.face);
        if self.matches.as_slice().is_empty() {
            // While an Interest is pending, a face that was not asked could replace the true Data.
            if is_pending || incoming.no_cache || !self.unsolicited.admits(from.scope) {
                return Err(DropReason::Unsolicited);
            }
            self.content_store.insert(now, data, &self.hashes);
            return Ok(());
        }
        if !incoming.no_cache {
            self.content_store.insert(now, data, &self.hashes);
        }
        self.serial += 1;
        for i in 0..self.matches.as_slice().len() {
            let id = self.matches.as_slice()[i];
            self.counters.satisfied += u64::from(self.pit.in_records(id).next().is_some());
            let learning = self.pit.get(id).learning;
            self.note_announcement(from.id(), learning, data.name(), incoming, out);
            self.deliver(now, from, id, data.name(), incoming, out);
            self.record_answer(now, from.face, id);
            if self.awaits_probe(id) {
                self.pit.release_in_records(&mut self.faces, id);
            } else {
                self.end_entry(now, id);
            }
        }
        Ok(())
    }

    /// Keeps only the entries for which this face was asked. A face that was not asked cannot answer: it could only
    /// guess names, to replace the true Data.
    #[inline]
    fn keep_matches_asked_of(&mut self, face: u32) {
        let mut kept = 0;
        for i in 0..self.matches.as_slice().len() {
            let id = self.matches.as_slice()[i];
            let asked = |r: &OutRecord| r.face == face && r.refusal() != UpstreamStatus::Answered;
            if self.pit.out_records(id).any(asked) {
                self.matches.as_mut_slice()[kept] = id;
                kept += 1;
            }
        }
        self.matches.truncate(kept);
    }

    /// Sends a Data to all faces that wait in one entry. A face that waits in several entries gets one copy for each
    /// token, or one without a token.
    #[inline]
    fn deliver(
        &mut self,
        now: u64,
        from: Ingress,
        id: u32,
        name: NameRef<'_>,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) {
        let learning = self.pit.get(id).learning;
        let mut buffer = TokenBuffer::new();
        for record in self.pit.in_records(id) {
            if record.expires <= now || (record.face == from.face && !from.may_return()) {
                continue;
            }
            let pit_token = self.pit.token(record, &mut buffer);
            let Some(face) = self.faces.get_mut(record.face) else { continue };
            if pit_token.is_none()
                && core::mem::replace(&mut face.served, self.serial) == self.serial
            {
                continue;
            }
            let announcement = match face.settings.scope {
                FaceScope::NonLocal => {
                    self.announcements.announcement_to_send(learning, name, incoming)
                }
                FaceScope::Local => None,
            };
            let leaving = OutgoingPacket {
                packet: incoming.packet,
                pit_token,
                congestion_mark: incoming.congestion_mark.filter(|mark| *mark != 0),
                incoming_face: Some(from.id()),
                announcement,
                ..OutgoingPacket::default()
            };
            face.send_data(leaving, out);
        }
    }

    /// Handles an Interest that comes back. Once all faces that were asked have refused, a Nack is sent downstream.
    pub(crate) fn on_nack(
        &mut self,
        now: u64,
        from: Ingress,
        interest: &Interest<'_>,
        reason: NackReason,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        self.faces.of(from).counters.in_nacks += 1;
        if from.is_shared() {
            // One of several neighbours refuses for itself only.
            return Err(DropReason::Unsolicited);
        }
        let hash = self.hasher.hash(interest.name());
        let id = self.pit.find(interest, hash).ok_or(DropReason::Unsolicited)?;
        let asked = self.pit.out_record(id, from.face);
        asked
            .filter(|record| interest.nonce() == Some(record.nonce) && !record.is_refused())
            .ok_or(DropReason::Unsolicited)?
            .refuse(reason);
        self.record_nack(now, from.face, id);
        if reason == NackReason::NO_ROUTE && self.pit.get(id).learning.chosen {
            out.on_learned(LearnedRoute::NoRoute { face: from.id(), name: interest.name() });
        }
        let open = {
            let mut open = self.pit.out_records(id).filter(|record| !record.is_refused());
            (open.next().map(|record| record.face), open.next().is_some())
        };
        match open {
            (None, _) => {
                self.refuse(now, id, interest, |face| face != from.face, out);
                self.end_entry(now, id);
            }
            // The only face left to answer waits for the answer itself, so it is refused too.
            (Some(last), false) if self.pit.in_records(id).any(|record| record.face == last) => {
                self.refuse(now, id, interest, |face| face == last, out);
                self.pit.release_in_record(&mut self.faces, id, last);
            }
            _ => {}
        }
        Ok(())
    }

    /// The mildest reason of the Nacks that arrived.
    fn mildest_reason(&self, id: u32) -> NackReason {
        let came = self.pit.out_records(id).map(|record| record.refusal());
        let reasons =
            came.filter(|r| !matches!(r, UpstreamStatus::None | UpstreamStatus::Answered));
        reasons.min().unwrap_or_default().reason()
    }

    /// Sends a Nack to those waiting faces that `chosen` selects.
    fn refuse(
        &mut self,
        now: u64,
        id: u32,
        interest: &Interest<'_>,
        chosen: impl Fn(u32) -> bool,
        out: &mut impl Outlet,
    ) {
        let reason = self.mildest_reason(id);
        let mut buffer = TokenBuffer::new();
        for record in self.pit.in_records(id).filter(|r| chosen(r.face) && r.expires > now) {
            let changes =
                InterestChanges { nonce: Some(record.nonce), ..InterestChanges::default() };
            if rewrite(interest, changes, &mut self.scratch) {
                let token = self.pit.token(record, &mut buffer);
                let theirs = self.scratch.as_slice();
                self.faces.send_nack(record.face, theirs, token, reason, out);
            }
        }
    }
}
