use std::collections::HashSet;

use std::time::Duration;

use xylem_base::{Blame, Failure};
use xylem_faults::{DiskFault, FaultMedium};

use super::*;
use crate::entries::{MailRoute, Parcel};
use crate::event::MailEvent;
use crate::letters::{MAX_STRANGERS_LETTERS, letter_file};

const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_800_000_000));

struct Person {
    keys: [[u8; 32]; 2],
    medium: FaultMedium,
    store: MailStore,
}

fn open(keys: &[[u8; 32]; 2], medium: &FaultMedium) -> MailStore {
    let us = MailIdentity::new(PublisherKey::from_bytes(&keys[0]), StaticKey::from_bytes(keys[1]));
    MailStore::of(us, Arc::new(medium.clone()), Path::new("/store")).unwrap()
}

impl Person {
    fn new() -> Self {
        let (keys, medium) = ([random().unwrap(), random().unwrap()], FaultMedium::new());
        let store = open(&keys, &medium);
        Self { keys, medium, store }
    }

    /// The disk accepts `n` more changes.
    fn stop_after(&self, n: u64) {
        self.medium.fail_after(n, DiskFault::Dead);
    }

    /// Reopens the store, as after any end of the program.
    fn restart(&mut self) {
        self.medium = self.medium.image();
        self.store = open(&self.keys, &self.medium);
    }

    fn card(&self) -> Card {
        self.store.card(&["127.0.0.1:7".parse().unwrap()], None, NOW).unwrap()
    }

    fn write(&self, to: &Card, text: &str) -> Result<EnvelopeId, MailStoreError> {
        let route = MailRoute::Direct(to.addresses.clone());
        self.store.compose(to, "them", &note(text), route, &[], NOW)
    }

    fn outbox(&self) -> Vec<Parcel> {
        self.store.outbox(NOW).unwrap().waiting
    }

    fn texts(&self) -> Vec<String> {
        let text = |letter: Letter| match letter.body.content {
            MailContent::Note(text) => text,
            other => panic!("{other:?}"),
        };
        self.store.letters().unwrap().into_iter().map(|(_, letter)| text(letter)).collect()
    }
}

impl MailStore {
    fn receive(&self, envelope: &[u8], now: UnixTime) -> Result<EnvelopeOutcome, MailStoreError> {
        Ok(self.take_in(envelope, now)?.incoming)
    }

    /// Returns whether the message need not be delivered again.
    fn is_settled(&self, parcel: &Parcel, status: DeliveryStatus) -> bool {
        self.settle(parcel, status, 0, NOW).unwrap().0
    }
}

fn note(text: &str) -> MailBody {
    let content = MailContent::Note(text.to_owned());
    MailBody { content, name: String::new(), size: text.len() as u64, sent_ms: 1 }
}

/// The machine stops at any write while it takes in a message. After it is back and the envelope arrives again, the
/// message is there once, and later ones are read.
#[test]
fn a_crash_at_any_write_neither_loses_nor_doubles_mail() {
    let mut crashes = 0;
    for n in 0.. {
        let (a, mut b) = (Person::new(), Person::new());
        let card = b.card();
        a.write(&card, "one").unwrap();
        a.write(&card, "two").unwrap();
        let parcels = a.outbox();
        b.stop_after(n);
        let first = b.store.receive(&parcels[0].envelope, NOW);
        let crashed = first.is_err();
        b.restart();
        if crashed {
            crashes += 1;
            // A message that is visible after a crash is whole, and there at most once.
            assert!(b.texts().len() <= 1);
            let again = b.store.receive(&parcels[0].envelope, NOW).unwrap();
            assert!(
                matches!(again, EnvelopeOutcome::New(..) | EnvelopeOutcome::Again),
                "write {n}: {again:?}"
            );
        }
        assert_eq!(b.store.receive(&parcels[0].envelope, NOW).unwrap(), EnvelopeOutcome::Again);
        let second = b.store.receive(&parcels[1].envelope, NOW).unwrap();
        assert!(matches!(second, EnvelopeOutcome::New(..)), "write {n}: {second:?}");
        let mut texts = b.texts();
        texts.sort();
        assert_eq!(texts, ["one", "two"], "write {n}");
        if !crashed {
            break;
        }
    }
    assert!(crashes >= 4, "each change was one: {crashes}");
}

