//! [`Reaching`]: what an engine knows of relays, of their peers, and of links that look for a direct way.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use mio::Token;
use xylem_forward::FaceId;
use xylem_library::reachable::Peer;
use xylem_link::{LinkId, Mapping, PeerKey, StreamId};
use xylem_reach::relay::{Came, HEADER, Name, RelayClient, Tag, Target};
use xylem_sockets::Udp;

/// Relays of one engine, those that peers are for each other included.
pub(crate) const MAX_RELAYS: usize = 64;

/// All relays of an engine.
pub(crate) struct Reaching {
    /// What made-up addresses of peers at relays begin with. Those of carriers' end one below, those of sockets one
    /// above.
    pub(crate) prefix: [u8; 6],
    pub(crate) relays: Vec<Relay>,
    pub(crate) punching: Punching,
    /// Where datagrams of relays come from: of which relay, and whether from its second port.
    pub(crate) sources: Vec<(SocketAddr, usize, bool)>,
    /// Relays that another thread has this end use.
    pub(crate) told: Option<Receiver<RelayUse>>,
    /// Datagrams behind their headers; kept for its allocation.
    pub(crate) headed: Vec<u8>,
}

impl Reaching {
    /// None yet; `random` is that of the carriers' made-up addresses.
    pub(crate) fn new(random: [u8; 5]) -> Self {
        let [a, b, c, d, e] = random;
        Self {
            prefix: [0xfd, a, b, c, d, e.wrapping_add(1)],
            relays: Vec::new(),
            punching: Punching::default(),
            sources: Vec::new(),
            told: None,
            headed: Vec::new(),
        }
    }

    /// What made-up addresses of peers at relays begin with.
    pub(crate) fn relay_prefix(&self) -> [u8; 6] {
        self.prefix
    }

    /// What made-up addresses begin with that stand for a socket beside the usual ones.
    pub(crate) fn socket_prefix(&self) -> [u8; 6] {
        let [a, b, c, d, e, f] = self.prefix;
        [a, b, c, d, e, f.wrapping_add(1)]
    }

    /// Whether an address is made up here. None of these is ever seen on a network.
    pub(crate) fn made_up(&self, address: SocketAddr) -> bool {
        let IpAddr::V6(ip) = address.ip() else { return false };
        let octets = ip.octets();
        octets[..6] == self.prefix || octets[..6] == self.socket_prefix()
    }

    /// The made-up address of a peer at a relay.
    pub(crate) fn address(&self, relay: usize, tag: Tag) -> SocketAddr {
        let mut octets = [0; 16];
        octets[..6].copy_from_slice(&self.prefix);
        octets[7] = u8::try_from(relay).unwrap_or(u8::MAX);
        octets[12..].copy_from_slice(&tag.number().to_be_bytes());
        SocketAddr::from((Ipv6Addr::from(octets), 1))
    }

    /// Who is at a made-up address.
    pub(crate) fn peer_at(&self, address: SocketAddr) -> Option<(usize, Tag)> {
        let IpAddr::V6(ip) = address.ip() else { return None };
        let octets = ip.octets();
        if octets[..6] != self.prefix {
            return None;
        }
        let tag = Tag::new(u32::from_be_bytes(*octets.last_chunk::<4>()?))?;
        let relay = usize::from(octets[7]);
        (relay < self.relays.len()).then_some((relay, tag))
    }

    /// The relay of a made-up address, as people know it.
    pub(crate) fn relay_at(&self, address: SocketAddr) -> Option<SocketAddr> {
        let (relay, _) = self.peer_at(address)?;
        Some(self.relays[relay].named_at())
    }

    /// Takes what came from `from`: gives what is for the endpoint, and as from where.
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
        // One address may be that of several relays' registrations: an id says whose datagram it is.
        for (_, relay, second) in self.sources.iter().filter(|(at, ..)| *at == from) {
            match self.relays[*relay].client.handle_datagram(now, *second, &mut datagram) {
                Came::Not => {}
                Came::Control => return None,
                Came::Inner(tag) => {
                    datagram.advance(HEADER);
                    return Some((self.address(*relay, tag), datagram));
                }
            }
        }
        Some((from, datagram))
    }

    /// When something of relays is due.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let relays = self.relays.iter().filter_map(Relay::poll_timeout);
        relays.chain(self.punching.poll_timeout()).min()
    }
}

