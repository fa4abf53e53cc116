//! Any packets from any faces: the forwarder must not panic, must keep its limits, and must send
//! only whole packets to faces that exist.
//!
//! Input: steps of one octet (face in the low two bits; time to pass in the others, in 100 ms) and
//! one octet of length, then so many bytes of packet.
#![no_main]

use core::time::Duration;

use xylem_forward::{Config, FaceId, FaceScope, Forwarder, Incoming, Outgoing};
use xylem_packet::{Name, Packet};

const PIT: usize = 16;
const STORE: usize = 8192;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut config = Config::default();
    config.pit_capacity = PIT;
    config.cs_capacity_bytes = STORE;
    config.dead_nonces = 16;
    let mut forwarder = Forwarder::new(config);
    let faces: Vec<_> = (0..4)
        .map(|i| forwarder.add_face(if i == 0 { FaceScope::Local } else { FaceScope::NonLocal }))
        .collect();
    for (face, prefix) in faces.iter().zip(["/localhost", "/", "/a", "/"]) {
        let prefix = Name::from_uri(prefix).expect("a name");
        forwarder.add_route(prefix.as_ref(), *face, 1).expect("room");
    }
    let mut now = Duration::ZERO;
    let known = faces.clone();
    let mut out = |to: FaceId, leaving: Outgoing<'_>| {
        assert!(known.contains(&to));
        assert!(matches!(
            (Packet::decode(leaving.packet), leaving.nack),
            (Ok(Packet::Interest(_)), _) | (Ok(Packet::Data(_)), None)
        ));
    };
    let mut rest = input;
    while let [step, len, more @ ..] = rest {
        let (packet, after) = more.split_at(usize::from(*len).min(more.len()));
        rest = after;
        now += Duration::from_millis(100) * u32::from(step >> 2);
        forwarder.handle_timeout(now, &mut out);
        let from = faces[usize::from(step & 3)];
        let _ = forwarder.handle_packet(now, from, Incoming::bare(packet), &mut out);
        assert!(forwarder.pit_len() <= PIT);
        assert!(forwarder.cs().bytes <= STORE);
        assert_eq!(forwarder.pit_len() == 0, forwarder.poll_timeout().is_none());
    }
    forwarder.handle_timeout(now + Duration::from_secs(100), &mut out);
    assert_eq!(forwarder.pit_len(), 0);
});
