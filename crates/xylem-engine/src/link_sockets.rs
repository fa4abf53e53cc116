//! [`LinkSockets`]: the UDP sockets for encrypted links, and the one that reaches an address.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use xylem_mgmt::FaceUri;
use xylem_peers::reachable::endpoint;
use xylem_sockets::{EcnCapability, Udp};

use crate::polling::{PollSource, SocketPoll};

/// What a received datagram was.
pub(crate) enum ReceivedAs {
    /// It belongs to another protocol on the same socket, or to none of this end's.
    Other,
    /// It belongs to a link or relay: answers leave from the socket that received it. Its memory, if a link has opened
    /// it.
    Link(Option<Bytes>),
}

/// See the module's documentation. A socket's number is its place in the order of binding; none is removed.
#[derive(Default)]
pub(crate) struct LinkSockets {
    sockets: Vec<Udp>,
    /// The socket on which an address was last received, where there are several.
    last_received_on: HashMap<SocketAddr, usize>,
    /// Memory of opened datagrams, which packets may still share.
    opened: Vec<Bytes>,
}

impl LinkSockets {
    /// Adds a bound socket; returns its address.
    pub(crate) fn add(&mut self, mut socket: Udp, poll: &mut SocketPoll) -> io::Result<SocketAddr> {
        let source = PollSource::Link(self.sockets.len());
        poll.register(source, |token, poll| socket.register(poll, token))?;
        let local = socket.local();
        self.sockets.push(socket);
        Ok(local)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// The addresses of all sockets, in order.
    pub(crate) fn locals(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.sockets.iter().map(Udp::local)
    }

    /// Bytes that the smallest receive buffer holds; `None`: there is no socket.
    pub(crate) fn receive_capacity(&self) -> Option<usize> {
        self.sockets.iter().map(Udp::receive_capacity).min()
    }

    /// Takes a batch of datagrams from one socket. `take_in` gets each with its sender and whether it was marked.
    /// `most`: addresses for which the socket is remembered. Returns whether more may be waiting.
    pub(crate) fn receive(
        &mut self,
        i: usize,
        most: usize,
        take_in: &mut dyn FnMut(SocketAddr, bool, BytesMut) -> ReceivedAs,
    ) -> io::Result<bool> {
        let Self { sockets, last_received_on, opened } = self;
        let many = sockets.len() > 1;
        sockets[i].receive(&mut |from, marked, datagram| {
            let ReceivedAs::Link(memory) = take_in(from, marked, datagram) else { return };
            opened.extend(memory);
            if many {
                record(last_received_on, from, i, most);
            }
        })
    }

    /// Like [`Self::receive`], trains as they come, with the length of each datagram but the last. It remembers no
    /// socket: [`Self::record`] does.
    pub(crate) fn receive_messages(
        &mut self,
        i: usize,
        each: &mut dyn FnMut(SocketAddr, bool, usize, BytesMut),
    ) -> io::Result<bool> {
        self.sockets[i].receive_messages(each)
    }

    /// Remembers the socket on which an address was received.
    pub(crate) fn record(&mut self, from: SocketAddr, i: usize, most: usize) {
        if self.sockets.len() > 1 {
            record(&mut self.last_received_on, from, i, most);
        }
    }

    /// Keeps the memory of an opened datagram until [`Self::give_back_opened`].
    pub(crate) fn keep_opened(&mut self, memory: Option<Bytes>) {
        self.opened.extend(memory);
    }

    /// Returns memory to the socket that received it, to be used again once nothing shares it.
    pub(crate) fn give_back(&mut self, i: usize, memory: Bytes) {
        self.sockets[i].give_back(memory);
    }

    /// The same for all opened datagrams.
    pub(crate) fn give_back_opened(&mut self, i: usize) {
        self.opened.drain(..).for_each(|memory| self.sockets[i].give_back(memory));
    }

    /// Drops the memory of opened datagrams that no socket has received.
    pub(crate) fn drop_opened(&mut self) {
        self.opened.clear();
    }

    /// Number of opened datagrams that are kept for their memory.
    #[cfg(test)]
    pub(crate) fn opened(&self) -> usize {
        self.opened.len()
    }

    fn place_for(&self, to: SocketAddr) -> Option<usize> {
        let family = |s: &Udp| s.local().is_ipv4() == to.is_ipv4();
        let known = self.last_received_on.get(&to).copied();
        known.or_else(|| self.sockets.iter().position(family))
    }

    /// The socket for datagrams to an address: the one on which it was last received, or one of its family.
    pub(crate) fn socket_for(&self, to: SocketAddr) -> Option<&Udp> {
        self.sockets.get(self.place_for(to)?)
    }

    /// Face URI of this end of a link to `to`.
    pub(crate) fn uri_for(&self, to: SocketAddr) -> FaceUri {
        let socket = self.socket_for(to);
        socket.map_or(FaceUri::Null, |socket| FaceUri::Xylem(endpoint(socket.local())))
    }

    /// Sends one datagram, or several of `segment_size` bytes. They are lost if no socket has the address's family.
    pub(crate) fn send(
        &self,
        to: SocketAddr,
        contents: &[u8],
        segment_size: Option<usize>,
        ecn: EcnCapability,
    ) {
        if let Some(socket) = self.socket_for(to) {
            socket.send(to, contents, segment_size, ecn);
        }
    }

    /// Sends datagrams of `stride` bytes, as [`Udp::send_train`] does.
    pub(crate) fn send_train(&self, to: SocketAddr, contents: &[u8], stride: usize) {
        if let Some(socket) = self.socket_for(to) {
            socket.send_train(to, contents, stride);
        }
    }
}

fn record(known: &mut HashMap<SocketAddr, usize>, from: SocketAddr, i: usize, most: usize) {
    if known.len() < most || known.contains_key(&from) {
        known.insert(from, i);
    }
}
