//! `--publisher WHO`: a publisher's key, by whatever says whose it is.

use crate::exit::{Exit, Failure};
use serde::Serialize;
use std::path::Path;
use xylem_library::keys::public_half;
use xylem_library::mail::MailStore;
use xylem_mail::Card;
use xylem_object::{PublisherId, Ticket};

/// Most bytes of a file that is read for a key: a card or a ticket is far shorter.
const MOST: u64 = 4_096;

/// The key of a hexadecimal text, a ticket, a card, somebody whom `xylem inbox trust` has named, or a file
/// that begins with one of the first three.
pub(crate) fn look_up(who: &str, store: &Path) -> Result<PublisherId, Failure> {
    let takes = "--publisher takes 64 hexadecimal digits (`xylem key list` and `share -v` print them), a ticket, a \
                 card, a name of `xylem inbox people`, or a file with one of these";
    somebody(who, store, read, |card| card.party.publisher, ("key", takes))
}

/// The card that `--for WHO` stands for: itself, that of somebody whom `xylem inbox trust` has named, or of a file
/// that begins with one.
pub(crate) fn card(who: &str, store: &Path) -> Result<Card, Failure> {
    let takes = "--for takes a name of `xylem inbox people`, a card (`xylem inbox card` prints one's own), or a \
                 file with one";
    somebody(who, store, |text| text.parse().ok(), |card| card, ("card", takes))
}

/// What a text says, what somebody's card says whom this store knows, or what a file (also as @FILE) begins with.
fn somebody<T>(
    who: &str,
    store: &Path,
    read: fn(&str) -> Option<T>,
    of_card: fn(Card) -> T,
    (what, takes): (&str, &str),
) -> Result<T, Failure> {
    if let Some(said) = read(who) {
        return Ok(said);
    }
    if let Some(mail) = MailStore::open_existing(store)?
        && let Some((_, card)) = mail.people()?.into_iter().find(|(name, _)| name == who)
    {
        return Ok(of_card(card));
    }
    let unknown = |why: &str| Failure::new(Exit::Usage, format!("{who}: {why}; {takes}"));
    let path = Path::new(who.strip_prefix('@').unwrap_or(who));
    match path.metadata() {
        Ok(meta) if meta.is_file() && meta.len() <= MOST => {
            let text = std::fs::read_to_string(path).map_err(|e| unknown(&e.to_string()))?;
            let said = read(text.split_whitespace().next().unwrap_or_default());
            said.ok_or_else(|| unknown(&format!("no {what} is in that file")))
        }
        _ => Err(unknown(&format!("nobody's {what}"))),
    }
}

/// A key, a ticket or a card.
fn read(text: &str) -> Option<PublisherId> {
    let of_ticket = || Some(text.parse::<Ticket>().ok()?.publisher);
    let of_card = || Some(text.parse::<Card>().ok()?.party.publisher);
    text.parse().ok().or_else(of_ticket).or_else(of_card)
}

/// The publisher that `xylem share` signs as with this store, if it ever has.
pub(crate) fn own(store: &Path) -> Result<Option<PublisherId>, Failure> {
    let path = store.join("keys").join("publisher");
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(PublisherId(public_half(&path)?)))
}

/// The store's own publisher.
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
