//! Codes: a number and three words that one person says to another, `7-alpha-cobra-violin`, instead of a ticket.
//!
//! [`Code`] is the text. The number is no secret: a relay or the LAN leads by it to whoever shows the code
//! ([`knock`]). Over a link with whoever answers there the two run SPAKE2 on a stream, whose password is the code
//! and whose identities are the static keys of both ends of the link: [`Take`] on the side that was told the code,
//! [`Offer`] on the side that shows it. So whoever does not know the words has one guess a try, a relay
//! between the two as much as anybody; and the third wrong guess ends the code. What is handed over, a ticket or
//! a card as text, travels sealed under the key that they then share.
//!
//! Bytes come from and go to a reliable stream of a link that the program reads and writes; time is passed in,
//! randomness comes from seeds. Wire format: docs/spec/reach.md, "Codes".

mod error;
mod exchange;
mod message;
mod offer;
mod take;
mod words;

#[cfg(test)]
mod tests;

pub use error::{CodeError, Over, TakeError};
pub use message::MAX_TEXT;
pub use offer::{GUESSES, LIFETIME, Offer, OfferEvent};
pub use take::{Take, Taken};
pub use words::{Code, distance, looks_like_code};

/// What every dialer knows who was told the number of a code (`Endpoint::connect_by_knock` of the link).
#[must_use]
pub fn knock(number: u32) -> [u8; 32] {
    xylem_hash::derive_key("xylem-reach v1 code knock", &number.to_be_bytes())
}
