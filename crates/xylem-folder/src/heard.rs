//! [`Histories`]: the newest statements of all members, and whether each continues that member's history.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use xylem_hash::Hash;
use xylem_object::{PublisherId, Ticket};

use super::adopted::AdoptedState;
use super::error::FolderError;
use super::history::{Past, PastRelation, ProofRequest, is_proven, prove};
use super::roles::{Membership, NotAdmitted, Roles};
use super::statement::{MAX_STATEMENT, MemberStatement, SIGNATURE_LEN, SyncGroup};

/// Most members of which statements are known.
pub const MAX_MEMBERS: usize = 1024;
/// A member that knows at most this many others keeps a link to each; if it knows more, only to some of them.
pub const FULL_MESH: usize = 16;
/// Greatest total cost of the statements that are read from one member in [`RATE_INTERVAL`].
const BUDGET: u32 = 64 * STATEMENT;
/// Most states of earlier statements that are remembered: a member may adopt one that its author has left meanwhile.
const MAX_LEFT: usize = 256;
/// Cost of a statement that needs a check of its signature, and of a known one: in a mesh each arrives from many
/// members.
const STATEMENT: u32 = 16;
const KNOWN: u32 = 1;
/// Proofs of our own history that are made in [`RATE_INTERVAL`].
const PROOFS: u32 = 8;
const RATE_INTERVAL: Duration = Duration::from_secs(1);
/// First bytes of a message with the reason why its receiver is refused.
const REFUSAL_MAGIC: &[u8; 4] = b"xsr1";
/// First bytes of a message that lists the statements its sender knows.
const KNOWN_MAGIC: &[u8; 4] = b"xsk1";
/// Bytes of a statement's entry in that list: the first ones of its signature, which no other member can choose.
const MARK: usize = 8;
/// Most strangers with the ticket that the founder is notified of.
const MAX_APPLICANTS: usize = 64;

/// Questions, one a second while the member has a link, before it is reported as unproven.
const MAX_QUESTIONS: u32 = 30;

/// News from the other members of a group, for the program that keeps a folder in step.
#[derive(Debug)]
pub enum MeshNews {
    /// A member's newest statement, parsed and as it was signed. In a large group the parsed one has the state that the
    /// member has adopted since ([`AdoptedState`]).
    Said(Box<MemberStatement>, Vec<u8>),
    /// A link to a member came up (true) or went down; it proved both the member's key in the group and the link's key.
    Up(PublisherId, bool),
    /// A member has signed two statements that contradict each other's history: nothing of it is accepted any more.
    Rewrote(Box<MemberStatement>, [Vec<u8>; 2]),
    /// A member does not prove that its statement continues its history: nothing newer of it is accepted until it does.
    Unproven(Box<MemberStatement>),
    /// Another program signs other statements with our key.
    Twice,
    /// The log of our statements is damaged, so that nothing can be proven by it.
    BadLog(FolderError),
    /// A peer has the ticket, but its key is not a member's, with the reason.
    Applies(Box<MemberStatement>, NotAdmitted),
    /// A peer with the ticket has an older program.
    Old,
    /// A member's statements were dropped: another member has its place.
    Forgotten(PublisherId),
    /// Other members refuse our links: the founder, or several others in a row while no member accepts one.
    TurnedAway {
        /// Whether the founder refuses.
        by_founder: bool,
        /// The reason.
        why: LinkRefusal,
    },
}

/// Why a link is refused. A peer that is no member receives only this: nothing about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRefusal {
    /// The founder has removed it.
    Removed,
    /// The group is closed, and the founder does not name it.
    Unnamed,
    /// Its certificates make it no member.
    NotCertified,
    /// The group is full.
    NoPlace,
}

impl LinkRefusal {
    /// Returns why this key is refused.
    pub fn of(member: &PublisherId, roles: &Roles, why: &NotAdmitted) -> Self {
        match why {
            NotAdmitted::TooMany => Self::NoPlace,
            NotAdmitted::NotCertified(_) => Self::NotCertified,
            NotAdmitted::Unnamed if roles.members.contains_key(member) => Self::Removed,
            NotAdmitted::Unnamed => Self::Unnamed,
        }
    }

