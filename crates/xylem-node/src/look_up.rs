//! Looking host names up: where what people and tickets name leads.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use xylem_library::reachable::{HostPort, Peer, PeerUri};
use xylem_object::ticket::Address;

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

/// Where a ticket's addresses lead, in their order; and why some of them lead nowhere.
pub(crate) fn resolved(addresses: &[Address]) -> (Vec<SocketAddr>, Vec<String>) {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            Address::Ip(address) => found.push(*address),
            Address::Host(name, port) => match look_up(name.as_str(), *port) {
                Ok(all) => found.extend(all),
                Err(why) => failed.push(why),
            },
        }
    }
    (found, failed)
}

/// At least one address of a host, or why there is none.
pub(crate) fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
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
