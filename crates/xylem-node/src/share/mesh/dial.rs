//! Where members are dialled, and when again.

use std::collections::HashSet;
use std::time::Duration;

use xylem_engine::Engine;
use xylem_forward::FaceId;
use xylem_library::folder::MeshNews;
use xylem_library::reachable::Peer;
use xylem_mgmt::Persistency;
use xylem_object::Ticket;
use xylem_reach::relay::Target;

use super::Mesh;
use crate::look_up::resolved;
use crate::reaching;

/// Pause before a member that is away is dialled again: this part of the time since it was last heard, so that a cut of a
/// minute is over two seconds after the network is, and who is away for days costs a few datagrams a minute.
const REDIAL_PART: u32 = 30;
const REDIAL: Duration = Duration::from_secs(1);
const LONGEST_REDIAL: Duration = Duration::from_secs(60);

/// Where a member is, and the ways there that are being tried.
pub(super) struct Dial {
    peers: Vec<Peer>,
    pub(super) faces: HashSet<FaceId>,
    pub(super) again: Option<Duration>,
    /// When it was last heard, or heard of at a new place.
    heard: Duration,
    /// It has spoken on the stream that is open; whoever is refused hears nothing.
    pub(super) speaks: bool,
}

impl Dial {
    /// It is dialled again after a while, unless it is being dialled.
    fn put_off(&mut self, now: Duration) {
        if self.faces.is_empty() && self.again.is_none() {
            let away = now.saturating_sub(self.heard);
            self.again = Some(now + (away / REDIAL_PART).clamp(REDIAL, LONGEST_REDIAL));
        }
    }
}

impl Mesh {
    /// Dials whoever has this link key, where the ticket says that it is.
    pub(super) fn dial_at(&mut self, engine: &mut Engine, key: [u8; 32], ticket: &Ticket) {
        if key == engine.link_key().0 {
            return;
        }
        let mut peers: Vec<Peer> = resolved(&ticket.addresses)
            .0
            .into_iter()
            .map(|address| Peer::Link { address, key: Some(key) })
            .collect();
        if let Some(relay) = ticket.relay.clone()
            && let Ok(relay) = reaching::to_dial(&relay.into())
            && engine.use_relay(relay.clone()).is_ok()
        {
            peers.extend(reaching::through(&relay, Some(key), Target::Key(key)));
        }
        let now = engine.now();
        let dial = self.dials.entry(key).or_insert_with(|| Dial {
            peers: Vec::new(),
            faces: HashSet::new(),
            again: Some(now),
            heard: now,
            speaks: false,
        });
        if dial.peers != peers {
            // It is somewhere else now.
            dial.heard = now;
            dial.again = dial.again.map(|_| now);
            dial.peers = peers;
        }
    }

    /// A way to a member is gone: where it was the last one another is looked for.
    pub(super) fn lost(&mut self, now: Duration, key: [u8; 32], was_up: bool) {
        if self.is_up(&key) {
            return;
        }
        if was_up {
            let _ = self.news.send(MeshNews::Up(key, false));
        }
        if let Some(dial) = self.dials.get_mut(&key) {
            // Up to now it was there, however long it had nothing to say.
            if std::mem::take(&mut dial.speaks) {
                dial.heard = now;
            }
            dial.put_off(now);
        }
    }

    /// Dials whoever is away and whose time has come.
    pub(super) fn dial_who_is_away(&mut self, engine: &mut Engine, now: Duration) {
        let up: HashSet<[u8; 32]> =
            self.streams.values().filter(|s| s.admitted).map(|s| s.key).collect();
        // Whoever dials begins with its own statement, or is refused.
        let speaks = self.said.is_some();
        for (key, dial) in self.dials.iter_mut().filter(|_| speaks) {
            if dial.again.is_none_or(|again| again > now) {
                continue;
            }
            dial.again = None;
            if up.contains(key) {
                continue;
            }
            let dialled = dial
                .peers
                .iter()
                .filter_map(|peer| engine.dial(peer, Persistency::Persistent).ok());
            dial.faces.extend(dialled);
            dial.put_off(now);
        }
    }
}
