//! [`UsedRelay`]: one registration with one relay, and the link over which it is made.
//!
//! The link is dialled at all of the relay's addresses over UDP and, if these stay silent, within TCP. It ends once the
//! relay has answered everything. Over TCP it stays, because the connection would end with it.

use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_link::{BASE_DATAGRAM, PeerKey};
use xylem_peers::reachable::PeerAddress;
use xylem_reach::relay::{ConnectTarget, HEADER, VouchedName};
use xylem_sockets::CarrierDial;

use super::state::{
    CircuitState, MAX_RELAYS, RelayDial, RelayLinkState, RelayNotice, RelayUse, UsedRelay,
};
use crate::dialling::wildcard;
use crate::faces::Transport;
use crate::{Engine, FaceEnd};

/// Time between two dials of one relay.
const BETWEEN: Duration = Duration::from_millis(50);
/// Pause before a relay with a link that is still in use is dialled anew.
const BUSY: Duration = Duration::from_millis(500);
/// Most addresses of each kind that a relay may get.
const MAX_RELAY_ADDRESSES: usize = 8;
/// How long UDP may be silent before TCP is tried too.
const UDP_FIRST: Duration = Duration::from_millis(700);
/// Datagram size that UDP has to carry to be a way to a relay, in bytes: the smallest datagrams that a link fills, with
/// a header. IPv6 guarantees less, so a registration alone could succeed where nothing else passes.
const ROOM: usize = BASE_DATAGRAM + HEADER;
/// The most that UDP carries over IPv4 where packets have 1,280 bytes, as in many tunnels. Over IPv6 even the smallest
/// of these initials does not pass there, so the range of lengths is as wide as in other dials.
const MOST_V4: usize = 1_280 - 28;
const MOST_V6: usize = ROOM + 32;

/// The lengths of initials to a relay, in bytes.
fn room(relay: SocketAddr) -> RangeInclusive<usize> {
    ROOM..=if relay.ip().to_canonical().is_ipv4() { MOST_V4 } else { MOST_V6 }
}

impl Engine {
    /// Uses a relay. One that is in use already gets no second registration; it gets the further addresses, and the further
    /// names if it is to listen. Returns whether it is a new one, or one that was left or used for dials alone and is to listen
    /// now.
    ///
    /// # Errors
    /// Too many relays, or a system without randomness.
    pub fn use_relay(&mut self, uses: RelayUse) -> io::Result<bool> {
        let reaching = &self.net.reaching;
        if let Some(i) = reaching.relays.iter().position(|relay| relay.uses.key == uses.key) {
            return Ok(self.use_relay_more(i, uses));
        }
        if reaching.relays.len() >= MAX_RELAYS || uses.udp.len() + uses.tcp.len() == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let secret = xylem_base::random().map_err(io::Error::other)?;
        let listens = uses.listens;
        let own = self.net.endpoint.public_key().0;
        self.net.reaching.relays.push(UsedRelay::new(uses, secret, &own));
        if listens {
            self.dial_relay(self.net.reaching.relays.len() - 1);
        }
        Ok(true)
    }

    fn use_relay_more(&mut self, i: usize, uses: RelayUse) -> bool {
        let now = self.now();
        let relay = &mut self.net.reaching.relays[i];
        let RelayUse { udp, tcp, listens, names, .. } = uses;
        let known = &mut relay.uses;
        for at in udp {
            if known.udp.len() < MAX_RELAY_ADDRESSES && !known.udp.contains(&at) {
                known.udp.push(at);
            }
        }
        for way in tcp {
            if known.tcp.len() < MAX_RELAY_ADDRESSES && !known.tcp.contains(&way) {
                known.tcp.push(way);
            }
        }
        if !listens {
            return false;
        }
        let begins = !std::mem::replace(&mut known.listens, true);
        let of_more =
            |name: &VouchedName| known.names.iter().all(|it| it.publisher != name.publisher);
        let more: Vec<VouchedName> = names.into_iter().filter(of_more).collect();
        if begins || !more.is_empty() {
            known.names.extend(more);
            relay.client.listen_as(known.names.clone());
            // The request goes over a link of its own.
            relay.again = Some(now);
        }
        begins
    }

