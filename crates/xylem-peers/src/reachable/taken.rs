//! [`FetchWays`]: the ways by which a fetch reaches its peers.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use xylem_base::json;
use xylem_forward::FaceId;
use xylem_mgmt::FaceUri;
use xylem_reach::kind::is_global;

use super::peer::FaceAddress;

/// Most peers reported.
const MAX_WAYS: usize = 64;

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayTaken {
    /// Over UDP, directly.
    Direct,
    /// Over UDP, within this machine or a private network.
    Lan,
    /// Within a TCP connection.
    Carried,
    /// Through a relay.
    Relayed,
    /// Over WebSocket without an encrypted link: a browser at the page of `share --web`.
    Web,
    /// Without an encrypted link: behind an NDN forwarder.
    Forwarder,
}

/// The way to one peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerWay {
    /// Its present address.
    pub peer: FaceAddress,
    /// How it is reached.
    pub way: WayTaken,
    /// The relay used now or at first.
    pub relay: Option<SocketAddr>,
    /// Time from the start until the first way stood.
    #[serde(rename = "seconds", serialize_with = "json::seconds")]
    pub after: Duration,
    /// Time from the start until the relay was no longer used.
    #[serde(rename = "direct_seconds", serialize_with = "some_seconds")]
    pub direct_after: Option<Duration>,
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn some_seconds<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}

impl std::fmt::Display for WayTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Lan => "lan",
            Self::Carried => "carried",
            Self::Relayed => "relayed",
            Self::Web => "web",
            Self::Forwarder => "forwarder",
        })
    }
}

impl Serialize for WayTaken {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl WayTaken {
    /// Returns the way to, or from, a peer.
    pub fn to(peer: &FaceAddress) -> Self {
        match peer {
            FaceAddress::Relayed(_) => Self::Relayed,
            FaceAddress::Carried(..) | FaceAddress::Uri(FaceUri::Carried(..)) => Self::Carried,
            FaceAddress::Uri(FaceUri::WebSocketClient(_)) => Self::Web,
            FaceAddress::Link(at) if is_global(at.ip()) => Self::Direct,
            FaceAddress::Link(_) => Self::Lan,
            _ => Self::Forwarder,
        }
    }
}

impl WayTaken {
    /// Returns the way as a part of a sentence.
    pub fn for_people(self) -> &'static str {
        match self {
            Self::Direct => "directly",
            Self::Lan => "over the local network",
            Self::Carried => "over TCP",
            Self::Relayed => "through a relay",
            Self::Web => "over the web page",
            Self::Forwarder => "through a forwarder",
        }
    }
}

/// The ways of one fetch, in the order in which they came to stand.
#[derive(Default)]
pub struct FetchWays(Vec<(FaceId, PeerWay)>);

impl FetchWays {
    /// Adds a peer's face, or replaces the face `given_up` of the same peer by it.
    pub fn came_up(
        &mut self,
        now: Duration,
        face: FaceId,
        peer: &FaceAddress,
        given_up: Option<FaceId>,
    ) {
        if let Some((of, _)) = self.0.iter_mut().rev().find(|(of, _)| Some(*of) == given_up) {
            *of = face;
            return self.moved(now, face, peer);
        }
        let way = WayTaken::to(peer);
        let relay = match peer {
            FaceAddress::Relayed(relay) => Some(*relay),
            _ => None,
        };
        let new = PeerWay { peer: peer.clone(), way, relay, after: now, direct_after: None };
        if self.0.len() < MAX_WAYS {
            self.0.push((face, new));
        }
    }

    /// Records that a peer is now reached in another way.
    pub fn moved(&mut self, now: Duration, face: FaceId, to: &FaceAddress) {
        let Some((_, way)) = self.0.iter_mut().rev().find(|(of, _)| *of == face) else { return };
        (way.peer, way.way) = (to.clone(), WayTaken::to(to));
        match to {
            FaceAddress::Relayed(relay) => (way.relay, way.direct_after) = (Some(*relay), None),
            _ if way.relay.is_some() => way.direct_after = Some(now),
            _ => {}
        }
    }

    /// Returns all ways.
    pub fn all(&self) -> Vec<PeerWay> {
        self.0.iter().map(|(_, way)| way.clone()).collect()
    }
}

/// In words: `192.0.2.1:7348: through relay 203.0.113.1:7348, then directly after 0.31 s`.
impl std::fmt::Display for PeerWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { peer, way, relay, after, direct_after } = self;
        let how = way.for_people();
        let seconds = after.as_secs_f64();
        match (relay, direct_after) {
            (Some(relay), Some(then)) => {
                let then = then.as_secs_f64();
                write!(
                    f,
                    "{peer}: through relay {relay} after {seconds:.2} s, then {how} after {then:.2} s"
                )
            }
            (Some(relay), None) => write!(f, "relay {relay}: through it, after {seconds:.2} s"),
            _ => write!(f, "{peer}: {how}, after {seconds:.2} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_way_through_a_relay_becomes_a_direct_one() {
        let (mut ways, face) = (FetchWays::default(), FaceId(300));
        let relay = FaceAddress::Relayed(at("203.0.113.1:7348"));
        ways.came_up(Duration::from_millis(120), face, &relay, None);
        let through = "relay 203.0.113.1:7348: through it, after 0.12 s";
        assert_eq!(ways.all()[0].to_string(), through);
        ways.moved(Duration::from_millis(310), face, &FaceAddress::Link(at("198.51.100.7:7348")));
        let [way] = &ways.all()[..] else { panic!("one peer, one way") };
        assert_eq!(
            (way.way, way.direct_after),
            (WayTaken::Direct, Some(Duration::from_millis(310)))
        );
        let then = "198.51.100.7:7348: through relay 203.0.113.1:7348 after 0.12 s, then directly after 0.31 s";
        assert_eq!(way.to_string(), then);
        ways.moved(Duration::from_secs(2), face, &relay);
        assert_eq!(ways.all()[0].to_string(), through);
        // A second link to the same node counts as the same way.
        let (own, to) = (FaceId(301), FaceAddress::Link(at("198.51.100.7:7348")));
        ways.came_up(Duration::from_millis(310), own, &to, Some(face));
        assert_eq!(ways.all().iter().map(ToString::to_string).collect::<Vec<_>>(), [then]);
    }

    #[test]
    fn every_address_maps_to_a_way() {
        let way = |text: &str| WayTaken::to(&FaceAddress::Link(at(text)));
        assert_eq!(way("198.51.100.7:1"), WayTaken::Direct);
        for near in ["127.0.0.1:1", "192.168.1.9:1", "[fe80::1]:1", "[fd00::1]:1"] {
            assert_eq!(way(near), WayTaken::Lan, "{near}");
        }
        assert_eq!(WayTaken::to(&FaceAddress::Udp(at("198.51.100.7:1"))), WayTaken::Forwarder);
        for (uri, way) in [
            ("wsclient://198.51.100.7:1", WayTaken::Web),
            ("xylem+tls://198.51.100.7:1", WayTaken::Carried),
            ("udp4://198.51.100.7:1", WayTaken::Forwarder),
        ] {
            assert_eq!(WayTaken::to(&FaceAddress::Uri(uri.parse().unwrap())), way, "{uri}");
        }
    }
}
