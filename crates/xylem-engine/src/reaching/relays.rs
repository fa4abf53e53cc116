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
use xylem_link::{LinkEvent, LinkId, PeerKey, StreamId, StreamRead, purpose};
use xylem_reach::relay::{Name, Port, RelayClient, RelayEvent, Tag, Target};
use xylem_sockets::Dial;

use super::MAX_RELAYS;
use crate::dialling::wildcard;
use crate::faces::Transport;
use crate::{Engine, EngineEvent};

/// Between two dials of one relay.
const BETWEEN: Duration = Duration::from_millis(50);
/// So long UDP may be silent before TCP is tried too.
const UDP_FIRST: Duration = Duration::from_millis(700);
/// Pause before a relay is dialled again, doubled each time.
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
pub(super) struct Relay {
    uses: RelayUse,
    pub(super) client: RelayClient,
    stage: Stage,
    /// Where its datagrams go: an address of its own, or the made-up one of a carrier.
    at: Option<SocketAddr>,
    /// Dials that wait until there is a link to ask over.
    wanted: Vec<(FaceId, Target, Option<PeerKey>)>,
    /// Those that were asked for and not answered.
    asked: Vec<(Tag, FaceId)>,
    /// It has had us once.
    was_registered: bool,
    again: Option<Duration>,
    pause: Duration,
}

enum Stage {
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

    fn ways(&self) -> usize {
        self.uses.udp.len() + self.uses.tcp.len()
    }

    fn has(&self, link: LinkId) -> bool {
        match &self.stage {
            Stage::Resting => false,
            Stage::Dialling { links, .. } => links.contains(&link),
            Stage::Talking { link: it, .. } => *it == link,
        }
    }

