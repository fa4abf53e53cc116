//! The table of faces, and sending over them.

use xylem_packet::{NackReason, NameRef};

use crate::exchange::{OutgoingPacket, Outlet};
use crate::face::{FaceEntry, RateAccount, RateLimitParameters};
use crate::name_hash::spread;
use crate::slab::NONE;
use crate::storage::Storage;
use crate::table::SlotTable;
use crate::{FaceId, FaceScope, FaceSettings, LinkType};

/// Names that stay on one machine, and names that stay on one link, as the TLV of the first component (NFD's scope
/// control).
pub(crate) const LOCALHOST: &[u8] = b"\x08\x09localhost";
pub(crate) const LOCALHOP: &[u8] = b"\x08\x08localhop";

/// Whether the name begins with this component.
#[inline]
pub(crate) fn is_under(name: NameRef<'_>, component: &[u8]) -> bool {
    name.value().starts_with(component)
}

/// The face on which a packet arrived. Internally, faces are numbered with 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ingress {
    pub(crate) face: u32,
    /// The face's place in the table while this packet is handled.
    pub(crate) at: u32,
    pub(crate) scope: FaceScope,
    pub(crate) link_type: LinkType,
}

impl Ingress {
    pub(crate) fn id(&self) -> FaceId {
        FaceId(u64::from(self.face))
    }

    /// Whether more than one neighbour receives what is sent there.
    pub(crate) fn is_shared(&self) -> bool {
        self.link_type != LinkType::PointToPoint
    }

    /// Whether a packet may leave over the face it arrived on.
    pub(crate) fn may_return(&self) -> bool {
        self.link_type == LinkType::AdHoc
    }
}

pub(crate) struct FaceTable<S: Storage> {
    table: SlotTable<FaceEntry, S::Faces, S::Buckets>,
    last: u32,
    /// The face with the highest load at its last update, and that load. No face has more.
    greediest: u32,
    highest_load: u64,
    /// When the last packet arrived, in microseconds.
    pub(crate) now: u64,
    /// Useless packets over all faces, and the rate tolerated.
    useless: RateAccount,
    tolerated: RateLimitParameters,
}

impl<S: Storage> FaceTable<S> {
    /// `borne`: number of useless packets tolerated per second.
    pub(crate) fn new(borne: u32) -> Self {
        let interval = 1_000_000 / u64::from(borne.max(1));
        let borne = RateLimitParameters { interval, burst: 100_000, most: 250_000 };
        let (table, useless) = (SlotTable::new(usize::MAX), RateAccount::default());
        FaceTable {
            table,
            last: 0,
            greediest: 0,
            highest_load: 0,
            now: 0,
            useless,
            tolerated: borne,
        }
    }

    /// Adds a face. `None` if there is no room.
    pub(crate) fn add(&mut self, settings: FaceSettings) -> Option<FaceId> {
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if self.find(self.last).is_none() {
                break;
            }
        }
        let id = FaceId(u64::from(self.last));
        self.table.insert(spread(id.0), FaceEntry::new(id, settings)).map(|_| id)
    }

    #[inline]
    fn find(&self, face: u32) -> Option<u32> {
        let id = FaceId(u64::from(face));
        self.table.find(spread(id.0), |known| known.id == id)
    }

    /// The internal number of a face, if it is known.
    #[inline]
    pub(crate) fn number(&self, id: FaceId) -> Option<u32> {
        u32::try_from(id.0).ok().filter(|face| self.find(*face).is_some())
    }

    /// The ingress of a packet from this face.
    #[inline]
    pub(crate) fn ingress(&self, id: FaceId) -> Option<Ingress> {
        let face = u32::try_from(id.0).ok()?;
        let at = self.find(face)?;
        let FaceSettings { scope, link_type, .. } = self.table.get(at).settings;
        Some(Ingress { face, at, scope, link_type })
    }

    /// The face that a packet came from.
    #[inline]
    pub(crate) fn of(&mut self, from: Ingress) -> &mut FaceEntry {
        self.table.get_mut(from.at)
    }

    #[inline]
    pub(crate) fn get(&self, face: u32) -> Option<&FaceEntry> {
        self.find(face).map(|at| self.table.get(at))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, face: u32) -> Option<&mut FaceEntry> {
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

    /// Records a useless packet from this face.
    #[cold]
    pub(crate) fn note_useless(&mut self, from: Ingress) {
        let now = self.now;
        self.of(from).note_useless(now);
        self.useless.note(now, self.tolerated);
    }

    /// The time until which a face should not be read from. It is set while all faces together exceed the tolerated
    /// rate, and this face exceeds the rate of a normal consumer.
    pub(crate) fn rests_until(&self, now: u64, face: u32) -> Option<u64> {
        let all = self.useless.over_until(now, self.tolerated)?;
        self.get(face)?.rests_until(now).map(|until| until.min(all))
    }

    /// Adds a pending Interest of the face, with its record. Returns the face's previous newest record.
    #[inline]
    pub(crate) fn add_pending(&mut self, from: Ingress, record: u32, cost: u64) -> u32 {
        let face = self.of(from);
        let before = core::mem::replace(&mut face.newest, record);
        if before == NONE {
            face.oldest = record;
        }
        face.pending += 1;
        face.load += cost;
        let load = face.load;
        if load > self.highest_load {
            (self.greediest, self.highest_load) = (from.face, load);
        }
        before
    }

    /// The face with the highest load, or one with at least seven eighths of that. The faces are thus searched only
    /// after a change by an eighth.
    pub(crate) fn face_with_highest_load(&mut self) -> Option<u32> {
        let load = self.get(self.greediest).map_or(0, |face| face.load);
        if load.saturating_mul(8) < self.highest_load.saturating_mul(7) {
            let faces = self.table.ids().map(|at| self.table.get(at));
            let most = faces.max_by_key(|face| face.load)?;
            (self.greediest, self.highest_load) = (most.id.0 as u32, most.load);
        }
        (self.highest_load > 0).then_some(self.greediest)
    }

    /// Sends a Data.
    #[inline]
    pub(crate) fn send_data(
        &mut self,
        to: u32,
        leaving: OutgoingPacket<'_>,
        out: &mut impl Outlet,
    ) {
        if let Some(face) = self.get_mut(to) {
            face.send_data(leaving, out);
        }
    }

    /// Sends an Interest.
    #[inline]
    pub(crate) fn send_interest(
        &mut self,
        to: u32,
        leaving: OutgoingPacket<'_>,
        out: &mut impl Outlet,
    ) {
        let Some(face) = self.get_mut(to) else { return };
        face.counters.out_interests += 1;
        face.counters.out_bytes += leaving.packet.len() as u64;
        out.send(face.id, leaving);
    }

    /// Sends an Interest back. Nothing is sent over a face with several neighbours, where it would reach the wrong
    /// ones.
    pub(crate) fn send_nack(
        &mut self,
        to: u32,
        interest: &[u8],
        pit_token: Option<&[u8]>,
        reason: NackReason,
        out: &mut impl Outlet,
    ) {
        let now = self.now;
        let Some(face) = self.find(to).map(|at| self.table.get_mut(at)) else { return };
        if face.is_shared() {
            return;
        }
        face.note_useless(now);
        self.useless.note(now, self.tolerated);
        face.counters.out_nacks += 1;
        face.counters.out_bytes += interest.len() as u64;
        let nack = Some(reason);
        out.send(
            face.id,
            OutgoingPacket { packet: interest, pit_token, nack, ..OutgoingPacket::default() },
        );
    }
}
