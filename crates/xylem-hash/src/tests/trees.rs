//! Compares chunk groups, subtrees and parents of all three modes with `blake3::hazmat`.

use super::differential::in_pieces;
use super::{CONTEXT, Use, affordable, cases, noise, reference, uses};
use crate::backend::Backend;
use crate::constants::CHUNK_LEN;
use crate::tree::{
    ChainingValue, DeriveKey, Keyed, Kind, Plain, Tree, Value, chunk_group_cv, chunk_group_cvs,
    parent_cv, parent_cvs, root_hash, root_of,
};
use crate::{Hash, Hasher};
use blake3::hazmat::{
    HasherExt, Mode as Official, merge_subtrees_non_root, merge_subtrees_root,
    merge_subtrees_root_xof,
};
use proptest::prelude::*;

fn official_cv(how: Use, group: &[u8], first_chunk: u64) -> [u8; 32] {
    let mut hasher = how.official();
    hasher.set_input_offset(first_chunk * CHUNK_LEN as u64).update(group).finalize_non_root()
}

fn official_mode(how: Use, key: &[u8; 32]) -> Official<'_> {
    match how {
        Use::Plain => Official::Hash,
        Use::Keyed(_) => Official::KeyedHash(key),
        Use::DeriveKey(_) => Official::DeriveKeyMaterial(key),
    }
}

/// Runs a check on the tree of `how`, with its own type, on every backend.
macro_rules! on_every_tree {
    ($how:expr, $check:ident($($argument:expr),*)) => {
        for backend in Backend::available() {
            let mode = $how.mode(backend);
            match $how {
                Use::Plain => $check(Tree::<Plain>::with_backend(backend, mode), $how, $($argument),*)?,
                Use::Keyed(_) => $check(Tree::<Keyed>::with_backend(backend, mode), $how, $($argument),*)?,
                Use::DeriveKey(_) => $check(Tree::<DeriveKey>::with_backend(backend, mode), $how, $($argument),*)?,
            }
        }
    };
}

fn check_groups<K: Kind>(
    tree: Tree<K>,
    how: Use,
    input: &[u8],
    group_len: usize,
    first_chunk: u64,
) -> Result<(), TestCaseError> {
    let group_chunks = group_len / CHUNK_LEN;
    let want: Vec<[u8; 32]> = input
        .chunks(group_len)
        .zip((first_chunk..).step_by(group_chunks))
        .map(|(group, chunk)| official_cv(how, group, chunk))
        .collect();
    // Values already in `out` stay.
    let mut out = vec![Value::from_bytes([9; 32])];
    tree.chunk_group_cvs(input, group_len, first_chunk, &mut out);
    let got: Vec<[u8; 32]> = out.iter().map(|value| *value.as_bytes()).collect();
    prop_assert_eq!(&got[1..], &want[..]);
    prop_assert_eq!(got[0], [9; 32]);
    if let (Some(group), Some(want)) = (input.chunks(group_len).next(), want.first()) {
        prop_assert_eq!(*tree.chunk_group_cv(group, first_chunk).as_bytes(), *want);
        let mut subtree = tree.subtree(first_chunk);
        for piece in group.chunks(777) {
            subtree.update(piece);
        }
        prop_assert_eq!(*subtree.finish().as_bytes(), *want);
        prop_assert_eq!(subtree.count(), group.len() as u64);
        if group.len() < 20_000 {
            prop_assert_eq!(&reference::group_cv(how, group, first_chunk), want);
        }
    }
    Ok(())
}

/// Groups of any lengths and places, hashed together.
fn check_scattered<K: Kind>(
    tree: Tree<K>,
    how: Use,
    groups: &[(u64, &[u8])],
) -> Result<(), TestCaseError> {
    let mut out = vec![Value::from_bytes([9; 32])];
    tree.scattered_group_cvs(groups.iter().copied(), &mut out);
    prop_assert_eq!(out.len(), 1 + groups.len());
    prop_assert_eq!(*out[0].as_bytes(), [9; 32]);
    for (value, (first_chunk, group)) in out[1..].iter().zip(groups) {
        prop_assert_eq!(*value.as_bytes(), official_cv(how, group, *first_chunk));
    }
    Ok(())
}

