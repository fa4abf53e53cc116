//! [`CodeTake`]: the side that has entered a code.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_link::PeerKey;

use super::error::TakeError;
use super::exchange::{CodeRole, SharedKey, StartedExchange};
use super::message::{CodeMessage, CodeMessageReader};
use super::words::SpokenCode;

/// One try with one peer. Send the bytes from [`CodeTake::new`] first. Then pass what arrives to [`CodeTake::received`] until
/// it returns [`CodeTakeStep::Text`] or an error.
pub struct CodeTake {
    messages: CodeMessageReader,
    state: TakeState,
}

enum TakeState {
    Begun(StartedExchange),
    Proved(SharedKey),
    Over,
}

/// The result of received bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodeTakeStep {
    /// Nothing yet.
    Wait,
    /// Send these bytes.
    Send(Vec<u8>),
    /// The text from the other side, which has proven that it has the code.
    Text(String),
}

impl CodeTake {
    /// Begins a try. `own` and `peer` are the static keys of the link's ends. Also returns the first bytes for the
    /// stream.
    #[must_use]
    pub fn new(code: &SpokenCode, own: PeerKey, peer: PeerKey, seed: &[u8; 32]) -> (Self, Vec<u8>) {
        let (begun, element) = StartedExchange::new(CodeRole::Taker, code, own, peer, seed);
        let take = Self { messages: CodeMessageReader::default(), state: TakeState::Begun(begun) };
        (take, CodeMessage::Hello(element).encode())
    }

    /// Takes bytes of the stream, cut anywhere.
    ///
    /// # Errors
    /// [`TakeError`]; the try has then ended.
    pub fn received(&mut self, bytes: &[u8]) -> Result<CodeTakeStep, TakeError> {
        let message = match self.messages.push(bytes) {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(CodeTakeStep::Wait),
            Err(_) => {
                self.state = TakeState::Over;
                return Err(TakeError::Broken);
            }
        };
        match (core::mem::replace(&mut self.state, TakeState::Over), message) {
            (TakeState::Begun(begun), CodeMessage::Answer(element)) => {
                let shared = begun.finish(&element).ok_or(TakeError::Broken)?;
                let proof = CodeMessage::Proof(shared.proof(CodeRole::Taker)).encode();
                self.state = TakeState::Proved(shared);
                Ok(CodeTakeStep::Send(proof))
            }
            (TakeState::Proved(shared), CodeMessage::Handed(proof, sealed)) => {
                if !shared.proves(CodeRole::Offerer, &proof) {
                    return Err(TakeError::Wrong);
                }
                shared.open(sealed).map(CodeTakeStep::Text).ok_or(TakeError::Broken)
            }
            (TakeState::Begun(_) | TakeState::Proved(_), CodeMessage::Refused(why)) => {
                Err(why.into())
            }
            _ => Err(TakeError::Broken),
        }
    }
}
