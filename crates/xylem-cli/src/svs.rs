//! `xylem ndn svs GROUP`: a member of a sync group (State Vector Sync), for a user or a script.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::peek::AtArgs;
use crate::stop;
use crate::trusting::TrustArgs;
use clap::Args;
use serde::Serialize;
use std::io::{BufRead, BufReader, stdin};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use xylem_app::{Client, RunError, SignWith, parse_name};
use xylem_client::{Driver, SvsEvent, SvsKeys, SvsLine, SvsMember, parse_version};
use xylem_keys::signer;
use xylem_svs::{GroupConfig, GroupMember, SyncVersion};
use xylem_trust::TrustVerdict;

/// Joins a State Vector Sync group: publishes and prints lines
///
/// Each line of standard input is published as one numbered packet and announced to the other members of GROUP. Their
/// publications are fetched and printed as `/NAME NUMBER: LINE`, in the order of each member's numbers. Goes on until
/// Ctrl-C, also after the end of standard input, since others fetch from here.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn svs /chat --as /alice               publishes what is typed
  xylem ndn svs /chat                           only receives
  xylem ndn svs /chat --as /alice --sync-version 2  beside programs of NDNts
  xylem ndn svs /chat --as /alice --sign hmac:KEY --key hmac:KEY   members are those who have the key

",
    exit_help!()
))]
pub(crate) struct SvsArgs {
    /// The group's name, such as /chat
    group: String,

    /// Publish standard input under this name
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    /// The protocol's version: 3, 2 or 1
    ///
    /// 3 is that of ndnd and NDNts, 2 of NDNts, 1 of python-ndn.
    #[arg(long, value_name = "N", value_parser = parse_version, default_value = "3")]
    sync_version: SyncVersion,

    /// Do not fetch what others publish: print only its numbers
    #[arg(long)]
    no_fetch: bool,

    /// Sign with this key, or a digest, as `ndn put`
    ///
    /// The signature is on vectors and publications.
    #[arg(long, value_name = "KEY", default_value = "ed25519")]
    sign: SignWith,

    /// Neither register names nor set the group's strategy: routes lead here already
    #[arg(long)]
    no_register: bool,

    #[command(flatten)]
    trust: TrustArgs,

    #[command(flatten)]
    at: AtArgs,
}

/// Runs `xylem ndn svs`.
pub(crate) fn run(args: SvsArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let group = parse_name(&args.group)?;
    let name = args.name.as_deref().map(parse_name).transpose()?;
    let signer = signer(&args.sign, &common.store()?, name.as_ref().unwrap_or(&group))?;
    let policy = args.trust.believe(common)?.policy()?;
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
    let (began_ms, seed) = (client.now_ms(), client.seed()?);
    // The next second: a run that ended in this one may have begun in it.
    let boot = began_ms / 1000 + 1;
    let config = GroupConfig { name, boot, ..GroupConfig::new(group, args.sync_version) };
    let lines = args.name.is_some().then(typed_lines).transpose()?;
    let mut next = || lines.as_ref().map_or(SvsLine::End, next_line);
    let mut broken = None;
    if !policy.proves() {
        out.note(
            "publications are not verified; --key, --publisher or --trust names whose to accept",
        );
    }
    let joined = JoinedRow {
        group: &args.group,
        version: match args.sync_version {
            SyncVersion::V1 => 1,
            SyncVersion::V2 => 2,
            SyncVersion::V3 => 3,
        },
        name: args.name.as_deref(),
    };
    // One place prints, before the member runs and while it does.
    let out = std::cell::RefCell::new(out);
    let mut tell = |event: SvsEvent<'_>| {
        if let Err(failure) = told(event, &mut out.borrow_mut()) {
            stop.raise();
            broken = Some(failure);
        }
    };
    let keys = SvsKeys { signer, policy };
    let mut member =
        SvsMember::new(config, keys, !args.no_fetch, began_ms, seed, &mut next, &mut tell)
            .map_err(RunError::from)?;
    if !args.no_register
        && let Some(why) = member.announce(&mut client)?
    {
        let group = &args.group;
        out.borrow_mut().warn(&format!("{group} is not multicast to all members: {why}"));
    }
    if out.borrow().is_json() {
        out.borrow_mut().json(&joined)?;
    } else {
        out.borrow_mut().note(&format!("a member of {} until Ctrl-C", args.group));
    }
    client.run(&mut member)?;
    drop(member);
    match broken {
        Some(failure) => Err(failure),
        None => Ok(Exit::Done),
    }
}

