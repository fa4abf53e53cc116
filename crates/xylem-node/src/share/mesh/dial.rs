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

/// What a member says of where it is may be true of anybody else: of a place where it was never found it is dialled so often at
/// once, and once more after so long,
const TRIES: u32 = 4;
const TRY_EVERY: Duration = Duration::from_secs(15);
/// and at so many addresses for the claims of all members together, and one more after so long.
const CLAIMS: u32 = 512;
const CLAIM_EVERY: Duration = Duration::from_millis(250);

/// What may be done at the cost of others: so much at once, and more after a while.
#[derive(Debug)]
pub(super) struct Budget {
    left: u32,
    most: u32,
    every: Duration,
    /// What came back until then is counted.
    since: Duration,
}

impl Budget {
    fn new(most: u32, every: Duration, now: Duration) -> Self {
        Self { left: most, most, every, since: now }
    }

    /// For the claims of all members.
    pub(super) fn of_claims(now: Duration) -> Self {
        Self::new(CLAIMS, CLAIM_EVERY, now)
    }

    /// Takes so much, of which there is never more than all; or when that will be there.
    fn take(&mut self, wanted: u32, now: Duration) -> Result<(), Duration> {
        let wanted = wanted.min(self.most);
        let passed = now.saturating_sub(self.since).as_millis() / self.every.as_millis().max(1);
        let back = u32::try_from(passed).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(back).min(self.most);
        self.since = if self.left == self.most { now } else { self.since + self.every * back };
        match self.left.checked_sub(wanted) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.since + self.every * (wanted - self.left)),
        }
    }
}

/// Where a member says that it is, and the ways there that are being tried.
pub(super) struct Dial {
    /// The key that links to it are to prove. Until one has, and has spoken for this member, that is a claim: it says
    /// where this member is dialled, and nothing of who else has the key.
    key: [u8; 32],
    /// Where it says that it is.
    ticket: Ticket,
    pub(super) faces: BTreeSet<FaceId>,
    pub(super) again: Option<Duration>,
    /// When it was last heard, or heard of at a new place.
    heard: Duration,
    /// It has spoken on the stream that is open; whoever is refused hears nothing.
    pub(super) speaks: bool,
    /// Its place among those that a link is kept to where they are many.
    pub(super) rank: [u8; 8],
    /// It was not there when it was dialled last, or has gone since.
    pub(super) is_away: bool,
    /// It was there since it has said where that is: no claim any more.
    is_found: bool,
    tries: Budget,
}

impl Dial {
    /// The ways to where it says that it is; or, as that may be somebody else's place, when they may be tried.
    fn ways(
        &mut self,
        links: &mut dyn Links,
        claims: &mut Budget,
        now: Duration,
    ) -> Result<Vec<Peer>, Duration> {
        if !self.is_found {
            self.tries.take(1, now)?;
        }
        let ways = links.ways(&self.ticket, self.key);
        if !self.is_found {
            claims.take(u32::try_from(ways.len()).unwrap_or(u32::MAX), now)?;
        }
        Ok(ways)
    }

    /// It is dialled again after a while, unless it is being dialled.
    fn put_off(&mut self, now: Duration) {
        if self.faces.is_empty() && self.again.is_none() {
            self.is_away = true;
            let away = now.saturating_sub(self.heard);
            self.again = Some(now + (away / REDIAL_PART).clamp(REDIAL, LONGEST_REDIAL));
        }
    }
}