/// The machine stops at any write while a message is made. No key seals two messages, nothing partly made leaves, and
/// later messages are read.
#[test]
fn a_crash_while_writing_uses_no_key_twice() {
    let mut crashes = 0;
    for n in 0.. {
        let (mut a, b) = (Person::new(), Person::new());
        let card = b.card();
        a.write(&card, "before").unwrap();
        a.stop_after(n);
        let crashed = a.write(&card, "one").is_err();
        a.restart();
        if crashed {
            crashes += 1;
            a.write(&card, "one again").unwrap();
        }
        let mut heads = HashSet::new();
        for parcel in a.outbox() {
            let opened = xylem_mail::open(&b.store.us, &parcel.envelope).unwrap();
            let received = b.store.receive(&parcel.envelope, NOW).unwrap();
            assert!(matches!(received, EnvelopeOutcome::New(..)), "write {n}: {received:?}");
            assert!(heads.insert(opened.id()));
        }
        assert!(b.texts().contains(&"before".to_owned()) && heads.len() >= 2);
        if !crashed {
            break;
        }
    }
    assert!(crashes >= 2, "{crashes}");
}

#[test]
fn a_receipt_confirms_and_empties_the_outbox() {
    let (a, b) = (Person::new(), Person::new());
    let card = b.card();
    a.write(&card, "one").unwrap();
    let parcel = a.outbox().remove(0);
    assert!(!a.store.is_settled(&parcel, DeliveryStatus::Full), "it waits");
    assert_eq!(a.outbox(), std::slice::from_ref(&parcel));
    b.store.receive(&parcel.envelope, NOW).unwrap();
    assert!(a.store.is_settled(&parcel, DeliveryStatus::Stored));
    assert!(a.outbox().is_empty());
    a.write(&card, "two").unwrap();
    let second = a.outbox().remove(0);
    let opened = xylem_mail::open(&b.store.us, &second.envelope).unwrap();
    assert!(opened.session().is_some(), "no first message any more");
    // The answer uses the same session.
    let EnvelopeOutcome::New(_, letter) = b.store.receive(&second.envelope, NOW).unwrap() else {
        panic!()
    };
    let answer = b.store.answer(&letter, &note("yes"), NOW).unwrap();
    assert!(matches!(a.store.receive(&answer, NOW).unwrap(), EnvelopeOutcome::New(..)));
    assert_eq!(a.texts(), ["yes"]);
    // The other side has lost everything. A message that it refuses ends the session, and is sent again in the next
    // one, once.
    assert!(a.store.is_settled(&second, DeliveryStatus::Refused));
    let again = a.outbox();
    assert_eq!(again.len(), 1);
    assert!(again[0].session != second.session && again[0].again && again[0].body == second.body);
    assert!(a.store.is_settled(&again[0], DeliveryStatus::Refused));
    assert!(a.outbox().is_empty(), "given up");
    a.write(&card, "three").unwrap();
    assert!(![second.session, again[0].session].contains(&a.outbox()[0].session));
}

