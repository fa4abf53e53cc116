//! [`Finding`]: what a fresh link is asked first. Whoever answers at an address that a ticket names
//! must show that the publisher vouches for its key before it is told anything that names the
//! content; and where the ticket has no name, the answer brings it (docs/spec/object.md, "Finding").

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use xylem_forward::FaceId;
use xylem_hash::Hash;
use xylem_object::find::{Answer, FindId};
use xylem_object::{PublisherId, Ticket};
use xylem_packet::{Data, Interest, InterestBuilder};

use crate::engine::Engine;
use crate::peer::FaceAddress;

/// Wait before the question is asked again, for a lost packet; doubles up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(2);
/// A peer that has not answered by then does not know the question, or does not want to.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long others may take to come up once somebody has said that it does not have this.
const REFUSED: Duration = Duration::from_secs(2);

/// Why a peer is left.
pub(super) const NOT_VOUCHED: &str =
    "somebody else answers there: the ticket's publisher does not vouch for its key";
pub(super) const NOT_THERE: &str = "it does not offer what the ticket names";
const NO_ANSWER: &str = "it does not answer the first question";

/// Links that have been asked, and faces that wait until there is a name to ask them by.
pub(super) struct Finding {
    publisher: PublisherId,
    root: Hash,
    asked: HashMap<FaceId, Asked>,
    waiting: Vec<(FaceId, FaceAddress)>,
    /// When somebody first said that it does not have this.
    refused: Option<Duration>,
}

/// One link.
pub(super) struct Asked {
    pub(super) peer: FaceAddress,
    pub(super) key: [u8; 32],
    pub(super) must_vouch: bool,
    id: FindId,
    next: Duration,
    wait: Duration,
    until: Duration,
}

/// An answer that may be gone on with.
pub(super) struct Found {
    pub(super) face: FaceId,
    pub(super) asked: Asked,
    /// The manifest as it came; nothing of it is believed yet.
    pub(super) manifest: Bytes,
    pub(super) vouched: bool,
}

impl Finding {
    pub(super) fn new(ticket: &Ticket) -> Self {
        let Ticket { publisher, root, .. } = *ticket;
        Self { publisher, root, asked: HashMap::new(), waiting: Vec::new(), refused: None }
    }

    /// A link came up, on which `key` was proven: to be asked.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        face: FaceId,
        peer: FaceAddress,
        key: [u8; 32],
        must_vouch: bool,
    ) {
        let id = FindId::new(&self.root, &key);
        let (next, wait, until) = (now, FIRST_WAIT, now + PATIENCE);
        self.asked.insert(face, Asked { peer, key, must_vouch, id, next, wait, until });
    }

    /// A face came up that cannot be asked by anything but the name.
    pub(super) fn wait(&mut self, face: FaceId, peer: FaceAddress) {
        self.waiting.push((face, peer));
    }

    /// Those that waited for the name.
    pub(super) fn take_waiting(&mut self) -> Vec<(FaceId, FaceAddress)> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether nobody has it: somebody said so some time ago, and nobody else is asked.
    pub(super) fn is_refused(&self, now: Duration, others_may_come: bool) -> bool {
        let waited = |at| !others_may_come || now >= at + REFUSED;
        self.asked.is_empty() && self.refused.is_some_and(waited)
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let refused = self.refused.map(|at| at + REFUSED);
        let asks = self.asked.values().map(|asked| asked.next.min(asked.until));
        asks.chain(refused.filter(|_| self.asked.is_empty())).min()
    }

    /// Asks those whose time it is, and leaves those that do not answer.
    pub(super) fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) {
        let silent: Vec<FaceId> =
            self.asked.iter().filter(|(_, asked)| now >= asked.until).map(|(f, _)| *f).collect();
        silent.into_iter().for_each(|face| engine.drop_face(face, NO_ANSWER));
        for (face, asked) in self.asked.iter_mut().filter(|(_, asked)| now >= asked.next) {
            asked.next = now + asked.wait;
            asked.wait = (asked.wait * 2).min(MAX_WAIT);
            let mut interest = Vec::new();
            let question = asked.id.question();
            let lifetime = PATIENCE.as_millis() as u64;
            let built =
                InterestBuilder::new(question.as_ref()).lifetime_ms(lifetime).encode(&mut interest);
            if built.is_ok() {
                engine.ask(*face, &interest);
            }
        }
    }

    /// Takes a packet if it answers a question of ours; whether it does. `Some`: an answer that may be
    /// gone on with; who gave another is left.
    pub(super) fn handle_answer(
        &mut self,
        engine: &mut Engine,
        packet: &Bytes,
    ) -> (bool, Option<Found>) {
        if self.asked.is_empty() {
            return (false, None);
        }
        let Ok(data) = Data::decode(packet) else { return (false, None) };
        let Some(id) = FindId::parse(data.name()) else { return (false, None) };
        // Two addresses of one peer have one question and one answer.
        let Some(face) = self.face_of(id) else { return (true, None) };
        let Some(asked) = self.asked.remove(&face) else { return (true, None) };
        let answer = Answer::decode(data.content());
        let vouched = |answer: &Answer<'_>| answer.vouches(&self.publisher, &asked.key);
        let found = match answer.as_ref().map(|answer| (answer.manifest, vouched(answer))) {
            Ok((_, false)) if asked.must_vouch => Err(NOT_VOUCHED),
            Ok((manifest, vouched)) => Ok((packet.slice_ref(manifest), vouched)),
            Err(_) => Err("it answers the first question wrongly"),
        };
        match found {
            Ok((manifest, vouched)) => (true, Some(Found { face, asked, manifest, vouched })),
            Err(why) => {
                engine.drop_face(face, why);
                (true, None)
            }
        }
    }

    /// A peer refuses a question: it has nothing with this root, or does not know such questions. `None`
    /// if this is none of ours.
    pub(super) fn handle_nack(
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
    pub(super) fn went_down(&mut self, face: FaceId) {
        self.asked.remove(&face);
        self.waiting.retain(|(waits, _)| *waits != face);
    }

    fn face_of(&self, id: FindId) -> Option<FaceId> {
        self.asked.iter().find(|(_, asked)| asked.id == id).map(|(face, _)| *face)
    }
}
