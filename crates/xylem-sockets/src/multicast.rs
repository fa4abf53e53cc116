//! One NDN multicast group on one interface (UDP over IPv4 or IPv6).
//!
//! Packets of the group arrive on a socket that is bound to its port. Packets to the group leave from a socket with a
//! port of its own. So this node recognizes its own packets when they come back, and other nodes on the same machine
//! receive them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use mio::{Poll, Token};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::{EcnCapability, Oversize, Udp};

/// A joined group.
pub struct Multicast {
    /// The socket that receives the group's packets.
    pub receiver: Udp,
    says: Udp,
    group: SocketAddr,
}

impl Multicast {
    /// Joins `group` on the interface that has the address `interface`.
    ///
    /// # Errors
    /// No such interface, or it carries no multicast.
    pub fn join(group: SocketAddrV4, interface: Ipv4Addr) -> io::Result<Self> {
        let hears = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        hears.set_reuse_address(true)?;
        hears.set_nonblocking(true)?;
        // A socket bound to the group's address does not receive unicast datagrams.
        let at = if cfg!(windows) { Ipv4Addr::UNSPECIFIED } else { *group.ip() };
        hears.bind(&SockAddr::from(SocketAddrV4::new(at, group.port())))?;
        hears.join_multicast_v4(group.ip(), &interface)?;
        #[cfg(target_os = "linux")]
        hears.set_multicast_all_v4(false)?;

        let says = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        says.set_nonblocking(true)?;
        says.set_multicast_if_v4(&interface)?;
        says.set_multicast_loop_v4(true)?;
        says.set_multicast_ttl_v4(1)?;
        says.bind(&SockAddr::from(SocketAddrV4::new(interface, 0)))?;
        Ok(Self {
            receiver: Udp::from_socket(hears, Oversize::Fragment)?,
            says: Udp::from_socket(says, Oversize::Fragment)?,
            group: group.into(),
        })
    }

    /// Joins `group` on the interface of this number, which has the link-local address `address`.
    ///
    /// # Errors
    /// No such interface, or it carries no multicast.
    pub fn join_v6(group: SocketAddrV6, index: u32, address: Ipv6Addr) -> io::Result<Self> {
        let group = SocketAddrV6::new(*group.ip(), group.port(), 0, index);
        let hears = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
        hears.set_only_v6(true)?;
        hears.set_reuse_address(true)?;
        hears.set_nonblocking(true)?;
        let at = if cfg!(windows) { Ipv6Addr::UNSPECIFIED } else { *group.ip() };
        hears.bind(&SockAddr::from(SocketAddrV6::new(at, group.port(), 0, index)))?;
        hears.join_multicast_v6(group.ip(), index)?;

        let says = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
        says.set_only_v6(true)?;
        says.set_nonblocking(true)?;
        says.set_multicast_if_v6(index)?;
        says.set_multicast_loop_v6(true)?;
        says.set_multicast_hops_v6(1)?;
        says.bind(&SockAddr::from(SocketAddrV6::new(address, 0, 0, index)))?;
        Ok(Self {
            receiver: Udp::from_socket(hears, Oversize::Fragment)?,
            says: Udp::from_socket(says, Oversize::Fragment)?,
            group: group.into(),
        })
    }

    /// Registers for readability.
    pub fn register(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        self.receiver.register(poll, token)
    }

    /// Source address of this node's own packets.
    pub fn local(&self) -> SocketAddr {
        self.says.local()
    }

    /// The group; over IPv6 with the number of its interface.
    pub fn group(&self) -> SocketAddr {
        self.group
    }

    /// Sends one frame to the group.
    pub fn send(&mut self, frame: &[u8]) {
        self.says.send(self.group(), frame, None, EcnCapability::NotCapable);
    }
}
