//! Where members are dialled, and when again.

use std::collections::BTreeSet;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_library::folder::MeshNews;
use xylem_library::reachable::Peer;
use xylem_object::Ticket;

use super::Mesh;
use super::links::Links;

/// Pause before a member that is away is dialled again: this part of the time since it was last heard, so that a cut of a
/// minute is over two seconds after the network is, and who is away for days costs a few datagrams a minute.
const REDIAL_PART: u32 = 30;
const REDIAL: Duration = Duration::from_secs(1);
const LONGEST_REDIAL: Duration = Duration::from_secs(60);

/// Where a member is, and the ways there that are being tried.
pub(super) struct Dial {
    peers: Vec<Peer>,
    pub(super) faces: BTreeSet<FaceId>,
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
    pub(super) fn dial_at(&mut self, links: &mut dyn Links, key: [u8; 32], ticket: &Ticket) {
        if key == links.own_key() {
            return;
        }
        let peers = links.ways(ticket, key);
        let now = links.now();
        let dial = self.dials.entry(key).or_insert_with(|| Dial {
            peers: Vec::new(),
            faces: BTreeSet::new(),
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
    pub(super) fn dial_who_is_away(&mut self, links: &mut dyn Links, now: Duration) {
        let up: BTreeSet<[u8; 32]> =
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
            dial.faces.extend(dial.peers.iter().filter_map(|peer| links.dial(peer)));
            dial.put_off(now);
        }
    }
}
