//! `xylem ticket TICKET`: shows what a ticket contains, and what its peers add, without a fetch of the content.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::flags::{FromArgs, TimeoutArgs};
use crate::output::Out;
use crate::output::text::{bytes, clean, count};
use crate::stop;
use crate::values::{joined, parse_ticket};
use clap::Args;
use serde::Serialize;
use std::cell::RefCell;
use xylem_base::{Blame, Failure, Stop, hex};
use xylem_node::RepairOptions;
use xylem_object::listing::{Entry, EntryKind};
use xylem_object::ticket::RelayContact;
use xylem_object::{Manifest, PublicationKind, Ticket};

/// Shows what a ticket names and where, without fetching it
///
/// The ticket's own content is shown at once. Not every ticket contains name and size: peers at its addresses are asked
/// for them, and their answer is signed by the publisher.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ticket xylem:...
  xylem ticket @ticket.txt --offline     only what it contains; no peer is asked
  xylem ticket xylem:... --files         what is in the directory

",
    exit_help!()
))]
pub(crate) struct TicketArgs {
    /// A ticket (xylem:...), or @FILE or - with one
    ///
    /// It may be wrapped or quoted.
    #[arg(value_name = "TICKET", required = true, num_args = 1..)]
    ticket: Vec<String>,

    /// Ask no peer
    #[arg(long, conflicts_with_all = ["files", "from"])]
    offline: bool,

    /// List the content of the directory
    ///
    /// Only the listing is fetched, and proven.
    #[arg(long)]
    files: bool,

    #[command(flatten)]
    from: FromArgs,

    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// Runs `xylem ticket`.
pub(crate) fn run(
    args: TicketArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let ticket = parse_ticket(&joined(&args.ticket)?)?;
    show(&ticket, out)?;
    if args.offline {
        unknown(&ticket, "no peer was asked", out)?;
        return Ok(Exit::Done);
    }
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let (from, give_up) = (args.from.peers()?, args.timeout.or_seconds(3));
    let mut event = |event| out.event(event);
    let looked = xylem_node::look(&ticket, &from, give_up, &stop, &mut event);
    out.take_broken()?;
    match looked {
        Ok((told, manifest)) => tell(&told, &manifest, out)?,
        Err(error) if args.files => return Err(error.into()),
        Err(error) => {
            if ![Blame::Network, Blame::Usage].contains(&error.blame()) {
                return Err(error.into());
            }
            unknown(&ticket, &error.to_string(), out)?;
        }
    }
    if args.files && ticket.kind != Some(PublicationKind::File) {
        let asked = RepairOptions { peers: from, give_up, limit_rate: None };
        list(&ticket, &asked, &stop, common, out)?;
    }
    Ok(Exit::Done)
}

/// Prints the ticket's own content.
fn show(ticket: &Ticket, out: &mut Out) -> Result<(), CommandFailure> {
    let addresses: Vec<String> = ticket.addresses.iter().map(ToString::to_string).collect();
    let link_key = ticket.link_key.map(|key| hex(&key));
    if out.is_json() {
        return out.json(&TicketRow {
            publisher: ticket.publisher.to_string(),
            root: ticket.root.to_string(),
            kind: ticket.kind.map(word),
            name: ticket.name.as_ref().map(ToString::to_string),
            link_key,
            size: ticket.size,
            addresses,
            relay: ticket.relays.first().map(relay_row),
            relays: ticket.relays.iter().map(relay_row).collect(),
        });
    }
    out.line(&format!("publisher  {}", ticket.publisher))?;
    out.line(&format!("root       {}", ticket.root))?;
    if let Some(kind) = ticket.kind {
        out.line(&format!("kind       {}", word(kind)))?;
    }
    if let Some(name) = &ticket.name {
        out.line(&clean(&format!("name       {name}")))?;
    }
    if let (Some(size), Some(PublicationKind::File)) = (ticket.size, ticket.kind) {
        out.line(&format!("size       {} ({size} bytes)", bytes(size)))?;
    }
    match link_key {
        Some(key) => out.line(&format!("link key   {key}"))?,
        None => out.line("link key   any that the publisher vouches for")?,
    }
    let none = || vec!["none".to_owned()];
    let addresses = if addresses.is_empty() { none() } else { addresses };
    for (i, address) in addresses.iter().enumerate() {
        let what = if i == 0 { "addresses" } else { "" };
        out.line(&clean(&format!("{what:<10} {address}")))?;
    }
    for relay in &ticket.relays {
        for (i, address) in relay.addresses.iter().enumerate() {
            let what = if i == 0 { "relay" } else { "" };
            out.line(&clean(&format!("{what:<10} {}@{address}", hex(&relay.key))))?;
        }
    }
    Ok(())
}

fn relay_row(relay: &RelayContact) -> RelayRow {
    let addresses = relay.addresses.iter().map(ToString::to_string).collect();
    RelayRow { key: hex(&relay.key), addresses }
}

/// Prints the signed answer of a peer.
fn tell(told: &Ticket, manifest: &Manifest, out: &mut Out) -> Result<(), CommandFailure> {
    let name = told.name.as_ref().map(ToString::to_string).unwrap_or_default();
    let file_name = String::from_utf8_lossy(&manifest.file_name).into_owned();
    if out.is_json() {
        return out.json(&ToldRow {
            name,
            kind: word(manifest.kind),
            size: manifest.size,
            file_name,
            bytes: manifest.total_size,
            files: manifest.file_count,
            growing: grows(manifest),
        });
    }
    out.line("its peers report, with the publisher's signature:")?;
    out.line(&clean(&format!("name       {name}")))?;
    if !file_name.is_empty() {
        out.line(&clean(&format!("saved as   {file_name}")))?;
    }
    let Manifest { total_size, file_count, .. } = *manifest;
    let mut what = format!("{} ({total_size} bytes)", bytes(total_size));
    if manifest.kind == PublicationKind::Directory {
        what.push_str(&format!(" in {}", count(file_count, "file")));
    }
    out.line(&format!("size       {what}"))?;
    match manifest.growing.filter(|_| grows(manifest)) {
        Some(growing) => out.line(&format!(
            "growing    this was its checkpoint {}; `xylem get` fetches the newest, with --follow also later ones",
            growing.number
        )),
        None => Ok(()),
    }
}

/// Whether the publication was still growing at this version.
fn grows(manifest: &Manifest) -> bool {
    manifest.growing.is_some_and(|growing| !growing.last)
}

/// Reports that no peer has given what the ticket lacks.
fn unknown(ticket: &Ticket, why: &str, out: &mut Out) -> Result<(), CommandFailure> {
    out.json(&UnknownRow { why })?;
    if out.is_json() {
        return Ok(());
    }
    let missing = [("name", ticket.name.is_none()), ("size", ticket.size.is_none())];
    for (what, _) in missing.iter().filter(|(_, missing)| *missing) {
        out.line(&format!("{what:<10} unknown"))?;
    }
    out.note(&clean(&format!("What the ticket does not say is unknown: {why}")));
    Ok(())
}

fn list(
    ticket: &Ticket,
    asked: &RepairOptions,
    stop: &Stop,
    common: &Common,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let (out, mut written) = (RefCell::new(out), Ok(()));
    let mut each = |entry: &Entry| {
        if written.is_ok() {
            written = print(entry, &mut out.borrow_mut());
        }
    };
    let mut event = |event| out.borrow_mut().event(event);
    let listed = xylem_node::list(&common.store()?, ticket, asked, stop, &mut event, &mut each);
    out.borrow_mut().take_broken()?;
    written?;
    Ok(listed?)
}

fn print(entry: &Entry, out: &mut Out) -> Result<(), CommandFailure> {
    let row = row(entry);
    if out.is_json() {
        return out.json(&row);
    }
    let size = match entry.kind {
        EntryKind::File { .. } => bytes(row.size),
        _ => row.kind.to_owned(),
    };
    out.line(&clean(&format!("{size:>12}  {}", row.path)))
}

fn row(entry: &Entry) -> EntryRow {
    let (kind, size) = match &entry.kind {
        EntryKind::File { size, .. } => ("file", *size),
        EntryKind::Directory => ("directory", 0),
        EntryKind::Symlink { .. } => ("symlink", 0),
        EntryKind::HardLink { .. } => ("hardlink", 0),
    };
    EntryRow { path: String::from_utf8_lossy(&entry.path).into_owned(), kind, size }
}

fn word(kind: PublicationKind) -> &'static str {
    match kind {
        PublicationKind::File => "file",
        PublicationKind::Directory => "directory",
    }
}