    /// Encodes the message.
    pub fn to_bytes(self) -> Vec<u8> {
        let why = match self {
            Self::Removed => 0,
            Self::Unnamed => 1,
            Self::NotCertified => 2,
            Self::NoPlace => 3,
        };
        [&REFUSAL_MAGIC[..], &[why]].concat()
    }

    /// Parses the message.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        match bytes.strip_prefix(REFUSAL_MAGIC)? {
            [0] => Some(Self::Removed),
            [1] => Some(Self::Unnamed),
            [2] => Some(Self::NotCertified),
            [3] => Some(Self::NoPlace),
            _ => None,
        }
    }
}

/// The statements that another member knows; only the others are sent to it.
#[derive(Debug)]
pub struct KnownStatements(BTreeSet<[u8; MARK]>);

impl KnownStatements {
    /// Parses what [`Histories::list`] made.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (marks, rest) = bytes.strip_prefix(KNOWN_MAGIC)?.as_chunks::<MARK>();
        // Each member has two at most: those that contradict each other.
        let fits = rest.is_empty() && marks.len() <= MAX_MEMBERS.saturating_mul(2);
        fits.then(|| Self(marks.iter().copied().collect()))
    }

    /// Returns whether this statement is in the list.
    pub fn has(&self, said: &[u8]) -> bool {
        mark(said).is_some_and(|mark| self.0.contains(&mark))
    }
}

fn mark(said: &[u8]) -> Option<[u8; MARK]> {
    said.last_chunk::<SIGNATURE_LEN>()?.first_chunk().copied()
}

/// State with which a mesh starts.
pub struct MeshStart {
    /// The group.
    pub group: SyncGroup,
    /// Our own key in it.
    pub own: PublisherId,
    /// The member that invited us.
    pub first: Option<Ticket>,
    /// Stored statements of the members.
    pub known: Vec<(MemberStatement, Vec<u8>)>,
    /// Members to which there was a link, oldest first.
    pub met: Vec<PublisherId>,
    /// Roles that the founder has given.
    pub roles: Roles,
    /// File of the log of our statements.
    pub history: PathBuf,
    /// The evidence against members that rewrote their history.
    pub rewrote: Vec<[(MemberStatement, Vec<u8>); 2]>,
}

/// Incoming messages of one member: each with its length in front, and rate-limited per member.
#[derive(Debug)]
pub struct StatementInbox {
    read: Vec<u8>,
    left: u32,
}

impl Default for StatementInbox {
    fn default() -> Self {
        Self { read: Vec::new(), left: BUDGET }
    }
}

impl StatementInbox {
    /// Appends a message with its length in front.
    pub fn put_framed(message: &[u8], out: &mut Vec<u8>) {
        // Messages are far shorter.
        out.extend_from_slice(&u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(message);
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
    }

    /// Returns whether the rate limit is reached.
    pub fn is_full(&self) -> bool {
        self.left < STATEMENT
    }

    /// Starts the next interval; returns whether the last one reached the limit.
    pub fn begin(&mut self) -> bool {
        std::mem::replace(&mut self.left, BUDGET) < STATEMENT
    }

    /// Refunds the cost of the last message: its bytes were known.
    pub fn was_known(&mut self) {
        self.left = self.left.saturating_add(STATEMENT - KNOWN);
    }

    /// Takes the first message, if it is complete and within the rate limit.
    ///
    /// # Errors
    /// A message that is too long.
    #[expect(clippy::result_unit_err, reason = "there is one way to be wrong")]
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, ()> {
        let Some((len, rest)) = self.read.split_first_chunk::<4>() else { return Ok(None) };
        let len = usize::try_from(u32::from_be_bytes(*len)).map_err(drop)?;
        if len > MAX_STATEMENT {
            return Err(());
        }
        let said = rest.get(..len).filter(|_| self.left >= STATEMENT).map(<[u8]>::to_vec);
        if said.is_some() {
            self.read.drain(..len.saturating_add(4));
            self.left = self.left.saturating_sub(STATEMENT);
        }
        Ok(said)
    }
}

/// Result of a statement.
#[derive(Debug, PartialEq, Eq)]
pub enum StatementOutcome {
    /// It is known, older, or by a member of which nothing is accepted.
    Nothing,
    /// It is its member's newest.
    New,
    /// It contradicts the history of the member's earlier statement; both, as they were signed.
    Rewrote([Vec<u8>; 2]),
    /// Its member has to prove that it continues its history. True if no other statement of the member waited for that.
    Unproven(bool),
    /// The group is full, and all known members have more right to their places.
    NoPlace,
}

/// A member's right to a place among the known ones, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PlacePriority {
    /// It is the founder, or the founder names it.
    Named,
    /// There was a link to it.
    Met,
    /// Only others have reported it: a peer with the ticket can make up any number of such members.
    Told,
}

