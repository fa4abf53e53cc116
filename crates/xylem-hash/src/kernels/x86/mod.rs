//! Kernels for x86-64, as assembly text.

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

#[cfg(feature = "sha256")]
pub(crate) mod sha256;
mod text;

use crate::backend::Kernels;

pub(crate) static SSE41: Kernels = Kernels {
    name: "sse4.1",
    is_supported: || has!("ssse3", "sse4.1"),
    one: text::sse_one,
    widths: &[(4, text::sse_four)],
    whole: None,
    root_blocks: &[(4, text::sse_blocks)],
};

pub(crate) static AVX2: Kernels = Kernels {
    name: "avx2",
    is_supported: || has!("avx2"),
    one: text::avx2_one,
    widths: &[(2, text::avx2_two), (4, text::avx2_four), (8, text::avx2_eight)],
    whole: None,
    root_blocks: &[(8, text::avx2_blocks)],
};

pub(crate) static AVX512: Kernels = Kernels {
    name: "avx512",
    is_supported: || has!("avx2", "avx512f", "avx512vl"),
    one: text::avx512_one,
    widths: &[(2, text::avx512_two), (4, text::avx512_four), (8, text::eight), (16, text::sixteen)],
    whole: Some(text::chunks),
    root_blocks: &[(16, text::sixteen_blocks), (32, text::thirty_two_blocks)],
};
