use std::collections::HashSet;

use xylem_sim::Rng;

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
    result.map(|_| out)
}

#[test]
fn every_message_of_both_sides_has_another_key() {
    let (mut a, mut b) = pair();
    assert_eq!(b.encrypt(b"x", b"", &mut Vec::new()), Err(RatchetError::NoPeerKey));
    let mut seen = HashSet::new();
    for round in 0..20u8 {
        for n in 0..3 {
            let text = [round, n];
            let message = sent(&mut a, &text);
            assert!(seen.insert(message[HEADER_LEN..].to_vec()));
            assert!(seen.insert(message[..SEALED_LEN].to_vec()));
            assert_eq!(got(&mut b, &message).unwrap(), text);
            assert_eq!(got(&mut b, &message), Err(RatchetError::Forged), "once");
        }
        let message = sent(&mut b, &[round]);
        assert!(seen.insert(b.ours.as_ref().unwrap().public().0.to_vec()), "a new key each turn");
        assert_eq!(got(&mut a, &message).unwrap(), [round]);
    }
    assert_eq!((a.kept(), b.kept()), (0, 0));
}

/// Both send at random; messages arrive late, in any order, some never. All that arrive open exactly once.
#[test]
fn messages_open_in_any_order() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
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
                    let (n, message) = flying.swap_remove(rng.index(flying.len()));
                    if rng.below(20) != 0 {
                        assert_eq!(got(to, &message).unwrap(), n.to_be_bytes(), "seed {seed}");
                        assert_eq!(got(to, &message), Err(RatchetError::Forged));
                    }
                }
            }
        }
    }
}

/// WRAITH: double ratchet changes state before the tag is verified. Every flipped bit and every truncation of messages
/// that would take a step, skip or use a kept key changes nothing, and the genuine ones open.
#[test]
fn forgeries_leave_the_double_ratchet_unchanged() {
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
    // All of the associated data counts, short or long.
    for len in [0, 55, 56, 57, 300] {
        let (mut message, mut out, mut known) = (Vec::new(), Vec::new(), vec![7; len]);
        a.encrypt(b"x", &known, &mut message).unwrap();
        known.push(7);
        assert_eq!(b.decrypt(&message, &known, &mut out), Err(RatchetError::Forged));
        known.pop();
        assert_eq!(b.decrypt(&message, &known, &mut out), Ok(0), "{len}");
    }
    assert_eq!(got(&mut b, &turn).unwrap(), b"a new chain");
    assert_eq!(got(&mut b, &skipped).unwrap(), b"skipped");
}

/// Sends a message; returns how many messages the receiver then counts as lost.
fn lost_at(from: &mut Ratchet, to: &mut Ratchet) -> Result<u32, RatchetError> {
    let message = sent(from, b"x");
    to.decrypt(&message, b"ad", &mut Vec::new())
}

/// Sends messages that never arrive.
fn lose(from: &mut Ratchet, count: u32) {
    if count > 0 {
        sent(from, b"lost");
        from.skip_sending(count - 1);
    }
}

#[test]
fn missing_messages_are_bounded() {
    let (mut a, mut b) = pair();
    let messages: Vec<_> = (0..=MAX_SKIP).map(|_| sent(&mut a, b"x")).collect();
    got(&mut b, messages.last().unwrap()).unwrap();
    assert_eq!(b.kept(), MAX_SKIP as usize);
    // Each chain in turn has a gap: the oldest keys are dropped, and counted.
    let mut lost = 0;
    for round in 1..=4 {
        let answer = sent(&mut b, b"y");
        got(&mut a, &answer).unwrap();
        lose(&mut a, MAX_SKIP - 1);
        lost += lost_at(&mut a, &mut b).unwrap();
        let all = MAX_SKIP + round * (MAX_SKIP - 1);
        assert_eq!(lost, all.saturating_sub(MAX_KEPT as u32));
        assert!(b.kept() <= MAX_KEPT);
    }
    assert_eq!(got(&mut b, &messages[0]), Err(RatchetError::Forged), "forgotten by now");
}

