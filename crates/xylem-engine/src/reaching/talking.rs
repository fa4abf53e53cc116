//! The exchange with a relay: requests and answers over its link, and events of its client.

use std::net::SocketAddr;
use std::time::Duration;

use xylem_link::{LinkEvent, LinkId, StreamId, StreamRead, purpose};
use xylem_reach::relay::{RelayEvent, RelayPort};

use super::state::{CircuitState, PeerCircuit, RelayLinkState, RelayNotice};
use crate::faces::Transport;
use crate::{Engine, EngineEvent};

/// Pause before a relay that has lost its state is asked again for a peer that it does not have yet.
const ASK_AGAIN: Duration = Duration::from_millis(400);

/// Least pause before a relay that has refused the registration is dialled again.
const REFUSED: Duration = Duration::from_secs(1);

impl Engine {
    /// Asks for all wanted peers, and dials each right after its request: the relay can serve the request when the
    /// first datagram arrives.
    pub(super) fn request_circuits(&mut self, i: usize) {
        let now = self.now();
        let wanted = std::mem::take(&mut self.net.reaching.relays[i].wanted);
        for (face, target, key) in wanted {
            // The face may have ended meanwhile.
            let Some(peer) = self.face(face).and_then(|face| face.peer.clone()) else { continue };
            let relay = &mut self.net.reaching.relays[i];
            let (tag, question) = relay.client.connect(target);
            relay.circuits.push(PeerCircuit { tag, face, target, answer: CircuitState::Waits });
            if let RelayLinkState::Talking { unsent, .. } = &mut relay.stage {
                unsent.extend_from_slice(&question);
            }
            self.write_relay(i);
            // Links take turns: without a flush the dial would overtake the request.
            self.flush_links();
            let address = self.net.reaching.address(i, tag);
            let link = self.net.connect_link(now, address, key);
            self.net.beside.note_dial(now, link, &peer);
            match self.face(face).map(|face| &face.transport) {
                Some(Transport::Down(_)) => {
                    self.net.faces.replace_transport(face, Transport::Link(link));
                }
                // The face still has a link, which is silent.
                _ => self.net.beside.add_standby(link, face),
            }
        }
    }

    /// Asks again for peers that the relay may have lost with its state. Their tags stay the same, so that their links
    /// go on.
    pub(super) fn request_lost_circuits(&mut self, i: usize) {
        let faces = &self.net.faces;
        let relay = &mut self.net.reaching.relays[i];
        relay.asks_again = None;
        relay.circuits.retain(|one| faces.get(one.face).is_some());
        let lost = relay.circuits.iter().filter(|one| one.answer == CircuitState::Lost);
        let asked = lost.flat_map(|one| relay.client.connect_again(one.tag, one.target));
        let asked: Vec<u8> = asked.collect();
        if let RelayLinkState::Talking { unsent, .. } = &mut relay.stage {
            unsent.extend_from_slice(&asked);
        }
        self.write_relay(i);
    }

    pub(super) fn write_relay(&mut self, i: usize) {
        let relay = &mut self.net.reaching.relays[i];
        let RelayLinkState::Talking { link, stream, unsent, .. } = &mut relay.stage else { return };
        if let Ok(written) = self.net.endpoint.write_stream(*link, *stream, unsent) {
            unsent.drain(..written);
        }
    }

    /// Handles an event of a relay's link; returns whether it was one.
    pub(crate) fn handle_relay_link_event(&mut self, now: Duration, event: &LinkEvent) -> bool {
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
        let is_former = relays[i].former_link() == Some(*link);
        match event {
            LinkEvent::Connected { remote, .. } => self.relay_answers(i, *link, *remote),
            LinkEvent::Closed { reason, .. } => {
                let now = self.now();
                self.net.carriers.release(now, *link);
                self.relay_link_ended(i, *link, &reason.to_string());
            }
            LinkEvent::StreamReadable { stream, .. } => {
                self.receive_from_relay(now, i, *link, *stream)
            }
            LinkEvent::StreamWritable { .. } => self.write_relay(i),
            LinkEvent::StreamReset { .. } | LinkEvent::StreamStopped { .. } if is_former => {
                self.drop_former(i);
            }
            LinkEvent::StreamReset { .. } | LinkEvent::StreamStopped { .. } => {
                self.relay_failed(i, "it is not a relay, or it does not serve this peer");
            }
            _ => {}
        }
        true
    }

