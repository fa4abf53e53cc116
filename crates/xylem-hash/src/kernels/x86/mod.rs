//! Kernels for x86-64, as assembly text.

/// Returns whether code for these instruction sets may run. With `std` the processor is asked; without it the target
/// for which this crate is compiled decides.
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
use crate::batch::Run;

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

/// AVX-512 kernels, except the one for four messages.
const fn avx512(is_supported: fn() -> bool, widths: &'static [(usize, Run)]) -> Kernels {
    Kernels {
        name: "avx512",
        is_supported,
        one: text::avx512_one,
        widths,
        whole: Some(text::chunks),
        root_blocks: &[(16, text::sixteen_blocks), (32, text::thirty_two_blocks)],
    }
}

pub(crate) static AVX512: Kernels = avx512(
    || (AVX512_IN_HALVES.is_supported)() && !takes_halves(),
    &[(2, text::avx512_two), (4, text::avx512_four), (8, text::eight), (16, text::sixteen)],
);

/// For processors on which a 512-bit operation takes as long as two of 256 bits: four messages as two pairs.
pub(crate) static AVX512_IN_HALVES: Kernels = avx512(
    || has!("avx2", "avx512f", "avx512vl"),
    &[(2, text::avx512_two), (4, text::avx512_two_pairs), (8, text::eight), (16, text::sixteen)],
);

/// Returns whether this is a Zen 4: of AMD's family 0x19, which begins with Zen 3, only these have AVX-512. No other
/// vendor has an extended family of ten.
fn takes_halves() -> bool {
    let version: u32;
    // SAFETY: all x86-64 processors have the instruction and this leaf; `rbx`, which the compiler reserves, is
    // restored.
    unsafe {
        core::arch::asm!(
            "mov {kept}, rbx",
            "cpuid",
            "mov rbx, {kept}",
            kept = out(reg) _,
            inout("eax") 1 => version,
            out("ecx") _,
            out("edx") _,
            options(nomem, nostack, preserves_flags),
        );
    }
    version >> 20 & 0xff == 10
}
