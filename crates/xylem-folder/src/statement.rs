//! [`MemberStatement`]: a member's signed announcement about itself. [`SyncGroup`]: the group that members belong to.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::fmt;
use std::str::FromStr;

use xylem_hash::Hash;
use xylem_object::ticket::{CHECKSUM_LEN, base32, checksum};
use xylem_object::{PublisherId, PublisherKey, Ticket};
use zeroize::Zeroizing;

use super::certified::MAX_PRESENTATION;
use super::error::FolderError;
use super::fields::{array, field, put};
use super::history::{LogEntry, MemberLog, Past};
use super::index::{MAX_NAME, is_name};
use super::roles::Roles;
use super::vector::MemberId;

/// First characters of an invitation.
const SCHEME: &str = "xylem-sync:";
const VERSION: u8 = 1;
/// Version of an invitation to a group with a schema.
const VERSION_SCHEMA: u8 = 2;
/// First bytes of every statement.
const MAGIC: &[u8; 4] = b"xss3";
/// First bytes of earlier layouts, without history or certificates; no released version made any.
const OLD_MAGIC: [&[u8; 4]; 2] = [b"xss1", b"xss2"];
/// Bytes signed before the statement, so that the signature is good for nothing else.
const SIGNED: &[u8] = b"xylem sync statement\0";
const PROOF: &str = "xylem 2026-11-23 sync: who signs with this key has the group's secret";
const NAMES: &str = "xylem 2026-11-23 sync: names of what a member publishes in a group";
pub(super) const SIGNATURE_LEN: usize = 64;
/// Most bytes of a statement: each of its parts may have its full length.
pub const MAX_STATEMENT: usize = 64 * 1024;
/// Most bytes of a statement without roles, which only the founder has: those of a thousand members are held in memory.
const MAX_WITHOUT_ROLES: usize = 16 * 1024;

/// Identity of a group: the secret that its members share, and its founder.
#[derive(Clone)]
pub struct SyncGroup {
    /// The group's secret: a peer that has it may be a member.
    secret: Zeroizing<[u8; 32]>,
    /// The member that gives the roles.
    pub founder: PublisherId,
}

impl SyncGroup {
    /// Makes a group with this secret, which has to be random.
    pub fn new(secret: [u8; 32], founder: PublisherId) -> Self {
        Self { secret: Zeroizing::new(secret), founder }
    }

    /// Proves to a member with the secret that the owner of this key has it, too.
    fn proof(&self, member: &PublisherId) -> [u8; 32] {
        let key = xylem_hash::derive_key(PROOF, &*self.secret);
        *xylem_hash::keyed_hash(&key, &member.0).as_bytes()
    }

    /// Returns an unguessable name for this member's publications, while these roles hold.
    pub fn hidden_name(&self, own: &PublisherKey, roles: u64) -> String {
        let material = [&self.secret[..], &own.to_bytes()[..], &roles.to_be_bytes()].concat();
        let key = Zeroizing::new(xylem_hash::derive_key(NAMES, &Zeroizing::new(material)));
        key.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns whether both are the same group.
    pub fn is(&self, other: &Self) -> bool {
        self.founder == other.founder && *self.secret == *other.secret
    }
}

impl fmt::Debug for SyncGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(of {}, secret hidden)", self.founder.key_id())
    }
}

/// A member's announcement: where it is reached, and the newest version of its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatement {
    /// The member's key.
    pub member: PublisherId,
    /// The key that links to this member prove.
    pub link_key: [u8; 32],
    /// Version of the statement; newer ones have larger numbers.
    pub number: u64,
    /// The member's display name.
    pub name: String,
    /// State of its index ([`super::Index::state`]).
    pub state: Hash,
    /// Ticket of its index.
    pub index: Ticket,
    /// Roles of the members; only the founder gives them.
    pub roles: Option<Roles>,
    /// Certificates and vouchers that it presents where a schema decides membership ([`super::present`]); may be empty.
    pub shown: Vec<u8>,
    /// The end of its log; the last entry is this statement's.
    pub past: Past,
}

/// Why bytes are not a statement of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// They do not follow the layout.
    #[error("it is not a member's statement")]
    Malformed,
    /// An older version of the program made it.
    #[error("an older version of xylem made it; all members of a group need the same version")]
    Old,
    /// The signature is wrong.
    #[error("its signature is wrong")]
    Signature,
    /// The signer does not have the group's secret.
    #[error("its signer is not in this group")]
    Stranger,
    /// A member other than the founder gives roles.
    #[error("only the founder can change what members may do")]
    NotTheFounder,
}

