//! Chains of certificates: the cost of a chain besides its signatures. `cargo bench -p xylem-bench --bench chain`

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use xylem_packet::{Component, Data, DataBuilder, Name};
use xylem_trust::{
    Certificate, CertificateChain, ChainAction, Issue, Signer, TrustStore, ValidityPeriod,
    Verifier, self_signed,
};

const NOW_MS: u64 = 1_700_000_000_000;
const ALWAYS: ValidityPeriod = ValidityPeriod { not_before_ms: 0, not_after_ms: 4_000_000_000_000 };

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn key(identity: &str) -> Signer {
    let seed = *xylem_hash::hash(identity.as_bytes()).as_bytes();
    Signer::ed25519(&seed, name(&format!("{identity}/KEY/%01%02%03%04/up/v=1")))
}

/// Three certificates above a packet, below an anchor.
struct Line {
    anchor: Vec<u8>,
    certificates: Vec<Vec<u8>>,
    packet: Vec<u8>,
}

impl Line {
    fn new() -> Self {
        let names = ["/org", "/org/dept", "/org/dept/team", "/org/dept/team/alice"];
        let mut certificates = Vec::new();
        for pair in names.windows(2) {
            let (by, subject) = (key(pair[0]), key(pair[1]));
            let key_name = xylem_trust::key_name_of(subject.key_locator().unwrap()).unwrap();
            let issue = Issue {
                key_name,
                issuer_id: Component::generic(b"up"),
                version: 1,
                public_key: &subject.public().unwrap(),
                validity: ALWAYS,
            };
            let mut wire = Vec::new();
            issue.sign(&by, &mut wire).unwrap();
            certificates.push(wire);
        }
        let mut packet = Vec::new();
        let note = name("/org/dept/team/alice/note");
        key(names[3]).data(DataBuilder::new(note.as_ref()), &[0; 1024], &mut packet).unwrap();
        Line { anchor: self_signed(&key(names[0]), 1, ALWAYS).unwrap(), certificates, packet }
    }

    fn store(&self) -> TrustStore {
        let mut store = TrustStore::new();
        store.add_anchor(&Certificate::decode(&self.anchor).unwrap()).unwrap();
        store
    }

    /// Walks up the chain without fetching, and down.
    fn walk(&self, store: &mut TrustStore) {
        let data = Data::decode(&self.packet).unwrap();
        let mut chain = CertificateChain::of(&data).unwrap();
        let mut above = self.certificates.iter().rev();
        while let ChainAction::Ask(asked) = chain.step(store, NOW_MS).unwrap() {
            black_box(asked);
            chain.answer(above.next().unwrap(), NOW_MS).unwrap();
        }
    }
}

fn chains(c: &mut Criterion) {
    let line = Line::new();
    let mut group = c.benchmark_group("chain");
    // The unavoidable part: three signatures, by keys that are parsed already.
    let signed: Vec<_> = [&line.anchor, &line.certificates[0], &line.certificates[1]]
        .into_iter()
        .zip(&line.certificates)
        .map(|(by, wire)| {
            let by = Certificate::decode(by).unwrap();
            (Verifier::of(by.public_key()).unwrap(), Data::decode(wire).unwrap())
        })
        .collect();
    group.bench_function("three Ed25519 verifications", |b| {
        b.iter(|| signed.iter().for_each(|(by, data)| by.data(black_box(data)).unwrap()));
    });
    group.bench_function("three certificates: a chain, from packet to anchor and down", |b| {
        b.iter_batched_ref(|| line.store(), |store| line.walk(store), BatchSize::SmallInput);
    });
    let mut store = line.store();
    line.walk(&mut store);
    assert_eq!(store.verifications(), 3);
    group.bench_function("the same once it is known", |b| b.iter(|| line.walk(&mut store)));
    group.finish();
}

criterion_group!(benches, chains);
criterion_main!(benches);
