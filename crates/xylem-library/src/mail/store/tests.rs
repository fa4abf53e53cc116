use std::collections::HashSet;

use std::time::Duration;

use xylem_faults::{Fault, FaultMedium};

use super::*;
use crate::error::{Blame, Failure};
use crate::mail::letters::{MAX_STRANGERS_LETTERS, letter_file};

const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_800_000_000));

struct Person {
    keys: [[u8; 32]; 2],
    medium: FaultMedium,
    store: MailStore,
}

fn open(keys: &[[u8; 32]; 2], medium: &FaultMedium) -> MailStore {
    let us = Identity::new(PublisherKey::from_bytes(&keys[0]), StaticKey::from_bytes(keys[1]));
    MailStore::of(us, Arc::new(medium.clone()), Path::new("/store")).unwrap()
}

impl Person {
    fn new() -> Self {
        let (keys, medium) = ([random().unwrap(), random().unwrap()], FaultMedium::new());
        let store = open(&keys, &medium);
        Self { keys, medium, store }
    }

    /// The disk takes `n` more changes.
    fn stop_after(&self, n: u64) {
        self.medium.fail_after(n, Fault::Dead);
    }

    /// As after the program ended, however it did.
    fn restart(&mut self) {
        self.medium = self.medium.image();
        self.store = open(&self.keys, &self.medium);
    }

    fn card(&self) -> Card {
        self.store.card(&["127.0.0.1:7".parse().unwrap()], NOW).unwrap()
    }

    fn write(&self, to: &Card, text: &str) -> Result<EnvelopeId, MailStoreError> {
        let route = Route::Direct(to.addresses.clone());
        self.store.compose(to, "them", &note(text), route, &[], NOW)
    }

    fn outbox(&self) -> Vec<Parcel> {
        self.store.parcels(NOW).unwrap().0
    }

    fn texts(&self) -> Vec<String> {
        let text = |letter: Letter| match letter.body.content {
            Content::Note(text) => text,
            other => panic!("{other:?}"),
        };
        self.store.letters().unwrap().into_iter().map(|(_, letter)| text(letter)).collect()
    }
}

fn note(text: &str) -> Body {
    let content = Content::Note(text.to_owned());
    Body { content, name: String::new(), size: text.len() as u64, sent_ms: 1 }
}

/// A machine that stops at any write of a receipt: once it is back and the envelope comes again, the
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
            // Whatever is shown after a crash is whole, and at most once.
            assert!(b.texts().len() <= 1);
            let again = b.store.receive(&parcels[0].envelope, NOW).unwrap();
            assert!(matches!(again, Incoming::New(..) | Incoming::Again), "write {n}: {again:?}");
        }
        assert_eq!(b.store.receive(&parcels[0].envelope, NOW).unwrap(), Incoming::Again);
        let second = b.store.receive(&parcels[1].envelope, NOW).unwrap();
        assert!(matches!(second, Incoming::New(..)), "write {n}: {second:?}");
        let mut texts = b.texts();
        texts.sort();
        assert_eq!(texts, ["one", "two"], "write {n}");
        if !crashed {
            break;
        }
    }
    assert!(crashes >= 4, "each change was one: {crashes}");
}

/// A machine that stops at any write while a message is made: no key seals two messages, nothing
/// half-made leaves, and what is written afterwards is read.
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
            assert!(matches!(received, Incoming::New(..)), "write {n}: {received:?}");
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
    assert!(!a.store.settle(&parcel, Status::Full).unwrap(), "it waits");
    assert_eq!(a.outbox(), std::slice::from_ref(&parcel));
    b.store.receive(&parcel.envelope, NOW).unwrap();
    assert!(a.store.settle(&parcel, Status::Stored).unwrap());
    assert!(a.outbox().is_empty());
    a.write(&card, "two").unwrap();
    let second = a.outbox().remove(0);
    let opened = xylem_mail::open(&b.store.us, &second.envelope).unwrap();
    assert!(opened.session().is_some(), "no first message any more");
    // The answer takes the same conversation.
    let Incoming::New(_, letter) = b.store.receive(&second.envelope, NOW).unwrap() else {
        panic!()
    };
    let answer = b.store.answer(&letter, &note("yes"), NOW).unwrap();
    assert!(matches!(a.store.receive(&answer, NOW).unwrap(), Incoming::New(..)));
    assert_eq!(a.texts(), ["yes"]);
    // The other side has lost everything: what it refuses ends the conversation, the next begins one.
    assert!(a.store.settle(&second, Status::Refused).unwrap());
    a.write(&card, "three").unwrap();
    let third = a.outbox().remove(0);
    assert_ne!(third.session, second.session);
}

