//! Tables of `xylem bench link` that take several processes: `xylem-bench-session TABLE [--quick]` writes reports as
//! JSON lines (see `xylem_bench::peers`); `bench/peers` builds it.
//!
//! | table | processes |
//! |---|---|
//! | `session` | a sender and a receiver, ours and quinn's in turn |
//! | `sessions` | two that hold ten thousand sessions with each other |
//! | `flood` | a responder, its attacker, the path there, and (here) an honest dialer |
//!
//! Ours is one `xylem_link::Endpoint` over the node's own socket code ([`driver`]). A node's further work on packets is
//! not measured here.

mod children;
mod driver;
mod flood;
mod ours;
mod parts;
mod quic;
mod session;
mod sessions;
mod usage;
mod way;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use xylem_bench::Report;
use xylem_bench::peers::QUICK;

use crate::parts::{Effort, wrong};

/// Time limit of a process.
const LONGEST_PART: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == children::ROLE) {
        return ended(play(&arguments[1..]));
    }
    let effort = if arguments.iter().any(|a| a == QUICK) { Effort::Quick } else { Effort::Full };
    arguments.retain(|argument| argument != QUICK);
    let mut emit = |report: Report| children::report(&report);
    match arguments.as_slice() {
        [table] if table == "session" => ended(session::table(effort, &mut emit)),
        [table] if table == "sessions" => ended(sessions::table(effort, &mut emit)),
        [table] if table == "flood" => ended(flood::table(effort, &mut emit)),
        _ => {
            eprintln!("usage: xylem-bench-session session|sessions|flood [{QUICK}]");
            ExitCode::from(2)
        }
    }
}

/// Plays the part that the parent process has asked for.
fn play(arguments: &[String]) -> io::Result<()> {
    let (part, arguments) = arguments.split_first().ok_or_else(wrong)?;
    // A process that never ends would keep the table waiting.
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST_PART);
        eprintln!("xylem-bench-session: a part of a table took too long");
        std::process::exit(1);
    });
    match part.as_str() {
        "session" => session::play(arguments),
        "sessions" => sessions::play(arguments),
        "flood" => flood::play(arguments),
        _ => Err(wrong()),
    }
}

fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xylem-bench-session: {error}");
            ExitCode::FAILURE
        }
    }
}
