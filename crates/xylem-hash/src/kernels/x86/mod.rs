//! Kernels for x86-64: in intrinsics, and the widest as assembly text.

/// Whether code compiled for these instruction sets may run: asked of the processor, or without
/// `std` (which knows how to ask), of the target that this crate is compiled for.
macro_rules! has {
    ($($feature:tt),*) => {{
        #[cfg(feature = "std")]
        let yes = $(std::arch::is_x86_feature_detected!($feature))&&*;
        #[cfg(not(feature = "std"))]
        let yes = $(cfg!(target_feature = $feature))&&*;
        yes
    }};
}

mod rows;
pub(crate) mod sha256;
mod text;
mod words128;
mod words256;
mod words512;

use super::lanes::{lane_kernel, output_kernel};
use super::rows::{row_kernel, single_kernel};
use crate::backend::Kernels;

pub(crate) static SSE41: Kernels = Kernels {
    name: "sse4.1",
    is_supported: || has!("sse4.1"),
    compress: sse41_one::compress,
    chunk_start: sse41_one::chunk_start,
    chunk: sse41_one::chunk,
    widths: &[(4, sse41_lanes::run)],
    whole: None,
    root_blocks: &[(4, sse41_lanes::root_blocks)],
};

mod sse41_one {
    super::single_kernel!("sse4.1", super::rows::one);
}

mod sse41_lanes {
    super::lane_kernel!("sse4.1", super::words128::by_shift, rounds: looped);
    super::output_kernel!("sse4.1", super::words128::by_shift);
}

pub(crate) static AVX2: Kernels = Kernels {
    name: "avx2",
    is_supported: || has!("avx2"),
    compress: avx2_one::compress,
    chunk_start: avx2_one::chunk_start,
    chunk: avx2_one::chunk,
    widths: &[(2, avx2_two::run), (4, avx2_four::run), (8, avx2_lanes::run)],
    whole: None,
    root_blocks: &[(8, avx2_lanes::root_blocks)],
};

mod avx2_one {
    super::single_kernel!("avx2", super::rows::one);
}

mod avx2_two {
    super::row_kernel!("avx2", super::rows::two);
}

mod avx2_four {
    super::row_kernel!("avx2", super::rows::two_and_two);
}

mod avx2_lanes {
    super::lane_kernel!("avx2", super::words256::by_shift, rounds: in_a_row);
    super::output_kernel!("avx2", super::words256::by_shift);
}

pub(crate) static AVX512: Kernels = Kernels {
    name: "avx512",
    is_supported: || has!("avx2", "avx512f", "avx512vl"),
    compress: avx512_one::compress,
    chunk_start: avx512_one::chunk_start,
    chunk: avx512_one::chunk,
    widths: &[(2, avx512_two::run), (4, avx512_four::run), (8, text::eight), (16, text::sixteen)],
    whole: Some(text::chunks),
    root_blocks: &[(16, text::sixteen_blocks), (32, text::thirty_two_blocks)],
};

mod avx512_one {
    super::single_kernel!("avx2,avx512f,avx512vl", super::rows::one_permuted);
}

mod avx512_two {
    super::row_kernel!("avx2,avx512f,avx512vl", super::rows::two_rotated);
}

mod avx512_four {
    super::row_kernel!("avx2,avx512f,avx512vl", super::rows::two_and_two_rotated);
}
