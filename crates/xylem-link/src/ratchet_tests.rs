use std::collections::HashSet;

use super::*;

fn pair() -> (Ratchet, Ratchet) {
    let key = StaticKey::generate([2; 32]);
    let initiator = Ratchet::initiator([1; 32], key.public(), [3; 32]);
    (initiator, Ratchet::responder([1; 32], key, [4; 32]))
}

fn sent(from: &mut Ratchet, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    from.encrypt(text, b"ad", &mut out).unwrap();
    assert_eq!(out.len(), HEADER_LEN + text.len() + TAG_LEN);
    out
}

fn got(to: &mut Ratchet, message: &[u8]) -> Result<Vec<u8>, RatchetError> {
    let mut out = Vec::new();
    let result = to.decrypt(message, b"ad", &mut out);
    assert!(result.is_ok() || out.is_empty(), "nothing is left of what does not open");
    result.map(|()| out)
}

#[test]
fn both_talk_and_every_message_has_another_key() {
    let (mut a, mut b) = pair();
    assert_eq!(b.encrypt(b"x", b"", &mut Vec::new()), Err(RatchetError::NoPeerKey));
    let mut seen = HashSet::new();
    for round in 0..20u8 {
        for n in 0..3 {
            let text = [round, n];
            let message = sent(&mut a, &text);
            assert!(seen.insert(message[HEADER_LEN..].to_vec()));
            assert_eq!(got(&mut b, &message).unwrap(), text);
            assert_eq!(got(&mut b, &message), Err(RatchetError::Forged), "once");
        }
        let message = sent(&mut b, &[round]);
        assert!(seen.insert(message[..32].to_vec()), "another ratchet key each turn");
        assert_eq!(got(&mut a, &message).unwrap(), [round]);
    }
    assert_eq!((a.kept(), b.kept()), (0, 0));
}

/// Random talk of both, delivered late, in any order, some never: all that is delivered opens,
/// once.
#[test]
fn messages_open_in_any_order() {
    for seed in 0..30 {
        let mut rng = Rng::new(&[seed; 32]);
        let (mut a, mut b) = pair();
        let (mut to_a, mut to_b): (Vec<(u32, Vec<u8>)>, Vec<_>) = (vec![], vec![]);
        for n in 0..300u32 {
            let (from, flying) =
                if rng.below(2) == 0 || n == 0 { (&mut a, &mut to_b) } else { (&mut b, &mut to_a) };
            let mut message = Vec::new();
            if from.encrypt(&n.to_be_bytes(), b"ad", &mut message).is_ok() {
                flying.push((n, message));
            }
            for (to, flying) in [(&mut a, &mut to_a), (&mut b, &mut to_b)] {
                while !flying.is_empty() && rng.below(3) != 0 {
                    let (n, message) = flying.swap_remove(rng.below(flying.len()));
                    if rng.below(20) != 0 {
                        assert_eq!(got(to, &message).unwrap(), n.to_be_bytes(), "seed {seed}");
                        assert_eq!(got(to, &message), Err(RatchetError::Forged));
                    }
                }
            }
        }
    }
}

/// WRAITH: double ratchet changes state before the tag is verified. Every bit and every cut of
/// messages that would take a step, skip or use a kept key: nothing changes, the true ones open.
#[test]
fn forgeries_leave_the_double_ratchet_as_it_was() {
    let (mut a, mut b) = pair();
    let first = sent(&mut a, b"first");
    got(&mut b, &first).unwrap();
    let answer = sent(&mut b, b"answer");
    let skipped = sent(&mut a, b"skipped");
    let later = sent(&mut a, b"later");
    got(&mut b, &later).unwrap();
    got(&mut a, &answer).unwrap();
    let turn = sent(&mut a, b"a new chain");
    for genuine in [&skipped, &turn] {
        let to = &mut b;
        let kept = to.kept();
        for bit in 0..genuine.len() * 8 {
            let mut forged = genuine.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(got(to, &forged).is_err(), "bit {bit}");
        }
        for len in 0..genuine.len() {
            assert!(got(to, &genuine[..len]).is_err());
        }
        let mut wrong = Vec::new();
        assert_eq!(to.decrypt(genuine, b"other", &mut wrong), Err(RatchetError::Forged));
        assert_eq!((to.kept(), wrong.len()), (kept, 0));
    }
    assert_eq!(got(&mut b, &turn).unwrap(), b"a new chain");
    assert_eq!(got(&mut b, &skipped).unwrap(), b"skipped");
}

#[test]
fn missing_messages_are_bounded() {
    let (mut a, mut b) = pair();
    let mut messages: Vec<_> = (0..=MAX_SKIP + 1).map(|_| sent(&mut a, b"x")).collect();
    let last = messages.pop().unwrap();
    assert_eq!(got(&mut b, &last), Err(RatchetError::TooFar));
    assert_eq!(b.kept(), 0);
    got(&mut b, messages.last().unwrap()).unwrap();
    assert_eq!(b.kept(), MAX_SKIP as usize);
    // Chain after chain with a gap each: the oldest keys give way.
    for _ in 0..4 {
        let answer = sent(&mut b, b"y");
        got(&mut a, &answer).unwrap();
        for _ in 0..MAX_SKIP - 1 {
            sent(&mut a, b"lost");
        }
        let message = sent(&mut a, b"z");
        got(&mut b, &message).unwrap();
        assert!(b.kept() <= MAX_KEPT);
    }
    assert_eq!(got(&mut b, &messages[0]), Err(RatchetError::Forged), "forgotten by now");
}

#[test]
fn a_chain_ends_before_its_numbers_do() {
    let (mut a, mut b) = pair();
    let message = sent(&mut a, b"x");
    got(&mut b, &message).unwrap();
    a.state.sending.as_mut().unwrap().next = u32::MAX;
    assert_eq!(a.encrypt(b"x", b"", &mut Vec::new()), Err(RatchetError::Exhausted));
    b.state.receiving.as_mut().unwrap().next = u32::MAX;
    let mut forged = message;
    forged[36..40].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(got(&mut b, &forged), Err(RatchetError::Forged));
}

/// Forward secrecy and healing: a thief of the state reads nothing sent before, and nothing after
/// the next exchange.
#[test]
fn a_stolen_state_opens_neither_the_past_nor_the_healed_future() {
    let (mut a, mut b) = pair();
    let past = sent(&mut a, b"past");
    got(&mut b, &past).unwrap();
    let mut thief = b.copy_for_tests();
    assert!(got(&mut thief, &past).is_err());
    for text in [b"1", b"2"] {
        let there = sent(&mut b, text);
        got(&mut a, &there).unwrap();
        let back = sent(&mut a, text);
        got(&mut b, &back).unwrap();
        // The first turn's key pair is drawn after the theft.
        assert!(got(&mut thief, &back).is_err());
    }
}

#[test]
fn debug_shows_no_secret() {
    let (a, _) = pair();
    assert_eq!(format!("{a:?}"), "Ratchet { kept: 0, .. }");
}
