//! Raw exports over `xylem-hash` for `check.mjs`, which runs the official vectors and random messages through two
//! builds of this module (with and without simd128).
//!
//! Everything passes through three fixed buffers in the module's memory: `input` (messages, or a context), `output`,
//! and `key`. There is one hasher. Lengths come from the script and are checked: a wrong one traps.

use std::cell::RefCell;

use xylem_hash::{Hash, Hasher, hash, hash_blocks, hash_many, keyed_hash, platform};

struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    key: [u8; 32],
    hasher: Hasher,
}

const CAPACITY: usize = 1 << 20;

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State {
        input: vec![0; CAPACITY],
        output: vec![0; CAPACITY],
        key: [0; 32],
        hasher: Hasher::new(),
    });
}

/// Exports a function on the state.
macro_rules! exports {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? { |$state:ident| $body:expr })*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                STATE.with_borrow_mut(|$state| $body)
            }
        )*
    };
}

exports! {
    input() -> *mut u8 { |s| s.input.as_mut_ptr() }
    output() -> *mut u8 { |s| s.output.as_mut_ptr() }
    key() -> *mut u8 { |s| s.key.as_mut_ptr() }
    /// Writes the backend's name to the output.
    name() -> usize { |s| put(&mut s.output, platform().as_bytes()) }
    /// One-shot hash of the input's first bytes.
    plain(len: usize) -> usize { |s| put(&mut s.output, hash(&s.input[..len]).as_bytes()) }
    keyed(len: usize) -> usize {
        |s| put(&mut s.output, keyed_hash(&s.key, &s.input[..len]).as_bytes())
    }
    /// A new hasher: plain (0), keyed (1), deriving for the context at the input's start (2).
    begin(mode: u32, context: usize) {
        |s| s.hasher = match mode {
            0 => Hasher::new(),
            1 => Hasher::new_keyed(&s.key),
            _ => Hasher::new_derive_key(str::from_utf8(&s.input[..context]).expect("UTF-8")),
        }
    }
    update(from: usize, len: usize) {
        |s| {
            s.hasher.update(&s.input[from..from + len]);
        }
    }
    finish(seek: u64, len: usize) {
        |s| {
            let mut reader = s.hasher.finalize_xof();
            reader.set_position(seek);
            reader.fill(&mut s.output[..len]);
        }
    }
    /// `count` contiguous messages; message i has `first + i * step` bytes.
    many(count: usize, first: usize, step: usize) {
        |s| {
            let mut rest = &s.input[..];
            let messages: Vec<&[u8]> = (0..count)
                .map(|i| rest.split_off(..first + i * step).expect("messages fit the input"))
                .collect();
            let mut hashes = vec![Hash::from_bytes([0; 32]); count];
            hash_many(&messages, &mut hashes);
            for (place, hash) in s.output.as_chunks_mut::<32>().0.iter_mut().zip(&hashes) {
                *place = *hash.as_bytes();
            }
        }
    }
    blocks(len: usize, block: usize) {
        |s| {
            let mut hashes = vec![Hash::from_bytes([0; 32]); len.div_ceil(block)];
            hash_blocks(&s.input[..len], block, &mut hashes);
            for (place, hash) in s.output.as_chunks_mut::<32>().0.iter_mut().zip(&hashes) {
                *place = *hash.as_bytes();
            }
        }
    }
}

fn put(output: &mut [u8], bytes: &[u8]) -> usize {
    output[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}
