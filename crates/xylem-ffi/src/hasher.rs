//! [`HasherHandle`]: a `Hasher` in memory that a C caller owns.

use core::ffi::{CStr, c_char, c_void};
use core::mem::{MaybeUninit, align_of, size_of};
use core::sync::atomic::{Ordering, compiler_fence};

use xylem_hash::hazmat::{HasherExt, hash_derive_key_context_raw};
use xylem_hash::{Hasher, KEY_LEN, OUT_LEN};

use crate::raw;

/// Bytes of a hasher in C: `XYLEM_BLAKE3_HASHER_SIZE`, part of the binary interface.
pub const HASHER_SIZE: usize = 24_576;

const WORDS: usize = HASHER_SIZE / size_of::<u64>();

/// [`Handle::state`] of a handle that holds a hasher: the bytes "xylem b3" in memory order.
const FILLED: u64 = u64::from_ne_bytes(*b"xylem b3");

/// `xylem_blake3_hasher`: memory for a [`Hasher`]. Its size and alignment stay the same when those of the hasher
/// change.
///
/// The hasher has no pointers and the handle no destructor, so C may copy the bytes. Two copies are two hashers, as
/// `Hasher: Clone` would make them, and one that is never destroyed leaks nothing, because it owns nothing.
#[repr(C)]
pub struct HasherHandle {
    /// [`FILLED`], or 0 in memory that is all zero: a plain hasher without input.
    state: u64,
    room: [MaybeUninit<u64>; WORDS - 1],
}

const _: () = assert!(size_of::<HasherHandle>() == HASHER_SIZE, "as the header says");
const _: () = assert!(size_of::<Hasher>() <= size_of::<u64>() * (WORDS - 1), "it outgrew its room");
const _: () = assert!(align_of::<Hasher>() <= align_of::<u64>(), "as uint64_t is aligned");

impl HasherHandle {
    /// All zero.
    #[cfg(test)]
    pub(crate) const fn zeroed() -> Self {
        Self { state: 0, room: [MaybeUninit::new(0); WORDS - 1] }
    }

    /// Stores `hasher` in `this`, without reading the old content.
    ///
    /// # Safety
    /// `this` must be valid for writing a handle.
    #[inline]
    unsafe fn fill(this: *mut Self, hasher: Hasher) {
        // SAFETY: the caller vouches for the handle; the memory is large enough for a hasher and aligned (asserted
        // above).
        unsafe {
            (&raw mut (*this).room).cast::<Hasher>().write(hasher);
            (&raw mut (*this).state).write(FILLED);
        }
    }

    /// Calls `look` with the hasher and returns its result.
    #[inline]
    fn with<R>(&self, look: impl FnOnce(&Hasher) -> R) -> R {
        match self.state {
            // SAFETY: only `fill` writes this state, after a hasher. A copy of a filled handle is filled, because a
            // hasher has no pointers.
            FILLED => look(unsafe { &*self.room.as_ptr().cast::<Hasher>() }),
            0 => look(&Hasher::new()),
            _ => not_begun(),
        }
    }

    /// The hasher, for changes.
    #[inline]
    fn begun(&mut self) -> &mut Hasher {
        match self.state {
            FILLED => {}
            // SAFETY: `self` is a handle.
            0 => unsafe { Self::fill(self, Hasher::new()) },
            _ => not_begun(),
        }
        // SAFETY: as in `with`; and the borrow is exclusive.
        unsafe { &mut *self.room.as_mut_ptr().cast::<Hasher>() }
    }
}

/// Aborts the process, because an `extern "C"` function does not unwind.
#[cold]
fn not_begun() -> ! {
    panic!("a xylem_blake3_hasher was used that is neither zero nor set by an init function");
}

/// Fills `this` with a plain hasher.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_init(this: *mut HasherHandle) {
    // SAFETY: the caller vouches for the handle.
    unsafe { HasherHandle::fill(this, Hasher::new()) };
}

/// Fills `this` with a keyed hasher.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_init_keyed(
    this: *mut HasherHandle,
    key: &[u8; KEY_LEN],
) {
    // SAFETY: the caller vouches for the handle.
    unsafe { HasherHandle::fill(this, Hasher::new_keyed(key)) };
}

/// Fills `this` with a key-deriving hasher; `context` ends with its first NUL.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_init_derive_key(
    this: *mut HasherHandle,
    context: *const c_char,
) {
    // SAFETY: the caller vouches for a string that ends with NUL.
    let context = unsafe { CStr::from_ptr(context) };
    // SAFETY: the caller vouches for the handle.
    unsafe { HasherHandle::fill(this, deriving(context.to_bytes())) };
}

/// Fills `this` with a key-deriving hasher; `context` may have any bytes.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_init_derive_key_raw(
    this: *mut HasherHandle,
    context: *const c_void,
    context_len: usize,
) {
    // SAFETY: the caller vouches for the bytes.
    let context = unsafe { raw::input(context.cast::<u8>(), context_len) };
    // SAFETY: the caller vouches for the handle.
    unsafe { HasherHandle::fill(this, deriving(context)) };
}

/// A key-deriving hasher for a context from C, which need not be UTF-8.
fn deriving(context: &[u8]) -> Hasher {
    Hasher::new_from_context_key(&hash_derive_key_context_raw(context))
}

/// Adds bytes to the message.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_update(
    this: &mut HasherHandle,
    input: *const c_void,
    input_len: usize,
) {
    // SAFETY: the caller vouches for the bytes.
    this.begun().update(unsafe { raw::input(input.cast::<u8>(), input_len) });
}

/// Writes the output from its start.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_finalize(
    this: &HasherHandle,
    out: *mut u8,
    out_len: usize,
) {
    if out_len == OUT_LEN {
        let hash = this.with(Hasher::finalize);
        // SAFETY: the caller vouches for memory for a hash.
        unsafe { out.cast::<[u8; OUT_LEN]>().write(*hash.as_bytes()) };
    } else {
        // SAFETY: the same contract.
        unsafe { xylem_blake3_hasher_finalize_seek(this, 0, out, out_len) };
    }
}

/// Writes the output from byte `seek` on, and zeros after its last byte.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_finalize_seek(
    this: &HasherHandle,
    seek: u64,
    out: *mut u8,
    out_len: usize,
) {
    // SAFETY: the caller vouches for the bytes.
    let out = unsafe { raw::output(out, out_len) };
    let left = usize::try_from(u64::MAX - seek).unwrap_or(usize::MAX);
    let mut reader = this.with(Hasher::finalize_xof);
    reader.set_position(seek);
    reader.fill(&mut out[..left.min(out_len)]);
}

/// Begins a new message in the same mode.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_reset(this: &mut HasherHandle) {
    this.begun().reset();
}

/// Sets all of `this` to zero, by writes that the optimizer keeps.
///
/// The hasher in it is not dropped: it owns nothing, and its destructor would do a part of this.
///
/// # Safety
/// The conditions are those of `include/xylem_blake3.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xylem_blake3_hasher_wipe(this: *mut HasherHandle) {
    for place in 0..WORDS {
        // SAFETY: a handle is that many aligned words; the caller vouches for the pointer.
        unsafe { this.cast::<u64>().add(place).write_volatile(0) };
    }
    compiler_fence(Ordering::SeqCst);
}
