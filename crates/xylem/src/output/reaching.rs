//! What a person is told of peers that do not answer, and of addresses where a share can be reached.

use std::net::SocketAddr;
use xylem_hash::Hash;
use xylem_node::{FaceAddress, Tried};
use xylem_object::PublisherId;
use xylem_object::ticket::Address;

/// Addresses as people read them.
pub(super) fn list(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether nobody but this machine gets anywhere with these addresses.
pub(super) fn is_here_alone(addresses: &[Address]) -> bool {
    let here = |address: &Address| matches!(address, Address::Ip(at) if at.ip().is_loopback());
    !addresses.is_empty() && addresses.iter().all(here)
}

/// That a link goes on by another way.
pub(super) fn moved(peer: &FaceAddress, to: &FaceAddress) -> String {
    format!("peer {peer} is reached at {to} from now on")
}

/// That a relay has us, or in a warning why not.
pub(super) fn relay(
    relay: SocketAddr,
    over_tcp: bool,
    why: Option<String>,
) -> Result<String, String> {
    let way = if over_tcp { ", over TCP as UDP is silent" } else { "" };
    match why {
        None => Ok(format!("relay {relay} has us{way}")),
        Some(why) => Err(format!("relay {relay} is of no use for now: {why}")),
    }
}

/// Seconds after which hints are worth their lines: a peer far away has answered by then.
const HINTS_AFTER: f64 = 2.0;

/// One line about peers that a fetch tries to reach; `None` where it is too early for one.
pub(super) fn unanswered(peers: &[Tried], seconds: f64) -> Option<String> {
    let names = |connected: bool| {
        let of_these = peers.iter().filter(|tried| tried.connected == connected);
        of_these.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let connected = names(true);
    match (seconds < HINTS_AFTER, connected.is_empty()) {
        (true, true) => Some(format!("No answer yet from {}; still trying", names(false))),
        (true, false) => None,
        (false, true) => Some(
            "Still no answer. Is `xylem share` running there? Does a firewall let its UDP port through? \
             Behind a router the port has to be forwarded, and `share --announce HOST:PORT` puts the \
             outside address into the ticket."
                .to_owned(),
        ),
        (false, false) => Some(format!("{connected} has not answered yet; still waiting")),
    }
}

/// That the router forwards a port.
pub(super) fn mapped(address: SocketAddr, by: &str) -> String {
    format!("The router forwards {address} to this machine ({by})")
}

/// How everybody finds what the DHT lists.
pub(super) fn announced(root: &Hash, publisher: &PublisherId, name: Option<&str>) -> String {
    let named = name.map(|name| format!(", or: xylem get '@{publisher}/{name}'"));
    format!("Public; everybody can run: xylem get b3:{root}{}", named.unwrap_or_default())
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_and_then_explained() {
        let tried = |port, connected, why: Option<&str>| Tried {
            peer: SocketAddr::from(([192, 0, 2, 7], port)).into(),
            connected,
            why: why.map(str::to_owned),
        };
        let silent = [tried(1, false, Some("nothing listens at that port")), tried(2, false, None)];
        let line = unanswered(&silent, 0.5).unwrap();
        let both = "192.0.2.7:1 (nothing listens at that port), 192.0.2.7:2;";
        assert!(line.contains(both), "{line}");
        let hint = unanswered(&silent, 4.0).unwrap();
        assert!(hint.contains("UDP port") && hint.contains("--announce"), "{hint}");
        let connected = [tried(1, true, None), tried(2, false, None)];
        assert_eq!(unanswered(&connected, 0.5), None);
        let line = unanswered(&connected, 4.0).unwrap();
        assert!(line.starts_with("192.0.2.7:1 has not"), "{line}");
    }
}
