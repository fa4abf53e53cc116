//! The key of an NDNCERT request by both derivations, and the work around it. `cargo bench -p xylem-bench --bench
//! ndncert`
//!
//! The document that asked for `derive_key` measured HKDF-SHA256 at 182 ns.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use xylem_ndncert::packets::NewRequest;
use xylem_ndncert::{
    Agreement, CaConfig, CertificateAuthority, Derivation, RequestId, RequestSession,
    StandardPolicy,
};
use xylem_packet::{InterestBuilder, Name};
use xylem_trust::{CommandStamp, Signer, ValidityPeriod, self_signed};

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
            (RequestSession::new(&key, ID, [4; 8]), RequestSession::new(&key, ID, [5; 8]))
        };
        b.iter_batched_ref(
            sessions,
            |(client, ca)| ca.open(&client.seal(black_box(&[6; 100])).unwrap()).unwrap(),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

const NOW_MS: u64 = 1_700_000_000_000;

fn signer(name: &str, number: u64) -> Signer {
    let seed = *xylem_hash::hash(&[name.as_bytes(), &number.to_be_bytes()].concat()).as_bytes();
    Signer::ed25519(&seed, Name::from_uri(name).unwrap())
}

/// A new NEW, by a key of its own.
fn new(number: u64) -> Vec<u8> {
    let valid = ValidityPeriod { not_before_ms: NOW_MS, not_after_ms: NOW_MS + 86_400_000 };
    let signer = signer("/org/al/KEY/1", number);
    let certificate = self_signed(&signer, 1, valid).unwrap();
    let ecdh_pub = Agreement::new().unwrap().public();
    let new = NewRequest { ecdh_pub, certificate, derivations: vec![], bindings: vec![] };
    let (name, mut wire) = (Name::from_uri("/org/CA/NEW").unwrap(), Vec::new());
    let stamp = CommandStamp::new([1; 8], NOW_MS);
    signer.interest(InterestBuilder::new(name.as_ref()), &new.encode(), stamp, &mut wire).unwrap();
    wire
}

/// The cost of a flood for the CA: its table is full, and each NEW displaces the oldest.
fn flood(c: &mut Criterion) {
    let by = signer("/org/KEY/1", 0);
    let always = ValidityPeriod { not_before_ms: 0, not_after_ms: u64::MAX };
    let own = self_signed(&by, 1, always).unwrap();
    let config = CaConfig::new(Name::from_uri("/org").unwrap());
    let policy = Box::<StandardPolicy>::default();
    let mut ca = CertificateAuthority::new(config, by, &own, policy, NOW_MS).unwrap();
    let (mut number, mut seed) = (0, [0; 32]);
    let mut next = || {
        number += 1;
        new(number)
    };
    let mut ask = |wire: Vec<u8>| {
        seed = *xylem_hash::hash(&seed).as_bytes();
        ca.interest(black_box(&wire), NOW_MS, seed).data.unwrap()
    };
    for _ in 0..1024 {
        ask(next());
    }
    let mut group = c.benchmark_group("ndncert");
    group.bench_function("a NEW of Ed25519 among 1,024 requests", |b| {
        b.iter_batched(&mut next, &mut ask, BatchSize::SmallInput);
    });
    group.finish();
}

criterion_group!(benches, derivations, flood);
criterion_main!(benches);