    /// Ends the registration with a relay, and dials it no more for its own sake. Peers that were dialled through it stay.
    pub fn leave_relay(&mut self, key: &[u8; 32]) {
        let now = self.now();
        let relays = &mut self.net.reaching.relays;
        if let Some(relay) = relays.iter_mut().find(|relay| relay.uses.key == *key) {
            (relay.uses.listens, relay.was_registered, relay.again) = (false, false, None);
            relay.client.deregister(now);
        }
    }

    /// Dials a peer through a relay: asks the relay first, if it has not been asked yet.
    pub(crate) fn dial_through(
        &mut self,
        face: FaceId,
        relay: [u8; 32],
        target: ConnectTarget,
        key: Option<PeerKey>,
    ) -> io::Result<()> {
        let relays = &mut self.net.reaching.relays;
        let Some(i) = relays.iter().position(|known| known.uses.key == relay) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such relay"));
        };
        if relays[i].wanted.iter().all(|(waits, ..)| *waits != face) {
            relays[i].wanted.push((face, target, key));
        }
        match relays[i].stage {
            RelayLinkState::Resting => self.dial_relay(i),
            RelayLinkState::Dialling { .. } => {}
            RelayLinkState::Talking { .. } => self.request_circuits(i),
        }
        Ok(())
    }

    pub(super) fn dial_relay(&mut self, i: usize) {
        let now = self.now();
        let relay = &mut self.net.reaching.relays[i];
        relay.again = None;
        relay.stage =
            RelayLinkState::Dialling { links: Vec::new(), began: now, next: now, taken: 0 };
        self.dial_relay_on(now, i);
    }

    /// Dials the next addresses of a relay that are due.
    fn dial_relay_on(&mut self, now: Duration, i: usize) {
        loop {
            let relay = &mut self.net.reaching.relays[i];
            let key = Some(PeerKey(relay.uses.key));
            // Where UDP was silent before, it probably is now.
            let udp_first = if relay.is_over_tcp() { Duration::ZERO } else { UDP_FIRST };
            let RelayUse { udp, tcp, .. } = &relay.uses;
            let RelayLinkState::Dialling { links, began, next, taken } = &mut relay.stage else {
                return;
            };
            if now < *next || *taken >= udp.len() + tcp.len() {
                return;
            }
            let way = *taken;
            // Nothing is tried over TCP while UDP may still answer.
            let over_tcp = way >= udp.len();
            if over_tcp && !links.is_empty() && now < *began + udp_first {
                *next = *began + udp_first;
                return;
            }
            (*taken, *next) = (way + 1, now + BETWEEN);
            let link = match (udp.get(way).copied(), tcp.get(way.saturating_sub(udp.len()))) {
                (Some(address), _) => {
                    let bound = self.net.link_sockets.socket_for(address).is_some()
                        || self.bind_link(wildcard(address)).is_ok();
                    bound.then(|| {
                        self.net.endpoint.connect_with_room(now, address, key, &room(address))
                    })
                }
                (None, Some(PeerAddress::Carried { carrier, address, name, .. })) => {
                    let (carrier, address, name) = (*carrier, *address, name.clone());
                    let to = CarrierDial { carrier, address, name: name.as_deref() };
                    match self.connect_carrier(to, key) {
                        Ok(Transport::Link(link)) => Some(link),
                        _ => None,
                    }
                }
                _ => None,
            };
            match (link, &mut self.net.reaching.relays[i].stage) {
                (Some(link), RelayLinkState::Dialling { links, .. }) => {
                    links.push(RelayDial { link, over_tcp });
                }
                // A dial that the system refuses counts as silent.
                (_, RelayLinkState::Dialling { next, .. }) => *next = now,
                _ => {}
            }
        }
    }

    /// Runs the timers that are due.
    pub(crate) fn relay_timers(&mut self, now: Duration) {
        for i in 0..self.net.reaching.relays.len() {
            let relay = &mut self.net.reaching.relays[i];
            relay.client.handle_timeout(now);
            if relay.again.is_some_and(|at| at <= now) {
                match relay.stage {
                    RelayLinkState::Resting => self.dial_relay(i),
                    // This link has its request already. Over UDP it ends soon; over TCP it stays, without the further names.
                    _ => relay.again = relay.is_over_udp().then_some(now + BUSY),
                }
            }
            if self.net.reaching.relays[i].asks_again.is_some_and(|at| at <= now) {
                self.request_lost_circuits(i);
            }
            self.dial_relay_on(now, i);
            let relay = &self.net.reaching.relays[i];
            let over = match &relay.stage {
                RelayLinkState::Dialling { links, taken, .. } => {
                    links.is_empty() && *taken >= relay.ways()
                }
                _ => false,
            };
            if over {
                self.relay_failed(i, "none of its addresses can be dialled");
            }
        }
        self.close_sockets(now);
        self.drain_relays(now);
    }

    /// Handles the failure of a relay: it is tried again later.
    pub(super) fn relay_failed(&mut self, i: usize, why: &str) {
        let now = self.now();
        let relay = &mut self.net.reaching.relays[i];
        let mut links = match std::mem::replace(&mut relay.stage, RelayLinkState::Resting) {
            RelayLinkState::Resting => Vec::new(),
            RelayLinkState::Dialling { links, .. } => links.iter().map(|dial| dial.link).collect(),
            RelayLinkState::Talking { link, .. } => vec![link],
        };
        links.extend(relay.former_link());
        relay.former = None;
        let mut faces: Vec<FaceId> = relay.wanted.drain(..).map(|(face, ..)| face).collect();
        let waits = relay.circuits.extract_if(.., |one| one.answer == CircuitState::Waits);
        faces.extend(waits.map(|one| one.face));
        relay.asks_again = None;
        if relay.is_kept() {
            relay.schedule_redial(now);
        }
        let at = relay.display_address().to_string();
        links.into_iter().for_each(|link| self.close_transport(&Transport::Link(link)));
        for face in faces {
            self.fail_face(face, FaceEnd::RelayFailed { at: at.clone(), why: why.to_owned() });
        }
        self.tell_of_relay(i, RelayNotice::Failed { why: why.to_owned() });
    }

    /// Closes the silent connection to a relay, if it is dialled anew.
    pub(super) fn drop_former(&mut self, i: usize) {
        let relay = &mut self.net.reaching.relays[i];
        let link = relay.former_link();
        relay.former = None;
        if let Some(link) = link {
            self.close_transport(&Transport::Link(link));
        }
    }

    /// Uses the connection again that was silent for a while; the dials beside it end.
    pub(super) fn resume_former(&mut self, i: usize) {
        let relay = &mut self.net.reaching.relays[i];
        let Some(former) = relay.former.take() else { return };
        let dials = match std::mem::replace(&mut relay.stage, former) {
            RelayLinkState::Dialling { links, .. } => links,
            _ => Vec::new(),
        };
        dials.into_iter().for_each(|dial| self.close_transport(&Transport::Link(dial.link)));
        self.write_relay(i);
        self.request_circuits(i);
    }

    /// Handles a wake-up of the machine: relays may have dropped this end, and ways to them may be gone.
    pub(crate) fn on_wake(&mut self) {
        let now = self.now();
        for i in 0..self.net.reaching.relays.len() {
            let relay = &mut self.net.reaching.relays[i];
            match relay.stage {
                RelayLinkState::Resting if relay.is_kept() => self.dial_relay(i),
                _ => relay.client.refresh(now),
            }
        }
    }

    /// Informs relays that this end leaves.
    pub(crate) fn leave_relays(&mut self) {
        let now = self.now();
        self.net.reaching.relays.iter_mut().for_each(|relay| relay.client.deregister(now));
    }
}

