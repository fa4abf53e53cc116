//! A sensor on a microcontroller: one forwarder with two faces, a consumer on one and a producer on the other, in
//! arrays of fixed size.
//!
//! The consumer's Interest goes through the PIT to the producer, which makes a Data with a BLAKE3 digest (signature
//! type 6). The Data comes back, is cached, is verified by the consumer, and answers the second Interest without the
//! producer. Output goes to the debugger by semihosting.
#![no_std]
#![no_main]

// The emulated machine, its startup code and its console are those of the hash's own bare-metal test.
#[path = "../../../crates/xylem-hash/targets/bare/src/cortex_m.rs"]
mod machine;

use core::fmt::Write;
use core::panic::PanicInfo;
use core::time::Duration;

use machine::{Console, exit};
use xylem_forward::{
    FaceId, FaceScope, Fixed, Forwarder, ForwarderConfig, ForwarderSeed, IncomingPacket,
    OutgoingPacket,
};
use xylem_packet::{
    Component, Data, DataBuilder, DecodeError, FixedName, Interest, InterestBuilder, SignatureType,
};

/// Two faces, 16 pending Interests, four routes, eight cached packets of at most 256 bytes, and 32 entries in each
/// small table.
type SmallForwarder = Forwarder<Fixed<2, 16, 4, 8, 256, 32>>;

/// One packet that the forwarder sends.
struct Wire {
    to: FaceId,
    bytes: [u8; 256],
    len: usize,
}

impl Wire {
    fn packet(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// No Interest here has parameters, so no digest of them has to be checked.
fn no_sha256(_: &[u8]) -> [u8; 32] {
    [0; 32]
}

/// Gives a packet to the forwarder; returns the packet that it sends.
fn pass(forwarder: &mut SmallForwarder, ms: u64, from: FaceId, packet: &[u8]) -> Option<Wire> {
    let mut left = None;
    let mut out = |to: FaceId, leaving: OutgoingPacket<'_>| {
        let mut wire = Wire { to, bytes: [0; 256], len: leaving.packet.len() };
        wire.bytes[..wire.len].copy_from_slice(leaving.packet);
        left = Some(wire);
    };
    let now = Duration::from_millis(ms);
    if let Err(reason) = forwarder.handle_packet(now, from, IncomingPacket::bare(packet), &mut out)
    {
        let _ = writeln!(Console, "  dropped: {reason}");
    }
    left
}

/// The producer: answers an Interest with a measurement.
fn answer(interest: &Interest<'_>, out: &mut [u8]) -> usize {
    DataBuilder::new(interest.name())
        .freshness_ms(1000)
        .signature(SignatureType::DIGEST_BLAKE3, None)
        .encode_to_slice(out, b"21.5 degrees", |signed, value| {
            value[..32].copy_from_slice(xylem_hash::hash(signed).as_bytes());
            32
        })
        .expect("a small packet fits")
}

/// The consumer's check: the type is 6, and the digest is that of the signed portion.
fn verified(packet: &[u8]) -> Result<bool, DecodeError> {
    let data = Data::decode(packet)?;
    Ok(data.signature_info().typ == SignatureType::DIGEST_BLAKE3
        && data.signature_value() == xylem_hash::hash(data.signed_portion()).as_bytes())
}

fn interest(name: &FixedName<64>, nonce: u8, out: &mut [u8]) -> usize {
    InterestBuilder::new(name.as_ref())
        .nonce([nonce; 4])
        .must_be_fresh(true)
        .encode_to_slice(out)
        .expect("a small packet fits")
}

fn demo() {
    let mut config = ForwarderConfig::default();
    config.cs_capacity_bytes = 4096;
    let mut forwarder = SmallForwarder::new(config, ForwarderSeed::from_random([1; 16]));
    let size = size_of::<SmallForwarder>();
    let _ = writeln!(Console, "a forwarder of {size} bytes, tables and cache included");
    let consumer = forwarder.try_add_face(FaceScope::Local).expect("the first of two faces");
    let producer = forwarder.try_add_face(FaceScope::Local).expect("the second of two faces");
    assert!(forwarder.try_add_face(FaceScope::Local).is_none(), "a third");
    let prefix: FixedName<64> = FixedName::from_uri("/sensor").expect("a name");
    forwarder.add_route(prefix.as_ref(), producer, 0).expect("room for a route");

    let mut name = prefix;
    name.push(Component::generic(b"temperature")).expect("room in the name");
    let mut buffer = [0; 128];
    let len = interest(&name, 1, &mut buffer);
    let asked = pass(&mut forwarder, 0, consumer, &buffer[..len]).expect("an Interest");
    assert!(asked.to == producer && forwarder.pit_len() == 1);
    let _ = writeln!(Console, "Interest /sensor/temperature: PIT, to the producer");

    let question = Interest::decode_with(asked.packet(), no_sha256).expect("an Interest");
    let mut data = [0; 256];
    let len = answer(&question, &mut data);
    let came = pass(&mut forwarder, 5, producer, &data[..len]).expect("a Data");
    assert!(came.to == consumer && verified(came.packet()) == Ok(true));
    assert!(forwarder.pit_len() == 0 && forwarder.cs().packets == 1);
    let _ = writeln!(Console, "Data of {len} bytes: kept, to the consumer, BLAKE3 digest verified");

    let len = interest(&name, 2, &mut buffer);
    let cached = pass(&mut forwarder, 500, consumer, &buffer[..len]).expect("a Data");
    assert!(cached.to == consumer && cached.packet() == came.packet());
    let _ = writeln!(Console, "Interest again: answered from the content store");

    let mut forged = cached.bytes;
    forged[cached.len - 40] ^= 1;
    assert!(verified(&forged[..cached.len]) != Ok(true));
    let _ = writeln!(Console, "a flipped bit: refused");

    let len = interest(&name, 3, &mut buffer);
    let stale = pass(&mut forwarder, 2000, consumer, &buffer[..len]).expect("an Interest");
    assert!(stale.to == producer);
    let _ = writeln!(Console, "after its freshness period: to the producer again");

    // Sixteen Interests may be pending. Each further one displaces the oldest, so memory does not grow.
    let mut forwarded = 0;
    for n in 0..40u8 {
        let mut other = name;
        other.push(Component::segment(u64::from(n))).expect("room in the name");
        let len = interest(&other, 10 + n, &mut buffer);
        let mut out = |_: FaceId, _: OutgoingPacket<'_>| forwarded += 1;
        let now = Duration::from_millis(2001);
        let _ =
            forwarder.handle_packet(now, consumer, IncomingPacket::bare(&buffer[..len]), &mut out);
    }
    assert!(forwarder.pit_len() == 16 && forwarded == 40 && forwarder.totals().evicted == 25);
    forwarder.handle_timeout(Duration::from_secs(10), &mut |_: FaceId, _: OutgoingPacket<'_>| {});
    assert!(forwarder.pit_len() == 0 && forwarder.poll_timeout().is_none());
    let _ = writeln!(Console, "a flood: 16 pending at most, none after their lifetime");
    let _ = writeln!(Console, "all as it should be");
}

fn run() -> ! {
    demo();
    exit(true)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "{info}");
    exit(false)
}
