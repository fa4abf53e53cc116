//! `xylem inbox`: lists received messages with their senders, and accepts or drops them.

use crate::accept::{AcceptArgs, accept};
use crate::cli::Common;
use crate::code::{CODE_GIVE_UP_S, CodeSource, FOR_A_TICKET, looks_like_code, read, redeem};
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::{CodeDhtArgs, LanArgs};
use crate::flags::{FromArgs, TimeoutArgs};
use crate::get::peers;
use crate::output::Out;
use crate::output::text::{bytes, clean};
use crate::relays::RelayArgs;
use crate::share::resolve;
use crate::showing::{AnswerArgs, AskArgs};
use crate::stop;
use crate::values::{ListenAt, read_text};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime};
use xylem_base::Stop;
use xylem_files::LibraryEvent;
use xylem_node::code::CodeEnd;
use xylem_node::mail::{
    Inbox, MailEvent, MailMessage, MessageContent, Person, ReachEffort, ShowCard, listen, show_card,
};
use xylem_node::{Event, LINK_PORT, PeerUri, Relay};

/// How long to try to report to the sender that its file has been fetched.
const TELL: ReachEffort = ReachEffort::within(Duration::from_secs(3));

/// Lists and accepts what others have sent
///
/// Without a subcommand it lists the messages. Mail comes in while `inbox --listen`, `share` or `ndn node` runs, or is
/// fetched with --node from the node where senders have left it. Give your card to everyone who should be able to send
/// to you.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = concat!(
    "Examples:
  xylem inbox card                      prints what others need to send to you
  xylem inbox --listen 7348             waits for mail until Ctrl-C
  xylem inbox                           lists the messages
  xylem inbox card --code               the card by a code of three words
  xylem inbox card --relay KEY@HOST:PORT     where a relay leads to you (inbox --listen --relay ...)
  xylem inbox accept 3                  fetches what message 3 names; prints what it says
  xylem inbox trust ann xylem-peer:...  a name for the owner of that card
  xylem inbox trust ann 3               a name for whoever wrote message 3
  xylem inbox --node node.example.org:7348   fetches what waits at that node

",
    exit_help!()
))]
pub(crate) struct InboxArgs {
    #[command(subcommand)]
    command: Option<InboxCommand>,

    /// Wait for mail until Ctrl-C, at HOST:PORT or PORT
    ///
    /// Can be repeated.
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    listen: Vec<ListenAt>,

    /// With --listen: show your card by a code
    ///
    /// The code is a number and three words that a person can read aloud: `xylem send FILE CODE` sends to you. It is
    /// good once, for ten minutes.
    #[arg(long, requires = "listen")]
    code: bool,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    lan: LanArgs,

    #[command(flatten)]
    dht: CodeDhtArgs,

    /// Fetch the mail that waits at this node: [KEY@]HOST:PORT
    #[arg(long, value_name = "NODE", conflicts_with = "listen")]
    node: Option<PeerUri>,

    #[command(flatten)]
    timeout: TimeoutArgs,

    #[command(flatten)]
    ask: AskArgs,

    #[command(flatten)]
    answer: AnswerArgs,
}

#[derive(Debug, Subcommand)]
enum InboxCommand {
    /// List the messages
    List,
    /// Print your card: what others need to send to you
    Card {
        /// Where this machine can be reached: HOST:PORT, PORT, or an address; can be repeated
        /// [default: its own addresses, port 7348]
        #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
        announce: Vec<ListenAt>,
        /// Show a code for it instead, a number and three words, that a person can say to another, and wait until the
        /// code is used or ten minutes are over
        #[arg(long)]
        code: bool,
        #[command(flatten)]
        relay: RelayArgs,
        #[command(flatten)]
        lan: LanArgs,
        #[command(flatten)]
        dht: CodeDhtArgs,
    },
    /// Fetch what a message names, or print its note
    Accept(AcceptArgs),
    /// Remove a message
    Drop {
        /// Its number
        #[arg(required = true)]
        numbers: Vec<u32>,
    },
    /// Give a name to a card, or to the sender of a message
    Trust {
        /// The name
        name: String,
        /// Their card, or @FILE with it, the code that they show for it, or a message's number
        #[arg(value_name = "CARD|CODE|NUMBER")]
        card: String,
        #[command(flatten)]
        from: FromArgs,
        #[command(flatten)]
        relay: RelayArgs,
        #[command(flatten)]
        lan: LanArgs,
        #[command(flatten)]
        dht: CodeDhtArgs,
        #[command(flatten)]
        timeout: TimeoutArgs,
    },
    /// Take a name away
    Forget {
        /// The name
        name: String,
    },
    /// List the people with names
    People,
}

