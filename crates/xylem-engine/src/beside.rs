//! Links of our dials beside the one that a face has: further answers to a dial that expects no key, and the link that
//! replaces a silent one.
//!
//! A restarted peer sends no reset to peers that it no longer knows, because a reset would reveal it to strangers. So
//! the side that dialled finds out by itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_link::{CloseReason, LinkId, PeerKey, purpose};
use xylem_mgmt::{FaceUri, Persistency};
use xylem_peers::reachable::PeerAddress;

use super::Engine;
use crate::faces::{EngineFace, Transport};

/// How long a dial may have answers.
const ANSWERS: Duration = Duration::from_secs(12);

/// What this end's dials are for, beside the link that each face has.
#[derive(Default)]
pub(super) struct LinksBeside {
    /// What dials without a key use to get an answer.
    knock: Option<[u8; 32]>,
    /// Dials by the knock: until when further answers are accepted, and the dialled peer.
    keyless: HashMap<LinkId, (Duration, PeerAddress)>,
    /// Dials of peers that have a silent link, with the silent link's face.
    standbys: HashMap<LinkId, FaceId>,
}

impl LinksBeside {
    pub(super) fn set_knock(&mut self, knock: [u8; 32]) {
        self.knock = Some(knock);
    }

    /// The knock for dials without a key. With one, the program judges all answers; without, the first is kept.
    pub(super) fn knock(&self) -> Option<&[u8; 32]> {
        self.knock.as_ref()
    }

    /// Records a dial, so that further answers are accepted for a while if it expects no key.
    pub(super) fn note_dial(&mut self, now: Duration, link: LinkId, peer: &PeerAddress) {
        if peer.is_keyless() && self.knock.is_some() {
            self.keyless.insert(link, (now + ANSWERS, peer.clone()));
        }
    }

    /// The peer of a dial that still accepts further answers.
    fn expected_by(&self, dial: LinkId) -> Option<&PeerAddress> {
        self.keyless.get(&dial).map(|(_, peer)| peer)
    }

    /// Forgets dials after the time for their further answers.
    fn forget_old(&mut self, now: Duration) {
        self.keyless.retain(|_, (until, _)| now < *until);
    }

    /// Records a dial that is to replace the silent link of a face.
    pub(super) fn add_standby(&mut self, link: LinkId, face: FaceId) {
        self.standbys.insert(link, face);
    }

    /// Takes the face with the silent link that this one is to replace, when it has come up or ended.
    pub(super) fn take_standby(&mut self, link: LinkId) -> Option<FaceId> {
        self.standbys.remove(&link)
    }

    fn has_standby(&self, face: FaceId) -> bool {
        self.standbys.values().any(|waits| *waits == face)
    }

    /// Takes the dials for faces that are not silent any more.
    fn take_needless(
        &mut self,
        is_silent: impl Fn(FaceId) -> bool,
    ) -> impl Iterator<Item = LinkId> {
        self.standbys.extract_if(move |_, face| !is_silent(*face)).map(|(link, _)| link)
    }
}

impl Engine {
    /// Takes a link of our dial that is up and that no face has.
    pub(super) fn take_extra_link(&mut self, link: LinkId, dial: LinkId) {
        if let Some(id) = self.net.beside.take_standby(link) {
            if self.has_streams(id) {
                // The program on either end opened them on the silent link, and would wait for ever on a face that
                // seems to go on. It learns that they have ended, and dials again.
                self.net.endpoint.close(link);
                self.drop_face(id, CloseReason::Reset);
                return;
            }
            match self.net.faces.replace_transport(id, Transport::Link(link)) {
                Some(silent) => self.close_transport(&silent),
                None => self.net.endpoint.close(link),
            }
        } else if let Some(peer) = self.net.beside.expected_by(dial) {
            // The program judges whether the key is the right one, as it does for the first answer.
            let peer = peer.clone();
            let (remote, local) = (peer.face_uri(), FaceUri::Null);
            let mut face = EngineFace::new(Transport::Link(link), (&peer).into(), remote, local);
            face.peer = Some(peer);
            let id = self.add_face(face);
            self.came_up(id);
        } else {
            self.net.endpoint.close(link);
        }
    }

    fn has_streams(&self, face: FaceId) -> bool {
        let link = self.face(face).and_then(|face| match face.transport {
            Transport::Link(link) => self.net.endpoint.link(link),
            _ => None,
        });
        // The engine's own streams, to a peer that introduces, are opened again.
        link.is_some_and(|link| link.stream_purposes().any(|purpose| purpose != purpose::REACH))
    }

