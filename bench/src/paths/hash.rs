//! The hash engine, with the widest code that the processor has.

use std::hint::black_box;

use super::path::{Operation, Path, path};
use crate::input;

pub(super) const PATHS: &[Path] = &[
    path("hash: 64 B", 1_000, || of(64)),
    path("hash: 1 KiB", 1_000, || of(1 << 10)),
    path("hash: 8 KiB", 100, || of(8 << 10)),
    path("hash: 1 MiB", 1, || of(1 << 20)),
    path("hash: 1 MiB by updates of 1,000 B", 1, by_updates),
    path("hash: 64 messages of 1 KiB together", 10, together),
    path("hash: 1 KiB of output", 100, output),
    path("hash: derive_key of 32 B", 100, derived),
    path("hash: the root over 4 values", 1_000, root),
];

fn of(bytes: usize) -> Operation {
    let bytes = input::bytes(bytes);
    Box::new(move || {
        black_box(xylem_hash::hash(black_box(&bytes)));
    })
}

fn by_updates() -> Operation {
    let bytes = input::bytes(1 << 20);
    Box::new(move || {
        let mut hasher = xylem_hash::Hasher::new();
        for piece in black_box(&bytes).chunks(1_000) {
            hasher.update(piece);
        }
        black_box(hasher.finalize());
    })
}

fn together() -> Operation {
    let bytes = input::bytes(64 << 10);
    Box::new(move || {
        let messages: Vec<&[u8]> = black_box(&bytes).chunks(1 << 10).collect();
        let mut roots = vec![xylem_hash::Hash::from_bytes([0; 32]); messages.len()];
        xylem_hash::hash_many(&messages, &mut roots);
        black_box(roots);
    })
}

fn output() -> Operation {
    let mut out = vec![0; 1 << 10];
    Box::new(move || {
        let mut hasher = xylem_hash::Hasher::new();
        hasher.update(black_box(b"a key"));
        hasher.finalize_xof().fill(&mut out);
        black_box(&out);
    })
}

fn derived() -> Operation {
    Box::new(|| {
        black_box(xylem_hash::derive_key("xylem-bench 2026-11-24 paths", black_box(&[7; 32])));
    })
}

fn root() -> Operation {
    use xylem_hash::tree::{ChainingValue, root_of};
    let values = [1, 2, 3, 4].map(|n| ChainingValue::from_bytes([n; 32]));
    Box::new(move || {
        black_box(root_of(black_box(&values)));
    })
}