fn check_parents<K: Kind>(tree: Tree<K>, how: Use, bytes: &[u8]) -> Result<(), TestCaseError> {
    let (children, _) = bytes.as_chunks::<32>();
    let key = how.key();
    let merge = |pair: &[[u8; 32]]| match pair {
        [left, right] => merge_subtrees_non_root(left, right, official_mode(how, &key)),
        odd => odd[0],
    };
    let want: Vec<_> = children.chunks(2).map(merge).map(Value::<K>::from_bytes).collect();
    let children: Vec<_> = children.iter().copied().map(Value::<K>::from_bytes).collect();
    let mut out = vec![Value::from_bytes([9; 32])];
    tree.parent_cvs(&children, &mut out);
    prop_assert_eq!(&out[1..], &want[..]);
    if let [left, right, ..] = &children[..] {
        prop_assert_eq!(tree.parent_cv(left, right), want[0]);
        let (l, r) = (left.as_bytes(), right.as_bytes());
        let root = merge_subtrees_root(l, r, official_mode(how, &key));
        prop_assert_eq!(*tree.root_hash(left, right).as_bytes(), *root.as_bytes());
        let (mut got, mut want) = ([0; 150], [0; 150]);
        tree.root_output(left, right).fill(&mut got);
        merge_subtrees_root_xof(l, r, official_mode(how, &key)).fill(&mut want);
        prop_assert_eq!(got, want);
    }
    Ok(())
}

/// Splitting over threads as the module documents gives the message's hash.
fn check_roots<K: Kind>(
    tree: Tree<K>,
    how: Use,
    input: &[u8],
    group_len: usize,
    part_groups: usize,
) -> Result<(), TestCaseError> {
    let mut nodes = Vec::new();
    for (i, part) in input.chunks(part_groups * group_len).enumerate() {
        let first_chunk = (i * part_groups * (group_len / CHUNK_LEN)) as u64;
        tree.chunk_group_cvs(part, group_len, first_chunk, &mut nodes);
    }
    let want = Hash::from_bytes(how.official().update(input).finalize().into());
    prop_assert_eq!(tree.root_of(&nodes), Some(want));
    while nodes.len() > 2 {
        let mut above = Vec::new();
        tree.parent_cvs(&nodes, &mut above);
        nodes = above;
    }
    prop_assert_eq!(tree.root_hash(&nodes[0], &nodes[1]), want);
    Ok(())
}

