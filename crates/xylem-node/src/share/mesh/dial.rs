//! Where members are dialled, and when again.

use std::collections::BTreeSet;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_library::folder::MeshNews;
use xylem_library::reachable::Peer;
use xylem_object::{PublisherId, Ticket};

use super::Mesh;
use super::links::Links;

/// Pause before a member that is away is dialled again: this part of the time since it was last heard, so that a cut of a
/// minute is over two seconds after the network is, and who is away for days costs a few datagrams a minute.
const REDIAL_PART: u32 = 30;
const REDIAL: Duration = Duration::from_secs(1);
const LONGEST_REDIAL: Duration = Duration::from_secs(60);

/// Where a member says that it is, and the ways there that are being tried.
pub(super) struct Dial {
    /// The key that links to it are to prove. Until one has, and has spoken for this member, that is a claim: it says
    /// where this member is dialled, and nothing of who else has the key.
    key: [u8; 32],
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
    /// Dials a member by the link key, and where the ticket says, as it claims.
    pub(super) fn dial_at(
        &mut self,
        links: &mut dyn Links,
        member: PublisherId,
        key: [u8; 32],
        ticket: &Ticket,
    ) {
        if member == self.own || key == links.own_key() {
            return self.forget_dial(links, &member);
        }
        let (peers, now) = (links.ways(ticket, key), links.now());
        let dial = self.dials.entry(member).or_insert_with(|| Dial {
            key,
            peers: Vec::new(),
            faces: BTreeSet::new(),
            again: Some(now),
            heard: now,
            speaks: false,
        });
        if (dial.key, &dial.peers) == (key, &peers) {
            return;
        }
        // It is somewhere else now.
        dial.heard = now;
        dial.again = dial.again.map(|_| now);
        dial.peers = peers;
        if std::mem::replace(&mut dial.key, key) != key {
            self.stop_trying(links, &member);
            let is_up = self.is_up(&member);
            let dial = self.dials.get_mut(&member);
            dial.filter(|_| !is_up).into_iter().for_each(|dial| dial.again = Some(now));
        }
    }

    /// A member is dialled no more; the link that is up with it stays until it ends.
    pub(super) fn forget_dial(&mut self, links: &mut dyn Links, member: &PublisherId) {
        self.stop_trying(links, member);
        self.dials.remove(member);
    }

    /// The ways to a member that are being tried are of no use any more.
    fn stop_trying(&mut self, links: &mut dyn Links, member: &PublisherId) {
        let Some(dial) = self.dials.get_mut(member) else { return };
        let is_up = |face: &FaceId| self.streams.get(face).is_some_and(|s| s.member.is_some());
        let tried: Vec<FaceId> = dial.faces.iter().filter(|face| !is_up(face)).copied().collect();
        dial.faces.retain(is_up);
        for face in tried {
            if let Some(stream) = self.streams.remove(&face) {
                links.abandon(face, stream.stream);
            }
            links.hang_up(face, "the member is not looked for there any more");
        }
    }

    /// A way to a member is gone: where it was the last one another is looked for.
    pub(super) fn lost(&mut self, now: Duration, member: PublisherId, was_up: bool) {
        if self.is_up(&member) {
            return;
        }
        if was_up {
            let _ = self.news.send(MeshNews::Up(member, false));
        }
        if let Some(dial) = self.dials.get_mut(&member) {
            // Up to now it was there, however long it had nothing to say.
            if std::mem::take(&mut dial.speaks) {
                dial.heard = now;
            }
            dial.put_off(now);
        }
    }

    /// Dials whoever is away and whose time has come.
    pub(super) fn dial_who_is_away(&mut self, links: &mut dyn Links, now: Duration) {
        let admitted = self.streams.values().filter_map(|s| s.member.map(|member| (member, s.key)));
        let (up, keys): (BTreeSet<PublisherId>, BTreeSet<[u8; 32]>) = admitted.unzip();
        // Whoever dials begins with its own statement, or is refused.
        let speaks = self.said.is_some();
        for (member, dial) in self.dials.iter_mut().filter(|_| speaks) {
            if dial.again.is_none_or(|again| again > now) {
                continue;
            }
            dial.again = None;
            if up.contains(member) {
                continue;
            }
            // Whoever has that key is here, and speaks for another member.
            if !keys.contains(&dial.key) {
                dial.faces.extend(dial.peers.iter().filter_map(|peer| links.dial(peer)));
            }
            dial.put_off(now);
        }
    }
}
