//! [`Relay`]: one registration with one relay: the link over which it is made, and what becomes of it.
//!
//! The link is dialled at all of the relay's addresses over UDP, and where these stay silent, within TCP. It ends once
//! the relay has answered everything; over TCP it stays, as the connection does for its sake.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_library::keys;
use xylem_library::reachable::Peer;
use xylem_link::{LinkId, PeerKey, StreamId};
use xylem_reach::relay::{Name, RelayClient, Tag, Target};
use xylem_sockets::Dial;

use super::MAX_RELAYS;
use crate::Engine;
use crate::dialling::wildcard;
use crate::faces::Transport;

/// Between two dials of one relay.
const BETWEEN: Duration = Duration::from_millis(50);
/// So long UDP may be silent before TCP is tried too.
const UDP_FIRST: Duration = Duration::from_millis(700);
/// Pause before a relay is dialled again, doubled each time.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
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
pub(super) struct Relay {
    pub(super) uses: RelayUse,
    pub(super) client: RelayClient,
    pub(super) stage: Stage,
    /// Where its datagrams go: an address of its own, or the made-up one of a carrier.
    pub(super) at: Option<SocketAddr>,
    /// Dials that wait until there is a link to ask over.
    pub(super) wanted: Vec<(FaceId, Target, Option<PeerKey>)>,
    /// Those that were asked for and not answered.
    pub(super) asked: Vec<(Tag, FaceId)>,
    /// It has had us once.
    pub(super) was_registered: bool,
    again: Option<Duration>,
    pub(super) pause: Duration,
}

pub(super) enum Stage {
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
    fn new(uses: RelayUse, secret: [u8; 32]) -> Self {
        let client = RelayClient::new(secret, uses.listens, uses.names.clone());
        let client = if uses.wants_code { client.with_code() } else { client };
        Self {
            uses,
            client,
            stage: Stage::Resting,
            at: None,
            wanted: Vec::new(),
            asked: Vec::new(),
            was_registered: false,
            again: None,
            pause: PAUSE,
        }
    }

    pub(super) fn at(&self) -> Option<SocketAddr> {
        self.at
    }

    /// Its second port; a carrier has none.
    pub(super) fn second(&self) -> Option<SocketAddr> {
        let at = self.at.filter(|at| self.uses.udp.contains(at))?;
        Some(SocketAddr::new(at.ip(), self.client.second_port()?))
    }

    /// For people.
    pub(super) fn named_at(&self) -> SocketAddr {
        named_at(&self.uses)
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let dial = match &self.stage {
            Stage::Dialling { next, taken, .. } if *taken < self.ways() => Some(*next),
            _ => None,
        };
        [self.client.poll_timeout(), dial, self.again].into_iter().flatten().min()
    }

    pub(super) fn ways(&self) -> usize {
        self.uses.udp.len() + self.uses.tcp.len()
    }

    pub(super) fn has(&self, link: LinkId) -> bool {
        match &self.stage {
            Stage::Resting => false,
            Stage::Dialling { links, .. } => links.contains(&link),
            Stage::Talking { link: it, .. } => *it == link,
        }
    }

    /// Whether a registration is to be kept.
    pub(super) fn is_kept(&self) -> bool {
        self.uses.listens || self.was_registered
    }
}

fn named_at(uses: &RelayUse) -> SocketAddr {
    let tcp = || uses.tcp.iter().find_map(Peer::link_address);
    let udp = uses.udp.first().copied().or_else(tcp);
    udp.unwrap_or_else(|| wildcard(SocketAddr::from(([0; 4], 0))))
}

impl Engine {
    /// Uses a relay. One that is used already gets no second registration.
    ///
    /// # Errors
    /// Too many relays, or a system without randomness.
    pub fn use_relay(&mut self, uses: RelayUse) -> io::Result<()> {
        let reaching = &self.net.reaching;
        if reaching.relays.iter().any(|relay| relay.uses.key == uses.key) {
            return Ok(());
        }
        if reaching.relays.len() >= MAX_RELAYS || uses.udp.len() + uses.tcp.len() == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let secret = keys::random().map_err(io::Error::other)?;
        let listens = uses.listens;
        self.net.reaching.relays.push(Relay::new(uses, secret));
        if listens {
            self.dial_relay(self.net.reaching.relays.len() - 1);
        }
        Ok(())
    }

