//! [`FindExchange`]: the first question on a fresh link. The peer at an address of the ticket must show that the
//! publisher vouches for its key before it receives anything that names the content. If the ticket has no name, the
//! answer brings it (docs/spec/object.md, "Finding").

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use xylem_base::UnixTime;
use xylem_forward::FaceId;
use xylem_hash::Hash;
use xylem_object::find::{FindAnswer, FindId};
use xylem_object::{Manifest, PublisherId, Ticket, verify_manifest};
use xylem_packet::{Data, Interest, InterestBuilder, Name};

/// First wait before a lost question is repeated, if the round trip is unknown; doubles twice.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Least wait if the round trip is known: a peer may have to read from a disk.
const MIN_WAIT: Duration = Duration::from_millis(50);
const MAX_WAIT: Duration = Duration::from_secs(2);
/// A peer that has not answered by then does not understand the question, or does not want to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long other peers have to come up after one peer has refused.
const REFUSED: Duration = Duration::from_millis(500);

const NOT_VOUCHED: &str =
    "another peer answers there: the ticket's publisher does not vouch for its key";
/// Why a peer that refuses is left.
pub const NOT_THERE: &str = "it does not offer what the ticket names";
const NO_ANSWER: &str = "it does not answer the first request";

/// Links that were asked, and faces that wait until the name is known.
pub struct FindExchange {
    publisher: PublisherId,
    root: Hash,
    /// Whether the ticket leaves the name to the peers.
    unnamed: bool,
    asked: HashMap<FaceId, AskedLink>,
    waiting: Vec<FaceId>,
    /// When a peer first reported that it does not have the content.
    refused: Option<Duration>,
}

/// One link that was asked.
pub struct AskedLink {
    key: [u8; 32],
    /// Whether it must show that the publisher vouches for its key.
    pub must_vouch: bool,
    id: FindId,
    next: Duration,
    wait: Duration,
    /// Upper limit of `wait`. Questions are few and small: they need no long backoff, and several losses in a row must
    /// not cost seconds.
    longest: Duration,
    /// When the answer is due; `None` before the question is sent. Two addresses of one peer have the same question and
    /// are asked one after the other, so that each answer has a known face.
    until: Option<Duration>,
}

/// A manifest that the publisher signed for the content, and its versioned name P.
pub struct NamedManifest {
    /// P.
    pub prefix: Name,
    /// What it states.
    pub manifest: Manifest,
}

/// Outcome of a question.
pub enum FindOutcome {
    /// The peer has the content.
    Found {
        /// Its face.
        face: FaceId,
        /// The key that it has proven.
        key: [u8; 32],
        /// The manifest as received, not verified yet.
        manifest: Vec<u8>,
        /// Whether the publisher vouches for the key.
        vouched: bool,
    },
    /// The peer does not have the content, and has proven its key where it must. It may be asked for its own version.
    Absent(FaceId),
    /// The peer is to be left, for this reason.
    Left(FaceId, &'static str),
}

impl FindExchange {
    /// Prepares questions for the content that `ticket` names.
    pub fn new(ticket: &Ticket) -> Self {
        let Ticket { publisher, root, .. } = *ticket;
        let unnamed = ticket.name.is_none();
        Self { publisher, root, unnamed, asked: HashMap::new(), waiting: Vec::new(), refused: None }
    }

    /// Reads the manifest in an answer. `None`: the publisher did not sign it for this content.
    pub fn verify(&self, manifest: &[u8]) -> Option<NamedManifest> {
        let data = Data::decode(manifest).ok()?;
        let prefix = data.name().parent();
        let manifest = verify_manifest(&data, prefix, &self.publisher).ok()?;
        (manifest.root == self.root).then(|| NamedManifest { prefix: prefix.to_name(), manifest })
    }

    /// Whether a peer may be asked under the name that it `found`, another than the `known` manifest's: the ticket
    /// has no name, and the pieces are the same.
    pub fn is_another_name(&self, known: &[u8], found: &NamedManifest) -> bool {
        self.unnamed
            && self.verify(known).is_some_and(|known| {
                let Manifest { tree, kind, size, segment, sums, sealed, growing, .. } =
                    known.manifest;
                let other = &found.manifest;
                (tree, kind, size, segment) == (other.tree, other.kind, other.size, other.segment)
                    && (sums, sealed, growing) == (other.sums, other.sealed, other.growing)
            })
    }

