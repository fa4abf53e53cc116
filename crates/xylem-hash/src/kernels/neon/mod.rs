//! Kernels for AArch64, in NEON intrinsics. Every such processor has NEON, so nothing is detected.
//!
//! A vector operation on these processors has a latency of two cycles or more; a scalar one, rotations included, has
//! one. Two things follow:
//! - One message uses scalar code. As rows (as on x86-64) it would wait for the chain of
//!   fourteen vector operations of each half round.
//! - Four lanes also wait for their own results on processors with more than two vector units.
//!   So eight lanes are two vectors side by side: two chains in flight.
//!
//! This was not measured on a processor: it rests on LLVM's models of them (docs/hash-engine.md).

mod words;

use super::lanes::{lane_kernel, output_kernel};
use super::portable;
use crate::backend::Kernels;

pub(crate) static NEON: Kernels = Kernels {
    name: "neon",
    is_supported: || true,
    one: portable::KERNELS.one,
    widths: &[(4, four_lanes::run), (8, eight_lanes::run)],
    whole: None,
    root_blocks: &[(8, eight_lanes::root_blocks)],
};

mod four_lanes {
    super::lane_kernel!("neon", super::words::four);
}

mod eight_lanes {
    super::lane_kernel!("neon", super::words::four_and_four);
    super::output_kernel!("neon", super::words::four_and_four);
}
