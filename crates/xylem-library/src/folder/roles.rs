//! [`Roles`]: what the founder of a group says of its members, by their keys and by a trust schema; [`Membership`]: what
//! of that holds for whom now (docs/spec/sync.md, "Roles").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::{BTreeMap, HashMap};

use xylem_hash::Hash;
use xylem_object::PublisherId;

use super::certified::{NotCertified, RoleSchema, Standing};
use super::heard::MAX_MEMBERS;
use super::statement::{array, field, put};

/// Members that have a role of their own, at most: whoever writes a list and whoever reads it goes by this.
pub(super) const MAX_ROLES: usize = MAX_MEMBERS;

/// What a member may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It may do everything. Said only where who is not named is no member.
    Member,
    /// What it changes is not taken over.
    ReadOnly,
    /// Not a member any more.
    Removed,
}

/// What the founder says of members. Whoever is not named may do everything, unless the group is closed or has a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Later ones have larger numbers.
    pub number: u64,
    /// Who is not named is no member: since somebody was removed, who still has the ticket.
    pub closed: bool,
    /// Those that are not ordinary members; all of them if it is closed.
    pub members: BTreeMap<PublisherId, Role>,
    /// Says what those may do that are not named.
    pub schema: Option<RoleSchema>,
}

impl Roles {
    /// Those of who knows nothing of a group yet but that it has a schema: nobody but the founder is believed.
    pub fn unheard(founder: PublisherId) -> Self {
        Self { closed: true, members: [(founder, Role::Member)].into(), ..Self::default() }
    }

    /// Whether somebody is a member by what is said of its key.
    fn admits(&self, member: &PublisherId) -> bool {
        match self.members.get(member) {
            Some(role) => *role != Role::Removed,
            None => !self.closed && self.schema.is_none(),
        }
    }

    fn may_write(&self, member: &PublisherId) -> bool {
        match self.members.get(member) {
            Some(role) => *role == Role::Member,
            None => !self.closed && self.schema.is_none(),
        }
    }

    /// Makes room for one more where the list is full: whom a closed group does not name is no member, so that those who were
    /// removed need not be named. Whether there is room.
    pub(super) fn make_room(&mut self, member: &PublisherId) -> bool {
        let is_full =
            |roles: &Self| !roles.members.contains_key(member) && roles.members.len() >= MAX_ROLES;
        if is_full(self) && self.closed && self.schema.is_none() {
            self.members.retain(|_, role| *role != Role::Removed);
        }
        !is_full(self)
    }

    /// Whether others read a list of so many names.
    pub(super) fn fits(&self) -> bool {
        self.members.len() <= MAX_ROLES
    }

