//! Vectors whose every four words belong to one message: what [`crate::kernels::rows`] asks for.

use core::arch::x86_64::*;

/// The argument of a shuffle of four words, lowest first.
const fn order(a: i32, b: i32, c: i32, d: i32) -> i32 {
    a | b << 2 | c << 4 | d << 6
}

/// Makes `rotate_lanes_*` and `Schedule` of the shuffles that stay inside four words.
///
/// A round's words stand in the order (0 2 4 6), (1 3 5 7), (14 8 10 12), (15 9 11 13): what the
/// columns take first and second, and then the diagonals, whose rows are turned so that they begin
/// with the last one.
macro_rules! shuffled {
    ($features:literal, $shuffle:ident, $pick:ident, $low_words:ident, $blend:ident) => {
        #[inline]
        #[target_feature(enable = $features)]
        pub(crate) fn rotate_lanes_1(a: V) -> V {
            $shuffle::<{ order(1, 2, 3, 0) }>(a)
        }

        #[inline]
        #[target_feature(enable = $features)]
        pub(crate) fn rotate_lanes_2(a: V) -> V {
            $shuffle::<{ order(2, 3, 0, 1) }>(a)
        }

        #[inline]
        #[target_feature(enable = $features)]
        pub(crate) fn rotate_lanes_3(a: V) -> V {
            $shuffle::<{ order(3, 0, 1, 2) }>(a)
        }

        /// The words of a block in the order of the next round.
        pub(crate) struct Shuffled([V; 4]);

        impl Shuffled {
            /// # Safety
            /// The pointers are to blocks.
            #[inline]
            #[target_feature(enable = $features)]
            pub(crate) unsafe fn new(at: [*const u8; MESSAGES]) -> Self {
                // SAFETY: the caller's promise.
                let part = |i: usize| unsafe { join(each(|lane| at[lane].wrapping_add(16 * i))) };
                let [w0, w1, w2, w3] = [part(0), part(1), part(2), part(3)];
                Self([
                    $pick::<{ order(0, 2, 0, 2) }>(w0, w1),
                    $pick::<{ order(1, 3, 1, 3) }>(w0, w1),
                    rotate_lanes_3($pick::<{ order(0, 2, 0, 2) }>(w2, w3)),
                    rotate_lanes_3($pick::<{ order(1, 3, 1, 3) }>(w2, w3)),
                ])
            }

            /// The words of this round; call it for one round after the other. The numbers in the
            /// comments are this round's.
            #[inline]
            #[target_feature(enable = $features)]
            pub(crate) fn words(&mut self, _round: usize) -> [V; 4] {
                let [m0, m1, m2, m3] = self.0;
                let a = $pick::<{ order(1, 2, 1, 3) }>(m0, m1); // 2 4 3 7
                let n0 = $shuffle::<{ order(0, 2, 3, 1) }>(a); // 2 3 7 4
                let b = $blend::<0b1000>(m2, m3); // 14 8 10 13
                let b = $pick::<{ order(3, 0, 2, 3) }>(m0, b); // 6 0 10 13
                let n1 = $shuffle::<{ order(0, 2, 1, 3) }>(b); // 6 10 0 13
                let c = $low_words(m3, m1); // 15 1 9 3
                let d = $blend::<0b0010>(m2, m3); // 14 9 10 12
                let n2 = $pick::<{ order(0, 1, 3, 1) }>(c, d); // 15 1 12 9
                let e = $blend::<0b0100>(m2, m3); // 14 8 11 12
                let f = $blend::<0b0100>(m2, m1); // 14 8 5 12
                let n3 = $pick::<{ order(1, 2, 2, 0) }>(e, f); // 8 11 5 14
                self.0 = [n0, n1, n2, n3];
                [m0, m1, m2, m3]
            }
        }
    };
}

/// One message, SSE4.1.
pub(super) mod one {
    use super::super::words128;
    use super::*;
    use core::arch::x86_64::{_mm_shuffle_epi32 as shuffle, _mm_unpacklo_epi32 as low_words};

    pub(in super::super) use super::super::words128::by_shift::{
        held, right_7, right_8, right_12, right_16,
    };
    pub(in super::super) use super::super::words128::{V, add, load as same, xor};
    pub(in super::super) use Shuffled as Schedule;

    pub(crate) const MESSAGES: usize = 1;

    /// An array without `array::from_fn`, which takes long to compile.
    fn each(f: impl Fn(usize) -> *const u8) -> [*const u8; 1] {
        [f(0)]
    }

