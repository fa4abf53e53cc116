//! Trust schemas: what one check costs. `cargo bench -p xylem-bench --bench schema`

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use xylem_packet::Name;
use xylem_trust::schema::Schema;

const BLOG: &str = include_str!("../../crates/xylem-trust/tests/fixtures/schema/blog.lvs");

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn checks(c: &mut Criterion) {
    let mut group = c.benchmark_group("schema");
    let post = name("/example/blog/post/bob/2026/hello");
    let bob = name("/example/blog/author/bob/KEY/%01%02%03%04/editor/v=1760000000000");
    let blog = Schema::compile(BLOG).unwrap();
    group.bench_function("check: 8 rules, allowed", |b| {
        b.iter(|| black_box(blog.check(black_box(post.as_ref()), bob.as_ref()).is_ok()));
    });
    let eve = name("/example/blog/author/eve/KEY/%01%02%03%04/editor/v=1760000000000");
    group.bench_function("check: 8 rules, refused, with the reason", |b| {
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
    group.bench_function("check: 208 rules, allowed", |b| {
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
    group.bench_function("decode: 8 rules", |b| {
        b.iter(|| black_box(Schema::decode(black_box(&bytes)).is_ok()));
    });
    group.bench_function("compile: 8 rules", |b| {
        b.iter(|| black_box(Schema::compile(black_box(BLOG)).is_ok()));
    });
    group.finish();
}

criterion_group!(benches, checks);
criterion_main!(benches);
