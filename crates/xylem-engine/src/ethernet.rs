//! Faces over Ethernet: to single addresses, and one to NDN's group on each interface of the settings.
//!
//! All faces of an interface share its socket. An interface that goes down or away ends them; permanent ones are made
//! again as soon as it is back, as after every failed dial. Frames from other addresses make faces only on interfaces of
//! the settings.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use mio::Token;
use xylem_forward::{FaceId, LinkType};
use xylem_mgmt::{FaceUri, Persistency};
use xylem_peers::admission::{self, FaceKind};
use xylem_peers::reachable::{FaceAddress, PeerAddress};
use xylem_sockets::{ETHERNET_GROUP, EthernetFrame, EthernetSocket};

use crate::Engine;
use crate::faces::{EngineFace, Transport};
use crate::polling::{PollSource, SocketPoll};
use crate::receiving::FrameOrigin;

/// The source that the admission of faces counts all Ethernet neighbours as, since each can send with any address. No
/// packet of IPv6 has a multicast source (RFC 4291, section 2.7: systems drop it), so no UDP peer is of this one.
const SOURCE: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0));

/// An interface, whether it is here or not.
struct EthernetDevice {
    name: String,
    /// Its socket, with the token of the poll, while it is up.
    open: Option<(Token, EthernetSocket)>,
    /// The settings name it: it is in NDN's group, and other ends may make faces.
    listens: bool,
}

/// The interfaces that are used for Ethernet. The number of one is its place; none is removed.
#[derive(Default)]
pub(crate) struct EthernetDevices {
    devices: Vec<EthernetDevice>,
    /// The list of one read, kept for its allocation.
    frames: Vec<EthernetFrame>,
}

impl EthernetDevices {
    /// The number of the interface of this name.
    fn number(&mut self, name: &str) -> usize {
        let known = self.devices.iter().position(|device| device.name == name);
        known.unwrap_or_else(|| {
            let name = name.to_owned();
            self.devices.push(EthernetDevice { name, open: None, listens: false });
            self.devices.len() - 1
        })
    }

    /// Opens an interface that is not open yet; returns the longest frame in bytes.
    fn open(&mut self, number: usize, poll: &mut SocketPoll) -> io::Result<usize> {
        let device = &mut self.devices[number];
        if let Some((_, socket)) = &device.open {
            return Ok(socket.mtu());
        }
        let mut socket = EthernetSocket::open(&device.name)?;
        if device.listens {
            socket.join()?;
        }
        let token = poll.register(PollSource::Ethernet(number), |token, poll| {
            socket.register(poll, token)?;
            Ok(token)
        })?;
        let mtu = socket.mtu();
        device.open = Some((token, socket));
        Ok(mtu)
    }

    /// Closes the socket of an interface that is down or gone.
    fn close(&mut self, number: usize, poll: &mut SocketPoll) {
        if let Some((token, _)) = self.devices[number].open.take() {
            poll.forget(token);
        }
    }

    /// The names of the interfaces at which other ends may make faces.
    pub(crate) fn listening(&self) -> impl Iterator<Item = String> + '_ {
        let listens = |device: &&EthernetDevice| device.listens && device.open.is_some();
        self.devices.iter().filter(listens).map(|device| device.name.clone())
    }

    /// Sends a frame; lost if the interface is gone.
    #[inline]
    pub(crate) fn send(&mut self, number: usize, to: [u8; 6], frame: &[u8]) {
        if let Some((_, socket)) = &mut self.devices[number].open {
            socket.send(to, frame);
        }
    }
}

