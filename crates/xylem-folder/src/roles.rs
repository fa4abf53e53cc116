//! [`Roles`]: the roles that the founder of a group gives to its members, by their keys and by a trust schema.
//! [`Membership`]: which keys have a role now (docs/spec/sync.md, "Roles").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::{BTreeMap, HashMap};

use xylem_hash::Hash;
use xylem_object::PublisherId;

use super::certified::{CertifiedRole, NotCertified, RoleSchema};
use super::fields::{array, field, put};
use super::heard::MAX_MEMBERS;

/// Most members with a role of their own. Writers and readers of a list both enforce it.
pub(super) const MAX_ROLES: usize = MAX_MEMBERS;

/// Rights of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// It may do everything. Listed only where keys that are not named are no members.
    Member,
    /// Its changes are not taken over.
    ReadOnly,
    /// It is no longer a member.
    Removed,
}

/// The roles of a group's members. A member that is not named may do everything, unless the group is closed or has a
/// schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Version of the roles; newer ones have larger numbers.
    pub number: u64,
    /// Only named keys are members. The first removal closes a group, because the removed member still has the ticket.
    pub closed: bool,
    /// Keys that are not ordinary members; in a closed group, all keys.
    pub members: BTreeMap<PublisherId, MemberRole>,
    /// Decides what keys that are not named may do.
    pub schema: Option<RoleSchema>,
}

impl Roles {
    /// The roles before any statement of the founder, in a group with a schema: only the founder is a member.
    pub fn founder_only(founder: PublisherId) -> Self {
        Self { closed: true, members: [(founder, MemberRole::Member)].into(), ..Self::default() }
    }

    /// Returns whether a key is a member by this list.
    fn admits(&self, member: &PublisherId) -> bool {
        match self.members.get(member) {
            Some(role) => *role != MemberRole::Removed,
            None => !self.closed && self.schema.is_none(),
        }
    }

    fn may_write(&self, member: &PublisherId) -> bool {
        match self.members.get(member) {
            Some(role) => *role == MemberRole::Member,
            None => !self.closed && self.schema.is_none(),
        }
    }

    /// Makes room for one more key in a full list. A closed group need not name removed members, since it admits only
    /// named keys. Returns whether there is room.
    pub(super) fn make_room(&mut self, member: &PublisherId) -> bool {
        let is_full =
            |roles: &Self| !roles.members.contains_key(member) && roles.members.len() >= MAX_ROLES;
        if is_full(self) && self.closed && self.schema.is_none() {
            self.members.retain(|_, role| *role != MemberRole::Removed);
        }
        !is_full(self)
    }

    /// Returns whether other members accept a list of this length.
    pub(super) fn fits(&self) -> bool {
        self.members.len() <= MAX_ROLES
    }

    /// Appends the encoding that statements and the stored list use. Readers refuse a list that does not
    /// [fit](Self::fits).
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_be_bytes());
        out.push(u8::from(self.closed));
        out.extend_from_slice(&u16::try_from(self.members.len()).unwrap_or(u16::MAX).to_be_bytes());
        for (member, role) in &self.members {
            out.extend_from_slice(&member.0);
            out.push(match role {
                MemberRole::Member => 0,
                MemberRole::ReadOnly => 1,
                MemberRole::Removed => 2,
            });
        }
        put(out, self.schema.as_ref().map_or(&[], RoleSchema::as_bytes));
    }

    pub(super) fn read(input: &mut &[u8]) -> Option<Self> {
        let number = u64::from_be_bytes(array(input)?);
        let closed = match array(input)? {
            [closed @ 0..=1] => closed == 1,
            _ => return None,
        };
        let count = usize::from(u16::from_be_bytes(array(input)?));
        let mut members = BTreeMap::new();
        for _ in 0..Some(count).filter(|count| *count <= MAX_ROLES)? {
            let member = PublisherId(array(input)?);
            let role = match array(input)? {
                [0] => MemberRole::Member,
                [1] => MemberRole::ReadOnly,
                [2] => MemberRole::Removed,
                _ => return None,
            };
            members.insert(member, role);
        }
        let schema = match field(input)? {
            [] => None,
            bytes => Some(RoleSchema::read(bytes)?),
        };
        Some(Self { number, closed, members, schema })
    }
}

/// Why a key is not a member.
#[derive(Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// The founder's list excludes it.
    #[error("it is not in the founder's list of members")]
    Unnamed,
    /// Its certificates do not make it a member.
    #[error(transparent)]
    NotCertified(#[from] NotCertified),
    /// The group is full.
    #[error("the group has {MAX_MEMBERS} members already")]
    TooMany,
}

