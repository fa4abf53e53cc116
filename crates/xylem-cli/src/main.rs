//! The command `xylem`: subcommands, flags, and output for people and scripts.
//!
//! Bytes come from files and from `xylem-node`'s events, and leave as text on standard output and standard error. No
//! protocol is implemented here. [`verbs`] names the task, one module per subcommand turns it into one call of a
//! library crate, [`output`] reports what happened, and [`exit`] holds the one table of exit codes.
// Doc comments of arguments are help texts, which use brackets in their own way.
#![allow(rustdoc::broken_intra_doc_links)]
// A build without a feature keeps what only that feature uses.
#![cfg_attr(not(all(feature = "mount", feature = "s3", feature = "smtp")), allow(dead_code))]

mod accept;
mod bench;
#[cfg_attr(not(feature = "s3"), path = "no_buckets.rs")]
mod buckets;
mod ca;
mod cli;
mod code;
mod ctl;
mod demand;
mod dissect;
mod dump;
mod exit;
mod extras;
mod finding;
mod flags;
mod get;
mod http;
mod inbox;
mod key;
mod meant;
mod meter;
mod metrics;
mod mirror;
mod mount;
mod node;
mod output;
mod passphrase;
mod peek;
mod ping;
mod process_usage;
mod publisher;
mod put;
mod reach;
mod relay;
mod relays;
mod request;
mod running;
mod schema;
mod scrub;
mod send;
mod service;
mod settings;
mod shaping;
mod share;
mod shares;
mod showing;
mod signature_types;
mod stop;
mod store;
mod sum;
mod svs;
mod sync;
mod ticket;
mod traffic;
mod trial;
mod trusting;
mod ui;
mod usage;
mod values;
mod verbs;
mod verify;
mod web;
mod witness;

use output::Out;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::report_bugs_in_one_line();
    exit::with_mapped_stack(run)
}

fn run() -> ExitCode {
    // Comes first, as parsing the arguments allocates memory already.
    let outlives = exit::handle_resource_limits();
    let (common, task) = match usage::parse() {
        Ok(asked) => asked,
        Err(code) => return code,
    };
    passphrase::ask_when_needed(&common);
    let mut out = Out::new(&common);
    let ready = outlives.and_then(|()| common.check_config());
    let ready = ready.and_then(|()| signature_types::assign());
    let ready = ready.and_then(|()| output::log::start(&common));
    match ready.and_then(|()| task(&common, &mut out)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            out.failed(&failure);
            failure.exit.into()
        }
    }
}