impl Engine {
    /// Makes the permanent face to NDN's group on an interface, with this type of link. Frames of other addresses on this
    /// interface make faces from now on. An interface that is not here yet is awaited.
    ///
    /// # Errors
    /// This process may not use Ethernet, or the system has none.
    pub fn join_ethernet(&mut self, device: &str, link_type: LinkType) -> io::Result<FaceId> {
        let number = self.net.plain_sockets.ethernet.number(device);
        self.net.plain_sockets.ethernet.devices[number].listens = true;
        match self.open_ethernet(number) {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
                ) =>
            {
                return Err(e);
            }
            // Dialling the face reports it.
            Ok(_) | Err(_) => {}
        }
        let peer = PeerAddress::Ethernet { device: device.to_owned(), address: ETHERNET_GROUP };
        self.make_face(&peer, Persistency::Permanent, link_type)
    }

    fn open_ethernet(&mut self, number: usize) -> io::Result<usize> {
        self.net.plain_sockets.ethernet.open(number, &mut self.net.polling)
    }

    /// Opens the interfaces of these peers, each once however many faces it has. Returns those that can't be opened.
    pub(super) fn missing_interfaces<'a>(
        &mut self,
        peers: impl Iterator<Item = &'a PeerAddress>,
    ) -> HashMap<&'a str, io::Error> {
        let device = |peer: &'a PeerAddress| match peer {
            PeerAddress::Ethernet { device, .. } => Some(&**device),
            _ => None,
        };
        let devices: HashSet<&str> = peers.filter_map(device).collect();
        let open = |device| {
            let number = self.net.plain_sockets.ethernet.number(device);
            Some((device, self.open_ethernet(number).err()?))
        };
        devices.into_iter().filter_map(open).collect()
    }

    /// Gives a face the transport to an address on an interface.
    pub(super) fn connect_ethernet(
        &mut self,
        id: FaceId,
        device: &str,
        remote: [u8; 6],
    ) -> io::Result<Transport> {
        // Before the interface is opened: commands find a face that waits for it by this address.
        self.note_local(id, FaceUri::Dev(device.to_owned()));
        let number = self.net.plain_sockets.ethernet.number(device);
        let mtu = self.open_ethernet(number)?;
        // The other end may have made a face while this one was down.
        let other = self.net.faces.of_ethernet(number, remote).filter(|other| *other != id);
        if let Some(other) = other {
            let persistency = self.net.faces.get(other).map(|face| face.persistency);
            // One that a command keeps has routes.
            if persistency.is_some_and(|persistency| persistency != Persistency::OnDemand) {
                let what = format!("face {other} leads to this address on {device} already");
                return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
            }
            self.drop_face(other, "a face that this end makes takes its place");
        }
        if let Some(face) = self.net.faces.get_mut(id) {
            face.limit_mtu(mtu);
        }
        Ok(Transport::Ethernet { device: number, remote })
    }

    /// The longest frame of a face over Ethernet, in bytes; `None` for other faces.
    pub fn frame_limit(&self, id: FaceId) -> Option<usize> {
        let Transport::Ethernet { device, .. } = self.net.faces.get(id)?.transport else {
            return None;
        };
        let (_, socket) = self.net.plain_sockets.ethernet.devices[device].open.as_ref()?;
        Some(socket.mtu())
    }

    /// A group is not dialled: its face was made when its interface was joined.
    pub(super) fn face_of_ethernet_group(&self, peer: &PeerAddress) -> io::Result<FaceId> {
        let is_it = |face: &EngineFace| face.peer.as_ref() == Some(peer);
        let found = self.net.faces.iter().find(|(_, face)| is_it(face)).map(|(id, _)| id);
        found.ok_or_else(|| {
            let what = "not in this group: the settings do not list the interface ([node.ethernet] devices)";
            io::Error::new(io::ErrorKind::NotFound, what)
        })
    }

    /// Keeps a face that the other end has made through failures of its interface.
    pub(super) fn keep_ethernet_face(&mut self, id: FaceId) {
        let net = &mut self.net;
        let Some(face) = net.faces.get_mut(id) else { return };
        if let Transport::Ethernet { device, remote } = face.transport {
            let device = net.plain_sockets.ethernet.devices[device].name.clone();
            face.peer.get_or_insert(PeerAddress::Ethernet { device, address: remote });
        }
    }

    pub(super) fn receive_ethernet(&mut self, number: usize, source: PollSource) {
        let ethernet = &mut self.net.plain_sockets.ethernet;
        let mut frames = std::mem::take(&mut ethernet.frames);
        let received = match &mut ethernet.devices[number].open {
            Some((_, socket)) => socket.receive(&mut frames),
            None => Ok(false),
        };
        let now = self.now();
        for frame in frames.drain(..) {
            let to_group = frame.to == ETHERNET_GROUP;
            let remote = if to_group { ETHERNET_GROUP } else { frame.from };
            let face = match self.net.faces.of_ethernet(number, remote) {
                None if !to_group => self.accept_ethernet(number, &frame),
                known => known,
            };
            if let Some(face) = face {
                let [a, b, c, d, e, f] = frame.from;
                let sender = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
                let origin = FrameOrigin { face, sender, marked: false };
                self.take_in_from(now, origin, &frame.packet, &frame.packet);
            }
        }
        self.net.plain_sockets.ethernet.frames = frames;
        match received {
            Ok(true) => self.net.polling.unfinished(source),
            Ok(false) => {}
            Err(e) => self.lose_ethernet(number, &e),
        }
    }

    /// Handles the first packet of an address: makes a face if it is an Interest.
    fn accept_ethernet(&mut self, number: usize, frame: &EthernetFrame) -> Option<FaceId> {
        let device = &self.net.plain_sockets.ethernet.devices[number];
        if !device.listens || !admission::opens(&frame.packet) || is_group(frame.from) {
            return None;
        }
        let (name, from) = (device.name.clone(), SOURCE);
        if !self.admits(FaceKind::Datagrams, from) {
            return None;
        }
        let far = FaceUri::Ether(frame.from);
        let transport = Transport::Ethernet { device: number, remote: frame.from };
        let address = FaceAddress::Ethernet(far.clone(), name.clone());
        let mut face = EngineFace::new(transport, address, far, FaceUri::Dev(name));
        face.persistency = Persistency::OnDemand;
        face.last_received = self.now();
        let id = self.add_face(face);
        if let (Some(limit), Some(face)) = (self.frame_limit(id), self.net.faces.get_mut(id)) {
            face.limit_mtu(limit);
        }
        self.seat(id, FaceKind::Datagrams, from);
        self.came_up(id);
        Some(id)
    }

    /// Ends the faces of an interface that is down or gone.
    fn lose_ethernet(&mut self, number: usize, e: &io::Error) {
        let net = &mut self.net;
        net.plain_sockets.ethernet.close(number, &mut net.polling);
        let name = net.plain_sockets.ethernet.devices[number].name.clone();
        let uses = |face: &EngineFace| matches!(face.transport, Transport::Ethernet { device, .. } if device == number);
        let lost: Vec<FaceId> =
            net.faces.iter().filter(|(_, face)| uses(face)).map(|(id, _)| id).collect();
        for face in lost {
            let why = match e.kind() {
                io::ErrorKind::NetworkDown => format!("{name} is down or gone"),
                _ => format!("{name}: {e}"),
            };
            self.fail_face(face, io::Error::new(e.kind(), why));
        }
    }
}

