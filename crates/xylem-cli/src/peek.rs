//! `xylem ndn peek NAME`: sends one Interest and writes the packet that answers it.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::{Out, not_with_json};
use crate::stop;
use crate::trusting::TrustArgs;
use crate::values::parse_seconds;
use clap::Args;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use xylem_app::{Client, RunError, parse_name};
use xylem_client::{InterestRequest, Peeked, peek};
use xylem_node::PeerUri;
use xylem_trust::TrustVerdict;

/// Asks an NDN network for one packet and writes it to standard output
///
/// A digest in the packet is always checked. A signature is checked if --key, --publisher or --trust gives the keys to
/// trust; otherwise a line on standard error says that it was not.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn peek /alice/note -p           the content of that packet
  xylem ndn peek /alice --prefix --fresh  the newest packet below /alice
  xylem ndn peek /alice/note --json       its fields
  xylem ndn peek /alice/note -p --at tcp://192.0.2.7   through that forwarder

",
    exit_help!()
))]
pub(crate) struct PeekArgs {
    /// The packet's name, such as /alice/note
    name: String,

    /// Write the content only, not the whole packet
    #[arg(short, long)]
    payload: bool,

    /// Accept a longer name (CanBePrefix)
    #[arg(short = 'P', long)]
    prefix: bool,

    /// Refuse stale packets (MustBeFresh)
    #[arg(short, long)]
    fresh: bool,

    /// A name by which forwarders can route the Interest (ForwardingHint); can be repeated
    #[arg(long, value_name = "NAME")]
    hint: Vec<String>,

    /// How long to wait (InterestLifetime)
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "4",
          allow_negative_numbers = true)]
    lifetime: Duration,

    /// How many forwarders the Interest may pass (HopLimit)
    #[arg(long, value_name = "HOPS")]
    hop_limit: Option<u8>,

    /// Send this file along (ApplicationParameters)
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,

    #[command(flatten)]
    trust: TrustArgs,

    #[command(flatten)]
    at: AtArgs,
}

/// The forwarder's address, a flag of all NDN tools.
#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    /// The forwarder: unix:///PATH or tcp://HOST
    ///
    /// Also udp://HOST; tcp and udp take :PORT, too. [default: NDN_CLIENT_TRANSPORT, or the one that runs here]
    #[arg(long, value_name = "URI", env = "XYLEM_AT", hide_env_values = true, global = true)]
    pub(crate) at: Option<PeerUri>,
}

/// Runs `xylem ndn peek`.
pub(crate) fn run(args: PeekArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    if args.payload {
        not_with_json(out, "--payload")?;
    }
    let parameters = args.parameters.map(|path| {
        fs::read(&path).map_err(|error| {
            CommandFailure::new(Exit::Usage, format!("cannot read {}: {error}", path.display()))
        })
    });
    let name = parse_name(&args.name)?;
    let mut policy = args.trust.believe(common)?.policy()?;
    let hints = args.hint.iter().map(|hint| parse_name(hint));
    let question = InterestRequest {
        can_be_prefix: args.prefix,
        must_be_fresh: args.fresh,
        hop_limit: args.hop_limit,
        parameters: parameters.transpose()?,
        hints: hints.collect::<Result<_, _>>()?,
        ..InterestRequest::exactly(name, args.lifetime)
    };
    let interest = question.encode(xylem_base::random()?).map_err(RunError::from)?;
    let mut client = Client::connect(args.at.at.as_ref(), &stop::on_signals()?)?;
    let found = peek(&mut client, question, interest, &mut policy)?;
    report(&found, out);
    if out.is_json() {
        let content: String = found.content().iter().map(|byte| format!("{byte:02x}")).collect();
        out.json(&PacketRow {
            name: &found.name,
            bytes: found.packet.len(),
            content: &content,
            content_type: found.content_type,
            freshness_ms: found.freshness_ms,
            final_block_id: found.final_block_id.as_deref(),
            signature: found.signature.0,
            signature_type: found.signature.1,
            key: found.key.as_deref(),
            verdict: verdict(found.verdict),
            seconds: found.took.as_secs_f64(),
        })?;
    } else {
        out.bytes(if args.payload { found.content() } else { &found.packet })?;
    }
    Ok(Exit::Done)
}

fn verdict(verdict: TrustVerdict) -> &'static str {
    match verdict {
        TrustVerdict::Proven => "proven",
        TrustVerdict::Undamaged => "undamaged",
        TrustVerdict::Unknown => "unknown",
    }
}

fn report(found: &Peeked, out: &mut Out) {
    let (name, signature) = (&found.name, found.signature.0);
    out.detail(&format!("{name}: {} bytes in {:?}", found.packet.len(), found.took));
    match found.verdict {
        TrustVerdict::Proven => out.detail(&format!("{signature} signature verified")),
        TrustVerdict::Undamaged => {
            out.note(&format!(
                "not verified: its {signature} is correct, but anybody can make one"
            ));
        }
        TrustVerdict::Unknown => {
            let key = found.key.as_deref().unwrap_or("an unnamed key");
            out.note(&format!(
                "not verified: {signature} by {key}; give --key, --publisher or --trust"
            ));
        }
    }
}

/// Event: the packet that `peek` found.
#[derive(Serialize)]
#[serde(tag = "event", rename = "packet")]
struct PacketRow<'a> {
    name: &'a str,
    bytes: usize,
    content: &'a str,
    content_type: u64,
    freshness_ms: u64,
    final_block_id: Option<&'a str>,
    signature: &'a str,
    signature_type: u64,
    key: Option<&'a str>,
    verdict: &'a str,
    seconds: f64,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&PacketRow {
            name: "/a",
            bytes: 1,
            content: "00",
            content_type: 0,
            freshness_ms: 0,
            final_block_id: None,
            signature: "hmac",
            signature_type: 4,
            key: None,
            verdict: "proven",
            seconds: 0.5,
        });
    }
}
