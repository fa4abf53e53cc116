//! Checks whether secrets show in the executed instructions and memory addresses, or in the time.
//!
//! Each subject is a function with two classes of inputs. They differ in a secret, or in the place where a forged value
//! differs from the right one. There are two ways to check:
//!
//! - `--trace` runs it under valgrind and compares, over all inputs, the address of every executed instruction and of
//!   every byte that is read or written. They have to be the same. No clock is involved: the verdict depends on the
//!   program alone, and `.ci/long` runs it. It does not cover instructions whose own time depends on their operands; we know
//!   of none among those of x86-64 and AArch64 that are used here.
//! - Without it, Welch's t-test between the times of the two classes, after dudect (Reparaz, Balasch, Verbauwhede,
//!   "Dude, is my code constant time?", 2016): for a reader, on an idle machine. Nothing is asserted.
//!
//! Controls leak, and a trace has to detect it. One is a comparison that ends early, which the t-test detects too. The
//! other is a table lookup at a secret index (same instructions, other addresses), which the t-test misses when caches
//! are warm.
//!
//! ```text
//! cargo run --release -p xylem-bench --example constant_time [-- --trace | MEASUREMENTS]
//! ```

mod subjects;
mod timing;
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("--trace") => match trace::run() {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("constant time: {error}");
                ExitCode::FAILURE
            }
        },
        Some(trace::INSIDE) => {
            trace::inside();
            ExitCode::SUCCESS
        }
        count => {
            timing::run(count.map_or(100_000, |n| n.parse().expect("a number of measurements")));
            ExitCode::SUCCESS
        }
    }
}
