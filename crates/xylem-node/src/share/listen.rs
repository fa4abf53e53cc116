//! Binding the sockets of a share.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ShareError;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::peer::{FaceAddress, Peer};
use crate::uri::LINK_PORT;

pub(crate) fn bind_links(
    engine: &mut Engine,
    asked: &[Peer],
) -> Result<Vec<SocketAddr>, EngineError> {
    if !asked.is_empty() {
        let link = |peer: &Peer| match peer {
            Peer::Link { address, .. } => Some(*address),
            _ => None,
        };
        return (asked.iter().filter_map(link))
            .map(|a| engine.bind_link(a).map_err(EngineError::listen(a)))
            .collect();
    }
    let mut bind = |address: SocketAddr| match engine.bind_link(address) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            engine.bind_link(SocketAddr::new(address.ip(), 0))
        }
        other => other,
    };
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, LINK_PORT));
    let first = bind(v4).map_err(EngineError::listen(v4))?;
    // A machine without IPv6 serves over IPv4 alone.
    let second = bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, first.port())));
    Ok([Some(first), second.ok()].into_iter().flatten().collect())
}

/// Face URIs of the carriers among `asked`, once they are bound.
pub(super) fn bind_carriers(
    engine: &mut Engine,
    asked: &[Peer],
) -> Result<Vec<FaceAddress>, ShareError> {
    let carried = |peer: &&Peer| !matches!(peer, Peer::Link { .. });
    asked
        .iter()
        .filter(carried)
        .map(|peer| match peer {
            Peer::Carried { address, .. } => {
                Ok(engine.listen(peer).map_err(EngineError::listen(*address))?)
            }
            other => Err(ShareError::NotEncrypted(other.into())),
        })
        .collect()
}

/// Each address serves plain NDN over UDP and over TCP, on the same port.
pub(super) fn bind_plain(
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