    /// Takes an established link to a relay; its other dials are closed.
    pub(super) fn relay_answers(&mut self, i: usize, link: LinkId, remote: SocketAddr) {
        let relay = &mut self.net.reaching.relays[i];
        let RelayLinkState::Dialling { links, .. } = &mut relay.stage else { return };
        let others: Vec<LinkId> =
            links.drain(..).map(|dial| dial.link).filter(|other| *other != link).collect();
        let stream = self.net.endpoint.open_stream(link, purpose::REACH);
        others.into_iter().for_each(|other| self.close_transport(&Transport::Link(other)));
        self.drop_former(i);
        let Ok(stream) = stream else { return self.relay_failed(i, "it accepts no streams") };
        let relay = &mut self.net.reaching.relays[i];
        relay.client.new_stream();
        let unsent = relay.client.request();
        relay.stage = RelayLinkState::Talking { link, stream, unsent, registered: false };
        self.set_way(i, Some(remote));
        self.write_relay(i);
        self.request_circuits(i);
    }

    /// Sets the address for the datagrams of a relay, in both directions.
    pub(super) fn set_way(&mut self, i: usize, at: Option<SocketAddr>) {
        let reaching = &mut self.net.reaching;
        let relay = &mut reaching.relays[i];
        relay.at = at;
        relay.client.set_connected(at.is_some() && !relay.is_over_udp());
        let second = reaching.relays[i].second();
        reaching.sources.retain(|(_, of, _)| *of != i);
        reaching.sources.extend(at.map(|at| (at, i, false)));
        reaching.sources.extend(second.map(|at| (at, i, true)));
    }

    fn receive_from_relay(&mut self, now: Duration, i: usize, link: LinkId, stream: StreamId) {
        while let Ok(StreamRead::Data(bytes)) = self.net.endpoint.read_stream(link, stream) {
            if let Err(e) = self.net.reaching.relays[i].client.handle_control(now, &bytes) {
                return self.relay_failed(i, &e.to_string());
            }
        }
        self.drain_relays(now);
    }

    /// Handles the events of relays' clients.
    pub(crate) fn drain_relays(&mut self, now: Duration) {
        for i in 0..self.net.reaching.relays.len() {
            while let Some(event) = self.net.reaching.relays[i].client.poll_event() {
                self.relay_event(i, event);
            }
            self.end_idle_relay_link(now, i);
        }
    }

