//! The layers below NDN: Ethernet, IP, UDP and TCP, through the crate `etherparse`; joins IP fragments.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use etherparse::defrag::IpDefragPool;
use etherparse::{
    EtherType, IpNumber, LinkSlice, NetSlice, SlicedPacket, TransportSlice, UdpSlice,
};
use pcap_parser::Linktype;

use crate::CaptureError;

/// EtherType of NDN frames.
const NDN: EtherType = EtherType(0x8624);
/// An IP fragment waits for the others of its packet until this many fragments have come after the last of them. So no
/// more packets than that are incomplete, of 64 KiB each.
const FRAGMENTS_WAIT: u64 = 256;
/// After this many fragments those that have waited too long are dropped.
const FRAGMENTS_TURN: u64 = 64;

/// One end of a captured exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureAddress {
    /// Of UDP, TCP or WebSocket.
    Ip(SocketAddr),
    /// Of Ethernet; zeros if the capture does not have it.
    Ethernet([u8; 6]),
}

impl fmt::Display for CaptureAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Ethernet([a, b, c, d, e, last]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{last:02x}")
            }
        }
    }
}

/// The protocol that carried an NDN frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameCarrier {
    /// A UDP datagram.
    Udp,
    /// A TCP connection.
    Tcp,
    /// A WebSocket, in a TCP connection.
    WebSocket,
    /// An Ethernet frame.
    Ethernet,
}

impl fmt::Display for FrameCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::WebSocket => "websocket",
            Self::Ethernet => "ethernet",
        })
    }
}

/// The sender and the receiver of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends<A> {
    pub(crate) from: A,
    pub(crate) to: A,
}

/// The part of a captured frame that may hold NDN.
pub(crate) enum Contents<'a> {
    Ethernet(Ends<[u8; 6]>, &'a [u8]),
    Datagram(Ends<SocketAddr>, &'a [u8]),
    Segment(Ends<SocketAddr>, Segment<'a>),
}

/// A TCP segment.
pub(crate) struct Segment<'a> {
    pub(crate) sequence: u32,
    /// It begins a connection.
    pub(crate) is_first: bool,
    pub(crate) data: &'a [u8],
}

/// Reads link, network and transport headers.
#[derive(Default)]
pub(crate) struct Layers {
    fragments: IpDefragPool<u64>,
    /// Fragments that have come.
    came: u64,
    /// The last datagram that was joined.
    joined: Vec<u8>,
}

impl Layers {
    /// Reads one captured frame; `None` if it is of another kind, damaged, or a fragment of a packet that is not complete.
    pub(crate) fn read<'a>(
        &'a mut self,
        link: Linktype,
        bytes: &'a [u8],
    ) -> Result<Option<Contents<'a>>, CaptureError> {
        let sliced = match link {
            Linktype::ETHERNET => SlicedPacket::from_ethernet(bytes).ok(),
            // Families of the IP version stand before it, in an order that its own first octet makes superfluous.
            Linktype::NULL | Linktype::LOOP => of_ip(bytes.get(4..)),
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12 | 14) => {
                of_ip(Some(bytes))
            }
            Linktype::LINUX_SLL => return Ok(self.cooked(bytes, Cooked::V1)),
            Linktype(276) => return Ok(self.cooked(bytes, Cooked::V2)),
            other => return Err(CaptureError::UnknownLinkType(other.0)),
        };
        Ok(sliced.and_then(|sliced| self.contents(&sliced, None)))
    }

    /// A frame of Linux' device "any", which has a header in place of Ethernet's.
    fn cooked<'a>(&'a mut self, bytes: &'a [u8], header: Cooked) -> Option<Contents<'a>> {
        let (protocol, address, len) = match header {
            Cooked::V1 => (14, 6, 16),
            Cooked::V2 => (0, 12, 20),
        };
        let protocol = EtherType(u16::from_be_bytes(*bytes.get(protocol..)?.first_chunk()?));
        let from = *bytes.get(address..)?.first_chunk()?;
        let payload = bytes.get(len..)?;
        let sliced = SlicedPacket::from_ether_type(protocol, payload).ok()?;
        self.contents(&sliced, Some(from))
    }

    /// `from`: the sender on Ethernet, where it is known otherwise than by an Ethernet header.
    fn contents<'a>(
        &'a mut self,
        sliced: &SlicedPacket<'a>,
        from: Option<[u8; 6]>,
    ) -> Option<Contents<'a>> {
        if let Some(ethernet) = sliced.ether_payload().filter(|inner| inner.ether_type == NDN) {
            let ends = match &sliced.link {
                Some(LinkSlice::Ethernet2(header)) => {
                    Ends { from: header.source(), to: header.destination() }
                }
                _ => Ends { from: from.unwrap_or_default(), to: [0; 6] },
            };
            return Some(Contents::Ethernet(ends, ethernet.payload));
        }
        let (source, destination): (IpAddr, IpAddr) = match sliced.net.as_ref()? {
            NetSlice::Ipv4(ip) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            NetSlice::Ipv6(ip) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            NetSlice::Arp(_) => return None,
        };
        let ends = |from, to| Ends {
            from: SocketAddr::new(source, from),
            to: SocketAddr::new(destination, to),
        };
        let datagram = |udp: &UdpSlice<'a>| {
            Contents::Datagram(ends(udp.source_port(), udp.destination_port()), udp.payload())
        };
        match sliced.transport.as_ref() {
            Some(TransportSlice::Udp(udp)) => Some(datagram(udp)),
            Some(TransportSlice::Tcp(tcp)) => {
                let (sequence, is_first) = (tcp.sequence_number(), tcp.syn());
                Some(Contents::Segment(
                    ends(tcp.source_port(), tcp.destination_port()),
                    Segment { sequence, is_first, data: tcp.payload() },
                ))
            }
            Some(_) => None,
            None => {
                self.join(sliced)?;
                UdpSlice::from_slice(&self.joined).ok().as_ref().map(datagram)
            }
        }
    }

    /// Takes a fragment of an IP packet. If it completes a datagram, that is in `joined` then.
    fn join(&mut self, sliced: &SlicedPacket<'_>) -> Option<()> {
        if !sliced.is_ip_payload_fragmented() {
            return None;
        }
        self.came = self.came.saturating_add(1);
        if self.came.is_multiple_of(FRAGMENTS_TURN) {
            let oldest = self.came.saturating_sub(FRAGMENTS_WAIT);
            self.fragments.retain(|last| *last > oldest);
        }
        let whole = self.fragments.process_sliced_packet(sliced, self.came, ()).ok()??;
        let is_udp = whole.ip_number == IpNumber::UDP;
        let before = std::mem::replace(&mut self.joined, whole.payload);
        drop(before);
        is_udp.then_some(())
    }
}

/// The headers of captures at Linux' device "any".
enum Cooked {
    V1,
    V2,
}

fn of_ip(bytes: Option<&[u8]>) -> Option<SlicedPacket<'_>> {
    SlicedPacket::from_ip(bytes?).ok()
}
