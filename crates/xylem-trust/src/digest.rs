//! The digests and the keyed hash: signature types 0, 6 and 7 over a signed portion in one piece (Data) or two
//! (Interests). No heap is used.

use sha2::Digest as _;
use xylem_hash::{Hash, Hasher, SHA256_LANES, has_sha256_many};

/// Type 0: SHA-256 of the concatenated portions.
pub fn sha256(portions: &[&[u8]]) -> [u8; 32] {
    let mut hasher = sha2::Sha256::new();
    portions.iter().for_each(|portion| hasher.update(portion));
    hasher.finalize().into()
}

/// Number of messages that [`sha256_many`] hashes at once; 1 if batches gain nothing on this machine.
pub fn sha256_batch_size() -> usize {
    if has_sha256_many() { SHA256_LANES } else { 1 }
}

/// Type 0 of each of these messages, each in one piece. Batches below a minimum are hashed one by one, because wide
/// vector units gain nothing from them.
pub fn sha256_many(messages: &[&[u8]], out: &mut [[u8; 32]]) {
    const WORTH_IT: usize = 6;
    for (messages, out) in messages.chunks(SHA256_LANES).zip(out.chunks_mut(SHA256_LANES)) {
        if messages.len() >= WORTH_IT && xylem_hash::sha256_many(messages, out) {
            continue;
        }
        for (message, out) in messages.iter().zip(out) {
            *out = sha256(&[message]);
        }
    }
}

/// Type 6: BLAKE3 of the concatenated portions.
pub fn blake3(portions: &[&[u8]]) -> [u8; 32] {
    over(Hasher::new(), portions)
}

/// Type 7: the keyed BLAKE3 hash of the concatenated portions.
pub fn blake3_keyed(key: &[u8; 32], portions: &[&[u8]]) -> [u8; 32] {
    over(Hasher::new_keyed(key), portions)
}

fn over(mut hasher: Hasher, portions: &[&[u8]]) -> [u8; 32] {
    for portion in portions {
        hasher.update(portion);
    }
    *hasher.finalize().as_bytes()
}

/// Whether `claimed` equals `computed`. The time does not depend on where they differ.
pub fn equal(computed: [u8; 32], claimed: &[u8]) -> bool {
    Hash::from_bytes(computed) == *claimed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(hex: &str) -> Vec<u8> {
        let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    /// The published vectors for types 6 and 7. The hash takes the portion as opaque bytes: the published one is no
    /// well-formed packet.
    #[test]
    fn the_published_vectors_match() {
        let portion = unhex(
            "0719080308036e646e0804746573740806626c616b6533360100140c180102190210a0150f424c414b4533204e\
             444e207465737416030f0106",
        );
        assert_eq!(portion.len(), 57);
        let mut of_type_7 = portion.clone();
        *of_type_7.last_mut().unwrap() = 7;
        let counting: [u8; 32] = core::array::from_fn(|i| i as u8);
        for (value, expected) in [
            (blake3(&[]), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
            (
                blake3(&[&portion]),
                "e709c95387c663ff293bce17cf7ec685840ce9d0bc7785ce6fbd0b9fda3aaedb",
            ),
            (
                blake3_keyed(&[0; 32], &[]),
                "a7f91ced0533c12cd59706f2dc38c2a8c39c007ae89ab6492698778c8684c483",
            ),
            (
                blake3_keyed(&counting, &[&of_type_7]),
                "997f788fb4a8d03156ef964ffc52cfb6b7889ef88e4bea0c8d28c4db5e1686a3",
            ),
        ] {
            assert_eq!(value.as_slice(), unhex(expected));
            assert!(equal(value, &unhex(expected)));
        }
    }

    #[test]
    fn portions_hash_as_their_concatenation() {
        let key = [3; 32];
        for cut in [0, 1, 5, 9] {
            let (a, b) = b"portion 9".split_at(cut);
            assert_eq!(sha256(&[a, b]), sha256(&[b"portion 9"]));
            assert_eq!(blake3(&[a, b]), blake3(&[b"portion 9"]));
            assert_eq!(blake3_keyed(&key, &[a, b]), blake3_keyed(&key, &[b"portion 9"]));
        }
    }

    #[test]
    fn a_batch_hashes_as_single_messages() {
        let bytes: Vec<u8> = (0..9_000u32).map(|i| (i / 3) as u8).collect();
        for count in [0, 1, 5, 6, 16, 17, 40] {
            let messages: Vec<&[u8]> = (0..count).map(|i| &bytes[i..8_000 + 25 * i]).collect();
            let mut out = vec![[0; 32]; count];
            sha256_many(&messages, &mut out);
            let each: Vec<[u8; 32]> = messages.iter().map(|message| sha256(&[message])).collect();
            assert_eq!(out, each);
        }
    }

    #[test]
    fn a_value_of_another_length_is_unequal() {
        let value = blake3(&[b"x"]);
        assert!(!equal(value, &value[..31]));
        assert!(!equal(value, &[]));
        assert!(!equal(value, &[value.as_slice(), &[0]].concat()));
    }
}