    /// Adds a link on which `key` was proven. `rtt`: its round trip, if known.
    pub fn ask(
        &mut self,
        now: Duration,
        face: FaceId,
        key: [u8; 32],
        must_vouch: bool,
        rtt: Option<Duration>,
    ) {
        let id = FindId::new(&self.root, &key);
        let wait = rtt.map_or(FIRST_WAIT, |rtt| (rtt * 3 / 2).clamp(MIN_WAIT, MAX_WAIT));
        let (next, longest) = (now, (wait * 4).clamp(FIRST_WAIT, MAX_WAIT));
        self.asked
            .insert(face, AskedLink { key, must_vouch, id, next, wait, longest, until: None });
    }

    /// Adds a face that can only be asked by name.
    pub fn wait(&mut self, face: FaceId) {
        self.waiting.push(face);
    }

    /// Takes the faces that waited for the name.
    pub fn take_waiting(&mut self) -> Vec<FaceId> {
        std::mem::take(&mut self.waiting)
    }

    /// Returns whether no peer has the content: one refused some time ago, and no question is open.
    pub fn is_refused(&self, now: Duration, others_may_come: bool) -> bool {
        let waited = |at| !others_may_come || now >= at + REFUSED;
        self.asked.is_empty() && self.refused.is_some_and(waited)
    }

    /// Returns when [`FindExchange::handle_timeout`] is due, or [`FindExchange::is_refused`] may change.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let refused = self.refused.map(|at| at + REFUSED);
        let open = self.open_questions();
        let may_ask = |asked: &&AskedLink| asked.until.is_some() || !open.contains(&asked.id);
        let asks = self.asked.values().filter(may_ask);
        let asks = asks.map(|asked| asked.until.map_or(asked.next, |until| until.min(asked.next)));
        asks.chain(refused.filter(|_| self.asked.is_empty())).min()
    }