impl Reaching {
    /// The socket that an address stands for, and where it sends to.
    pub(crate) fn socket_at(&self, address: SocketAddr) -> Option<(&Udp, SocketAddr)> {
        let (number, to) = socket_of(self.socket_prefix(), address)?;
        Some((self.punching.socket(number)?, to.into()))
    }
}

/// Pause before a relay is dialled again: this part of the time for which it has not had us, so that one that was away for
/// a minute has us two seconds later, and one that is gone costs little.
const PAUSE_PART: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A relay that is to be used, and for what.
#[derive(Clone, Debug)]
pub struct RelayUse {
    /// The key that it must prove.
    pub key: [u8; 32],
    /// Where it is over UDP.
    pub udp: Vec<SocketAddr>,
    /// Within which TCP connections it is reached where UDP is silent.
    pub tcp: Vec<Peer>,
    /// Whether this end is registered there for others to ask for, now and as long as the engine runs; else only
    /// once a peer is dialled through it.
    pub listens: bool,
    /// By which publishers' keys others may ask for this end, besides its own key.
    pub names: Vec<Name>,
    /// Whether it is to give a short number, by which others may ask for this end.
    pub wants_code: bool,
}

/// What happened with a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayNews {
    /// It has us, and those who ask for us reach us.
    Registered {
        /// The number that was asked for.
        code: Option<u32>,
        /// Whether the way to it is a TCP connection, as UDP was silent.
        over_tcp: bool,
    },
    /// It sees us at this address.
    Observed {
        /// Which.
        address: SocketAddr,
        /// Its second port does, which has another address in view where the NAT is symmetric.
        by_second: bool,
    },
    /// It does not take us, or cannot be reached, and is tried again later.
    Failed {
        /// Why, in words for people.
        why: String,
    },
}

/// See the module's documentation.
pub(crate) struct Relay {
    pub(crate) uses: RelayUse,
    pub(crate) client: RelayClient,
    pub(crate) stage: Stage,
    /// Where its datagrams go: an address of its own, or the made-up one of a carrier.
    pub(crate) at: Option<SocketAddr>,
    /// Dials that wait until there is a link to ask over.
    pub(crate) wanted: Vec<(FaceId, Target, Option<PeerKey>)>,
    /// Those that were asked for, as long as their faces are there.
    pub(crate) circuits: Vec<Circuit>,
    /// When those are asked for again that the relay has lost with its state.
    pub(crate) asks_again: Option<Duration>,
    /// It has had us once.
    pub(crate) was_registered: bool,
    pub(crate) again: Option<Duration>,
    /// Since when it does not have us.
    pub(crate) lost: Option<Duration>,
}

/// Somebody who was asked for.
pub(crate) struct Circuit {
    pub(crate) tag: Tag,
    pub(crate) face: FaceId,
    pub(crate) target: Target,
    pub(crate) answer: Answer,
}

/// What a relay has said of somebody who was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing so far.
    Waits,
    /// What is sent there arrives.
    Stands,
    /// It did, until the relay lost its state.
    Lost,
}

pub(crate) enum Stage {
    /// No link, and none needed for now.
    Resting,
    Dialling {
        links: Vec<LinkId>,
        began: Duration,
        next: Duration,
        /// How many of the ways were taken, over UDP and then TCP.
        taken: usize,
    },
    Talking {
        link: LinkId,
        stream: StreamId,
        unsent: Vec<u8>,
        registered: bool,
    },
}

