//! Trust schemas: the cost of one check. `cargo bench -p xylem-bench --bench schema`

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use xylem_packet::{Component, Data, DataBuilder, Name};
use xylem_trust::schema::Schema;
use xylem_trust::{
    Certificate, Issue, Signer, TrustRules, TrustStore, ValidityPeriod, self_signed,
};

const BLOG: &str = include_str!("../../crates/xylem-trust/tests/fixtures/schema/blog.lvs");

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn checks(c: &mut Criterion) {
    let mut group = c.benchmark_group("schema");
    let post = name("/example/blog/post/bob/2026/hello");
    let bob = name("/example/blog/author/bob/KEY/%01%02%03%04/editor/v=1760000000000");
    let blog = Schema::compile(BLOG).unwrap();
    group.bench_function("check: 7 rules, allowed", |b| {
        b.iter(|| black_box(blog.check(black_box(post.as_ref()), bob.as_ref()).is_ok()));
    });
    let eve = name("/example/blog/author/eve/KEY/%01%02%03%04/editor/v=1760000000000");
    group.bench_function("check: 7 rules, refused, with the reason", |b| {
        b.iter(|| black_box(blog.check(black_box(post.as_ref()), eve.as_ref()).is_ok()));
    });
    // A hundred applications in one schema.
    let mut text = String::from(BLOG);
    for i in 0..100 {
        writeln!(text, "#app{i}: \"example\"/\"app{i}\"/who/_/_ <= #user{i}").unwrap();
        writeln!(text, "#user{i}: \"example\"/\"user\"/who/\"app{i}\"/#KEY <= #root").unwrap();
    }
    let apps = Schema::compile(&text).unwrap();
    let note = name("/example/app77/bob/notes/v=5");
    let user = name("/example/user/bob/app77/KEY/%01%02%03%04/root/v=1760000000000");
    group.bench_function("check: 207 rules, allowed", |b| {
        b.iter(|| black_box(apps.check(black_box(note.as_ref()), user.as_ref()).is_ok()));
    });
    // Two thousand patterns by two thousand keys: the check ends when its steps are used up.
    let mut text = String::new();
    for i in 0..2000 {
        writeln!(text, "#k{i}: k{i}/_x & {{ _x: \"never\" }}\n#p{i}: p{i}/\"p\" <= #k{i}").unwrap();
    }
    let hostile = Schema::compile(&text).unwrap();
    let (packet, key) = (name("/p/p"), name("/k/k"));
    group.bench_function("check: made to take for ever", |b| {
        b.iter(|| black_box(hostile.check(black_box(packet.as_ref()), key.as_ref()).is_err()));
    });
    let bytes = blog.encode();
    group.bench_function("decode: 7 rules", |b| {
        b.iter(|| black_box(Schema::decode(black_box(&bytes)).is_ok()));
    });
    group.bench_function("compile: 7 rules", |b| {
        b.iter(|| black_box(Schema::compile(black_box(BLOG)).is_ok()));
    });
    group.finish();
}

/// A chain of names that the hierarchy allows as well as the schema does.
const SITE: &str = r#"
    #KEY: "KEY"/_/_/_
    #root: "site"/#KEY
    #author: "site"/author/#KEY <= #root
    #post: "site"/author/"post"/year/_title & { year: $eq_type("v=0") | "draft" } <= #author
"#;
const NOW_MS: u64 = 1_700_000_000_000;
const ALWAYS: ValidityPeriod = ValidityPeriod { not_before_ms: 0, not_after_ms: 4_000_000_000_000 };
/// Packets of one round, and rounds of each kind: a million packets.
const PACKETS: usize = 1_000;
const ROUNDS: usize = 1_000;

/// A store that trusts the site's key, and has verified the author's.
fn store(root: &Signer, author: &Signer, rules: Option<Arc<dyn TrustRules>>) -> TrustStore {
    let mut store = TrustStore::new();
    let anchor = self_signed(root, 1, ALWAYS).unwrap();
    let anchor = Certificate::decode(&anchor).unwrap();
    match rules {
        None => store.add_anchor(&anchor).unwrap(),
        Some(rules) => store.add_anchor_under(&anchor, rules).unwrap(),
    }
    let issue = Issue {
        key_name: author.key_locator().unwrap(),
        issuer_id: Component::generic(b"root"),
        version: 1,
        public_key: &author.public().unwrap(),
        validity: ALWAYS,
    };
    let mut wire = Vec::new();
    issue.sign(root, &mut wire).unwrap();
    store.add(&Certificate::decode(&wire).unwrap(), NOW_MS).unwrap();
    store
}

/// A million Data of 1 KiB with one cached chain, by the hierarchy and by a schema in turns, so that other load on the
/// machine affects both. The result is the median round of each.
fn a_million_data(_: &mut Criterion) {
    let (root, author) = (name("/site/KEY/1"), name("/site/bob/KEY/1"));
    let (root, author) = (Signer::ed25519(&[7; 32], root), Signer::ed25519(&[8; 32], author));
    let schema: Arc<dyn TrustRules> = Arc::new(Schema::compile(SITE).unwrap());
    let stores = [store(&root, &author, None), store(&root, &author, Some(schema))];
    let packets: Vec<Vec<u8>> = (0..PACKETS)
        .map(|at| {
            let name = name(&format!("/site/bob/post/draft/{at}"));
            let mut packet = Vec::new();
            author.data(DataBuilder::new(name.as_ref()), &[0; 1024], &mut packet).unwrap();
            packet
        })
        .collect();
    let mut rounds = [Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS)];
    for _ in 0..ROUNDS {
        for (store, rounds) in stores.iter().zip(&mut rounds) {
            let began = Instant::now();
            for packet in &packets {
                store.data(&Data::decode(black_box(packet)).unwrap(), NOW_MS).unwrap();
            }
            rounds.push(began.elapsed());
        }
    }
    let [hierarchy, schema] = rounds.map(|mut rounds| {
        rounds.sort_unstable();
        rounds[ROUNDS / 2].as_secs_f64() * 1e6 / PACKETS as f64
    });
    println!(
        "schema/a million data, median: {hierarchy:.3} µs each by the hierarchy, {schema:.3} µs by a \
         schema: {:.4}",
        schema / hierarchy
    );
}

criterion_group!(benches, checks, a_million_data);
criterion_main!(benches);
