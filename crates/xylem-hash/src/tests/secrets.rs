//! Checks what a hash of a secret leaves on the stack.

use super::{CONTEXT, Use, noise};
use crate::backend::Backend;
use crate::subtree::root_hash_of;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

/// Depth of the examined stack, in bytes.
const DEPTH: usize = 64 * 1024;

/// Runs `call` below a gap in the stack, in which the later examination has its own frames.
#[inline(never)]
fn below<R>(call: impl FnOnce() -> R) -> R {
    let mut gap = [0_u8; 8 * 1024];
    black_box(&mut gap);
    let result = call();
    black_box(&mut gap);
    result
}

/// The memory below this frame, read as a file: reading it in place would be undefined behaviour.
#[inline(never)]
fn stack(memory: &File, into: &mut [u8]) {
    let mut here = 0_u8;
    let from = black_box(&raw mut here).addr() - into.len();
    memory.read_exact_at(into, from as u64).expect("a thread can read its own stack");
}

/// Key material that does not end with a whole block has its last block copied for padding.
#[test]
fn no_key_material_is_left() {
    let memory = File::open("/proc/self/mem").expect("Linux");
    for backend in Backend::available().filter(|backend| backend.name() != "portable") {
        for len in [16, 32, 63, 100, 1_000, 2_000, 5_100, 20_000] {
            let material = noise(len, len as u64);
            let tail = &material[(len - 1) / 64 * 64..];
            let mode = Use::DeriveKey(CONTEXT).mode(backend);
            let mut left = vec![0; DEPTH];
            below(|| {
                black_box([0_u8; DEPTH]);
            });
            let key = Box::new(below(|| root_hash_of(backend, &mode, &material)));
            stack(&memory, &mut left);
            for secret in tail.windows(16) {
                let found = left.windows(16).position(|bytes| bytes == secret);
                assert_eq!(found, None, "{backend:?}, {len} bytes of key material");
            }
            black_box(key);
        }
    }
}
