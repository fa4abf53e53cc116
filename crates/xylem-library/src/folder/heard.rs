//! [`Histories`]: what members have said, and whether what each says goes on where it was.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use xylem_object::{PublisherId, Ticket};

use super::error::FolderError;
use super::history::{Fits, Past, Question, is_proven, prove};
use super::roles::{Membership, NotAdmitted, Roles};
use super::statement::{Group, MAX_STATEMENT, SIGNATURE_LEN, Statement};

/// Members whose statements are known at most.
pub const MAX_MEMBERS: usize = 1024;
/// Where no more others are known than this each member keeps a link to each; where they are more, to some of them.
pub const FULL_MESH: usize = 16;
/// What may be read of one member in a while.
const BUDGET: u32 = 64 * STATEMENT;
/// What a statement costs of that, the signature of which has to be checked; and one that is known already: in a mesh each
/// is heard from many.
const STATEMENT: u32 = 16;
const KNOWN: u32 = 1;
/// Proofs of our history that are made in [`A_WHILE`].
const PROOFS: u32 = 8;
const A_WHILE: Duration = Duration::from_secs(1);
/// What begins so says why its receiver is told nothing else.
const TURNED_AWAY: &[u8; 4] = b"xsr1";
/// And what begins so says which statements its sender knows.
const KNOWN_HERE: &[u8; 4] = b"xsk1";
/// Of a statement there: the first bytes of its signature, which nobody else can choose.
const MARK: usize = 8;
/// Strangers with the ticket that the founder is told of.
const MAX_APPLICANTS: usize = 64;

/// How often a member is asked, once a second while it is there, before that is told.
const PATIENCE: u32 = 30;

/// What a group's members have said, for whoever keeps a folder in step.
#[derive(Debug)]
pub enum MeshNews {
    /// A member's newest statement, and as it was signed.
    Said(Box<Statement>, Vec<u8>),
    /// There is a link to a member, which both its key in the group and that of the link have said; or none any more.
    Up(PublisherId, bool),
    /// A member has signed two statements that are not of one history: nothing of it is taken any more.
    Rewrote(Box<Statement>, [Vec<u8>; 2]),
    /// A member does not show that what it says goes on where it was: nothing newer of it is taken until it does.
    Unproven(Box<Statement>),
    /// Somebody says other things with our key.
    Twice,
    /// The log of what we have said is not what it was, so that nothing can be proven by it.
    BadLog(FolderError),
    /// Somebody has the ticket, and is no member, and why.
    Applies(Box<Statement>, NotAdmitted),
    /// Somebody has the ticket, and an older program.
    Old,
    /// What a member has said is not known any more: another one has its place.
    Forgotten(PublisherId),
    /// Other members refuse our links: the founder does, or several others in a row while no member takes one.
    TurnedAway {
        /// Whether it is the founder that says so.
        by_founder: bool,
        /// Why.
        why: TurnedAway,
    },
}

/// Why the other end of a link is told nothing. It is all that somebody hears who is no member: nothing of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// The founder has removed it.
    Removed,
    /// The group is closed, and the founder does not name it.
    Unnamed,
    /// Its certificates make it no member.
    NotCertified,
    /// There are as many members as can be.
    NoPlace,
}

impl TurnedAway {
    /// Why somebody is refused of whom this is said.
    pub fn of(member: &PublisherId, roles: &Roles, why: &NotAdmitted) -> Self {
        match why {
            NotAdmitted::TooMany => Self::NoPlace,
            NotAdmitted::NotCertified(_) => Self::NotCertified,
            NotAdmitted::Unnamed if roles.members.contains_key(member) => Self::Removed,
            NotAdmitted::Unnamed => Self::Unnamed,
        }
    }

    /// As it is told.
    pub fn to_bytes(self) -> Vec<u8> {
        let why = match self {
            Self::Removed => 0,
            Self::Unnamed => 1,
            Self::NotCertified => 2,
            Self::NoPlace => 3,
        };
        [&TURNED_AWAY[..], &[why]].concat()
    }

    /// Reads it.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        match bytes.strip_prefix(TURNED_AWAY)? {
            [0] => Some(Self::Removed),
            [1] => Some(Self::Unnamed),
            [2] => Some(Self::NotCertified),
            [3] => Some(Self::NoPlace),
            _ => None,
        }
    }
}

