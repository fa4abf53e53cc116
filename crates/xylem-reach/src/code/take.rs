//! [`Take`]: the side that was told a code.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_link::PeerKey;

use super::error::TakeError;
use super::exchange::{Begun, Role, Shared};
use super::message::{Message, Messages};
use super::words::Code;

/// One try with one peer. Order: [`Take::new`], whose bytes go out first; then what comes in to
/// [`Take::received`] until it gives [`Taken::Text`] or an error.
pub struct Take {
    messages: Messages,
    state: State,
}

enum State {
    Begun(Begun),
    Proved(Shared),
    Over,
}

/// What came of bytes that were received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Nothing yet.
    Wait,
    /// These bytes go out.
    Send(Vec<u8>),
    /// What the other side hands over, which has proven that it has the code.
    Text(String),
}

impl Take {
    /// A try; `own` and `peer` are the keys of the link's ends. Also the first bytes for the stream.
    #[must_use]
    pub fn new(code: &Code, own: PeerKey, peer: PeerKey, seed: &[u8; 32]) -> (Self, Vec<u8>) {
        let (begun, element) = Begun::new(Role::Taker, code, own, peer, seed);
        let take = Self { messages: Messages::default(), state: State::Begun(begun) };
        (take, Message::Hello(element).encode())
    }

    /// Bytes of the stream, in any cut.
    ///
    /// # Errors
    /// [`TakeError`]; the try is over then.
    pub fn received(&mut self, bytes: &[u8]) -> Result<Taken, TakeError> {
        let message = match self.messages.push(bytes) {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(Taken::Wait),
            Err(_) => {
                self.state = State::Over;
                return Err(TakeError::Broken);
            }
        };
        match (core::mem::replace(&mut self.state, State::Over), message) {
            (State::Begun(begun), Message::Answer(element)) => {
                let shared = begun.finish(&element).ok_or(TakeError::Broken)?;
                let proof = Message::Proof(shared.proof(Role::Taker)).encode();
                self.state = State::Proved(shared);
                Ok(Taken::Send(proof))
            }
            (State::Proved(shared), Message::Handed(proof, sealed)) => {
                if !shared.proves(Role::Offerer, &proof) {
                    return Err(TakeError::Wrong);
                }
                shared.open(sealed).map(Taken::Text).ok_or(TakeError::Broken)
            }
            (State::Begun(_) | State::Proved(_), Message::Refused(why)) => Err(why.into()),
            _ => Err(TakeError::Broken),
        }
    }
}
