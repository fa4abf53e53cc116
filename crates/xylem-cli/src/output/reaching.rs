//! Messages about peers that do not answer, and about addresses at which a share can be reached.

use super::codes;
use super::text::clean;
use xylem_node::{Event, FaceAddress, ReachStatus, ReachWay, TriedPeer};
use xylem_object::ticket::Address;

/// Addresses in the form for people.
pub(super) fn list(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether only this machine can reach these addresses.
pub(super) fn is_here_alone(addresses: &[Address]) -> bool {
    let here = |address: &Address| matches!(address, Address::Ip(at) if at.ip().is_loopback());
    !addresses.is_empty() && addresses.iter().all(here)
}

/// Seconds after which hints are shown: even a distant peer has answered by then.
const HINTS_AFTER: f64 = 2.0;

/// One line about the peers that a fetch tries to reach; `None` if it is too early for one.
pub(super) fn unanswered_line(peers: &[TriedPeer], seconds: f64) -> Option<String> {
    let names = |connected: bool| {
        let of_these = peers.iter().filter(|tried| tried.connected == connected);
        of_these.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let connected = names(true);
    match (seconds < HINTS_AFTER, connected.is_empty()) {
        (true, true) => Some(format!("No answer yet from {}; still trying", names(false))),
        (true, false) => None,
        (false, true) => Some(advice(peers)),
        (false, false) => Some(format!("{connected} has not answered yet; still waiting")),
    }
}

/// Advice about a sharer that does not answer; it depends on whether the ticket names a relay.
fn advice(peers: &[TriedPeer]) -> String {
    let relayed = |tried: &&TriedPeer| matches!(tried.peer, FaceAddress::Relayed(_));
    match peers.iter().find(relayed) {
        Some(relay) => format!(
            "Still no answer, neither from the sharer nor through {relay}. Is `xylem share` running there? With -v \
             it reports whether it is registered at the relay."
        ),
        None => "Still no answer. Is `xylem share` running there? Does a firewall let its UDP port through? Behind a \
                 router, it has to be shared with --relay; or the port is forwarded, and `share --announce \
                 HOST:PORT` puts the outside address into the ticket."
            .to_owned(),
    }
}

/// How a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Note,
    /// Only with -v.
    Detail,
    Warning,
}

/// Whether peers that use no relay can connect by this way.
pub(super) fn lets_strangers_in(way: ReachWay) -> bool {
    matches!(way, ReachWay::Direct | ReachWay::Mapped | ReachWay::Announced)
}

/// The line for an event about reaching peers. `way` is how this machine can be reached, as reported so far.
pub(super) fn line_for(event: &Event, way: Option<ReachWay>) -> Option<(LineKind, String)> {
    let (how, line) = match event {
        Event::Reach(ReachStatus { way, says, .. }) => {
            let how = match way {
                ReachWay::Here => LineKind::Detail,
                _ => LineKind::Note,
            };
            (how, format!("Reach: {says}"))
        }
        Event::Mapped { address, by } => {
            (LineKind::Note, format!("The router forwards {address} to this machine ({by})"))
        }
        Event::TicketInDht => (
            LineKind::Note,
            "No address or relay of the ticket answers: asking the BitTorrent DHT, whose nodes see this machine's address; \
             --no-dht turns this off"
                .to_owned(),
        ),
        Event::Volunteers { relays } => (LineKind::Note, codes::volunteers(relays)),
        Event::RootInDht => (
            LineKind::Note,
            "No sharer that the DHT lists answers: it lists this machine, too, from now on, so that the NATs between the two \
             open; --shape high turns this off"
                .to_owned(),
        ),
        Event::Announced { root, publisher, name } => {
            let named = |name: &String| format!(", or: xylem get '@{publisher}/{name}'");
            let named = name.as_ref().map(named).unwrap_or_default();
            let whose = match way {
                Some(way) if lets_strangers_in(way) => "Public; everybody can run",
                Some(_) => {
                    "Listed in the DHT, but by the hash machines elsewhere cannot connect (forward the UDP port; by the \
                     ticket, see Reach). On networks that reach this machine"
                }
                None => "Listed in the DHT; whoever reaches this machine can run",
            };
            (LineKind::Note, format!("{whose}: xylem get b3:{root}{named}"))
        }
        Event::Moved { peer, to } => {
            let (peer, to) = (peer.for_people(), to.for_people());
            (LineKind::Detail, format!("peer {peer} is reached at {to} from now on"))
        }
        Event::Relay { relay, registered: true, over_tcp, .. } => {
            let way = if *over_tcp { ", over TCP because UDP gets no answer" } else { "" };
            (LineKind::Detail, format!("registered at relay {relay}{way}"))
        }
        Event::Relay { relay, why, .. } => {
            let why = why.as_deref().unwrap_or("it does not answer");
            (LineKind::Warning, format!("relay {relay} cannot be used for now: {why}"))
        }
        Event::Unanswered { peers, seconds } => (LineKind::Note, unanswered_line(peers, *seconds)?),
        Event::OtherKey { peer, key } => {
            let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            (
                LineKind::Detail,
                format!("peer {} has a key that is not the publisher's: {key}", peer.for_people()),
            )
        }
        Event::PeerConnected { peer } => {
            (LineKind::Detail, format!("connected to peer {}", peer.for_people()))
        }
        Event::PeerGone { peer, why } => {
            (LineKind::Detail, format!("peer {} disconnected: {why}", peer.for_people()))
        }
        Event::Shaped { peer, level, wanted } if level < wanted => {
            let peer = peer.for_people();
            (LineKind::Warning, format!("peer {peer} agrees to shaping {level}, not {wanted}"))
        }
        Event::Holding { seconds } => (
            LineKind::Note,
            format!(
                "all of it is here; the link stays open for {:.0} s so that its duration does not reveal the \
                 size (Ctrl-C ends it)",
                seconds.ceil()
            ),
        ),
        Event::Shaped { peer, level, .. } => {
            (LineKind::Detail, format!("shaping towards peer {}: {level}", peer.for_people()))
        }
        other => (LineKind::Detail, format!("{other:?}")),
    };
    Some((how, clean(&line).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn silent_peers_are_reported_and_then_explained() {
        let tried = |port, connected, why: Option<&str>| TriedPeer {
            peer: SocketAddr::from(([192, 0, 2, 7], port)).into(),
            connected,
            why: why.map(str::to_owned),
        };
        let silent = [tried(1, false, Some("nothing listens at that port")), tried(2, false, None)];
        let line = unanswered_line(&silent, 0.5).unwrap();
        let both = "192.0.2.7:1 (nothing listens at that port), 192.0.2.7:2;";
        assert!(line.contains(both), "{line}");
        let hint = unanswered_line(&silent, 4.0).unwrap();
        assert!(hint.contains("UDP port") && hint.contains("--announce"), "{hint}");
        assert!(hint.contains("shared with --relay"), "{hint}");
        let relay = TriedPeer {
            peer: FaceAddress::Relayed("192.0.2.9:7348".parse().unwrap()),
            connected: false,
            why: Some("nobody is there".to_owned()),
        };
        let hint = unanswered_line(&[tried(2, false, None), relay], 4.0).unwrap();
        assert!(hint.contains("through relay 192.0.2.9:7348 (nobody is there)"), "{hint}");
        assert!(!hint.contains("--announce") && !hint.contains("xylem+relay"), "{hint}");
        let connected = [tried(1, true, None), tried(2, false, None)];
        assert_eq!(unanswered_line(&connected, 0.5), None);
        let line = unanswered_line(&connected, 4.0).unwrap();
        assert!(line.starts_with("192.0.2.7:1 has not"), "{line}");
    }

    /// A public share promises access to everybody only if strangers can reach it.
    #[test]
    fn public_access_is_promised_only_if_strangers_get_in() {
        let (root, publisher) = (xylem_hash::hash(b"x"), xylem_object::PublisherId([1; 32]));
        let listed = Event::Announced { root, publisher, name: None };
        for (way, everybody) in [
            (Some(ReachWay::Direct), true),
            (Some(ReachWay::Mapped), true),
            (Some(ReachWay::Announced), true),
            (Some(ReachWay::Punched), false),
            (Some(ReachWay::PunchedOrRelayed), false),
            (Some(ReachWay::Relayed), false),
            (Some(ReachWay::Lan), false),
            (None, false),
        ] {
            let (_, line) = line_for(&listed, way).unwrap();
            assert_eq!(line.contains("everybody can run"), everybody, "{way:?}: {line}");
            assert!(line.contains("xylem get b3:"), "{line}");
        }
    }
}