/// Event: the ticket's own content.
#[derive(Serialize)]
#[serde(tag = "event", rename = "ticket")]
struct TicketRow {
    publisher: String,
    root: String,
    kind: Option<&'static str>,
    name: Option<String>,
    link_key: Option<String>,
    size: Option<u64>,
    addresses: Vec<String>,
    relay: Option<RelayRow>,
    relays: Vec<RelayRow>,
}

/// A relay by which peers without a direct way reach the sharer.
#[derive(Serialize)]
struct RelayRow {
    key: String,
    addresses: Vec<String>,
}

/// Event: the answer of a peer.
#[derive(Serialize)]
#[serde(tag = "event", rename = "told")]
struct ToldRow {
    name: String,
    kind: &'static str,
    size: u64,
    file_name: String,
    bytes: u64,
    files: u64,
    growing: bool,
}

/// Event: no peer has answered.
#[derive(Serialize)]
#[serde(tag = "event", rename = "unknown")]
struct UnknownRow<'a> {
    why: &'a str,
}

/// Event: one entry of the listing.
#[derive(Serialize)]
#[serde(tag = "event", rename = "entry")]
struct EntryRow {
    path: String,
    kind: &'static str,
    size: u64,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let text = || String::from("a");
        assert_documented(&TicketRow {
            publisher: text(),
            root: text(),
            kind: Some("file"),
            name: Some(text()),
            link_key: Some(text()),
            size: Some(1),
            addresses: vec![text()],
            relay: Some(RelayRow { key: text(), addresses: vec![text()] }),
            relays: vec![RelayRow { key: text(), addresses: vec![text()] }],
        });
        assert_documented(&ToldRow {
            name: text(),
            kind: "file",
            size: 1,
            file_name: text(),
            bytes: 1,
            files: 1,
            growing: false,
        });
        assert_documented(&UnknownRow { why: "w" });
        assert_documented(&EntryRow { path: text(), kind: "file", size: 1 });
    }
}
