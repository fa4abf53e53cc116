//! Codes such as `7-alpha-cobra-violin` on the command line, in place of a ticket or a card.

use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::values::{read_text, ticket_of};
use std::time::Duration;
use xylem_base::Stop;
use xylem_node::code::{CodeDht, CodeError, SpokenCode, TakeOptions, TakenCode, take};
use xylem_node::{PeerAddress, Relay};
use xylem_object::Ticket;

/// Why a code of a ticket is refused where a card is expected.
pub(crate) const FOR_A_TICKET: &str =
    "that code was for a ticket and is used up; ask for another, for `xylem get CODE`";

/// Whether a word of the command line is meant to be a code.
pub(crate) use xylem_node::code::looks_like_code;

/// Seconds after which a code is given up by default. Of these the DHT needs some twenty, if an offerer is listed late.
pub(crate) const CODE_GIVE_UP_S: u32 = 30;

/// Where to look for the peer that shows a code.
#[derive(Clone, Debug)]
pub(crate) struct CodeSource {
    /// The peers that the user named. If there are none, the code's number leads to the peer.
    pub(crate) from: Vec<PeerAddress>,
    /// Relays at which to look up the number.
    pub(crate) relays: Vec<Relay>,
    /// Whether to look it up on the LAN.
    pub(crate) lan: bool,
    /// How to look it up in the DHT.
    pub(crate) dht: Option<CodeDht>,
}

/// A ticket, and where to fetch what it names.
pub(crate) struct FoundTicket {
    pub(crate) ticket: Ticket,
    /// Peers to ask instead of the ticket's.
    pub(crate) from: Vec<PeerAddress>,
    /// The local UDP port to ask them from ([`TakenCode::port`]).
    pub(crate) port: Option<u16>,
}

/// Fetches the text that a code stands for from the peer that shows it.
pub(crate) fn redeem(
    text: &str,
    at: CodeSource,
    give_up: Duration,
    stop: &Stop,
    out: &mut Out,
) -> Result<TakenCode, CommandFailure> {
    let CodeSource { from, relays, lan, dht } = at;
    let wrong = |e: CodeError| CommandFailure::new(Exit::Usage, e.to_string());
    let code: SpokenCode = text.parse().map_err(wrong)?;
    if let Some(other) = from.iter().find(|peer| !peer.is_link()) {
        let what = format!("{other}: a code works over the encrypted link only; give HOST:PORT");
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let options = TakeOptions { code, from, relays, lan, dht, give_up };
    let taken = take(&options, stop, &mut |event| out.event(event));
    out.take_broken()?;
    Ok(taken?)
}

/// Returns a ticket: the text itself, or what a code stands for. A peer that handed the ticket over gets its link key.
pub(crate) fn or_ticket(
    text: &str,
    at: CodeSource,
    give_up: Duration,
    stop: &Stop,
    out: &mut Out,
) -> Result<FoundTicket, CommandFailure> {
    let mut from = at.from.clone();
    let text = read_text(text)?;
    if !looks_like_code(&text) {
        return Ok(FoundTicket { ticket: ticket_of(&text)?, from, port: None });
    }
    let told = redeem(&text, at, give_up, stop, out)?;
    let other =
        "that code was for a card and is used up; ask for another, for `xylem send FILE CODE`";
    let mut ticket: Ticket = read(&told, other)?;
    // The sharer is registered there by its link key, too.
    ticket.relays.extend(told.relays.iter().map(|relay| relay.at.clone()));
    if told.port.is_some() {
        // The addresses in its ticket may be those of a private network elsewhere.
        from.push(told.from.clone());
    }
    for peer in from.iter_mut().filter(|peer| peer.link_address() == told.from.link_address()) {
        if let Some(key) = peer.link_key_mut() {
            *key = key.or(ticket.link_key);
        }
    }
    Ok(FoundTicket { ticket, from, port: told.port })
}

/// Parses what a code stood for. `other` is the message if the code stands for something of the other kind.
pub(crate) fn read<T: std::str::FromStr>(
    told: &TakenCode,
    other: &str,
) -> Result<T, CommandFailure> {
    let wrong = |_| CommandFailure::new(Exit::Usage, other.to_owned());
    told.text.parse().map_err(wrong)
}
