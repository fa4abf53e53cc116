//! Vectors of four words each, for [`crate::kernels::lanes`].

use core::arch::aarch64::*;

use crate::backend::MAX_LANES;
use crate::constants::BLOCK_LEN;

/// Four lanes, one vector.
pub(super) mod four {
    use super::*;

    pub(crate) use core::arch::aarch64::{
        uint32x4_t as V, vaddq_u32 as add, vdupq_n_u32 as splat, veorq_u32 as xor,
    };

    pub(crate) const LANES: usize = 4;

    /// The first words of `words`.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn load<const N: usize>(words: &[u32; N]) -> V {
        const { assert!(N >= LANES) };
        // SAFETY: the reference is valid for 16 bytes.
        unsafe { vld1q_u32(words.as_ptr()) }
    }

    /// Returns `a` through an empty assembly statement, so that the compiler cannot reorder operations across it.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn held(mut a: V) -> V {
        // SAFETY: no instruction, no effect.
        unsafe {
            core::arch::asm!("/* {0:v} */", inout(vreg) a, options(pure, nomem, nostack, preserves_flags));
        }
        a
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn right_16(a: V) -> V {
        vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(a)))
    }

    /// Uses a byte shuffle: one instruction instead of two shifts, for one register with the byte order.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn right_8(a: V) -> V {
        const ORDER: [u8; 16] = [1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12];
        // SAFETY: the reference is valid for 16 bytes.
        let order = unsafe { vld1q_u8(ORDER.as_ptr()) };
        vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(a), order))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn right_12(a: V) -> V {
        vsriq_n_u32::<12>(held(vshlq_n_u32::<20>(a)), a)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn right_7(a: V) -> V {
        vsriq_n_u32::<7>(held(vshlq_n_u32::<25>(a)), a)
    }

    /// Loads blocks: vector i of the result has word i of the block at `offset` from each pointer.
    ///
    /// # Safety
    /// The pointers are to blocks.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) unsafe fn load_blocks(at: &[*const u8], offset: usize) -> [V; 16] {
        // SAFETY: guaranteed by the caller.
        unsafe { load_group(at, offset, 0) }
    }

    /// Loads values: vector i of the result has word i of each.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn load_cvs(cvs: &[[u32; 8]]) -> [V; 8] {
        load_group_cvs(cvs, 0)
    }

    /// The inverse of [`load_cvs`].
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn store_cvs(v: &[V; 8], cvs: &mut [[u32; 8]]) {
        store_group_cvs(v, cvs, 0);
    }
}

/// Eight lanes, two vectors side by side.
pub(super) mod four_and_four {
    use super::{four, *};
    use core::array::from_fn;

    pub(crate) type V = [four::V; 2];

    pub(crate) const LANES: usize = 8;

    macro_rules! on_both {
        ($($name:ident($($a:ident),+);)*) => {
            $(
                #[inline]
                #[target_feature(enable = "neon")]
                pub(crate) fn $name($($a: V),+) -> V {
                    [four::$name($($a[0]),+), four::$name($($a[1]),+)]
                }
            )*
        };
    }

    on_both! {
        add(a, b); xor(a, b); held(a); right_16(a); right_12(a); right_8(a); right_7(a);
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn splat(word: u32) -> V {
        [four::splat(word); 2]
    }

    /// The first words of `words`.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn load<const N: usize>(words: &[u32; N]) -> V {
        const { assert!(N >= LANES) };
        let groups = words.as_chunks::<4>().0;
        [four::load(&groups[0]), four::load(&groups[1])]
    }