/// Which keys are members of a group now, and what they may do.
#[derive(Debug)]
pub struct Membership {
    founder: PublisherId,
    roles: Roles,
    /// Judgements by the schema of unnamed members that presented certificates. Only members are kept, so that
    /// strangers fill no memory.
    certified: HashMap<PublisherId, (CertifiedRole, Hash)>,
    /// A membership ended that [`Self::expire`] has not reported yet.
    ended: bool,
    /// Start of this run, or the last end of a certificate, in milliseconds since 1970.
    since_ms: u64,
}

impl Membership {
    /// Membership in this founder's group, by the newest roles that are known.
    pub fn new(founder: PublisherId, roles: Roles, now_ms: u64) -> Self {
        Self { founder, roles, certified: HashMap::new(), ended: false, since_ms: now_ms }
    }

    /// Returns the founder's roles.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Returns whether a key is the founder, or one that the founder names as a member.
    pub(super) fn names(&self, member: &PublisherId) -> bool {
        let role = self.roles.members.get(member);
        *member == self.founder || role.is_some_and(|role| *role != MemberRole::Removed)
    }

    /// Returns whether no roles of the founder are known yet.
    pub fn has_no_roles(&self) -> bool {
        self.roles.number == 0
    }

    /// Returns whether a key is a member, or may become one: by the right certificates, or by the founder, if no roles
    /// are known yet.
    pub fn may_admit(&self, member: &PublisherId) -> bool {
        let by_schema = self.roles.schema.is_some() && !self.roles.members.contains_key(member);
        self.has_no_roles() || by_schema || self.admits(member)
    }

    /// Returns a number that grows whenever a member may have lost a role. Publications then get names that such a
    /// member does not know. Where certificates end by themselves, the start of this run counts, because an earlier run
    /// may have forgotten an end.
    pub fn name_epoch(&self) -> u64 {
        match self.roles.schema {
            Some(_) => self.roles.number.max(self.since_ms),
            None => self.roles.number,
        }
    }

    /// Takes newer roles; returns false if they are not newer. Certificates of members are judged anew when they arrive
    /// again ([`Self::judge_member`]).
    pub fn take(&mut self, roles: Roles) -> bool {
        let newer = roles.number > self.roles.number;
        if newer {
            self.roles = roles;
            self.certified.clear();
        }
        newer
    }

    /// Judges what a member presents. Presenting the same again is cheap.
    ///
    /// # Errors
    /// It is no member.
    pub fn judge_member(
        &mut self,
        member: &PublisherId,
        shown: &[u8],
        now_ms: u64,
    ) -> Result<(), NotAdmitted> {
        let by_schema = *member != self.founder && !self.roles.members.contains_key(member);
        let Some(schema) = self.roles.schema.as_ref().filter(|_| by_schema) else {
            return if self.admits(member) { Ok(()) } else { Err(NotAdmitted::Unnamed) };
        };
        let hash = xylem_hash::hash(shown);
        let known = self.certified.get(member);
        if known.is_some_and(|(known, of)| *of == hash && now_ms < known.until_ms) {
            return Ok(());
        }
        if known.is_none() && self.certified.len() >= MAX_MEMBERS {
            return Err(NotAdmitted::TooMany);
        }
        let was_member = self.certified.remove(member).is_some();
        match schema.judge(&self.founder, member, shown, now_ms) {
            Ok(standing) => drop(self.certified.insert(*member, (standing, hash))),
            Err(why) => {
                self.ended |= was_member;
                return Err(why.into());
            }
        }
        Ok(())
    }

    /// Forgets members with certificates that have ended. Returns whether a membership has ended since the last call:
    /// then all members' certificates have to be presented again.
    pub fn expire(&mut self, now_ms: u64) -> bool {
        let before = self.certified.len();
        self.certified.retain(|_, (standing, _)| now_ms < standing.until_ms);
        let ended = std::mem::take(&mut self.ended) || self.certified.len() < before;
        if ended {
            self.since_ms = self.since_ms.max(now_ms);
        }
        ended
    }

    /// Returns whether a key is a member, by the list or by what it presented.
    pub fn admits(&self, member: &PublisherId) -> bool {
        *member == self.founder || self.roles.admits(member) || self.standing(member).is_some()
    }

    /// Returns whether a key's changes are taken over.
    pub fn may_write(&self, member: &PublisherId) -> bool {
        *member == self.founder
            || self.roles.may_write(member)
            || self.standing(member).is_some_and(|standing| standing.writes)
    }