/// Whether an address is of a group, so that no frame may come from it (IEEE 802).
fn is_group(address: [u8; 6]) -> bool {
    address[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use xylem_peers::admission::{
        Admission, AdmissionSlot, AdmissionVerdict, Capacity, FaceStanding,
    };

    use super::*;

    const FACES: usize = 1_024;

    #[test]
    fn groups_send_no_frames() {
        assert!(is_group(ETHERNET_GROUP) && !is_group([0x02, 0, 0, 0, 0, 1]));
    }

    /// Management finds it by its address on this end, and so makes no second one.
    #[test]
    fn a_face_that_waits_for_its_interface_names_it() {
        let mut engine = crate::testing::engine(1);
        let device = "none-such".to_owned();
        let peer = PeerAddress::Ethernet { device: device.clone(), address: [2, 0, 0, 0, 0, 1] };
        let face = engine.dial(&peer, Persistency::Permanent).expect("it is awaited");
        let face = engine.face(face).expect("it is there");
        assert_eq!(face.local, FaceUri::Dev(device));
        assert!(matches!(face.transport, Transport::Down(_)));
    }

    /// Takes newcomers in as the engine does, by number.
    struct Room {
        admission: Admission<usize>,
        inside: HashMap<usize, AdmissionSlot>,
    }

    impl Room {
        fn comes(&mut self, number: usize, from: IpAddr, standing: FaceStanding) {
            let (now, kind) = (Duration::from_secs(number as u64), FaceKind::Datagrams);
            match self.admission.judge(now, kind, from, self.inside.len(), 0) {
                AdmissionVerdict::Full => return,
                AdmissionVerdict::Instead(other) => {
                    self.admission.leave(self.inside.remove(&other).expect("it is inside"));
                }
                AdmissionVerdict::Room => {}
            }
            let slot = self.admission.seat(now, kind, from, number);
            self.admission.raise(slot, standing);
            self.inside.insert(number, slot);
        }
    }

    /// Neighbours at link-local addresses are of one source, too: it must not be the same.
    #[test]
    fn ethernet_neighbours_take_a_quarter_and_push_out_no_udp_neighbour() {
        for standing in [FaceStanding::Heard, FaceStanding::Useful] {
            let mut room = Room {
                admission: Admission::new(Capacity::new(FACES, 8_192)),
                inside: HashMap::new(),
            };
            let neighbours = 150;
            for number in 0..neighbours {
                let at = Ipv6Addr::from_bits((0xfe80 << 112) | number as u128);
                room.comes(number, at.into(), FaceStanding::Useful);
            }
            for number in neighbours..neighbours + 5_000 {
                room.comes(number, SOURCE, standing);
            }
            let udp = room.inside.keys().filter(|number| **number < neighbours).count();
            assert_eq!(udp, neighbours, "{standing:?}");
            let ethernet = room.inside.len() - udp;
            assert!((1..=FACES / 4).contains(&ethernet), "{standing:?}: {ethernet}");
        }
    }
}
