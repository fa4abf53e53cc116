//! [`Udp`], through `quinn-udp`.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use mio::Interest;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::BufferPool;

/// Largest message from the kernel, in bytes: a whole train of coalesced datagrams.
const MESSAGE_LEN: usize = 65_536;
/// Messages taken in one call. More would be cheaper per message but worse overall: the next requests wait until all
/// are processed, and meanwhile the peer is idle.
const BATCH: usize = 8;
/// Length of the slabs that receive buffers are cut from, so that small datagrams share one.
const SLAB_LEN: usize = 4 * MESSAGE_LEN;
/// A message of at least this length has a buffer of its own, which is reused when no slice of it is held.
const OWN_BUFFER: usize = MESSAGE_LEN / 4;
/// Bytes of datagrams that leave in one call.
const TRAIN_LEN: usize = 60 * 1024;
/// Datagrams of these lengths fit any Ethernet frame, by IPv4 and by IPv6, so that the kernel may cut a train into
/// them. The kernel refuses larger ones unless the network's frames are larger too. After such a refusal, where frames
/// became smaller under a link (PPPoE carries 1,464), `quinn-udp` sends no more trains.
const SAFE_SEGMENT: [usize; 2] = [1_472, 1_452];
/// Bytes requested from the kernel for each direction; it may grant less (`net.core.rmem_max`).
const SOCKET_BUFFER: usize = 4 << 20;

/// The treatment of datagrams that are larger than a network on the path carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// They are lost, which is how the link finds the size that fits.
    Lose,
    /// IP cuts them into fragments: an NDN packet of 8,800 bytes has to get through.
    Fragment,
}

/// Whether routers may mark a datagram instead of dropping it (RFC 3168). Use it only where the receiver reacts to the
/// mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnCapability {
    /// ECT(0).
    Capable,
    /// Not-ECT.
    NotCapable,
}

/// Datagrams of one sender that the kernel handed over together.
pub struct ReceivedTrain {
    /// The sender's address.
    pub from: SocketAddr,
    /// The datagrams, end to end.
    pub bytes: Bytes,
    /// Length of each datagram but the last, which may be shorter, in bytes.
    pub stride: usize,
    /// A router on the path marked them instead of dropping them (ECN CE).
    pub marked: bool,
}

/// Datagrams of one length for one receiver that wait to leave in one system call.
#[derive(Default)]
struct OutgoingTrain {
    to: Option<SocketAddr>,
    bytes: Vec<u8>,
    stride: usize,
}

/// A bound, non-blocking UDP socket.
pub struct Udp {
    io: mio::net::UdpSocket,
    /// State for trains, marks and don't-fragment. `None` where the system lacks the options for them: datagrams then
    /// pass one by one, unmarked, and IP may fragment large ones.
    state: Option<UdpSocketState>,
    local: SocketAddr,
    buffers: Vec<BytesMut>,
    used: BufferPool,
    train: OutgoingTrain,
}

