//! The faces, and what is sent over them.

use xylem_packet::{NackReason, NameRef};

use crate::exchange::{Outgoing, Outlet};
use crate::face::{Account, Face, Rate};
use crate::name_hash::spread;
use crate::slab::NONE;
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
    /// Where the face lies in the table while this packet is handled.
    pub(crate) at: u32,
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
    /// Who had most pending when it had `most`. Nobody has more than that.
    greediest: u32,
    most: u64,
    /// When the last packet came.
    pub(crate) now: u64,
    /// What all have sent in vain, and how much of that is borne with.
    useless: Account,
    borne: Rate,
}

impl<S: Storage> Faces<S> {
    /// `borne`: how many packets a second may come to nothing.
    pub(crate) fn new(borne: u32) -> Self {
        let interval = 1_000_000 / u64::from(borne.max(1));
        let borne = Rate { interval, burst: 100_000, most: 250_000 };
        let (table, useless) = (Table::new(usize::MAX), Account::default());
        Faces { table, last: 0, greediest: 0, most: 0, now: 0, useless, borne }
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

    /// Where a packet of this face comes in.
    #[inline]
    pub(crate) fn ingress(&self, id: FaceId) -> Option<Ingress> {
        let face = u32::try_from(id.0).ok()?;
        let at = self.find(face)?;
        let FaceSettings { scope, link_type, .. } = self.table.get(at).settings;
        Some(Ingress { face, at, scope, link_type })
    }

    /// The face that a packet came from.
    #[inline]
    pub(crate) fn of(&mut self, from: Ingress) -> &mut Face {
        self.table.get_mut(from.at)
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

    /// A packet of this face came to nothing.
    #[cold]
    pub(crate) fn note_useless(&mut self, from: Ingress) {
        let now = self.now;
        self.of(from).note_useless(now);
        self.useless.note(now, self.borne);
    }

    /// Until when a face had better not be heard: while all together send more in vain than is borne with,
    /// those of whom more comes than of anybody in earnest.
    pub(crate) fn rests_until(&self, now: u64, face: u32) -> Option<u64> {
        let all = self.useless.over_until(now, self.borne)?;
        self.get(face)?.rests_until(now).map(|until| until.min(all))
    }

    /// One more of the face's Interests is pending, noted in this record; gives its newest before that.
    #[inline]
    pub(crate) fn note_asked(&mut self, from: Ingress, record: u32, cost: u64) -> u32 {
        let face = self.of(from);
        let before = core::mem::replace(&mut face.newest, record);
        if before == NONE {
            face.oldest = record;
        }
        face.pending += 1;
        face.load += cost;
        let load = face.load;
        if load > self.most {
            (self.greediest, self.most) = (from.face, load);
        }
        before
    }

    /// Who has most pending, or at least seven eighths as much as who has: so the faces are looked
    /// through only once for an eighth of that.
    pub(crate) fn greediest(&mut self) -> Option<u32> {
        let load = self.get(self.greediest).map_or(0, |face| face.load);
        if load.saturating_mul(8) < self.most.saturating_mul(7) {
            let faces = self.table.ids().map(|at| self.table.get(at));
            let most = faces.max_by_key(|face| face.load)?;
            (self.greediest, self.most) = (most.id.0 as u32, most.load);
        }
        (self.most > 0).then_some(self.greediest)
    }

    /// Sends a Data.
    #[inline]
    pub(crate) fn send_data(&mut self, to: u32, leaving: Outgoing<'_>, out: &mut impl Outlet) {
        if let Some(face) = self.get_mut(to) {
            face.send_data(leaving, out);
        }
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
        let now = self.now;
        let Some(face) = self.find(to).map(|at| self.table.get_mut(at)) else { return };
        if face.is_shared() {
            return;
        }
        face.note_useless(now);
        self.useless.note(now, self.borne);
        face.counters.out_nacks += 1;
        face.counters.out_bytes += interest.len() as u64;
        let nack = Some(reason);
        out.send(face.id, Outgoing { packet: interest, pit_token, nack, ..Outgoing::default() });
    }
}