/// A statement that is too far from its member's known one to compare.
struct UnprovenStatement {
    said: MemberStatement,
    bytes: Vec<u8>,
    asked: u32,
    /// It was answered once with an invalid proof.
    unproven: bool,
}

/// The statements and histories of a group's members.
pub struct Histories {
    /// The end of our own log.
    pub own: Option<Past>,
    path: PathBuf,
    known: BTreeMap<PublisherId, (MemberStatement, Vec<u8>)>,
    /// States of earlier statements, the oldest first.
    left: VecDeque<Hash>,
    waiting: BTreeMap<PublisherId, UnprovenStatement>,
    rewrote: BTreeMap<PublisherId, [(MemberStatement, Vec<u8>); 2]>,
    /// Members to which there was a link, oldest first.
    met: Vec<PublisherId>,
    /// Arrival order of the known members.
    came: BTreeMap<PublisherId, u64>,
    /// The last number in that order.
    latest: u64,
    /// Members that lost their places to others.
    forgotten: Vec<PublisherId>,
    /// Strangers that the founder was notified of.
    applicants: BTreeSet<PublisherId>,
    /// Proofs that may still be made, and the time until which that counts.
    proofs: (u32, Duration),
}

impl Histories {
    /// Starts with our log at `path`, the evidence `rewrote` against members, and the members `met` to which there was
    /// a link.
    pub fn new(
        path: PathBuf,
        rewrote: Vec<[(MemberStatement, Vec<u8>); 2]>,
        met: Vec<PublisherId>,
    ) -> Self {
        let rewrote = rewrote.into_iter().map(|both| (both[0].0.member, both)).collect();
        Self {
            own: None,
            path,
            known: BTreeMap::new(),
            left: VecDeque::new(),
            waiting: BTreeMap::new(),
            rewrote,
            met,
            came: BTreeMap::new(),
            latest: 0,
            forgotten: Vec::new(),
            applicants: BTreeSet::new(),
            proofs: (PROOFS, Duration::ZERO),
        }
    }

    /// Returns the members of which statements are passed on.
    pub fn members(&self) -> impl Iterator<Item = &PublisherId> {
        self.known.keys().chain(self.rewrote.keys())
    }

    /// Returns the statements of a member that are passed on: its newest one, or two that contradict each other.
    pub fn of(&self, member: &PublisherId) -> impl Iterator<Item = &Vec<u8>> {
        let known = self.known.get(member).into_iter();
        known.chain(self.rewrote.get(member).into_iter().flatten()).map(|(_, bytes)| bytes)
    }

    /// Encodes the list of known statements, which is sent in place of many statements.
    pub fn list(&self) -> Vec<u8> {
        let all = self.members().flat_map(|member| self.of(member));
        let marks = all.filter_map(|said| mark(said)).flatten();
        KNOWN_MAGIC.iter().copied().chain(marks).collect()
    }

    /// Returns the members to which there was a link.
    pub fn met(&self) -> &[PublisherId] {
        &self.met
    }

    /// Drops keys that are not members any more.
    pub fn retain(&mut self, members: &mut Membership, now_ms: u64) {
        for (said, _) in self.known.values().chain(self.rewrote.values().flatten()) {
            // Its certificates are judged anew.
            let _ = members.judge_member(&said.member, &said.shown, now_ms);
        }
        self.known.retain(|member, _| members.admits(member));
        self.waiting.retain(|member, _| members.admits(member));
        self.rewrote.retain(|member, _| members.admits(member));
        self.came.retain(|member, _| members.admits(member));
        self.met.retain(|member| members.admits(member));
    }

