//! Vectors with four words of each message, for [`crate::kernels::rows`].

use core::arch::wasm32::*;

/// One message.
pub(super) mod one {
    use super::super::words;
    use super::*;

    pub(in super::super) use super::super::words::{
        V, add, held, load as same, right_7, right_8, right_12, right_16, xor,
    };

    #[inline]
    #[target_feature(enable = "simd128")]
    pub(crate) fn rotate_lanes_1(a: V) -> V {
        i32x4_shuffle::<1, 2, 3, 0>(a, a)
    }

    #[inline]
    #[target_feature(enable = "simd128")]
    pub(crate) fn rotate_lanes_2(a: V) -> V {
        i32x4_shuffle::<2, 3, 0, 1>(a, a)
    }

    #[inline]
    #[target_feature(enable = "simd128")]
    pub(crate) fn rotate_lanes_3(a: V) -> V {
        i32x4_shuffle::<3, 0, 1, 2>(a, a)
    }

    /// The words of a block in the order of the next round: (0 2 4 6), (1 3 5 7), (14 8 10 12), (15 9 11 13). These are
    /// the first and second words of the columns, then those of the diagonals, with rows rotated so that they begin
    /// with the last word.
    pub(crate) struct Schedule([V; 4]);

    impl Schedule {
        /// # Safety
        /// The pointer is to a block.
        #[inline]
        #[target_feature(enable = "simd128")]
        pub(crate) unsafe fn new([at]: [*const u8; 1]) -> Self {
            // SAFETY: guaranteed by the caller; the load needs no alignment.
            let part = |i: usize| unsafe { v128_load(at.wrapping_add(16 * i).cast()) };
            let [w0, w1, w2, w3] = [part(0), part(1), part(2), part(3)];
            Self([
                i32x4_shuffle::<0, 2, 4, 6>(w0, w1),
                i32x4_shuffle::<1, 3, 5, 7>(w0, w1),
                i32x4_shuffle::<6, 0, 2, 4>(w2, w3),
                i32x4_shuffle::<7, 1, 3, 5>(w2, w3),
            ])
        }

        /// The words of this round; call it for each round in order. The numbers in the comments are this round's; a
        /// dot stands for any word.
        #[inline]
        #[target_feature(enable = "simd128")]
        pub(crate) fn words(&mut self, _round: usize) -> [V; 4] {
            let [m0, m1, m2, m3] = self.0;
            let n0 = i32x4_shuffle::<1, 5, 7, 2>(m0, m1); // 2 3 7 4
            let a = i32x4_shuffle::<2, 7, 2, 7>(m2, m3); // 10 13 . .
            let n1 = i32x4_shuffle::<3, 4, 0, 5>(m0, a); // 6 10 0 13
            let b = i32x4_shuffle::<0, 4, 1, 5>(m3, m1); // 15 1 9 .
            let n2 = i32x4_shuffle::<0, 1, 7, 2>(b, m2); // 15 1 12 9
            let c = i32x4_shuffle::<1, 6, 1, 0>(m2, m3); // 8 11 . 14
            let n3 = i32x4_shuffle::<0, 1, 6, 3>(c, m1); // 8 11 5 14
            self.0 = [n0, n1, n2, n3];
            [m0, m1, m2, m3]
        }
    }

    /// Passes the words of message i to `take(i, words)`.
    #[inline]
    #[target_feature(enable = "simd128")]
    pub(crate) fn split(a: V, mut take: impl FnMut(usize, [u32; 4])) {
        let mut words = [0; 4];
        words::store(a, &mut words);
        take(0, words);
    }
}

/// Two messages as two vectors side by side, as a single one waits for its own results most of the time.
pub(super) mod one_and_one {
    use super::{one, *};
    use core::array::from_fn;

    pub(crate) type V = [one::V; 2];
    pub(crate) const MESSAGES: usize = 2;

    pub(crate) fn each(f: impl Fn(usize) -> *const u8) -> [*const u8; 2] {
        [f(0), f(1)]
    }

    macro_rules! on_both {
        ($($name:ident($($a:ident),+);)*) => {
            $(
                #[inline]
                #[target_feature(enable = "simd128")]
                pub(crate) fn $name($($a: V),+) -> V {
                    [one::$name($($a[0]),+), one::$name($($a[1]),+)]
                }
            )*
        };
    }

    on_both! {
        add(a, b); xor(a, b); held(a); right_16(a); right_12(a); right_8(a); right_7(a);
        rotate_lanes_1(a); rotate_lanes_2(a); rotate_lanes_3(a);
    }

    pub(crate) struct Schedule([one::Schedule; 2]);

    impl Schedule {
        /// # Safety
        /// The pointers are to blocks.
        #[inline]
        #[target_feature(enable = "simd128")]
        pub(crate) unsafe fn new([a, b]: [*const u8; 2]) -> Self {
            // SAFETY: guaranteed by the caller.
            unsafe { Self([one::Schedule::new([a]), one::Schedule::new([b])]) }
        }

        #[inline]
        #[target_feature(enable = "simd128")]
        pub(crate) fn words(&mut self, round: usize) -> [V; 4] {
            let (a, b) = (self.0[0].words(round), self.0[1].words(round));
            from_fn(|i| [a[i], b[i]])
        }
    }

    #[inline]
    #[target_feature(enable = "simd128")]
    pub(crate) fn same(words: &[u32; 4]) -> V {
        [one::same(words); 2]
    }

    /// # Safety
    /// The pointers are valid for 16 bytes.
    #[inline]
    #[target_feature(enable = "simd128")]
    pub(crate) unsafe fn join(at: [*const u8; 2]) -> V {
        // SAFETY: guaranteed by the caller; the loads need no alignment.
        at.map(|at| unsafe { v128_load(at.cast()) })
    }

    #[inline]
    #[target_feature(enable = "simd128")]
    pub(crate) fn split(a: V, mut take: impl FnMut(usize, [u32; 4])) {
        one::split(a[0], |_, words| take(0, words));
        one::split(a[1], |_, words| take(1, words));
    }
}
