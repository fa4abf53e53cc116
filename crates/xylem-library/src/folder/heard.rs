//! [`Histories`]: what members have said, and whether what each says goes on where it was.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use xylem_object::{PublisherId, Ticket};

use super::history::{Fits, Past, Question, is_proven, prove};
use super::local::FolderError;
use super::roles::{Membership, NotAdmitted, Roles};
use super::statement::{Group, MAX_STATEMENT, Statement};

/// Members whose statements are known at most.
pub const MAX_MEMBERS: usize = 256;
/// What may be read of one member in a while.
const BUDGET: u32 = 64 * STATEMENT;
/// What a statement costs of that, the signature of which has to be checked; and one that is known already: in a mesh each
/// is heard from many.
const STATEMENT: u32 = 16;
const KNOWN: u32 = 1;
/// Proofs of our history that are made in [`A_WHILE`].
const PROOFS: u32 = 8;
const A_WHILE: Duration = Duration::from_secs(1);
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
    /// Strangers that the founder was told of.
    applicants: BTreeSet<PublisherId>,
    /// Proofs that may still be made until then.
    proofs: (u32, Duration),
}

impl Histories {
    /// The log at `path` is ours; `rewrote` are those of whom nothing is taken.
    pub fn new(path: PathBuf, rewrote: Vec<[(Statement, Vec<u8>); 2]>) -> Self {
        let rewrote = rewrote.into_iter().map(|both| (both[0].0.member, both)).collect();
        Self {
            own: None,
            path,
            known: BTreeMap::new(),
            waiting: BTreeMap::new(),
            rewrote,
            applicants: BTreeSet::new(),
            proofs: (PROOFS, Duration::ZERO),
        }
    }

    /// All that others are told of others; what the founder says of members comes first.
    pub fn all(&self, founder: &PublisherId) -> impl Iterator<Item = &Vec<u8>> {
        let first = self.known.get(founder).into_iter();
        let known = self.known.iter().filter(move |(member, _)| **member != *founder);
        let all = first.chain(known.map(|(_, said)| said)).chain(self.rewrote.values().flatten());
        all.map(|(_, bytes)| bytes)
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

    /// A member's statement.
    pub fn hear(&mut self, said: Statement, bytes: Vec<u8>) -> Heard {
        let member = said.member;
        if self.rewrote.contains_key(&member) {
            return Heard::Nothing;
        }
        let Some((known, before)) = self.known.get(&member) else {
            if self.known.len().saturating_add(self.rewrote.len()) >= MAX_MEMBERS {
                return Heard::Nothing;
            }
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

    /// Those who have been asked again and again, each once.
    pub fn silent(&mut self) -> Vec<Statement> {
        let mut silent = Vec::new();
        for waits in self.waiting.values_mut() {
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
}