    /// Sends the questions that are due through `send`. Returns the peers that did not answer, which are to be left.
    pub fn handle_timeout(
        &mut self,
        now: Duration,
        send: &mut dyn FnMut(FaceId, &[u8]),
    ) -> Vec<(FaceId, &'static str)> {
        let is_silent = |asked: &AskedLink| asked.until.is_some_and(|until| now >= until);
        let silent = self.asked.iter().filter(|(_, asked)| is_silent(asked));
        let silent = silent.map(|(face, _)| (*face, NO_ANSWER)).collect();
        let mut open = self.open_questions();
        for (face, asked) in self.asked.iter_mut().filter(|(_, asked)| now >= asked.next) {
            if asked.until.is_none() && !open.insert(asked.id) {
                continue;
            }
            asked.until.get_or_insert(now + PATIENCE);
            asked.next = now + asked.wait;
            asked.wait = (asked.wait * 2).min(asked.longest);
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

    /// Takes a packet if it answers one of our questions; `None` if it does not. `clock`: the time of day, for the
    /// expiry of vouches.
    pub fn handle_answer(
        &mut self,
        now: Duration,
        clock: UnixTime,
        packet: &[u8],
    ) -> Option<FindOutcome> {
        if self.asked.is_empty() {
            return None;
        }
        let data = Data::decode(packet).ok()?;
        let face = self.face_of(FindId::parse(data.name())?)?;
        let asked = self.asked.remove(&face)?;
        let Ok(answer) = FindAnswer::decode(data.content()) else {
            return Some(FindOutcome::Left(face, "its answer to the first request is malformed"));
        };
        let vouched = answer.vouches(&self.publisher, &asked.key, clock.milliseconds() / 1_000);
        if asked.must_vouch && !vouched {
            return Some(FindOutcome::Left(face, NOT_VOUCHED));
        }
        if answer.manifest.is_empty() {
            self.refused = self.refused.or(Some(now));
            return Some(FindOutcome::Absent(face));
        }
        let manifest = answer.manifest.to_vec();
        Some(FindOutcome::Found { face, key: asked.key, manifest, vouched })
    }

    /// Takes a refusal: the peer has nothing with this root, or does not understand the question. `None` if the
    /// question is not ours.
    pub fn handle_nack(
        &mut self,
        now: Duration,
        interest: &Interest<'_>,
    ) -> Option<(FaceId, AskedLink)> {
        let face = self.face_of(FindId::parse(interest.name())?)?;
        let asked = self.asked.remove(&face)?;
        self.refused = self.refused.or(Some(now));
        Some((face, asked))
    }

    /// Removes a face that ended.
    pub fn went_down(&mut self, face: FaceId) {
        self.asked.remove(&face);
        self.waiting.retain(|waits| *waits != face);
    }

    /// Returns the face on which this question is open.
    fn face_of(&self, id: FindId) -> Option<FaceId> {
        let open = |asked: &AskedLink| asked.id == id && asked.until.is_some();
        self.asked.iter().find(|(_, asked)| open(asked)).map(|(face, _)| *face)
    }

    fn open_questions(&self) -> HashSet<FindId> {
        self.asked.values().filter(|asked| asked.until.is_some()).map(|asked| asked.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use xylem_object::{PublicationKind, PublisherKey};
    use xylem_packet::Packet;

    use super::*;

    fn ticket(publisher: &PublisherKey) -> Ticket {
        Ticket {
            publisher: publisher.public(),
            root: xylem_hash::hash(b"x"),
            name: None,
            size: None,
            kind: Some(PublicationKind::File),
            link_key: None,
            addresses: vec![],
            relays: Vec::new(),
        }
    }

    /// One peer has two addresses: the first answers that it lacks the content, the second that it has it.
    #[test]
    fn addresses_of_one_peer_are_asked_in_turn() {
        let publisher = PublisherKey::from_bytes(&[7; 32]);
        let ticket = ticket(&publisher);
        let mut finding = FindExchange::new(&ticket);
        let (now, key) = (Duration::from_secs(1), [9; 32]);
        finding.ask(now, FaceId(1), key, true, None);
        finding.ask(now, FaceId(2), key, true, None);
        let mut asked = Vec::new();
        let mut turn = |finding: &mut FindExchange, now| {
            assert!(finding.handle_timeout(now, &mut |face, _| asked.push(face)).is_empty());
            std::mem::take(&mut asked)
        };
        let first = turn(&mut finding, now)[..].to_vec();
        assert_eq!(first.len(), 1);
        assert!(turn(&mut finding, now).is_empty());
        assert_eq!(finding.poll_timeout(), Some(now + FIRST_WAIT));
        let id = FindId::new(&ticket.root, &key);
        let vouch = Some(publisher.vouch_until(&key, 10));
        let absent = id.packet(&FindAnswer { vouch, manifest: b"" }).unwrap();
        assert!(matches!(Packet::decode(&absent), Ok(Packet::Data(_))));
        let answered = finding.handle_answer(now, UnixTime::default(), &absent);
        assert!(matches!(answered, Some(FindOutcome::Absent(face)) if face == first[0]));
        let second = turn(&mut finding, now)[..].to_vec();
        assert!(second.len() == 1 && second != first);
        let found = id.packet(&FindAnswer { vouch, manifest: b"it" }).unwrap();
        let answered = finding.handle_answer(now, UnixTime::default(), &found);
        assert!(matches!(answered, Some(FindOutcome::Found { face, .. }) if face == second[0]));
    }

    /// A thief of a link key alone can answer in its name until the vouch ends.
    #[test]
    fn an_expired_vouch_is_refused() {
        let publisher = PublisherKey::from_bytes(&[7; 32]);
        let ticket = ticket(&publisher);
        let (key, end_s) = ([9; 32], 1_000);
        let id = FindId::new(&ticket.root, &key);
        let vouch = Some(publisher.vouch_until(&key, end_s));
        let found = id.packet(&FindAnswer { vouch, manifest: b"it" }).unwrap();
        for (now_s, holds) in [(end_s - 1, true), (end_s, false)] {
            let mut finding = FindExchange::new(&ticket);
            finding.ask(Duration::ZERO, FaceId(1), key, true, None);
            finding.handle_timeout(Duration::ZERO, &mut |_, _| {});
            let clock = UnixTime::new(Duration::from_secs(now_s));
            let answered = finding.handle_answer(Duration::ZERO, clock, &found);
            assert_eq!(matches!(answered, Some(FindOutcome::Found { .. })), holds, "{now_s}");
            assert_eq!(matches!(answered, Some(FindOutcome::Left(..))), !holds, "{now_s}");
        }
    }

    /// Questions and answers get lost; each loss should cost some round trips, not seconds.
    #[test]
    fn a_lost_question_is_repeated_within_a_few_round_trips() {
        let ticket = ticket(&PublisherKey::from_bytes(&[7; 32]));
        let rtt = Duration::from_millis(100);
        let mut finding = FindExchange::new(&ticket);
        finding.ask(Duration::ZERO, FaceId(1), [9; 32], true, Some(rtt));
        let (mut times, mut sent) = (Vec::new(), 0);
        while let Some(at) = finding.poll_timeout().filter(|_| times.len() < 5) {
            assert!(finding.handle_timeout(at, &mut |_, _| sent += 1).is_empty());
            times.push(at);
        }
        assert_eq!(sent, 5);
        assert_eq!(times, [0, 3, 9, 21, 33].map(|half_trips| rtt * half_trips / 2));
    }
}