    /// Returns whether a statement with our own key was made by another program.
    pub fn is_foreign(&self, said: &MemberStatement) -> bool {
        self.own.as_ref().is_some_and(|own| match said.past.fits(own) {
            PastRelation::Same | PastRelation::IsContinued => false,
            PastRelation::Contradicts | PastRelation::Continues => true,
            PastRelation::TooFar => said.past.length() > own.length(),
        })
    }

    /// Returns whether these are the exact bytes of a member's known statement.
    pub fn knows(&self, said: &[u8]) -> bool {
        let member = said.get(4..36).and_then(|member| member.try_into().ok());
        let known = member.and_then(|member| self.known.get(&PublisherId(member)));
        known.is_some_and(|(_, bytes)| bytes == said)
    }

    /// Records a link to this member: it then precedes members that others have only reported.
    pub fn record_link(&mut self, member: &PublisherId) {
        if self.met.contains(member) {
            return;
        }
        if self.met.len() >= MAX_MEMBERS {
            let Self { met, known, .. } = self;
            met.retain(|member| known.contains_key(member));
        }
        if self.met.len() < MAX_MEMBERS {
            self.met.push(*member);
        }
    }

    /// Returns whether a member has a place among the known ones.
    pub fn has_place(&self, member: &PublisherId) -> bool {
        self.known.contains_key(member) || self.rewrote.contains_key(member)
    }

    /// Takes the list of members that lost their places to others.
    pub fn take_forgotten(&mut self) -> Vec<PublisherId> {
        std::mem::take(&mut self.forgotten)
    }

    fn right(&self, member: &PublisherId, members: &Membership) -> PlacePriority {
        if members.names(member) {
            PlacePriority::Named
        } else if self.met.contains(member) {
            PlacePriority::Met
        } else {
            PlacePriority::Told
        }
    }

    /// Makes a place for one more member: drops the latest one of those with the least right. Returns whether there is
    /// a place.
    fn make_place(&mut self, member: &PublisherId, members: &Membership) -> bool {
        if self.known.len().saturating_add(self.rewrote.len()) < MAX_MEMBERS {
            return true;
        }
        let all = self.known.keys().chain(self.rewrote.keys());
        let least = all.map(|known| {
            let came = self.came.get(known).copied().unwrap_or(0);
            (self.right(known, members), came, *known)
        });
        let least = least.max().filter(|(right, ..)| *right > self.right(member, members));
        let Some((_, _, least)) = least else { return false };
        if let Some((said, _)) = self.known.remove(&least) {
            self.record_left(said.state);
        }
        self.waiting.remove(&least);
        self.rewrote.remove(&least);
        self.came.remove(&least);
        self.forgotten.push(least);
        true
    }

    /// Takes a member's statement.
    pub fn take_statement(
        &mut self,
        said: MemberStatement,
        bytes: Vec<u8>,
        members: &Membership,
    ) -> StatementOutcome {
        let member = said.member;
        if self.rewrote.contains_key(&member) {
            return StatementOutcome::Nothing;
        }
        let Some((known, before)) = self.known.get(&member) else {
            if !self.make_place(&member, members) {
                return StatementOutcome::NoPlace;
            }
            self.latest = self.latest.saturating_add(1);
            self.came.insert(member, self.latest);
            self.known.insert(member, (said, bytes));
            return StatementOutcome::New;
        };
        match said.past.fits(&known.past) {
            PastRelation::Same | PastRelation::IsContinued => StatementOutcome::Nothing,
            PastRelation::Continues => {
                let before = known.state;
                self.record_left(before);
                self.known.insert(member, (said, bytes));
                StatementOutcome::New
            }
            PastRelation::Contradicts => {
                let both = [(known.clone(), before.clone()), (said, bytes)];
                self.record_rewrite(both)
            }
            PastRelation::TooFar => {
                let (newer, before) = (said.past.length(), self.waiting.get(&member));
                let first = before.is_none();
                // A statement older than the known one waits only if no other does.
                if before.is_none_or(|waits| waits.said.past.length() < newer) {
                    let (asked, unproven) =
                        before.map_or((0, false), |waits| (waits.asked, waits.unproven));
                    self.waiting.insert(member, UnprovenStatement { said, bytes, asked, unproven });
                }
                StatementOutcome::Unproven(first)
            }
        }
    }

