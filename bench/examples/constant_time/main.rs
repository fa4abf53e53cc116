//! Whether secrets show in what is executed, and in its time.
//!
//! Each subject is a function with two classes of inputs that differ in what is secret, or in where something
//! forged differs from what is right. Two ways to look:
//!
//! - `--trace` runs it under valgrind and holds to each other, over all inputs, the address of every instruction that
//!   is executed and of every byte that is read or written. They have to be the same. No clock is asked: the verdict
//!   depends on the program alone, and CI takes it. It says nothing of instructions whose own time depends on their
//!   operands; those of x86-64 and AArch64 that are used here have none that we know of.
//! - Without it, Welch's t-test between the times of the two classes, after dudect (Reparaz, Balasch, Verbauwhede,
//!   "Dude, is my code constant time?", 2016): for a reader, on a machine that does nothing else. Nothing is asserted.
//!
//! Controls leak, and a trace has to show it: a comparison that ends early, which the t-test sees too, and a table that
//! is looked into at a place that is secret (same instructions, other addresses), which it does not when caches are warm.
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
