//! The table of faces, by number, by link and by peer over UDP or Ethernet, and which of them have something to do.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_link::LinkId;

use super::{EngineFace, Transport};

/// Hashes face numbers. The engine assigns them consecutively, so any mixing of bits is safe.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct EngineFaces {
    all: HashMap<FaceId, EngineFace, BuildHasherDefault<NumberHasher>>,
    by_link: HashMap<LinkId, FaceId>,
    by_udp: HashMap<(usize, SocketAddr), FaceId>,
    by_ethernet: HashMap<(usize, [u8; 6]), FaceId>,
    /// Faces with something to write, each listed once: [`EngineFace::unflushed`].
    unflushed: VecDeque<FaceId>,
    /// Faces with a running timer of their link service, and maybe ended ones.
    timed: Vec<FaceId>,
}

impl EngineFaces {
    /// Adds a face under the number that the forwarder gave it.
    pub(crate) fn insert(&mut self, id: FaceId, face: EngineFace) {
        self.index(id, &face.transport);
        self.all.insert(id, face);
    }

    fn index(&mut self, id: FaceId, transport: &Transport) {
        match transport {
            Transport::Link(link) => drop(self.by_link.insert(*link, id)),
            Transport::Udp { socket, remote, .. } => {
                self.by_udp.insert((*socket, *remote), id);
            }
            Transport::Ethernet { device, remote } => {
                self.by_ethernet.insert((*device, *remote), id);
            }
            _ => {}
        }
    }

    fn unindex(&mut self, transport: &Transport) {
        match transport {
            Transport::Link(link) => drop(self.by_link.remove(link)),
            Transport::Udp { socket, remote, .. } => drop(self.by_udp.remove(&(*socket, *remote))),
            Transport::Ethernet { device, remote } => {
                self.by_ethernet.remove(&(*device, *remote));
            }
            _ => {}
        }
    }

    /// Gives a face another transport and returns the old one.
    pub(crate) fn replace_transport(
        &mut self,
        id: FaceId,
        transport: Transport,
    ) -> Option<Transport> {
        self.index(id, &transport);
        let old = std::mem::replace(&mut self.all.get_mut(&id)?.transport, transport);
        self.unindex(&old);
        Some(old)
    }

    /// Removes a face.
    pub(crate) fn remove(&mut self, id: FaceId) -> Option<EngineFace> {
        let face = self.all.remove(&id)?;
        self.unindex(&face.transport);
        Some(face)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: FaceId) -> Option<&mut EngineFace> {
        self.all.get_mut(&id)
    }

    pub(crate) fn get(&self, id: FaceId) -> Option<&EngineFace> {
        self.all.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FaceId, &EngineFace)> {
        self.all.iter().map(|(id, face)| (*id, face))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The face of an encrypted link.
    pub(crate) fn of_link(&self, link: LinkId) -> Option<FaceId> {
        self.by_link.get(&link).copied()
    }

    /// The face of a plain UDP peer.
    pub(crate) fn of_udp(&self, socket: usize, remote: SocketAddr) -> Option<FaceId> {
        self.by_udp.get(&(socket, remote)).copied()
    }

    /// The face of a peer, or of NDN's group, on an Ethernet interface.
    pub(crate) fn of_ethernet(&self, device: usize, remote: [u8; 6]) -> Option<FaceId> {
        self.by_ethernet.get(&(device, remote)).copied()
    }

    /// Lists a face for the next flush, if its transport keeps bytes for one.
    pub(crate) fn note_unflushed(&mut self, id: FaceId) {
        let Some(face) = self.all.get_mut(&id) else { return };
        if face.wants_flush() {
            face.unflushed = true;
            self.unflushed.push_back(id);
        }
    }

    /// Takes a face off the list for flushes.
    pub(crate) fn next_unflushed(&mut self) -> Option<FaceId> {
        let id = self.unflushed.pop_front()?;
        if let Some(face) = self.all.get_mut(&id) {
            face.unflushed = false;
        }
        Some(id)
    }

    /// Records a face with a running timer of its link service.
    pub(crate) fn note_timer(&mut self, id: FaceId) {
        let runs = self.get(id).is_some_and(|face| face.link_service.poll_timeout().is_some());
        if runs && !self.timed.contains(&id) {
            self.timed.push(id);
        }
    }

    /// When the first timer of a link service is due.
    pub(crate) fn link_service_timeout(&self) -> Option<Duration> {
        let timer = |id: &FaceId| self.get(*id)?.link_service.poll_timeout();
        self.timed.iter().filter_map(timer).min()
    }

    /// Takes the list of faces with a timer; those with a timer that still runs are recorded again.
    pub(crate) fn take_timed(&mut self) -> Vec<FaceId> {
        std::mem::take(&mut self.timed)
    }
}