    /// Where relays see this end: each by its first port, and by its second.
    pub fn observed_by_relays(&self) -> impl Iterator<Item = [Option<SocketAddr>; 2]> + '_ {
        self.net.reaching.relays.iter().map(|relay| relay.client.observed())
    }

    /// Dials a peer through a relay: asks the relay first, where it has not been asked yet.
    pub(crate) fn dial_through(
        &mut self,
        face: FaceId,
        relay: [u8; 32],
        target: Target,
        key: Option<PeerKey>,
    ) -> io::Result<()> {
        let relays = &mut self.net.reaching.relays;
        let Some(i) = relays.iter().position(|known| known.uses.key == relay) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such relay"));
        };
        relays[i].wanted.push((face, target, key));
        match relays[i].stage {
            Stage::Resting => self.dial_relay(i),
            Stage::Dialling { .. } => {}
            Stage::Talking { .. } => self.ask_relay(i),
        }
        Ok(())
    }

    pub(super) fn dial_relay(&mut self, i: usize) {
        let now = self.now();
        let relay = &mut self.net.reaching.relays[i];
        relay.again = None;
        relay.stage = Stage::Dialling { links: Vec::new(), began: now, next: now, taken: 0 };
        self.dial_relay_on(now, i);
    }

    /// Takes the next ways whose time it is.
    fn dial_relay_on(&mut self, now: Duration, i: usize) {
        loop {
            let relay = &mut self.net.reaching.relays[i];
            let key = Some(PeerKey(relay.uses.key));
            let RelayUse { udp, tcp, .. } = &relay.uses;
            let Stage::Dialling { links, began, next, taken } = &mut relay.stage else { return };
            if now < *next || *taken >= udp.len() + tcp.len() {
                return;
            }
            let way = *taken;
            // Over TCP nothing is tried as long as UDP may answer.
            if way >= udp.len() && !links.is_empty() && now < *began + UDP_FIRST {
                *next = *began + UDP_FIRST;
                return;
            }
            (*taken, *next) = (way + 1, now + BETWEEN);
            let link = match (udp.get(way).copied(), tcp.get(way.saturating_sub(udp.len()))) {
                (Some(address), _) => {
                    let bound = self.net.link_socket_for(address).is_some()
                        || self.bind_link(wildcard(address)).is_ok();
                    bound.then(|| self.net.endpoint.connect(now, address, key))
                }
                (None, Some(Peer::Carried { carrier, address, name, .. })) => {
                    let (carrier, address, name) = (*carrier, *address, name.clone());
                    let to = Dial { carrier, address, name: name.as_deref() };
                    match self.connect_carrier(to, key) {
                        Ok(Transport::Link(link)) => Some(link),
                        _ => None,
                    }
                }
                _ => None,
            };
            match (link, &mut self.net.reaching.relays[i].stage) {
                (Some(link), Stage::Dialling { links, .. }) => links.push(link),
                // What the system refuses is as good as silent.
                (_, Stage::Dialling { next, .. }) => *next = now,
                _ => {}
            }
        }
    }

    /// Does what is due by the clock.
    pub(crate) fn relay_timers(&mut self, now: Duration) {
        for i in 0..self.net.reaching.relays.len() {
            let relay = &mut self.net.reaching.relays[i];
            relay.client.handle_timeout(now);
            if relay.again.is_some_and(|at| at <= now) {
                self.dial_relay(i);
            }
            self.dial_relay_on(now, i);
            let relay = &self.net.reaching.relays[i];
            let over = match &relay.stage {
                Stage::Dialling { links, taken, .. } => links.is_empty() && *taken >= relay.ways(),
                _ => false,
            };
            if over {
                self.relay_failed(i, "it cannot be dialled");
            }
        }
        self.close_sockets(now);
        self.drain_relays(now);
    }

    /// A relay is of no use for now.
    pub(super) fn relay_failed(&mut self, i: usize, why: &str) {
        let now = self.now();
        let relay = &mut self.net.reaching.relays[i];
        let links = match std::mem::replace(&mut relay.stage, Stage::Resting) {
            Stage::Resting => Vec::new(),
            Stage::Dialling { links, .. } => links,
            Stage::Talking { link, .. } => vec![link],
        };
        let mut faces: Vec<FaceId> = relay.wanted.drain(..).map(|(face, ..)| face).collect();
        faces.extend(relay.asked.drain(..).map(|(_, face)| face));
        if relay.is_kept() {
            relay.again = Some(now + relay.pause);
            relay.pause = (relay.pause * 2).min(LONGEST_PAUSE);
        }
        let what = format!("relay {}: {why}", relay.named_at());
        links.into_iter().for_each(|link| self.hang_up(&Transport::Link(link)));
        faces.into_iter().for_each(|face| self.fail_face(face, &what));
        self.tell_of_relay(i, RelayNews::Failed { why: why.to_owned() });
    }

    /// Tells relays that this end goes.
    pub(crate) fn leave_relays(&mut self) {
        let now = self.now();
        self.net.reaching.relays.iter_mut().for_each(|relay| relay.client.leave(now));
    }
}
