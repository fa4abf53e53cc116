//! The official vectors and a batch, with only stack and constants.

use xylem_hash::{Hash, Hasher, hash_many, keyed_hash};

const VECTORS: &str = include_str!("../../../tests/data/vectors.txt");

/// Bytes that repeat with a period of 251, as in the official vectors.
fn fed(mut hasher: Hasher, len: usize, piece: usize) -> Hasher {
    let mut buffer = [0; 3_000];
    let mut at = 0;
    while at < len {
        let now = piece.min(len - at);
        for (i, byte) in buffer[..now].iter_mut().enumerate() {
            *byte = ((at + i) % 251) as u8;
        }
        hasher.update(&buffer[..now]);
        at += now;
    }
    hasher
}

/// Panics if a hash differs. Returns the number of lengths.
pub fn official_vectors() -> usize {
    let mut lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let key = lines.next().and_then(|line| line.strip_prefix("key ")).expect("a key");
    let key: &[u8; 32] = key.as_bytes().try_into().expect("32 bytes");
    let context = lines.next().and_then(|line| line.strip_prefix("context ")).expect("a context");
    let mut count = 0;
    for line in lines {
        let mut fields = line.split(' ');
        let len = fields.next().and_then(|len| len.parse().ok()).expect("a length");
        let hashers = [Hasher::new(), Hasher::new_keyed(key), Hasher::new_derive_key(context)];
        for hasher in hashers {
            let want = fields.next().expect("three outputs");
            for piece in [777, 3_000] {
                let hasher = fed(hasher.clone(), len, piece);
                let mut out = [0; 131];
                hasher.finalize_xof().fill(&mut out);
                for (i, byte) in out.iter().enumerate() {
                    let want = u8::from_str_radix(&want[2 * i..2 * i + 2], 16).expect("hex");
                    assert_eq!(*byte, want, "byte {i} of {len} bytes by {piece}");
                }
            }
        }
        assert!(fields.next().is_none());
        count += 1;
    }
    assert_eq!(count, 35);
    count
}

/// Several messages at once: each hash equals that of a hasher fed byte by byte.
pub fn batches() {
    let mut bytes = [0; 2_500];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = (i % 253) as u8;
    }
    let messages = [&bytes[..0], &bytes[1..1_026], &bytes[3..], &bytes[..64], &bytes[7..2_055]];
    let mut hashes = [Hash::from_bytes([0; 32]); 5];
    hash_many(&messages, &mut hashes);
    for (message, hash) in messages.iter().zip(hashes) {
        let mut hasher = Hasher::new();
        for byte in *message {
            hasher.update(&[*byte]);
        }
        assert!(hasher.finalize() == hash, "{} bytes", message.len());
        assert!(keyed_hash(&[1; 32], message) != hash);
    }
}

/// The hash of a long output, read from a position inside a block.
pub fn long_output() -> Hash {
    let mut out = [0; 2_999];
    let mut reader = fed(Hasher::new(), 5_000, 1_234).finalize_xof();
    reader.set_position(77);
    reader.fill(&mut out);
    xylem_hash::hash(&out)
}
