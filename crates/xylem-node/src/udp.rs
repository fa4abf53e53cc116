//! One UDP socket with batched system calls: GSO out, GRO and recvmmsg in (through `quinn-udp`).

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use bytes::BytesMut;
use mio::Interest;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};

/// What the kernel may hand over in one message: a whole train of coalesced datagrams.
const MESSAGE_LEN: usize = 65_536;
/// Messages taken in one call. More would be cheaper a message and worse in all: what is asked for
/// next waits until they are worked off, and meanwhile the peer has nothing to do.
const BATCH: usize = 8;
/// Receive buffers are cut from slabs of this length, so that small datagrams share one.
const SLAB_LEN: usize = 4 * MESSAGE_LEN;
/// Asked of the kernel for each direction; it may grant less (`net.core.rmem_max`).
const SOCKET_BUFFER: usize = 4 << 20;

/// What happens to datagrams that are larger than a network on the way carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oversize {
    /// They are lost, which is how the link finds the size that fits.
    Lose,
    /// IP cuts them into fragments: an NDN packet of 8,800 bytes has to get through.
    Fragment,
}

/// A bound, non-blocking UDP socket.
pub(crate) struct Udp {
    io: mio::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    buffers: Vec<BytesMut>,
}

impl Udp {
    /// Binds to `address`; IPv6 sockets do not take IPv4 traffic, so that both can be bound.
    pub(crate) fn bind(address: SocketAddr, oversize: Oversize) -> io::Result<Self> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let io = mio::net::UdpSocket::from_std(socket.into());
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        if oversize == Oversize::Fragment {
            allow_fragments(&io, address)?;
        }
        // Smaller buffers only cost rate: the kernel's limit is taken as it is.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&io), SOCKET_BUFFER);
        let local = io.local_addr()?;
        Ok(Self { io, state, local, buffers: Vec::new() })
    }

    /// The address that was bound, with the port that the system chose.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Bytes that the kernel holds for us before it drops, its own bookkeeping included.
    pub(crate) fn receive_capacity(&self) -> usize {
        self.state.recv_buffer_size(UdpSockRef::from(&self.io)).unwrap_or(MESSAGE_LEN)
    }

    /// Registers for readability.
    pub(crate) fn register(&mut self, poll: &mio::Poll, token: mio::Token) -> io::Result<()> {
        poll.registry().register(&mut self.io, token, Interest::READABLE)
    }

    /// Takes one batch from the socket: whether more may be waiting.
    ///
    /// # Errors
    /// Those of the socket; errors that a peer caused (ICMP) count as an empty message.
    pub(crate) fn receive(
        &mut self,
        each: &mut dyn FnMut(SocketAddr, BytesMut),
    ) -> io::Result<bool> {
        while self.buffers.len() < BATCH {
            self.buffers.push(BytesMut::zeroed(SLAB_LEN));
        }
        let mut metas = [RecvMeta::default(); BATCH];
        let received = {
            let mut slices: Vec<IoSliceMut<'_>> =
                self.buffers.iter_mut().map(|b| IoSliceMut::new(&mut b[..MESSAGE_LEN])).collect();
            match self.state.recv(UdpSockRef::from(&self.io), &mut slices, &mut metas) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Ok(true),
                Err(e) => return Err(e),
            }
        };
        for (meta, buffer) in metas.iter().zip(&mut self.buffers).take(received) {
            let mut message = buffer.split_to(meta.len);
            if buffer.len() < MESSAGE_LEN {
                *buffer = BytesMut::zeroed(SLAB_LEN);
            }
            let stride = meta.stride.max(1);
            while message.len() > stride {
                each(meta.addr, message.split_to(stride));
            }
            if !message.is_empty() {
                each(meta.addr, message);
            }
        }
        // A batch that is not full was cut short by the end of the queue.
        Ok(received == BATCH)
    }

    /// Sends one datagram, or several of `segment_size` bytes (the last may be shorter).
    ///
    /// A full socket buffer drops them, as the network would: whoever asked asks again.
    pub(crate) fn send(&self, to: SocketAddr, contents: &[u8], segment_size: Option<usize>) {
        // A kernel or device without segment offload says so by a limit of 1.
        let train = self.state.max_gso_segments();
        let at_once = segment_size.map_or(contents.len(), |size| size * train).max(1);
        for contents in contents.chunks(at_once) {
            let segment_size = segment_size.filter(|size| contents.len() > *size);
            let transmit =
                Transmit { destination: to, ecn: None, contents, segment_size, src_ip: None };
            let _ = self.state.try_send(UdpSockRef::from(&self.io), &transmit);
        }
    }
}

/// Undoes what `quinn-udp` sets for the sake of path MTU discovery.
#[cfg(target_os = "linux")]
fn allow_fragments(io: &mio::net::UdpSocket, address: SocketAddr) -> io::Result<()> {
    use rustix::net::sockopt;
    match address {
        SocketAddr::V4(_) => {
            sockopt::set_ip_mtu_discover(io, sockopt::Ipv4PathMtuDiscovery::DONT)?;
        }
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_mtu_discover(io, sockopt::Ipv6PathMtuDiscovery::DONT)?;
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn allow_fragments(_io: &mio::net::UdpSocket, _address: SocketAddr) -> io::Result<()> {
    Ok(())
}
