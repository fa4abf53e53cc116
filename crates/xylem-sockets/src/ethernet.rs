//! NDN over Ethernet on one interface (EtherType 0x8624), to single addresses and to NDN's group.
//!
//! A packet socket (AF_PACKET) takes and gives whole frames: destination, source, EtherType, then one NDN or NDNLPv2
//! packet. Bytes behind that packet are padding, which frames below 60 bytes have. Frames of a foreign VLAN, or for
//! another interface's address, are dropped. Packets are not parsed here beyond their length.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use bytes::{Bytes, BytesMut};
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{self, LinkAddr, SockaddrStorage};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use xylem_packet::frame_len;

use crate::{ETHERNET_GROUP, EthernetFrame};

/// The EtherType of NDN, assigned by the IEEE.
const ETHER_TYPE: [u8; 2] = [0x86, 0x24];
/// The IP group that has the Ethernet address of NDN's group (RFC 1112, section 6.4). A member of it receives that
/// address's frames, and switches that watch for members (IGMP snooping) pass them on.
const IP_GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 23, 170);
/// Bytes before a frame's payload: two addresses and the EtherType.
const HEADER_LEN: usize = 14;
/// The shortest payload of a frame (IEEE 802.3).
const MIN_PAYLOAD: usize = 46;
/// Room for one frame. NDN packets have 8,800 bytes at most, and few networks have longer frames.
const FRAME_LEN: usize = 10_240;
/// Length of the memory that received frames are cut from.
const SLAB_LEN: usize = 16 * FRAME_LEN;
/// Frames taken in one turn.
const BATCH: usize = 64;
/// The usual MTU, where the system reports none.
const USUAL_MTU: usize = 1_500;
/// Bytes requested from the kernel for each direction; it may grant less.
const SOCKET_BUFFER: usize = 4 << 20;
/// `sll_hatype` of Ethernet and Wi-Fi (ARPHRD_ETHER).
const HARDWARE_ETHERNET: u16 = 1;
/// `sll_pkttype` of frames for another station or VLAN, and of this machine's own ones; those below are for us.
const FOR_OTHERS: u8 = 3;

/// An interface that is up, with a socket for NDN.
pub struct EthernetSocket {
    io: Socket,
    /// Keeps the interface in NDN's group.
    membership: Option<Socket>,
    index: u32,
    address: [u8; 6],
    mtu: usize,
    buffer: BytesMut,
    frame: Vec<u8>,
}

impl EthernetSocket {
    /// Opens the interface `device`.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW. There is no such interface, it is down, or it is not Ethernet.
    pub fn open(device: &str) -> io::Result<Self> {
        let protocol = Protocol::from(i32::from(u16::from_ne_bytes(ETHER_TYPE)));
        let io = Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).map_err(without_right)?;
        io.set_nonblocking(true)?;
        let link = find(device)?;
        let other = |what: &str| io::Error::other(format!("{device} {what}"));
        let address = link.addr().ok_or_else(|| other("has no Ethernet address"))?;
        let index = u32::try_from(link.ifindex()).map_err(|_| other("has no number"))?;
        // The address has no protocol, so the socket's own one stays.
        socket::bind(io.as_raw_fd(), &link)?;
        // Smaller buffers only cost throughput: the kernel's limit is accepted.
        let _ = io.set_recv_buffer_size(SOCKET_BUFFER);
        let _ = io.set_send_buffer_size(SOCKET_BUFFER);
        Ok(Self {
            io,
            membership: None,
            index,
            address,
            mtu: mtu(device, index).unwrap_or(USUAL_MTU),
            buffer: BytesMut::new(),
            frame: Vec::new(),
        })
    }

    /// Receives frames to NDN's group from now on.
    ///
    /// # Errors
    /// The interface carries no multicast, or has no IPv4.
    pub fn join(&mut self) -> io::Result<()> {
        if self.membership.is_none() {
            let member = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            member.join_multicast_v4_n(&IP_GROUP, &InterfaceIndexOrAddress::Index(self.index))?;
            self.membership = Some(member);
        }
        Ok(())
    }

    /// Registers for readability.
    ///
    /// # Errors
    /// Those of the system's poll.
    pub fn register(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        poll.registry().register(&mut SourceFd(&self.io.as_raw_fd()), token, Interest::READABLE)
    }

    /// Longest packet of a frame, in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Takes one batch of frames. Returns whether more may be waiting.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn receive(&mut self, into: &mut Vec<EthernetFrame>) -> io::Result<bool> {
        for _ in 0..BATCH {
            if self.buffer.len() < FRAME_LEN {
                self.buffer = BytesMut::zeroed(SLAB_LEN);
            }
            let room = &mut self.buffer[..FRAME_LEN];
            let (len, from) = match socket::recvfrom::<LinkAddr>(self.io.as_raw_fd(), room) {
                Ok(received) => received,
                Err(Errno::EAGAIN) => return Ok(false),
                Err(Errno::EINTR) => continue,
                Err(e) => return Err(e.into()),
            };
            // A socket receives from all interfaces until it is bound.
            let is_ours = |from: &LinkAddr| {
                from.pkttype() < FOR_OTHERS && u32::try_from(from.ifindex()) == Ok(self.index)
            };
            if from.as_ref().is_some_and(is_ours) {
                let frame = self.buffer.split_to(len.min(FRAME_LEN)).freeze();
                // Frames for all stations, or for another group, are for other protocols.
                let is_meant = |of: &EthernetFrame| [self.address, ETHERNET_GROUP].contains(&of.to);
                into.extend(EthernetFrame::of(&frame).filter(is_meant));
            }
        }
        Ok(true)
    }

    /// Sends one packet. A full queue drops it, as a network would.
    pub fn send(&mut self, to: [u8; 6], packet: &[u8]) {
        self.frame.clear();
        self.frame.extend_from_slice(&to);
        self.frame.extend_from_slice(&self.address);
        self.frame.extend_from_slice(&ETHER_TYPE);
        self.frame.extend_from_slice(packet);
        if packet.len() < MIN_PAYLOAD {
            self.frame.resize(HEADER_LEN + MIN_PAYLOAD, 0);
        }
        let _ = self.io.send(&self.frame);
    }
}

