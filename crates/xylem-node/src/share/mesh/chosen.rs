//! Chooses the members to which a member keeps links.

use std::collections::BTreeSet;

use xylem_folder::FULL_MESH;
use xylem_forward::FaceId;
use xylem_object::PublisherId;

use super::Mesh;
use super::links::MeshLinks;

/// Links that each member of a large group keeps. On average as many other members keep one to it.
pub(super) const LINKS: usize = 8;

impl Mesh {
    /// Chooses the members to keep links to, and closes other links that we dialled.
    pub(super) fn choose(&mut self, links: &mut dyn MeshLinks) {
        if self.chosen.is_some() {
            return;
        }
        let chosen = if self.dials.len() <= FULL_MESH {
            self.dials.keys().copied().collect()
        } else {
            let chosen = self.some_of_many();
            self.hang_up_others(links, &chosen);
            chosen
        };
        self.chosen = Some(chosen);
    }

    /// The first members by rank, until [`LINKS`] of them are up or may be, and those that we have a question for.
    /// Members that may only read rank last, as nothing is fetched from them.
    fn some_of_many(&self) -> BTreeSet<PublisherId> {
        let reads = |who| !self.members.may_write(who);
        let dials = self.dials.iter();
        let mut by_rank: Vec<_> =
            dials.map(|(who, dial)| ((reads(who), dial.rank), *who, dial.is_away)).collect();
        by_rank.sort_unstable();
        let (mut chosen, mut there) = (BTreeSet::new(), 0);
        for (_, who, is_away) in &by_rank {
            if there == LINKS {
                break;
            }
            chosen.insert(*who);
            there += usize::from(!is_away);
        }
        let unmet = self.members_without_link();
        let asked = |who: &PublisherId| unmet.contains(who) || self.heard.question(who).is_some();
        let mut asked: Vec<_> = by_rank.into_iter().filter(|(_, who, _)| asked(who)).collect();
        asked.sort_by_key(|(.., is_away)| *is_away);
        chosen.extend(asked.into_iter().take(LINKS).map(|(_, who, _)| who));
        chosen
    }

    /// For the founder of an open group: members without a link to it so far. When the group is closed, the founder
    /// lists only members to which it had one.
    fn members_without_link(&self) -> BTreeSet<PublisherId> {
        let roles = self.members.roles();
        if self.own != self.group.founder || roles.closed || roles.schema.is_some() {
            return BTreeSet::new();
        }
        let met: BTreeSet<&PublisherId> = self.heard.met().iter().collect();
        self.dials.keys().filter(|who| !met.contains(who)).copied().collect()
    }

    /// Once enough of the chosen members are up, closes links that we dialled to others. Links that others dialled
    /// stay.
    fn hang_up_others(&mut self, links: &mut dyn MeshLinks, chosen: &BTreeSet<PublisherId>) {
        let up = self.streams.values().filter_map(|stream| stream.member);
        let there: BTreeSet<PublisherId> = up.filter(|who| chosen.contains(who)).collect();
        if there.len() < LINKS {
            return;
        }
        let others: Vec<(FaceId, PublisherId)> = (self.streams.iter())
            .filter(|(_, stream)| stream.dialled.is_some())
            .filter_map(|(face, stream)| Some((*face, stream.member?)))
            .filter(|(_, who)| !chosen.contains(who))
            .collect();
        for (face, who) in others {
            self.close_stream(links, face);
            // It was up, so it is not away.
            self.dials.get_mut(&who).into_iter().for_each(|dial| dial.is_away = false);
        }
    }
}
