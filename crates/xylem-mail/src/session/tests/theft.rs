//! Tests of stolen keys against recorded messages: docs/threat-model/thief.md, "Mail".

use super::*;

/// A thief with all long-lived keys of party `n`, and these prekeys.
fn thief_of(n: u8, prekeys: Prekeys) -> Person {
    Person { prekeys, ..Person::new(n) }
}

/// The receiver's publisher and link keys show the sender, and no more.
#[test]
fn a_stolen_link_key_alone_reads_no_messages() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    // The prekey with the number on the card, but another secret.
    let mut thief = thief_of(20, Prekeys::new(0, [99; 32]));
    let seed = a.seed();
    let mut at_a = MailSession::start(&a.us, &b.card, seed).unwrap();
    let first = a.seal(&mut at_a, "one");
    assert_eq!(open(&thief.us, &first).unwrap().sender(), Some(a.us.party()));
    assert_eq!(thief.begin(&first).map(|_| ()), Err(MailError::Forged));
    let (mut at_b, _) = b.begin(&first).unwrap();
    let answer = b.seal(&mut at_b, "yes");
    receive(&a, &mut at_a, &answer).unwrap();
    let next = a.seal(&mut at_a, "two");
    let opened = open(&thief.us, &next).unwrap();
    assert_eq!((opened.sender(), opened.session()), (None, Some(at_a.id())));
    assert_eq!(thief.begin(&next).map(|_| ()), Err(MailError::Forged));
    assert_eq!(receive(&b, &mut at_b, &next), Ok(ReceivedMail::New(note("two"))), "it was one");
}

/// With the prekey's secret as well, first messages can be read until their sender has had an answer, and none from
/// there on.
#[test]
fn a_prekey_opens_first_messages_until_there_is_an_answer() {
    let (mut a, mut b) = (Person::new(10), Person::new(20));
    let mut thief = thief_of(20, Prekeys::restore(&b.prekeys.save()).unwrap());
    let seed = a.seed();
    let mut at_a = MailSession::start(&a.us, &b.card, seed).unwrap();
    let firsts = ["one", "two"].map(|text| a.seal(&mut at_a, text));
    let (mut at_thief, received) = thief.begin(&firsts[0]).unwrap();
    assert_eq!(received, ReceivedMail::New(note("one")), "as in X3DH without one-time prekeys");
    assert_eq!(receive(&thief, &mut at_thief, &firsts[1]), Ok(ReceivedMail::New(note("two"))));
    let (mut at_b, _) = b.begin(&firsts[0]).unwrap();
    let answer = b.seal(&mut at_b, "yes");
    receive(&a, &mut at_a, &answer).unwrap();
    for text in ["three", "four"] {
        let envelope = a.seal(&mut at_a, text);
        assert_eq!(receive(&thief, &mut at_thief, &envelope), Err(MailError::Forged), "{text}");
        assert_eq!(receive(&b, &mut at_b, &envelope), Ok(ReceivedMail::New(note(text))));
    }
}