/// Runs `xylem inbox`.
pub(crate) fn run(args: InboxArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let store = common.store()?;
    if !args.listen.is_empty() {
        let stop = stop::on_signals()?;
        out.ends_with(&stop);
        let at = resolve(&args.listen)?;
        let (open, relays) = (args.answer.accept_open, args.relay.relays(common)?);
        let mut tell = |event| out.event(event);
        let listened = match args.code {
            true => {
                let (lan, dht) = (args.lan.lan(common)?, args.dht.with_store(common)?);
                let how = ShowCard { accept_open: open, stay: true, lan, dht };
                show_card(&store, &at, &relays, how, &stop, &mut tell).map(drop)
            }
            false => listen(&store, &at, &relays, open, &stop, &mut tell),
        };
        out.take_broken()?;
        listened?;
        return Ok(Exit::Done);
    }
    let inbox = Inbox::open(&store)?;
    match args.command {
        None => {
            let stop = stop::on_signals()?;
            if let Some(node) = args.node {
                let from = peers(&[node])?;
                let ask_who_answers = args.ask.ask_who_answers;
                let give_up = args.timeout.or_seconds(10);
                let reach = ReachEffort { ask_who_answers, ..ReachEffort::within(give_up) };
                let collected = inbox.collect(&from, reach, &stop, &mut |event| out.event(event));
                out.take_broken()?;
                collected?;
            }
            // Also try to deliver the mail that waits to be sent. An absent peer is no failure of the list.
            let reach = ReachEffort::within(Duration::from_secs(2));
            inbox.deliver(reach, &stop, &mut |event| out.event(event))?;
            out.take_broken()?;
            return list(&inbox, &store, out);
        }
        Some(InboxCommand::List) => return list(&inbox, &store, out),
        Some(InboxCommand::Card { announce: at, code: true, relay, lan, dht }) => {
            let (lan, dht) = (lan.lan(common)?, dht.with_store(common)?);
            let how = ShowCard { accept_open: false, stay: false, lan, dht };
            return card_by_code(&store, &resolve(&at)?, &relay.relays(common)?, how, out);
        }
        Some(InboxCommand::Card { announce: at, code: false, relay, .. }) => {
            let relays = relay.relays(common)?;
            let mut at = resolve(&at)?;
            if at.is_empty() {
                at.push(SocketAddr::from((Ipv4Addr::UNSPECIFIED, LINK_PORT)));
            }
            let card = inbox.card(&at, relays.first())?.to_string();
            if out.is_json() {
                out.json(&CardRow { card: &card })?;
            } else {
                out.line(&card)?;
            }
        }
        Some(InboxCommand::Accept(args)) => return accept_one(&inbox, args, common, out),
        Some(InboxCommand::Drop { numbers }) => {
            numbers.into_iter().try_for_each(|number| inbox.discard(number))?;
        }
        Some(InboxCommand::Trust { name, card, from, relay, lan, dht, timeout })
            if looks_like_code(&card) =>
        {
            let stop = stop::on_signals()?;
            let (from, relays, lan) = (from.peers()?, relay.relays(common)?, lan.lan(common)?);
            let whom = CodeSource { from, relays, lan, dht: dht.with_store(common)? };
            let told = redeem(&card, whom, timeout.or_seconds(CODE_GIVE_UP_S), &stop, out)?;
            let card = read(&told, FOR_A_TICKET)?;
            inbox.trust(&name, &Person::Card(Box::new(card)))?;
        }
        Some(InboxCommand::Trust { name, card, .. }) => {
            let bad = |e: xylem_mail::CardError| CommandFailure::new(Exit::Usage, e.to_string());
            inbox.trust(&name, &read_text(&card)?.trim().parse().map_err(bad)?)?;
        }
        Some(InboxCommand::Forget { name }) => inbox.forget(&name)?,
        Some(InboxCommand::People) => {
            for (name, publisher) in inbox.people()? {
                if out.is_json() {
                    out.json(&PersonRow { name: &name, publisher: &publisher.to_string() })?;
                } else {
                    out.line(&format!("{name}  {publisher}"))?;
                }
            }
        }
    }
    Ok(Exit::Done)
}

