//! The link service: the cost of a packet between socket and forwarder. `cargo bench -p xylem-bench --bench
//! link_service`

use core::time::Duration;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use xylem_packet::link_service::{LinkHeaders, LinkService, LinkServiceConfig};
use xylem_packet::{DataBuilder, Name};

/// A segment of 8 KiB.
fn data() -> Vec<u8> {
    let name: Name =
        "/xylem/0123456789abcdef/a-file-name.tar.gz/v=1760000000000000/seg=123456".parse().unwrap();
    let mut out = Vec::new();
    DataBuilder::new(name.as_ref())
        .encode(&mut out, &[5; 8192], |_, value| value.extend_from_slice(&[7; 32 * 4]))
        .unwrap();
    out
}

/// A bare packet without work; one with a header; seven fragments in one direction and acknowledgements in the other.
fn link_service(c: &mut Criterion) {
    let mut group = c.benchmark_group("link_service");
    let now = Duration::from_secs(1);
    let wire = data();
    let bare = LinkHeaders::default();
    let token = LinkHeaders { pit_token: Some(&[1; 6]), ..bare };
    let mut whole = LinkService::new(LinkServiceConfig::default());
    group.bench_function("bare_in", |b| {
        b.iter(|| whole.receive(now, black_box(&wire)).unwrap().map(|r| r.packet.len()));
    });
    let mut out = 0;
    for (label, headers) in [("bare_out", bare), ("token_out", token)] {
        group.bench_function(label, |b| {
            b.iter(|| {
                let packet = black_box(&wire);
                whole.send(now, packet, &headers, 0, &mut |frame| out += frame.len()).unwrap();
            });
        });
    }
    group.bench_function("token_out_parts", |b| {
        b.iter(|| {
            let packet = black_box(&wire);
            let emit = &mut |head: &[u8], body: &[u8]| out += head.len() + body.len();
            whole.send_parts(now, packet, &token, 0, emit).unwrap();
        });
    });
    let mut frame = Vec::new();
    whole.send(now, &wire, &token, 0, &mut |bytes| frame.extend_from_slice(bytes)).unwrap();
    group.bench_function("token_in", |b| {
        b.iter(|| whole.receive(now, black_box(&frame)).unwrap().map(|r| r.packet.len()));
    });
    for (label, reliability) in [("fragments_8k", false), ("fragments_8k_reliable", true)] {
        let config =
            LinkServiceConfig { mtu: 1400, fragmentation: true, reliability, ..*whole.config() };
        let (mut here, mut there) = (LinkService::new(config), LinkService::new(config));
        let mut now = now;
        group.bench_function(label, |b| {
            b.iter(|| {
                now += Duration::from_millis(6);
                here.send(now, black_box(&wire), &token, 0, &mut |frame| {
                    out += usize::from(there.receive(now, frame).unwrap().is_some());
                })
                .unwrap();
                there.handle_timeout(now + Duration::from_millis(5), &mut |acks| {
                    here.receive(now, acks).unwrap();
                });
            });
        });
    }
    group.finish();
    black_box(out);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500));
    targets = link_service
}
criterion_main!(benches);
