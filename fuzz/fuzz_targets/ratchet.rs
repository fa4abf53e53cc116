//! A double ratchet driven by the input: send, deliver, hold back, repeat, damage, forge, save and restore. An
//! authentic message opens once, no other opens, nothing panics, stored state is bounded, and a state has one form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xylem_link::StaticKey;
use xylem_mail_internals::internals::{MAX_KEPT, Ratchet};

fuzz_target!(|data: &[u8]| {
    let key = StaticKey::generate([2; 32]);
    let mut ends = [
        Ratchet::initiator([1; 32], key.public(), [3; 32]),
        Ratchet::responder([1; 32], key, [4; 32]),
    ];
    // Messages under way by receiver, with their plaintexts; removed when delivered.
    let mut flying: [Vec<(u32, Vec<u8>)>; 2] = [vec![], vec![]];
    let mut past: [Vec<Vec<u8>>; 2] = [vec![], vec![]];
    let mut sent = 0u32;
    let mut rest = data;
    while let Some((&op, tail)) = rest.split_first() {
        rest = tail;
        let (to, pick) = (usize::from(op & 1), usize::from(op >> 4));
        let mut out = Vec::new();
        match (op >> 1) & 7 {
            0..=2 => {
                let mut message = Vec::new();
                if ends[1 - to].encrypt(&sent.to_be_bytes(), b"", &mut message).is_ok() {
                    flying[to].push((sent, message));
                    sent += 1;
                }
            }
            3 | 4 if !flying[to].is_empty() => {
                let at = pick % flying[to].len();
                let (n, message) = flying[to].remove(at);
                ends[to].decrypt(&message, b"", &mut out).expect("genuine, within the limits");
                assert_eq!(out, n.to_be_bytes());
                past[to].push(message);
            }
            5 if !flying[to].is_empty() => {
                let at = pick % flying[to].len();
                let mut message = flying[to][at].1.clone();
                let place = usize::from(rest.first().copied().unwrap_or(0)) % message.len();
                message[place] ^= 1 << (pick % 8);
                assert!(ends[to].decrypt(&message, b"", &mut out).is_err());
            }
            6 if !past[to].is_empty() => {
                let at = pick % past[to].len();
                assert!(ends[to].decrypt(&past[to][at], b"", &mut out).is_err(), "twice");
            }
            7 => {
                let saved = ends[to].save();
                ends[to] = Ratchet::restore(&saved, [rest.len() as u8; 32]).expect("just saved");
                assert_eq!(*ends[to].save(), *saved);
                let mut wrong = saved.to_vec();
                let place = rest.len() % wrong.len();
                wrong[place] ^= 1 << (pick % 8);
                wrong.truncate(wrong.len() - pick / 8 * place);
                if let Some(other) = Ratchet::restore(&wrong, [0; 32]) {
                    assert_eq!(*other.save(), wrong);
                }
            }
            _ => {
                let len = rest.len().min(pick * 8);
                let (bytes, tail) = rest.split_at(len);
                rest = tail;
                assert!(ends[to].decrypt(bytes, b"", &mut out).is_err());
            }
        }
        assert!(ends.iter().all(|end| end.kept() <= MAX_KEPT));
        if sent > 900 {
            return;
        }
    }
});
