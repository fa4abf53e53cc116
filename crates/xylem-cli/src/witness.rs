//! `xylem witness TICKET`: co-signs versions that continue the recorded history.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::LanArgs;
use crate::flags::{FromArgs, TimeoutArgs};
use crate::get::ended;
use crate::output::Out;
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::share::parse_identity;
use crate::stop;
use crate::values::parse_ticket;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use xylem_base::{Blame, Failure};
use xylem_keys::Keyring;
use xylem_node::VersionDialer;
use xylem_witness::{WatchOptions, watch};

/// Pause before the next try if no peer was reached.
const REST: Duration = Duration::from_secs(2);
/// How often the stop flag is checked during the pause.
const TICK: Duration = Duration::from_millis(100);

/// Co-signs each version of a publication that continues the last
///
/// None of the content is fetched: only signed manifests and, for a growing file, proofs that each checkpoint begins
/// with the one before. The co-signatures go to the share, which has to name this witness (`xylem share --witness
/// CERT`) and sends them to getters that ask for them (`xylem get --witness CERT`). If a publisher shows two histories,
/// that is reported: nothing is co-signed, the evidence is kept, and the exit code is 1.
///
/// The record of what was seen is in the store, and is on the disk before a co-signature is sent. One key has one
/// store: if the store is lost, the next co-signature states that the record begins anew.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem key new /w && xylem key cert /w > w.cert   w.cert is for others
  xylem witness xylem:... --sign key:/w            until Ctrl-C
  xylem witness xylem:... --sign key:/w --once     one look, for cron
  xylem verify --evidence FILE                     shows to anybody what a publisher has signed

",
    exit_help!()
))]
pub(crate) struct WitnessArgs {
    /// A ticket of any version, or @FILE or - with one
    ticket: String,

    /// The key that co-signs, such as key:/w
    ///
    /// It is one of `xylem key`; nothing else should be signed with it.
    #[arg(long, value_name = "KEY", value_parser = parse_identity)]
    sign: String,

    /// End when the newest version has been co-signed
    #[arg(long)]
    once: bool,

    /// Keep a copy of the record in DIR, and sign nothing if it is newer
    ///
    /// A store that was put back from a backup has an older record, out of which false co-signatures would be made. DIR
    /// has to exist and should be on another disk, outside of that backup.
    #[arg(long, value_name = "DIR")]
    record_copy: Option<PathBuf>,

    #[command(flatten)]
    from: FromArgs,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    lan: LanArgs,

    #[command(flatten)]
    timeout: TimeoutArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Runs `xylem witness`.
pub(crate) fn run(
    args: WitnessArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let (store, once) = (common.store()?, args.once);
    let signer = Keyring::at(&store).signer(&args.sign)?;
    let (ticket, give_up) = (parse_ticket(&args.ticket)?, args.timeout.or_seconds(30));
    let options = WatchOptions { ticket, store, copies: args.record_copy, once, give_up };
    let (from, relays) = (args.from.peers()?, args.relay.relays(common)?);
    let (links, lan) = (args.shape.links(), args.lan.lan(common)?);
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let mut record = None;
    loop {
        let mut dialling = VersionDialer {
            from: &from,
            relays: &relays,
            links: &links,
            ask_who_answers: false,
            lan,
            wait: false,
            stop: &stop,
            on_event: &mut |event| out.event(event),
        };
        let outcome = watch(&options, &signer, &mut record, &mut dialling);
        out.take_broken()?;
        match outcome {
            Err(e) if e.blame() == Blame::Network && !once => {
                out.warn(&format!("{e}; trying again"));
                let rests = (0..REST.as_millis() / TICK.as_millis()).take_while(|_| !stop.raised());
                rests.for_each(|_| std::thread::sleep(TICK));
            }
            Err(e) if e.blame() == Blame::Interrupted && !once => return Ok(Exit::Done),
            outcome => {
                outcome.map_err(|error| ended(error, &stop))?;
                return Ok(Exit::Done);
            }
        }
    }
}
