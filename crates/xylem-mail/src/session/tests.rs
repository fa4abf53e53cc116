use xylem_object::PublisherKey;

use super::*;
use crate::body::MailContent;
use crate::envelope::{ENVELOPE_OVERHEAD, MailboxId, mailbox_of, open};

mod theft;

struct Person {
    us: MailIdentity,
    prekeys: Prekeys,
    card: Card,
    draws: u8,
}

impl Person {
    fn new(n: u8) -> Self {
        let link = StaticKey::generate([n + 1; 32]);
        let us = MailIdentity::new(PublisherKey::from_bytes(&[n; 32]), link);
        let prekeys = Prekeys::new(0, [n + 2; 32]);
        let card = us.card(prekeys.current(), 0, &[]);
        Self { us, prekeys, card, draws: 0 }
    }

    fn seed(&mut self) -> [u8; 32] {
        self.draws += 1;
        derive("test seed", &[&self.us.party().to_bytes(), &[self.draws]])
    }

    fn seal(&mut self, session: &mut MailSession, text: &str) -> Vec<u8> {
        let seed = self.seed();
        session.seal(&self.us, &self.card, &note(text), seed).unwrap()
    }

    fn begin(&mut self, envelope: &[u8]) -> Result<(MailSession, ReceivedMail), MailError> {
        let opened = open(&self.us, envelope).ok_or(MailError::Forged)?;
        let seed = self.seed();
        let mut session = opened.begin(&self.us, &self.prekeys, seed)?;
        session.receive(&opened).map(|received| (session, received))
    }
}

fn note(text: &str) -> MailBody {
    MailBody { content: MailContent::Note(text.into()), name: "n".into(), size: 1, sent_ms: 2 }
}

fn receive(
    who: &Person,
    session: &mut MailSession,
    envelope: &[u8],
) -> Result<ReceivedMail, MailError> {
    session.receive(&open(&who.us, envelope).ok_or(MailError::Forged)?)
}

fn saved(session: &MailSession) -> MailSession {
    let bytes = session.save();
    let restored = MailSession::restore(&bytes, [77; 32]).unwrap();
    assert_eq!(*restored.save(), *bytes, "one form");
    assert!((0..bytes.len()).all(|len| MailSession::restore(&bytes[..len], [0; 32]).is_none()));
    restored
}

/// A writes while B is away; B answers; each is restored from storage between any two steps.
#[test]
fn two_parties_converse_from_a_card() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    let seed = a.seed();
    let mut at_a = MailSession::start(&a.us, &b.card, seed).unwrap();
    let first = a.seal(&mut at_a, "one");
    at_a = saved(&at_a);
    let second = a.seal(&mut at_a, "two");
    assert_eq!(open(&b.us, &second).unwrap().sender(), Some(a.us.party()), "not confirmed yet");

    // The second message overtakes the first, and both begin the same session.
    let (mut at_b, received) = b.begin(&second).unwrap();
    assert_eq!(received, ReceivedMail::New(note("two")));
    assert_eq!((at_b.id(), at_b.peer()), (at_a.id(), a.us.party()));
    assert_eq!(at_b.card(), Some(&a.card), "b can answer");
    at_b = saved(&at_b);
    assert_eq!(receive(&b, &mut at_b, &first), Ok(ReceivedMail::New(note("one"))));
    assert_eq!(receive(&b, &mut at_b, &first), Ok(ReceivedMail::Again), "a receipt was lost");

    let answer = b.seal(&mut at_b, "yes");
    assert_eq!(open(&a.us, &answer).unwrap().session(), Some(at_a.id()));
    assert_eq!(receive(&a, &mut at_a, &answer), Ok(ReceivedMail::New(note("yes"))));
    let third = a.seal(&mut saved(&at_a), "three");
    assert_eq!(open(&b.us, &third).unwrap().session(), Some(at_a.id()), "confirmed by the answer");
    assert_eq!(receive(&b, &mut saved(&at_b), &third), Ok(ReceivedMail::New(note("three"))));
}

/// A carrier sees the mailbox, a fresh key, and a length that is the same for first and later messages.
#[test]
fn envelopes_show_the_mailbox_and_a_class_of_lengths() {
    let (mut a, b) = (Person::new(10), Person::new(20));
    let seed = a.seed();
    let mut session = MailSession::start(&a.us, &b.card, seed).unwrap();
    let first = a.seal(&mut session, "");
    session.confirmed();
    let next = a.seal(&mut session, &"x".repeat(450));
    assert_eq!((first.len(), next.len()), (512 + ENVELOPE_OVERHEAD, 512 + ENVELOPE_OVERHEAD));
    for envelope in [&first, &next] {
        assert_eq!(mailbox_of(envelope), Some(MailboxId::of(&b.us.party().link)));
        for known in [&a.us.party().link.0, &a.us.party().publisher.0, &b.us.party().link.0] {
            assert!(!envelope.windows(32).any(|w| w == known));
        }
        assert!(!envelope.windows(16).any(|w| w == session.id().0));
    }
    assert_ne!(first[17..49], next[17..49]);
    assert!(open(&a.us, &first).is_none(), "not even the sender opens it");
}

