//! Handles statements and other news of members.

use std::time::Instant;

use xylem_folder::{HomeError, MemberStatement, Roles, StatementError};
use xylem_node::{MeshNews, wall_clock};
use xylem_object::PublisherId;

use super::{KEEP, OtherMember, SyncEvent, SyncMember, warning};
use crate::error::SyncError;
use crate::keeping::LinksRefused;

/// State that could not be written to the disk yet. A full disk does not end the run.
#[derive(Default)]
pub(super) struct UnsavedState {
    /// The port at which peers reach us.
    pub(super) port: Option<u16>,
    /// The founder's list of roles, as a member has passed it on.
    roles: Option<Roles>,
    /// Members that have signed two histories, with both statements.
    evidence: Vec<(PublisherId, [Vec<u8>; 2])>,
    /// Whether the failure to write was reported.
    is_told: bool,
    /// When to write all that the next run needs, the members' statements too.
    due: Option<Instant>,
}

impl UnsavedState {
    /// Has the state written in this round.
    fn save_now(&mut self) {
        self.due = Some(Instant::now());
    }

    /// Has the state written within [`KEEP`].
    fn save_soon(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + KEEP);
    }

    /// Has a failed write tried again. Returns whether to report the failure: once, until a write succeeds.
    fn retry(&mut self) -> bool {
        self.due = Some(Instant::now() + KEEP);
        !std::mem::replace(&mut self.is_told, true)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|at| at <= now)
    }
}

