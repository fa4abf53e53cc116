//! The records of an entry: the first of each kind lies in the entry, further ones in slabs.

use xylem_packet::MAX_PIT_TOKEN;

use super::askers::IN_SLAB;
use super::entry::{InRecord, OutRecord, SHORT_TOKEN, StoredPitToken, TokenBuffer};
use super::{Pit, PitTableFull};
use crate::faces::{FaceTable, Ingress};
use crate::slab::NONE;
use crate::storage::Storage;

impl<S: Storage> Pit<S> {
    #[inline]
    pub(crate) fn in_records(&self, id: u32) -> impl Iterator<Item = &InRecord> + '_ {
        let entry = self.entries.get(id);
        let first = entry.has_in.then_some(&entry.first_in);
        first.into_iter().chain(self.ins.chain(entry.more_in.0).map(|id| self.ins.get(id)))
    }

    #[inline]
    pub(crate) fn out_records(&self, id: u32) -> impl Iterator<Item = &OutRecord> + '_ {
        let entry = self.entries.get(id);
        let first = entry.has_out.then_some(&entry.first_out);
        first.into_iter().chain(self.outs.chain(entry.more_out.0).map(|id| self.outs.get(id)))
    }

    /// The record of a face that the Interest was sent to.
    #[inline]
    pub(crate) fn out_record(&mut self, id: u32, face: u32) -> Option<&mut OutRecord> {
        let entry = self.entries.get_mut(id);
        if entry.has_out && entry.first_out.face == face {
            return Some(&mut entry.first_out);
        }
        let more = entry.more_out.0;
        let id = self.outs.chain(more).find(|id| self.outs.get(*id).face == face)?;
        Some(self.outs.get_mut(id))
    }

    /// Records the face that asked. A face that asked before keeps its place in the order of its records.
    #[inline]
    pub(crate) fn set_in_record(
        &mut self,
        faces: &mut FaceTable<S>,
        id: u32,
        from: Ingress,
        nonce: [u8; 4],
        expires: u64,
        token: Option<&[u8]>,
    ) -> Result<(), PitTableFull> {
        let face = from.face;
        let token = self.keep_token(token)?;
        let new = InRecord { face, nonce, expires, entry: id, before: NONE, after: NONE, token };
        let entry = self.entries.get_mut(id);
        if !entry.has_in {
            (entry.has_in, entry.first_in) = (true, new);
            self.link(faces, from, id);
            return Ok(());
        }
        if entry.first_in.face == face {
            let old = entry.first_in.renew(new);
            self.release_token(old);
            return Ok(());
        }
        let (mut at, mut last) = (entry.more_in.0, NONE);
        while at != NONE {
            if self.ins.get(at).face == face {
                let old = self.ins.get_mut(at).renew(new);
                self.release_token(old);
                return Ok(());
            }
            (last, at) = (at, self.ins.next(at));
        }
        let Some(at) = self.ins.insert(new, NONE) else {
            self.release_token(token);
            return Err(PitTableFull);
        };
        match last {
            NONE => self.entries.get_mut(id).more_in.0 = at,
            last => self.ins.set_next(last, at),
        }
        self.link(faces, from, at | IN_SLAB);
        Ok(())
    }

    /// Records that the Interest was sent to a face. Returns the nonce of an earlier sending to the same face. If there
    /// is no room for another record, none is kept, and the answer will be unsolicited.
    #[inline]
    pub(crate) fn set_out_record(&mut self, id: u32, record: OutRecord) -> Option<[u8; 4]> {
        if let Some(known) = self.out_record(id, record.face) {
            return Some(core::mem::replace(known, record).nonce);
        }
        let entry = self.entries.get_mut(id);
        if !entry.has_out {
            (entry.has_out, entry.first_out) = (true, record);
        } else if let Some(first) = self.outs.append(entry.more_out.0, record) {
            entry.more_out.0 = first;
        }
        None
    }

    /// Whether there is room for another upstream record.
    pub(crate) fn has_room_for_out(&self, id: u32) -> bool {
        !self.entries.get(id).has_out || !self.outs.is_full()
    }

    /// Removes all downstream records.
    #[inline]
    pub(crate) fn release_in_records(&mut self, faces: &mut FaceTable<S>, id: u32) {
        let entry = self.entries.get_mut(id);
        if core::mem::take(&mut entry.has_in) {
            let token = core::mem::take(&mut entry.first_in.token);
            let mut more = core::mem::take(&mut entry.more_in).0;
            self.unlink(faces, id);
            self.release_token(token);
            while more != NONE {
                let (token, next) = (self.ins.get(more).token, self.ins.next(more));
                self.unlink(faces, more | IN_SLAB);
                self.release_token(token);
                self.ins.release(more);
                more = next;
            }
        }
    }

    /// Removes the downstream record of a face. Returns true if another face still waits.
    pub(crate) fn release_in_record(
        &mut self,
        faces: &mut FaceTable<S>,
        id: u32,
        face: u32,
    ) -> bool {
        let entry = self.entries.get(id);
        let more = entry.more_in.0;
        if entry.has_in && entry.first_in.face == face {
            let token = entry.first_in.token;
            self.unlink(faces, id);
            let entry = self.entries.get_mut(id);
            if more == NONE {
                entry.has_in = false;
            } else {
                entry.first_in = *self.ins.get(more);
                entry.more_in.0 = self.ins.next(more);
                self.ins.release(more);
                self.moved(faces, more | IN_SLAB, id);
            }
            self.release_token(token);
        } else {
            let mut before = NONE;
            let mut at = more;
            while at != NONE && self.ins.get(at).face != face {
                (before, at) = (at, self.ins.next(at));
            }
            if at != NONE {
                let (token, next) = (self.ins.get(at).token, self.ins.next(at));
                self.unlink(faces, at | IN_SLAB);
                if before == NONE {
                    self.entries.get_mut(id).more_in.0 = next;
                } else {
                    self.ins.set_next(before, next);
                }
                self.ins.release(at);
                self.release_token(token);
            }
        }
        self.entries.get(id).has_in
    }

    /// Removes all upstream records and calls `each` with them.
    #[inline]
    pub(crate) fn release_out_records(&mut self, id: u32, mut each: impl FnMut(&OutRecord)) {
        let entry = self.entries.get_mut(id);
        if core::mem::take(&mut entry.has_out) {
            each(&entry.first_out);
            let mut more = core::mem::take(&mut entry.more_out).0;
            while more != NONE {
                each(self.outs.get(more));
                let next = self.outs.next(more);
                self.outs.release(more);
                more = next;
            }
        }
    }

    /// Stores a token. One longer than [`MAX_PIT_TOKEN`] octets is cut.
    #[inline]
    fn keep_token(&mut self, token: Option<&[u8]>) -> Result<StoredPitToken, PitTableFull> {
        let Some(token) = token else { return Ok(StoredPitToken::default()) };
        let token = &token[..token.len().min(MAX_PIT_TOKEN)];
        let mut kept = StoredPitToken { len: token.len() as u8, ..StoredPitToken::default() };
        if token.len() <= SHORT_TOKEN {
            kept.octets[..token.len()].copy_from_slice(token);
        } else {
            let first = self.names.store_rest(token).ok_or(PitTableFull)?;
            kept.octets[..4].copy_from_slice(&first.to_le_bytes());
        }
        Ok(kept)
    }

    #[inline]
    fn release_token(&mut self, token: StoredPitToken) {
        if usize::from(token.len) > SHORT_TOKEN {
            self.names.release_rest(token.first_piece());
        }
    }

    /// The token of a record, copied into `buffer` if it is long.
    #[inline]
    pub(crate) fn token<'a>(
        &self,
        record: &'a InRecord,
        buffer: &'a mut TokenBuffer,
    ) -> Option<&'a [u8]> {
        let len = usize::from(record.token.len);
        match len {
            0 => None,
            1..=SHORT_TOKEN => Some(&record.token.octets[..len]),
            _ => {
                self.names.copy_rest(record.token.first_piece(), &mut buffer.0[..len]);
                Some(&buffer.0[..len])
            }
        }
    }
}
