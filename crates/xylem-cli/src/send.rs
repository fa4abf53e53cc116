//! `xylem send PATH|TICKET PEER`: sends something to one peer, end-to-end encrypted.

use crate::cli::Common;
use crate::code::{CODE_GIVE_UP_S, CodeSource, FOR_A_TICKET, looks_like_code, read, redeem};
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::{CodeDhtArgs, LanArgs};
use crate::flags::{AnnouncedArgs, ListenArgs, TimeoutArgs};
use crate::get::peers;
use crate::output::Out;
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::share::resolve;
use crate::showing::{AnswerArgs, AskArgs};
use crate::stop;
use crate::values::{ListenAt, is_ticket, parse_name, parse_ticket};
use clap::Args;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use xylem_node::mail::{Mail, ReachEffort, Recipient, SendOptions, send};
use xylem_node::{PeerAddress, PeerUri, ShareOptions};

/// Bytes of a note that are read at most; a message holds a little less.
const MAX_NOTE: u64 = 1 << 16;

/// Sends a file, directory, ticket or note to one peer, encrypted
///
/// A path is shared from where it is, and the message tells the peer where to fetch it; the command ends when the peer
/// has fetched it. If the peer is away the message waits. It is tried again while this runs, and by each later `send`,
/// `share`, `ndn node` or `inbox`. With --node it waits at that node instead, which learns neither its content nor its sender.
/// Only the message waits there: a file stays here, and the peer fetches it while this, or a `share` of it, runs.
///
/// If the peer may come when this machine is off, run `xylem get TICKET --seed` on a machine that stays on, and send
/// the ticket that this prints.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem send film.mkv xylem-peer:...    to the owner of that card
  xylem inbox trust ann xylem-peer:...  a name for the card, from now on
  xylem send photos/ ann                shares photos/ until ann has fetched it
  xylem send film.mkv 7-alpha-cobra-violin --to 192.0.2.7:7348   by the code that is shown there
  xylem send xylem:... ann              only the ticket: somebody else serves it
  xylem send film.mkv ann --node node.example.org:7348   ann is away; the node keeps the message,
                                            and this machine the film
  echo 'see you' | xylem send --note - ann

",
    exit_help!()
))]
pub(crate) struct SendArgs {
    /// The file or directory, or a ticket (xylem:...)
    ///
    /// @FILE or - reads a ticket from a file or standard input, which no other user of this machine sees among the
    /// arguments.
    #[arg(value_name = "PATH|TICKET")]
    what: PathBuf,

    /// A name, a card (xylem-peer:...), or a code
    ///
    /// Names are given with `xylem inbox trust`. A code is what `xylem inbox card --code` shows (7-alpha-cobra-violin).
    #[arg(value_name = "PEER")]
    peer: String,

    /// PATH holds a note, which the message carries
    ///
    /// - reads standard input.
    #[arg(long)]
    note: bool,

    /// Dial the peer here: HOST:PORT
    ///
    /// Can be repeated. [default: the addresses of its card]
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    to: Vec<ListenAt>,

    /// Leave the message at this node: [KEY@]HOST:PORT
    ///
    /// The peer fetches it with `inbox --node`.
    #[arg(long, value_name = "NODE", conflicts_with = "to")]
    node: Option<PeerUri>,

    #[command(flatten)]
    listen: ListenArgs,

    #[command(flatten)]
    announced: AnnouncedArgs,

    #[command(flatten)]
    relay: RelayArgs,

    #[command(flatten)]
    lan: LanArgs,

    #[command(flatten)]
    dht: CodeDhtArgs,

    /// Name to publish under, as for `share`
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    timeout: TimeoutArgs,

    #[command(flatten)]
    ask: AskArgs,

    #[command(flatten)]
    answer: AnswerArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Runs `xylem send`.
pub(crate) fn run(args: SendArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let store = common.store()?;
    let mut relays = args.relay.relays(common)?;
    let text = args.what.to_string_lossy();
    let is_ticket = (is_ticket(&text) || text == "-") && !args.what.exists();
    let mut mail = if args.note {
        Mail::Note(note(&args.what)?)
    } else if is_ticket {
        Mail::Ticket(Box::new(parse_ticket(&text)?))
    } else {
        Mail::Path(Box::new(ShareOptions {
            paths: vec![args.what.clone()],
            name: args.name.as_deref().map(parse_name).transpose()?,
            listen: args.listen.places()?,
            announce: args.announced.announce,
            relays: relays.clone(),
            links: args.shape.links(),
            accept_open: args.answer.accept_open,
            store: store.clone(),
            ..ShareOptions::default()
        }))
    };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let (mut at, mut port) = (resolve(&args.to)?, None);
    let to = if looks_like_code(&args.peer) {
        let link = |address: &SocketAddr| PeerAddress::Link { address: *address, key: None };
        let whom = CodeSource {
            from: at.iter().map(link).collect(),
            relays: relays.clone(),
            lan: args.lan.lan(common)?,
            dht: args.dht.with_store(common)?,
        };
        let told = redeem(&args.peer, whom, args.timeout.or_seconds(CODE_GIVE_UP_S), &stop, out)?;
        port = told.port;
        // The other side is registered there by its link key, too, and what is shared is fetched through them.
        relays.extend(told.relays.iter().cloned());
        if let Mail::Path(shared) = &mut mail {
            shared.relays.clone_from(&relays);
        }
        // The addresses in its card may be those of a private network elsewhere.
        at.extend(told.from.link_address().filter(|_| port.is_some()));
        Recipient::Card(Box::new(read(&told, FOR_A_TICKET)?))
    } else {
        let bad = |e: xylem_mail::CardError| CommandFailure::new(Exit::Usage, e.to_string());
        args.peer.parse().map_err(bad)?
    };
    let served = matches!(mail, Mail::Path(_));
    let options = SendOptions {
        mail,
        to,
        at,
        via: args.node.map(|via| peers(&[via])).transpose()?.unwrap_or_default(),
        relays,
        reach: ReachEffort {
            give_up: args.timeout.or_seconds(10),
            ask_who_answers: args.ask.ask_who_answers,
            port,
        },
        store,
    };
    let sent = send(&options, &stop, &mut |event| out.event(event));
    out.take_broken()?;
    let sent = sent?;
    if !sent.delivered && !sent.stored {
        let what = "the message is not delivered yet; it waits, and the next `xylem send`, `share`, \
                    `ndn node` or `inbox` tries again";
        return Err(CommandFailure::new(Exit::Unreachable, what));
    }
    if served {
        out.note("Done: the peer has all of it.");
    }
    Ok(Exit::Done)
}

fn note(path: &std::path::Path) -> Result<String, CommandFailure> {
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().take(MAX_NOTE).read_to_string(&mut text),
        _ => File::open(path).and_then(|file| file.take(MAX_NOTE).read_to_string(&mut text)),
    };
    let wrong =
        |e| CommandFailure::new(Exit::Usage, format!("cannot read {}: {e}", path.display()));
    read.map(|_| text).map_err(wrong)
}
