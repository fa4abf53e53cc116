//! `xylem mirror TICKET s3://BUCKET/PREFIX`: a publication, kept in a bucket.

use crate::buckets::{self, MirrorOptions};
use crate::cli::Common;
use crate::code::{CodeSource, FoundTicket};
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::{FindArgs, FindTerms};
use crate::flags::{FromArgs, PaceArgs, TimeoutArgs};
use crate::output::{FetchedPart, Out, report};
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::showing::AskArgs;
use crate::stop;
use clap::Args;
use xylem_node::LinkOptions;
use xylem_object::ticket::MAX_VERSIONS;
use xylem_reader::Options;

/// Keeps a publication and its newer versions in an S3 bucket
///
/// It fetches what the ticket names, verifies it and writes it to s3://BUCKET/PREFIX/ROOT/, as objects with the names
/// that the publisher gave. Any S3 client can read these objects whole. None of the content is stored on this machine's
/// disk. Beside them, in PREFIX/.xylem/, are the publisher's signature and the trees: `xylem share s3://BUCKET/PREFIX`
/// on any machine serves the newest version as its publisher signed it, without hashing it first, and `xylem verify
/// s3://BUCKET/PREFIX TICKET` names damaged bytes.
///
/// Run again with the ticket of a newer version, it sends what is new, has the store copy what is not, reads all of it
/// back, and only then makes it the newest: until then, and if it is killed, readers have the version before. Run again
/// with the same ticket, it resumes, or restores what is missing; with --repair also what is damaged.
///
/// Credentials come from where other S3 programs have them: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile
/// of ~/.aws; AWS_ENDPOINT_URL names a store that is not Amazon's.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem mirror xylem:... s3://models/llama  keeps it
  xylem mirror xylem:... s3://models/llama --keep 3   with two older versions
  xylem share s3://models/llama             serves the newest, from any machine
  xylem verify s3://models/llama xylem:...  reads all of it, names each damaged byte range

",
    exit_help!()
))]
pub(crate) struct MirrorArgs {
    /// A ticket, or @FILE or - with one
    ///
    /// Also a code, b3:HASH or @PUBLISHER/NAME, as with `xylem get`.
    #[arg(value_name = "TICKET")]
    ticket: String,

    /// The place in a bucket, for this publication alone
    #[arg(value_name = "s3://BUCKET/PREFIX")]
    place: String,

    /// Retain this many versions
    ///
    /// Older ones are removed when a newer one is complete.
    #[arg(long, value_name = "N", default_value = "2",
          value_parser = clap::value_parser!(u8).range(1..=MAX_VERSIONS as i64))]
    keep: u8,

    /// Read all of it back, and replace what is damaged
    ///
    /// It does so also if nothing is new.
    #[arg(long)]
    repair: bool,

    #[command(flatten)]
    from: FromArgs,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    pace: PaceArgs,

    #[command(flatten)]
    timeout: TimeoutArgs,

    #[command(flatten)]
    find: FindArgs,

    #[command(flatten)]
    ask: AskArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Runs `xylem mirror`.
pub(crate) fn run(
    args: MirrorArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let place = buckets::place(&args.place)?;
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    common.store()?;
    let timeout = args.timeout.or_seconds(30);
    let (shape, hides) = (&args.shape, args.shape.is_covered());
    let terms = FindTerms { give_up: timeout, shape, stop: &stop, again: true, hides };
    let lan = args.find.lan(common)?;
    let (relays, dht) = (args.relay.relays(common)?, args.find.code_dht(common)?);
    let whom = CodeSource { from: args.from.peers()?, relays, lan, dht };
    let mirror = |found: FoundTicket, out: &mut Out| {
        let FoundTicket { ticket, from, port } = found;
        let options = Options {
            from,
            relays: args.relay.relays(common)?,
            limit_rate: args.pace.rate.limit,
            background: args.pace.low_priority,
            links: LinkOptions { port, ..args.shape.links() },
            ask_who_answers: args.ask.ask_who_answers,
            timeout,
            lan: args.find.lan(common)?,
            dht: args.find.ticket_dht(args.shape.is_covered(), common)?,
            ..Options::new(ticket, common.store()?)
        };
        let what = MirrorOptions {
            options,
            place: place.clone(),
            keep: args.keep.into(),
            repair: args.repair,
        };
        let summary = buckets::mirror(what, &stop, out)?;
        report(&summary, FetchedPart::Whole, out)?;
        Ok(Exit::Done)
    };
    args.find.each_found(&args.ticket, whom, &terms, common, out, mirror)
}
