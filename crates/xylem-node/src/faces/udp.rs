//! One UDP socket with batched system calls: GSO out, GRO and recvmmsg in (through `quinn-udp`).

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use mio::Interest;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};

/// What the kernel may hand over in one message: a whole train of coalesced datagrams.
const MESSAGE_LEN: usize = 65_536;
/// Messages taken in one call. More would be cheaper a message and worse in all: what is asked for
/// next waits until they are worked off, and meanwhile the peer has nothing to do.
const BATCH: usize = 8;
/// Receive buffers are cut from slabs of this length, so that small datagrams share one.
const SLAB_LEN: usize = 4 * MESSAGE_LEN;
/// Bytes of datagrams that leave in one call.
const TRAIN_LEN: usize = 60 * 1024;
/// A datagram of this length fits into any Ethernet frame, so that the kernel may cut a train into
/// such; for larger ones it refuses unless the network's frames are larger, too.
const SAFE_SEGMENT: usize = 1_452;
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

/// Datagrams of one sender that the kernel handed over together.
pub(crate) struct Received {
    /// Who sent them.
    pub(crate) from: SocketAddr,
    /// One after the other.
    pub(crate) bytes: Bytes,
    /// The length of each but the last, which may be shorter.
    pub(crate) stride: usize,
}

/// Datagrams of one length for one receiver that wait to leave in one system call.
#[derive(Default)]
struct Train {
    to: Option<SocketAddr>,
    bytes: Vec<u8>,
    stride: usize,
}

/// A bound, non-blocking UDP socket.
pub(crate) struct Udp {
    io: mio::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    buffers: Vec<BytesMut>,
    train: Train,
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
        Self::from_socket(socket, oversize)
    }

    /// Takes over a socket that is bound and does not block.
    pub(crate) fn from_socket(socket: socket2::Socket, oversize: Oversize) -> io::Result<Self> {
        let io = mio::net::UdpSocket::from_std(socket.into());
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        let local = io.local_addr()?;
        if oversize == Oversize::Fragment {
            allow_fragments(&io, local)?;
        }
        // Smaller buffers only cost rate: the kernel's limit is taken as it is.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&io), SOCKET_BUFFER);
        Ok(Self { io, state, local, buffers: Vec::new(), train: Train::default() })
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

    /// Takes one batch from the socket, datagram by datagram in memory of its own: whether more may
    /// be waiting.
    ///
    /// # Errors
    /// Those of the socket; errors that a peer caused (ICMP) count as an empty message.
    pub(crate) fn receive(
        &mut self,
        each: &mut dyn FnMut(SocketAddr, BytesMut),
    ) -> io::Result<bool> {
        self.receive_messages(&mut |from, mut message, stride| {
            while message.len() > stride {
                each(from, message.split_to(stride));
            }
            if !message.is_empty() {
                each(from, message);
            }
        })
    }

    /// As [`Udp::receive`], trains of datagrams as they come.
    pub(crate) fn receive_trains(&mut self, into: &mut Vec<Received>) -> io::Result<bool> {
        self.receive_messages(&mut |from, message, stride| {
            into.push(Received { from, bytes: message.freeze(), stride });
        })
    }

    fn receive_messages(
        &mut self,
        each: &mut dyn FnMut(SocketAddr, BytesMut, usize),
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
            let message = buffer.split_to(meta.len);
            if buffer.len() < MESSAGE_LEN {
                *buffer = BytesMut::zeroed(SLAB_LEN);
            }
            each(meta.addr, message, meta.stride.max(1));
        }
        // A batch that is not full was cut short by the end of the queue.
        Ok(received == BATCH)
    }

    /// Sends a datagram soon: those of one length to one receiver leave together, at the latest with
    /// [`Udp::flush`].
    pub(crate) fn queue(&mut self, to: SocketAddr, datagram: &[u8]) {
        let train = &self.train;
        let joins = train.to == Some(to)
            && datagram.len() <= train.stride
            && train.bytes.len().is_multiple_of(train.stride)
            && train.bytes.len() + datagram.len() <= TRAIN_LEN
            && train.bytes.len() / train.stride < self.state.max_gso_segments()
            && may_train(to, train.stride);
        if !joins {
            self.flush();
            self.train.to = Some(to);
            self.train.stride = datagram.len().max(1);
        }
        self.train.bytes.extend_from_slice(datagram);
    }

    /// Sends what [`Udp::queue`] holds back.
    pub(crate) fn flush(&mut self) {
        let Some(to) = self.train.to.take() else { return };
        let mut bytes = std::mem::take(&mut self.train.bytes);
        self.send(to, &bytes, Some(self.train.stride));
        bytes.clear();
        self.train.bytes = bytes;
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

/// Whether the kernel cuts a train for this receiver into datagrams of `len` bytes without asking
/// more of the path than any path gives.
fn may_train(to: SocketAddr, len: usize) -> bool {
    len <= SAFE_SEGMENT || to.ip().is_loopback()
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
