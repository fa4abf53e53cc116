//! The faces, and what is sent over them.

use xylem_packet::{NackReason, NameRef};

use crate::exchange::{Outgoing, Outlet};
use crate::face::Face;
use crate::name_hash::spread;
use crate::storage::Storage;
use crate::table::Table;
use crate::{FaceId, FaceScope, FaceSettings, LinkType};

/// Names that stay on one machine, and names that stay on one link: the TLV of the first component
/// (NFD's scope control).
pub(crate) const LOCALHOST: &[u8] = b"\x08\x09localhost";
pub(crate) const LOCALHOP: &[u8] = b"\x08\x08localhop";

/// Does the name begin with this component?
#[inline]
pub(crate) fn is_under(name: NameRef<'_>, component: &[u8]) -> bool {
    name.value().starts_with(component)
}

/// Where a packet came in. Inside, faces are numbered with 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ingress {
    pub(crate) face: u32,
    pub(crate) scope: FaceScope,
    pub(crate) link_type: LinkType,
}

impl Ingress {
    pub(crate) fn id(&self) -> FaceId {
        FaceId(u64::from(self.face))
    }

    /// Does more than one neighbour hear what is sent there?
    pub(crate) fn is_shared(&self) -> bool {
        self.link_type != LinkType::PointToPoint
    }

    /// May a packet go out where it came in?
    pub(crate) fn may_return(&self) -> bool {
        self.link_type == LinkType::AdHoc
    }
}

pub(crate) struct Faces<S: Storage> {
    table: Table<Face, S::Faces, S::Buckets>,
    last: u32,
}

impl<S: Storage> Faces<S> {
    pub(crate) fn new() -> Self {
        Faces { table: Table::new(usize::MAX), last: 0 }
    }

    /// A new face; `None` if there is no room.
    pub(crate) fn add(&mut self, settings: FaceSettings) -> Option<FaceId> {
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if self.find(self.last).is_none() {
                break;
            }
        }
        let id = FaceId(u64::from(self.last));
        self.table.insert(spread(id.0), Face::new(id, settings)).map(|_| id)
    }

    #[inline]
    fn find(&self, face: u32) -> Option<u32> {
        let id = FaceId(u64::from(face));
        self.table.find(spread(id.0), |known| known.id == id)
    }

    /// The number that a face has inside, if it is known.
    #[inline]
    pub(crate) fn number(&self, id: FaceId) -> Option<u32> {
        u32::try_from(id.0).ok().filter(|face| self.find(*face).is_some())
    }

    #[inline]
    pub(crate) fn get(&self, face: u32) -> Option<&Face> {
        self.find(face).map(|at| self.table.get(at))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, face: u32) -> Option<&mut Face> {
        self.find(face).map(|at| self.table.get_mut(at))
    }

    pub(crate) fn remove(&mut self, face: u32) {
        if let Some(at) = self.find(face) {
            self.table.remove(at);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = FaceId> + '_ {
        self.table.ids().map(|at| self.table.get(at).id)
    }

    /// One of the face's Interests is no longer pending.
    #[inline]
    pub(crate) fn settle(&mut self, face: u32) {
        if let Some(face) = self.get_mut(face) {
            face.pending = face.pending.saturating_sub(1);
        }
    }

    /// Sends a Data.
    #[inline]
    pub(crate) fn send_data(&mut self, to: u32, leaving: Outgoing<'_>, out: &mut impl Outlet) {
        let Some(face) = self.get_mut(to) else { return };
        face.counters.out_data += 1;
        face.counters.out_bytes += leaving.packet.len() as u64;
        out.send(face.id, leaving);
    }

    /// Sends an Interest.
    #[inline]
    pub(crate) fn send_interest(&mut self, to: u32, leaving: Outgoing<'_>, out: &mut impl Outlet) {
        let Some(face) = self.get_mut(to) else { return };
        face.counters.out_interests += 1;
        face.counters.out_bytes += leaving.packet.len() as u64;
        out.send(face.id, leaving);
    }

    /// Sends an Interest back; over faces with several neighbours it would tell the wrong ones.
    pub(crate) fn send_nack(
        &mut self,
        to: u32,
        interest: &[u8],
        pit_token: Option<&[u8]>,
        reason: NackReason,
        out: &mut impl Outlet,
    ) {
        let Some(face) = self.get_mut(to).filter(|face| !face.is_shared()) else { return };
        face.counters.out_nacks += 1;
        face.counters.out_bytes += interest.len() as u64;
        let nack = Some(reason);
        out.send(face.id, Outgoing { packet: interest, pit_token, nack, ..Outgoing::default() });
    }
}
