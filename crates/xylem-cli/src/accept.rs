//! `xylem inbox accept`: fetches what a message names.

use crate::cli::Common;
use crate::exit::CommandFailure;
use crate::finding::LanArgs;
use crate::flags::{FromArgs, TimeoutArgs};
use crate::get::fetch;
use crate::meter::SeedMeter;
use crate::output::{FetchedPart, Out, not_with_json};
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::values::output;
use clap::Args;
use std::path::PathBuf;
use xylem_base::Stop;
use xylem_files::{Existing, Output, SaveOptions};
use xylem_node::GetOptions;
use xylem_object::Ticket;

/// Arguments of `xylem inbox accept`.
#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// The message's number
    pub(crate) number: u32,

    /// Where to put the result, as for `get`
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    #[command(flatten)]
    from: FromArgs,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    lan: LanArgs,

    /// Replace a file that has the final name, or merge into a directory, as for `get`
    #[arg(long)]
    overwrite: bool,

    #[command(flatten)]
    timeout: TimeoutArgs,

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
        from: args.from.peers()?,
        relays: args.relay.relays(common)?,
        links: args.shape.links(),
        give_up: args.timeout.or_seconds(30),
        lan: args.lan.lan(common)?,
        ..GetOptions::new(ticket, save, common.store()?)
    };
    if matches!(options.save.output, Output::Stdout) {
        not_with_json(out, "-o -")?;
    }
    fetch(&options, FetchedPart::Whole, &SeedMeter::default(), stop, out)
}
