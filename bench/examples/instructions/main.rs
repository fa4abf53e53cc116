//! Counts the instructions of hot paths and compares them with docs/instructions.md.
//!
//! Valgrind's tool `callgrind` counts them, each path in a process of its own, without its preparation. Seconds vary on
//! a machine with other users; instructions do not, so a regression of two percent is detected. Caches and waiting are
//! not covered; `--bench paths` measures them.
//!
//! ```text
//! cargo run --release -p xylem-bench --example instructions -- --check
//! cargo run --release -p xylem-bench --example instructions -- --write "why they changed" [PART OF A NAME]
//! ```

mod counting;
mod table;

use std::process::ExitCode;

use counting::{INSIDE, inside};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [INSIDE, name, times] => inside(name, times).map(|()| true),
        ["--check"] => table::check(),
        ["--write", why] => table::write(why, "").map(|()| true),
        ["--write", why, part] => table::write(why, part).map(|()| true),
        _ => Err(std::io::Error::other("--check, or --write WHY [PART OF A NAME]")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}
