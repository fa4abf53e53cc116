//! Codes: a number and three words that one person reads to another, `7-alpha-cobra-violin`, instead of a ticket.
//!
//! [`SpokenCode`] is the text. The number is not secret: a relay or the LAN uses it to lead a taker to the peer that shows
//! the code ([`knock`]). Over a link with the peer that answers there, the two run SPAKE2 on a stream. Its password is
//! the code, and its identities are the static keys of both ends of the link. [`CodeTake`] is the side that entered the
//! code, [`CodeOffer`] the side that shows it. A peer that does not know the words has one guess per try, and so has a
//! relay between the two. The third wrong guess ends the code. The text that is handed over, a ticket or a card, is
//! encrypted under the shared key.
//!
//! The program reads and writes the reliable stream of the link. Time is passed in, and randomness comes from seeds.
//! Wire format: docs/spec/reach.md, "Codes".

mod error;
mod exchange;
mod meeting;
mod message;
mod offer;
mod punching;
mod take;
mod words;

#[cfg(test)]
mod tests;

pub use error::{CodeEnd, CodeError, TakeError};
pub use exchange::CodeRole;
pub use meeting::{
    MEETING_WINDOW, meeting_key, meeting_publisher, meeting_window, meeting_windows,
};
pub use message::MAX_TEXT;
pub use offer::{CodeOffer, CodeOfferEvent, LIFETIME, MAX_WRONG_GUESSES};
pub use punching::{
    CodePunching, MAX_PUNCHED, MAX_PUNCHES, PUNCH_LEN, PunchWay, SEARCH_PORTS, SEARCH_SOCKETS,
    draw_search_ports,
};
pub use take::{CodeTake, CodeTakeStep};
pub use words::{SpokenCode, distance, looks_like_code};

/// The knock that a dialer derives from a code's number (`Endpoint::connect_by_knock` of the link).
#[must_use]
pub fn knock(number: u32) -> [u8; 32] {
    xylem_hash::derive_key("xylem-reach v1 code knock", &number.to_be_bytes())
}