    fn standing(&self, member: &PublisherId) -> Option<&CertifiedRole> {
        let unnamed = !self.roles.members.contains_key(member);
        self.certified.get(member).filter(|_| unnamed).map(|(standing, _)| standing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certified::tests::{FOUNDER, NOW, schema, shown_by};

    fn member(n: u8) -> PublisherId {
        PublisherId([n; 32])
    }

    fn of(roles: Roles) -> Membership {
        Membership::new(FOUNDER, roles, NOW)
    }

    fn can(members: &Membership) -> [(bool, bool); 4] {
        [5, 6, 7, 8].map(|n| (members.admits(&member(n)), members.may_write(&member(n))))
    }

    #[test]
    fn named_keys_have_their_role_and_others_the_default() {
        let named = [(5, MemberRole::ReadOnly), (6, MemberRole::Removed), (7, MemberRole::Member)];
        let members = named.map(|(n, role)| (member(n), role)).into();
        let roles = Roles { number: 3, members, ..Roles::default() };
        let (no, reads, all) = ((false, false), (true, false), (true, true));
        assert_eq!(can(&of(roles.clone())), [reads, no, all, all]);
        let closed = Roles { closed: true, ..roles.clone() };
        assert_eq!(can(&of(closed)), [reads, no, all, no], "who is not named is no member");
        let mut members = of(Roles { schema: Some(schema()), ..roles });
        assert_eq!(can(&members), [reads, no, all, no], "who shows nothing is none");
        assert!(members.admits(&FOUNDER) && members.may_write(&FOUNDER));
        // The founder's list takes precedence over certificates.
        for n in [5, 6, 7, 8] {
            let shown = shown_by("/org/staff/x", &member(n), NOW + 5_000);
            assert_eq!(members.judge_member(&member(n), &shown, NOW).is_ok(), n != 6);
        }
        assert_eq!(can(&members), [reads, no, all, all]);
        // No other key is a member before the founder's roles are known.
        let members = of(Roles::founder_only(FOUNDER));
        assert_eq!(can(&members), [no; 4]);
        assert!(members.admits(&FOUNDER) && members.may_write(&FOUNDER));
    }

    #[test]
    fn roles_survive_encoding() {
        let members = [(member(5), MemberRole::Removed)].into();
        let roles = Roles { number: 3, closed: true, members, schema: Some(schema()) };
        for roles in [roles.clone(), Roles { schema: None, ..roles }] {
            let mut bytes = Vec::new();
            roles.write(&mut bytes);
            assert_eq!(Roles::read(&mut &bytes[..]), Some(roles));
            for len in 0..bytes.len() {
                assert_eq!(Roles::read(&mut &bytes[..len]), None);
            }
        }
    }

    #[test]
    fn certificates_count_until_they_end_and_schemas_judge_anew() {
        let mut members = of(Roles { number: 1, schema: Some(schema()), ..Roles::default() });
        let (bob, shown) = (member(8), shown_by("/org/staff/bob", &member(8), NOW + 5_000));
        members.judge_member(&bob, &shown, NOW).unwrap();
        let before = members.name_epoch();
        assert!(!members.expire(NOW + 5_999) && members.may_write(&bob));
        assert!(members.expire(NOW + 6_000));
        assert!(!members.admits(&bob) && !members.may_write(&bob));
        assert!(members.name_epoch() > before, "names that it has heard lead nowhere");
        assert!(members.judge_member(&bob, &shown, NOW + 6_000).is_err());
        let renewed = shown_by("/org/staff/bob", &bob, NOW + 50_000);
        members.judge_member(&bob, &renewed, NOW + 6_000).unwrap();
        // An older presentation does not count after a newer one, and the end is reported once.
        assert!(!members.expire(NOW + 6_000));
        assert!(members.judge_member(&bob, &shown, NOW + 6_000).is_err() && !members.admits(&bob));
        assert!(members.expire(NOW + 6_000) && !members.expire(NOW + 6_000));
        members.judge_member(&bob, &renewed, NOW + 6_000).unwrap();
        assert!(!members.take(Roles::default()), "older roles are not taken");
        let newer = Roles { number: 2, schema: Some(schema()), ..Roles::default() };
        assert!(members.take(newer) && !members.admits(&bob), "until it is looked at again");
    }

    #[test]
    fn strangers_fill_no_memory_and_members_are_bounded() {
        let mut members = of(Roles { schema: Some(schema()), ..Roles::default() });
        for n in 0..u16::try_from(MAX_MEMBERS + 44).unwrap() {
            let mut key = [0; 32];
            key[..2].copy_from_slice(&n.to_be_bytes());
            let stranger = shown_by("/org/other/x", &PublisherId(key), NOW + 5_000);
            assert!(members.judge_member(&PublisherId(key), &stranger, NOW).is_err());
            assert_eq!(members.certified.len(), usize::from(n).min(MAX_MEMBERS));
            let shown = shown_by("/org/guest/x", &PublisherId(key), NOW + 5_000);
            let heard = members.judge_member(&PublisherId(key), &shown, NOW);
            assert_eq!(heard.is_ok(), usize::from(n) < MAX_MEMBERS);
        }
    }
}
