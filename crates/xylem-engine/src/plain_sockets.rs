//! [`PlainSockets`]: the datagram sockets for plain NDN, unicast, multicast and over Ethernet.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use xylem_sockets::{Multicast, ReceivedTrain, Udp};

use crate::ethernet::EthernetDevices;
use crate::polling::{PollSource, SocketPoll};

/// See the module's documentation. A socket's or group's number is its place in the order of binding; none is removed.
#[derive(Default)]
pub(crate) struct PlainSockets {
    udp: Vec<Udp>,
    groups: Vec<Multicast>,
    pub(crate) ethernet: EthernetDevices,
    /// The list of one read, kept for its allocation.
    trains: Vec<ReceivedTrain>,
}

impl PlainSockets {
    /// Adds a bound socket; returns its address.
    pub(crate) fn add(&mut self, mut socket: Udp, poll: &mut SocketPoll) -> io::Result<SocketAddr> {
        let source = PollSource::Udp(self.udp.len());
        poll.register(source, |token, poll| socket.register(poll, token))?;
        let local = socket.local();
        self.udp.push(socket);
        Ok(local)
    }

    /// Adds a group that was joined; returns its number.
    pub(crate) fn add_group(
        &mut self,
        mut group: Multicast,
        poll: &mut SocketPoll,
    ) -> io::Result<usize> {
        let number = self.groups.len();
        poll.register(PollSource::Multicast(number), |token, poll| group.register(poll, token))?;
        self.groups.push(group);
        Ok(number)
    }

    /// The addresses of all unicast sockets, in order.
    pub(crate) fn locals(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.udp.iter().map(Udp::local)
    }

    /// The address of one unicast socket.
    pub(crate) fn local(&self, socket: usize) -> SocketAddr {
        self.udp[socket].local()
    }

    /// Bytes that the smallest receive buffer holds; `None`: there is no socket.
    pub(crate) fn receive_capacity(&self) -> Option<usize> {
        self.udp.iter().map(Udp::receive_capacity).min()
    }

    /// A unicast socket in the family of an address.
    pub(crate) fn socket_for(&self, to: SocketAddr) -> Option<usize> {
        self.udp.iter().position(|socket| socket.local().is_ipv4() == to.is_ipv4())
    }

    /// The address of a group.
    pub(crate) fn group(&self, number: usize) -> SocketAddr {
        self.groups[number].group()
    }

    /// Takes a batch from one unicast socket, and whether more may be waiting. The caller returns the memory of each
    /// train with [`Self::give_back`], and the list with [`Self::end_read`].
    pub(crate) fn receive(&mut self, socket: usize) -> io::Result<(Vec<ReceivedTrain>, bool)> {
        let mut trains = std::mem::take(&mut self.trains);
        let more = self.udp[socket].receive_trains(&mut trains)?;
        Ok((trains, more))
    }

    /// Like [`Self::receive`], of a group, without this machine's own datagrams. No memory is given back.
    pub(crate) fn receive_group(
        &mut self,
        number: usize,
    ) -> io::Result<(Vec<ReceivedTrain>, bool)> {
        let mut trains = std::mem::take(&mut self.trains);
        let group = &mut self.groups[number];
        let own = group.local();
        let more = group.receiver.receive_trains(&mut trains)?;
        trains.retain(|train| train.from != own);
        Ok((trains, more))
    }

    /// Returns memory to the socket that received it.
    pub(crate) fn give_back(&mut self, socket: usize, memory: Bytes) {
        self.udp[socket].give_back(memory);
    }

    /// Takes the list of a read back.
    pub(crate) fn end_read(&mut self, trains: Vec<ReceivedTrain>) {
        self.trains = trains;
        self.trains.clear();
    }

    /// Queues a frame to a unicast address; it leaves with [`Self::flush`] at the latest.
    #[inline]
    pub(crate) fn queue(&mut self, socket: usize, to: SocketAddr, frame: &[u8]) {
        self.udp[socket].queue(to, frame);
    }

    /// Sends a frame to a group.
    #[inline]
    pub(crate) fn send_to_group(&mut self, number: usize, frame: &[u8]) {
        self.groups[number].send(frame);
    }

    /// Sends what is queued.
    pub(crate) fn flush(&mut self) {
        self.udp.iter_mut().for_each(Udp::flush);
    }
}