/// Which statements a member knows: it is told the others.
#[derive(Debug)]
pub struct KnownStatements(BTreeSet<[u8; MARK]>);

impl KnownStatements {
    /// Reads what [`Histories::list`] has written.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (marks, rest) = bytes.strip_prefix(KNOWN_HERE)?.as_chunks::<MARK>();
        // Of each member two at most: those of two histories.
        let fits = rest.is_empty() && marks.len() <= MAX_MEMBERS.saturating_mul(2);
        fits.then(|| Self(marks.iter().copied().collect()))
    }

    /// Whether this statement is one of them.
    pub fn has(&self, said: &[u8]) -> bool {
        mark(said).is_some_and(|mark| self.0.contains(&mark))
    }
}

fn mark(said: &[u8]) -> Option<[u8; MARK]> {
    said.last_chunk::<SIGNATURE_LEN>()?.first_chunk().copied()
}

/// How a mesh begins.
pub struct MeshStart {
    /// Which group.
    pub group: Group,
    /// Who we are in it.
    pub own: PublisherId,
    /// Who has invited us.
    pub first: Option<Ticket>,
    /// What members have said before.
    pub known: Vec<(Statement, Vec<u8>)>,
    /// Members to whom there was a link, the first one first.
    pub met: Vec<PublisherId>,
    /// What the founder has said of members.
    pub roles: Roles,
    /// The log of what we have said.
    pub history: PathBuf,
    /// Those who have rewritten theirs, and what shows it.
    pub rewrote: Vec<[(Statement, Vec<u8>); 2]>,
}

/// Messages of one member as they come: each behind its length, and no more in a while than is good for the others.
#[derive(Debug)]
pub struct Inbox {
    read: Vec<u8>,
    left: u32,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { read: Vec::new(), left: BUDGET }
    }
}

impl Inbox {
    /// As it is sent.
    pub fn framed(message: &[u8], out: &mut Vec<u8>) {
        // Messages are far below that.
        out.extend_from_slice(&u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(message);
    }

    /// What has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
    }

    /// Whether nothing is read any more in this while.
    pub fn is_full(&self) -> bool {
        self.left < STATEMENT
    }

    /// Another while begins; whether the last one was too short.
    pub fn begin(&mut self) -> bool {
        std::mem::replace(&mut self.left, BUDGET) < STATEMENT
    }

    /// The last message was known word for word.
    pub fn was_known(&mut self) {
        self.left = self.left.saturating_add(STATEMENT - KNOWN);
    }

    /// The first message of what was read, if it is whole and may be taken yet.
    ///
    /// # Errors
    /// One that is too long.
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

/// What came of a statement.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is known, or older, or by somebody of whom nothing is taken.
    Nothing,
    /// It is a member's newest.
    New,
    /// It is not of one history with the other of these two.
    Rewrote([Vec<u8>; 2]),
    /// Its member is to show that it is; true: there was none of it before that waits for that.
    Unproven(bool),
    /// There are as many members as can be, and each has more right to its place.
    NoPlace,
}

/// By what a member has its place among those that are known, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    /// The founder names it, or is it.
    Named,
    /// There was a link to it.
    Met,
    /// Others have told of it: one who has the ticket can make up any number of those.
    Told,
}

/// A statement that is too far from the one that we know of its member.
struct Waiting {
    said: Statement,
    bytes: Vec<u8>,
    asked: u32,
    /// It has been answered once with what proves nothing.
    unproven: bool,
}

/// See the module's text.
pub struct Histories {
    /// The end of our own log.
    pub own: Option<Past>,
    path: PathBuf,
    known: BTreeMap<PublisherId, (Statement, Vec<u8>)>,
    waiting: BTreeMap<PublisherId, Waiting>,
    rewrote: BTreeMap<PublisherId, [(Statement, Vec<u8>); 2]>,
    /// Members to whom there was a link, the first one first.
    met: Vec<PublisherId>,
    /// Who has come how late, of those that are known.
    came: BTreeMap<PublisherId, u64>,
    /// The last of them.
    latest: u64,
    /// Who has had to give its place to another one.
    forgotten: Vec<PublisherId>,
    /// Strangers that the founder was told of.
    applicants: BTreeSet<PublisherId>,
    /// Proofs that may still be made until then.
    proofs: (u32, Duration),
}