#[cfg(test)]
mod tests {
    use xylem_reach::code::meeting_publisher;

    use super::*;
    use crate::testing::{engine, until};

    const RELAY: [u8; 32] = [7; 32];

    fn uses(engine: &Engine, listens: bool, publishers: &[u8], port: u16) -> RelayUse {
        let own = engine.link_key().0;
        let name = |seed: &u8| {
            let publisher = meeting_publisher(u32::from(*seed), 0);
            VouchedName { publisher: publisher.public(), vouch: publisher.vouch(&own) }
        };
        RelayUse {
            key: RELAY,
            udp: vec![SocketAddr::from(([127, 0, 0, 1], port))],
            tcp: Vec::new(),
            listens,
            names: publishers.iter().map(name).collect(),
            wants_code: false,
            token: None,
        }
    }

    /// A share uses one relay for its user, for a code and for several tickets, and may leave it and come back.
    #[test]
    fn a_relay_in_use_gets_what_else_is_needed_of_it() {
        let mut engine = engine(9);
        let of = |engine: &Engine| {
            let [relay] = &engine.net.reaching.relays[..] else { panic!("one relay") };
            (relay.uses.listens, relay.uses.names.len(), relay.uses.udp.len(), relay.is_kept())
        };
        for (listens, names, port, is_new, then) in [
            (false, &[][..], 1, true, (false, 0, 1, false)),
            (true, &[1], 1, true, (true, 1, 1, true)),
            // An address that a liar has claimed for this key does not keep the right one out.
            (true, &[1], 2, false, (true, 1, 2, true)),
            (true, &[2], 2, false, (true, 2, 2, true)),
            (false, &[3], 2, false, (true, 2, 2, true)),
        ] {
            let more = uses(&engine, listens, names, port);
            assert_eq!(engine.use_relay(more).expect("it has room"), is_new, "{names:?} {port}");
            assert_eq!(of(&engine), then, "{names:?} {port}");
        }
        engine.leave_relay(&RELAY);
        assert_eq!(of(&engine), (false, 2, 2, false));
        let again = uses(&engine, true, &[1], 1);
        assert!(engine.use_relay(again).expect("it has room"));
        assert_eq!(of(&engine), (true, 2, 2, true));
    }

