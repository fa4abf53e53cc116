//! Publishes the status of a folder while it is kept in step.

use std::time::{Duration, Instant};

use xylem_folder::MemberRole;
use xylem_node::wall_clock;
use xylem_object::PublisherId;

use super::{SyncEvent, SyncMember};
use crate::board::{FolderStep, MemberStanding, MemberStatus, SyncStatus, is_paused};

/// How often the status is put together.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// The status as it was last published.
#[derive(Default)]
pub(super) struct PublishedStatus {
    at: Option<Instant>,
    in_step: bool,
    pub(super) paused: bool,
    /// Whether the founder has removed us, or has not admitted us.
    is_none: bool,
}

impl SyncMember<'_> {
    /// Publishes the status once a second and when it has changed.
    pub(super) fn show(&mut self, tell: &mut dyn FnMut(SyncEvent)) {
        let paused = is_paused(&self.home);
        if paused != std::mem::replace(&mut self.showing.paused, paused) {
            tell(if paused { SyncEvent::Paused } else { SyncEvent::Resumed });
            self.scans.at_once_if_none();
        }
        tell(SyncEvent::Tick { in_step: self.is_same() });
        let is_new = self.showing.in_step != (self.step() == FolderStep::InStep);
        if !is_new && self.showing.at.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        let role = self.own_role();
        self.showing.is_none = role == MemberStanding::None;
        let step = self.step();
        (self.showing.at, self.showing.in_step) =
            (Some(Instant::now()), step == FolderStep::InStep);
        let members = self.member_statuses();
        let rules_wait = !self.last.waiting.is_empty();
        self.options.board.change(|status| {
            (status.step, status.paused, status.rules_wait) = (step, paused, rules_wait);
            status.role = role;
            status.refused = self.links.refused().map(ToString::to_string);
            status.members = since_before(members, status);
            status.take(&self.folder.obstacles);
        });
    }

    /// Our role, from the founder's list or the schema.
    fn own_role(&mut self) -> MemberStanding {
        let (own, now_ms) = (self.key.public(), wall_clock().milliseconds());
        let is_member = self.roles.judge_member(&own, &self.shown, now_ms).is_ok();
        match is_member {
            _ if own == self.home.invitation.group.founder => MemberStanding::Founder,
            // A member that was removed does not receive the list any more.
            _ if self.links.refused().is_some() => MemberStanding::None,
            false => MemberStanding::None,
            true if self.roles.may_write(&own) => MemberStanding::Member,
            true => MemberStanding::ReadOnly,
        }
    }

    /// Whether all connected members with the right to write have the same state, by their last statements.
    fn is_same(&self) -> bool {
        let state = self.folder.state_as_held();
        let there = self.others.values().filter(|other| self.can_ask(other));
        self.last.of.is_some()
            && !self.showing.is_none
            && !self.scans.is_planned()
            && !there.into_iter().any(|o| o.said.state != state)
    }

    fn step(&self) -> FolderStep {
        match () {
            () if self.showing.paused => FolderStep::Paused,
            () if self.showing.is_none => FolderStep::NoMember,
            () if self.last.of.is_none() => FolderStep::Starting,
            () if self.folder.obstacles.count() == 0 && self.is_same() => FolderStep::InStep,
            () => FolderStep::Behind,
        }
    }

    fn member_statuses(&self) -> Vec<MemberStatus> {
        let (state, founder) = (self.folder.state_as_held(), self.home.invitation.group.founder);
        let role = |member: &PublisherId| match self.roles.roles().members.get(member) {
            _ if *member == founder => MemberStanding::Founder,
            Some(MemberRole::Removed) => MemberStanding::Removed,
            _ if !self.roles.may_write(member) => MemberStanding::ReadOnly,
            _ => MemberStanding::Member,
        };
        let known = self.others.values().map(|other| MemberStatus {
            name: other.said.name.clone(),
            key: other.said.member.to_string(),
            role: role(&other.said.member),
            here: self.links.is_up(&other.said.member),
            since_ms: other.said.number,
            in_step: other.said.state == state,
            why: Some(other.told.clone()).filter(|why| !why.is_empty()),
        });
        let unheard = |(member, _): &(&PublisherId, &MemberRole)| {
            !self.others.contains_key(*member) && **member != self.key.public()
        };
        let named = self.roles.roles().members.iter().filter(unheard).map(|(member, _)| {
            let role = role(member);
            MemberStatus { key: member.to_string(), role, ..MemberStatus::default() }
        });
        known.chain(named).collect()
    }
}

/// Sets `since_ms` of each member: the old value if it is still here or still away, the present time if that has just
/// changed.
fn since_before(members: Vec<MemberStatus>, before: &SyncStatus) -> Vec<MemberStatus> {
    let now_ms = wall_clock().milliseconds();
    let since = |mut member: MemberStatus| {
        let then = before.members.iter().find(|then| then.key == member.key);
        member.since_ms = match then {
            Some(then) if then.here == member.here => then.since_ms,
            None if !member.here => member.since_ms,
            _ => now_ms,
        };
        if member.name.is_empty() {
            member.name = then.map(|then| then.name.clone()).unwrap_or_default();
        }
        member
    };
    members.into_iter().map(since).collect()
}
