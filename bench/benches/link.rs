//! The link alone, on one core: sealing and opening a datagram, building and parsing frames, whole
//! endpoints back to back (packet in, datagrams, packet out), and a handshake of both sides.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use xylem_link_internals::internals::{Frame, Frames, OVERHEAD, seal_pair};
use xylem_link_internals::{Cipher, Config, Endpoint, LinkEvent, LinkId, RekeyLimits, StaticKey};

const NOW: Duration = Duration::ZERO;

fn seal_and_open(c: &mut Criterion) {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let mut group = c.benchmark_group(format!("link/seal+open/{cipher:?}"));
        for size in [1_200, 8_192, 65_507 - OVERHEAD] {
            group.throughput(Throughput::Bytes(size as u64));
            let (mut sealer, mut opener) = seal_pair(cipher, RekeyLimits::default());
            let mut datagram = vec![0; size + OVERHEAD];
            group.bench_function(size.to_string(), |b| {
                b.iter(|| {
                    sealer.seal(&mut datagram);
                    opener.open(NOW, black_box(&mut datagram)).expect("just sealed")
                });
            });
        }
        group.finish();
    }
}

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("link/frames");
    for (count, size) in [(11, 100), (7, 8_500)] {
        let packet = vec![7; size];
        group.throughput(Throughput::Bytes((count * size) as u64));
        let mut out = Vec::new();
        group.bench_function(format!("build/{count}x{size}"), |b| {
            b.iter(|| {
                out.clear();
                for _ in 0..count {
                    Frame::Packet(black_box(&packet)).write(&mut out);
                }
            });
        });
        group.bench_function(format!("parse/{count}x{size}"), |b| {
            b.iter(|| Frames::new(black_box(&out)).filter(Result::is_ok).count());
        });
    }
    group.finish();
}

struct Pair {
    a: Endpoint,
    b: Endpoint,
    link: LinkId,
    buf: Vec<u8>,
    pool: BytesMut,
}

fn at(n: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1_000 + u16::from(n)))
}

impl Pair {
    fn new(max_datagram: usize) -> Self {
        let config = Config { max_datagram, ..Config::default() };
        let mut a = Endpoint::new(config.clone(), StaticKey::generate([1; 32]), [1; 32]);
        let b = Endpoint::new(config, StaticKey::generate([2; 32]), [2; 32]);
        let link = a.connect(NOW, at(2), Some(b.public_key()));
        let mut pair = Self { a, b, link, buf: Vec::new(), pool: BytesMut::new() };
        for _ in 0..20 {
            pair.carry();
        }
        while pair.b.poll_event().is_some() {}
        pair
    }

    /// Carries what both want to send, once each way; a buffer is filled as a socket would.
    fn carry(&mut self) {
        for forth in [true, false] {
            let (from, to, address) = if forth {
                (&mut self.a, &mut self.b, at(1))
            } else {
                (&mut self.b, &mut self.a, at(2))
            };
            while let Some(t) = from.poll_transmit(NOW, &mut self.buf) {
                for datagram in self.buf.chunks(t.segment_size.unwrap_or(t.len)) {
                    self.pool.reserve(1 << 16);
                    self.pool.extend_from_slice(datagram);
                    to.handle_datagram(NOW, address, self.pool.split());
                }
            }
        }
    }
}

/// A megabyte of packets from one endpoint to another, the copy between the two included.
fn endpoints(c: &mut Criterion) {
    let mut group = c.benchmark_group("link/endpoint to endpoint");
    for (datagram, size) in [(1_452, 8_500), (8_952, 8_500), (65_507, 8_500), (65_507, 60)] {
        let count = (1 << 19) / size;
        let packet = vec![7; size];
        let mut pair = Pair::new(datagram);
        group.throughput(Throughput::Bytes((count * size) as u64));
        group.bench_function(format!("{size} B packets, {datagram} B datagrams"), |b| {
            b.iter(|| {
                for _ in 0..count {
                    pair.a.send(pair.link, &packet).expect("half a megabyte fits the queue");
                }
                pair.carry();
                let mut got = 0;
                while let Some(event) = pair.b.poll_event() {
                    got += usize::from(matches!(event, LinkEvent::Packet { .. }));
                }
                assert_eq!(got, count);
            });
        });
    }
    group.finish();
}

fn handshake(c: &mut Criterion) {
    c.bench_function("link/handshake, both sides", |b| {
        b.iter_batched(|| (), |()| Pair::new(1_232), BatchSize::PerIteration);
    });
}

criterion_group! {
    name = link;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(30);
    targets = seal_and_open, frames, endpoints, handshake
}
criterion_main!(link);
