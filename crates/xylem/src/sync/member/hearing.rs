//! What other members say.

use std::time::Instant;

use xylem_library::folder::{Roles, Statement, StatementError};
use xylem_library::{Blame, Error};
use xylem_node::{MeshNews, wall_clock};
use xylem_object::PublisherId;

use super::{KEEP, Member, Other, SyncEvent, warning};

impl Member<'_> {
    pub(super) fn hear_mesh(
        &mut self,
        said: MeshNews,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), Error> {
        match said {
            MeshNews::Up(member, up) => {
                if if up { self.up.insert(member) } else { self.up.remove(&member) } {
                    self.tell_member(&member, up, tell);
                }
            }
            MeshNews::Said(said, bytes) => self.heard(*said, bytes, tell)?,
            MeshNews::Rewrote(said, both) => {
                let evidence = self.home.keep_evidence(&said.member, &both)?;
                self.others.remove(&said.member);
                self.keep_members()?;
                let (name, key) = (said.name, said.member.to_string());
                tell(SyncEvent::Rewrote { name, key, evidence });
            }
            MeshNews::Unproven(said) => {
                tell(SyncEvent::Unproven { name: said.name, key: said.member.to_string() });
            }
            MeshNews::Applies(said, why) => {
                let (key, why) = (said.member.to_string(), why.to_string());
                tell(SyncEvent::Applies { name: said.name, key, why });
            }
            MeshNews::BadLog(e) => return Err(e.into()),
            MeshNews::Old => tell(warning(StatementError::Old.to_string())),
            MeshNews::Twice => {
                let message = format!(
                    "others hold what this member has signed and its store does not know: the store {} was copied, or is an \
                     older one; remove it, and join again",
                    self.home.dir().display()
                );
                return Err(Error { blame: Blame::Local, message });
            }
        }
        Ok(())
    }

    fn tell_member(&self, member: &PublisherId, up: bool, tell: &mut dyn FnMut(SyncEvent)) {
        if let Some(Other { said, .. }) = self.others.get(member) {
            tell(SyncEvent::Member { name: said.name.clone(), key: said.member.to_string(), up });
        }
    }

    fn heard(
        &mut self,
        said: Statement,
        bytes: Vec<u8>,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), Error> {
        if let Some(roles) = said.roles.clone().filter(|r| r.number > self.roles.roles().number) {
            self.home.keep_roles(&roles)?;
            self.take_roles(roles, tell);
        }
        let member = said.member;
        // Whose certificate ended meanwhile is none any more.
        if self.roles.hear(&member, &said.shown, wall_clock().milliseconds()).is_err() {
            return Ok(());
        }
        let before = self.others.get(&member);
        let same_place = before.is_some_and(|b| {
            (&b.said.link_key, &b.said.index.addresses, &b.said.name)
                == (&said.link_key, &said.index.addresses, &said.name)
        });
        let is_new = before.is_none();
        let (again, failures, told) = before.map_or((None, 0, String::new()), |before| {
            (before.again, before.failures, before.told.clone())
        });
        // Who fails again and again is not asked sooner for saying more.
        let again = if failures > 3 { again } else { None };
        self.others.insert(member, Other { said, bytes, done: false, again, failures, told });
        if same_place {
            self.keep.get_or_insert_with(|| Instant::now() + KEEP);
        } else {
            self.keep_members()?;
        }
        if is_new && self.up.contains(&member) {
            self.tell_member(&member, true, tell);
        }
        Ok(())
    }

    /// Writes down what members have said: what they say next has to go on there.
    pub(in crate::sync) fn keep_members(&mut self) -> Result<(), Error> {
        self.keep = None;
        Ok(self.home.keep_members(self.others.values().map(|other| &other.bytes[..]))?)
    }

    pub(super) fn take_roles(&mut self, roles: Roles, tell: &mut dyn FnMut(SyncEvent)) {
        // Who is no member hears nothing from now on, however long it takes to look at the folder.
        self.serving.iter().for_each(|serving| serving.say(Vec::new(), Some(roles.clone())));
        if self.roles.take(roles) {
            self.drop_others(tell);
        }
    }

    /// Who is no member any more is not followed, and can't ask for what is published from now on.
    pub(super) fn drop_others(&mut self, tell: &mut dyn FnMut(SyncEvent)) {
        let now_ms = wall_clock().milliseconds();
        for other in self.others.values() {
            let judged = self.roles.hear(&other.said.member, &other.said.shown, now_ms);
            if judged.is_err() && self.up.remove(&other.said.member) {
                let (name, key) = (other.said.name.clone(), other.said.member.to_string());
                tell(SyncEvent::Member { name, key, up: false });
            }
        }
        self.others.retain(|member, _| self.roles.admits(member));
        self.look = Some(Instant::now());
        let own = self.key.public();
        if let Err(why) = self.roles.hear(&own, &self.shown, now_ms) {
            tell(warning(format!("this member is none any more: {why}")));
        }
        let read_only = !self.roles.may_write(&own);
        if read_only && !std::mem::replace(&mut self.last.read_only, read_only) {
            tell(SyncEvent::ReadOnly);
        }
        self.last.read_only = read_only;
    }
}