impl EthernetFrame {
    /// The parts of a whole frame; `None` for one of another protocol, or without one complete packet.
    fn of(frame: &Bytes) -> Option<Self> {
        let (to, rest) = frame.split_first_chunk::<6>()?;
        let (from, rest) = rest.split_first_chunk::<6>()?;
        let payload = rest.strip_prefix(&ETHER_TYPE)?;
        let len = frame_len(payload).ok()??;
        let packet = frame.slice_ref(payload.get(..len)?);
        Some(Self { to: *to, from: *from, packet })
    }
}

/// Finds an interface that is up and Ethernet, as an address to bind to.
fn find(device: &str) -> io::Result<LinkAddr> {
    let not_found =
        || io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {device}"));
    let link = |address: &SockaddrStorage| address.as_link_addr().copied();
    let (flags, link) = getifaddrs()?
        .filter(|interface| interface.interface_name == device)
        .find_map(|interface| Some((interface.flags, interface.address.as_ref().and_then(link)?)))
        .ok_or_else(not_found)?;
    if link.hatype() != HARDWARE_ETHERNET {
        return Err(io::Error::other(format!("{device} is not Ethernet")));
    }
    if !flags.contains(InterfaceFlags::IFF_UP) {
        return Err(io::Error::new(io::ErrorKind::NetworkDown, format!("{device} is down")));
    }
    Ok(link)
}

/// The system's MTU of an interface that exists. In a network namespace, `/sys` may show the interfaces of another one:
/// then this is `None`.
fn mtu(device: &str, index: u32) -> Option<usize> {
    let read = |what: &str| {
        let text = std::fs::read_to_string(format!("/sys/class/net/{device}/{what}")).ok()?;
        text.trim().parse::<u32>().ok()
    };
    (read("ifindex")? == index).then(|| read("mtu")).flatten()?.try_into().ok()
}

/// Explains a refusal of the socket.
fn without_right(e: io::Error) -> io::Error {
    if e.kind() != io::ErrorKind::PermissionDenied {
        return e;
    }
    let what = "Ethernet needs the right CAP_NET_RAW: run it as root, or give it to the program \
                (setcap cap_net_raw+ep PATH) or its service (AmbientCapabilities=CAP_NET_RAW)";
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ether_type: [u8; 2], payload: &[u8]) -> Bytes {
        [&[1; 6], &[2; 6], &ether_type[..], payload].concat().into()
    }

    #[test]
    fn padding_is_cut_off() {
        let packet = [5, 3, 7, 1, 8];
        for padding in [0, 1, 41, 1_000] {
            let padded = [&packet[..], &vec![0; padding]].concat();
            let of = EthernetFrame::of(&frame(ETHER_TYPE, &padded)).unwrap();
            assert_eq!((of.to, of.from, &of.packet[..]), ([1; 6], [2; 6], &packet[..]));
        }
    }

    #[test]
    fn other_frames_are_dropped() {
        let whole = frame(ETHER_TYPE, &[5, 3, 7, 1, 8]);
        for len in 0..whole.len() {
            assert!(EthernetFrame::of(&whole.slice(..len)).is_none(), "{len}");
        }
        for payload in [&[0; 46][..], &[8, 1, 1], &[5, 0xfe, 0xff, 0xff, 0xff, 0xff], &[5]] {
            assert!(EthernetFrame::of(&frame(ETHER_TYPE, payload)).is_none(), "{payload:?}");
        }
        assert!(EthernetFrame::of(&frame([8, 0], &[5, 3, 7, 1, 8])).is_none());
    }
}