impl MemberStatement {
    /// Returns the member's short form.
    pub fn id(&self) -> MemberId {
        self.member.key_id().0
    }

    /// Records the statement in `log`, signs it, and returns the bytes that members exchange.
    ///
    /// # Errors
    /// The log cannot be written; [`FolderError::Unsayable`] for a statement that others would refuse, which is not
    /// recorded.
    pub fn sign(
        &self,
        group: &SyncGroup,
        key: &PublisherKey,
        log: &mut MemberLog,
    ) -> Result<Vec<u8>, FolderError> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.member.0);
        out.extend_from_slice(&self.link_key);
        out.extend_from_slice(&self.number.to_be_bytes());
        put(&mut out, self.name.as_bytes());
        out.extend_from_slice(self.state.as_bytes());
        put(&mut out, &self.index.to_bytes());
        out.push(u8::from(self.roles.is_some()));
        if let Some(roles) = &self.roles {
            roles.write(&mut out);
        }
        put(&mut out, &self.shown);
        let entry = LogEntry { number: self.number, hash: xylem_hash::hash(&out) };
        let mut past = Vec::new();
        log.past_with(entry).iter().for_each(|end| end.write(&mut past));
        put(&mut out, &past);
        out.extend_from_slice(&group.proof(&self.member));
        let fits = out.len().saturating_add(SIGNATURE_LEN) <= MAX_STATEMENT;
        let read = Self::parse(&out).filter(|_| fits).map(|(read, _)| read);
        // A part that does not fit its field is cut, and differs after parsing. The ticket is not compared: it keeps
        // only as many addresses as it can hold.
        let same = |read: Self| {
            Self { past: self.past.clone(), index: self.index.clone(), ..read } == *self
        };
        if !read.is_some_and(same) {
            return Err(FolderError::Unsayable(MAX_STATEMENT));
        }
        log.append(entry)?;
        let signature = key.signer().sign(&[SIGNED, &out]);
        out.extend_from_slice(signature.as_ref());
        Ok(out)
    }

    /// Parses a statement, and checks that a member of the group signed it.
    ///
    /// # Errors
    /// See [`StatementError`].
    pub fn read(bytes: &[u8], group: &SyncGroup) -> Result<Self, StatementError> {
        let malformed = StatementError::Malformed;
        if bytes.len() > MAX_STATEMENT {
            return Err(malformed);
        }
        if OLD_MAGIC.iter().any(|old| bytes.starts_with(*old)) {
            return Err(StatementError::Old);
        }
        let (signed, signature) = bytes
            .len()
            .checked_sub(SIGNATURE_LEN)
            .and_then(|at| bytes.split_at_checked(at))
            .ok_or(malformed)?;
        let (statement, proof) = Self::parse(signed).ok_or(malformed)?;
        let expected = group.proof(&statement.member);
        // Constant time: for strangers, the proof is as good as the group's secret.
        let differs = proof.iter().zip(expected).fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs != 0 {
            return Err(StatementError::Stranger);
        }
        if !statement.member.verifies(&[SIGNED, signed].concat(), signature) {
            return Err(StatementError::Signature);
        }
        if statement.roles.is_some() && statement.member != group.founder {
            return Err(StatementError::NotTheFounder);
        }
        Ok(statement)
    }

    /// Parses all but the signature.
    fn parse(bytes: &[u8]) -> Option<(Self, [u8; 32])> {
        let mut input = bytes.strip_prefix(MAGIC)?;
        let member = PublisherId(array(&mut input)?);
        let link_key = array(&mut input)?;
        let number = u64::from_be_bytes(array(&mut input)?);
        let name = std::str::from_utf8(field(&mut input)?).ok().filter(|name| is_name(name))?;
        let state = Hash::from_bytes(array(&mut input)?);
        let index = Ticket::from_bytes(field(&mut input)?).ok()?;
        let roles = match array(&mut input)? {
            [0] => None,
            [1] => Some(Roles::read(&mut input)?),
            _ => return None,
        };
        if roles.is_none() && bytes.len() > MAX_WITHOUT_ROLES.saturating_sub(SIGNATURE_LEN) {
            return None;
        }
        let shown =
            Some(field(&mut input)?).filter(|shown| shown.len() <= MAX_PRESENTATION)?.to_vec();
        let said = xylem_hash::hash(bytes.get(..bytes.len().checked_sub(input.len())?)?);
        let past = Past::read(field(&mut input)?)?;
        if past.recent().last() != Some(&LogEntry { number, hash: said }) {
            return None;
        }
        let proof = array(&mut input)?;
        let name = name.to_owned();
        let whole = Self { member, link_key, number, name, state, index, roles, shown, past };
        input.is_empty().then_some((whole, proof))
    }
}