    fn relay_event(&mut self, i: usize, event: RelayEvent) {
        let relay = &mut self.net.reaching.relays[i];
        match event {
            // It was left meanwhile, and is told so.
            RelayEvent::Registered { .. } if relay.client.leaves() => {}
            RelayEvent::Registered { code } => {
                if let RelayLinkState::Talking { registered, .. } = &mut relay.stage {
                    *registered = true;
                }
                (relay.was_registered, relay.lost) = (true, None);
                let stood =
                    relay.circuits.iter_mut().filter(|one| one.answer == CircuitState::Stands);
                stood.for_each(|one| one.answer = CircuitState::Lost);
                let at = relay.at;
                let over_tcp = at.is_some_and(|at| !relay.uses.udp.contains(&at));
                self.set_way(i, at);
                self.tell_of_relay(i, RelayNotice::Registered { code, over_tcp });
                self.request_lost_circuits(i);
            }
            RelayEvent::Connected(tag) => {
                let mut of_tag = relay.circuits.iter_mut().filter(|one| one.tag == tag);
                of_tag.by_ref().for_each(|one| one.answer = CircuitState::Stands);
            }
            RelayEvent::Refused(Some(tag), why) => {
                let asked = relay.circuits.iter().position(|one| one.tag == tag);
                let Some(place) = asked else { return };
                if relay.circuits[place].answer == CircuitState::Lost {
                    // The other peer has lost the relay as well, and returns to it as this end does.
                    relay.asks_again = Some(self.net.clock.now() + ASK_AGAIN);
                    return;
                }
                let face = relay.circuits.swap_remove(place).face;
                self.fail_face(face, why);
            }
            RelayEvent::Refused(None, why) => {
                self.relay_failed(i, &why.to_string());
                // It is there: asking it sooner would not help.
                let least = self.net.clock.now() + REFUSED;
                let relay = &mut self.net.reaching.relays[i];
                relay.again = relay.again.map(|at| at.max(least));
            }
            RelayEvent::Observed { address, by } => {
                let by_second = by == RelayPort::Second;
                self.announce_candidates_again();
                self.tell_of_relay(i, RelayNotice::Observed { address, by_second });
            }
            RelayEvent::Reached(_) => {}
            RelayEvent::Silent => match relay.stage {
                RelayLinkState::Resting if relay.is_kept() => self.dial_relay(i),
                // The connection may be slow only. It stays, and the first way that answers is used.
                RelayLinkState::Talking { registered: true, .. } if !relay.is_over_udp() => {
                    let former = std::mem::replace(&mut relay.stage, RelayLinkState::Resting);
                    relay.former = Some(former);
                    self.dial_relay(i);
                }
                _ => {}
            },
            RelayEvent::Answers => self.resume_former(i),
            RelayEvent::Lost => {
                tracing::debug!(relay = %relay.display_address(), "relay no longer answers");
                self.drop_former(i);
                let relay = &self.net.reaching.relays[i];
                if relay.is_kept() && matches!(relay.stage, RelayLinkState::Resting) {
                    self.dial_relay(i);
                } else if let RelayLinkState::Talking { link, .. } = relay.stage {
                    self.close_transport(&Transport::Link(link));
                }
            }
        }
    }

    pub(super) fn tell_of_relay(&mut self, i: usize, what: RelayNotice) {
        let relay = &self.net.reaching.relays[i];
        let (relay, at) = (relay.uses.key, relay.display_address());
        tracing::debug!(%at, ?what, "relay");
        self.net.pending.push(EngineEvent::Relay { relay, at, what });
    }

    /// Ends the link to a relay that has answered everything. Over TCP it stays: the connection would end with it.
    fn end_idle_relay_link(&mut self, _now: Duration, i: usize) {
        let relay = &mut self.net.reaching.relays[i];
        let RelayLinkState::Talking { link, registered: true, ref unsent, .. } = relay.stage else {
            return;
        };
        if relay.is_over_udp() && unsent.is_empty() && relay.is_answered() {
            relay.stage = RelayLinkState::Resting;
            self.net.endpoint.close(link);
        }
    }

    fn relay_link_ended(&mut self, i: usize, link: LinkId, why: &str) {
        let relay = &mut self.net.reaching.relays[i];
        if relay.former_link() == Some(link) {
            relay.former = None;
            return;
        }
        let (now, ways) = (self.net.clock.now(), relay.ways());
        let pause = match relay.stage {
            RelayLinkState::Dialling { .. } => relay.pause(now),
            _ => Duration::ZERO,
        };
        let over_udp = relay.uses.udp.len();
        match &mut relay.stage {
            RelayLinkState::Resting => {}
            RelayLinkState::Dialling { links, taken, next, .. } => {
                links.retain(|other| other.link != link);
                *next = Duration::ZERO;
                if *taken < ways {
                    return;
                }
                if links.is_empty() {
                    self.relay_failed(i, why);
                } else if ways > over_udp && !links.iter().any(|other| other.over_tcp) {
                    // Connections are refused at once where the relay restarts. Dials over UDP are silent for ten seconds.
                    (*taken, *next) = (over_udp, now + pause);
                }
            }
            RelayLinkState::Talking { .. } => self.relay_failed(i, why),
        }
    }
}