impl Udp {
    /// Binds to `address`; IPv6 sockets do not take IPv4 traffic, so that both can be bound.
    pub fn bind(address: SocketAddr, oversize: Oversize) -> io::Result<Self> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Self::from_socket(socket, oversize)
    }

    /// Takes over a bound socket that does not block.
    pub fn from_socket(socket: socket2::Socket, oversize: Oversize) -> io::Result<Self> {
        let io = mio::net::UdpSocket::from_std(socket.into());
        let state = match UdpSocketState::new(UdpSockRef::from(&io)) {
            Ok(state) => Some(state),
            Err(e) if lacks_option(&e) => None,
            Err(e) => return Err(e),
        };
        let local = io.local_addr()?;
        if oversize == Oversize::Fragment {
            allow_fragments(&io, local)?;
        }
        // Smaller buffers only cost throughput: the kernel's limit is accepted.
        let _ = socket2::SockRef::from(&io).set_recv_buffer_size(SOCKET_BUFFER);
        let _ = socket2::SockRef::from(&io).set_send_buffer_size(SOCKET_BUFFER);
        Ok(Self {
            io,
            state,
            local,
            buffers: Vec::new(),
            used: BufferPool::default(),
            train: OutgoingTrain::default(),
        })
    }

    /// The bound address, with the port that the system chose.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Bytes that the kernel holds for this socket before it drops datagrams, its own bookkeeping included.
    pub fn receive_capacity(&self) -> usize {
        socket2::SockRef::from(&self.io).recv_buffer_size().unwrap_or(MESSAGE_LEN)
    }

    /// Registers for readability.
    pub fn register(&mut self, poll: &mio::Poll, token: mio::Token) -> io::Result<()> {
        poll.registry().register(&mut self.io, token, Interest::READABLE)
    }

    /// Takes one batch from the socket: each datagram in memory of its own, and whether it was marked (ECN CE). Returns
    /// whether more may be waiting.
    ///
    /// # Errors
    /// Those of the socket; errors that a peer caused (ICMP) count as an empty message.
    pub fn receive(
        &mut self,
        each: &mut dyn FnMut(SocketAddr, bool, BytesMut),
    ) -> io::Result<bool> {
        self.receive_with(&mut |meta, mut message| {
            let (from, marked, stride) = (meta.addr, is_marked(meta), meta.stride.max(1));
            while message.len() > stride {
                each(from, marked, message.split_to(stride));
            }
            if !message.is_empty() {
                each(from, marked, message);
            }
        })
    }

    /// Like [`Udp::receive`], with trains of datagrams as they come.
    pub fn receive_trains(&mut self, into: &mut Vec<ReceivedTrain>) -> io::Result<bool> {
        self.receive_with(&mut |meta, message| {
            into.push(ReceivedTrain {
                from: meta.addr,
                bytes: message.freeze(),
                stride: meta.stride.max(1),
                marked: is_marked(meta),
            });
        })
    }

    /// Like [`Udp::receive_trains`], in writable memory: sender, memory, whether it was marked, and the length of each
    /// datagram but the last.
    ///
    /// # Errors
    /// As [`Udp::receive`].
    pub fn receive_messages(
        &mut self,
        each: &mut dyn FnMut(SocketAddr, bool, usize, BytesMut),
    ) -> io::Result<bool> {
        self.receive_with(&mut |meta, message| {
            each(meta.addr, is_marked(meta), meta.stride.max(1), message);
        })
    }

    fn receive_with(&mut self, each: &mut dyn FnMut(&RecvMeta, BytesMut)) -> io::Result<bool> {
        while self.buffers.len() < BATCH {
            self.buffers.push(BytesMut::zeroed(MESSAGE_LEN));
        }
        let mut metas = [RecvMeta::default(); BATCH];
        let received = {
            let mut slices: Vec<IoSliceMut<'_>> =
                self.buffers.iter_mut().map(|b| IoSliceMut::new(&mut b[..MESSAGE_LEN])).collect();
            match take(&self.io, self.state.as_ref(), &mut slices, &mut metas) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if caused_by_a_peer(&e) => return Ok(true),
                Err(e) => return Err(e),
            }
        };
        for (meta, buffer) in metas.iter().zip(&mut self.buffers).take(received) {
            let message = if meta.len >= OWN_BUFFER {
                let fresh = self.used.buffer(MESSAGE_LEN);
                let mut whole = std::mem::replace(buffer, fresh);
                whole.truncate(meta.len);
                whole
            } else {
                let message = buffer.split_to(meta.len);
                if buffer.len() < MESSAGE_LEN {
                    *buffer = BytesMut::zeroed(SLAB_LEN);
                }
                message
            };
            each(meta, message);
        }
        // A batch that is not full has emptied the queue.
        Ok(received == self.batch())
    }

    /// Most messages that one call can return.
    fn batch(&self) -> usize {
        if self.state.is_some() { BATCH.min(quinn_udp::BATCH_SIZE) } else { 1 }
    }

    /// Datagrams that the system accepts in one call; 1 without segment offload.
    fn longest_train(&self) -> usize {
        self.state.as_ref().map_or(1, UdpSocketState::max_gso_segments)
    }

    /// Takes a message back, to reuse its memory once no slice of it is held.
    pub fn give_back(&mut self, message: Bytes) {
        if message.len() >= OWN_BUFFER {
            self.used.keep(message);
        }
    }

    /// Queues a datagram: those of one length to one receiver leave together, at the latest with [`Udp::flush`].
    pub fn queue(&mut self, to: SocketAddr, datagram: &[u8]) {
        let train = &self.train;
        let joins = train.to == Some(to)
            && datagram.len() <= train.stride
            && train.bytes.len().is_multiple_of(train.stride)
            && train.bytes.len() + datagram.len() <= TRAIN_LEN
            && train.bytes.len() / train.stride < self.longest_train()
            && may_train(to, train.stride);
        if !joins {
            self.flush();
            self.train.to = Some(to);
            self.train.stride = datagram.len().max(1);
        }
        self.train.bytes.extend_from_slice(datagram);
    }

    /// Sends the datagrams that [`Udp::queue`] holds back.
    pub fn flush(&mut self) {
        let Some(to) = self.train.to.take() else { return };
        let mut bytes = std::mem::take(&mut self.train.bytes);
        // With NDN over plain UDP a receiver need not react to marks.
        self.send(to, &bytes, Some(self.train.stride), EcnCapability::NotCapable);
        bytes.clear();
        self.train.bytes = bytes;
    }

    /// Sends datagrams that arrived as a train, of `stride` bytes but the last, as one train where the kernel may cut
    /// it.
    pub fn send_train(&self, to: SocketAddr, contents: &[u8], stride: usize) {
        if may_train(to, stride) {
            return self.send(to, contents, Some(stride), EcnCapability::NotCapable);
        }
        for datagram in contents.chunks(stride.max(1)) {
            self.send(to, datagram, None, EcnCapability::NotCapable);
        }
    }

    /// Sends one datagram. A full socket buffer drops it; the error is another one: there is no way to this address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn send_one(&self, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        match self.io.send_to(datagram, to) {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock && !caused_by_a_peer(&e) => Err(e),
            _ => Ok(()),
        }
    }

    /// Sends one datagram, or several of `segment_size` bytes (the last may be shorter).
    ///
    /// A full socket buffer drops them, as the network would: the program that asked asks again.
    pub fn send(
        &self,
        to: SocketAddr,
        contents: &[u8],
        segment_size: Option<usize>,
        ecn: EcnCapability,
    ) {
        let ecn = (ecn == EcnCapability::Capable).then_some(EcnCodepoint::Ect0);
        let train = self.longest_train();
        let at_once = segment_size.map_or(contents.len(), |size| size * train).max(1);
        for contents in contents.chunks(at_once) {
            let Some(state) = &self.state else {
                let _ = self.io.send_to(contents, to);
                continue;
            };
            let segment_size = segment_size.filter(|size| contents.len() > *size);
            let transmit = Transmit { destination: to, ecn, contents, segment_size, src_ip: None };
            let _ = state.try_send(UdpSockRef::from(&self.io), &transmit);
        }
    }
}

