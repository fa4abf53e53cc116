//! Trust schemas: what one check costs. `cargo bench -p xylem-bench --bench schema`

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use xylem_packet::{Data, DataBuilder, Name};
use xylem_trust::schema::Schema;
use xylem_trust::{Certificate, Rules, Signer, TrustStore, ValidityPeriod, self_signed};

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
    // Two thousand patterns by two thousand keys: ends when its steps are used up.
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

/// One packet of a key that is believed already, as of a million: the signature, and the rules.
fn packets(c: &mut Criterion) {
    let always = ValidityPeriod { not_before_ms: 0, not_after_ms: 4_000_000_000_000 };
    let by = name("/example/blog/author/bob/KEY/%01%02%03%04/self/v=1");
    let signer = Signer::ed25519(&[7; 32], by);
    let certificate = self_signed(&signer, 1, always).unwrap();
    let certificate = Certificate::decode(&certificate).unwrap();
    let mut packet = Vec::new();
    // Under the key's identity, so that both rules allow it.
    let under = name("/example/blog/author/bob/post/2026/hello");
    signer.data(DataBuilder::new(under.as_ref()), &[0; 1024], &mut packet).unwrap();
    let data = Data::decode(&packet).unwrap();
    let text = format!("{BLOG}\n#own: #site/\"author\"/author/\"post\"/year/title <= #author");
    let schema: Arc<dyn Rules> = Arc::new(Schema::compile(&text).unwrap());
    let mut group = c.benchmark_group("schema");
    for (label, rules) in [("the hierarchy", None), ("a schema", Some(schema))] {
        let mut store = TrustStore::new();
        match rules {
            None => store.add_anchor(&certificate).unwrap(),
            Some(rules) => store.add_anchor_under(&certificate, rules).unwrap(),
        }
        group.bench_function(format!("data: Ed25519 and {label}"), |b| {
            b.iter(|| store.data(black_box(&data), 1_700_000_000_000).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, checks, packets);
criterion_main!(benches);