impl SyncMember<'_> {
    pub(super) fn hear_mesh(
        &mut self,
        said: MeshNews,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), SyncError> {
        match said {
            MeshNews::Up(member, up) => {
                let is_news = if up { self.links.up(member) } else { self.links.down(&member) };
                if up && self.links.meet(member) {
                    self.unkept.save_now();
                }
                if is_news && !self.is_large() {
                    self.tell_member(&member, up, tell);
                }
            }
            MeshNews::Said(said, bytes) => self.heard(*said, bytes, tell),
            MeshNews::Forgotten(member) => drop(self.others.remove(&member)),
            MeshNews::TurnedAway { by_founder, why } => {
                let why = LinksRefused { by_founder, why, key: self.key.public() };
                self.links.refuse(why.clone());
                tell(SyncEvent::TurnedAway { why });
            }
            MeshNews::Rewrote(said, both) => {
                let evidence = self.home.evidence_file(&said.member);
                self.unkept.evidence.push((said.member, both));
                self.others.remove(&said.member);
                self.save_members_or_retry(tell);
                let (name, key) = (said.name, said.member.to_string());
                tell(SyncEvent::Rewrote { name, key, evidence });
            }
            MeshNews::Unproven(said) => {
                tell(SyncEvent::Unproven { name: said.name, key: said.member.to_string() });
            }
            MeshNews::Applies(said, why) => {
                let key = said.member.to_string();
                tell(SyncEvent::Applies { name: said.name, key, why });
            }
            MeshNews::BadLog(e) => return Err(e.into()),
            MeshNews::Old => tell(warning(StatementError::Old.to_string())),
            MeshNews::Twice => {
                return Err(SyncError::Copied { store: self.home.dir().to_path_buf() });
            }
        }
        Ok(())
    }

    /// Reports that a member came or went. Writes the members' state first if that is due, since a user who reads this
    /// may give the member a role at once.
    fn tell_member(&mut self, member: &PublisherId, up: bool, tell: &mut dyn FnMut(SyncEvent)) {
        let Some(OtherMember { said, .. }) = self.others.get(member) else { return };
        let (name, key) = (said.name.clone(), said.member.to_string());
        if self.unkept.is_due(Instant::now()) {
            self.save_members_or_retry(tell);
        }
        tell(SyncEvent::Member { name, key, up });
    }

    fn heard(&mut self, said: MemberStatement, bytes: Vec<u8>, tell: &mut dyn FnMut(SyncEvent)) {
        let news = said.roles.clone().filter(|r| r.number > self.roles.roles().number);
        // If the stored list is damaged, the list that the founder has signed replaces it; it has to be as new.
        let has_roles = news.is_some();
        if let Some(roles) = news {
            self.unkept.roles = Some(roles.clone());
            self.save_members_or_retry(tell);
            self.take_roles(roles, tell);
        }
        let member = said.member;
        // A member whose certificate has expired meanwhile is no member.
        if self.roles.judge_member(&member, &said.shown, wall_clock().milliseconds()).is_err() {
            return;
        }
        let before = self.others.get(&member);
        // Of two links to a member, one may be slower. Its next statement may have a smaller number, as its clock may
        // have been set back.
        if before.is_some_and(|b| b.bytes == bytes && b.said.number > said.number) {
            return;
        }
        let same_place = before.is_some_and(|b| {
            (&b.said.link_key, &b.said.index.addresses, &b.said.name)
                == (&said.link_key, &said.index.addresses, &said.name)
        });
        let is_new = before.is_none();
        let (again, failures, told) = before.map_or((None, 0, String::new()), |before| {
            (before.again, before.failures, before.told.clone())
        });
        // New statements do not shorten the pause of a member that has failed repeatedly.
        let again = if failures > 3 { again } else { None };
        self.others.insert(member, OtherMember { said, bytes, done: false, again, failures, told });
        if same_place && !has_roles {
            self.unkept.save_soon();
        } else {
            // Write at once, together with all other news of this round.
            self.unkept.save_now();
        }
        if is_new && self.links.is_up(&member) && !self.is_large() {
            self.tell_member(&member, true, tell);
        }
    }

    /// Takes over the founder's list after it has changed on the disk, most likely by a command of our user.
    pub(super) fn reload_roles(&mut self, tell: &mut dyn FnMut(SyncEvent)) {
        match self.home.roles() {
            Ok(Some(roles)) if roles.number > self.roles.roles().number => {
                self.take_roles(roles, tell)
            }
            Ok(_) => {}
            // The state of members stays in memory.
            Err(e) => tell(warning(e.to_string())),
        }
    }

    /// Writes the state that the next run needs: later statements of members have to continue their histories.
    pub(crate) fn save_members(&mut self) -> Result<(), HomeError> {
        self.unkept.due = None;
        let UnsavedState { port, roles, evidence, .. } = &mut self.unkept;
        // Write what would be worst to lose first.
        if let Some(founder_says) = roles {
            self.home.keep_roles(founder_says)?;
        }
        *roles = None;
        while let Some((member, both)) = evidence.last() {
            self.home.keep_evidence(member, both)?;
            evidence.pop();
        }
        self.home.keep_members(self.others.values().map(|other| &other.bytes[..]))?;
        let met = self.links.met(|member| self.others.contains_key(member));
        self.home.keep_linked_members(met)?;
        if let Some(port) = port {
            self.home.keep_port(*port)?;
        }
        *port = None;
        Ok(())
    }

    /// Like [`Self::save_members`], but a failed write is tried again later, and reported once.
    pub(super) fn save_members_or_retry(&mut self, tell: &mut dyn FnMut(SyncEvent)) {
        match self.save_members() {
            Ok(()) => self.unkept.is_told = false,
            Err(e) => {
                if self.unkept.retry() {
                    let what = format!("cannot save the state of the members, will retry: {e}");
                    tell(warning(what));
                }
            }
        }
    }

    pub(super) fn take_roles(&mut self, roles: Roles, tell: &mut dyn FnMut(SyncEvent)) {
        // Send nothing to former members from now on, however long a scan of the folder takes.
        self.serving
            .iter()
            .for_each(|serving| serving.send_statement(Vec::new(), Some(roles.clone())));
        if self.roles.take(roles) {
            self.drop_former_members(tell);
        }
    }

    /// Stops following former members. They cannot fetch what is published from now on.
    pub(super) fn drop_former_members(&mut self, tell: &mut dyn FnMut(SyncEvent)) {
        let (now_ms, is_told) = (wall_clock().milliseconds(), !self.is_large());
        for other in self.others.values() {
            let judged = self.roles.judge_member(&other.said.member, &other.said.shown, now_ms);
            if judged.is_err() && self.links.down(&other.said.member) && is_told {
                let (name, key) = (other.said.name.clone(), other.said.member.to_string());
                tell(SyncEvent::Member { name, key, up: false });
            }
        }
        self.others.retain(|member, _| self.roles.admits(member));
        self.scans.at_once(Instant::now());
        let own = self.key.public();
        if let Err(why) = self.roles.judge_member(&own, &self.shown, now_ms) {
            tell(warning(format!("this member is not admitted to its group any more: {why}")));
        }
        let read_only = !self.roles.may_write(&own);
        if read_only && !std::mem::replace(&mut self.last.read_only, read_only) {
            tell(SyncEvent::ReadOnly);
        }
        self.last.read_only = read_only;
    }
}