#[test]
fn forged_and_foreign_envelopes_are_refused() {
    let (a, b, c) = (Person::new(), Person::new(), Person::new());
    let card = b.card();
    a.write(&card, "one").unwrap();
    let envelope = a.outbox().remove(0).envelope;
    assert_eq!(
        c.store.receive(&envelope, NOW).unwrap(),
        EnvelopeOutcome::Not(DeliveryStatus::Refused)
    );
    let mut forged = envelope.clone();
    forged[100] ^= 1;
    assert_eq!(
        b.store.receive(&forged, NOW).unwrap(),
        EnvelopeOutcome::Not(DeliveryStatus::Refused)
    );
    assert!(matches!(b.store.receive(&envelope, NOW).unwrap(), EnvelopeOutcome::New(1, _)));
    // Dropping a stranger's last message ends the session: a replay shows nothing.
    b.store.drop_letter(1).unwrap();
    assert_eq!(
        b.store.receive(&envelope, NOW).unwrap(),
        EnvelopeOutcome::Not(DeliveryStatus::Ended)
    );
    assert!(b.texts().is_empty());
    assert_eq!(b.store.letter(1).unwrap_err().blame(), Blame::Usage);
}

/// Strangers fill their share and no more. A person with a local name still gets through, and numbers are not reused.
#[test]
fn strangers_are_limited() {
    let (friend, b) = (Person::new(), Person::new());
    let card = b.card();
    b.store.name("friend", &friend.card()).unwrap();
    let stranger = Person::new();
    let mut last = EnvelopeOutcome::Again;
    for n in 0..=MAX_STRANGERS_LETTERS {
        stranger.write(&card, &n.to_string()).unwrap();
        let parcel = stranger.outbox().remove(0);
        last = b.store.receive(&parcel.envelope, NOW).unwrap();
        assert!(stranger.store.is_settled(&parcel, DeliveryStatus::Stored));
    }
    assert_eq!(last, EnvelopeOutcome::Not(DeliveryStatus::Full));
    friend.write(&card, "hello").unwrap();
    let parcel = friend.outbox().remove(0);
    let received = b.store.receive(&parcel.envelope, NOW).unwrap();
    assert!(friend.store.is_settled(&parcel, DeliveryStatus::Stored));
    let number = MAX_STRANGERS_LETTERS as u32 + 1;
    assert!(matches!(received, EnvelopeOutcome::New(n, _) if n == number));
    b.store.drop_letter(number).unwrap();
    friend.write(&card, "again").unwrap();
    let received = b.store.receive(&friend.outbox()[0].envelope, NOW).unwrap();
    assert!(matches!(received, EnvelopeOutcome::New(n, _) if n == number + 1), "{received:?}");
}

#[test]
fn sessions_of_strangers_are_limited() {
    let b = Person::new();
    let card = b.card();
    let mut last = EnvelopeOutcome::Again;
    for n in 0..=MAX_STRANGERS_SESSIONS {
        let stranger = Person::new();
        stranger.write(&card, "x").unwrap();
        last = b.store.receive(&stranger.outbox()[0].envelope, NOW).unwrap();
        if let EnvelopeOutcome::New(number, _) = last
            && n % 2 == 0
        {
            // Room for letters must not be the limit here.
            b.disk_remove(number);
        }
    }
    assert_eq!(last, EnvelopeOutcome::Not(DeliveryStatus::Full));
    b.store.drop_letter(2).unwrap();
    let stranger = Person::new();
    stranger.write(&card, "x").unwrap();
    let received = b.store.receive(&stranger.outbox()[0].envelope, NOW).unwrap();
    assert!(matches!(received, EnvelopeOutcome::New(..)), "an ended one makes room: {received:?}");
}

impl Person {
    fn disk_remove(&self, number: u32) {
        self.store.folder.remove(&letter_file(number)).unwrap();
    }
}

#[test]
fn a_name_belongs_to_one_person() {
    let (a, b, c) = (Person::new(), Person::new(), Person::new());
    a.store.name("bob", &b.card()).unwrap();
    a.store.name("bob", &b.card()).unwrap();
    assert_eq!(a.store.name("bob", &c.card()).unwrap_err().blame(), Blame::Usage);
    a.store.name("robert", &b.card()).unwrap();
    assert_eq!(a.store.people().unwrap().len(), 1, "one name for one person");
    for bad in ["", "../x", ".x", "a/b", "-x", "a b", "ü", "x".repeat(65).as_str()] {
        assert_eq!(a.store.name(bad, &c.card()).unwrap_err().blame(), Blame::Usage, "{bad}");
    }
    a.store.forget("robert").unwrap();
    assert!(a.store.forget("robert").is_err());
}

