//! Host name lookup for addresses that users name.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::OnceLock;

use xylem_library::reachable::{HostPort, PeerAddress, PeerUri, nat64};

use crate::addresses::routed;

/// Most addresses of one host name that are used.
const MAX_ADDRESSES: usize = 4;

/// Looks up a host and port.
///
/// # Errors
/// Why there is no address.
pub fn look_up_place(place: &HostPort) -> Result<Vec<SocketAddr>, String> {
    match place.host.parse::<IpAddr>() {
        Ok(ip) => Ok(vec![SocketAddr::new(ip, place.port)]),
        Err(_) => look_up(&place.host, place.port),
    }
}

/// At least one address of a host, or why there is none.
pub fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let mut found: Vec<SocketAddr> = Vec::new();
    let looked_up = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot look up {host}: {error}"))?;
    for address in looked_up.take(4 * MAX_ADDRESSES) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    // IPv4 first: a name such as `localhost` often has an IPv6 address on which no program listens.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.truncate(MAX_ADDRESSES);
    if found.is_empty() {
        return Err(format!("{host} has no address"));
    }
    Ok(found)
}

/// The addresses to dial for an address. From an IPv6-only network an IPv4 address is reached through the network's
/// NAT64, if it has one; the NAT64 prefix is looked up once in a run.
pub fn ways_to(address: SocketAddr) -> Vec<SocketAddr> {
    static PREFIX: OnceLock<Option<Ipv6Addr>> = OnceLock::new();
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

/// Resolves a URI to one [`PeerAddress`] for each address of the host.
///
/// # Errors
/// Why there is no address.
pub fn resolve(uri: &PeerUri) -> Result<Vec<PeerAddress>, String> {
    uri.resolve(&look_up)
}