    /// Dials a dialled peer anew that does not answer pings: permanent faces at once, others with a second link beside
    /// the silent one. The silent link stays if it receives something first.
    pub(super) fn redial_silent(&mut self, now: Duration) {
        let net = &mut self.net;
        net.beside.forget_old(now);
        let silent = |(id, face): (FaceId, &EngineFace)| -> Option<(FaceId, SocketAddr, PeerKey)> {
            let (
                Transport::Link(link),
                Some(PeerAddress::Link { .. } | PeerAddress::Relayed { .. }),
            ) = (&face.transport, &face.peer)
            else {
                return None;
            };
            let up = net.endpoint.link(*link).filter(|up| up.is_silent(now))?;
            Some((id, up.remote(), up.peer()))
        };
        let silent: Vec<_> = net.faces.iter().filter_map(silent).collect();
        let is_silent = |id: FaceId| silent.iter().any(|(silent, ..)| *silent == id);
        for link in net.beside.take_needless(is_silent) {
            net.endpoint.close(link);
        }
        for (id, address, key) in silent {
            if self.face(id).is_some_and(|face| face.persistency == Persistency::Permanent) {
                self.fail_face(id, "it stopped answering");
            } else if !self.net.beside.has_standby(id) {
                tracing::debug!(face = %id, %address, "the peer is silent; dialling it again");
                if let Some(PeerAddress::Relayed { relay, target, .. }) =
                    self.face(id).and_then(|face| face.peer.clone())
                {
                    // The relay may know the peer by another registration by now.
                    let _ = self.dial_through(id, relay, target, Some(key));
                    continue;
                }
                let link = self.net.endpoint.connect(now, address, Some(key));
                self.net.beside.add_standby(link, id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use xylem_link::LinkConfig;

    use super::*;
    use crate::testing::{engine_at, until};
    use crate::{EngineEvent, event::FaceEnd};

    fn comes_up(event: &EngineEvent) -> bool {
        matches!(event, EngineEvent::FaceUp { .. })
    }

    /// A dialler with `opened` streams on its face. Its peer has just restarted with its key and at its address.
    fn restarted(opened: usize) -> (Engine, Engine, FaceId) {
        let config =
            || LinkConfig { keep_alive: Some(Duration::from_millis(500)), ..LinkConfig::default() };
        let any = "127.0.0.1:0".parse().expect("an address");
        let (mut dials, mut peer) = (engine_at(1, any, config()), engine_at(2, any, config()));
        let (address, key) = (peer.link_addresses()[0], peer.link_key().0);
        let to = PeerAddress::Link { address, key: Some(key) };
        let face = dials.dial(&to, Persistency::Persistent).expect("it is dialled");
        let both_up = |_: &mut [&mut Engine], events: &[EngineEvent]| {
            events.iter().filter(|event| comes_up(event)).count() == 2
        };
        until(&mut [&mut dials, &mut peer], || (), both_up);
        for _ in 0..opened {
            dials.open_stream(face, 7).expect("the link is up");
        }
        drop(peer);
        (dials, engine_at(2, address, config()), face)
    }

    #[test]
    fn a_face_without_streams_goes_on_when_its_peer_restarts() {
        let (mut dials, mut peer, face) = restarted(0);
        let mut events = Vec::new();
        until(
            &mut [&mut dials, &mut peer],
            || (),
            |engines, told| {
                events = told.iter().map(|event| format!("{event:?}")).collect();
                // Its side has a link again.
                let silent = engines[0].net.beside.standbys.len() == 1;
                !silent && told.iter().any(comes_up)
            },
        );
        assert!(!events.iter().any(|event| event.contains("FaceDown")), "{events:?}");
        assert!(dials.link_peer(face).is_some());
    }

    /// Otherwise the program writes to a stream that has no reader, on a face that seems to be up.
    #[test]
    fn streams_end_with_their_face_when_the_peer_restarts() {
        let (mut dials, mut peer, face) = restarted(1);
        until(
            &mut [&mut dials, &mut peer],
            || (),
            |_, events| {
                let mut down = events.iter().filter_map(|event| match event {
                    EngineEvent::FaceDown { face, why, gone, .. } => Some((*face, why, *gone)),
                    _ => None,
                });
                down.any(|(of, why, gone)| {
                    of == face && gone && matches!(why, FaceEnd::Link(CloseReason::Reset))
                })
            },
        );
        assert!(dials.link_peer(face).is_none());
    }
}
