//! Trust: a chain of certificates, and a trust schema.

use std::hint::black_box;

use xylem_packet::{Component, Data, DataBuilder, Name};
use xylem_trust::schema::Schema;
use xylem_trust::{
    Certificate, CertificateChain, ChainAction, Issue, Signer, TrustStore, ValidityPeriod,
    self_signed,
};

use super::path::{Operation, Path, path};

pub(super) const PATHS: &[Path] = &[
    path("trust: a packet below three certificates, from packet to anchor and down", 4, chain),
    path("trust: the same once it is known", 10, chain_known),
    path("trust: a packet and its key by a schema of 7 rules", 100, schema),
];

const BLOG: &str = include_str!("../../../crates/xylem-trust/tests/fixtures/schema/blog.lvs");
const NOW_MS: u64 = 1_700_000_000_000;
const ALWAYS: ValidityPeriod = ValidityPeriod { not_before_ms: 0, not_after_ms: 4_000_000_000_000 };

fn name(uri: &str) -> Name {
    uri.parse().expect("as made here")
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
            let key_name = xylem_trust::key_name_of(subject.key_locator().expect("as made here"))
                .expect("as made here");
            let issue = Issue {
                key_name,
                issuer_id: Component::generic(b"up"),
                version: 1,
                public_key: &subject.public().expect("as made here"),
                validity: ALWAYS,
            };
            let mut wire = Vec::new();
            issue.sign(&by, &mut wire).expect("as made here");
            certificates.push(wire);
        }
        let mut packet = Vec::new();
        let note = name("/org/dept/team/alice/note");
        key(names[3])
            .data(DataBuilder::new(note.as_ref()), &[0; 1024], &mut packet)
            .expect("as made here");
        Line {
            anchor: self_signed(&key(names[0]), 1, ALWAYS).expect("as made here"),
            certificates,
            packet,
        }
    }

    fn store(&self) -> TrustStore {
        let mut store = TrustStore::new();
        store
            .add_anchor(&Certificate::decode(&self.anchor).expect("as made here"))
            .expect("as made here");
        store
    }

    /// Walks up the chain without fetching, and down.
    fn walk(&self, store: &mut TrustStore) {
        let data = Data::decode(&self.packet).expect("as made here");
        let mut chain = CertificateChain::of(&data).expect("as made here");
        let mut above = self.certificates.iter().rev();
        while let ChainAction::Ask(asked) = chain.step(store, NOW_MS).expect("as made here") {
            black_box(asked);
            chain.answer(above.next().expect("as made here"), NOW_MS).expect("as made here");
        }
    }
}

fn chain() -> Operation {
    let line = Line::new();
    Box::new(move || line.walk(&mut line.store()))
}

fn chain_known() -> Operation {
    let line = Line::new();
    let mut store = line.store();
    line.walk(&mut store);
    Box::new(move || line.walk(&mut store))
}

fn schema() -> Operation {
    let blog = Schema::compile(BLOG).expect("a schema");
    let post = name("/example/blog/post/bob/2026/hello");
    let bob = name("/example/blog/author/bob/KEY/%01%02%03%04/editor/v=1760000000000");
    Box::new(move || {
        black_box(blog.check(black_box(post.as_ref()), bob.as_ref()).expect("as the schema says"));
    })
}