/// Two programs with one store take turns: no key is used twice, no message is lost.
#[test]
fn two_programs_share_a_store() {
    let (a, b) = (Person::new(), Person::new());
    let card = b.card();
    a.write(&card, "first").unwrap();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (a, card) = (&a, &card);
            scope.spawn(move || {
                let store = open(&a.keys, &a.medium);
                for m in 0..5 {
                    let route = MailRoute::Direct(vec![]);
                    store.compose(card, "b", &note(&format!("{n} {m}")), route, &[], NOW).unwrap();
                }
            });
        }
    });
    for parcel in a.outbox() {
        assert!(matches!(
            b.store.receive(&parcel.envelope, NOW).unwrap(),
            EnvelopeOutcome::New(..)
        ));
    }
    let texts: HashSet<String> = b.texts().into_iter().collect();
    assert_eq!(texts.len(), 21);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_mail() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, b) = (tempfile::tempdir().unwrap(), Person::new());
    let store = MailStore::open(dir.path()).unwrap();
    store.compose(&b.card(), "b", &note("x"), MailRoute::Direct(vec![]), &[], NOW).unwrap();
    let mail = dir.path().join("mail");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&mail), 0o700);
    for directory in ["sessions", "outbox"] {
        for file in std::fs::read_dir(mail.join(directory)).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }
}

/// A and B talk through a node. A message that the node reports as stored is not delivered; a receipt by B at the node
/// makes it so.
struct Talk {
    a: Person,
    b: Person,
    to_b: Card,
}

impl Talk {
    fn new() -> Self {
        let (a, b) = (Person::new(), Person::new());
        let to_b = b.card();
        a.store.name("bob", &to_b).unwrap();
        b.store.name("ann", &a.card()).unwrap();
        Self { a, b, to_b }
    }

    /// A message that the node has accepted.
    fn at_node(&self, text: &str) -> Parcel {
        let node = MailRoute::Via(None, vec!["127.0.0.1:9".parse().unwrap()]);
        self.a.store.compose(&self.to_b, "bob", &note(text), node, &[], NOW).unwrap();
        self.taken_by_node().pop().unwrap()
    }

    /// The node accepts all waiting messages.
    fn taken_by_node(&self) -> Vec<Parcel> {
        let waiting = self.a.outbox();
        for parcel in &waiting {
            let (done, events) =
                self.a.store.settle(parcel, DeliveryStatus::Stored, 0, NOW).unwrap();
            assert!(done && matches!(events[..], [MailEvent::Stored { .. }]), "{events:?}");
        }
        waiting
    }

    /// Returns B's result of a message, and A's events from B's receipt.
    fn fetched(&self, parcel: &Parcel) -> (TakenIn, Vec<MailEvent>) {
        let taken = self.b.store.take_in(&parcel.envelope, NOW).unwrap();
        let receipt = taken.receipt.as_ref().expect("of a session that B knows");
        let events = self.a.store.take_receipt(parcel.session, receipt, NOW).unwrap();
        (taken, events)
    }

    fn stored(&self) -> usize {
        self.a.store.outbox(NOW).unwrap().stored.len()
    }

    /// Loses messages for good.
    fn lose(&self, count: u32) {
        for _ in 0..count {
            self.a.write(&self.to_b, "lost").unwrap();
            let parcel = self.a.outbox().remove(0);
            let file = format!("outbox/{}", hex(&parcel.id().0));
            self.a.store.folder.remove(&file).unwrap();
        }
    }
}

