//! Sealed content of a peer: any bytes. Parsed frames are written as the same bytes, and an opener accepts any datagram
//! without a panic, also with a right connection id.
#![no_main]

use core::time::Duration;

use libfuzzer_sys::fuzz_target;
use xylem_link_internals::internals::{CID_LEN, Frames, seal_pair};
use xylem_link_internals::{Cipher, RekeyLimits};

fuzz_target!(|data: &[u8]| {
    let mut written = Vec::new();
    for frame in Frames::new(data) {
        let Ok(frame) = frame else { break };
        let start = written.len();
        frame.write(&mut written);
        assert_eq!(written[start..], data[start..written.len()], "one way to write each frame");
    }

    for cipher in Cipher::ALL {
        let (_, mut opener) = seal_pair(cipher, RekeyLimits::default());
        let ids: Vec<_> = opener.connection_ids().collect();
        for id in ids {
            let mut datagram = data.to_vec();
            assert!(opener.open(Duration::ZERO, &mut datagram).is_err());
            if let Some(head) = datagram.first_chunk_mut::<CID_LEN>() {
                *head = id.0;
            }
            assert!(opener.open(Duration::ZERO, &mut datagram).is_err(), "nobody sealed it");
            assert_eq!(opener.epoch(), 0);
        }
    }
});
