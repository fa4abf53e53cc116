//! [`IcmpProbe`]: what one datagram lets the system learn about an address.
//!
//! Silence has many reasons. The system can report one of them: the machine is there and the port is closed. It learns
//! that by ICMP, and reports it only to a socket that is connected to that address alone.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// One datagram sent to an address, and its result.
#[derive(Debug)]
pub struct IcmpProbe {
    to: SocketAddr,
    /// The connected socket, or the error that the system reported.
    socket: io::Result<UdpSocket>,
}

impl IcmpProbe {
    /// Sends these bytes to `to`.
    #[must_use]
    pub fn send(to: SocketAddr, bytes: &[u8]) -> Self {
        let from: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(from).and_then(|socket| {
            socket.connect(to)?;
            socket.send(bytes)?;
            Ok(socket)
        });
        Self { to, socket }
    }

    /// The destination.
    #[must_use]
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// Takes an ICMP error that has arrived since.
    pub fn poll_error(&mut self) {
        if let Ok(Some(error)) = self.socket.as_ref().map_or(Ok(None), UdpSocket::take_error) {
            self.socket = Err(error);
        }
    }

    /// Why no program answers there, as far as the system knows.
    #[must_use]
    pub fn failure_reason(&self) -> Option<&'static str> {
        match self.socket.as_ref().err()?.kind() {
            io::ErrorKind::ConnectionRefused => Some("nothing listens at that port"),
            io::ErrorKind::NetworkUnreachable => Some("no route to that network"),
            io::ErrorKind::HostUnreachable => Some("no machine at that address"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_closed_port_is_distinguished_from_an_open_one() {
        let open = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let mut there = IcmpProbe::send(open.local_addr().unwrap(), b"knock");
        let mut nowhere = IcmpProbe::send(closed, b"knock");
        let until = Instant::now() + Duration::from_secs(10);
        while nowhere.failure_reason().is_none() && Instant::now() < until {
            nowhere.poll_error();
            there.poll_error();
        }
        assert_eq!(nowhere.failure_reason(), Some("nothing listens at that port"));
        assert_eq!((there.failure_reason(), there.to()), (None, open.local_addr().unwrap()));
    }
}