/// Returns the reported number of lost messages, and how many of these are sent again.
fn unread(events: &[MailEvent]) -> Option<(u32, u32)> {
    events.iter().find_map(|event| match event {
        MailEvent::Unread { count, again, .. } => Some((*count, *again)),
        _ => None,
    })
}

#[test]
fn only_the_receivers_receipt_makes_a_message_delivered() {
    let talk = Talk::new();
    let parcel = talk.at_node("one");
    assert_eq!(talk.stored(), 1);
    let key = talk.a.store.receipts_due(NOW).unwrap().remove(0).key;
    // The node has seen the key with which receipts are fetched, and other receipts; it cannot make any.
    let (mut forged, other) = (Vec::new(), Talk::new());
    let foreign = other.at_node("one");
    forged.extend(other.b.store.take_in(&foreign.envelope, NOW).unwrap().receipt);
    forged.push(parcel.envelope.clone());
    forged.push(forged_receipt(&key));
    for envelope in &forged {
        assert!(talk.a.store.take_receipt(parcel.session, envelope, NOW).unwrap().is_empty());
    }
    assert_eq!(talk.stored(), 1);
    let (taken, events) = talk.fetched(&parcel);
    assert!(matches!(taken.incoming, EnvelopeOutcome::New(..)));
    assert!(matches!(events[..], [MailEvent::Delivered { direct: false, .. }]), "{events:?}");
    assert_eq!(talk.stored(), 0);
    // Every bit of a receipt counts, and a repeated receipt changes nothing.
    let parcel = talk.at_node("two");
    let receipt = talk.b.store.take_in(&parcel.envelope, NOW).unwrap().receipt.unwrap();
    for at in (0..receipt.len()).step_by(7) {
        let mut wrong = receipt.clone();
        wrong[at] ^= 1;
        assert!(talk.a.store.take_receipt(parcel.session, &wrong, NOW).unwrap().is_empty());
    }
    assert_eq!(talk.a.store.take_receipt(parcel.session, &receipt, NOW).unwrap().len(), 1);
    assert!(talk.a.store.take_receipt(parcel.session, &receipt, NOW).unwrap().is_empty());
    // A repeated envelope is acknowledged again: the first receipt may have been lost.
    assert!(talk.b.store.take_in(&parcel.envelope, NOW).unwrap().receipt.is_some());
}

/// An envelope for the mailbox of receipts, by an author that knows only that key.
fn forged_receipt(key: &StaticKey) -> Vec<u8> {
    let us = MailIdentity::new(PublisherKey::from_bytes(&[9; 32]), key.clone());
    let card = us.card(Prekeys::new(0, [8; 32]).current(), 0, &[]);
    let node = MailIdentity::new(PublisherKey::from_bytes(&[7; 32]), StaticKey::generate([7; 32]));
    let theirs = node.card(Prekeys::new(0, [8; 32]).current(), 0, &[]);
    let mut session = MailSession::start(&node, &card, [6; 32]).unwrap();
    session.seal(&node, &theirs, &note("stored"), [5; 32]).unwrap()
}

