//! Core cycles from wall time, by a chain of additions of known length in cycles.
//!
//! The processor's time-stamp counter (`rdtsc`) ticks at a fixed rate whatever the core does, so it counts no core
//! cycles; and reading it takes `unsafe`. Instead, a chain of dependent one-cycle instructions is raced along with the
//! contenders. Its length divided by its time is the core's actual clock in the same rounds.

use std::hint::black_box;

use crate::race::Contender;

/// The name of the chain among a race's timings.
pub const CHAIN: &str = "core clock";

/// Steps of one run; each is an exclusive or and an addition, which both depend on the one before.
const STEPS: usize = 4_096;

/// Core cycles of one run: two instructions a step, one cycle each on every processor with 64-bit registers (Fog,
/// "Instruction tables"; Arm's optimisation guides).
pub const CYCLES: f64 = 2.0 * STEPS as f64;

/// The contender that measures the clock.
#[must_use]
pub fn chain() -> Contender<'static> {
    Contender::new(CHAIN, CHAIN, || {
        // Opaque operands in registers: the compiler cannot shorten the chain, and processors that execute additions of
        // small constants in no time find none.
        let (mask, addend) =
            (black_box(0x5555_5555_5555_5555_u64), black_box(0x1234_5678_9ABC_u64));
        let mut x = black_box(1_u64);
        for _ in 0..STEPS / 32 {
            for _ in 0..32 {
                x = (x ^ mask).wrapping_add(addend);
            }
        }
        let mut answer = [0; 32];
        answer[..8].copy_from_slice(&x.to_le_bytes());
        answer
    })
}

/// Core cycles in a nanosecond (GHz), from the chain's median time.
#[must_use]
pub fn gigahertz(chain_nanoseconds: f64) -> f64 {
    CYCLES / chain_nanoseconds.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_over_time() {
        assert_eq!(gigahertz(CYCLES), 1.0);
        assert_eq!(gigahertz(CYCLES / 4.0), 4.0);
    }
}
