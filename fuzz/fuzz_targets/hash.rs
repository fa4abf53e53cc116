//! A message, a key and cuts out of the fuzzer's bytes: the hash must not depend on the cuts, on
//! the company in `hash_many`, or on how the tree is put together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xylem_hash::{Hash, Hasher, hash, hash_many, keyed_hash, tree};

fuzz_target!(|data: &[u8]| {
    let Some((header, seed)) = data.split_at_checked(36) else { return };
    let (key, cuts) = header.split_first_chunk::<32>().expect("36 bytes hold a key and 4 cuts");
    // Repeated, so that a small input reaches the deep levels of the tree.
    let repeat = 1 + usize::from(cuts[0]) % 40;
    let message = seed.repeat(repeat);
    let whole = hash(&message);

    let piece = 1 + usize::from(u16::from_le_bytes([cuts[1], cuts[2]]));
    let (mut plain, mut keyed) = (Hasher::new(), Hasher::new_keyed(key));
    for piece in message.chunks(piece) {
        plain.update(piece);
        keyed.update(piece);
    }
    assert_eq!(plain.finalize(), whole);
    assert_eq!(keyed.finalize(), keyed_hash(key, &message));
    assert_eq!(plain.count(), message.len() as u64);

    let (mut head, mut tail) = ([0; 32], [0; 100]);
    let mut output = plain.finalize_xof();
    output.fill(&mut head);
    assert_eq!(whole, Hash::from_bytes(head));
    output.set_position(u64::from(cuts[3]));
    output.fill(&mut tail);
    let mut all = [0; 355];
    output.set_position(0);
    output.fill(&mut all);
    assert_eq!(tail, all[usize::from(cuts[3])..][..100]);

    let messages: Vec<&[u8]> = message.chunks(piece).take(64).collect();
    let mut hashes = vec![whole; messages.len()];
    hash_many(&messages, &mut hashes);
    for (message, got) in messages.iter().zip(&hashes) {
        assert_eq!(*got, hash(message));
    }

    let group_len = 1024 << (cuts[3] % 6);
    let mut groups = Vec::new();
    tree::chunk_group_cvs(&message, group_len, 0, &mut groups);
    if let Some(root) = tree::root_of(&groups) {
        assert_eq!(root, whole);
    }
    assert_eq!(Hash::from_hex(whole.to_hex()), Ok(whole));
    let _ = Hash::from_hex(data);
});