    shuffled!("sse4.1", shuffle, pick, low_words, blend);

    #[inline]
    #[target_feature(enable = "sse4.1")]
    fn pick<const ABCD: i32>(a: V, b: V) -> V {
        _mm_castps_si128(_mm_shuffle_ps::<ABCD>(_mm_castsi128_ps(a), _mm_castsi128_ps(b)))
    }

    /// Those words of `b` whose bits are set, else those of `a`.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    fn blend<const BITS: i32>(a: V, b: V) -> V {
        let mask = _mm_setr_epi32(-(BITS & 1), -(BITS >> 1 & 1), -(BITS >> 2 & 1), -(BITS >> 3));
        _mm_blendv_epi8(a, b, mask)
    }

    /// # Safety
    /// The pointer is valid for 16 bytes.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) unsafe fn join(at: [*const u8; 1]) -> V {
        // SAFETY: the caller's promise; the load needs no alignment.
        unsafe { _mm_loadu_si128(at[0].cast()) }
    }

    /// Hands the words of message i to `take(i, words)`.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) fn split(a: V, mut take: impl FnMut(usize, [u32; 4])) {
        let mut words = [0; 4];
        words128::store(a, &mut words);
        take(0, words);
    }
}

/// One message, AVX-512VL: words in order by one permutation of all sixteen.
pub(super) mod one_permuted {
    use super::*;
    use crate::constants::{ROUNDS, SCHEDULE};

    pub(in super::super) use super::super::words128::by_rotate::{
        right_7, right_8, right_12, right_16,
    };
    pub(in super::super) use super::one::{
        V, add, held, rotate_lanes_1, rotate_lanes_2, rotate_lanes_3, same, split, xor,
    };

    /// Both halves of the order in which [`shuffled`] has the words.
    static ORDER: [[[u32; 8]; 2]; ROUNDS] = {
        const PLACES: [usize; 16] = [0, 2, 4, 6, 1, 3, 5, 7, 14, 8, 10, 12, 15, 9, 11, 13];
        let mut table = [[[0; 8]; 2]; ROUNDS];
        let mut i = 0;
        while i < 16 * ROUNDS {
            table[i / 16][i / 8 % 2][i % 8] = SCHEDULE[i / 16][PLACES[i % 16]];
            i += 1;
        }
        table
    };

    pub(crate) struct Schedule([__m256i; 2]);

    impl Schedule {
        /// # Safety
        /// The pointer is to a block.
        #[inline]
        #[target_feature(enable = "avx2,avx512f,avx512vl")]
        pub(crate) unsafe fn new([at]: [*const u8; 1]) -> Self {
            // SAFETY: the caller's promise; the loads need no alignment.
            let half = |i: usize| unsafe { _mm256_loadu_si256(at.wrapping_add(32 * i).cast()) };
            Self([half(0), half(1)])
        }

        /// The words of this round, in the order of [`shuffled`].
        #[inline]
        #[target_feature(enable = "avx2,avx512f,avx512vl")]
        pub(crate) fn words(&mut self, round: usize) -> [V; 4] {
            let half = |i: usize| {
                let order = super::super::words256::load(&ORDER[round][i]);
                _mm256_permutex2var_epi32(self.0[0], order, self.0[1])
            };
            let (columns, diagonals) = (half(0), half(1));
            [
                _mm256_castsi256_si128(columns),
                _mm256_extracti128_si256::<1>(columns),
                _mm256_castsi256_si128(diagonals),
                _mm256_extracti128_si256::<1>(diagonals),
            ]
        }
    }
}

/// Two messages, AVX2.
pub(super) mod two {
    use super::super::{words128, words256};
    use super::*;
    use core::arch::x86_64::{
        _mm256_blend_epi32 as blend_words, _mm256_shuffle_epi32 as shuffle,
        _mm256_unpacklo_epi32 as low_words,
    };

    pub(in super::super) use super::super::words256::by_shift::{
        right_7, right_8, right_12, right_16,
    };
    pub(in super::super) use super::super::words256::{V, add, held, xor};
    pub(in super::super) use Shuffled as Schedule;

    pub(crate) const MESSAGES: usize = 2;

    #[inline]
    pub(crate) fn each(f: impl Fn(usize) -> *const u8) -> [*const u8; 2] {
        [f(0), f(1)]
    }

    shuffled!("avx2", shuffle, pick, low_words, blend);

