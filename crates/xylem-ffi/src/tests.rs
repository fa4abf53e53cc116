//! Calls the functions from Rust as a C caller would, so that Miri can check them.

use core::ptr::{self, null, null_mut};
use core::slice;

use xylem_hash::{Hasher, OUT_LEN};

use crate::hasher::*;
use crate::messages::*;
use crate::{VERSION, xylem_blake3_version};

const KEY: &[u8; 32] = b"whats the Elvish word for friend";

#[test]
fn version_is_the_headers() {
    let header = include_str!("../include/xylem_blake3.h");
    let line = format!("#define XYLEM_BLAKE3_VERSION_STRING {:?}\n", VERSION.to_str().unwrap());
    assert!(header.contains(&line), "{line}");
    assert!(header.contains(&format!("#define XYLEM_BLAKE3_HASHER_SIZE {HASHER_SIZE}\n")));
    assert_eq!(xylem_blake3_version(), VERSION.as_ptr());
}

#[test]
fn a_message_in_pieces() {
    let message: Vec<u8> = (0..5_000_u32).map(|i| (i % 251) as u8).collect();
    let mut want = [0; 200];
    Hasher::new_keyed(KEY).update(&message).finalize_xof().fill(&mut want);
    let mut handle = HasherHandle::zeroed();
    let mut out = [0xFF; 200];
    // SAFETY: all pointers belong to the arrays beside them, and the handle is filled first.
    unsafe {
        xylem_blake3_hasher_init_keyed(&mut handle, KEY);
        for piece in message.chunks(1_234) {
            xylem_blake3_hasher_update(&mut handle, piece.as_ptr().cast(), piece.len());
        }
        xylem_blake3_hasher_update(&mut handle, null(), 0);
        xylem_blake3_hasher_finalize(&handle, out.as_mut_ptr(), out.len());
        assert_eq!(out, want);
        xylem_blake3_hasher_finalize_seek(&handle, 77, out.as_mut_ptr(), 100);
        assert_eq!(out[..100], want[77..177]);
        xylem_blake3_hasher_finalize(&handle, null_mut(), 0);
        xylem_blake3_hasher_finalize(&handle, out.as_mut_ptr(), 32);
        assert_eq!(out[..32], want[..32]);
    }
}

#[test]
fn output_ends_in_zeros() {
    let mut handle = HasherHandle::zeroed();
    let mut out = [0xFF; 64];
    // SAFETY: the pointers belong to the array beside them, and the handle is filled first.
    unsafe {
        xylem_blake3_hasher_init(&mut handle);
        xylem_blake3_hasher_finalize_seek(&handle, u64::MAX - 10, out.as_mut_ptr(), 64);
        let mut reader = Hasher::new().finalize_xof();
        reader.set_position(u64::MAX - 10);
        let mut last = [0; 10];
        reader.fill(&mut last);
        assert_eq!(out[..10], last);
        assert_eq!(out[10..], [0; 54]);
        xylem_blake3_hasher_finalize_seek(&handle, u64::MAX, out.as_mut_ptr(), 32);
        assert_eq!(out[..32], [0; 32]);
    }
}

#[test]
fn a_bytewise_copy_goes_its_own_way() {
    let mut first = HasherHandle::zeroed();
    let mut out = [[0; OUT_LEN]; 2];
    // SAFETY: as above; in C this is `second = first`.
    unsafe {
        xylem_blake3_hasher_init(&mut first);
        xylem_blake3_hasher_update(&mut first, b"one ".as_ptr().cast(), 4);
        let mut second = ptr::read(&raw const first);
        xylem_blake3_hasher_update(&mut first, b"two".as_ptr().cast(), 3);
        xylem_blake3_hasher_update(&mut second, b"three".as_ptr().cast(), 5);
        for (handle, out) in [&first, &second].into_iter().zip(&mut out) {
            xylem_blake3_hasher_finalize(handle, out.as_mut_ptr(), OUT_LEN);
        }
    }
    let want = ["one two", "one three"].map(|m| *xylem_hash::hash(m.as_bytes()).as_bytes());
    assert_eq!(out, want);
}

#[test]
fn wiping_leaves_zeros_which_are_a_plain_hasher() {
    let secret = b"a message that nobody else reads";
    let mut handle = HasherHandle::zeroed();
    let mut out = [0; OUT_LEN];
    // SAFETY: as above; after wiping, all bytes of the handle are written.
    unsafe {
        xylem_blake3_hasher_init_keyed(&mut handle, KEY);
        xylem_blake3_hasher_update(&mut handle, secret.as_ptr().cast(), secret.len());
        xylem_blake3_hasher_wipe(&mut handle);
        let bytes = slice::from_raw_parts(ptr::from_ref(&handle).cast::<u8>(), HASHER_SIZE);
        assert!(bytes.iter().all(|byte| *byte == 0));
        xylem_blake3_hasher_finalize(&handle, out.as_mut_ptr(), OUT_LEN);
        assert_eq!(out, *xylem_hash::hash(b"").as_bytes());
        xylem_blake3_hasher_reset(&mut handle);
        xylem_blake3_hasher_update(&mut handle, secret.as_ptr().cast(), secret.len());
        xylem_blake3_hasher_finalize(&handle, out.as_mut_ptr(), OUT_LEN);
        assert_eq!(out, *xylem_hash::hash(secret).as_bytes());
    }
}

/// More messages than a window holds; under Miri they are shorter, to save time.
const MANY: usize = 300;
const LONGEST: usize = if cfg!(miri) { 70 } else { 2_500 };
const BLOCK: usize = if cfg!(miri) { 64 } else { 4_096 };

#[test]
fn many_messages_and_blocks() {
    let bytes: Vec<u8> = (0..10 * BLOCK - 1).map(|i| (i / 7) as u8).collect();
    let lens: Vec<usize> = (0..MANY).map(|i| i * 11 % LONGEST).collect();
    let mut inputs: Vec<*const u8> = lens.iter().map(|len| bytes[*len..].as_ptr()).collect();
    inputs[0] = null();
    let message = |i: usize| &bytes[lens[i]..2 * lens[i]];
    let mut out = vec![0xFF; OUT_LEN * MANY];
    // SAFETY: all pointers belong to the arrays beside them.
    unsafe {
        xylem_blake3_hash_many(inputs.as_ptr(), lens.as_ptr(), MANY, out.as_mut_ptr());
        for (i, hash) in out.chunks(OUT_LEN).enumerate() {
            assert_eq!(xylem_hash::hash(message(i)).as_bytes(), hash, "message {i}");
        }
        xylem_blake3_keyed_hash_many(KEY, inputs.as_ptr(), lens.as_ptr(), MANY, out.as_mut_ptr());
        for (i, hash) in out.chunks(OUT_LEN).enumerate() {
            assert_eq!(xylem_hash::keyed_hash(KEY, message(i)).as_bytes(), hash, "message {i}");
        }
        xylem_blake3_hash_many(null(), null(), 0, null_mut());
        let (input, len) = (bytes.as_ptr().cast(), bytes.len());
        assert_eq!(xylem_blake3_hash_blocks(input, len, 0, null_mut()), 0);
        assert_eq!(xylem_blake3_hash_blocks(null(), 0, BLOCK, null_mut()), 0);
        assert_eq!(xylem_blake3_hash_blocks(input, len, BLOCK, out.as_mut_ptr()), 10);
    }
    for (block, hash) in bytes.chunks(BLOCK).zip(out.chunks(OUT_LEN)) {
        assert_eq!(xylem_hash::hash(block).as_bytes(), hash);
    }
}