    /// Returns a member's statement with the state that it has adopted since, and the statement as it was signed. `None`
    /// if no statement that is known here has this state; `ours` is the state of our own.
    pub fn adopt(
        &self,
        member: &PublisherId,
        adopted: &AdoptedState,
        ours: Option<Hash>,
    ) -> Option<(MemberStatement, Vec<u8>)> {
        let AdoptedState { number, state, index } = adopted.clone();
        let (said, bytes) = self.known.get(member)?;
        let is_signed = || {
            let known = self.known.values().map(|(said, _)| said);
            let all = known.chain(self.waiting.values().map(|waits| &waits.said));
            all.map(|said| said.state).chain(self.left.iter().copied()).any(|is| is == state)
        };
        // Nothing newer of a member is accepted before it has proven its history.
        let is_proven = !self.waiting.contains_key(member);
        let counts = is_proven && number > said.number && (ours == Some(state) || is_signed());
        counts.then(|| (MemberStatement { number, state, index, ..said.clone() }, bytes.clone()))
    }

    /// Remembers the state of a statement that is no longer its member's newest.
    fn record_left(&mut self, state: Hash) {
        self.left.push_back(state);
        if self.left.len() > MAX_LEFT {
            self.left.pop_front();
        }
    }

    fn record_rewrite(&mut self, both: [(MemberStatement, Vec<u8>); 2]) -> StatementOutcome {
        let member = both[0].0.member;
        both.iter().for_each(|(said, _)| self.record_left(said.state));
        self.known.remove(&member);
        self.waiting.remove(&member);
        self.rewrote.insert(member, both.clone());
        StatementOutcome::Rewrote(both.map(|(_, bytes)| bytes))
    }

    /// Returns the question that a member has to answer, if any.
    pub fn question(&self, member: &PublisherId) -> Option<ProofRequest> {
        let (waits, (known, _)) = (self.waiting.get(member)?, self.known.get(member)?);
        let (one, other) = (known.past.length(), waits.said.past.length());
        let (older, newer) = (one.min(other), one.max(other));
        Some(ProofRequest { member: *member, older, newer })
    }

    /// Counts a question to each member in `there` that has one waiting. Returns those that have just reached the
    /// limit.
    pub fn count_questions(&mut self, there: &BTreeSet<PublisherId>) -> Vec<MemberStatement> {
        let mut silent = Vec::new();
        for (_, waits) in self.waiting.iter_mut().filter(|(who, _)| there.contains(who)) {
            waits.asked = waits.asked.saturating_add(1);
            if waits.asked == MAX_QUESTIONS {
                silent.push(waits.said.clone());
            }
        }
        silent
    }

    /// Makes a proof that a member requests from us. A member that asks too often gets no answer, and has to ask again.
    ///
    /// # Errors
    /// Our own log cannot be read, or is damaged.
    pub fn prove(
        &mut self,
        asked: &ProofRequest,
        now: Duration,
    ) -> Result<Option<Vec<u8>>, FolderError> {
        if now >= self.proofs.1 {
            self.proofs = (PROOFS, now.saturating_add(RATE_INTERVAL));
        }
        let Some((own, left)) = self.own.as_ref().zip(self.proofs.0.checked_sub(1)) else {
            return Ok(None);
        };
        self.proofs.0 = left;
        prove(&self.path, own, asked.older, asked.newer)
    }

    /// Records that a stranger has the ticket; returns whether the founder is to be notified.
    pub fn record_applicant(&mut self, said: &MemberStatement, roles: &Roles) -> bool {
        !roles.members.contains_key(&said.member)
            && self.applicants.len() < MAX_APPLICANTS
            && self.applicants.insert(said.member)
    }