    /// A relay on TCP that restarts, in a network where UDP is silent: connections are tried again while dials over UDP wait.
    #[test]
    fn connections_to_a_relay_are_tried_while_udp_is_silent() {
        let mut engine = engine(9);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        // It takes datagrams and answers none.
        let silent = std::net::UdpSocket::bind(at).unwrap();
        let mut wanted = uses(&engine, true, &[1], silent.local_addr().unwrap().port());
        let carrier = xylem_mgmt::Carrier::SecureWebSocket;
        wanted.tcp = vec![PeerAddress::Carried { carrier, address: at, name: None, key: None }];
        engine.use_relay(wanted).unwrap();
        let dialled = |engine: &Engine| match engine.net.reaching.relays[0].stage {
            RelayLinkState::Dialling { began, .. } => began,
            _ => panic!("it is dialled"),
        };
        let (first, accepted) = (dialled(&engine), std::cell::Cell::new(0));
        // Each connection ends at once.
        let count = || accepted.set(accepted.get() + usize::from(listener.accept().is_ok()));
        until(&mut [&mut engine], count, |engines, _| {
            assert_eq!(dialled(engines[0]), first, "all was dialled anew");
            accepted.get() > 2
        });
    }

    /// Where UDP was silent before, a relay that is dialled again is tried over TCP at once.
    #[test]
    fn tcp_waits_for_udp_only_where_that_may_work() {
        let mut engine = engine(9);
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut wanted = uses(&engine, false, &[1], silent.local_addr().unwrap().port());
        let carrier = xylem_mgmt::Carrier::SecureWebSocket;
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        wanted.tcp = vec![PeerAddress::Carried { carrier, address, name: None, key: None }];
        engine.use_relay(wanted).unwrap();
        let mut taken_after = |at: Option<SocketAddr>| {
            engine.net.reaching.relays[0].at = at;
            engine.dial_relay(0);
            let began = engine.now();
            engine.dial_relay_on(began + BETWEEN, 0);
            match engine.net.reaching.relays[0].stage {
                RelayLinkState::Dialling { taken, .. } => taken,
                _ => panic!("it is dialled"),
            }
        };
        assert_eq!(taken_after(None), 1);
        assert_eq!(taken_after(silent.local_addr().ok()), 1);
        assert_eq!(taken_after(Some(SocketAddr::from(([1; 8], 1)))), 2);
    }
}