/// Every flipped bit and every truncation, of a first message and of a later one, is refused without a change.
#[test]
fn forged_messages_change_nothing() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    let seed = a.seed();
    let mut at_a = MailSession::start(&a.us, &b.card, seed).unwrap();
    let first = a.seal(&mut at_a, "one");
    let (mut at_b, _) = b.begin(&first).unwrap();
    at_a.confirmed();
    let next = a.seal(&mut at_a, "two");
    let before = at_b.save();
    for genuine in [&first, &next] {
        for bit in (0..genuine.len() * 8).step_by(7) {
            let mut forged = genuine.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&b.us, &forged).is_none(), "bit {bit}");
        }
        for len in (0..genuine.len()).step_by(11) {
            assert!(open(&b.us, &genuine[..len]).is_none());
        }
    }
    // The message inside is damaged; anyone can make envelopes.
    let mut opened = open(&b.us, &next).unwrap();
    opened.id = EnvelopeId([0; 16]);
    for bit in (0..opened.message.len() * 8).step_by(5) {
        opened.message[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(at_b.receive(&opened), Err(MailError::Forged), "bit {bit}");
        opened.message[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(*at_b.save(), *before);
    assert_eq!(receive(&b, &mut at_b, &next), Ok(ReceivedMail::New(note("two"))));
}

/// A sender without another's link key cannot write in its name, whatever card it uses.
#[test]
fn no_sender_can_write_in_anothers_name() {
    let (a, mut b, mut c) = (Person::new(10), Person::new(20), Person::new(30));
    let seed = c.seed();
    let mut session = MailSession::start(&c.us, &b.card, seed).unwrap();
    c.card = a.card.clone();
    // As `seal` without its check that the card is ours.
    let body = note("I am a").encode().unwrap();
    let mut message = Vec::new();
    let ratchet = session.ratchet.as_mut().unwrap();
    ratchet.encrypt(&body, &session.associated, &mut message).unwrap();
    let ephemeral = session.opening.unwrap();
    let place = SessionRef::First { prekey: session.prekey, ephemeral, card: &a.card };
    let forged = seal(&b.us.party().link, &place, &message, body.len(), &[1; 32]).unwrap();
    assert_eq!(open(&b.us, &forged).unwrap().sender(), Some(a.us.party()), "it says so");
    assert_eq!(b.begin(&forged).err(), Some(MailError::Forged), "and is not believed");
}

/// Unknown key share: a message to B in an envelope for C is not accepted by C, even if B and C share a prekey.
#[test]
fn a_message_is_for_one_receiver() {
    let (mut a, b, mut c) = (Person::new(10), Person::new(20), Person::new(30));
    c.prekeys = Prekeys::restore(&b.prekeys.save()).unwrap();
    let seed = a.seed();
    let mut session = MailSession::start(&a.us, &b.card, seed).unwrap();
    let envelope = a.seal(&mut session, "for b");
    let opened = open(&b.us, &envelope).unwrap();
    let OpenedKind::First { prekey, ephemeral, card } = &opened.inside else { panic!() };
    let place = SessionRef::First { prekey: *prekey, ephemeral: *ephemeral, card };
    let body = opened.message.len() - crate::ratchet::HEADER_LEN - 16;
    let moved = seal(&c.us.party().link, &place, &opened.message, body, &[1; 32]).unwrap();
    assert_eq!(c.begin(&moved).err(), Some(MailError::Forged));
}

#[test]
fn an_ended_session_stays_ended_and_an_old_card_is_reported() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    let seed = a.seed();
    let mut at_a = MailSession::start(&a.us, &b.card, seed).unwrap();
    let first = a.seal(&mut at_a, "one");
    let (mut at_b, _) = b.begin(&first).unwrap();
    at_b.end();
    let mut at_b = saved(&at_b);
    assert!(!at_b.is_live());
    assert_eq!(receive(&b, &mut at_b, &first), Err(MailError::Ended), "a replay shows nothing");
    b.prekeys.rotate(crate::prekeys::KEEP.as_secs(), [8; 32]);
    assert_eq!(b.begin(&first).err(), Some(MailError::Stale));
    let secret = b.prekeys.current().key.public();
    assert!(!format!("{at_b:?}").contains(&secret.to_string()));
}

/// Both write at the same time: two sessions, and both messages arrive.
#[test]
fn both_sides_may_begin_a_session_at_once() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    let (seed_a, seed_b) = (a.seed(), b.seed());
    let mut of_a = MailSession::start(&a.us, &b.card, seed_a).unwrap();
    let mut of_b = MailSession::start(&b.us, &a.card, seed_b).unwrap();
    let (from_a, from_b) = (a.seal(&mut of_a, "a"), b.seal(&mut of_b, "b"));
    let (at_b, received) = b.begin(&from_a).unwrap();
    assert_eq!(received, ReceivedMail::New(note("a")));
    let (at_a, received) = a.begin(&from_b).unwrap();
    assert_eq!(received, ReceivedMail::New(note("b")));
    assert_ne!(at_a.id(), at_b.id());
}