    /// Takes a member's answer; returns the result for the statement that waited for it, if any.
    pub fn take_answer(
        &mut self,
        from: &PublisherId,
        asked: &ProofRequest,
        proof: &[u8],
    ) -> Option<(MemberStatement, Vec<u8>, StatementOutcome)> {
        let member = *from;
        if self.question(from) != Some(*asked) {
            return None;
        }
        let mut waits = self.waiting.remove(&member)?;
        let (known, before) = self.known.get(&member)?;
        let is_newer = waits.said.past.length() > known.past.length();
        let (older, newer) = if is_newer { (known, &waits.said) } else { (&waits.said, known) };
        if !is_proven(&older.past, &newer.past, proof) {
            // A fault of the disk or the transfer is possible: one invalid proof does not expel the member.
            if !std::mem::replace(&mut waits.unproven, true) {
                self.waiting.insert(member, waits);
                return None;
            }
            let other = (waits.said.clone(), waits.bytes.clone());
            let both = [(known.clone(), before.clone()), other];
            return Some((waits.said, waits.bytes, self.record_rewrite(both)));
        }
        if !is_newer {
            return None;
        }
        let before = known.state;
        self.record_left(before);
        self.known.insert(member, (waits.said.clone(), waits.bytes.clone()));
        Some((waits.said, waits.bytes, StatementOutcome::New))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(read: &[u8]) -> StatementInbox {
        let mut inbox = StatementInbox::default();
        inbox.push(read);
        inbox
    }

    /// Further messages wait in the window of the stream until the second is over.
    #[test]
    fn at_most_64_statements_a_second_are_read_from_a_member() {
        let mut said = Vec::new();
        for n in 0..100_u8 {
            StatementInbox::put_framed(&[n; 500], &mut said);
        }
        let mut heard = inbox(&said);
        for second in [0..64_u8, 64..100] {
            for n in second {
                assert_eq!(heard.take(), Ok(Some(vec![n; 500])));
            }
            assert_eq!(heard.take(), Ok(None));
            heard.begin();
        }
        assert!(heard.read.is_empty());
        // A known statement costs less.
        for _ in 0..1000 {
            StatementInbox::put_framed(&[1; 10], &mut heard.read);
            assert!(heard.take().unwrap().is_some());
            heard.was_known();
        }
        assert!(!heard.is_full());
    }

    #[test]
    fn an_overlong_message_is_refused_at_once() {
        let longest = u32::try_from(MAX_STATEMENT).unwrap();
        assert_eq!(inbox(&longest.to_be_bytes()).take(), Ok(None));
        assert_eq!(inbox(&(longest + 1).to_be_bytes()).take(), Err(()));
        assert_eq!(inbox(&[255; 4]).take(), Err(()));
    }

    use crate::history::{LogEntry, MemberLog, prove as prove_at};
    use crate::roles::MemberRole;
    use xylem_object::PublisherKey;

    fn key(n: u16) -> PublisherKey {
        let mut seed = [9; 32];
        seed[..2].copy_from_slice(&n.to_be_bytes());
        PublisherKey::from_bytes(&seed)
    }

    fn group() -> SyncGroup {
        SyncGroup::new([7; 32], key(0).public())
    }

    fn statement(n: u16, number: u64) -> MemberStatement {
        let index = Ticket {
            publisher: key(n).public(),
            root: xylem_hash::hash(b"index"),
            name: None,
            link_key: None,
            size: None,
            kind: None,
            addresses: Vec::new(),
            relays: Vec::new(),
        };
        MemberStatement {
            member: key(n).public(),
            link_key: [9; 32],
            number,
            name: "member".to_owned(),
            state: xylem_hash::hash(&number.to_be_bytes()),
            index,
            roles: None,
            shown: Vec::new(),
            past: Past::none(),
        }
    }

    fn signed(n: u16, number: u64, log: &mut MemberLog) -> (MemberStatement, Vec<u8>) {
        let bytes = statement(n, number).sign(&group(), &key(n), log).unwrap();
        (MemberStatement::read(&bytes, &group()).unwrap(), bytes)
    }

    /// A member's first statement.
    fn first(n: u16) -> (MemberStatement, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        signed(n, 1, &mut MemberLog::open(&dir.path().join("history")).unwrap())
    }

    fn histories() -> Histories {
        Histories::new(PathBuf::new(), Vec::new(), Vec::new())
    }

    fn of(named: &[u16]) -> Membership {
        let members = named.iter().map(|n| (key(*n).public(), MemberRole::Member)).collect();
        Membership::new(key(0).public(), Roles { number: 1, members, ..Roles::default() }, 0)
    }

    /// A peer with the ticket makes up members. They take no place from a member with a link, or from one that the
    /// founder names.
    #[test]
    fn made_up_members_take_no_place_of_others() {
        let (mut heard, members) = (histories(), of(&[3]));
        let hear = |heard: &mut Histories, n: u16| {
            let (said, bytes) = first(n);
            heard.take_statement(said, bytes, &members)
        };
        heard.record_link(&key(1).public());
        assert_eq!(hear(&mut heard, 1), StatementOutcome::New);
        assert_eq!(hear(&mut heard, 2), StatementOutcome::New);
        assert_eq!(heard.list().len(), 4 + 2 * MARK);
        let many = u16::try_from(MAX_MEMBERS).unwrap();
        for n in 100..100 + many - 2 {
            assert_eq!(hear(&mut heard, n), StatementOutcome::New);
        }
        assert_eq!(
            hear(&mut heard, 99),
            StatementOutcome::NoPlace,
            "it has no more right than they have"
        );
        assert!(heard.take_forgotten().is_empty() && !heard.has_place(&key(99).public()));
        // A link, or the founder's naming, gives more right; the latest member gives way.
        heard.record_link(&key(99).public());
        for (n, gone) in [(99, 100 + many - 3), (3, 100 + many - 4), (0, 100 + many - 5)] {
            assert_eq!(hear(&mut heard, n), StatementOutcome::New);
            assert_eq!(heard.take_forgotten(), [key(gone).public()], "{n}");
            assert!(heard.known.len() <= MAX_MEMBERS);
        }
        for n in [0, 1, 2, 3, 99] {
            assert!(heard.has_place(&key(n).public()), "{n}");
        }
        // Two contradicting histories each do not help them either.
        let many_more: Vec<u16> = (100..100 + many - 5).collect();
        for n in many_more {
            let dir = tempfile::tempdir().unwrap();
            let mut log = MemberLog::open(&dir.path().join("history")).unwrap();
            log.append(LogEntry { number: 0, hash: xylem_hash::hash(b"other") }).unwrap();
            let (said, bytes) = signed(n, 1, &mut log);
            assert!(
                matches!(heard.take_statement(said, bytes, &members), StatementOutcome::Rewrote(_)),
                "{n}"
            );
        }
        heard.record_link(&key(4).public());
        assert_eq!(hear(&mut heard, 4), StatementOutcome::New);
        assert_eq!(heard.known.len() + heard.rewrote.len(), MAX_MEMBERS);
        let listed = KnownStatements::read(&heard.list()).unwrap();
        let all: Vec<&Vec<u8>> = heard.members().flat_map(|member| heard.of(member)).collect();
        assert!(all.len() > MAX_MEMBERS && all.iter().all(|said| listed.has(said)));
    }

    #[test]
    fn a_list_of_statements_is_read_or_refused() {
        let (mut heard, members) = (histories(), of(&[]));
        let (known, other) = (first(1), first(2));
        let list = |heard: &Histories| KnownStatements::read(&heard.list()).unwrap();
        assert!(!list(&heard).has(&known.1), "it is empty");
        heard.take_statement(known.0, known.1.clone(), &members);
        assert!(list(&heard).has(&known.1) && !list(&heard).has(&other.1));
        assert!(!list(&heard).has(&known.1[..10]));
        let bytes = heard.list();
        for len in (0..bytes.len()).filter(|len| *len != KNOWN_MAGIC.len()) {
            assert!(KnownStatements::read(&bytes[..len]).is_none(), "{len}");
        }
        let longest = [&KNOWN_MAGIC[..], &[7; 2 * MAX_MEMBERS * MARK]].concat();
        assert!(longest.len() <= MAX_STATEMENT && KnownStatements::read(&longest).is_some());
        assert!(KnownStatements::read(&[longest, vec![7; MARK]].concat()).is_none());
    }

    #[test]
    fn the_list_of_linked_members_is_bounded() {
        let mut heard = histories();
        for n in 0..1_000 {
            heard.record_link(&key(n).public());
        }
        assert!(heard.met.len() <= MAX_MEMBERS);
    }

    /// A single invalid proof may be a fault of the network or a disk; a second one counts as two histories.
    #[test]
    fn only_a_second_invalid_proof_expels_a_member() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut log = MemberLog::open(&path).unwrap();
        let members = of(&[]);
        let old = signed(5, 1, &mut log);
        for number in 2..200 {
            log.append(LogEntry { number, hash: xylem_hash::hash(b"unheard") }).unwrap();
        }
        let new = signed(5, 200, &mut log);
        let who = key(5).public();
        let mut proof = prove_at(&path, &log.past().unwrap(), 1, 200).unwrap().unwrap();
        let good = proof.clone();
        proof[40] ^= 1;
        let begin = || {
            let mut heard = histories();
            assert_eq!(
                heard.take_statement(old.0.clone(), old.1.clone(), &members),
                StatementOutcome::New
            );
            let far = heard.take_statement(new.0.clone(), new.1.clone(), &members);
            assert_eq!(far, StatementOutcome::Unproven(true));
            let asked = heard.question(&who).unwrap();
            assert!(heard.take_answer(&who, &asked, &proof).is_none(), "the first");
            (heard, asked)
        };
        let (mut heard, asked) = begin();
        let right = heard.take_answer(&who, &asked, &good);
        assert!(matches!(right, Some((_, _, StatementOutcome::New))), "and then the right one");
        assert!(heard.rewrote.is_empty());
        let (mut heard, asked) = begin();
        let wrong = heard.take_answer(&who, &asked, &proof);
        assert!(matches!(wrong, Some((_, _, StatementOutcome::Rewrote(_)))), "the second");
        assert_eq!(
            heard.take_statement(new.0.clone(), new.1.clone(), &members),
            StatementOutcome::Nothing
        );
        assert!(heard.rewrote.contains_key(&who) && heard.question(&who).is_none());
    }