/// Ticket of a group, for a new member: the group, and where one of its members is reached.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// The group.
    pub group: SyncGroup,
    /// A member: its key, its link's key, its addresses.
    pub member: Ticket,
    /// A schema decides membership. Until the founder's statement arrives, only the founder counts as a member.
    pub schema: bool,
}

/// Why a text is not an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvitationError {
    /// Another scheme, or none.
    #[error("not a ticket of a folder in step: such a ticket begins with \"{SCHEME}\"")]
    Scheme,
    /// Characters are wrong or missing.
    #[error("the ticket is damaged: copy it again as a whole")]
    Damaged,
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SyncGroup { secret, founder } = &self.group;
        let version = if self.schema { VERSION_SCHEMA } else { VERSION };
        let mut out = [&[version][..], &secret[..], &founder.0, &self.member.to_bytes()].concat();
        out.extend_from_slice(&checksum(&out));
        write!(f, "{SCHEME}{}", base32::encode(&out))
    }
}

impl FromStr for Invitation {
    type Err = InvitationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().strip_prefix(SCHEME).ok_or(InvitationError::Scheme)?;
        let damaged = InvitationError::Damaged;
        let bytes = base32::decode(text).map_err(|_| damaged)?;
        let at = bytes.len().checked_sub(CHECKSUM_LEN).ok_or(damaged)?;
        let (payload, sum) = bytes.split_at_checked(at).ok_or(damaged)?;
        let mut input = payload;
        if checksum(payload) != *sum {
            return Err(damaged);
        }
        let schema = match array(&mut input) {
            Some([VERSION]) => false,
            Some([VERSION_SCHEMA]) => true,
            _ => return Err(damaged),
        };
        let secret = array(&mut input).ok_or(damaged)?;
        let founder = PublisherId(array(&mut input).ok_or(damaged)?);
        let member = Ticket::from_bytes(input).map_err(|_| damaged)?;
        Ok(Self { group: SyncGroup::new(secret, founder), member, schema })
    }
}

