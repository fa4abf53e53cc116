//! Kernels for WebAssembly with vectors of 128 bits (simd128).
//!
//! A module cannot query its engine's features: an engine without these instructions refuses the module. So this
//! backend exists if, and only if, the crate is compiled for them (`-C target-feature=+simd128`).

mod rows;
mod words;

use super::lanes::{lane_kernel, output_kernel};
use super::rows::{row_kernel, single_kernel};
use crate::backend::Kernels;

pub(crate) static SIMD128: Kernels = Kernels {
    name: "simd128",
    is_supported: || true,
    one: one::run,
    widths: &[(2, two::run), (4, four_lanes::run)],
    whole: None,
    root_blocks: &[(4, four_lanes::root_blocks)],
};

mod one {
    super::single_kernel!("simd128", super::rows::one);
}

mod two {
    super::row_kernel!("simd128", super::rows::one_and_one);
}

mod four_lanes {
    super::lane_kernel!("simd128", super::words);
    super::output_kernel!("simd128", super::words);
}
