//! [`RelayConnections`]: the state of an engine's relays, of the peers at them, and of links that look for a direct way.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use mio::Token;
use xylem_forward::FaceId;
use xylem_link::{LinkId, NatMapping, PeerKey, StreamId};
use xylem_peers::reachable::PeerAddress;
use xylem_reach::relay::{
    CircuitTag, ConnectTarget, DatagramKind, HEADER, RelayClient, TeamToken, VouchedName,
};
use xylem_sockets::Udp;

use crate::Meeting;

/// Most relays of one engine, peers that act as relays included.
pub(crate) const MAX_RELAYS: usize = 64;

/// The relays of an engine, and its hole punching.
pub(crate) struct RelayConnections {
    /// The prefix of synthetic addresses of peers at relays. The last byte of the carriers' prefix is one lower, that
    /// of the sockets' prefix one higher.
    pub(crate) prefix: [u8; 6],
    pub(crate) relays: Vec<UsedRelay>,
    pub(crate) punching: HolePunching,
    /// Source addresses of relays' datagrams: the relay, and whether it is its second port.
    pub(crate) sources: Vec<(SocketAddr, usize, bool)>,
    /// Receives relays that another thread adds.
    pub(crate) added_relays: Option<Receiver<RelayUse>>,
    /// Buffer for datagrams with their headers, kept for its allocation.
    pub(crate) headed: Vec<u8>,
}

impl RelayConnections {
    /// Makes an empty state; `random` is the one of the carriers' synthetic addresses.
    pub(crate) fn new(random: [u8; 5]) -> Self {
        let [a, b, c, d, e] = random;
        Self {
            prefix: [0xfd, a, b, c, d, e.wrapping_add(1)],
            relays: Vec::new(),
            punching: HolePunching::default(),
            sources: Vec::new(),
            added_relays: None,
            headed: Vec::new(),
        }
    }

    /// The prefix of synthetic addresses of peers at relays.
    pub(crate) fn relay_prefix(&self) -> [u8; 6] {
        self.prefix
    }

    /// The prefix of synthetic addresses that stand for an extra socket.
    pub(crate) fn socket_prefix(&self) -> [u8; 6] {
        let [a, b, c, d, e, f] = self.prefix;
        [a, b, c, d, e, f.wrapping_add(1)]
    }

    /// Returns whether an address is one of these synthetic ones. No such address appears on a network.
    pub(crate) fn is_synthetic(&self, address: SocketAddr) -> bool {
        let IpAddr::V6(ip) = address.ip() else { return false };
        let octets = ip.octets();
        octets[..6] == self.prefix || octets[..6] == self.socket_prefix()
    }

    /// The synthetic address of a peer at a relay.
    pub(crate) fn address(&self, relay: usize, tag: CircuitTag) -> SocketAddr {
        let mut octets = [0; 16];
        octets[..6].copy_from_slice(&self.prefix);
        octets[7] = u8::try_from(relay).unwrap_or(u8::MAX);
        octets[12..].copy_from_slice(&tag.number().to_be_bytes());
        SocketAddr::from((Ipv6Addr::from(octets), 1))
    }

    /// The relay and the peer of a synthetic address.
    pub(crate) fn peer_at(&self, address: SocketAddr) -> Option<(usize, CircuitTag)> {
        let IpAddr::V6(ip) = address.ip() else { return None };
        let octets = ip.octets();
        if octets[..6] != self.prefix {
            return None;
        }
        let tag = CircuitTag::new(u32::from_be_bytes(*octets.last_chunk::<4>()?))?;
        let relay = usize::from(octets[7]);
        (relay < self.relays.len()).then_some((relay, tag))
    }

    /// The relay of a synthetic address, as shown to users.
    pub(crate) fn relay_at(&self, address: SocketAddr) -> Option<SocketAddr> {
        let (relay, _) = self.peer_at(address)?;
        Some(self.relays[relay].display_address())
    }