/// Starts a thread that reads lines from standard input; it ends with the program.
fn typed_lines() -> Result<Receiver<Vec<u8>>, CommandFailure> {
    let (send, lines) = sync_channel(64);
    let read = move || {
        for line in BufReader::new(stdin()).split(b'\n').map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().spawn(read);
    started.map_err(|e| CommandFailure::no_thread(&e))?;
    Ok(lines)
}

fn next_line(lines: &Receiver<Vec<u8>>) -> SvsLine {
    match lines.try_recv() {
        Ok(line) => SvsLine::Next(line),
        Err(TryRecvError::Empty) => SvsLine::NotYet,
        Err(TryRecvError::Disconnected) => SvsLine::End,
    }
}

fn told(event: SvsEvent<'_>, out: &mut Out) -> Result<(), CommandFailure> {
    let json = out.is_json();
    match event {
        SvsEvent::Published(member, number) => {
            let name = member.name.to_string();
            if json {
                return out.json(&SaidRow { name: &name, boot: boot(member), number });
            }
            out.detail(&format!("published {number}"));
        }
        SvsEvent::Updated(member, from, to) => {
            let name = member.name.to_string();
            if json {
                return out.json(&UpdateRow { name: &name, boot: boot(member), from, to });
            }
            out.detail(&format!("{name} has published {}", numbers(from, to)));
        }
        SvsEvent::Came(member, number, content, verdict) => {
            let name = member.name.to_string();
            if !json {
                let text = String::from_utf8_lossy(content);
                return out.line(&format!("{name} {number}: {text}"));
            }
            let content: String = content.iter().map(|byte| format!("{byte:02x}")).collect();
            let verdict = match verdict {
                TrustVerdict::Proven => "proven",
                TrustVerdict::Undamaged => "undamaged",
                TrustVerdict::Unknown => "unknown",
            };
            let (boot, content) = (boot(member), content.as_str());
            return out.json(&PublicationRow { name: &name, boot, number, content, verdict });
        }
        SvsEvent::Missed(member, from, to, why) => {
            let name = member.name.to_string();
            if json {
                return out.json(&MissedRow { name: &name, boot: boot(member), from, to, why: &why });
            }
            out.warn(&format!("missed {name} {}: {why}", numbers(from, to)));
        }
        SvsEvent::Ahead(number) => out.warn(&format!(
            "others know {number} publications of this name from an earlier run. This run begins at 1 again, \
             which members of versions 1 and 2 do not see: give another name there (--as)"
        )),
        SvsEvent::Refused(why) => out.detail(&format!("dropped a state vector: {why}")),
        SvsEvent::TooLong(bytes) => {
            out.warn(&format!("left out a line of {bytes} bytes: at most 8000 fit into a packet"));
        }
    }
    Ok(())
}

fn numbers(from: u64, to: u64) -> String {
    if from == to { from.to_string() } else { format!("{from} to {to}") }
}

/// The boot time; versions 1 and 2 have none.
fn boot(member: &GroupMember) -> Option<u64> {
    Some(member.boot).filter(|boot| *boot > 0)
}

/// Event: `svs` has begun.
#[derive(Serialize)]
#[serde(tag = "event", rename = "joined")]
struct JoinedRow<'a> {
    group: &'a str,
    version: u8,
    name: Option<&'a str>,
}

/// Event: a line was published.
#[derive(Serialize)]
#[serde(tag = "event", rename = "said")]
struct SaidRow<'a> {
    name: &'a str,
    boot: Option<u64>,
    number: u64,
}

/// Event: a member has published.
#[derive(Serialize)]
#[serde(tag = "event", rename = "member_update")]
struct UpdateRow<'a> {
    name: &'a str,
    boot: Option<u64>,
    from: u64,
    to: u64,
}

/// Event: a publication of a member.
#[derive(Serialize)]
#[serde(tag = "event", rename = "publication")]
struct PublicationRow<'a> {
    name: &'a str,
    boot: Option<u64>,
    number: u64,
    content: &'a str,
    verdict: &'a str,
}

/// Event: a publication that could not be fetched.
#[derive(Serialize)]
#[serde(tag = "event", rename = "publication_missed")]
struct MissedRow<'a> {
    name: &'a str,
    boot: Option<u64>,
    from: u64,
    to: u64,
    why: &'a str,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let (name, boot) = ("/a", Some(1));
        assert_documented(&JoinedRow { group: "/g", version: 3, name: None });
        assert_documented(&SaidRow { name, boot, number: 1 });
        assert_documented(&UpdateRow { name, boot, from: 1, to: 2 });
        let (content, verdict) = ("00", "proven");
        assert_documented(&PublicationRow { name, boot, number: 1, content, verdict });
        assert_documented(&MissedRow { name, boot, from: 1, to: 1, why: "late" });
    }
}