    /// Whether a registration is to be kept.
    fn is_kept(&self) -> bool {
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

    fn dial_relay(&mut self, i: usize) {
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

    /// Asks for all that is wanted, and dials each behind its question at once: what is asked for is there when
    /// the datagram comes.
    fn ask_relay(&mut self, i: usize) {
        let now = self.now();
        let wanted = std::mem::take(&mut self.net.reaching.relays[i].wanted);
        for (face, target, key) in wanted {
            // It may have been given up meanwhile.
            let Some(peer) = self.face(face).and_then(|face| face.peer.clone()) else { continue };
            let relay = &mut self.net.reaching.relays[i];
            let (tag, question) = relay.client.connect(target);
            relay.asked.push((tag, face));
            if let Stage::Talking { unsent, .. } = &mut relay.stage {
                unsent.extend_from_slice(&question);
            }
            self.write_relay(i);
            let address = self.net.reaching.address(i, tag);
            let link = self.net.connect_link(now, address, key);
            self.note_keyless(link, &peer);
            self.net.faces.replace_transport(face, Transport::Link(link));
        }
    }

    fn write_relay(&mut self, i: usize) {
        let relay = &mut self.net.reaching.relays[i];
        let Stage::Talking { link, stream, unsent, .. } = &mut relay.stage else { return };
        if let Ok(written) = self.net.endpoint.write_stream(*link, *stream, unsent) {
            unsent.drain(..written);
        }
    }

    /// Whether an event of the endpoint is about a relay's link, which then is seen to.
    pub(crate) fn is_of_relay(&mut self, now: Duration, event: &LinkEvent) -> bool {
        let (LinkEvent::Connected { link, .. }
        | LinkEvent::OtherKey { link, .. }
        | LinkEvent::Closed { link, .. }
        | LinkEvent::StreamOpened { link, .. }
        | LinkEvent::StreamReadable { link, .. }
        | LinkEvent::StreamWritable { link, .. }
        | LinkEvent::StreamReset { link, .. }
        | LinkEvent::StreamStopped { link, .. }
        | LinkEvent::StreamDelivered { link, .. }) = event
        else {
            return false;
        };
        let relays = &self.net.reaching.relays;
        let Some(i) = relays.iter().position(|relay| relay.has(*link)) else { return false };
        match event {
            LinkEvent::Connected { remote, .. } => self.relay_answers(i, *link, *remote),
            LinkEvent::Closed { reason, .. } => {
                let now = self.now();
                self.net.carriers.release(now, *link);
                self.relay_link_ended(i, *link, &reason.to_string());
            }
            LinkEvent::StreamReadable { stream, .. } => self.hear_relay(now, i, *link, *stream),
            LinkEvent::StreamWritable { .. } => self.write_relay(i),
            LinkEvent::StreamReset { .. } | LinkEvent::StreamStopped { .. } => {
                self.relay_failed(i, "it is no relay, or not for us");
            }
            _ => {}
        }
        true
    }

    /// A link to a relay stands: the others are not needed.
    fn relay_answers(&mut self, i: usize, link: LinkId, remote: SocketAddr) {
        let relay = &mut self.net.reaching.relays[i];
        let Stage::Dialling { links, .. } = &mut relay.stage else { return };
        let others: Vec<LinkId> = links.drain(..).filter(|other| *other != link).collect();
        let stream = self.net.endpoint.open_stream(link, purpose::REACH);
        others.into_iter().for_each(|other| self.hang_up(&Transport::Link(other)));
        let Ok(stream) = stream else { return self.relay_failed(i, "it takes no streams") };
        let relay = &mut self.net.reaching.relays[i];
        relay.client.new_stream();
        let unsent = relay.client.request();
        relay.stage = Stage::Talking { link, stream, unsent, registered: false };
        self.set_way(i, Some(remote));
        self.write_relay(i);
        self.ask_relay(i);
    }

    /// Where datagrams of a relay go to and come from.
    fn set_way(&mut self, i: usize, at: Option<SocketAddr>) {
        let reaching = &mut self.net.reaching;
        reaching.relays[i].at = at;
        let second = reaching.relays[i].second();
        reaching.sources.retain(|(_, of, _)| *of != i);
        reaching.sources.extend(at.map(|at| (at, i, false)));
        reaching.sources.extend(second.map(|at| (at, i, true)));
    }

    fn hear_relay(&mut self, now: Duration, i: usize, link: LinkId, stream: StreamId) {
        while let Ok(StreamRead::Data(bytes)) = self.net.endpoint.read_stream(link, stream) {
            if let Err(e) = self.net.reaching.relays[i].client.handle_control(now, &bytes) {
                return self.relay_failed(i, &e.to_string());
            }
        }
        self.drain_relays(now);
    }

    /// Sees to what relays' clients report.
    pub(crate) fn drain_relays(&mut self, now: Duration) {
        for i in 0..self.net.reaching.relays.len() {
            while let Some(event) = self.net.reaching.relays[i].client.poll_event() {
                self.relay_event(i, event);
            }
            self.rest_relay(now, i);
        }
    }

    fn relay_event(&mut self, i: usize, event: RelayEvent) {
        let relay = &mut self.net.reaching.relays[i];
        match event {
            RelayEvent::Registered { code } => {
                if let Stage::Talking { registered, .. } = &mut relay.stage {
                    *registered = true;
                }
                (relay.was_registered, relay.pause) = (true, PAUSE);
                let at = relay.at;
                let over_tcp = at.is_some_and(|at| !relay.uses.udp.contains(&at));
                self.set_way(i, at);
                self.tell_of_relay(i, RelayNews::Registered { code, over_tcp });
            }
            RelayEvent::Connected(tag) => relay.asked.retain(|(asked, _)| *asked != tag),
            RelayEvent::Refused(Some(tag), why) => {
                let asked = relay.asked.iter().position(|(asked, _)| *asked == tag);
                if let Some((_, face)) = asked.map(|place| relay.asked.swap_remove(place)) {
                    self.fail_face(face, &why.to_string());
                }
            }
            RelayEvent::Refused(None, why) => self.relay_failed(i, &why.to_string()),
            RelayEvent::Observed { address, by } => {
                let by_second = by == Port::Second;
                self.tell_candidates_again();
                self.tell_of_relay(i, RelayNews::Observed { address, by_second });
            }
            RelayEvent::Reached(_) => {}
            RelayEvent::Lost => {
                tracing::debug!(relay = %relay.named_at(), "relay answers no more");
                if relay.is_kept() && matches!(relay.stage, Stage::Resting) {
                    self.dial_relay(i);
                } else if let Stage::Talking { link, .. } = relay.stage {
                    self.hang_up(&Transport::Link(link));
                }
            }
        }
    }

    fn tell_of_relay(&mut self, i: usize, what: RelayNews) {
        let relay = &self.net.reaching.relays[i];
        let (relay, at) = (relay.uses.key, relay.named_at());
        tracing::debug!(%at, ?what, "relay");
        self.net.pending.push_back(EngineEvent::Relay { relay, at, what });
    }

    /// Ends the link to a relay that has answered everything. Over TCP it stays: the connection would end with it.
    fn rest_relay(&mut self, _now: Duration, i: usize) {
        let relay = &mut self.net.reaching.relays[i];
        let Stage::Talking { link, registered: true, ref unsent, .. } = relay.stage else { return };
        let over_udp = relay.at.is_some_and(|at| relay.uses.udp.contains(&at));
        if over_udp && unsent.is_empty() && relay.asked.is_empty() && relay.wanted.is_empty() {
            relay.stage = Stage::Resting;
            self.net.endpoint.close(link);
        }
    }

    fn relay_link_ended(&mut self, i: usize, link: LinkId, why: &str) {
        let relay = &mut self.net.reaching.relays[i];
        let ways = relay.ways();
        match &mut relay.stage {
            Stage::Resting => {}
            Stage::Dialling { links, taken, next, .. } => {
                links.retain(|other| *other != link);
                *next = Duration::ZERO;
                if links.is_empty() && *taken >= ways {
                    self.relay_failed(i, why);
                }
            }
            Stage::Talking { .. } => self.relay_failed(i, why),
        }
    }

    /// A relay is of no use for now.
    fn relay_failed(&mut self, i: usize, why: &str) {
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
