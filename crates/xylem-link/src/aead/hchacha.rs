//! HChaCha20 (draft-irtf-cfrg-xchacha-03, section 2.2): a key and 16 bytes of nonce to a subkey,
//! which makes XChaCha20 of ChaCha20. ring has the cipher and not this. Additions, XORs and
//! rotations only: its time tells nothing.

use zeroize::Zeroizing;

/// "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

fn quarter(x: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (one, other, to, left) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        x[one] = x[one].wrapping_add(x[other]);
        x[to] = (x[to] ^ x[one]).rotate_left(left);
    }
}

/// ChaCha20's twenty rounds (RFC 8439 section 2.3), without the addition at their end.
fn rounds(x: &mut [u32; 16]) {
    for _ in 0..10 {
        for i in 0..4 {
            quarter(x, [i, 4 + i, 8 + i, 12 + i]);
        }
        for i in 0..4 {
            quarter(x, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
        }
    }
}

fn state(key: &[u8; 32], input: &[u8; 16]) -> Zeroizing<[u32; 16]> {
    let mut x = Zeroizing::new([0; 16]);
    x[..4].copy_from_slice(&CONSTANTS);
    let (words, _) = key.as_chunks::<4>();
    let (more, _) = input.as_chunks::<4>();
    for (to, word) in x[4..].iter_mut().zip(words.iter().chain(more)) {
        *to = u32::from_le_bytes(*word);
    }
    x
}

/// The subkey for nonces that begin with `prefix`.
pub(super) fn hchacha20(key: &[u8; 32], prefix: &[u8; 16]) -> Zeroizing<[u8; 32]> {
    let mut x = state(key, prefix);
    rounds(&mut x);
    let mut out = Zeroizing::new([0; 32]);
    let (words, _) = out.as_chunks_mut::<4>();
    for (to, word) in words.iter_mut().zip(x[..4].iter().chain(&x[12..])) {
        *to = word.to_le_bytes();
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        core::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
    }

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    /// draft-irtf-cfrg-xchacha-03 section 2.2.1.
    #[test]
    fn the_vector_of_the_draft() {
        let subkey = hchacha20(&bytes(KEY), &bytes("000000090000004a0000000031415927"));
        let expected = "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc";
        assert_eq!(*subkey, bytes(expected));
    }
}