#[test]
fn remembered_envelopes_are_bounded() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    let seed = a.seed();
    let mut at_a = MailSession::start(&a.us, &b.card, seed).unwrap();
    let first = a.seal(&mut at_a, "x");
    let (mut at_b, _) = b.begin(&first).unwrap();
    for n in 0..RECENT {
        let seed = derive("test", &[&(n as u32).to_be_bytes()]);
        let envelope = at_a.seal(&a.us, &a.card, &note("x"), seed).unwrap();
        receive(&b, &mut at_b, &envelope).unwrap();
    }
    assert_eq!(at_b.recent.len(), RECENT);
    assert_eq!(receive(&b, &mut at_b, &first), Err(MailError::Forged), "too long ago to tell");
}

/// Receipts are authenticated: by the peer, for this session and this side, and unchanged.
#[test]
fn only_the_peer_can_make_receipts() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    let seed = a.seed();
    let mut at_a = MailSession::start(&a.us, &b.card, seed).unwrap();
    let envelope = a.seal(&mut at_a, "one");
    let id = EnvelopeId::of(&envelope);
    let (at_b, _) = b.begin(&envelope).unwrap();
    let (at_a, at_b) = (saved(&at_a), saved(&at_b));
    let receipt = at_b.receipt(id, DeliveryStatus::Stored, b.seed()).unwrap();
    let mailbox = at_a.receipts_key(&a.us).unwrap().public();
    assert_eq!(mailbox_of(&receipt), Some(MailboxId::of(&mailbox)), "a mailbox of nobody's");
    assert_ne!(mailbox, a.us.party().link);
    assert_eq!(receipt.len(), envelope.len(), "as long as any");
    let said = at_a.open_receipt(&a.us, &receipt).unwrap();
    assert_eq!(said, Receipt { envelope: id, status: DeliveryStatus::Stored, lost: 0 });
    // A receipt cannot be replayed to its author, or from another session.
    assert_eq!(at_b.open_receipt(&b.us, &receipt), None);
    assert!(open(&a.us, &receipt).is_none(), "no message");
    let seed = a.seed();
    let other = MailSession::start(&a.us, &b.card, seed).unwrap();
    assert_eq!(other.open_receipt(&a.us, &receipt), None);
    for bit in 0..receipt.len() * 8 {
        let mut wrong = receipt.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(at_a.open_receipt(&a.us, &wrong), None, "bit {bit}");
    }
}

/// More messages are missing than can be skipped: the session reports that, ends, keeps its key for receipts, and
/// deletes the others.
#[test]
fn a_session_that_cannot_be_read_ends() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    let seed = a.seed();
    let mut at_a = MailSession::start(&a.us, &b.card, seed).unwrap();
    let first = a.seal(&mut at_a, "one");
    let (mut at_b, _) = b.begin(&first).unwrap();
    at_a.ratchet.as_mut().unwrap().skip_sending(crate::ratchet::MAX_FORWARD + 1);
    let far = a.seal(&mut at_a, "too far");
    assert_eq!(receive(&b, &mut at_b, &far), Ok(ReceivedMail::Ended));
    assert!(!at_b.is_live());
    assert_eq!(at_b.lost(), crate::ratchet::MAX_FORWARD + 1);
    let mut at_b = saved(&at_b);
    assert_eq!(receive(&b, &mut at_b, &far), Err(MailError::Ended));
    let receipt = at_b.receipt(EnvelopeId::of(&far), DeliveryStatus::Ended, b.seed()).unwrap();
    let said = at_a.open_receipt(&a.us, &receipt).unwrap();
    assert_eq!((said.status, said.lost), (DeliveryStatus::Ended, at_b.lost()));
    assert_eq!(
        (at_a.record_reported_lost(said.lost), at_a.record_reported_lost(said.lost)),
        (said.lost, 0),
        "told once"
    );
}