/// 1,100 messages are lost, directly and past a node. The next one is read, both sides are notified of the number once,
/// and both go on.
#[test]
fn lost_messages_are_reported_to_both_and_the_session_continues() {
    for direct in [true, false] {
        let talk = Talk::new();
        let first = talk.at_node("first");
        talk.fetched(&first);
        // A message that the node had and dropped is sent again.
        let dropped = talk.at_node("dropped by the node");
        talk.lose(1_100);
        let (taken, events) = if direct {
            talk.a.write(&talk.to_b, "next").unwrap();
            let parcel = talk.a.outbox().remove(0);
            let taken = talk.b.store.take_in(&parcel.envelope, NOW).unwrap();
            let (EnvelopeOutcome::New(..), lost) = (&taken.incoming, taken.lost_in_all) else {
                panic!()
            };
            let events = talk.a.store.settle(&parcel, DeliveryStatus::Stored, lost, NOW).unwrap().1;
            (taken, events)
        } else {
            talk.fetched(&talk.at_node("next"))
        };
        assert!(matches!(taken.incoming, EnvelopeOutcome::New(..)), "{taken:?}");
        assert_eq!(taken.lost.map(|(_, count)| count), Some(101));
        assert_eq!(unread(&events), Some((101, 1)), "{events:?}");
        let again = talk.taken_by_node().pop().unwrap();
        assert!(again.again && again.body == dropped.body);
        assert!(matches!(talk.fetched(&again).0.incoming, EnvelopeOutcome::New(..)));
        // The original arrives late: it is not shown a second time.
        let late = talk.b.store.take_in(&dropped.envelope, NOW).unwrap();
        assert_eq!(
            (late.incoming, late.lost),
            (EnvelopeOutcome::Not(DeliveryStatus::Refused), None)
        );
        for text in ["more", "and more"] {
            let (taken, events) = talk.fetched(&talk.at_node(text));
            assert!(matches!(taken.incoming, EnvelopeOutcome::New(..)) && taken.lost.is_none());
            assert_eq!(unread(&events), None, "told once");
        }
        let (_, letter) = talk.b.store.letters().unwrap().pop().unwrap();
        let answer = talk.b.store.answer(&letter, &note("yes"), NOW).unwrap();
        assert!(matches!(talk.a.store.receive(&answer, NOW).unwrap(), EnvelopeOutcome::New(..)));
    }
}

/// The receiver can no longer read a session. It ends on both sides; the messages that the sender still has go into
/// another session, once; both go on.
#[test]
fn an_unusable_session_is_replaced_by_a_new_one() {
    let talk = Talk::new();
    talk.fetched(&talk.at_node("first"));
    talk.at_node("dropped by the node");
    let parcel = talk.at_node("far");
    let mut session = talk.b.store.session(parcel.session).unwrap().unwrap();
    session.end();
    talk.b.store.save(&session).unwrap();
    let last = talk.at_node("too far");
    let (taken, events) = talk.fetched(&last);
    assert_eq!(taken.incoming, EnvelopeOutcome::Not(DeliveryStatus::Ended));
    assert!(events.len() == 3 && events.iter().all(|e| matches!(e, MailEvent::Again { .. })));
    for again in talk.taken_by_node() {
        assert_ne!(again.session, last.session);
        let (taken, events) = talk.fetched(&again);
        assert!(matches!(taken.incoming, EnvelopeOutcome::New(..)), "{taken:?}");
        assert!(matches!(events[..], [MailEvent::Delivered { .. }]), "{events:?}");
    }
    assert_eq!(talk.stored(), 0);
    let mut texts = talk.b.texts();
    texts.sort();
    assert_eq!(texts, ["dropped by the node", "far", "first", "too far"]);
    // Late messages of the old session are reported to the sender, which knows, and are not shown.
    let (taken, events) = talk.fetched(&parcel);
    assert!(taken.lost.is_none() && events.is_empty(), "{taken:?} {events:?}");
    assert!(matches!(talk.fetched(&talk.at_node("on")).0.incoming, EnvelopeOutcome::New(..)));
}

/// A message that is sent again for lack of a receipt, though it had arrived, is shown once.
#[test]
fn a_repeated_message_is_shown_once() {
    let talk = Talk::new();
    let parcel = talk.at_node("one");
    assert!(matches!(
        talk.b.store.receive(&parcel.envelope, NOW).unwrap(),
        EnvelopeOutcome::New(..)
    ));
    let mut ended = talk.b.store.session(parcel.session).unwrap().unwrap();
    ended.end();
    talk.b.store.save(&ended).unwrap();
    let next = talk.at_node("two");
    talk.fetched(&next);
    for again in talk.taken_by_node() {
        talk.fetched(&again);
    }
    assert_eq!(talk.b.texts(), ["one", "two"]);
}
