//! Nothing is read or written past the end of a caller's slices. The address sanitizers with which the fuzz targets run
//! cannot see accesses by assembly text, but the processor can: an inaccessible page follows the end of the file that
//! is mapped here.

use super::{Use, noise};
use crate::backend::Backend;
use crate::constants::CHUNK_LEN;
use crate::many::hash_many_with;
use crate::subtree::{BATCH_LEN, root_hash_of};
use crate::{Hash, Hasher};
use memmap2::{MmapMut, MmapOptions};

/// Number of bytes before the inaccessible page; a multiple of every page size.
const LEN: usize = 192 * 1024;

/// A mapping that ends, before that page, with a copy of `bytes`.
struct Edge(MmapMut);

impl Edge {
    fn new(bytes: &[u8]) -> Self {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(LEN as u64).expect("room");
        // SAFETY: no other program has the file.
        let mut map =
            unsafe { MmapOptions::new().len(LEN + 64 * 1024).map_copy(&file) }.expect("mapped");
        map[LEN - bytes.len()..LEN].copy_from_slice(bytes);
        Self(map)
    }

    fn last(&self, len: usize) -> &[u8] {
        &self.0[LEN - len..LEN]
    }

    fn last_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[LEN - len..LEN]
    }
}

/// Every length up to three chunks, and those around full lanes.
fn lengths() -> impl Iterator<Item = usize> {
    let around = |chunks: usize| {
        [0, 1, 63, 64, 65, 1_023].into_iter().map(move |less| chunks * CHUNK_LEN - less)
    };
    let wide = [4, 5, 8, 9, 12, 16, 17, 24, 31, 32, 33, 48, 64, 65, 128, 129];
    (0..=3 * CHUNK_LEN).chain(wide.into_iter().flat_map(around))
}

#[test]
fn input() {
    let edge = Edge::new(&noise(LEN, 1));
    for len in lengths() {
        let (bytes, want) = (edge.last(len), blake3::hash(edge.last(len)));
        for backend in Backend::available() {
            let mode = Use::Plain.mode(backend);
            assert_eq!(root_hash_of(backend, &mode, bytes), *want.as_bytes(), "{backend:?} {len}");
            let mut hasher = Hasher::with_backend(backend, mode);
            hasher.update(&bytes[..len / 3]).update(&bytes[len / 3..]);
            assert_eq!(hasher.finalize(), *want.as_bytes(), "{backend:?} {len}");
        }
    }
}

#[test]
fn many_inputs() {
    let edge = Edge::new(&noise(LEN, 2));
    for count in 1..=40 {
        for step in [1, 63, 64, 1_000, 8 * CHUNK_LEN, 16 * CHUNK_LEN] {
            let inputs: Vec<&[u8]> =
                (0..count).map(|i| edge.last((i % 3 + 1) * step % (BATCH_LEN + 1))).collect();
            for backend in Backend::available() {
                let mut got = vec![Hash::from_bytes([0; 32]); count];
                hash_many_with(backend, &Use::Plain.mode(backend), &inputs, &mut got);
                for (input, got) in inputs.iter().zip(&got) {
                    assert_eq!(*got, *blake3::hash(input).as_bytes(), "{backend:?} {count} {step}");
                }
            }
        }
    }
}

#[test]
fn output() {
    let mut edge = Edge::new(&[]);
    for len in 0..=5_000 {
        let mut want = vec![0; len];
        blake3::Hasher::new().finalize_xof().fill(&mut want);
        for backend in Backend::available() {
            let hasher = Hasher::with_backend(backend, Use::Plain.mode(backend));
            hasher.finalize_xof().fill(edge.last_mut(len));
            assert_eq!(edge.last(len), want, "{backend:?} {len}");
        }
    }
}