/// The place of a member among those to whom we keep a link, by both keys: all choose others.
fn rank(own: &PublisherId, member: &PublisherId) -> [u8; 8] {
    let hash = xylem_hash::hash(&[own.0, member.0].concat());
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

impl Mesh {
    /// The link with this key speaks for a member: it is what that has said.
    pub(super) fn found(&mut self, member: &PublisherId, key: &[u8; 32]) {
        if let Some(dial) = self.dials.get_mut(member).filter(|dial| dial.key == *key) {
            dial.is_found = true;
        }
    }

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
        let now = links.now();
        if !self.dials.contains_key(&member) {
            self.chosen = None;
        }
        let rank = rank(&self.own, &member);
        let dial = self.dials.entry(member).or_insert_with(|| Dial {
            rank,
            is_away: false,
            key,
            ticket: ticket.clone(),
            faces: BTreeSet::new(),
            again: Some(now),
            heard: now,
            speaks: false,
            is_found: false,
            tries: Budget::new(TRIES, TRY_EVERY, now),
        });
        let at = |ticket: &Ticket| (ticket.addresses.clone(), ticket.relays.clone());
        if dial.key == key && at(&dial.ticket) == at(ticket) {
            return;
        }
        // It is somewhere else now: what is tried where it was ends.
        dial.heard = now;
        dial.is_found = false;
        dial.key = key;
        dial.ticket = ticket.clone();
        self.stop_trying(links, &member);
        let is_up = self.is_up(&member);
        let dial = self.dials.get_mut(&member);
        dial.filter(|_| !is_up).into_iter().for_each(|dial| dial.again = Some(now));
        self.chosen = None;
    }

    /// A member is dialled no more; the link that is up with it stays until it ends.
    pub(super) fn forget_dial(&mut self, links: &mut dyn Links, member: &PublisherId) {
        self.stop_trying(links, member);
        if self.dials.remove(member).is_some() {
            self.chosen = None;
        }
    }

    /// The ways to a member that are being tried are of no use any more.
    fn stop_trying(&mut self, links: &mut dyn Links, member: &PublisherId) {
        let Some(dial) = self.dials.get_mut(member) else { return };
        let is_up = |face: &FaceId| {
            self.streams.get(face).is_some_and(|s| s.member.is_some() || s.ends.is_some())
        };
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
            self.chosen = None;
        }
    }

    /// Dials whoever is away and whose time has come.
    pub(super) fn dial_who_is_away(&mut self, links: &mut dyn Links, now: Duration) {
        let is_due =
            |who| self.dials.get(who).is_some_and(|dial| dial.again.is_some_and(|at| at <= now));
        if !self.chosen.iter().flatten().any(is_due) {
            return;
        }
        let admitted = self.streams.values().filter_map(|s| s.member.map(|member| (member, s.key)));
        let (up, keys): (BTreeSet<PublisherId>, BTreeSet<[u8; 32]>) = admitted.unzip();
        // Whoever dials begins with its own statement, or is refused.
        let speaks = self.said.is_some();
        let claims = &mut self.claims;
        let mut gone = false;
        for member in self.chosen.iter().flatten().filter(|_| speaks) {
            let Some(dial) = self.dials.get_mut(member) else { continue };
            if dial.again.is_none_or(|again| again > now) {
                continue;
            }
            let was_away = dial.is_away;
            dial.again = None;
            if up.contains(member) {
                continue;
            }
            // Whoever has that key is here, and speaks for another member.
            if !keys.contains(&dial.key) {
                match dial.ways(links, claims, now) {
                    Ok(ways) => dial.faces.extend(ways.iter().filter_map(|peer| links.dial(peer))),
                    Err(then) => (dial.again, dial.is_away) = (Some(then), true),
                }
            }
            dial.put_off(now);
            gone |= dial.is_away && !was_away;
        }
        if gone {
            self.chosen = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_comes_back_and_is_never_more_than_all() {
        let at = |s: u64| Duration::from_secs(s);
        let mut budget = Budget::new(4, at(10), at(0));
        (0..4).for_each(|_| assert_eq!(budget.take(1, at(0)), Ok(())));
        assert_eq!(budget.take(1, at(3)), Err(at(10)));
        assert_eq!(budget.take(2, at(12)), Err(at(20)), "one is back");
        assert_eq!(budget.take(1, at(12)), Ok(()));
        assert_eq!(budget.take(9, at(1_000)), Ok(()), "all at once, if there is no more");
        assert_eq!(budget.take(1, at(1_000)), Err(at(1_010)));
    }
}
