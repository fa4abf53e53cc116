//! Resolves the hosts that tickets name.

use std::net::SocketAddr;

use xylem_engine::{look_up, ways_to};
use xylem_object::ticket::Address;
use xylem_peers::reachable::HostLookupError;

/// Resolves a ticket's addresses, in their order. Also returns why some of them resolve to nothing.
pub(crate) fn resolved(addresses: &[Address]) -> (Vec<SocketAddr>, Vec<HostLookupError>) {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            Address::Ip(address) => found.extend(ways_to(*address)),
            Address::Host(name, port) => match look_up(name.as_str(), *port) {
                Ok(all) => {
                    for way in all.into_iter().flat_map(ways_to) {
                        // On a network with NAT64, the name server may return the same address.
                        if !found.contains(&way) {
                            found.push(way);
                        }
                    }
                }
                Err(why) => failed.push(why),
            },
        }
    }
    (found, failed)
}