/// After any number of lost messages up to the limit, the next one opens, and so do kept ones before it. Beyond the
/// limit nothing changes.
#[test]
fn a_session_survives_lost_messages() {
    for count in [1, MAX_SKIP, MAX_SKIP + 1, 1_002, 10_000, MAX_FORWARD] {
        for turns in [0, 3] {
            let (mut a, mut b) = pair();
            for _ in 0..turns {
                assert_eq!(lost_at(&mut a, &mut b), Ok(0));
                assert_eq!(lost_at(&mut b, &mut a), Ok(0));
            }
            lose(&mut a, count - 1);
            let late = sent(&mut a, b"late");
            let message = sent(&mut a, b"x");
            let mut out = Vec::new();
            let lost = b.decrypt(&message, b"ad", &mut out);
            assert_eq!(lost, Ok(count.saturating_sub(MAX_SKIP)), "{count} lost");
            assert_eq!(got(&mut b, &message), Err(RatchetError::Forged), "once");
            assert_eq!(b.kept(), count.min(MAX_SKIP) as usize);
            assert_eq!(got(&mut b, &late).unwrap(), b"late");
            for _ in 0..3 {
                assert_eq!(lost_at(&mut b, &mut a), Ok(0));
                assert_eq!(lost_at(&mut a, &mut b), Ok(0));
            }
        }
    }
    for count in [MAX_FORWARD + 1, 1 << 20] {
        let (mut a, mut b) = pair();
        lost_at(&mut a, &mut b).unwrap();
        let before = b.save();
        lose(&mut a, count);
        assert_eq!(lost_at(&mut a, &mut b), Err(RatchetError::TooFar(count)));
        assert_eq!(*b.save(), *before, "nothing has changed");
    }
}

/// A new chain states a length of the one before that is too long to skip. The new chain is followed, and the rest of
/// the old one is lost, at the cost of two hashes.
#[test]
fn a_new_chain_is_followed_after_any_loss_in_the_old_one() {
    for count in [MAX_SKIP, 1_002, 10_000, MAX_FORWARD + 1, 1 << 20] {
        let (mut a, mut b) = pair();
        lost_at(&mut a, &mut b).unwrap();
        let answer = sent(&mut b, b"y");
        lose(&mut a, count);
        got(&mut a, &answer).unwrap();
        let expected = if count > MAX_FORWARD { count } else { count - MAX_SKIP };
        assert_eq!(lost_at(&mut a, &mut b), Ok(expected), "{count} lost");
        for _ in 0..3 {
            assert_eq!(lost_at(&mut b, &mut a), Ok(0));
            assert_eq!(lost_at(&mut a, &mut b), Ok(0));
        }
    }
}

/// An attacker without the header key cannot make up a far number. A genuine far header on another message changes
/// nothing.
#[test]
fn forged_far_headers_do_nothing() {
    let (mut a, mut b) = pair();
    lost_at(&mut a, &mut b).unwrap();
    let answer = sent(&mut b, b"y");
    lose(&mut a, 5_000);
    let in_chain = sent(&mut a, b"genuine");
    got(&mut a, &answer).unwrap();
    lose(&mut a, 5_000);
    let in_next = sent(&mut a, b"genuine");
    let before = b.save();
    for genuine in [&in_chain, &in_next] {
        for bit in 0..SEALED_LEN * 8 {
            let mut forged = genuine.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(got(&mut b, &forged), Err(RatchetError::Forged), "bit {bit}");
        }
        let mut forged = genuine.clone();
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(got(&mut b, &forged), Err(RatchetError::Forged));
    }
    assert_eq!(*b.save(), *before, "nothing has changed");
    assert_eq!(
        b.decrypt(&in_next, b"ad", &mut Vec::new()),
        Ok(5_001 - MAX_SKIP + 5_000 - MAX_SKIP)
    );
    assert_eq!(got(&mut b, &in_chain).unwrap(), b"genuine", "of those that are kept");
}

#[test]
fn a_chain_ends_before_its_numbers_overflow() {
    let (mut a, mut b) = pair();
    let message = sent(&mut a, b"x");
    got(&mut b, &message).unwrap();
    a.state.sending.as_mut().unwrap().next = u32::MAX;
    assert_eq!(a.encrypt(b"x", b"", &mut Vec::new()), Err(RatchetError::Exhausted));
    b.state.receiving.as_mut().unwrap().next = u32::MAX;
    let under = b.state.receiving.as_ref().unwrap().header.clone();
    let (head, rest) = message.split_first_chunk().unwrap();
    let header = Header { number: u32::MAX, ..Header::open(head, &under).unwrap() };
    let forged = [&header.seal(&under)[..], rest].concat();
    assert_eq!(got(&mut b, &forged), Err(RatchetError::Forged));
}