impl Relay {
    pub(crate) fn new(uses: RelayUse, secret: [u8; 32]) -> Self {
        let client = RelayClient::new(secret, uses.listens, uses.names.clone());
        let client = if uses.wants_code { client.with_code() } else { client };
        Self {
            uses,
            client,
            stage: Stage::Resting,
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

    /// Whether its datagrams go straight over UDP, and not within a connection.
    pub(crate) fn is_over_udp(&self) -> bool {
        self.at.is_some_and(|at| self.uses.udp.contains(&at))
    }

    /// Its second port; a carrier has none.
    pub(crate) fn second(&self) -> Option<SocketAddr> {
        let at = self.at.filter(|_| self.is_over_udp())?;
        Some(SocketAddr::new(at.ip(), self.client.second_port()?))
    }

    /// For people.
    pub(crate) fn named_at(&self) -> SocketAddr {
        named_at(&self.uses)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let dial = match &self.stage {
            Stage::Dialling { next, taken, .. } if *taken < self.ways() => Some(*next),
            _ => None,
        };
        let timers = [self.client.poll_timeout(), dial, self.again, self.asks_again];
        timers.into_iter().flatten().min()
    }

    pub(crate) fn ways(&self) -> usize {
        self.uses.udp.len() + self.uses.tcp.len()
    }

    pub(crate) fn has(&self, link: LinkId) -> bool {
        match &self.stage {
            Stage::Resting => false,
            Stage::Dialling { links, .. } => links.contains(&link),
            Stage::Talking { link: it, .. } => *it == link,
        }
    }

    /// It does not have us, and is dialled again after a while.
    pub(crate) fn rest(&mut self, now: Duration) {
        let away = now.saturating_sub(*self.lost.get_or_insert(now));
        self.again = Some(now + (away / PAUSE_PART).clamp(PAUSE, LONGEST_PAUSE));
    }

    /// Whether all that was asked has been answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.wanted.is_empty() && self.circuits.iter().all(|one| one.answer == Answer::Stands)
    }

    /// Whether a registration is to be kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.uses.listens || self.was_registered
    }
}

fn named_at(uses: &RelayUse) -> SocketAddr {
    let tcp = || uses.tcp.iter().find_map(Peer::link_address);
    let udp = uses.udp.first().copied().or_else(tcp);
    udp.unwrap_or_else(|| SocketAddr::from(([0; 4], 0)))
}

/// Who looks for a direct way.
#[derive(Default)]
pub(crate) struct Punching {
    /// Where this end may be reached, as the program knows.
    pub(crate) own: Vec<SocketAddr>,
    /// Where peers see it, that it has dialled.
    pub(crate) observed: Vec<Observation>,
    pub(crate) links: HashMap<LinkId, Punched>,
    pub(crate) sockets: HashMap<u16, Extra>,
    pub(crate) next_socket: u16,
}

/// Where the peer of one link sees this end.
pub(crate) struct Observation {
    pub(crate) link: LinkId,
    /// Where the peer is: a symmetric NAT gives another address towards another one.
    pub(crate) by: SocketAddr,
    pub(crate) address: SocketAddr,
}

/// One link.
#[derive(Default)]
pub(crate) struct Punched {
    /// Loopback is as good as any address: the way to the relay is there too.
    pub(crate) near: bool,
    /// What the peer has named.
    pub(crate) theirs: Vec<SocketAddr>,
    pub(crate) mapping: Mapping,
}

/// A socket of its own for one try.
pub(crate) struct Extra {
    pub(crate) io: Udp,
    pub(crate) token: Token,
    pub(crate) of: LinkId,
    pub(crate) closes: Duration,
}

impl Punching {
    pub(crate) fn socket(&self, number: u16) -> Option<&Udp> {
        self.sockets.get(&number).map(|extra| &extra.io)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.sockets.values().map(|extra| extra.closes).min()
    }
}

/// What stands for a socket and where it sends to.
pub(crate) fn address_of(prefix: [u8; 6], number: u16, to: SocketAddrV4) -> SocketAddr {
    let mut octets = [0; 16];
    octets[..6].copy_from_slice(&prefix);
    octets[6..8].copy_from_slice(&number.to_be_bytes());
    octets[8..12].copy_from_slice(&to.ip().octets());
    octets[12..14].copy_from_slice(&to.port().to_be_bytes());
    SocketAddr::from((Ipv6Addr::from(octets), 1))
}

/// The socket that an address stands for, and where it sends to.
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
