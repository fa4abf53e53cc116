//! `xylem inbox accept`: fetches what a message names.

use crate::cli::Common;
use crate::exit::CommandFailure;
use crate::finding::LanArgs;
use crate::get::fetch;
use crate::output::{Out, not_with_json};
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::values::{output, parse_seconds, peers};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use xylem_library::{Existing, Output, SaveOptions, Stop};
use xylem_node::{GetOptions, PeerUri};
use xylem_object::Ticket;

/// Arguments of `xylem inbox accept`.
#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// The message's number
    pub(crate) number: u32,

    /// Where to put the result, as for `get`
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Ask this peer, not the ticket's: HOST:PORT
    ///
    /// As with `xylem get --from`; can be repeated.
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    from: Vec<PeerUri>,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    lan: LanArgs,

    /// Replace a file that has the final name, or merge into a directory, as for `get`
    #[arg(long)]
    overwrite: bool,

    /// Give up after this long without progress
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "30",
          allow_negative_numbers = true)]
    timeout: Duration,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Fetches what a message names.
pub(crate) fn accept(
    ticket: Ticket,
    args: AcceptArgs,
    stop: &Stop,
    common: &Common,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let existing = if args.overwrite { Existing::Overwrite } else { Existing::Refuse };
    let save = SaveOptions::to(output(args.output), existing);
    let options = GetOptions {
        from: peers(&args.from)?,
        relays: args.relay.relays(common)?,
        links: args.shape.links(),
        give_up: args.timeout,
        lan: args.lan.lan(common)?,
        ..GetOptions::new(ticket, save, common.store()?)
    };
    if matches!(options.save.output, Output::Stdout) {
        not_with_json(out, "-o -")?;
    }
    fetch(&options, true, stop, out)
}