/// Forward secrecy and healing: a thief of the state reads nothing sent before, and nothing after the next exchange.
#[test]
fn a_stolen_state_opens_neither_the_past_nor_the_healed_future() {
    let (mut a, mut b) = pair();
    let past = sent(&mut a, b"past");
    got(&mut b, &past).unwrap();
    let mut thief = b.copy();
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

/// Each side is saved and restored between any two steps, as if its program had ended: the session continues, and each
/// state has one encoding.
#[test]
fn a_restored_state_continues_the_session() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let (mut a, mut b) = pair();
        let mut to_b = Vec::new();
        for n in 0..100u32 {
            for end in [&mut a, &mut b] {
                let saved = end.save();
                *end = Ratchet::restore(&saved, [rng.below(256) as u8; 32]).unwrap();
                assert_eq!(*end.save(), *saved);
            }
            match rng.below(4) {
                0 | 1 => to_b.push((n, sent(&mut a, &n.to_be_bytes()))),
                2 if !to_b.is_empty() => {
                    let (n, message) = to_b.swap_remove(rng.index(to_b.len()));
                    assert_eq!(got(&mut b, &message).unwrap(), n.to_be_bytes());
                    assert_eq!(got(&mut b, &message), Err(RatchetError::Forged));
                }
                _ => {
                    let mut message = Vec::new();
                    if b.encrypt(b"y", b"ad", &mut message).is_ok() {
                        got(&mut a, &message).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn a_damaged_state_is_refused() {
    let (mut a, mut b) = pair();
    sent(&mut a, b"missing");
    let message = sent(&mut a, b"x");
    got(&mut b, &message).unwrap();
    sent(&mut b, b"y");
    let saved = b.save();
    for len in 0..saved.len() {
        assert!(Ratchet::restore(&saved[..len], [0; 32]).is_none(), "{len}");
    }
    assert!(Ratchet::restore(&[&saved[..], &[0]].concat(), [0; 32]).is_none());
    for (at, byte) in [(0, 2), (1, 16), (1, 4), (saved.len() - 37, 0)] {
        let mut wrong = saved.to_vec();
        wrong[at] = byte;
        assert!(Ratchet::restore(&wrong, [0; 32]).is_none(), "byte {at}");
    }
}

/// No field of the headers that a carrier sees is constant or counts. No header opens under a wrong header key.
#[test]
fn headers_reveal_nothing_to_a_carrier() {
    let (mut a, mut b) = pair();
    let mut heads = Vec::<[u8; SEALED_LEN]>::new();
    for round in 0..200 {
        let (from, to) = if round / 3 % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        let message = sent(from, b"the same text");
        got(to, &message).unwrap();
        heads.push(*message.first_chunk().unwrap());
    }
    for bit in 0..SEALED_LEN * 8 {
        let ones = heads.iter().filter(|h| h[bit / 8] >> (bit % 8) & 1 == 1).count();
        // Six standard deviations of 200 fair bits are 42.
        assert!((58..=142).contains(&ones), "bit {bit} is set {ones} times of 200");
    }
    let wrong = Zeroizing::new([9; 32]);
    assert!(heads.iter().all(|head| Header::open(head, &wrong).is_none()));
}

/// WRAITH: "key commitment" put in the AAD and never compared. A message with a tag that is right under a second key,
/// but with another commitment, does not open.
#[test]
fn a_message_opens_under_one_key() {
    let (mut a, mut b) = pair();
    let mut other = b.copy();
    other.state = RatchetState { root: Zeroizing::new([7; 32]), ..other.state };
    let message = sent(&mut a, b"x");
    // The second key would need the same header, and a tag of its own.
    let key = [5; 32];
    let (head, rest) = message.split_first_chunk::<SEALED_LEN>().unwrap();
    let mut sealed = b"y".to_vec();
    let tag = aead(&key).seal_in_place_separate_tag(nonce(), aad(head, b"ad"), &mut sealed);
    sealed.extend_from_slice(tag.unwrap().as_ref());
    let theirs = rest.first_chunk().unwrap();
    let parts = Parts { head, commitment: theirs, sealed: &sealed, associated: b"ad" };
    assert_eq!(parts.open(&key, &mut Vec::new()), Err(RatchetError::Forged));
    let parts = Parts { commitment: &commitment(&key), ..parts };
    assert_eq!(parts.open(&key, &mut Vec::new()), Ok(()), "else it would have opened");
    assert_eq!(got(&mut other, &message), Err(RatchetError::Forged));
    assert_eq!(got(&mut b, &message).unwrap(), b"x");
}
