//! What a port mapping is: options, protocols, events. [`crate::PortMap`] makes it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroU16;
use std::time::Duration;

use crate::PortMapError;

/// Options of a mapping.
#[derive(Clone, Copy, Debug)]
pub struct PortMapOptions {
    /// The router ([`crate::default_gateway`]); without one only UPnP is tried.
    pub gateway: Option<Ipv4Addr>,
    /// This machine's address on the router's network.
    pub own: Ipv4Addr,
    /// The UDP port; the same external port is requested.
    pub port: NonZeroU16,
    /// Lifetime of a mapping unless renewed.
    pub life: Duration,
}

/// Protocol of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 6887.
    Pcp,
    /// RFC 6886.
    NatPmp,
    /// Internet Gateway Device.
    Upnp,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pcp => "PCP",
            Self::NatPmp => "NAT-PMP",
            Self::Upnp => "UPnP",
        })
    }
}

/// A port mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterMapping {
    /// The external address, as the router reported it.
    pub external: SocketAddrV4,
    /// The protocol.
    pub by: Protocol,
}

/// An event of a mapping.
#[derive(Debug)]
pub enum MapEvent {
    /// The port is mapped, or is now mapped to another address.
    Mapped(RouterMapping),
    /// The mapping is lost.
    Lost,
    /// No router maps the port, for this reason; it is tried again later.
    Failed(PortMapError),
}
