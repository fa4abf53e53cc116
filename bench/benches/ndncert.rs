//! The key of an NDNCERT request by both derivations, and what stands around it.
//! `cargo bench -p xylem-bench --bench ndncert`
//!
//! The document that asked for `derive_key` measured HKDF-SHA256 at 182 ns.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use xylem_ndncert::{Agreement, Derivation, RequestId, Session};

const ID: RequestId = RequestId([7; 8]);

fn derivations(c: &mut Criterion) {
    let (secret, salt) = ([1; 32], [2; 32]);
    let mut group = c.benchmark_group("ndncert");
    for (name, derivation) in
        [("HKDF-SHA256", Derivation::HkdfSha256), ("BLAKE3 derive_key", Derivation::Blake3)]
    {
        group.bench_function(name, |b| {
            b.iter(|| derivation.key(black_box(&secret), black_box(&salt), ID));
        });
    }
    group.bench_function("P-256: a key pair and an agreement", |b| {
        let theirs = Agreement::new().unwrap().public();
        b.iter(|| {
            let ours = Agreement::new().unwrap();
            ours.agree(black_box(&theirs), Derivation::Blake3, &salt, ID, [3; 8]).unwrap()
        });
    });
    group.bench_function("a message of 100 octets, sealed and opened", |b| {
        let sessions = || {
            let key = Derivation::Blake3.key(&secret, &salt, ID);
            (Session::new(&key, ID, [4; 8]), Session::new(&key, ID, [5; 8]))
        };
        b.iter_batched_ref(
            sessions,
            |(client, ca)| ca.open(&client.seal(black_box(&[6; 100])).unwrap()).unwrap(),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, derivations);
criterion_main!(benches);