const _: () = assert!(MAX_NAME < MAX_STATEMENT);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::{MAX_ROLES, MemberRole};
    use proptest::prelude::*;

    fn key(n: u8) -> PublisherKey {
        PublisherKey::from_bytes(&[n; 32])
    }

    fn ticket(n: u8) -> Ticket {
        Ticket {
            publisher: key(n).public(),
            root: xylem_hash::hash(b"x"),
            name: None,
            link_key: Some([9; 32]),
            size: None,
            kind: None,
            addresses: vec!["127.0.0.1:7348".parse().unwrap()],
            relays: Vec::new(),
        }
    }

    fn statement(n: u8) -> MemberStatement {
        MemberStatement {
            member: key(n).public(),
            link_key: [9; 32],
            number: 5,
            name: "alice".to_owned(),
            state: xylem_hash::hash(b"state"),
            index: ticket(n),
            roles: None,
            shown: Vec::new(),
            past: Past::none(),
        }
    }

    /// Signs a statement as the first one of its member.
    fn signed(said: &MemberStatement, by: u8) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let mut log = MemberLog::open(&dir.path().join("history")).unwrap();
        said.sign(&group(), &key(by), &mut log).unwrap()
    }

    fn group() -> SyncGroup {
        SyncGroup::new([7; 32], key(1).public())
    }

    #[test]
    fn only_statements_of_members_are_accepted() {
        let group = group();
        let said = signed(&statement(2), 2);
        let read = MemberStatement::read(&said, &group).unwrap();
        assert_eq!(MemberStatement { past: Past::none(), ..read.clone() }, statement(2));
        assert_eq!((read.past.length(), read.past.recent()[0].number), (1, 5));
        let other = SyncGroup::new([8; 32], key(1).public());
        assert_eq!(MemberStatement::read(&said, &other), Err(StatementError::Stranger));
        let forged = signed(&statement(2), 3);
        assert_eq!(MemberStatement::read(&forged, &group), Err(StatementError::Signature));
        for at in 0..said.len() {
            let mut bad = said.clone();
            bad[at] ^= 1;
            assert!(MemberStatement::read(&bad, &group).is_err(), "byte {at}");
        }
        for old in OLD_MAGIC {
            let old = [old, &said[4..]].concat();
            assert_eq!(MemberStatement::read(&old, &group), Err(StatementError::Old));
        }
    }

    #[test]
    fn only_the_founder_gives_roles() {
        let group = group();
        let members =
            [(key(5).public(), MemberRole::ReadOnly), (key(6).public(), MemberRole::Removed)];
        let roles = Roles { number: 3, members: members.into(), ..Roles::default() };
        let said =
            |n: u8| signed(&MemberStatement { roles: Some(roles.clone()), ..statement(n) }, n);
        assert_eq!(MemberStatement::read(&said(1), &group).unwrap().roles, Some(roles.clone()));
        assert_eq!(MemberStatement::read(&said(2), &group), Err(StatementError::NotTheFounder));
        let closed = Roles { closed: true, ..roles };
        let said = signed(&MemberStatement { roles: Some(closed.clone()), ..statement(1) }, 1);
        assert_eq!(MemberStatement::read(&said, &group).unwrap().roles, Some(closed));
    }

    /// Statements of the greatest length, and one byte or name more.
    #[test]
    fn only_statements_that_others_accept_are_signed() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = MemberLog::open(&dir.path().join("history")).unwrap();
        for number in 1..100 {
            log.append(LogEntry { number, hash: xylem_hash::hash(b"before") }).unwrap();
        }
        let named = |count: usize| -> Roles {
            let key = |n: usize| PublisherId(*xylem_hash::hash(&n.to_be_bytes()).as_bytes());
            let members = (0..count).map(|n| (key(n), MemberRole::ReadOnly)).collect();
            Roles { number: 3, closed: true, members, schema: None }
        };
        let host = format!("{}.example:7348", "h".repeat(60));
        let addresses = vec![host.parse().unwrap(); 16];
        let said = |number, count, shown| MemberStatement {
            roles: Some(named(count)).filter(|_| count > 0),
            number,
            name: "n".repeat(MAX_NAME),
            index: Ticket { addresses: addresses.clone(), ..ticket(1) },
            shown: vec![7; shown],
            ..statement(1)
        };
        let longest = said(100, MAX_ROLES, MAX_PRESENTATION);
        let bytes = longest.sign(&group(), &key(1), &mut log).unwrap();
        let read = MemberStatement::read(&bytes, &group()).unwrap();
        assert_eq!(read.roles.unwrap().members.len(), MAX_ROLES);
        // A schema may be as long as what members present.
        assert!(bytes.len() + MAX_PRESENTATION <= MAX_STATEMENT, "{}", bytes.len());
        let ordinary = said(101, 0, MAX_PRESENTATION).sign(&group(), &key(1), &mut log).unwrap();
        assert!(MemberStatement::read(&ordinary, &group()).is_ok());
        let before = log.past();
        let old = said(100, 1, 0);
        // Statements of ordinary members have a smaller limit: host names of this length are of no use.
        let host = format!("{0}.{0}.{0}.example:7348", "h".repeat(60));
        let mut long = said(102, 0, MAX_PRESENTATION);
        long.index.addresses = vec![host.parse().unwrap(); 16];
        long.index.name = Some("/n".repeat(2_000).parse().unwrap());
        for wrong in [said(102, MAX_ROLES + 1, 0), said(102, 1, MAX_PRESENTATION + 1), old, long] {
            let refused = wrong.sign(&group(), &key(1), &mut log);
            assert!(matches!(refused, Err(FolderError::Unsayable(_))));
            assert_eq!(log.past(), before, "nothing is noted");
        }
    }

    #[test]
    fn an_invitation_is_one_line() {
        let invitation = Invitation { group: group(), member: ticket(1), schema: true };
        let text = invitation.to_string();
        let read: Invitation = text.parse().unwrap();
        assert!(read.group.is(&invitation.group) && read.member == invitation.member);
        assert!(read.schema);
        assert!(!format!("{invitation:?}").contains("7, 7, 7"), "the secret is not shown");
        assert_eq!("xylem:abc".parse::<Invitation>().unwrap_err(), InvitationError::Scheme);
        assert_eq!(
            text[..text.len() - 2].parse::<Invitation>().unwrap_err(),
            InvitationError::Damaged
        );
    }

    #[test]
    fn names_of_publications_change_with_the_roles() {
        let group = group();
        assert_ne!(group.hidden_name(&key(1), 0), group.hidden_name(&key(1), 1));
        assert_ne!(group.hidden_name(&key(1), 0), group.hidden_name(&key(2), 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = MemberStatement::read(&[MAGIC, &bytes[..]].concat(), &group());
        }
    }
}
