//! Encoding and decoding packets, and the cost of one in the forwarder.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use xylem_forward::{
    FaceId, FaceScope, Forwarder, ForwarderConfig, ForwarderSeed, IncomingPacket, OutgoingPacket,
};
use xylem_packet::{
    Component, Data, DataBuilder, Interest, InterestBuilder, KeyLocator, Name, NameRef,
    SignatureType,
};

use super::path::{Operation, Path, path};

pub(super) const PATHS: &[Path] = &[
    path("packet: an Interest encoded", 1_000, interest_encoded),
    path("packet: an Interest decoded", 1_000, interest_decoded),
    path("packet: a Data of 8 KiB encoded", 100, data_encoded),
    path("packet: a Data of 8 KiB decoded", 1_000, data_decoded),
    path("packet: a name read from its URI", 1_000, name_from_uri),
    path("forwarder: 64 Interests and their Data", 4, || pairs(0, 0)),
    path("forwarder: 64 Interests and their Data, 10,000 others pending", 4, || pairs(10_000, 0)),
    path("forwarder: 64 Interests answered by the content store", 4, || pairs(0, 64 << 20)),
];

const SEGMENT: usize = 8192;

/// A name as in a fetch: eight components.
fn segment_name(n: u64) -> Name {
    prefix().child(Component::segment(n))
}

fn prefix() -> Name {
    name("/xylem/0123456789abcdef/a-file-name.tar.gz/v=1760000000000000")
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).expect("a name")
}

fn interest_into(out: &mut Vec<u8>, name: NameRef<'_>, nonce: u32) {
    let interest = InterestBuilder::new(name).nonce(nonce.to_be_bytes()).lifetime_ms(2000);
    interest.encode(out).expect("a short name");
}

fn interest(name: NameRef<'_>, nonce: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    interest_into(&mut out, name, nonce);
    out
}

/// A segment with its own chaining value and eleven siblings, as `xylem share` serves.
fn data_into(out: &mut Vec<u8>, name: NameRef<'_>, content: &[u8]) {
    let manifest = prefix().child(Component::generic(b"_root"));
    DataBuilder::new(name)
        .freshness_ms(3_600_000)
        .final_block_id(Component::segment(131_071))
        .signature(SignatureType::BLAKE3_MERKLE, KeyLocator::Name(manifest.as_ref()))
        .encode(out, content, |_, value| value.extend_from_slice(&[7; 32 * 4]))
        .expect("within the limits");
}

fn data(name: NameRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    data_into(&mut out, name, &[5; SEGMENT]);
    out
}

fn interest_encoded() -> Operation {
    let (name, mut out) = (segment_name(123_456), Vec::with_capacity(128));
    Box::new(move || {
        out.clear();
        interest_into(&mut out, black_box(name.as_ref()), 1);
        black_box(&out);
    })
}

fn interest_decoded() -> Operation {
    let wire = interest(segment_name(123_456).as_ref(), 1);
    Box::new(move || {
        black_box(Interest::decode(black_box(&wire)).expect("an Interest").lifetime_ms());
    })
}

fn data_encoded() -> Operation {
    let (name, content, mut out) = (segment_name(123_456), vec![5; SEGMENT], Vec::new());
    Box::new(move || {
        out.clear();
        data_into(&mut out, black_box(name.as_ref()), &content);
        black_box(&out);
    })
}

fn data_decoded() -> Operation {
    let wire = data(segment_name(123_456).as_ref());
    Box::new(move || {
        black_box(Data::decode(black_box(&wire)).expect("a Data").content().len());
    })
}

fn name_from_uri() -> Operation {
    let uri = segment_name(123_456).to_string();
    Box::new(move || {
        black_box(Name::from_uri(black_box(&uri)).expect("a name"));
    })
}

/// Interests of different names, in and out, and their Data, in and out, with this many others pending; or, after the
/// first time, answered by a content store of this many bytes.
fn pairs(pending: u64, content_store: usize) -> Operation {
    const BATCH: u64 = 64;
    let mut config = ForwarderConfig::default();
    config.cs_capacity_bytes = content_store;
    config.pit_capacity = 1 << 20;
    let mut forwarder = Forwarder::new(config, ForwarderSeed::from_random([1; 16]));
    let consumer = forwarder.add_face(FaceScope::Local);
    let producer = forwarder.add_face(FaceScope::NonLocal);
    forwarder.add_route(name("/xylem").as_ref(), producer, 1).expect("the first route");
    let mut nothing = |_: FaceId, leaving: OutgoingPacket<'_>| {
        black_box(leaving.packet.len());
    };
    let now = Duration::from_secs(1);
    for n in 0..pending {
        let question = interest(segment_name((1 << 40) + n).as_ref(), 1);
        let taken =
            forwarder.handle_packet(now, consumer, IncomingPacket::bare(&question), &mut nothing);
        taken.expect("an Interest");
    }
    let answers: Vec<Bytes> = (0..BATCH).map(|n| data(segment_name(n).as_ref()).into()).collect();
    let mut nonce = 1;
    let (mut first, mut question) = (true, Vec::with_capacity(128));
    let names: Vec<Name> = (0..BATCH).map(segment_name).collect();
    let mut round = move || {
        for name in &names {
            nonce += 1;
            question.clear();
            interest_into(&mut question, name.as_ref(), nonce);
            let incoming = IncomingPacket::bare(&question);
            forwarder.handle_packet(now, consumer, incoming, &mut nothing).expect("an Interest");
        }
        if content_store == 0 || std::mem::take(&mut first) {
            for answer in &answers {
                let incoming = IncomingPacket::bare(answer);
                forwarder.handle_packet(now, producer, incoming, &mut nothing).expect("asked for");
            }
        }
    };
    round();
    Box::new(round)
}
