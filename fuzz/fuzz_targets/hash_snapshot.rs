//! Snapshots: a hasher that is saved and resumed at any place continues like the official one. Any bytes are either
//! refused or exactly what the resumed hasher would write.
#![no_main]

mod common;

use common::{Choices, Use};
use libfuzzer_sys::fuzz_target;
use xylem_hash::Hasher;

fn read(bytes: &[u8]) {
    for resumed in [Hasher::from_snapshot(bytes), Hasher::from_snapshot_with_key(bytes)] {
        let Ok(mut hasher) = resumed else { continue };
        let again = hasher.snapshot_exposing_key().expect("not a part of a message");
        assert_eq!(again.as_bytes(), bytes);
        let _ = hasher.update(&[7; 3_000]).finalize();
    }
}

fuzz_target!(|data: &[u8]| {
    // The input as it is, and with the frame that random bytes never have.
    read(data);
    let mut framed = [b"xyBLAKE\x01", data].concat();
    let check = blake3::hash(&framed);
    framed.extend(&check.as_bytes()[..8]);
    read(&framed);

    let mut choices = Choices::new(data);
    let how = Use::choose(&mut choices);
    let cuts: [(usize, usize); 4] = std::array::from_fn(|_| (choices.len(), 1 + choices.len()));
    let message = choices.message();
    let mut hasher = how.ours();
    let mut rest = &message[..];
    for (len, piece) in cuts {
        let (now, after) = rest.split_at(len.min(rest.len()));
        for bytes in now.chunks(piece) {
            hasher.update(bytes);
        }
        rest = after;
        let kept = hasher.snapshot_exposing_key().expect("not a part of a message");
        assert_eq!(hasher.snapshot().is_some(), matches!(how, Use::Plain));
        hasher = match how {
            Use::Plain => Hasher::from_snapshot(kept.as_bytes()),
            _ => Hasher::from_snapshot_with_key(kept.as_bytes()),
        }
        .expect("what was written is read");
    }
    let want = how.official().update(&message).finalize();
    assert_eq!(hasher.update(rest).finalize().as_bytes(), want.as_bytes());
});
