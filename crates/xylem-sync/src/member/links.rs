//! [`MemberLinks`]: the members to which there are links, and those to which there have been.

use std::collections::HashSet;

use xylem_object::PublisherId;

use crate::keeping::LinksRefused;

/// See the module's documentation.
pub(super) struct MemberLinks {
    up: HashSet<PublisherId>,
    /// Members to which there has been a link, the first one first.
    met: Vec<PublisherId>,
    /// Why other members refuse our links; a link that comes up disproves it.
    refused: Option<LinksRefused>,
}

impl MemberLinks {
    /// `met`: those of earlier runs.
    pub(super) fn new(met: Vec<PublisherId>) -> Self {
        Self { up: HashSet::new(), met, refused: None }
    }

    pub(super) fn is_up(&self, member: &PublisherId) -> bool {
        self.up.contains(member)
    }

    /// Records a link. Returns whether there was none before.
    pub(super) fn up(&mut self, member: PublisherId) -> bool {
        self.refused = None;
        self.up.insert(member)
    }

    /// Records the end of links to a member. Returns whether there was one.
    pub(super) fn down(&mut self, member: &PublisherId) -> bool {
        self.up.remove(member)
    }

    /// Records that there has been a link. Returns whether that is the first.
    pub(super) fn meet(&mut self, member: PublisherId) -> bool {
        let is_new = !self.met.contains(&member);
        if is_new {
            self.met.push(member);
        }
        is_new
    }

    /// Members to which there has been a link, without those that are neither up nor `known`.
    pub(super) fn met(&mut self, known: impl Fn(&PublisherId) -> bool) -> &[PublisherId] {
        let up = &self.up;
        self.met.retain(|member| known(member) || up.contains(member));
        &self.met
    }

    /// Records why other members refuse our links.
    pub(super) fn refuse(&mut self, why: LinksRefused) {
        self.refused = Some(why);
    }

    pub(super) fn refused(&self) -> Option<&LinksRefused> {
        self.refused.as_ref()
    }
}
