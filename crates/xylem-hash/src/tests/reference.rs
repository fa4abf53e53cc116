//! BLAKE3 as the paper describes it: recursive, one block at a time, sharing nothing with the fast code (not even the
//! constants). This file stands alone: copy it, or compile it unchanged with `rustc --crate-type lib --edition 2024`.
//! `differential.rs` compares it with the official crate.

/// The three hash modes (the paper, section 2.3).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Plain,
    Keyed([u8; 32]),
    DeriveKey(&'static str),
}

const IV: [u32; 8] = [
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
];

fn mix(v: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize, x: u32, y: u32) {
    for (word, turns) in [(x, (16, 12)), (y, (8, 7))] {
        v[a] = v[a].wrapping_add(v[b]).wrapping_add(word);
        v[d] = (v[d] ^ v[a]).rotate_right(turns.0);
        v[c] = v[c].wrapping_add(v[d]);
        v[b] = (v[b] ^ v[c]).rotate_right(turns.1);
    }
}

/// Section 2.2: the chaining value `h`, message `m`, counter `t`, length `b`, flags `d`.
pub(crate) fn compress(h: &[u32; 8], m: &[u8], t: u64, b: u32, d: u32) -> [u32; 16] {
    let mut m: Vec<u32> =
        m.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let mut v = [0; 16];
    v[..8].copy_from_slice(h);
    v[8..12].copy_from_slice(&IV[..4]);
    v[12..].copy_from_slice(&[t as u32, (t >> 32) as u32, b, d]);
    for _ in 0..7 {
        for i in 0..4 {
            mix(&mut v, i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1]);
        }
        for i in 0..4 {
            let (b, c, d) = (4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
            mix(&mut v, i, b, c, d, m[8 + 2 * i], m[9 + 2 * i]);
        }
        m = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8].map(|from| m[from]).to_vec();
    }
    for i in 0..8 {
        v[i] ^= v[i + 8];
        v[i + 8] ^= h[i];
    }
    v
}

/// A node before its last compression: chaining value, block, counter, length, flags.
struct Node([u32; 8], Vec<u8>, u64, u32, u32);

impl Node {
    fn cv(&self) -> [u32; 8] {
        compress(&self.0, &self.1, self.2, self.3, self.4)[..8].try_into().unwrap()
    }

    fn output(&self, len: usize) -> Vec<u8> {
        let root = |t| compress(&self.0, &self.1, t, self.3, self.4 | 8);
        let blocks = (0..len.div_ceil(64) as u64).flat_map(root);
        blocks.flat_map(u32::to_le_bytes).take(len).collect()
    }
}

/// Section 2.4: the tree over `input`; the first chunk has number `t`.
fn tree(key: &[u32; 8], flags: u32, input: &[u8], t: u64) -> Node {
    if input.len() <= 1024 {
        let (mut cv, mut rest, mut start) = (*key, input, 1);
        while rest.len() > 64 {
            cv = compress(&cv, &rest[..64], t, 64, flags | start)[..8].try_into().unwrap();
            (rest, start) = (&rest[64..], 0);
        }
        let mut block = rest.to_vec();
        block.resize(64, 0);
        return Node(cv, block, t, rest.len() as u32, flags | start | 2);
    }
    // The left side: the largest power of two of chunks that leaves at least one byte.
    let left = 1 << ((input.len() - 1) / 1024).ilog2();
    let (l, r) = input.split_at(1024 * left);
    let children =
        [tree(key, flags, l, t).cv(), tree(key, flags, r, t + left as u64).cv()].concat();
    Node(*key, children.into_iter().flat_map(u32::to_le_bytes).collect(), 0, 64, flags | 4)
}

fn words(bytes: &[u8]) -> [u32; 8] {
    std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..][..4].try_into().unwrap()))
}

fn key_and_flags(how: Use) -> ([u32; 8], u32) {
    match how {
        Use::Plain => (IV, 0),
        Use::Keyed(key) => (words(&key), 1 << 4),
        Use::DeriveKey(context) => {
            (words(&tree(&IV, 1 << 5, context.as_bytes(), 0).output(32)), 1 << 6)
        }
    }
}

/// `len` bytes of output.
pub(crate) fn hash(how: Use, input: &[u8], len: usize) -> Vec<u8> {
    let (key, flags) = key_and_flags(how);
    tree(&key, flags, input, 0).output(len)
}

/// The chaining value of a chunk group; its first chunk has number `t`.
pub(crate) fn group_cv(how: Use, input: &[u8], t: u64) -> [u8; 32] {
    let (key, flags) = key_and_flags(how);
    let bytes: Vec<u8> =
        tree(&key, flags, input, t).cv().iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.try_into().unwrap()
}
