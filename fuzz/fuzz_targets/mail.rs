//! All input of mail from other peers or from the disk: cards, envelopes, their contents, bodies, frames, saved states.
//! Nothing panics, forged input is refused without a change, and accepted input has one form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use xylem_link::StaticKey;
use xylem_mail::protocol::{DeliveryStatus, MailFrames};
use xylem_mail::{
    Card, EnvelopeId, MailBody, MailContent, MailIdentity, MailSession, Prekeys, ReceivedMail, open,
};
use xylem_object::PublisherKey;

struct World {
    us: MailIdentity,
    them: MailIdentity,
    prekeys: Prekeys,
    envelopes: Vec<Vec<u8>>,
    session: Vec<u8>,
    at_them: MailSession,
    receipts: Vec<Vec<u8>>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let us = MailIdentity::new(PublisherKey::from_bytes(&[1; 32]), StaticKey::generate([2; 32]));
    let them = MailIdentity::new(PublisherKey::from_bytes(&[3; 32]), StaticKey::generate([4; 32]));
    let prekeys = Prekeys::new(0, [5; 32]);
    let theirs = them.card(Prekeys::new(0, [6; 32]).current(), 0, &[]);
    let mut session =
        MailSession::start(&them, &us.card(prekeys.current(), 0, &[]), [7; 32]).unwrap();
    let content = MailContent::Note("x".into());
    let body = MailBody { content, name: "n".into(), size: 1, sent_ms: 1 };
    let mut envelopes = Vec::new();
    for n in 0..4u8 {
        if n == 2 {
            session.confirmed();
        }
        envelopes.push(session.seal(&them, &theirs, &body, [n; 32]).unwrap());
    }
    let opened = open(&us, &envelopes[1]).unwrap();
    let mut at_us = opened.begin(&us, &prekeys, [8; 32]).unwrap();
    at_us.receive(&opened).unwrap();
    let receipt =
        |n: u8| at_us.receipt(EnvelopeId([n; 16]), DeliveryStatus::Stored, [n; 32]).unwrap();
    let receipts = (0..2).map(receipt).collect();
    let state = at_us.save().to_vec();
    World { us, them, prekeys, envelopes, session: state, at_them: session, receipts }
});

fuzz_target!(|data: &[u8]| {
    let Some((&op, rest)) = data.split_first() else { return };
    let world = &*WORLD;
    match op % 8 {
        0 => {
            if let Ok(card) = Card::from_bytes(rest) {
                assert_eq!(card.to_bytes(), rest);
            }
        }
        1 => {
            if let Ok(text) = core::str::from_utf8(rest) {
                if let Ok(card) = text.parse::<Card>() {
                    assert_eq!(card.to_string().parse(), Ok(card));
                }
            }
        }
        2 => {
            if let Ok(body) = MailBody::decode(rest) {
                assert_eq!(&body.encode().expect("it was one")[..], rest);
            }
        }
        3 => {
            let mut frames = MailFrames::new();
            for piece in rest.chunks(usize::from(op) + 1) {
                frames.push(piece);
                while let Ok(Some(frame)) = frames.next_frame() {
                    let mut bytes = Vec::new();
                    frame.encode(&mut bytes);
                    assert!(rest.windows(bytes.len()).any(|w| w == bytes));
                }
            }
        }
        4 => {
            if let Some(session) = MailSession::restore(rest, [0; 32]) {
                assert_eq!(&session.save()[..], rest);
            }
            if let Some(prekeys) = Prekeys::restore(rest) {
                assert_eq!(&prekeys.save()[..], rest);
            }
        }
        5 => {
            assert!(open(&world.us, rest).is_none(), "nobody made it");
            assert!(world.at_them.open_receipt(&world.them, rest).is_none());
        }
        6 => {
            for step in rest.chunks_exact(3) {
                let mut receipt = world.receipts[usize::from(step[0] % 2)].clone();
                let place = usize::from(step[1]) * 7 % receipt.len();
                receipt[place] ^= step[2];
                let opened = world.at_them.open_receipt(&world.them, &receipt);
                assert_eq!(opened.is_some(), step[2] == 0, "every bit counts");
            }
        }
        _ => {
            // Genuine envelopes, in any order, some damaged, some twice.
            let mut session = MailSession::restore(&world.session, [1; 32]).expect("saved above");
            let mut seen = [false, true, false, false];
            for step in rest.chunks_exact(3) {
                let which = usize::from(step[0] % 4);
                let mut envelope = world.envelopes[which].clone();
                let place = usize::from(step[1]) * 7 % envelope.len();
                envelope[place] ^= step[2];
                let Some(opened) = open(&world.us, &envelope) else {
                    assert!(step[2] != 0, "a genuine one opens");
                    continue;
                };
                assert_eq!(step[2], 0, "every bit counts");
                if let Ok(begun) = opened.begin(&world.us, &world.prekeys, [3; 32]) {
                    assert_eq!(begun.id(), session.id());
                }
                let received = session.receive(&opened).expect("genuine");
                assert_eq!(received == ReceivedMail::Again, seen[which]);
                seen[which] = true;
            }
        }
    }
});
