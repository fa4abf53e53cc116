//! `--publisher WHO` and `--for WHO`: look up keys of publishers and recipients.

use crate::exit::{CommandFailure, Exit};
use serde::Serialize;
use std::path::Path;
use xylem_keys::public_half;
use xylem_link::PeerKey;
use xylem_mail::Card;
use xylem_mailbox::MailStore;
use xylem_node::wall_clock;
use xylem_object::{PublisherId, Ticket};
use xylem_trust::Certificate;

/// Longest file in bytes that is read for a key. A card or a ticket is far shorter.
const MOST: u64 = 4_096;
/// Why a certificate cannot be used for a recipient.
const NOT_FOR_READING: &str = "that certificate's key can only sign; --for takes one of an Ed25519 key, as `xylem \
                               key new` makes it";

/// The publisher's key for a hexadecimal text, a ticket, a card, the name of a person from `xylem inbox trust`, or a
/// file that begins with one of the first three.
pub(crate) fn look_up(who: &str, store: &Path) -> Result<PublisherId, CommandFailure> {
    let takes = "--publisher takes 64 hexadecimal digits (`xylem key list` and `share -v` print them), a ticket, a \
                 card, a name of `xylem inbox people`, or a file with one of these";
    somebody(who, store, read, |card| card.party.publisher, "key", takes)
}

/// The recipient's key for a card, the name of a person from `xylem inbox trust`, a file that begins with a card, or a
/// file with a certificate.
pub(crate) fn recipient(who: &str, store: &Path) -> Result<PeerKey, CommandFailure> {
    let takes = "--for takes a name of `xylem inbox people`, a card (`xylem inbox card` prints one's own), or a \
                 file with a card or a certificate (`xylem key cert`)";
    let path = Path::new(who.strip_prefix('@').unwrap_or(who));
    if path.is_file()
        && let Ok(wire) = xylem_keys::certificate(path)
        && let Ok(certificate) = Certificate::decode(&wire)
    {
        return of_certificate(&certificate)
            .map_err(|why| CommandFailure::new(Exit::Usage, format!("{who}: {why}")));
    }
    let read = |text: &str| Some(text.parse::<Card>().ok()?.party.link);
    somebody(who, store, read, |card| card.party.link, "card", takes)
}

/// The key in a certificate that is valid now.
fn of_certificate(certificate: &Certificate<'_>) -> Result<PeerKey, String> {
    let (valid, now_ms) = (certificate.validity(), wall_clock().milliseconds());
    let when = match now_ms {
        after if after > valid.not_after_ms => "is not valid any more",
        before if before < valid.not_before_ms => "is not valid yet",
        _ => return xylem_keys::recipient(certificate).ok_or_else(|| NOT_FOR_READING.to_owned()),
    };
    Err(format!("the certificate {} {when}", certificate.name()))
}

/// Looks up a key: in the text itself, in the card of a person that this store knows by that name, or in the first word
/// of a file (with or without a leading `@`).
fn somebody<T>(
    who: &str,
    store: &Path,
    read: fn(&str) -> Option<T>,
    of_card: fn(Card) -> T,
    what: &str,
    takes: &str,
) -> Result<T, CommandFailure> {
    if let Some(said) = read(who) {
        return Ok(said);
    }
    if let Some(mail) = MailStore::open_existing(store)?
        && let Some((_, card)) = mail.people()?.into_iter().find(|(name, _)| name == who)
    {
        return Ok(of_card(card));
    }
    let unknown = |why: &str| CommandFailure::new(Exit::Usage, format!("{who}: {why}; {takes}"));
    let path = Path::new(who.strip_prefix('@').unwrap_or(who));
    match path.metadata() {
        Ok(meta) if meta.is_file() && meta.len() <= MOST => {
            let text = std::fs::read_to_string(path).map_err(|e| unknown(&e.to_string()))?;
            let said = read(text.split_whitespace().next().unwrap_or_default());
            said.ok_or_else(|| unknown(&format!("that file contains no {what}")))
        }
        _ => Err(unknown(&format!("neither a {what} nor a known name"))),
    }
}

/// Parses a key, a ticket or a card.
fn read(text: &str) -> Option<PublisherId> {
    let of_ticket = || Some(text.parse::<Ticket>().ok()?.publisher);
    let of_card = || Some(text.parse::<Card>().ok()?.party.publisher);
    text.parse().ok().or_else(of_ticket).or_else(of_card)
}

/// The publisher that `xylem share` signs as with this store; `None` if it never has.
pub(crate) fn own(store: &Path) -> Result<Option<PublisherId>, CommandFailure> {
    let path = store.join("keys").join("publisher");
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(PublisherId(public_half(&path)?)))
}

/// Event: the store's own publisher.
#[derive(Serialize)]
#[serde(tag = "event", rename = "publisher")]
pub(crate) struct PublisherRow<'a> {
    /// Hexadecimal.
    pub(crate) key: &'a str,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&PublisherRow { key: "00" });
    }
}