    #[test]
    fn the_reason_of_a_refusal_survives_encoding() {
        use LinkRefusal::{NoPlace, NotCertified, Removed, Unnamed};
        for why in [Removed, Unnamed, NotCertified, NoPlace] {
            let bytes = why.to_bytes();
            assert_eq!(LinkRefusal::read(&bytes), Some(why));
            assert_eq!(LinkRefusal::read(&bytes[..4]), None);
            assert_eq!(LinkRefusal::read(&[&bytes[..], b"x"].concat()), None);
        }
        assert_eq!(LinkRefusal::read(b"xsr1\x04"), None);
    }

    /// A neighbour's message counts only for a state that some member has signed, and never against a later statement.
    #[test]
    fn an_adopted_state_is_one_that_a_statement_has() {
        let dir = tempfile::tempdir().unwrap();
        let mut heard = histories();
        let members = Membership::new(key(0).public(), Roles::default(), 0);
        for (n, number) in [(1, 4), (2, 5)] {
            let mut log = MemberLog::open(&dir.path().join(n.to_string())).unwrap();
            let (said, bytes) = signed(n, number, &mut log);
            assert_eq!(heard.take_statement(said, bytes, &members), StatementOutcome::New);
        }
        let [first, second, third] = [1, 2, 3].map(|n| key(n).public());
        let state = |n: u64| xylem_hash::hash(&n.to_be_bytes());
        let index = statement(2, 0).index;
        let adopted = |number, n| AdoptedState { number, state: state(n), index: index.clone() };
        let (said, bytes) = heard.adopt(&second, &adopted(6, 4), None).unwrap();
        assert_eq!((said.state, said.number), (state(4), 6));
        assert!(heard.of(&second).eq([&bytes]), "the signed one stays");
        assert_eq!(heard.adopt(&second, &adopted(5, 4), None), None, "no later than its statement");
        assert_eq!(heard.adopt(&second, &adopted(6, 3), None), None, "no member has signed it");
        assert!(heard.adopt(&second, &adopted(6, 3), Some(state(3))).is_some());
        assert_eq!(heard.adopt(&third, &adopted(6, 4), None), None, "no member");
        assert!(heard.adopt(&first, &adopted(6, 5), None).is_some());
        // Its author has another state by now.
        heard.record_left(state(7));
        assert!(heard.adopt(&second, &adopted(6, 7), None).is_some());
        // A statement that has still to be proven is signed; its member's own state is not taken before that.
        let (known, bytes) = heard.known[&first].clone();
        let said = MemberStatement { state: state(8), ..known };
        let waits = UnprovenStatement { said, bytes, asked: 0, unproven: false };
        heard.waiting.insert(first, waits);
        assert!(heard.adopt(&second, &adopted(6, 8), None).is_some());
        assert_eq!(heard.adopt(&first, &adopted(6, 5), None), None);
    }
}
