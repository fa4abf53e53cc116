//! Packets and forwarding: what one packet costs. `cargo bench -p xylem-bench --bench packet`

use core::time::Duration;
use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use xylem_forward::{Config, FaceId, FaceScope, Forwarder, Incoming, Outgoing, Seed};
use xylem_packet::{
    Component, Data, DataBuilder, Interest, InterestBuilder, KeyLocator, Name, NameRef, Packet,
    SignatureType,
};

const SEGMENT: usize = 8192;

/// The names that a fetch uses: eight components.
fn segment_name(n: u64) -> Name {
    prefix().child(Component::segment(n))
}

fn prefix() -> Name {
    Name::from_uri("/xylem/0123456789abcdef/a-file-name.tar.gz/v=1760000000000000").unwrap()
}

fn interest(name: NameRef<'_>, nonce: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    InterestBuilder::new(name)
        .nonce(nonce.to_be_bytes())
        .lifetime_ms(2000)
        .encode(&mut out)
        .unwrap();
    out
}

/// A segment with its own value and eleven siblings, as `xylem share` serves.
fn data_into(out: &mut Vec<u8>, name: NameRef<'_>, content: &[u8]) {
    let manifest = prefix().child(Component::generic(b"_root"));
    DataBuilder::new(name)
        .freshness_ms(3_600_000)
        .final_block_id(Component::segment(131_071))
        .signature(SignatureType::BLAKE3_MERKLE, KeyLocator::Name(manifest.as_ref()))
        .encode(out, content, |_, value| value.extend_from_slice(&[7; 32 * 4]))
        .unwrap();
}

fn data(name: NameRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    data_into(&mut out, name, &[5; SEGMENT]);
    out
}

fn packets(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    let name = segment_name(123_456);
    let wire = data(name.as_ref());
    group.bench_function("data_8k_decode", |b| {
        b.iter(|| Data::decode(black_box(&wire)).unwrap().content().len());
    });
    let content = vec![5; SEGMENT];
    let mut out = Vec::new();
    group.bench_function("data_8k_encode", |b| {
        b.iter(|| {
            out.clear();
            data_into(&mut out, black_box(name.as_ref()), &content);
            out.len()
        });
    });
    let wire = interest(name.as_ref(), 1);
    group.bench_function("interest_decode", |b| {
        b.iter(|| match Packet::decode(black_box(&wire)) {
            Ok(Packet::Interest(interest)) => interest.lifetime_ms(),
            _ => unreachable!(),
        });
    });
    group.bench_function("interest_decode_only", |b| {
        b.iter(|| Interest::decode(black_box(&wire)).unwrap().lifetime_ms());
    });
    group.bench_function("interest_encode", |b| {
        b.iter(|| {
            out.clear();
            InterestBuilder::new(black_box(name.as_ref()))
                .nonce([1, 2, 3, 4])
                .lifetime_ms(2000)
                .encode(&mut out)
                .unwrap();
            out.len()
        });
    });
    let uri = name.to_string();
    group.bench_function("name_from_uri", |b| b.iter(|| Name::from_uri(black_box(&uri)).unwrap()));
    let value = name.as_ref().value().to_vec();
    group.bench_function("name_check", |b| {
        b.iter(|| NameRef::from_value(black_box(&value)).unwrap().len());
    });
    group.finish();
}

/// One Interest in and out, its Data in and out, in batches of different names, with so many other
/// Interests pending.
fn forwarder_pair(c: &mut Criterion, label: &str, pending: u64, cs: usize) {
    const BATCH: u64 = 64;
    let mut config = Config::default();
    config.cs_capacity_bytes = cs;
    config.pit_capacity = 1 << 20;
    let mut forwarder = Forwarder::new(config, Seed::from_random([1; 16]));
    let consumer = forwarder.add_face(FaceScope::Local);
    let producer = forwarder.add_face(FaceScope::NonLocal);
    forwarder.add_route(Name::from_uri("/xylem").unwrap().as_ref(), producer, 1).unwrap();
    let mut out = |_: FaceId, leaving: Outgoing<'_>| {
        black_box(leaving.packet.len());
    };
    let now = Duration::from_secs(1);
    let mut nonce = 0;
    for n in 0..pending {
        let name = segment_name((1 << 40) + n);
        let packet = interest(name.as_ref(), nonce);
        forwarder.handle_packet(now, consumer, Incoming::bare(&packet), &mut out).unwrap();
    }
    let answers: Vec<Bytes> =
        (0..BATCH).map(|n| Bytes::from(data(segment_name(n).as_ref()))).collect();
    let mut serial = 0;
    c.bench_function(&format!("forwarder/{label}_x{BATCH}"), |b| {
        b.iter_batched_ref(
            || {
                serial += 1;
                let questions: Vec<Bytes> = (0..BATCH)
                    .map(|n| {
                        nonce += 1;
                        Bytes::from(interest(segment_name(n).as_ref(), nonce))
                    })
                    .collect();
                (questions, answers.clone())
            },
            |(questions, answers)| {
                for question in questions.drain(..) {
                    forwarder
                        .handle_packet(now, consumer, Incoming::bare(&question), &mut out)
                        .unwrap();
                }
                if cs == 0 {
                    for answer in answers.drain(..) {
                        forwarder
                            .handle_packet(now, producer, Incoming::bare(&answer), &mut out)
                            .unwrap();
                    }
                } else {
                    // Answered from the store after the first round.
                    for answer in answers.drain(..) {
                        let _ = forwarder.handle_packet(
                            now,
                            producer,
                            Incoming::bare(&answer),
                            &mut out,
                        );
                    }
                }
            },
            BatchSize::SmallInput,
        );
    });
}

fn forwarding(c: &mut Criterion) {
    forwarder_pair(c, "interest_data", 0, 0);
    forwarder_pair(c, "interest_data_100k_pending", 100_000, 0);
    forwarder_pair(c, "interest_cs_hit", 0, 64 << 20);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500));
    targets = packets, forwarding
}
criterion_main!(benches);
