//! Extendable output against the official crate: reads of any length from any place.
#![no_main]

mod common;

use common::{Choices, Use};
use libfuzzer_sys::fuzz_target;
use std::io::{Read, Seek, SeekFrom};

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::new(data);
    let how = Use::choose(&mut choices);
    let steps: [(u8, [u8; 8], usize); 8] =
        std::array::from_fn(|_| (choices.byte(), choices.bytes(), choices.len()));
    let message = choices.message();
    let mut ours = how.ours().update(&message).finalize_xof();
    let mut official = how.official().update(&message).finalize_xof();
    for (what, number, len) in steps {
        let number = u64::from_le_bytes(number);
        let place = match what % 4 {
            0 => number,
            1 => number % 100_000,
            _ => ours.position(),
        };
        if what & 16 == 0 {
            // The end of the stream is not part of the comparison: there the official crate wraps.
            let place = place.min(u64::MAX - 50_000);
            ours.set_position(place);
            official.set_position(place);
        } else {
            let by = SeekFrom::Current(number as i64 % 100_000);
            match (ours.seek(by), official.seek(by)) {
                (Ok(ours), Ok(official)) => assert_eq!(ours, official),
                (ours, official) => assert_eq!(ours.is_err(), official.is_err()),
            }
        }
        assert_eq!(ours.position(), official.position());
        if ours.position() > u64::MAX - 50_000 {
            continue;
        }
        let (mut got, mut want) = (vec![0; len], vec![0; len]);
        assert_eq!(ours.read(&mut got).expect("memory gives no error"), len);
        official.fill(&mut want);
        assert_eq!(got, want);
    }
});
