//! Host name lookup for addresses that users name.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::sync::OnceLock;

use xylem_peers::reachable::{
    HostLookupError, HostPort, PeerAddress, PeerUri, ResolveError, nat64,
};

use crate::addresses::{cables, routed};

/// Most addresses of one host name that are used.
const MAX_ADDRESSES: usize = 4;

/// Looks up a host and port.
///
/// # Errors
/// Why there is no address.
pub fn look_up_place(place: &HostPort) -> Result<Vec<SocketAddr>, HostLookupError> {
    match place.host.parse::<IpAddr>() {
        Ok(ip) => Ok(vec![SocketAddr::new(ip, place.port)]),
        Err(_) => look_up(&place.host, place.port),
    }
}

/// At least one address of a host.
///
/// # Errors
/// Why there is none.
pub fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, HostLookupError> {
    let mut found: Vec<SocketAddr> = Vec::new();
    let looked_up = (host, port)
        .to_socket_addrs()
        .map_err(|why| HostLookupError::Failed { host: host.to_owned(), why })?;
    for address in looked_up.take(4 * MAX_ADDRESSES) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    // IPv4 first: a name such as `localhost` often has an IPv6 address on which no program listens.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.truncate(MAX_ADDRESSES);
    if found.is_empty() {
        return Err(HostLookupError::NoAddress(host.to_owned()));
    }
    Ok(found)
}

/// The addresses to dial for an address. From an IPv6-only network an IPv4 address is reached through the network's
/// NAT64, if it has one; the NAT64 prefix is looked up once in a run. A link-local IPv6 address without an interface, as
/// another machine names it, is one over each interface.
pub fn ways_to(address: SocketAddr) -> Vec<SocketAddr> {
    static PREFIX: OnceLock<Option<Ipv6Addr>> = OnceLock::new();
    if let SocketAddr::V6(at) = address
        && at.ip().is_unicast_link_local()
        && at.scope_id() == 0
    {
        return over_each(at, &cables());
    }
    let IpAddr::V4(wanted) = address.ip() else { return vec![address] };
    let own = routed();
    if wanted.is_loopback() || own.iter().any(IpAddr::is_ipv4) || own.is_empty() {
        return vec![address];
    }
    let ask = || {
        let found = (nat64::NAME, 0).to_socket_addrs().ok()?;
        let mut v6 = found.filter_map(|at| match at.ip() {
            IpAddr::V6(ip) => Some(ip),
            IpAddr::V4(_) => None,
        });
        v6.find(|ip| nat64::through(*ip, wanted).is_some())
    };
    let through = PREFIX.get_or_init(ask).and_then(|known| nat64::through(known, wanted));
    let through = through.map(|ip| SocketAddr::new(ip.into(), address.port()));
    through.into_iter().chain([address]).collect()
}

/// The address over each of these interfaces; without interfaces the address, which can't be dialled.
fn over_each(at: SocketAddrV6, interfaces: &[u32]) -> Vec<SocketAddr> {
    let over = |index: &u32| SocketAddrV6::new(*at.ip(), at.port(), 0, *index).into();
    let found: Vec<SocketAddr> = interfaces.iter().map(over).collect();
    if found.is_empty() { vec![at.into()] } else { found }
}

/// Resolves a URI to one [`PeerAddress`] for each address of the host.
///
/// # Errors
/// Why there is no address.
pub fn resolve(uri: &PeerUri) -> Result<Vec<PeerAddress>, ResolveError> {
    uri.resolve(&look_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_is_dialled_over_each_interface() {
        let at = SocketAddrV6::new("fe80::1".parse().unwrap(), 7348, 0, 0);
        let text = |interfaces: &[u32]| {
            over_each(at, interfaces).iter().map(SocketAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(text(&[2, 9]), ["[fe80::1%2]:7348", "[fe80::1%9]:7348"]);
        assert_eq!(text(&[]), ["[fe80::1]:7348"]);
        let named = SocketAddrV6::new(*at.ip(), 7348, 0, 5).into();
        assert_eq!(ways_to(named), [named]);
    }
}
