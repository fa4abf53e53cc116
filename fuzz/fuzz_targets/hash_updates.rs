//! A `Hasher` under any sequence of calls against the official one: update in one piece, in equal
//! pieces, by a reader, by many threads; copies, resets, hashes in between.
#![no_main]

mod common;

use common::{Choices, Use};
use libfuzzer_sys::fuzz_target;

/// Enough for `update_rayon` to split it.
const LARGE: usize = 1_700_000;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::new(data);
    let how = Use::choose(&mut choices);
    let steps: [(u8, usize); 12] = std::array::from_fn(|_| (choices.byte(), choices.len()));
    let message = choices.message();
    let large = message.repeat(LARGE.div_ceil(message.len().max(1)));
    let (mut ours, mut official) = (how.ours(), how.official());
    let mut rest = &message[..];
    for (what, len) in steps {
        let (mut now, after) = rest.split_at(len.min(rest.len()));
        match what % 16 {
            0..5 => {
                ours.update(now);
            }
            5..9 => {
                for piece in now.chunks(1 + usize::from(what)) {
                    ours.update(piece);
                }
            }
            9 | 10 => {
                ours.update_reader(now).expect("memory gives no error");
            }
            11 => {
                now = &large[len.min(large.len())..];
                ours.update_rayon(now);
            }
            12 => ours = ours.clone(),
            13 | 14 => assert_eq!(ours.finalize().as_bytes(), official.finalize().as_bytes()),
            _ => {
                ours.reset();
                official.reset();
            }
        }
        if what % 16 < 12 {
            official.update(now);
            rest = after;
        }
    }
    ours.update(rest);
    official.update(rest);
    assert_eq!(ours.count(), official.count());
    assert_eq!(ours.finalize().as_bytes(), official.finalize().as_bytes());
});
