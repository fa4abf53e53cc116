//! The tree interface, `hazmat` and `tree`, against the official crate's: groups of any size at any place, joined to
//! the hash.
#![no_main]

mod common;

use blake3::hazmat::HasherExt as _;
use common::{Choices, Use};
use libfuzzer_sys::fuzz_target;
use xylem_hash::hazmat::{self, HasherExt as _};
use xylem_hash::tree::{Kind, Tree, Value};

fn check<K: Kind>(tree: &Tree<K>, how: &Use, message: &[u8], log: u32, group: u64, piece: usize) {
    let group_len = 1_024usize << log;
    let first_chunk = group << log;
    let mut values = Vec::new();
    tree.chunk_group_cvs(message, group_len, first_chunk, &mut values);
    for ((value, bytes), at) in values.iter().zip(message.chunks(group_len)).zip(0..) {
        let chunk = first_chunk + (at << log);
        let mut official = how.official();
        let want = official.set_input_offset(chunk * 1_024).update(bytes).finalize_non_root();
        assert_eq!(value.as_bytes(), &want);
        assert_eq!(*value, tree.chunk_group_cv(bytes, chunk));
        let (mut subtree, mut part) = (tree.subtree(chunk), how.ours());
        part.set_input_offset(chunk * 1_024);
        for bytes in bytes.chunks(piece) {
            subtree.update(bytes);
            part.update(bytes);
        }
        assert_eq!(subtree.finish(), *value);
        assert_eq!(part.finalize_non_root(), want);
    }

    let (mut values, mut above) = (Vec::<Value<K>>::new(), Vec::new());
    tree.chunk_group_cvs(message, group_len, 0, &mut values);
    let want = how.official().update(message).finalize();
    match tree.root_of(&values) {
        Some(root) => assert_eq!(root.as_bytes(), want.as_bytes()),
        None => assert!(message.len() <= group_len),
    }
    while values.len() > 2 {
        above.clear();
        tree.parent_cvs(&values, &mut above);
        assert_eq!(above[0], tree.parent_cv(&values[0], &values[1]));
        core::mem::swap(&mut values, &mut above);
    }
    if let [left, right] = &values[..] {
        assert_eq!(tree.root_hash(left, right).as_bytes(), want.as_bytes());
        let mut head = [0; 32];
        tree.root_output(left, right).fill(&mut head);
        assert_eq!(&head, want.as_bytes());
    }
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::new(data);
    let how = Use::choose(&mut choices);
    let log = u32::from(choices.byte() % 9);
    let group = u64::from_le_bytes(choices.bytes()) >> (12 + log + 10);
    let piece = 1 + choices.len();
    let message = choices.message();
    if message.is_empty() {
        return;
    }
    match &how {
        Use::Plain => check(&Tree::plain(), &how, &message, log, group, piece),
        Use::Keyed(key) => check(&Tree::keyed(key), &how, &message, log, group, piece),
        Use::DeriveKey(context) => {
            check(&Tree::derive_key(context), &how, &message, log, group, piece);
        }
    }
    if message.len() > 1_024 {
        let len = message.len() as u64;
        assert_eq!(hazmat::left_subtree_len(len), blake3::hazmat::left_subtree_len(len));
    }
    let offset = group * 1_024;
    assert_eq!(hazmat::max_subtree_len(offset), blake3::hazmat::max_subtree_len(offset));
});