/// Shows the card by a code until the code is used or has expired.
fn card_by_code(
    store: &Path,
    at: &[SocketAddr],
    relays: &[Relay],
    how: ShowCard,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let shown = show_card(store, at, relays, how, &stop, &mut |event| out.event(event));
    out.take_broken()?;
    match shown? {
        Some(CodeEnd::Used) => Ok(Exit::Done),
        Some(over) => {
            Err(CommandFailure::new(Exit::Unreachable, format!("the card was not fetched: {over}")))
        }
        None => {
            Err(CommandFailure::new(Exit::Interrupted, "interrupted before the card was fetched"))
        }
    }
}

fn list(inbox: &Inbox, store: &Path, out: &mut Out) -> Result<Exit, CommandFailure> {
    let messages = inbox.list()?;
    for message in &messages {
        if out.is_json() {
            out.json(&MailEvent::Arrived(Box::new(message.clone())))?;
        } else {
            out.line(&row(message))?;
        }
    }
    let unlisted = |e| CommandFailure::new(Exit::Local, format!("{}: {e}", store.display()));
    let damaged = xylem_mailbox::damaged(store).map_err(unlisted)?;
    for it in &damaged {
        let what = format!("{}: {}", it.path.display(), it.what);
        out.event(Event::Library(LibraryEvent::Warning { what }));
    }
    if messages.is_empty() && damaged.is_empty() {
        out.note("No mail.");
    }
    Ok(if damaged.is_empty() { Exit::Done } else { Exit::Damaged })
}

/// A row of the list: number, sender, content, size, time, and whether it was accepted or its sender is unknown.
fn row(message: &MailMessage) -> String {
    let what = match &message.what {
        MessageContent::Ticket(_) => clean(&message.name).into_owned(),
        MessageContent::Note(text) => {
            let first: String = text.lines().next().unwrap_or_default().chars().take(40).collect();
            format!("note: {}", clean(&first))
        }
    };
    let state = match (message.accepted, message.known) {
        (true, _) => "  (accepted)",
        (false, false) => "  (unknown sender)",
        (false, true) => "",
    };
    format!(
        "{:>4}  {}  {}  {}  {}{state}",
        message.number,
        message.from,
        what,
        bytes(message.size),
        ago(message.received_ms),
    )
}

/// The age of a message, such as `5 min ago`. It is by the clock of the machine that lists.
fn ago(ms: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = now.saturating_sub(Duration::from_millis(ms)).as_secs();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

fn accept_one(
    inbox: &Inbox,
    args: AcceptArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let message = inbox.message(args.number)?;
    let number = args.number;
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    match message.what {
        MessageContent::Note(text) => {
            if out.is_json() {
                out.json(&NoteRow { number, text: &text })?;
            } else {
                text.lines().try_for_each(|line| out.line(line))?;
            }
        }
        MessageContent::Ticket(ticket) => accept(*ticket, args, &stop, common, out)?,
    }
    // The data are here: it is no failure if the sender cannot be notified.
    if !inbox.accepted(number, TELL, &Stop::new())? {
        out.detail("the sender could not be notified");
    }
    Ok(Exit::Done)
}

/// Event: our card.
#[derive(Serialize)]
#[serde(tag = "event", rename = "card")]
pub(crate) struct CardRow<'a> {
    pub(crate) card: &'a str,
}

/// The card as `inbox card` prints it; `None` if the store has none, or making it needs a passphrase.
pub(crate) fn own_card(store: &Path) -> Result<Option<String>, CommandFailure> {
    let bare = |name| store.join("keys").join(name).metadata().is_ok_and(|meta| meta.len() == 32);
    if !store.join("mail").is_dir() || !bare("publisher") || !bare("link") {
        return Ok(None);
    }
    let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, LINK_PORT));
    Ok(Some(Inbox::open(store)?.card(&[anywhere], None)?.to_string()))
}

/// Event: a person with a name.
#[derive(Serialize)]
#[serde(tag = "event", rename = "person")]
struct PersonRow<'a> {
    name: &'a str,
    publisher: &'a str,
}

/// Event: the text of a note.
#[derive(Serialize)]
#[serde(tag = "event", rename = "note")]
struct NoteRow<'a> {
    number: u32,
    text: &'a str,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&CardRow { card: "xylem-peer:a" });
        assert_documented(&PersonRow { name: "n", publisher: "00" });
        assert_documented(&NoteRow { number: 1, text: "t" });
    }
}
