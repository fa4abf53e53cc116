//! Hashes whole messages of C callers: one, many, or the blocks of an input.

use core::ffi::c_void;
use core::slice;

use xylem_hash::{Hash, KEY_LEN, OUT_LEN, hash, hash_many, keyed_hash, keyed_hash_many};

use crate::raw;

/// Messages that are hashed at once. Their slices need memory, and nothing is allocated. The number fills the lanes of
/// every processor many times.
const WINDOW: usize = 128;

/// The hash of `input`.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hash(input: *const c_void, input_len: usize, out: *mut u8) {
    // SAFETY: the caller vouches for the bytes.
    let hash = hash(unsafe { raw::input(input.cast::<u8>(), input_len) });
    // SAFETY: the caller vouches for 32 bytes.
    unsafe { out.cast::<[u8; OUT_LEN]>().write(*hash.as_bytes()) };
}

/// The keyed hash of `input`.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_keyed_hash(
    key: &[u8; KEY_LEN],
    input: *const c_void,
    input_len: usize,
    out: *mut u8,
) {
    // SAFETY: the caller vouches for the bytes.
    let hash = keyed_hash(key, unsafe { raw::input(input.cast::<u8>(), input_len) });
    // SAFETY: the caller vouches for 32 bytes.
    unsafe { out.cast::<[u8; OUT_LEN]>().write(*hash.as_bytes()) };
}

/// The hash of each message.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hash_many(
    inputs: *const *const u8,
    input_lens: *const usize,
    count: usize,
    out: *mut u8,
) {
    // SAFETY: the contract is the same.
    unsafe { in_windows(inputs, input_lens, count, out, hash_many) };
}

/// The keyed hash of each message.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_keyed_hash_many(
    key: &[u8; KEY_LEN],
    inputs: *const *const u8,
    input_lens: *const usize,
    count: usize,
    out: *mut u8,
) {
    let keyed = |inputs: &[&[u8]], out: &mut [Hash]| keyed_hash_many(key, inputs, out);
    // SAFETY: the contract is the same.
    unsafe { in_windows(inputs, input_lens, count, out, keyed) };
}

/// The hash of each block.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hash_blocks(
    input: *const c_void,
    input_len: usize,
    block_len: usize,
    out: *mut u8,
) -> usize {
    if block_len == 0 {
        return 0;
    }
    let count = input_len.div_ceil(block_len);
    // SAFETY: the caller vouches for the bytes and for 32 bytes for each block.
    let (input, out) = unsafe { (raw::input(input.cast::<u8>(), input_len), hashes(out, count)) };
    xylem_hash::hash_blocks(input, block_len, out);
    count
}

/// Calls `hash` with up to [`WINDOW`] messages at a time.
///
/// # Safety
/// `inputs` and `input_lens` must have `count` items, each input must have its length, and `out` must have 32 bytes for each.
unsafe fn in_windows(
    inputs: *const *const u8,
    input_lens: *const usize,
    count: usize,
    out: *mut u8,
    hash: impl Fn(&[&[u8]], &mut [Hash]),
) {
    // SAFETY: the caller vouches for all three.
    let (inputs, lens, out) =
        unsafe { (raw::input(inputs, count), raw::input(input_lens, count), hashes(out, count)) };
    let mut window = [&[][..]; WINDOW];
    let places = inputs.chunks(WINDOW).zip(lens.chunks(WINDOW)).zip(out.chunks_mut(WINDOW));
    for ((inputs, lens), out) in places {
        for (message, (input, len)) in window.iter_mut().zip(inputs.iter().zip(lens)) {
            // SAFETY: the caller vouches for each message.
            *message = unsafe { raw::input(*input, *len) };
        }
        hash(&window[..inputs.len()], out);
    }
}

/// The caller's bytes as `count` hashes, all zero.
///
/// # Safety
/// `out` must be valid for writing 32 bytes for each hash, as [`raw::output`] requires.
unsafe fn hashes<'a>(out: *mut u8, count: usize) -> &'a mut [Hash] {
    // SAFETY: the caller vouches for the bytes.
    let bytes = unsafe { raw::output(out, count * OUT_LEN) };
    // SAFETY: `Hash` is a transparent wrapper of 32 bytes, and any bytes are a valid hash. The borrow moves from the
    // bytes to the hashes.
    unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<Hash>(), count) }
}
