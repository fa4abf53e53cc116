//! The constants of BLAKE3.

/// Bytes of a hash and of a chaining value.
pub const OUT_LEN: usize = 32;
/// Bytes of a key.
pub const KEY_LEN: usize = 32;
/// Bytes of a block, the input of one compression.
pub const BLOCK_LEN: usize = 64;
/// Bytes of a chunk, a leaf of the tree.
pub const CHUNK_LEN: usize = 1024;

/// Initial words (the paper, table 1); the same as SHA-256's.
pub(crate) const IV: [u32; 8] = [
    0x6A09_E667,
    0xBB67_AE85,
    0x3C6E_F372,
    0xA54F_F53A,
    0x510E_527F,
    0x9B05_688C,
    0x1F83_D9AB,
    0x5BE0_CD19,
];

// Domain flags (the paper, table 3).
pub(crate) const CHUNK_START: u32 = 1 << 0;
pub(crate) const CHUNK_END: u32 = 1 << 1;
pub(crate) const PARENT: u32 = 1 << 2;
pub(crate) const ROOT: u32 = 1 << 3;
pub(crate) const KEYED_HASH: u32 = 1 << 4;
pub(crate) const DERIVE_KEY_CONTEXT: u32 = 1 << 5;
pub(crate) const DERIVE_KEY_MATERIAL: u32 = 1 << 6;

pub(crate) const ROUNDS: usize = 7;

/// The message word of each step of each round: the permutation of the paper's table 2, applied again for every round
/// after the first.
pub(crate) const SCHEDULE: [[u32; 16]; ROUNDS] = schedule();

const fn schedule() -> [[u32; 16]; ROUNDS] {
    const PERMUTATION: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
    let mut table = [[0u32; 16]; ROUNDS];
    let mut round = 0;
    while round < ROUNDS {
        let mut word = 0;
        while word < 16 {
            table[round][word] =
                if round == 0 { word as u32 } else { table[round - 1][PERMUTATION[word]] };
            word += 1;
        }
        round += 1;
    }
    table
}
