//! The command `xylem`: subcommands, flags and what a person sees.
//!
//! Bytes come from files and from `xylem-node`'s events, and leave as text on standard output and
//! standard error. Nothing here knows a protocol: [`cli::Cli`] says what was asked for, one module
//! per subcommand turns that into one call of a library crate, [`output`] says what happened, and
//! [`exit`] holds the one table of exit codes.
// Doc comments of arguments are help texts, with brackets of their own.
#![allow(rustdoc::broken_intra_doc_links)]

mod bench;
mod cli;
mod ctl;
mod exit;
mod extras;
mod get;
mod inbox;
mod key;
mod node;
mod output;
mod peek;
mod ping;
mod put;
mod scrub;
mod send;
mod shaping;
mod share;
mod stop;
mod store;
mod sum;
mod traffic;
mod trial;
mod trusting;
mod usage;
mod values;
mod verify;

use cli::{Cli, Command};
use exit::Failure;
use output::Out;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::report_bugs_in_one_line();
    let cli = match usage::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let mut out = Out::new(&cli.common);
    match run(cli, &mut out) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            out.failed(&failure);
            failure.exit.into()
        }
    }
}

fn run(cli: Cli, out: &mut Out) -> Result<exit::Exit, Failure> {
    let common = cli.common;
    common.check_config()?;
    output::log::start(&common)?;
    match cli.command {
        Command::Share(args) => share::run(args, &common, out),
        Command::Get(args) => get::run(args, &common, out),
        Command::Send(args) => send::run(args, &common, out),
        Command::Inbox(args) => inbox::run(args, &common, out),
        Command::Ctl(args) => ctl::run(args, &common, out),
        Command::Peek(args) => peek::run(args, &common, out),
        Command::Put(args) => put::run(args, &common, out),
        Command::Ping(args) => ping::run(args, &common, out),
        Command::Traffic(args) => traffic::run(args, &common, out),
        Command::Node(args) => node::run(args, &common, out),
        Command::Key(args) => key::run(args, &common, out),
        Command::Sum(args) => sum::run(args, out),
        Command::Verify(args) => verify::run(args, &common, out),
        Command::Store(args) => store::run(args, &common, out),
        Command::Scrub(args) => scrub::run(args, &common, out),
        Command::Try(args) => trial::run(args, &common, out),
        Command::Bench(args) => bench::run(args, out),
        Command::Completions(args) => extras::completions(args, out),
        Command::Man(args) => extras::man(args, out),
    }
}