    /// As [`four::load_blocks`].
    ///
    /// # Safety
    /// The pointers are to blocks.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) unsafe fn load_blocks(at: &[*const u8], offset: usize) -> [V; 16] {
        // SAFETY: guaranteed by the caller.
        let (low, high) = unsafe { (load_group(at, offset, 0), load_group(at, offset, 1)) };
        from_fn(|i| [low[i], high[i]])
    }

    /// As [`four::load_cvs`].
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn load_cvs(cvs: &[[u32; 8]]) -> [V; 8] {
        let (low, high) = (load_group_cvs(cvs, 0), load_group_cvs(cvs, 1));
        from_fn(|i| [low[i], high[i]])
    }

    /// The inverse of [`load_cvs`].
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn store_cvs(v: &[V; 8], cvs: &mut [[u32; 8]]) {
        for group in 0..2 {
            store_group_cvs(&v.map(|v| v[group]), cvs, group);
        }
    }

    /// Stores all sixteen words, lane by lane: the inverse of [`load_blocks`].
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn store_blocks(v: [V; 16], out: &mut [[u8; BLOCK_LEN]; LANES]) {
        for group in 0..2 {
            store_group(v.map(|v| v[group]), out, group);
        }
    }
}

// For lanes 4 * group and the three after it:

/// # Safety
/// The pointers are to blocks.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_group(at: &[*const u8], offset: usize, group: usize) -> [uint32x4_t; 16] {
    let at = &at.as_chunks::<4>().0[group];
    let mut m = [vdupq_n_u32(0); 16];
    for (quarter, words) in m.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let part = |i: usize| {
            let from = at[i].wrapping_add(offset + 16 * quarter);
            // SAFETY: guaranteed by the caller; a load of bytes needs no alignment.
            vreinterpretq_u32_u8(unsafe { vld1q_u8(from) })
        };
        *words = transpose([part(0), part(1), part(2), part(3)]);
    }
    m
}

#[inline]
#[target_feature(enable = "neon")]
fn load_group_cvs(cvs: &[[u32; 8]], group: usize) -> [uint32x4_t; 8] {
    let cvs = &cvs.as_chunks::<4>().0[group];
    let mut v = [vdupq_n_u32(0); 8];
    for (half, words) in v.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let part = |i: usize| four::load(&cvs[i].as_chunks::<4>().0[half]);
        *words = transpose([part(0), part(1), part(2), part(3)]);
    }
    v
}

#[inline]
#[target_feature(enable = "neon")]
fn store_group_cvs(v: &[uint32x4_t; 8], cvs: &mut [[u32; 8]], group: usize) {
    let cvs = &mut cvs.as_chunks_mut::<4>().0[group];
    for (half, words) in v.as_chunks::<4>().0.iter().enumerate() {
        for (i, part) in transpose(*words).into_iter().enumerate() {
            let place = &mut cvs[i].as_chunks_mut::<4>().0[half];
            // SAFETY: the reference is valid for 16 bytes.
            unsafe { vst1q_u32(place.as_mut_ptr(), part) };
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn store_group(v: [uint32x4_t; 16], out: &mut [[u8; BLOCK_LEN]; 8], group: usize) {
    let out = &mut out.as_chunks_mut::<4>().0[group];
    for (quarter, words) in v.as_chunks::<4>().0.iter().enumerate() {
        for (i, part) in transpose(*words).into_iter().enumerate() {
            let place = &mut out[i].as_chunks_mut::<16>().0[quarter];
            // SAFETY: the reference is valid for 16 bytes; a store of bytes needs no alignment.
            unsafe { vst1q_u8(place.as_mut_ptr(), vreinterpretq_u8_u32(part)) };
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn transpose([a, b, c, d]: [uint32x4_t; 4]) -> [uint32x4_t; 4] {
    // Pairs of words: a0 b0 a2 b2, and so on; then pairs of pairs.
    let pairs =
        |a, b| (vreinterpretq_u64_u32(vtrn1q_u32(a, b)), vreinterpretq_u64_u32(vtrn2q_u32(a, b)));
    let ((ab_even, ab_odd), (cd_even, cd_odd)) = (pairs(a, b), pairs(c, d));
    [
        vreinterpretq_u32_u64(vtrn1q_u64(ab_even, cd_even)),
        vreinterpretq_u32_u64(vtrn1q_u64(ab_odd, cd_odd)),
        vreinterpretq_u32_u64(vtrn2q_u64(ab_even, cd_even)),
        vreinterpretq_u32_u64(vtrn2q_u64(ab_odd, cd_odd)),
    ]
}
