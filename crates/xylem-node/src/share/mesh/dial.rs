//! Where and when to dial members.

use std::collections::BTreeSet;
use std::time::Duration;

use xylem_folder::MeshNews;
use xylem_forward::FaceId;
use xylem_object::{PublisherId, Ticket};
use xylem_peers::reachable::PeerAddress;

use super::Mesh;
use super::links::MeshLinks;

/// Divisor for the pause before an absent member is dialled again: a thirtieth of the time since its last statement. So
/// a cut of a minute ends two seconds after the network is back, and a member away for days costs a few datagrams a
/// minute.
const REDIAL_PART: u32 = 30;
const REDIAL: Duration = Duration::from_secs(1);
const LONGEST_REDIAL: Duration = Duration::from_secs(60);

/// A member may claim an address that belongs to another machine. [`TRIES`]: dials in a row of an address where the
/// member was never found. [`TRY_EVERY`]: time after which one more is permitted.
const TRIES: u32 = 4;
const TRY_EVERY: Duration = Duration::from_secs(15);
/// [`CLAIMS`]: addresses dialled in a row for the claims of all members. [`CLAIM_EVERY`]: time after which one more is
/// permitted.
const CLAIMS: u32 = 512;
const CLAIM_EVERY: Duration = Duration::from_millis(250);

/// A token bucket that limits traffic towards third parties.
#[derive(Debug)]
pub(super) struct DialBudget {
    left: u32,
    most: u32,
    every: Duration,
    /// Time up to which returned tokens are counted.
    since: Duration,
}

impl DialBudget {
    fn new(most: u32, every: Duration, now: Duration) -> Self {
        Self { left: most, most, every, since: now }
    }

    /// The budget for the claims of all members.
    pub(super) fn of_claims(now: Duration) -> Self {
        Self::new(CLAIMS, CLAIM_EVERY, now)
    }

    /// Takes `wanted` tokens, `most` at most. On failure, returns when they will be available.
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

/// A member's claimed address, and the dials in progress.
pub(super) struct MemberDial {
    /// The key that links to the member have to prove. Until a link with this key has spoken for the member it is a
    /// claim. It decides only where this member is dialled, and does not affect other members with that key.
    key: [u8; 32],
    /// The claimed addresses and relays.
    ticket: Ticket,
    pub(super) faces: BTreeSet<FaceId>,
    pub(super) again: Option<Duration>,
    /// When its last statement came, or its last claim of a new address.
    last_statement: Duration,
    /// Whether it has sent a statement on the open stream. A refused peer receives none.
    pub(super) has_spoken: bool,
    /// Its rank among the members to keep a link to, in a large group.
    pub(super) rank: [u8; 8],
    /// Whether the last dial failed, or its link ended since.
    pub(super) is_away: bool,
    /// Whether it was found at the claimed address, which is then no longer a claim.
    is_found: bool,
    tries: DialBudget,
}

impl MemberDial {
    /// The peers to dial for the claimed address. While that may belong to a third party, returns when the dial is
    /// permitted instead.
    fn ways(
        &mut self,
        links: &mut dyn MeshLinks,
        claims: &mut DialBudget,
        now: Duration,
    ) -> Result<Vec<PeerAddress>, Duration> {
        if !self.is_found {
            self.tries.take(1, now)?;
        }
        let ways = links.ways(&self.ticket, self.key);
        if !self.is_found {
            claims.take(u32::try_from(ways.len()).unwrap_or(u32::MAX), now)?;
        }
        Ok(ways)
    }