    /// Takes a datagram from `from`; returns the datagram for the endpoint and its source, if there is one.
    #[inline]
    pub(crate) fn take_in(
        &mut self,
        now: Duration,
        from: SocketAddr,
        datagram: BytesMut,
    ) -> Option<(SocketAddr, BytesMut)> {
        if self.sources.is_empty() {
            return Some((from, datagram));
        }
        self.take_in_from_relay(now, from, datagram)
    }

    pub(crate) fn take_in_from_relay(
        &mut self,
        now: Duration,
        from: SocketAddr,
        mut datagram: BytesMut,
    ) -> Option<(SocketAddr, BytesMut)> {
        // Several relays' registrations may share one address: an id in the datagram tells them apart.
        for (_, relay, second) in self.sources.iter().filter(|(at, ..)| *at == from) {
            match self.relays[*relay].client.handle_datagram(now, *second, &mut datagram) {
                DatagramKind::Not => {}
                DatagramKind::Control => return None,
                DatagramKind::Inner(tag) => {
                    datagram.advance(HEADER);
                    return Some((self.address(*relay, tag), datagram));
                }
            }
        }
        Some((from, datagram))
    }

    /// When a timer of a relay is due.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let relays = self.relays.iter().filter_map(UsedRelay::poll_timeout);
        relays.chain(self.punching.poll_timeout()).min()
    }
}

impl RelayConnections {
    /// The socket that an address stands for, and the address that it sends to.
    pub(crate) fn socket_at(&self, address: SocketAddr) -> Option<(&Udp, SocketAddr)> {
        let (number, to) = socket_of(self.socket_prefix(), address)?;
        Some((self.punching.socket(number)?, to.into()))
    }
}

/// The pause before a relay is dialled again is this fraction of the time without a registration. So a relay that was
/// away for a minute has us two seconds after its return, one that restarts almost at once, and one that is gone costs little.
const PAUSE_PART: u32 = 30;
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A relay to use, and the purpose.
#[derive(Clone, Debug)]
pub struct RelayUse {
    /// The key that it must prove.
    pub key: [u8; 32],
    /// Its addresses over UDP.
    pub udp: Vec<SocketAddr>,
    /// TCP carriers at which it is reached if UDP is silent.
    pub tcp: Vec<PeerAddress>,
    /// Whether this end is registered there for others, from now on and as long as the engine runs; else only once a
    /// peer is dialled through it.
    pub listens: bool,
    /// Names of publishers' keys by which others may ask for this end, besides its own key.
    pub names: Vec<VouchedName>,
    /// Whether the relay is to assign a short number by which others may ask for this end.
    pub wants_code: bool,
    /// A token that the relay asks of its clients.
    pub token: Option<TeamToken>,
}

/// News of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayNotice {
    /// It has registered this end, which others can now reach through it.
    Registered {
        /// The number, if one was requested.
        code: Option<u32>,
        /// Whether the way to it is a TCP connection, because UDP was silent.
        over_tcp: bool,
    },
    /// It sees this end at this address.
    Observed {
        /// The address.
        address: SocketAddr,
        /// Whether its second port sees this end there; behind a symmetric NAT that address differs.
        by_second: bool,
    },
    /// It refuses this end, or cannot be reached, and is tried again later.
    Failed {
        /// The reason, as text for users.
        why: String,
    },
}

/// See the module's documentation.
pub(crate) struct UsedRelay {
    pub(crate) uses: RelayUse,
    pub(crate) client: RelayClient,
    pub(crate) stage: RelayLinkState,
    /// The stage before the relay fell silent in a connection, which stays while the relay is dialled anew.
    pub(crate) former: Option<RelayLinkState>,
    /// Destination of its datagrams: its own address, or the synthetic one of a carrier.
    pub(crate) at: Option<SocketAddr>,
    /// Dials that wait until there is a link to the relay.
    pub(crate) wanted: Vec<(FaceId, ConnectTarget, Option<PeerKey>)>,
    /// Peers that were asked for, while their faces exist.
    pub(crate) circuits: Vec<PeerCircuit>,
    /// When to ask again for peers that the relay has lost with its state.
    pub(crate) asks_again: Option<Duration>,
    /// It has registered this end at least once.
    pub(crate) was_registered: bool,
    pub(crate) again: Option<Duration>,
    /// Since when it has not had a registration of this end.
    pub(crate) lost: Option<Duration>,
}

