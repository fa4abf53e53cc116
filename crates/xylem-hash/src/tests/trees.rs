//! Chunk groups and parents against `blake3::hazmat`.

use super::{noise, reference};
use crate::backend::Backend;
use crate::constants::CHUNK_LEN;
use crate::subtree::{Mode, subtree_cv};
use crate::tree::{
    ChainingValue, Plain, Tree, chunk_group_cv, chunk_group_cvs, parent_cv, parent_cvs, root_hash,
    root_of,
};
use blake3::hazmat::{HasherExt, Mode as Official, merge_subtrees_non_root};
use proptest::prelude::*;

fn official_cv(group: &[u8], first_chunk: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(first_chunk * CHUNK_LEN as u64).update(group).finalize_non_root()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn groups(
        log in 0..9u32,
        count in 0..20usize,
        cut in 0..70_000usize,
        first_group in prop_oneof![0..100u64, Just((1u64 << 32) / 256 - 3), 0..1u64 << 40],
    ) {
        let group_len = CHUNK_LEN << log;
        let len = (group_len * count).min(700_000).saturating_sub(cut % group_len);
        let (input, first_chunk) = (noise(len, 7), first_group << log);
        let want: Vec<_> = input
            .chunks(group_len)
            .zip((first_chunk..).step_by(1 << log))
            .map(|(group, chunk)| ChainingValue::from_bytes(official_cv(group, chunk)))
            .collect();
        for backend in Backend::available() {
            // What is already in `out` stays.
            let mut out = vec![ChainingValue::from_bytes([9; 32])];
            Tree::<Plain>::with_backend(backend, Mode::plain()).chunk_group_cvs(&input, group_len, first_chunk, &mut out);
            prop_assert_eq!(&out[1..], &want[..], "{:?}", backend);
            prop_assert_eq!(out[0].as_bytes(), &[9; 32]);
            for (group, want) in input.chunks(group_len).zip(&want).take(1) {
                let cv = subtree_cv(backend, &Mode::plain(), group, first_chunk);
                prop_assert_eq!(&cv, want.as_bytes(), "{:?}", backend);
            }
        }
        if let (Some(group), Some(want)) = (input.chunks(group_len).next(), want.first()) {
            prop_assert_eq!(&chunk_group_cv(group, first_chunk), want);
            if group.len() < 20_000 {
                prop_assert_eq!(&reference::group_cv(group, first_chunk), want.as_bytes());
            }
        }
    }

    #[test]
    fn parents(count in 0..60usize) {
        let bytes = noise(32 * count, 8);
        let (children, _) = bytes.as_chunks::<32>();
        let merge = |pair: &[[u8; 32]]| match pair {
            [left, right] => merge_subtrees_non_root(left, right, Official::Hash),
            odd => odd[0],
        };
        let want: Vec<_> =
            children.chunks(2).map(merge).map(ChainingValue::from_bytes).collect();
        let children: Vec<_> = children.iter().copied().map(ChainingValue::from_bytes).collect();
        for backend in Backend::available() {
            let mut out = vec![ChainingValue::from_bytes([9; 32])];
            Tree::<Plain>::with_backend(backend, Mode::plain()).parent_cvs(&children, &mut out);
            prop_assert_eq!(&out[1..], &want[..], "{:?}", backend);
        }
        if let [left, right, ..] = children[..] {
            prop_assert_eq!(parent_cv(&left, &right), want[0]);
        }
    }

    /// The split over threads that the module describes gives the message's hash.
    #[test]
    fn roots(len in 8_193..500_000usize, part_groups in 1..20usize, log in 0..4u32) {
        let (input, group_len) = (noise(len, 9), CHUNK_LEN << log);
        let mut nodes = Vec::new();
        for (i, part) in input.chunks(part_groups * group_len).enumerate() {
            let first_chunk = ((i * part_groups) << log) as u64;
            let mut values = Vec::new();
            chunk_group_cvs(part, group_len, first_chunk, &mut values);
            nodes.extend(values);
        }
        prop_assert_eq!(root_of(&nodes), Some(crate::hash(&input)));
        while nodes.len() > 2 {
            let mut above = Vec::new();
            parent_cvs(&nodes, &mut above);
            nodes = above;
        }
        prop_assert_eq!(root_hash(&nodes[0], &nodes[1]), crate::hash(&input));
    }
}

#[test]
fn too_few_nodes_have_no_root() {
    assert_eq!(root_of(&[]), None);
    assert_eq!(root_of(&[ChainingValue::from_bytes([1; 32])]), None);
}

#[test]
#[should_panic(expected = "at least one byte")]
fn an_empty_group_is_refused() {
    let _ = chunk_group_cv(&[], 0);
}

#[test]
#[should_panic(expected = "3072 bytes a group")]
fn a_crooked_group_length_is_refused() {
    chunk_group_cvs(&[0; 5_000], 3 * CHUNK_LEN, 0, &mut Vec::new());
}

#[test]
#[should_panic(expected = "512 bytes a group")]
fn a_group_below_a_chunk_is_refused() {
    chunk_group_cvs(&[0; 5_000], 512, 0, &mut Vec::new());
}