    #[inline]
    #[target_feature(enable = "avx2")]
    fn pick<const ABCD: i32>(a: V, b: V) -> V {
        _mm256_castps_si256(_mm256_shuffle_ps::<ABCD>(
            _mm256_castsi256_ps(a),
            _mm256_castsi256_ps(b),
        ))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn blend<const BITS: i32>(a: V, b: V) -> V {
        match BITS {
            0b1000 => blend_words::<0b1000_1000>(a, b),
            0b0100 => blend_words::<0b0100_0100>(a, b),
            _ => blend_words::<0b0010_0010>(a, b),
        }
    }

    /// The same words for both messages.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn same(words: &[u32; 4]) -> V {
        _mm256_broadcastsi128_si256(words128::load(words))
    }

    /// # Safety
    /// The pointers are valid for 16 bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn join([low, high]: [*const u8; 2]) -> V {
        // SAFETY: the caller's promise.
        unsafe { words256::join(low, high) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn split(a: V, mut take: impl FnMut(usize, [u32; 4])) {
        let mut words = [0; 4];
        words128::store(_mm256_castsi256_si128(a), &mut words);
        take(0, words);
        words128::store(_mm256_extracti128_si256::<1>(a), &mut words);
        take(1, words);
    }
}

/// Two messages, AVX-512VL.
pub(super) mod two_rotated {
    pub(in super::super) use super::super::words256::by_rotate::{
        right_7, right_8, right_12, right_16,
    };
    pub(in super::super) use super::two::{
        MESSAGES, Schedule, V, add, each, held, join, rotate_lanes_1, rotate_lanes_2,
        rotate_lanes_3, same, split, xor,
    };
}

/// Makes the module of four messages as two vectors of two, side by side, because one alone waits
/// for its own results half of the time.
macro_rules! pairs {
    ($name:ident, $two:ident, $features:literal, $($function:ident($($a:ident),+);)*) => {
        pub(super) mod $name {
            use super::$two as two;

            pub(crate) type V = [two::V; 2];
            pub(crate) const MESSAGES: usize = 4;

            #[inline]
            pub(crate) fn each(f: impl Fn(usize) -> *const u8) -> [*const u8; 4] {
                [f(0), f(1), f(2), f(3)]
            }

            $(
                #[inline]
                #[target_feature(enable = $features)]
                pub(crate) fn $function($($a: V),+) -> V {
                    [two::$function($($a[0]),+), two::$function($($a[1]),+)]
                }
            )*

            pub(crate) struct Schedule([two::Schedule; 2]);

            impl Schedule {
                /// # Safety
                /// The pointers are to blocks.
                #[inline]
                #[target_feature(enable = $features)]
                pub(crate) unsafe fn new([a, b, c, d]: [*const u8; 4]) -> Self {
                    // SAFETY: the caller's promise.
                    unsafe { Self([two::Schedule::new([a, b]), two::Schedule::new([c, d])]) }
                }

                #[inline]
                #[target_feature(enable = $features)]
                pub(crate) fn words(&mut self, round: usize) -> [V; 4] {
                    let (low, high) = (self.0[0].words(round), self.0[1].words(round));
                    [[low[0], high[0]], [low[1], high[1]], [low[2], high[2]], [low[3], high[3]]]
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            pub(crate) fn same(words: &[u32; 4]) -> V {
                [two::same(words); 2]
            }

            /// # Safety
            /// The pointers are valid for 16 bytes.
            #[inline]
            #[target_feature(enable = $features)]
            pub(crate) unsafe fn join([a, b, c, d]: [*const u8; 4]) -> V {
                // SAFETY: the caller's promise.
                unsafe { [two::join([a, b]), two::join([c, d])] }
            }

            #[inline]
            #[target_feature(enable = $features)]
            pub(crate) fn split(a: V, mut take: impl FnMut(usize, [u32; 4])) {
                two::split(a[0], &mut take);
                two::split(a[1], |i, words| take(2 + i, words));
            }
        }
    };
}

pairs!(
    two_and_two, two, "avx2",
    add(a, b); xor(a, b); held(a); right_16(a); right_12(a); right_8(a); right_7(a);
    rotate_lanes_1(a); rotate_lanes_2(a); rotate_lanes_3(a);
);

pairs!(
    two_and_two_rotated, two_rotated, "avx2,avx512f,avx512vl",
    add(a, b); xor(a, b); held(a); right_16(a); right_12(a); right_8(a); right_7(a);
    rotate_lanes_1(a); rotate_lanes_2(a); rotate_lanes_3(a);
);