/// A peer that was asked for.
pub(crate) struct PeerCircuit {
    pub(crate) tag: CircuitTag,
    pub(crate) face: FaceId,
    pub(crate) target: ConnectTarget,
    pub(crate) answer: CircuitState,
}

/// The relay's answer about a peer that was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CircuitState {
    /// No answer so far.
    Waits,
    /// Datagrams sent there arrive.
    Stands,
    /// They did, until the relay lost its state.
    Lost,
}

pub(crate) enum RelayLinkState {
    /// No link, and none needed for now.
    Resting,
    Dialling {
        links: Vec<RelayDial>,
        began: Duration,
        next: Duration,
        /// How many of its addresses were dialled, over UDP and then TCP.
        taken: usize,
    },
    Talking {
        link: LinkId,
        stream: StreamId,
        unsent: Vec<u8>,
        registered: bool,
    },
}

/// A dial of a relay at one of its addresses.
#[derive(Clone, Copy)]
pub(crate) struct RelayDial {
    pub(crate) link: LinkId,
    pub(crate) over_tcp: bool,
}

impl UsedRelay {
    /// `own`: this end's link key.
    pub(crate) fn new(uses: RelayUse, secret: [u8; 32], own: &[u8; 32]) -> Self {
        let client = RelayClient::new(secret, uses.listens, uses.names.clone());
        let client = if uses.wants_code { client.with_code() } else { client };
        let client = match &uses.token {
            Some(token) => client.with_proof(token.proof(&uses.key, own)),
            None => client,
        };
        Self {
            uses,
            client,
            stage: RelayLinkState::Resting,
            former: None,
            at: None,
            wanted: Vec::new(),
            circuits: Vec::new(),
            asks_again: None,
            was_registered: false,
            again: None,
            lost: None,
        }
    }

    pub(crate) fn at(&self) -> Option<SocketAddr> {
        self.at
    }

    /// Returns whether its datagrams went within a connection, because UDP was silent.
    pub(crate) fn is_over_tcp(&self) -> bool {
        self.at.is_some() && !self.is_over_udp()
    }

    /// Returns whether its datagrams go over UDP, and not within a connection.
    pub(crate) fn is_over_udp(&self) -> bool {
        self.at.is_some_and(|at| self.uses.udp.contains(&at))
    }

    /// Its second port; a carrier has none.
    pub(crate) fn second(&self) -> Option<SocketAddr> {
        let at = self.at.filter(|_| self.is_over_udp())?;
        Some(SocketAddr::new(at.ip(), self.client.second_port()?))
    }

    /// The address shown to users.
    pub(crate) fn display_address(&self) -> SocketAddr {
        named_at(&self.uses)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let dial = match &self.stage {
            RelayLinkState::Dialling { next, taken, .. } if *taken < self.ways() => Some(*next),
            _ => None,
        };
        let timers = [self.client.poll_timeout(), dial, self.again, self.asks_again];
        timers.into_iter().flatten().min()
    }

    pub(crate) fn ways(&self) -> usize {
        self.uses.udp.len() + self.uses.tcp.len()
    }

    pub(crate) fn has(&self, link: LinkId) -> bool {
        let of = |stage: &RelayLinkState| match stage {
            RelayLinkState::Resting => false,
            RelayLinkState::Dialling { links, .. } => links.iter().any(|dial| dial.link == link),
            RelayLinkState::Talking { link: it, .. } => *it == link,
        };
        of(&self.stage) || self.former.as_ref().is_some_and(of)
    }

    /// The link of the silent connection that stays while the relay is dialled anew.
    pub(crate) fn former_link(&self) -> Option<LinkId> {
        match self.former {
            Some(RelayLinkState::Talking { link, .. }) => Some(link),
            _ => None,
        }
    }

    /// Schedules the next dial, because it has no registration of this end.
    pub(crate) fn schedule_redial(&mut self, now: Duration) {
        self.again = Some(now + self.pause(now));
    }