    /// As statements have it, and the file that is kept of it. What does not [fit](Self::fits) is not read.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_be_bytes());
        out.push(u8::from(self.closed));
        out.extend_from_slice(&u16::try_from(self.members.len()).unwrap_or(u16::MAX).to_be_bytes());
        for (member, role) in &self.members {
            out.extend_from_slice(&member.0);
            out.push(match role {
                Role::Member => 0,
                Role::ReadOnly => 1,
                Role::Removed => 2,
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
                [0] => Role::Member,
                [1] => Role::ReadOnly,
                [2] => Role::Removed,
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

/// Why somebody is no member.
#[derive(Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// The founder's list is against it.
    #[error("it is not one of those whom the founder names")]
    Unnamed,
    /// Its certificates do not make it one.
    #[error(transparent)]
    NotCertified(#[from] NotCertified),
    /// There are as many as can be.
    #[error("the group has {MAX_MEMBERS} members already")]
    TooMany,
}

/// Who is a member of a group now, and what it may do.
#[derive(Debug)]
pub struct Membership {
    founder: PublisherId,
    roles: Roles,
    /// What the schema says of those that are not named and have shown certificates: of members alone, so that strangers
    /// fill nothing.
    certified: HashMap<PublisherId, (Standing, Hash)>,
    /// Somebody is none any more of whom [`Self::expire`] has not told yet.
    ended: bool,
    /// When we began, or somebody's certificate ended last: ms since 1970.
    since_ms: u64,
}

impl Membership {
    /// Of a group of this founder's, by the newest roles that are known.
    pub fn new(founder: PublisherId, roles: Roles, now_ms: u64) -> Self {
        Self { founder, roles, certified: HashMap::new(), ended: false, since_ms: now_ms }
    }

    /// What the founder says.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Whether somebody is the founder, or one that it names as a member.
    pub(super) fn names(&self, member: &PublisherId) -> bool {
        let role = self.roles.members.get(member);
        *member == self.founder || role.is_some_and(|role| *role != Role::Removed)
    }

    /// Whether the founder has said nothing of members that we know.
    pub fn is_unheard(&self) -> bool {
        self.roles.number == 0
    }

    /// Whether somebody is a member, or is one if it shows the right certificates, or if the founder, who is not heard yet,
    /// says so.
    pub fn may_admit(&self, member: &PublisherId) -> bool {
        let by_schema = self.roles.schema.is_some() && !self.roles.members.contains_key(member);
        self.is_unheard() || by_schema || self.admits(member)
    }

    /// Grows whenever somebody may have lost a role: what is published from then on has names that nobody knows who had heard
    /// those before. Where certificates end by themselves an earlier run may have forgotten whose did.
    pub fn audience(&self) -> u64 {
        match self.roles.schema {
            Some(_) => self.roles.number.max(self.since_ms),
            None => self.roles.number,
        }
    }

    /// Takes newer roles; what members have shown is judged anew as it is heard again ([`Self::hear`]). False: they are not newer.
    pub fn take(&mut self, roles: Roles) -> bool {
        let newer = roles.number > self.roles.number;
        if newer {
            self.roles = roles;
            self.certified.clear();
        }
        newer
    }

    /// Looks at what a member shows of itself. Shown again it costs nothing.
    ///
    /// # Errors
    /// It is none.
    pub fn hear(
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

    /// Forgets whose certificates have ended. Whether anybody is no member any more, or is to show something else: what all have
    /// shown is to be heard again.
    pub fn expire(&mut self, now_ms: u64) -> bool {
        let before = self.certified.len();
        self.certified.retain(|_, (standing, _)| now_ms < standing.until_ms);
        let ended = std::mem::take(&mut self.ended) || self.certified.len() < before;
        if ended {
            self.since_ms = self.since_ms.max(now_ms);
        }
        ended
    }

    /// Whether somebody is a member, by what it has shown.
    pub fn admits(&self, member: &PublisherId) -> bool {
        *member == self.founder || self.roles.admits(member) || self.standing(member).is_some()
    }

    /// Whether what somebody changes is taken over.
    pub fn may_write(&self, member: &PublisherId) -> bool {
        *member == self.founder
            || self.roles.may_write(member)
            || self.standing(member).is_some_and(|standing| standing.writes)
    }

    fn standing(&self, member: &PublisherId) -> Option<&Standing> {
        let unnamed = !self.roles.members.contains_key(member);
        self.certified.get(member).filter(|_| unnamed).map(|(standing, _)| standing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::certified::tests::{FOUNDER, NOW, schema, shown_by};
    use super::*;

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
    fn who_is_named_has_that_role_and_who_is_not_what_the_group_gives() {
        let named = [(5, Role::ReadOnly), (6, Role::Removed), (7, Role::Member)];
        let members = named.map(|(n, role)| (member(n), role)).into();
        let roles = Roles { number: 3, members, ..Roles::default() };
        let (no, reads, all) = ((false, false), (true, false), (true, true));
        assert_eq!(can(&of(roles.clone())), [reads, no, all, all]);
        let closed = Roles { closed: true, ..roles.clone() };
        assert_eq!(can(&of(closed)), [reads, no, all, no], "who is not named is no member");
        let mut members = of(Roles { schema: Some(schema()), ..roles });
        assert_eq!(can(&members), [reads, no, all, no], "who shows nothing is none");
        assert!(members.admits(&FOUNDER) && members.may_write(&FOUNDER));
        // What the founder says of a key goes before what its certificate says.
        for n in [5, 6, 7, 8] {
            let shown = shown_by("/org/staff/x", &member(n), NOW + 5_000);
            assert_eq!(members.hear(&member(n), &shown, NOW).is_ok(), n != 6);
        }
        assert_eq!(can(&members), [reads, no, all, all]);
        // Nobody is believed before the founder is heard.
        let members = of(Roles::unheard(FOUNDER));
        assert_eq!(can(&members), [no; 4]);
        assert!(members.admits(&FOUNDER) && members.may_write(&FOUNDER));
    }

    #[test]
    fn roles_come_back_as_they_were() {
        let members = [(member(5), Role::Removed)].into();
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
    fn a_certificate_counts_until_it_ends_and_another_schema_judges_anew() {
        let mut members = of(Roles { number: 1, schema: Some(schema()), ..Roles::default() });
        let (bob, shown) = (member(8), shown_by("/org/staff/bob", &member(8), NOW + 5_000));
        members.hear(&bob, &shown, NOW).unwrap();
        let before = members.audience();
        assert!(!members.expire(NOW + 5_999) && members.may_write(&bob));
        assert!(members.expire(NOW + 6_000));
        assert!(!members.admits(&bob) && !members.may_write(&bob));
        assert!(members.audience() > before, "names that it has heard lead nowhere");
        assert!(members.hear(&bob, &shown, NOW + 6_000).is_err());
        let renewed = shown_by("/org/staff/bob", &bob, NOW + 50_000);
        members.hear(&bob, &renewed, NOW + 6_000).unwrap();
        // What was shown before is not believed again because something newer was; and that is told once.
        assert!(!members.expire(NOW + 6_000));
        assert!(members.hear(&bob, &shown, NOW + 6_000).is_err() && !members.admits(&bob));
        assert!(members.expire(NOW + 6_000) && !members.expire(NOW + 6_000));
        members.hear(&bob, &renewed, NOW + 6_000).unwrap();
        assert!(!members.take(Roles::default()), "older roles are not taken");
        let newer = Roles { number: 2, schema: Some(schema()), ..Roles::default() };
        assert!(members.take(newer) && !members.admits(&bob), "until it is looked at again");
    }

    #[test]
    fn strangers_fill_nothing_and_members_have_an_end() {
        let mut members = of(Roles { schema: Some(schema()), ..Roles::default() });
        for n in 0..u16::try_from(MAX_MEMBERS + 44).unwrap() {
            let mut key = [0; 32];
            key[..2].copy_from_slice(&n.to_be_bytes());
            let stranger = shown_by("/org/other/x", &PublisherId(key), NOW + 5_000);
            assert!(members.hear(&PublisherId(key), &stranger, NOW).is_err());
            assert_eq!(members.certified.len(), usize::from(n).min(MAX_MEMBERS));
            let shown = shown_by("/org/guest/x", &PublisherId(key), NOW + 5_000);
            let heard = members.hear(&PublisherId(key), &shown, NOW);
            assert_eq!(heard.is_ok(), usize::from(n) < MAX_MEMBERS);
        }
    }
}
