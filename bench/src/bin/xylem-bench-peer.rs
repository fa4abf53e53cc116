//! Runs a table with the official crate of this build: `xylem-bench-peer TABLE [--quick]` writes reports as JSON lines.
//! `xylem bench hash` runs it (see `xylem_bench::peers`); `bench/peers` builds it.

use std::io::{self, Write};
use std::process::ExitCode;

use xylem_bench::{Effort, Report, hash::run_here, peers::QUICK};

fn main() -> ExitCode {
    let (mut table, mut effort) = (None, Effort::FULL);
    for argument in std::env::args().skip(1) {
        if argument == QUICK {
            effort = Effort::QUICK;
        } else {
            table = Some(argument);
        }
    }
    let Some(table) = table else {
        eprintln!("usage: xylem-bench-peer TABLE [{QUICK}]");
        return ExitCode::from(2);
    };
    let mut out = io::stdout().lock();
    let mut emit = |report: Report| -> io::Result<()> {
        serde_json::to_writer(&mut out, &report)?;
        out.write_all(b"\n")?;
        out.flush()
    };
    match run_here(&table, effort, &mut emit) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xylem-bench-peer: {error}");
            ExitCode::FAILURE
        }
    }
}
