//! Kernels for x86-64, in intrinsics.
//!
//! Two shapes of code, each written once as a macro and made for several instruction sets:
//! - [`lanes`]: four or eight independent messages; vector i holds word i of each of them.
//! - [`rows`]: one message; its four vectors are the rows of the state matrix.
//!
//! The functions made here are safe to call from code compiled for the same instruction set and
//! `unsafe` from anywhere else: [`crate::backend`] calls those of a set that it has detected.

mod lanes;
mod rows;
mod words128;
mod words256;

/// Makes the functions that [`crate::backend::Backend`] calls, for the instruction set
/// `$features`: each takes any number of lanes up to `MAX_LANES` and chooses the kernel.
macro_rules! kernel_set {
    ($features:literal, $turn:ident) => {
        use crate::backend::{Cv, Lane, MAX_LANES, Node};
        use crate::constants::{BLOCK_LEN, PARENT};
        use crate::subtree::Mode;

        pub(crate) use single::{chunk_start, compress};

        mod narrow {
            super::super::lanes::lane_kernels!($features, words128, $turn);
        }
        #[target_feature(enable = $features)]
        pub(crate) fn chunks(mode: &Mode, lanes: &[Lane<'_>]) -> [Cv; MAX_LANES] {
            match lanes {
                [] => [[0; 32]; MAX_LANES],
                [lane] => {
                    let mut out = [[0; 32]; MAX_LANES];
                    out[0] = single::chunk(mode, lane);
                    out
                }
                [_, _] | [_, _, _] | [_, _, _, _] => narrow::chunks(mode, lanes),
                _ => wide::chunks(mode, lanes),
            }
        }

        #[target_feature(enable = $features)]
        pub(crate) fn parents(mode: &Mode, pairs: &[[Cv; 2]], end: u32) -> [Cv; MAX_LANES] {
            match pairs {
                [] => [[0; 32]; MAX_LANES],
                [pair] => {
                    let mut out = [[0; 32]; MAX_LANES];
                    out[0] = single::parent(mode, pair, mode.flags() | PARENT | end);
                    out
                }
                [_, _] | [_, _, _] | [_, _, _, _] => narrow::parents(mode, pairs, end),
                _ => wide::parents(mode, pairs, end),
            }
        }

        #[target_feature(enable = $features)]
        pub(crate) fn root_blocks(node: &Node, count: usize) -> [[u8; BLOCK_LEN]; MAX_LANES] {
            if count <= MAX_LANES / 2 { narrow::root_blocks(node) } else { wide::root_blocks(node) }
        }
    };
}

/// SSE4.1: four lanes, and one message in rows.
pub(crate) mod sse41 {
    kernel_set!("sse4.1", by_shift);

    mod single {
        super::super::rows::row_kernels!("sse4.1", by_shift);
    }

    /// Eight lanes as four and four.
    mod wide {
        use super::narrow;
        use crate::backend::{Cv, Lane, MAX_LANES, Node};
        use crate::constants::BLOCK_LEN;
        use crate::subtree::Mode;

        const HALF: usize = MAX_LANES / 2;

        fn both<T: Copy>(mut low: [T; MAX_LANES], high: [T; MAX_LANES]) -> [T; MAX_LANES] {
            low[HALF..].copy_from_slice(&high[..HALF]);
            low
        }

        #[target_feature(enable = "sse4.1")]
        pub(super) fn chunks(mode: &Mode, lanes: &[Lane<'_>]) -> [Cv; MAX_LANES] {
            let (low, high) = lanes.split_at(HALF);
            both(narrow::chunks(mode, low), narrow::chunks(mode, high))
        }

        #[target_feature(enable = "sse4.1")]
        pub(super) fn parents(mode: &Mode, pairs: &[[Cv; 2]], end: u32) -> [Cv; MAX_LANES] {
            let (low, high) = pairs.split_at(HALF);
            both(narrow::parents(mode, low, end), narrow::parents(mode, high, end))
        }

        #[target_feature(enable = "sse4.1")]
        pub(crate) fn root_blocks(node: &Node) -> [[u8; BLOCK_LEN]; MAX_LANES] {
            let mut second = node.clone();
            second.counter = second.counter.wrapping_add(HALF as u64);
            both(narrow::root_blocks(node), narrow::root_blocks(&second))
        }
    }
}

/// AVX2: eight lanes, and the above with three-operand instructions.
pub(crate) mod avx2 {
    kernel_set!("avx2", by_shift);

    pub(super) mod single {
        super::super::rows::row_kernels!("avx2", by_shift);
    }

    mod wide {
        super::super::lanes::lane_kernels!("avx2", words256, by_shift);
    }
}

/// AVX-512VL: the same eight lanes, with rotations in one instruction and twice the registers.
///
/// One message alone is left to AVX2: its speed is that of a chain of instructions, and a rotation
/// (2 cycles on Zen 4) is no shorter than two shifts side by side and their union.
pub(crate) mod avx512 {
    kernel_set!("avx2,avx512f,avx512vl", by_rotate);

    use super::avx2::single;

    mod wide {
        super::super::lanes::lane_kernels!("avx2,avx512f,avx512vl", words256, by_rotate);
    }
}