/// Makes one system call; returns the number of messages.
fn take(
    io: &mio::net::UdpSocket,
    state: Option<&UdpSocketState>,
    into: &mut [IoSliceMut<'_>],
    metas: &mut [RecvMeta; BATCH],
) -> io::Result<usize> {
    let Some(state) = state else {
        let (len, from) = io.recv_from(&mut into[0])?;
        (metas[0].addr, metas[0].len, metas[0].stride) = (from, len, len);
        return Ok(1);
    };
    // The call goes through `mio`, which on Windows asks for the next event when it would block.
    io.try_io(|| state.recv(UdpSockRef::from(io), into, metas))
}

/// Returns whether the system lacks this socket option: Wine, old kernels, containers that filter system calls.
fn lacks_option(error: &io::Error) -> bool {
    // WSAENOPROTOOPT and WSAEOPNOTSUPP.
    #[cfg(windows)]
    let codes = [10_042, 10_045];
    #[cfg(unix)]
    let codes = [rustix::io::Errno::NOPROTOOPT, rustix::io::Errno::OPNOTSUPP]
        .map(rustix::io::Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Returns whether the network reported that an earlier datagram did not arrive (ICMP), which is no fault of the
/// socket. Windows calls it a reset.
fn caused_by_a_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionReset)
}

/// Returns the mark of a train: the kernel joins only datagrams with the same mark.
fn is_marked(meta: &RecvMeta) -> bool {
    meta.ecn == Some(EcnCodepoint::Ce)
}

/// Returns whether the kernel cuts a train for this receiver into datagrams of `len` bytes. These must fit every path.
fn may_train(to: SocketAddr, len: usize) -> bool {
    len <= SAFE_SEGMENT[usize::from(to.is_ipv6())] || to.ip().is_loopback()
}

/// Undoes the settings of `quinn-udp` for path MTU discovery.
#[cfg(target_os = "linux")]
fn allow_fragments(io: &mio::net::UdpSocket, address: SocketAddr) -> io::Result<()> {
    use rustix::net::sockopt;
    match address {
        SocketAddr::V4(_) => {
            sockopt::set_ip_mtu_discover(io, sockopt::Ipv4PathMtuDiscovery::DONT)?;
        }
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_mtu_discover(io, sockopt::Ipv6PathMtuDiscovery::DONT)?;
            nix::sys::socket::setsockopt(io, nix::sys::socket::sockopt::Ipv6DontFrag, &false)?;
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn allow_fragments(_io: &mio::net::UdpSocket, _address: SocketAddr) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> Udp {
        Udp::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Oversize::Lose).expect("loopback")
    }

    /// Waits for the datagrams that were sent before; returns each with its mark.
    fn marks(socket: &mut Udp, count: usize) -> Vec<(Vec<u8>, bool)> {
        let mut got = Vec::new();
        while got.len() < count {
            let each = &mut |_, marked, bytes: BytesMut| got.push((bytes.to_vec(), marked));
            socket.receive(each).expect("receives");
        }
        got
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn packets_are_fragmented_over_ipv6_and_datagrams_of_links_are_not() {
        use nix::sys::socket::{getsockopt, sockopt::Ipv6DontFrag};
        for (oversize, is_whole) in [(Oversize::Fragment, false), (Oversize::Lose, true)] {
            let any = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0));
            let Ok(socket) = Udp::bind(any, oversize) else { return };
            assert_eq!(getsockopt(&socket.io, Ipv6DontFrag), Ok(is_whole), "{oversize:?}");
        }
    }

    #[test]
    fn a_network_mark_is_reported_and_capability_alone_is_not() {
        let (sender, mut receiver) = (bound(), bound());
        let to = receiver.local();
        sender.send(to, b"not capable", None, EcnCapability::NotCapable);
        sender.send(to, b"capable", None, EcnCapability::Capable);
        // The second datagram, as a congested router marks it.
        let marked = Transmit {
            destination: to,
            ecn: Some(EcnCodepoint::Ce),
            contents: b"marked",
            segment_size: None,
            src_ip: None,
        };
        let state = sender.state.as_ref().expect("this system has the options");
        state.try_send(UdpSockRef::from(&sender.io), &marked).expect("sends");
        let got = marks(&mut receiver, 3);
        let of = |text: &[u8]| got.iter().find(|(bytes, _)| bytes == text).map(|(_, m)| *m);
        assert_eq!([of(b"not capable"), of(b"capable")], [Some(false); 2]);
        assert_eq!(of(b"marked"), Some(true));
    }

    /// As on a system without the options that `quinn-udp` needs (Wine): only speed is lost.
    #[test]
    fn without_the_options_datagrams_pass_one_by_one() {
        let (mut sender, mut receiver) = (bound(), bound());
        (sender.state, receiver.state) = (None, None);
        let to = receiver.local();
        sender.send(to, b"aabbc", Some(2), EcnCapability::Capable);
        sender.queue(to, b"dd");
        sender.queue(to, b"ee");
        sender.flush();
        let (mut got, mut more) = (Vec::new(), true);
        while got.len() < 5 {
            let from = sender.local();
            let each = &mut |who, marked, bytes: BytesMut| {
                assert_eq!((who, marked), (from, false));
                got.push(bytes.to_vec());
            };
            more = receiver.receive(each).expect("receives");
        }
        assert_eq!(got, [&b"aa"[..], b"bb", b"c", b"dd", b"ee"]);
        assert!(more, "a single message may have another behind it");
        assert!(!receiver.receive(&mut |_, _, _| panic!("nothing was sent")).expect("receives"));
    }

    #[test]
    fn a_missing_option_is_distinguished_from_a_broken_socket() {
        let codes = if cfg!(windows) { [10_045, 10_048] } else { [95, 98] };
        let lacks = codes.map(|code| lacks_option(&io::Error::from_raw_os_error(code)));
        assert_eq!(lacks, [true, false], "EOPNOTSUPP, EADDRINUSE");
    }
}