/// Rows of parents side by side, from any number of nodes, give the same result as parents one by one.
fn check_root_of_nodes<K: Kind>(tree: Tree<K>, _: Use, bytes: &[u8]) -> Result<(), TestCaseError> {
    let nodes: Vec<Value<K>> = bytes.as_chunks().0.iter().copied().map(Value::from_bytes).collect();
    let mut level = nodes.clone();
    while level.len() > 2 {
        let parent = |pair: &[Value<K>]| match pair {
            [left, right] => tree.parent_cv(left, right),
            odd => odd[0],
        };
        level = level.chunks(2).map(parent).collect();
    }
    prop_assert_eq!(tree.root_of(&nodes), Some(tree.root_hash(&level[0], &level[1])));
    Ok(())
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn roots_of_nodes(how in uses(), count in prop_oneof![2..20usize, 2..1_100usize, 250..262usize]) {
        let bytes = noise(32 * count, 11);
        on_every_tree!(how, check_root_of_nodes(&bytes));
    }

    #[test]
    fn groups(
        how in uses(),
        log in 0..9u32,
        count in 0..20usize,
        cut in 0..70_000usize,
        first_group in prop_oneof![0..100u64, Just((1u64 << 32) / 256 - 3), 0..1u64 << 40],
    ) {
        let group_len = CHUNK_LEN << log;
        let len = (group_len * count).min(700_000).saturating_sub(cut % group_len);
        let (input, first_chunk) = (noise(affordable(len), 7), first_group << log);
        on_every_tree!(how, check_groups(&input, group_len, first_chunk));
    }

    #[test]
    fn scattered(
        how in uses(),
        shapes in prop::collection::vec((0..6u32, 0..20_000usize, 0..1u64 << 40), 0..60),
    ) {
        let bytes = noise(CHUNK_LEN << 5, 10);
        let group = |&(log, cut, place): &(u32, usize, u64)| {
            // Usually segments: every other group is whole.
            let cut = if cut % 2 == 0 { 0 } else { cut };
            let len = (CHUNK_LEN << log) - cut % (CHUNK_LEN << log);
            (place << log, &bytes[(CHUNK_LEN << 5) - len..])
        };
        let groups: Vec<(u64, &[u8])> = shapes.iter().map(group).collect();
        on_every_tree!(how, check_scattered(&groups));
    }

    #[test]
    fn parents(how in uses(), count in 0..60usize) {
        let bytes = noise(32 * count, 8);
        on_every_tree!(how, check_parents(&bytes));
    }

    #[test]
    fn roots(how in uses(), len in 0..500_000usize, part_groups in 1..20usize, log in 0..4u32) {
        let (input, group_len) = (noise(affordable(len) + 8_193, 9), CHUNK_LEN << log);
        on_every_tree!(how, check_roots(&input, group_len, part_groups));
    }

    /// The functions for plain trees, as callers use them.
    #[test]
    fn plain_functions(len in 0..300_000usize, log in 0..4u32) {
        let (input, group_len) = (noise(affordable(len) + 8_193, 17), CHUNK_LEN << log);
        let mut nodes = Vec::new();
        chunk_group_cvs(&input, group_len, 0, &mut nodes);
        prop_assert_eq!(nodes[0], chunk_group_cv(&input[..group_len], 0));
        prop_assert_eq!(root_of(&nodes), Some(crate::hash(&input)));
        let mut above = Vec::new();
        while nodes.len() > 2 {
            above.clear();
            parent_cvs(&nodes, &mut above);
            prop_assert_eq!(above[0], parent_cv(&nodes[0], &nodes[1]));
            std::mem::swap(&mut nodes, &mut above);
        }
        prop_assert_eq!(root_hash(&nodes[0], &nodes[1]), crate::hash(&input));
    }

    /// Our `hazmat` on every backend, fed in pieces.
    #[test]
    fn parts_of_messages(how in uses(), log in 0..9u32, place in 1..1u64 << 40, cut: u16, piece in 1..9_000usize) {
        let len = (CHUNK_LEN << log) - usize::from(cut) % CHUNK_LEN;
        let (input, first_chunk) = (noise(affordable(len - 1) + 1, 18), place << log);
        let want = official_cv(how, &input, first_chunk);
        for backend in Backend::available() {
            let mut hasher = Hasher::with_backend(backend, how.mode(backend));
            let offset = first_chunk * CHUNK_LEN as u64;
            crate::hazmat::HasherExt::set_input_offset(&mut hasher, offset);
            in_pieces(&mut hasher, &input, &[piece]);
            prop_assert_eq!(crate::hazmat::HasherExt::finalize_non_root(&hasher), want);
        }
    }
}

/// `Debug` reveals nothing of a keyed tree.
#[test]
fn debug_shows_plain_values_only() {
    let (tree, derived) = (Tree::keyed(&[0xAB; 32]), Tree::derive_key(CONTEXT));
    let value = tree.chunk_group_cv(b"x", 0);
    assert_eq!(format!("{tree:?} {value:?}"), "Tree { .. } ChainingValue(..)");
    let value = derived.chunk_group_cv(b"x", 0);
    assert_eq!(format!("{value:?}"), "ChainingValue(..)");
    let subtree = tree.subtree(8);
    assert_eq!(format!("{subtree:?}"), "Subtree { first_chunk: 8, count: 0, .. }");
    assert!(format!("{:?}", ChainingValue::from_bytes([0xAB; 32])).contains("abab"));
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
fn a_group_length_not_a_power_of_two_is_refused() {
    chunk_group_cvs(&[0; 5_000], 3 * CHUNK_LEN, 0, &mut Vec::new());
}

#[test]
#[should_panic(expected = "512 bytes a group")]
fn a_group_below_a_chunk_is_refused() {
    chunk_group_cvs(&[0; 5_000], 512, 0, &mut Vec::new());
}

#[test]
#[should_panic(expected = "multiples")]
fn groups_off_their_places_are_refused() {
    chunk_group_cvs(&[0; 5_000], 4 * CHUNK_LEN, 2, &mut Vec::new());
}

#[test]
#[should_panic(expected = "2049 bytes from chunk 6 on are no subtree")]
fn a_group_that_is_no_subtree_is_refused() {
    let _ = chunk_group_cv(&[0; 2_049], 6);
}

#[test]
#[should_panic(expected = "are no subtree")]
fn a_subtree_that_grew_too_long_is_refused() {
    let mut subtree = Tree::plain().subtree(3);
    let _ = subtree.update(&[0; 1_000]).update(&[0; 25]).finish();
}
