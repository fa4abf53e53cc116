//! The official vectors: 35 lengths, three modes, 131 bytes of output each.

use super::{Use, pattern, reference};
use crate::backend::Backend;
use crate::subtree::root_hash_of;
use crate::{Hash, Hasher};

const VECTORS: &str = include_str!("../../tests/data/vectors.txt");

fn unhex(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn check(how: Use, input: &[u8], want: &[u8]) {
    assert_eq!(want.len(), 131);
    assert_eq!(reference::hash(how, input, 131), want, "reference, {} bytes", input.len());
    for backend in Backend::available() {
        let mode = how.mode(backend);
        let hash = root_hash_of(backend, &mode, input);
        assert_eq!(hash, want[..32], "{backend:?}, {} bytes", input.len());
        for piece in [1, 64, 1_000, 8_192, usize::MAX] {
            let mut hasher = Hasher::with_backend(backend, mode.clone());
            for piece in input.chunks(piece) {
                hasher.update(piece);
            }
            let mut out = [0; 131];
            hasher.finalize_xof().fill(&mut out);
            assert_eq!(out, want, "{backend:?}, {} bytes by {piece}", input.len());
            assert_eq!(hasher.finalize(), Hash::from_bytes(hash));
        }
    }
}

#[test]
fn official_vectors() {
    let mut lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let key = lines.next().unwrap().strip_prefix("key ").unwrap();
    let context = lines.next().unwrap().strip_prefix("context ").unwrap();
    let mut cases = 0;
    for line in lines {
        let [len, plain, keyed, derived] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let len = len.parse().unwrap();
        cases += 1;
        if cfg!(miri) && ![0, 1, 65, 1_025].contains(&len) {
            continue;
        }
        let input = pattern(len);
        check(Use::Plain, &input, &unhex(plain));
        check(Use::Keyed(key.as_bytes().try_into().unwrap()), &input, &unhex(keyed));
        check(Use::DeriveKey(context), &input, &unhex(derived));
    }
    assert_eq!(cases, 35);
}