    /// The pause before the next dial.
    pub(crate) fn pause(&mut self, now: Duration) -> Duration {
        let away = now.saturating_sub(*self.lost.get_or_insert(now));
        (away / PAUSE_PART).clamp(PAUSE, LONGEST_PAUSE)
    }

    /// Returns whether all requests have been answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.wanted.is_empty() && self.circuits.iter().all(|one| one.answer == CircuitState::Stands)
    }

    /// Returns whether a registration is to be kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.uses.listens || self.was_registered
    }
}

fn named_at(uses: &RelayUse) -> SocketAddr {
    let tcp = || uses.tcp.iter().find_map(PeerAddress::link_address);
    let udp = uses.udp.first().copied().or_else(tcp);
    udp.unwrap_or_else(|| SocketAddr::from(([0; 4], 0)))
}

/// The links that look for a direct way.
#[derive(Default)]
pub(crate) struct HolePunching {
    /// The addresses of this end that the program knows.
    pub(crate) own: Vec<SocketAddr>,
    /// The addresses at which dialled peers see it.
    pub(crate) observed: Vec<Observation>,
    pub(crate) links: HashMap<LinkId, PunchedLink>,
    pub(crate) sockets: HashMap<u16, PunchSocket>,
    pub(crate) next_socket: u16,
}

/// The address at which the peer of one link sees this end.
pub(crate) struct Observation {
    pub(crate) link: LinkId,
    /// The peer's address: a symmetric NAT gives another mapping towards another one.
    pub(crate) by: SocketAddr,
    pub(crate) address: SocketAddr,
}

/// A link that looks for a direct way.
#[derive(Default)]
pub(crate) struct PunchedLink {
    /// Loopback addresses are allowed too, because the relay is on loopback.
    pub(crate) near: bool,
    /// The addresses that the peer has named.
    pub(crate) theirs: Vec<SocketAddr>,
    pub(crate) mapping: NatMapping,
}

/// An extra socket for one attempt.
pub(crate) struct PunchSocket {
    pub(crate) io: Udp,
    pub(crate) token: Token,
    pub(crate) of: PunchSocketUser,
    pub(crate) closes: Duration,
}

/// What an extra socket was opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PunchSocketUser {
    /// A link through a relay that looks for a direct way.
    Link(LinkId),
    /// A meeting in the DHT.
    Meeting(Meeting),
}

impl HolePunching {
    pub(crate) fn socket(&self, number: u16) -> Option<&Udp> {
        self.sockets.get(&number).map(|extra| &extra.io)
    }

    /// The next number that no socket has.
    pub(crate) fn free_number(&mut self) -> Option<u16> {
        for _ in 0..=u16::MAX {
            let number = self.next_socket;
            self.next_socket = number.wrapping_add(1);
            if !self.sockets.contains_key(&number) {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.sockets.values().map(|extra| extra.closes).min()
    }
}

/// The address that stands for a socket and its destination.
pub(crate) fn address_of(prefix: [u8; 6], number: u16, to: SocketAddrV4) -> SocketAddr {
    let mut octets = [0; 16];
    octets[..6].copy_from_slice(&prefix);
    octets[6..8].copy_from_slice(&number.to_be_bytes());
    octets[8..12].copy_from_slice(&to.ip().octets());
    octets[12..14].copy_from_slice(&to.port().to_be_bytes());
    SocketAddr::from((Ipv6Addr::from(octets), 1))
}

/// The socket that an address stands for, and its destination.
pub(crate) fn socket_of(prefix: [u8; 6], address: SocketAddr) -> Option<(u16, SocketAddrV4)> {
    let SocketAddr::V6(address) = address else { return None };
    let octets = address.ip().octets();
    if octets[..6] != prefix {
        return None;
    }
    let [a, b, c, d, e, f, g, h, ..] = octets[6..] else { return None };
    let to = SocketAddrV4::new(Ipv4Addr::new(c, d, e, f), u16::from_be_bytes([g, h]));
    Some((u16::from_be_bytes([a, b]), to))
}

#[cfg(test)]
mod tests;
