//! Looking host names up: where what people name leads.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use xylem_library::reachable::{HostPort, Peer, PeerUri};

/// At most this many addresses of one host name are used.
const MAX_ADDRESSES: usize = 4;

/// Looks a place up.
///
/// # Errors
/// Why there is not one address.
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
    // IPv4 first: a name such as `localhost` often has an IPv6 address that nobody listens on.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.truncate(MAX_ADDRESSES);
    if found.is_empty() {
        return Err(format!("{host} has no address"));
    }
    Ok(found)
}

/// One [`Peer`] for each address of the host.
///
/// # Errors
/// Why there is none.
pub fn resolve(uri: &PeerUri) -> Result<Vec<Peer>, String> {
    uri.resolve(&look_up)
}
