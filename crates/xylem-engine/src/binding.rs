//! Binding the sockets of a program.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use xylem_library::reachable::{FaceAddress, LINK_PORT, PeerAddress};
use xylem_sockets::Site;

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
    let any = Ipv4Addr::UNSPECIFIED;
    let mut ports = known.into_iter().chain([LINK_PORT, 0]);
    let first = loop {
        let v4 = SocketAddr::from((any, ports.next().unwrap_or(0)));
        match engine.bind_link(v4) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && v4.port() != 0 => {}
            bound => break bound.map_err(EngineError::listen(v4))?,
        }
    };
    // A machine without IPv6 serves over IPv4 alone.
    let second = engine.bind_link(SocketAddr::from((Ipv6Addr::UNSPECIFIED, first.port())));
    Ok([Some(first), second.ok()].into_iter().flatten().collect())
}

/// Binds each address for plain NDN over UDP and over TCP, on the same port.
pub fn bind_plain(
    engine: &mut Engine,
    asked: &[SocketAddr],
) -> Result<Vec<SocketAddr>, EngineError> {
    let mut bound = Vec::new();
    for &address in asked {
        let tcp = engine.bind_tcp(address).map_err(EngineError::listen(address))?;
        engine.bind_udp(tcp).map_err(EngineError::listen(tcp))?;
        bound.push(tcp);
    }
    Ok(bound)
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
