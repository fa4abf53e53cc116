//! [`Histories`]: what members have said, and whether what each says goes on where it was.

use std::collections::HashMap;
use std::path::PathBuf;

use xylem_library::folder::{Fits, Past, Question, Roles, Statement, is_proven, prove};
use xylem_object::PublisherId;

use super::MAX_MEMBERS;

/// How often a member is asked, once a second while it is there, before that is told.
const PATIENCE: u32 = 30;

/// What came of a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
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
}

/// See the module's text.
pub(super) struct Histories {
    /// The end of our own log.
    pub(super) own: Option<Past>,
    path: PathBuf,
    known: HashMap<PublisherId, (Statement, Vec<u8>)>,
    waiting: HashMap<PublisherId, Waiting>,
    rewrote: HashMap<PublisherId, [Vec<u8>; 2]>,
}

impl Histories {
    pub(super) fn new(path: PathBuf, rewrote: Vec<(PublisherId, [Vec<u8>; 2])>) -> Self {
        let rewrote = rewrote.into_iter().collect();
        Self { own: None, path, known: HashMap::new(), waiting: HashMap::new(), rewrote }
    }

    /// All that others are told of others.
    pub(super) fn all(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.known.values().map(|(_, bytes)| bytes).chain(self.rewrote.values().flatten())
    }

    /// By which key a member is known.
    pub(super) fn link_key(&self, member: &PublisherId) -> Option<[u8; 32]> {
        self.known.get(member).map(|(said, _)| said.link_key)
    }

    /// Forgets who is no member; the keys of its links.
    pub(super) fn retain(&mut self, roles: &Roles) -> Vec<[u8; 32]> {
        let gone = self.known.values().filter(|(said, _)| !roles.admits(&said.member));
        let keys = gone.map(|(said, _)| said.link_key).collect();
        self.known.retain(|member, _| roles.admits(member));
        self.waiting.retain(|member, _| roles.admits(member));
        self.rewrote.retain(|member, _| roles.admits(member));
        keys
    }

    /// A statement with our own key, that we have not made.
    pub(super) fn is_not_ours(&self, said: &Statement) -> bool {
        self.own.as_ref().is_some_and(|own| match said.past.fits(own) {
            Fits::Same | Fits::IsContinued => false,
            Fits::Contradicts | Fits::Continues => true,
            Fits::TooFar => said.past.length() > own.length(),
        })
    }

    /// A member's statement.
    pub(super) fn hear(&mut self, said: Statement, bytes: Vec<u8>) -> Heard {
        let member = said.member;
        if self.rewrote.contains_key(&member) {
            return Heard::Nothing;
        }
        let Some((known, before)) = self.known.get(&member) else {
            if self.known.len() + self.rewrote.len() >= MAX_MEMBERS {
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
                let both = [before.clone(), bytes];
                self.rewrite(member, both)
            }
            Fits::TooFar => {
                let (newer, before) = (said.past.length(), self.waiting.get(&member));
                let first = before.is_none();
                // What is older than we know waits only if nothing else does.
                if before.is_none_or(|waits| waits.said.past.length() < newer) {
                    let asked = before.map_or(0, |waits| waits.asked);
                    self.waiting.insert(member, Waiting { said, bytes, asked });
                }
                Heard::Unproven(first)
            }
        }
    }

    fn rewrite(&mut self, member: PublisherId, both: [Vec<u8>; 2]) -> Heard {
        self.known.remove(&member);
        self.waiting.remove(&member);
        self.rewrote.insert(member, both.clone());
        Heard::Rewrote(both)
    }

    /// What is to be asked of whoever has this link key.
    pub(super) fn questions(&self, key: &[u8; 32]) -> Vec<Question> {
        let mut questions = Vec::new();
        for (member, waits) in &self.waiting {
            let Some((known, _)) = self.known.get(member) else { continue };
            if [known.link_key, waits.said.link_key].contains(key) {
                let (one, other) = (known.past.length(), waits.said.past.length());
                let (older, newer) = (one.min(other), one.max(other));
                questions.push(Question { member: *member, older, newer });
            }
        }
        questions
    }

    /// Those who have been asked again and again, each once.
    pub(super) fn silent(&mut self) -> Vec<Statement> {
        let mut silent = Vec::new();
        for waits in self.waiting.values_mut() {
            waits.asked = waits.asked.saturating_add(1);
            if waits.asked == PATIENCE {
                silent.push(waits.said.clone());
            }
        }
        silent
    }

    /// The proof that somebody asks of us.
    pub(super) fn prove(&self, asked: &Question) -> Option<Vec<u8>> {
        prove(&self.path, asked.older, asked.newer)
    }

    /// Whoever has this link key answers: what comes of the statement that waited for it, if anything does.
    pub(super) fn answered(
        &mut self,
        key: &[u8; 32],
        asked: &Question,
        proof: &[u8],
    ) -> Option<(Statement, Vec<u8>, Heard)> {
        let member = asked.member;
        if !self.questions(key).contains(asked) {
            return None;
        }
        let waits = self.waiting.remove(&member)?;
        let (known, before) = self.known.get(&member)?;
        let is_newer = waits.said.past.length() > known.past.length();
        let (older, newer) = if is_newer { (known, &waits.said) } else { (&waits.said, known) };
        if !is_proven(&older.past, &newer.past, proof) {
            let both = [before.clone(), waits.bytes.clone()];
            return Some((waits.said, waits.bytes, self.rewrite(member, both)));
        }
        if !is_newer {
            return None;
        }
        self.known.insert(member, (waits.said.clone(), waits.bytes.clone()));
        Some((waits.said, waits.bytes, Heard::New))
    }
}
