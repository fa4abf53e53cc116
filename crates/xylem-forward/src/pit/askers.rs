//! The downstream records of each face, oldest first, as a linked list. When a face has to make room, its oldest record
//! is dropped.
//!
//! A record's number states where it lies: in the entry of that number or, with [`IN_SLAB`], in the slab of further
//! records.

use super::Pit;
use super::entry::InRecord;
use crate::faces::{FaceTable, Ingress};
use crate::slab::NONE;
use crate::storage::Storage;

/// Bit of a record's number: it lies in the slab of further records.
pub(super) const IN_SLAB: u32 = 1 << 31;

/// Cost of a record in bytes besides its entry's name, as much as the table reserves for each name.
const RECORD_COST: u64 = 256;

impl<S: Storage> Pit<S> {
    #[inline]
    fn record(&self, number: u32) -> &InRecord {
        match number & IN_SLAB {
            0 => &self.entries.get(number).first_in,
            _ => self.ins.get(number & !IN_SLAB),
        }
    }

    #[inline]
    fn record_mut(&mut self, number: u32) -> &mut InRecord {
        match number & IN_SLAB {
            0 => &mut self.entries.get_mut(number).first_in,
            _ => self.ins.get_mut(number & !IN_SLAB),
        }
    }

    /// Bytes of the tables that a downstream record of this entry uses.
    #[inline]
    fn cost(&self, id: u32) -> u64 {
        RECORD_COST + self.entries.get(id).name.len() as u64
    }

    /// The entry with the oldest record of a face.
    pub(crate) fn oldest_of(&self, faces: &FaceTable<S>, face: u32) -> Option<u32> {
        let oldest = faces.get(face)?.oldest;
        (oldest != NONE).then(|| self.record(oldest).entry)
    }

    /// The entries with records of a face, oldest first.
    #[cfg(test)]
    pub(crate) fn listed(&self, faces: &FaceTable<S>, face: u32) -> alloc::vec::Vec<u32> {
        let mut at = faces.get(face).map_or(NONE, |face| face.oldest);
        let mut found = alloc::vec::Vec::new();
        while at != NONE {
            let record = self.record(at);
            found.push(record.entry);
            at = record.after;
        }
        found
    }

    /// Makes a new record its face's newest.
    #[inline]
    pub(super) fn link(&mut self, faces: &mut FaceTable<S>, from: Ingress, number: u32) {
        let before = faces.add_pending(from, number, self.cost(self.record(number).entry));
        if before != NONE {
            self.record_mut(before).after = number;
        }
        self.record_mut(number).before = before;
    }

    /// Removes a record from its face's list.
    #[inline]
    pub(super) fn unlink(&mut self, faces: &mut FaceTable<S>, number: u32) {
        let InRecord { face, entry, before, after, .. } = *self.record(number);
        if before != NONE {
            self.record_mut(before).after = after;
        }
        if after != NONE {
            self.record_mut(after).before = before;
        }
        let cost = self.cost(entry);
        let Some(face) = faces.get_mut(face) else { return };
        if face.oldest == number {
            face.oldest = after;
        }
        if face.newest == number {
            face.newest = before;
        }
        face.pending = face.pending.saturating_sub(1);
        face.load = face.load.saturating_sub(cost);
    }

    /// Updates the list after a record was moved from `from` to `to`.
    pub(super) fn moved(&mut self, faces: &mut FaceTable<S>, from: u32, to: u32) {
        let InRecord { face, before, after, .. } = *self.record(to);
        if before != NONE {
            self.record_mut(before).after = to;
        }
        if after != NONE {
            self.record_mut(after).before = to;
        }
        let Some(face) = faces.get_mut(face) else { return };
        if face.oldest == from {
            face.oldest = to;
        }
        if face.newest == from {
            face.newest = to;
        }
    }
}
