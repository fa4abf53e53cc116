//! [`Finding`]: what a fresh link is asked first. Whoever answers at an address that a ticket names
//! must show that the publisher vouches for its key before it is told anything that names the
//! content; and where the ticket has no name, the answer brings it (docs/spec/object.md, "Finding").

use std::collections::HashMap;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_hash::Hash;
use xylem_object::find::{Answer, FindId};
use xylem_object::{PublisherId, Ticket};
use xylem_packet::{Data, Interest, InterestBuilder};

/// Wait before the question is asked again, for a lost packet; doubles up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(2);
/// A peer that has not answered by then does not know the question, or does not want to.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long others may take to come up once somebody has said that it does not have this.
const REFUSED: Duration = Duration::from_millis(500);

const NOT_VOUCHED: &str =
    "somebody else answers there: the ticket's publisher does not vouch for its key";
/// Why a peer is left that refuses.
pub const NOT_THERE: &str = "it does not offer what the ticket names";
const NO_ANSWER: &str = "it does not answer the first question";

/// Links that have been asked, and faces that wait until there is a name to ask them by.
pub struct Finding {
    publisher: PublisherId,
    root: Hash,
    asked: HashMap<FaceId, Asked>,
    waiting: Vec<FaceId>,
    /// When somebody first said that it does not have this.
    refused: Option<Duration>,
}

/// One link that was asked.
pub struct Asked {
    key: [u8; 32],
    /// Whether it had to show that the publisher vouches for its key.
    pub must_vouch: bool,
    id: FindId,
    next: Duration,
    wait: Duration,
    until: Duration,
}

/// What came of a question.
pub enum Answered {
    /// The peer may be gone on with.
    Found {
        /// Which.
        face: FaceId,
        /// The key that it has proven.
        key: [u8; 32],
        /// The manifest as it came; nothing of it is believed yet.
        manifest: Vec<u8>,
        /// Whether the publisher vouches for the key.
        vouched: bool,
    },
    /// It does not have this, and has shown who it is where it had to: it may be asked what it has instead.
    Absent(FaceId),
    /// It is to be left, and why.
    Left(FaceId, &'static str),
}

impl Finding {
    /// Of what `ticket` names.
    pub fn new(ticket: &Ticket) -> Self {
        let Ticket { publisher, root, .. } = *ticket;
        Self { publisher, root, asked: HashMap::new(), waiting: Vec::new(), refused: None }
    }

    /// A link came up, on which `key` was proven: to be asked.
    pub fn ask(&mut self, now: Duration, face: FaceId, key: [u8; 32], must_vouch: bool) {
        let id = FindId::new(&self.root, &key);
        let (next, wait, until) = (now, FIRST_WAIT, now + PATIENCE);
        self.asked.insert(face, Asked { key, must_vouch, id, next, wait, until });
    }

    /// A face came up that cannot be asked by anything but the name.
    pub fn wait(&mut self, face: FaceId) {
        self.waiting.push(face);
    }

    /// Those that waited for the name.
    pub fn take_waiting(&mut self) -> Vec<FaceId> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether nobody has it: somebody said so some time ago, and nobody else is asked.
    pub fn is_refused(&self, now: Duration, others_may_come: bool) -> bool {
        let waited = |at| !others_may_come || now >= at + REFUSED;
        self.asked.is_empty() && self.refused.is_some_and(waited)
    }

    /// When [`Finding::handle_timeout`] has something to do, or [`Finding::is_refused`] may change.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let refused = self.refused.map(|at| at + REFUSED);
        let asks = self.asked.values().map(|asked| asked.next.min(asked.until));
        asks.chain(refused.filter(|_| self.asked.is_empty())).min()
    }

    /// Asks those whose time it is: `send` is given each question. Those that do not answer are to be left.
    pub fn handle_timeout(
        &mut self,
        now: Duration,
        send: &mut dyn FnMut(FaceId, &[u8]),
    ) -> Vec<(FaceId, &'static str)> {
        let silent = self.asked.iter().filter(|(_, asked)| now >= asked.until);
        let silent = silent.map(|(face, _)| (*face, NO_ANSWER)).collect();
        for (face, asked) in self.asked.iter_mut().filter(|(_, asked)| now >= asked.next) {
            asked.next = now + asked.wait;
            asked.wait = (asked.wait * 2).min(MAX_WAIT);
            let mut interest = Vec::new();
            let question = asked.id.question();
            let lifetime = PATIENCE.as_millis() as u64;
            let built =
                InterestBuilder::new(question.as_ref()).lifetime_ms(lifetime).encode(&mut interest);
            if built.is_ok() {
                send(*face, &interest);
            }
        }
        silent
    }

    /// Takes a packet if it answers a question of ours; `None` if it does not.
    pub fn handle_answer(&mut self, now: Duration, packet: &[u8]) -> Option<Answered> {
        if self.asked.is_empty() {
            return None;
        }
        let data = Data::decode(packet).ok()?;
        // Two addresses of one peer have one question and one answer.
        let face = self.face_of(FindId::parse(data.name())?)?;
        let asked = self.asked.remove(&face)?;
        let Ok(answer) = Answer::decode(data.content()) else {
            return Some(Answered::Left(face, "it answers the first question wrongly"));
        };
        let vouched = answer.vouches(&self.publisher, &asked.key);
        if asked.must_vouch && !vouched {
            return Some(Answered::Left(face, NOT_VOUCHED));
        }
        if answer.manifest.is_empty() {
            self.refused = self.refused.or(Some(now));
            return Some(Answered::Absent(face));
        }
        let manifest = answer.manifest.to_vec();
        Some(Answered::Found { face, key: asked.key, manifest, vouched })
    }

    /// A peer refuses a question: it has nothing with this root, or does not know such questions. `None`
    /// if this is none of ours.
    pub fn handle_nack(
        &mut self,
        now: Duration,
        interest: &Interest<'_>,
    ) -> Option<(FaceId, Asked)> {
        let face = self.face_of(FindId::parse(interest.name())?)?;
        let asked = self.asked.remove(&face)?;
        self.refused = self.refused.or(Some(now));
        Some((face, asked))
    }

    /// A face is gone.
    pub fn went_down(&mut self, face: FaceId) {
        self.asked.remove(&face);
        self.waiting.retain(|waits| *waits != face);
    }

    fn face_of(&self, id: FindId) -> Option<FaceId> {
        self.asked.iter().find(|(_, asked)| asked.id == id).map(|(face, _)| *face)
    }
}
