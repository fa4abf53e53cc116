//! Binding the sockets of a program.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use xylem_peers::reachable::{FaceAddress, LINK_PORT, PeerAddress};
use xylem_sockets::{Oversize, Site, Udp, listen_tcp};

use crate::listening::FaceListener;
use crate::{Engine, EngineError};

/// Binds the sockets for encrypted links: at the `asked` addresses, or else on all interfaces. The port is the `known`
/// one, the default one or a free one, in that order. The first asked address without a port also tries the `known`
/// port, so that earlier addresses of this node stay valid.
pub fn bind_links(
    engine: &mut Engine,
    asked: &[PeerAddress],
    known: Option<u16>,
) -> Result<Vec<SocketAddr>, EngineError> {
    if !asked.is_empty() {
        let link = |peer: &PeerAddress| match peer {
            PeerAddress::Link { address, .. } => Some(*address),
            _ => None,
        };
        // An asked address that names the port has precedence.
        let free = |port: &u16| asked.iter().filter_map(link).all(|at| at.port() != *port);
        let mut known = known.filter(free);
        let mut bind = |at: SocketAddr| {
            let again = known.take().filter(|_| at.port() == 0);
            let bound = again.map(|port| engine.bind_link(SocketAddr::new(at.ip(), port)));
            bound.and_then(Result::ok).map_or_else(|| engine.bind_link(at), Ok)
        };
        return (asked.iter().filter_map(link))
            .map(|at| bind(at).map_err(EngineError::listen(at)))
            .collect();
    }
    let udp = |at: SocketAddr| Udp::bind(at, Oversize::Lose);
    let v6 = |v4: SocketAddr| SocketAddr::from((Ipv6Addr::UNSPECIFIED, v4.port()));
    for port in known.into_iter().chain([LINK_PORT]) {
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        match engine.bind_link(v4) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            // A machine without IPv6 serves over IPv4 alone.
            bound => {
                let first = bound.map_err(EngineError::listen(v4))?;
                return Ok([Some(first), engine.bind_link(v6(first)).ok()]
                    .into_iter()
                    .flatten()
                    .collect());
            }
        }
    }
    let free = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let second = |v4: SocketAddr| match udp(v6(v4)) {
        Err(e) if e.kind() != io::ErrorKind::AddrInUse => Ok(None),
        bound => bound.map(Some),
    };
    let (first, second) =
        on_one_port(free, udp, Udp::local, second).map_err(EngineError::listen(free))?;
    (std::iter::once(first).chain(second))
        .map(|socket| engine.add_link_socket(socket).map_err(EngineError::listen(free)))
        .collect()
}

/// Has links dialled from this UDP port, if one is given. Another one serves if a program has taken it meanwhile.
pub fn dial_from(engine: &mut Engine, port: Option<u16>) {
    for ip in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
        let _ = port.map(|port| engine.bind_link((ip, port).into()));
    }
}

/// Binds each address for plain NDN over UDP and over TCP, on the same port.
pub fn bind_plain(
    engine: &mut Engine,
    asked: &[SocketAddr],
) -> Result<Vec<SocketAddr>, EngineError> {
    let mut bind = |&address: &SocketAddr| {
        let udp = |at: SocketAddr| Udp::bind(at, Oversize::Fragment);
        let (udp, tcp) = on_one_port(address, udp, Udp::local, listen_tcp)?;
        engine.add_listener(tcp, FaceListener::Tcp)?;
        engine.add_udp_socket(udp)
    };
    asked.iter().map(|at| bind(at).map_err(EngineError::listen(*at))).collect()
}

/// Attempts to find a port that is free for both of two sockets.
const PORT_ATTEMPTS: usize = 64;

/// Binds the `first` socket to `address`, and the `second` one to the address that the first one has. Where `address`
/// leaves the port to the system, a port that is taken for the second socket is given back, and another one is tried.
fn on_one_port<First, Second>(
    address: SocketAddr,
    first: impl Fn(SocketAddr) -> io::Result<First>,
    local: impl Fn(&First) -> SocketAddr,
    second: impl Fn(SocketAddr) -> io::Result<Second>,
) -> io::Result<(First, Second)> {
    let mut attempts = if address.port() == 0 { PORT_ATTEMPTS } else { 1 };
    loop {
        let bound = first(address)?;
        attempts -= 1;
        match second(local(&bound)) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && attempts > 0 => {}
            other => return other.map(|second| (bound, second)),
        }
    }
}

/// Binds the carriers among `asked`; returns their addresses.
pub fn bind_carriers(
    engine: &mut Engine,
    asked: &[PeerAddress],
) -> Result<Vec<FaceAddress>, EngineError> {
    let carried = |peer: &&PeerAddress| !matches!(peer, PeerAddress::Link { .. });
    let bind = |peer: &PeerAddress| match peer {
        PeerAddress::Carried { address, .. } => {
            engine.listen(peer).map_err(EngineError::listen(*address))
        }
        other => Err(EngineError::NotEncrypted(other.into())),
    };
    asked.iter().filter(carried).map(bind).collect()
}

/// Binds each address for a site's pages, and for plain NDN to those pages that the site lets in.
pub fn bind_sites(
    engine: &mut Engine,
    asked: &[SocketAddr],
    site: &Arc<Site>,
) -> Result<Vec<SocketAddr>, EngineError> {
    let bind = |&address: &SocketAddr| {
        engine.bind_site(address, Arc::clone(site)).map_err(EngineError::listen(address))
    };
    asked.iter().map(bind).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    fn local(listener: &TcpListener) -> SocketAddr {
        listener.local_addr().unwrap()
    }

    /// The system chooses a port for one protocol without regard to the other: with many programs that use UDP, every so
    /// often a share could not begin.
    #[test]
    fn a_free_port_is_one_that_is_free_for_both_sockets() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let calls = Cell::new(0);
        let first = |at: SocketAddr| {
            calls.set(calls.get() + 1);
            let at = if calls.get() == 1 { taken.local_addr()? } else { at };
            TcpListener::bind(at)
        };
        let free = "127.0.0.1:0".parse().unwrap();
        let (tcp, udp) = on_one_port(free, first, local, UdpSocket::bind).unwrap();
        assert!(calls.get() >= 2);
        assert_eq!(local(&tcp), udp.local_addr().unwrap());
    }

    #[test]
    fn a_port_that_was_asked_for_is_that_port_or_an_error() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        let bound = on_one_port(at, TcpListener::bind, local, UdpSocket::bind);
        assert_eq!(bound.map(|_| ()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
