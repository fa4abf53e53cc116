//! [`hash_blocks`]: a checksum for each block of a buffer, computed side by side.
//!
//! File systems and databases need this: a run of equal blocks in memory, a hash of each.

use crate::backend::Backend;
use crate::constants::KEY_LEN;
use crate::digest::Hash;
use crate::many::hash_many_with;
use crate::subtree::Mode;

/// Blocks hashed together: enough to fill the lanes, whatever their size.
const RUN: usize = 128;

/// Writes the hash of each `block_len` bytes of `bytes` to `out`, in order; the last block may be short. The result
/// equals [`hash`](crate::hash) of each block and is several times as fast.
///
/// ```
/// use xylem_hash::{Hash, hash, hash_blocks};
/// let disk = vec![7; 64 * 4_096];
/// let mut sums = vec![Hash::from_bytes([0; 32]); 64];
/// hash_blocks(&disk, 4_096, &mut sums);
/// assert_eq!(sums[63], hash(&disk[63 * 4_096..]));
/// ```
///
/// # Panics
/// If `block_len` is 0, or `out` has not exactly one place for each block.
#[inline]
pub fn hash_blocks(bytes: &[u8], block_len: usize, out: &mut [Hash]) {
    hash_blocks_with(Backend::detect(), &Mode::plain(), bytes, block_len, out);
}

/// As [`hash_blocks`], keyed: [`keyed_hash`](crate::keyed_hash) of each block.
///
/// # Panics
/// As [`hash_blocks`].
#[inline]
pub fn keyed_hash_blocks(key: &[u8; KEY_LEN], bytes: &[u8], block_len: usize, out: &mut [Hash]) {
    hash_blocks_with(Backend::detect(), &Mode::keyed(key), bytes, block_len, out);
}

#[inline]
pub(crate) fn hash_blocks_with(
    backend: Backend,
    mode: &Mode,
    bytes: &[u8],
    block_len: usize,
    out: &mut [Hash],
) {
    assert!(block_len > 0, "a block has at least one byte");
    assert_eq!(bytes.len().div_ceil(block_len), out.len(), "one place for each block");
    for (run, out) in bytes.chunks(block_len.saturating_mul(RUN)).zip(out.chunks_mut(RUN)) {
        let mut blocks = [&[][..]; RUN];
        for (place, block) in blocks.iter_mut().zip(run.chunks(block_len)) {
            *place = block;
        }
        hash_many_with(backend, mode, &blocks[..out.len()], out);
    }
}
