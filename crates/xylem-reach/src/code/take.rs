//! [`Take`]: the side that has entered a code.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_link::PeerKey;

use super::error::TakeError;
use super::exchange::{Begun, Role, Shared};
use super::message::{Message, Messages};
use super::words::Code;

/// One try with one peer. Send the bytes from [`Take::new`] first. Then pass what arrives to [`Take::received`] until
/// it returns [`Taken::Text`] or an error.
pub struct Take {
    messages: Messages,
    state: State,
}

enum State {
    Begun(Begun),
    Proved(Shared),
    Over,
}

/// The result of received bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Nothing yet.
    Wait,
    /// Send these bytes.
    Send(Vec<u8>),
    /// The text from the other side, which has proven that it has the code.
    Text(String),
}

impl Take {
    /// Begins a try. `own` and `peer` are the static keys of the link's ends. Also returns the first bytes for the
    /// stream.
    #[must_use]
    pub fn new(code: &Code, own: PeerKey, peer: PeerKey, seed: &[u8; 32]) -> (Self, Vec<u8>) {
        let (begun, element) = Begun::new(Role::Taker, code, own, peer, seed);
        let take = Self { messages: Messages::default(), state: State::Begun(begun) };
        (take, Message::Hello(element).encode())
    }

    /// Takes bytes of the stream, cut anywhere.
    ///
    /// # Errors
    /// [`TakeError`]; the try has then ended.
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