    /// Schedules another dial, unless one is in progress.
    fn schedule_redial(&mut self, now: Duration) {
        if self.faces.is_empty() && self.again.is_none() {
            self.is_away = true;
            let away = now.saturating_sub(self.last_statement);
            self.again = Some(now + (away / REDIAL_PART).clamp(REDIAL, LONGEST_REDIAL));
        }
    }
}

/// The rank of a member among those we keep a link to. It depends on both keys, so that each member chooses others.
fn rank(own: &PublisherId, member: &PublisherId) -> [u8; 8] {
    let hash = xylem_hash::hash(&[own.0, member.0].concat());
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

impl Mesh {
    /// Records that the link with this key speaks for a member: its claim is confirmed.
    pub(super) fn confirm_claim(&mut self, member: &PublisherId, key: &[u8; 32]) {
        if let Some(dial) = self.dials.get_mut(member).filter(|dial| dial.key == *key) {
            dial.is_found = true;
        }
    }

    /// Dials a member at the link key and the ticket's addresses, as it claims.
    pub(super) fn dial_at(
        &mut self,
        links: &mut dyn MeshLinks,
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
        let dial = self.dials.entry(member).or_insert_with(|| MemberDial {
            rank,
            is_away: false,
            key,
            ticket: ticket.clone(),
            faces: BTreeSet::new(),
            again: Some(now),
            last_statement: now,
            has_spoken: false,
            is_found: false,
            tries: DialBudget::new(TRIES, TRY_EVERY, now),
        });
        let at = |ticket: &Ticket| (ticket.addresses.clone(), ticket.relays.clone());
        if dial.key == key && at(&dial.ticket) == at(ticket) {
            return;
        }
        // Its address has changed: stop dials to the old one.
        dial.last_statement = now;
        dial.is_found = false;
        dial.key = key;
        dial.ticket = ticket.clone();
        self.stop_trying(links, &member);
        let is_up = self.is_up(&member);
        let dial = self.dials.get_mut(&member);
        dial.filter(|_| !is_up).into_iter().for_each(|dial| dial.again = Some(now));
        self.chosen = None;
    }

    /// Stops dialling a member. A link that is up with it stays until it ends.
    pub(super) fn forget_dial(&mut self, links: &mut dyn MeshLinks, member: &PublisherId) {
        self.stop_trying(links, member);
        if self.dials.remove(member).is_some() {
            self.chosen = None;
        }
    }

    /// Stops the dials of a member that are in progress.
    fn stop_trying(&mut self, links: &mut dyn MeshLinks, member: &PublisherId) {
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
            links.hang_up(face, "the member is no longer dialled at this address");
        }
    }

    /// Handles the end of a member's link. Schedules a dial if it was the last one.
    pub(super) fn lost_link(&mut self, now: Duration, member: PublisherId) {
        if !self.is_up(&member) {
            let _ = self.news.send(MeshNews::Up(member, false));
        }
        self.lost_dial(now, member);
    }

    /// Handles a dial of a member that has failed. Schedules another one if no link to the member is up.
    pub(super) fn lost_dial(&mut self, now: Duration, member: PublisherId) {
        if self.is_up(&member) {
            return;
        }
        if let Some(dial) = self.dials.get_mut(&member) {
            // It was up until now, even if it had sent nothing for long.
            if std::mem::take(&mut dial.has_spoken) {
                dial.last_statement = now;
            }
            dial.schedule_redial(now);
            self.chosen = None;
        }
    }

    /// Dials absent members that are due.
    pub(super) fn dial_absent_members(&mut self, links: &mut dyn MeshLinks, now: Duration) {
        let is_due =
            |who| self.dials.get(who).is_some_and(|dial| dial.again.is_some_and(|at| at <= now));
        if !self.chosen.iter().flatten().any(is_due) {
            return;
        }
        let admitted = self.streams.values().filter_map(|s| s.member.map(|member| (member, s.key)));
        let (up, keys): (BTreeSet<PublisherId>, BTreeSet<[u8; 32]>) = admitted.unzip();
        // A dialer has to begin with its own statement, or it is refused.
        let speaks = self.own_statement.is_some();
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
            // If a connected peer has that key, it speaks for another member.
            if !keys.contains(&dial.key) {
                match dial.ways(links, claims, now) {
                    Ok(ways) => dial.faces.extend(ways.iter().filter_map(|peer| links.dial(peer))),
                    Err(then) => (dial.again, dial.is_away) = (Some(then), true),
                }
            }
            dial.schedule_redial(now);
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
    fn a_budget_refills_up_to_its_maximum() {
        let at = |s: u64| Duration::from_secs(s);
        let mut budget = DialBudget::new(4, at(10), at(0));
        (0..4).for_each(|_| assert_eq!(budget.take(1, at(0)), Ok(())));
        assert_eq!(budget.take(1, at(3)), Err(at(10)));
        assert_eq!(budget.take(2, at(12)), Err(at(20)), "one is back");
        assert_eq!(budget.take(1, at(12)), Ok(()));
        assert_eq!(budget.take(9, at(1_000)), Ok(()), "all at once, if there is no more");
        assert_eq!(budget.take(1, at(1_000)), Err(at(1_010)));
    }
}
