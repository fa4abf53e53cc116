//! Links of our dials beside the one that a face has: further answers to a dial that expects no key, and the link that
//! replaces a silent one.
//!
//! A restarted peer sends no reset to peers that it no longer knows, because a reset would reveal it to strangers. So
//! the side that dialled finds out by itself.

use std::net::SocketAddr;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_link::{LinkId, PeerKey};
use xylem_mgmt::{FaceUri, Persistency};
use xylem_peers::reachable::PeerAddress;

use super::Engine;
use crate::faces::{EngineFace, Transport};

/// How long a dial may have answers.
pub(super) const ANSWERS: Duration = Duration::from_secs(12);

impl Engine {
    /// Takes a link of our dial that is up and that no face has.
    pub(super) fn take_extra_link(&mut self, link: LinkId, dial: LinkId) {
        if let Some(id) = self.net.standbys.remove(&link) {
            match self.net.faces.replace_transport(id, Transport::Link(link)) {
                Some(silent) => self.close_transport(&silent),
                None => self.net.endpoint.close(link),
            }
        } else if let Some((_, peer)) = self.net.keyless.get(&dial) {
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

    /// Dials a dialled peer anew that does not answer pings: permanent faces at once, others with a second link beside
    /// the silent one. The silent link stays if it receives something first.
    pub(super) fn redial_silent(&mut self, now: Duration) {
        let net = &mut self.net;
        net.keyless.retain(|_, (until, _)| now < *until);
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
        let needless = |id: &FaceId| !silent.iter().any(|(silent, ..)| silent == id);
        for link in net.standbys.extract_if(|_, id| needless(id)).map(|(link, _)| link) {
            net.endpoint.close(link);
        }
        for (id, address, key) in silent {
            if self.face(id).is_some_and(|face| face.persistency == Persistency::Permanent) {
                self.fail_face(id, "it stopped answering");
            } else if !self.net.standbys.values().any(|waits| *waits == id) {
                tracing::debug!(face = %id, %address, "the peer is silent; dialling it again");
                if let Some(PeerAddress::Relayed { relay, target, .. }) =
                    self.face(id).and_then(|face| face.peer.clone())
                {
                    // The relay may know the peer by another registration by now.
                    let _ = self.dial_through(id, relay, target, Some(key));
                    continue;
                }
                let link = self.net.endpoint.connect(now, address, Some(key));
                self.net.standbys.insert(link, id);
            }
        }
    }
}