impl Histories {
    /// The log at `path` is ours; `rewrote` are those of whom nothing is taken, and `met` those to whom there was a link.
    pub fn new(
        path: PathBuf,
        rewrote: Vec<[(Statement, Vec<u8>); 2]>,
        met: Vec<PublisherId>,
    ) -> Self {
        let rewrote = rewrote.into_iter().map(|both| (both[0].0.member, both)).collect();
        Self {
            own: None,
            path,
            known: BTreeMap::new(),
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

    /// Of whom others are told something.
    pub fn members(&self) -> impl Iterator<Item = &PublisherId> {
        self.known.keys().chain(self.rewrote.keys())
    }

    /// What others are told of this member: its newest statement, or two that are not of one history.
    pub fn of(&self, member: &PublisherId) -> impl Iterator<Item = &Vec<u8>> {
        let known = self.known.get(member).into_iter();
        known.chain(self.rewrote.get(member).into_iter().flatten()).map(|(_, bytes)| bytes)
    }

    /// Which statements are known, as it is told in place of them where they are many.
    pub fn list(&self) -> Vec<u8> {
        let all = self.members().flat_map(|member| self.of(member));
        let marks = all.filter_map(|said| mark(said)).flatten();
        KNOWN_HERE.iter().copied().chain(marks).collect()
    }

    /// Members to whom there was a link.
    pub fn met(&self) -> &[PublisherId] {
        &self.met
    }

    /// Forgets who is no member.
    pub fn retain(&mut self, members: &mut Membership, now_ms: u64) {
        for (said, _) in self.known.values().chain(self.rewrote.values().flatten()) {
            // What it shows is judged anew.
            let _ = members.hear(&said.member, &said.shown, now_ms);
        }
        self.known.retain(|member, _| members.admits(member));
        self.waiting.retain(|member, _| members.admits(member));
        self.rewrote.retain(|member, _| members.admits(member));
        self.came.retain(|member, _| members.admits(member));
        self.met.retain(|member| members.admits(member));
    }

    /// A statement with our own key, that we have not made.
    pub fn is_not_ours(&self, said: &Statement) -> bool {
        self.own.as_ref().is_some_and(|own| match said.past.fits(own) {
            Fits::Same | Fits::IsContinued => false,
            Fits::Contradicts | Fits::Continues => true,
            Fits::TooFar => said.past.length() > own.length(),
        })
    }

    /// Whether this is word for word what we know of a member.
    pub fn knows(&self, said: &[u8]) -> bool {
        let member = said.get(4..36).and_then(|member| member.try_into().ok());
        let known = member.and_then(|member| self.known.get(&PublisherId(member)));
        known.is_some_and(|(_, bytes)| bytes == said)
    }

    /// There is a link that speaks for this member: it has its place before those of whom others have only told.
    pub fn meet(&mut self, member: &PublisherId) {
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

    /// Whether a member has a place among those that are known.
    pub fn has_place(&self, member: &PublisherId) -> bool {
        self.known.contains_key(member) || self.rewrote.contains_key(member)
    }

    /// Those that have had to give their places to others, each once.
    pub fn forgotten(&mut self) -> Vec<PublisherId> {
        std::mem::take(&mut self.forgotten)
    }

    fn right(&self, member: &PublisherId, members: &Membership) -> Right {
        if members.names(member) {
            Right::Named
        } else if self.met.contains(member) {
            Right::Met
        } else {
            Right::Told
        }
    }

    /// Makes a place for one more, at the cost of who has less right to it and came last. Whether there is one.
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
        self.known.remove(&least);
        self.waiting.remove(&least);
        self.rewrote.remove(&least);
        self.came.remove(&least);
        self.forgotten.push(least);
        true
    }

    /// A member's statement.
    pub fn hear(&mut self, said: Statement, bytes: Vec<u8>, members: &Membership) -> Heard {
        let member = said.member;
        if self.rewrote.contains_key(&member) {
            return Heard::Nothing;
        }
        let Some((known, before)) = self.known.get(&member) else {
            if !self.make_place(&member, members) {
                return Heard::NoPlace;
            }
            self.latest = self.latest.saturating_add(1);
            self.came.insert(member, self.latest);
            self.known.insert(member, (said, bytes));
            return Heard::New;
        };
        match said.past.fits(&known.past) {
            Fits::Same | Fits::IsContinued => Heard::Nothing,
            Fits::Continues => {
                self.known.insert(member, (said, bytes));
                Heard::New
            }
            Fits::Contradicts => {
                let both = [(known.clone(), before.clone()), (said, bytes)];
                self.rewrite(both)
            }
            Fits::TooFar => {
                let (newer, before) = (said.past.length(), self.waiting.get(&member));
                let first = before.is_none();
                // What is older than we know waits only if nothing else does.
                if before.is_none_or(|waits| waits.said.past.length() < newer) {
                    let (asked, unproven) =
                        before.map_or((0, false), |waits| (waits.asked, waits.unproven));
                    self.waiting.insert(member, Waiting { said, bytes, asked, unproven });
                }
                Heard::Unproven(first)
            }
        }
    }

    fn rewrite(&mut self, both: [(Statement, Vec<u8>); 2]) -> Heard {
        let member = both[0].0.member;
        self.known.remove(&member);
        self.waiting.remove(&member);
        self.rewrote.insert(member, both.clone());
        Heard::Rewrote(both.map(|(_, bytes)| bytes))
    }

    /// What is to be asked of a member.
    pub fn question(&self, member: &PublisherId) -> Option<Question> {
        let (waits, (known, _)) = (self.waiting.get(member)?, self.known.get(member)?);
        let (one, other) = (known.past.length(), waits.said.past.length());
        let (older, newer) = (one.min(other), one.max(other));
        Some(Question { member: *member, older, newer })
    }

    /// Those that are there and have been asked again and again, each once.
    pub fn silent(&mut self, there: &BTreeSet<PublisherId>) -> Vec<Statement> {
        let mut silent = Vec::new();
        for (_, waits) in self.waiting.iter_mut().filter(|(who, _)| there.contains(who)) {
            waits.asked = waits.asked.saturating_add(1);
            if waits.asked == PATIENCE {
                silent.push(waits.said.clone());
            }
        }
        silent
    }

    /// The proof that somebody asks of us; who asks too often is not answered, and asks again.
    ///
    /// # Errors
    /// Our own log can't be read, or is damaged.
    pub fn prove(
        &mut self,
        asked: &Question,
        now: Duration,
    ) -> Result<Option<Vec<u8>>, FolderError> {
        if now >= self.proofs.1 {
            self.proofs = (PROOFS, now.saturating_add(A_WHILE));
        }
        let Some((own, left)) = self.own.as_ref().zip(self.proofs.0.checked_sub(1)) else {
            return Ok(None);
        };
        self.proofs.0 = left;
        prove(&self.path, own, asked.older, asked.newer)
    }

    /// Somebody who has the ticket is no member; whether that is to be told.
    pub fn applies(&mut self, said: &Statement, roles: &Roles) -> bool {
        !roles.members.contains_key(&said.member)
            && self.applicants.len() < MAX_APPLICANTS
            && self.applicants.insert(said.member)
    }

    /// A member answers: what comes of the statement that waited for it, if anything does.
    pub fn answered(
        &mut self,
        from: &PublisherId,
        asked: &Question,
        proof: &[u8],
    ) -> Option<(Statement, Vec<u8>, Heard)> {
        let member = *from;
        if self.question(from) != Some(*asked) {
            return None;
        }
        let mut waits = self.waiting.remove(&member)?;
        let (known, before) = self.known.get(&member)?;
        let is_newer = waits.said.past.length() > known.past.length();
        let (older, newer) = if is_newer { (known, &waits.said) } else { (&waits.said, known) };
        if !is_proven(&older.past, &newer.past, proof) {
            // Something may have gone wrong there or on the way: once is not enough to be followed no more.
            if !std::mem::replace(&mut waits.unproven, true) {
                self.waiting.insert(member, waits);
                return None;
            }
            let other = (waits.said.clone(), waits.bytes.clone());
            let both = [(known.clone(), before.clone()), other];
            return Some((waits.said, waits.bytes, self.rewrite(both)));
        }
        if !is_newer {
            return None;
        }
        self.known.insert(member, (waits.said.clone(), waits.bytes.clone()));
        Some((waits.said, waits.bytes, Heard::New))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(read: &[u8]) -> Inbox {
        let mut inbox = Inbox::default();
        inbox.push(read);
        inbox
    }

    /// What is more waits in the window of the stream until a second is over.
    #[test]
    fn a_member_that_says_much_is_heard_64_times_a_second() {
        let mut said = Vec::new();
        for n in 0..100_u8 {
            Inbox::framed(&[n; 500], &mut said);
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
        // What is known word for word costs less.
        for _ in 0..1000 {
            Inbox::framed(&[1; 10], &mut heard.read);
            assert!(heard.take().unwrap().is_some());
            heard.was_known();
        }
        assert!(!heard.is_full());
    }

    #[test]
    fn what_is_too_long_for_a_statement_is_not_waited_for() {
        let longest = u32::try_from(MAX_STATEMENT).unwrap();
        assert_eq!(inbox(&longest.to_be_bytes()).take(), Ok(None));
        assert_eq!(inbox(&(longest + 1).to_be_bytes()).take(), Err(()));
        assert_eq!(inbox(&[255; 4]).take(), Err(()));
    }

    use super::super::history::{Entry, Log, prove as prove_at};
    use super::super::roles::Role;
    use xylem_object::PublisherKey;

    fn key(n: u16) -> PublisherKey {
        let mut seed = [9; 32];
        seed[..2].copy_from_slice(&n.to_be_bytes());
        PublisherKey::from_bytes(&seed)
    }

    fn group() -> Group {
        Group::new([7; 32], key(0).public())
    }

    fn statement(n: u16, number: u64) -> Statement {
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
        Statement {
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

    fn signed(n: u16, number: u64, log: &mut Log) -> (Statement, Vec<u8>) {
        let bytes = statement(n, number).sign(&group(), &key(n), log).unwrap();
        (Statement::read(&bytes, &group()).unwrap(), bytes)
    }

    /// The first that this member ever says.
    fn first(n: u16) -> (Statement, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        signed(n, 1, &mut Log::open(&dir.path().join("history")).unwrap())
    }

    fn histories() -> Histories {
        Histories::new(PathBuf::new(), Vec::new(), Vec::new())
    }

    fn of(named: &[u16]) -> Membership {
        let members = named.iter().map(|n| (key(*n).public(), Role::Member)).collect();
        Membership::new(key(0).public(), Roles { number: 1, members, ..Roles::default() }, 0)
    }

    /// Who has the ticket makes up members: they take no place from any whom there is a link to, or whom the founder names.
    #[test]
    fn made_up_members_take_nobodys_place() {
        let (mut heard, members) = (histories(), of(&[3]));
        let hear = |heard: &mut Histories, n: u16| {
            let (said, bytes) = first(n);
            heard.hear(said, bytes, &members)
        };
        heard.meet(&key(1).public());
        assert_eq!(hear(&mut heard, 1), Heard::New);
        assert_eq!(hear(&mut heard, 2), Heard::New);
        assert_eq!(heard.list().len(), 4 + 2 * MARK);
        let many = u16::try_from(MAX_MEMBERS).unwrap();
        for n in 100..100 + many - 2 {
            assert_eq!(hear(&mut heard, n), Heard::New);
        }
        assert_eq!(hear(&mut heard, 99), Heard::NoPlace, "it has no more right than they have");
        assert!(heard.forgotten().is_empty() && !heard.has_place(&key(99).public()));
        // A link to it, or the founder's word, is more; whoever came last gives way.
        heard.meet(&key(99).public());
        for (n, gone) in [(99, 100 + many - 3), (3, 100 + many - 4), (0, 100 + many - 5)] {
            assert_eq!(hear(&mut heard, n), Heard::New);
            assert_eq!(heard.forgotten(), [key(gone).public()], "{n}");
            assert!(heard.known.len() <= MAX_MEMBERS);
        }
        for n in [0, 1, 2, 3, 99] {
            assert!(heard.has_place(&key(n).public()), "{n}");
        }
        // Nor do they by signing two histories each.
        let many_more: Vec<u16> = (100..100 + many - 5).collect();
        for n in many_more {
            let dir = tempfile::tempdir().unwrap();
            let mut log = Log::open(&dir.path().join("history")).unwrap();
            log.append(Entry { number: 0, said: xylem_hash::hash(b"other") }).unwrap();
            let (said, bytes) = signed(n, 1, &mut log);
            assert!(matches!(heard.hear(said, bytes, &members), Heard::Rewrote(_)), "{n}");
        }
        heard.meet(&key(4).public());
        assert_eq!(hear(&mut heard, 4), Heard::New);
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
        heard.hear(known.0, known.1.clone(), &members);
        assert!(list(&heard).has(&known.1) && !list(&heard).has(&other.1));
        assert!(!list(&heard).has(&known.1[..10]));
        let bytes = heard.list();
        for len in (0..bytes.len()).filter(|len| *len != KNOWN_HERE.len()) {
            assert!(KnownStatements::read(&bytes[..len]).is_none(), "{len}");
        }
        let longest = [&KNOWN_HERE[..], &[7; 2 * MAX_MEMBERS * MARK]].concat();
        assert!(longest.len() <= MAX_STATEMENT && KnownStatements::read(&longest).is_some());
        assert!(KnownStatements::read(&[longest, vec![7; MARK]].concat()).is_none());
    }

    #[test]
    fn those_whom_there_was_a_link_to_have_an_end() {
        let mut heard = histories();
        for n in 0..1_000 {
            heard.meet(&key(n).public());
        }
        assert!(heard.met.len() <= MAX_MEMBERS);
    }

    /// Once may be the way or a disk: a second proof that shows nothing is as good as two histories.
    #[test]
    fn one_wrong_proof_expels_nobody_and_a_second_one_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut log = Log::open(&path).unwrap();
        let members = of(&[]);
        let old = signed(5, 1, &mut log);
        for number in 2..200 {
            log.append(Entry { number, said: xylem_hash::hash(b"unheard") }).unwrap();
        }
        let new = signed(5, 200, &mut log);
        let who = key(5).public();
        let mut proof = prove_at(&path, &log.past().unwrap(), 1, 200).unwrap().unwrap();
        let good = proof.clone();
        proof[40] ^= 1;
        let begin = || {
            let mut heard = histories();
            assert_eq!(heard.hear(old.0.clone(), old.1.clone(), &members), Heard::New);
            let far = heard.hear(new.0.clone(), new.1.clone(), &members);
            assert_eq!(far, Heard::Unproven(true));
            let asked = heard.question(&who).unwrap();
            assert!(heard.answered(&who, &asked, &proof).is_none(), "the first");
            (heard, asked)
        };
        let (mut heard, asked) = begin();
        let right = heard.answered(&who, &asked, &good);
        assert!(matches!(right, Some((_, _, Heard::New))), "and then the right one");
        assert!(heard.rewrote.is_empty());
        let (mut heard, asked) = begin();
        let wrong = heard.answered(&who, &asked, &proof);
        assert!(matches!(wrong, Some((_, _, Heard::Rewrote(_)))), "the second");
        assert_eq!(heard.hear(new.0.clone(), new.1.clone(), &members), Heard::Nothing);
        assert!(heard.rewrote.contains_key(&who) && heard.question(&who).is_none());
    }

    #[test]
    fn why_somebody_is_turned_away_comes_back_as_it_was() {
        use TurnedAway::{NoPlace, NotCertified, Removed, Unnamed};
        for why in [Removed, Unnamed, NotCertified, NoPlace] {
            let bytes = why.to_bytes();
            assert_eq!(TurnedAway::read(&bytes), Some(why));
            assert_eq!(TurnedAway::read(&bytes[..4]), None);
            assert_eq!(TurnedAway::read(&[&bytes[..], b"x"].concat()), None);
        }
        assert_eq!(TurnedAway::read(b"xsr1\x04"), None);
    }
}
