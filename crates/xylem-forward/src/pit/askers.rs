//! What each face waits for, oldest first: a list through the records of who asked, so that a face that
//! has to give way gives way with its oldest.
//!
//! A record is numbered by where it lies: in an entry, or, with [`FURTHER`], in the slab of further ones.

use super::Pit;
use super::entry::InRecord;
use crate::faces::{Faces, Ingress};
use crate::slab::NONE;
use crate::storage::Storage;

/// The record lies in the slab of further ones; without it, in the entry of this number.
pub(super) const FURTHER: u32 = 1 << 31;

/// What a record costs beside its entry's name: as many bytes as the table has for each name.
const RECORD: u64 = 256;

impl<S: Storage> Pit<S> {
    #[inline]
    fn record(&self, number: u32) -> &InRecord {
        match number & FURTHER {
            0 => &self.entries.get(number).first_in,
            _ => self.ins.get(number & !FURTHER),
        }
    }

    #[inline]
    fn record_mut(&mut self, number: u32) -> &mut InRecord {
        match number & FURTHER {
            0 => &mut self.entries.get_mut(number).first_in,
            _ => self.ins.get_mut(number & !FURTHER),
        }
    }

    /// What one who asks for this entry takes of the tables.
    #[inline]
    fn cost(&self, id: u32) -> u64 {
        RECORD + self.entries.get(id).name.len() as u64
    }

    /// The entry in which the oldest record of a face lies.
    pub(crate) fn oldest_of(&self, faces: &Faces<S>, face: u32) -> Option<u32> {
        let oldest = faces.get(face)?.oldest;
        (oldest != NONE).then(|| self.record(oldest).entry)
    }

    /// The entries in which a face's records lie, oldest first.
    #[cfg(test)]
    pub(crate) fn listed(&self, faces: &Faces<S>, face: u32) -> alloc::vec::Vec<u32> {
        let mut at = faces.get(face).map_or(NONE, |face| face.oldest);
        let mut found = alloc::vec::Vec::new();
        while at != NONE {
            let record = self.record(at);
            found.push(record.entry);
            at = record.after;
        }
        found
    }

    /// A new record becomes its face's newest.
    #[inline]
    pub(super) fn link(&mut self, faces: &mut Faces<S>, from: Ingress, number: u32) {
        let before = faces.note_asked(from, number, self.cost(self.record(number).entry));
        if before != NONE {
            self.record_mut(before).after = number;
        }
        self.record_mut(number).before = before;
    }

    /// A record goes out of its face's list.
    #[inline]
    pub(super) fn unlink(&mut self, faces: &mut Faces<S>, number: u32) {
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

    /// A record that lay at `from` lies at `to` now.
    pub(super) fn moved(&mut self, faces: &mut Faces<S>, from: u32, to: u32) {
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