#[test]
fn forged_and_foreign_envelopes_are_refused() {
    let (a, b, c) = (Person::new(), Person::new(), Person::new());
    let card = b.card();
    a.write(&card, "one").unwrap();
    let envelope = a.outbox().remove(0).envelope;
    assert_eq!(c.store.receive(&envelope, NOW).unwrap(), Incoming::Not(Status::Refused));
    let mut forged = envelope.clone();
    forged[100] ^= 1;
    assert_eq!(b.store.receive(&forged, NOW).unwrap(), Incoming::Not(Status::Refused));
    assert!(matches!(b.store.receive(&envelope, NOW).unwrap(), Incoming::New(1, _)));
    // Dropping a stranger's last message ends the conversation: a replay shows nothing.
    b.store.drop_letter(1).unwrap();
    assert_eq!(b.store.receive(&envelope, NOW).unwrap(), Incoming::Not(Status::Refused));
    assert!(b.texts().is_empty());
    assert_eq!(b.store.letter(1).unwrap_err().blame(), Blame::Usage);
}

/// Strangers fill their share and no more; somebody with a name still gets through, and numbers are
/// not used twice.
#[test]
fn strangers_are_limited() {
    let (friend, b) = (Person::new(), Person::new());
    let card = b.card();
    b.store.name("friend", &friend.card()).unwrap();
    let stranger = Person::new();
    let mut last = Incoming::Again;
    for n in 0..=MAX_STRANGERS_LETTERS {
        stranger.write(&card, &n.to_string()).unwrap();
        let parcel = stranger.outbox().remove(0);
        last = b.store.receive(&parcel.envelope, NOW).unwrap();
        stranger.store.settle(&parcel, Status::Stored).unwrap();
    }
    assert_eq!(last, Incoming::Not(Status::Full));
    friend.write(&card, "hello").unwrap();
    let parcel = friend.outbox().remove(0);
    let received = b.store.receive(&parcel.envelope, NOW).unwrap();
    friend.store.settle(&parcel, Status::Stored).unwrap();
    let number = MAX_STRANGERS_LETTERS as u32 + 1;
    assert!(matches!(received, Incoming::New(n, _) if n == number));
    b.store.drop_letter(number).unwrap();
    friend.write(&card, "again").unwrap();
    let received = b.store.receive(&friend.outbox()[0].envelope, NOW).unwrap();
    assert!(matches!(received, Incoming::New(n, _) if n == number + 1), "{received:?}");
}

#[test]
fn conversations_of_strangers_are_limited() {
    let b = Person::new();
    let card = b.card();
    let mut last = Incoming::Again;
    for n in 0..=MAX_STRANGERS_SESSIONS {
        let stranger = Person::new();
        stranger.write(&card, "x").unwrap();
        last = b.store.receive(&stranger.outbox()[0].envelope, NOW).unwrap();
        if let Incoming::New(number, _) = last
            && n % 2 == 0
        {
            // Without room for letters being what is short.
            b.disk_remove(number);
        }
    }
    assert_eq!(last, Incoming::Not(Status::Full));
    b.store.drop_letter(2).unwrap();
    let stranger = Person::new();
    stranger.write(&card, "x").unwrap();
    let received = b.store.receive(&stranger.outbox()[0].envelope, NOW).unwrap();
    assert!(matches!(received, Incoming::New(..)), "an ended one makes room: {received:?}");
}

impl Person {
    fn disk_remove(&self, number: u32) {
        self.store.folder.remove(&letter_file(number)).unwrap();
    }
}

#[test]
fn names_are_for_one_person() {
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

/// Two programs with one store take turns: no key is used twice, none is lost.
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
                    let route = Route::Direct(vec![]);
                    store.compose(card, "b", &note(&format!("{n} {m}")), route, &[], NOW).unwrap();
                }
            });
        }
    });
    for parcel in a.outbox() {
        assert!(matches!(b.store.receive(&parcel.envelope, NOW).unwrap(), Incoming::New(..)));
    }
    let texts: HashSet<String> = b.texts().into_iter().collect();
    assert_eq!(texts.len(), 21);
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, b) = (tempfile::tempdir().unwrap(), Person::new());
    let store = MailStore::open(dir.path()).unwrap();
    store.compose(&b.card(), "b", &note("x"), Route::Direct(vec![]), &[], NOW).unwrap();
    let mail = dir.path().join("mail");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&mail), 0o700);
    for directory in ["sessions", "outbox"] {
        for file in std::fs::read_dir(mail.join(directory)).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }
}
