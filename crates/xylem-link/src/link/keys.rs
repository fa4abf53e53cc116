//! A link's part in key changes: rounds of Diffie-Hellman, and tokens of stateless resets.

use core::net::SocketAddr;
use core::time::Duration;

use super::{Carried, Link, ResetKey, Token};
#[cfg(test)]
use crate::aead::Cipher;
#[cfg(test)]
use crate::epoch::EpochSecret;
use crate::event::CloseReason;
use crate::frame::Frame;
#[cfg(test)]
use crate::kdf::LinkRng;
use crate::reset::is_reset;

/// The peer's frame is not allowed at this point.
pub(super) struct KeyFrameRefused;

impl Link {
    /// The cipher that seals datagrams.
    #[cfg(test)]
    pub(crate) fn cipher(&self) -> Cipher {
        self.sealer.cipher()
    }

    /// The content that an attacker with access to memory would take.
    #[cfg(test)]
    pub(crate) fn secrets_in_memory(&self) -> (EpochSecret, LinkRng) {
        (self.sealer.stolen(), self.rng.stolen())
    }

    /// Mixes in randomness for future keys.
    pub(crate) fn add_entropy(&mut self, random: &[u8; 32]) {
        self.rng.add(random);
    }

    /// Has the reset tokens of this side sent to the peer, by which it can recognize that this side has lost its state.
    pub(crate) fn send_reset_tokens(&mut self, key: ResetKey) {
        self.reset_key = Some(key);
    }

    /// The peer's token for the datagrams that we send now, once it has arrived.
    pub(crate) fn peer_token(&self) -> Option<&Token> {
        self.token.get()
    }

    /// Handles a datagram that no key opens. Returns whether it is the peer's stateless reset, which has then ended the
    /// link.
    pub(crate) fn on_unknown_datagram(&mut self, from: SocketAddr, datagram: &[u8]) -> bool {
        let is = |token| is_reset(datagram, token);
        let reset = from == self.remote && self.token.get().is_some_and(is);
        if reset {
            self.ended = Some(CloseReason::Reset);
        }
        reset
    }

    pub(super) fn carried(&self) -> Carried {
        let stats = &self.stats;
        Carried {
            bytes: stats.bytes_sent + stats.bytes_received,
            received: stats.datagrams_received,
        }
    }

    /// Handles an arrival in an epoch that has taken a round in.
    pub(super) fn on_ratcheted(&mut self, now: Duration) {
        let carried = self.carried();
        if let Some(secret) = self.rekey.on_ratcheted(now, carried) {
            self.sealer.ratchet(secret);
        }
    }

    pub(super) fn on_rekey(
        &mut self,
        round: u32,
        answer: bool,
        key: &[u8; 32],
    ) -> Result<(), KeyFrameRefused> {
        let new =
            self.rekey.on_frame(round, answer, key, &mut self.rng).map_err(|_| KeyFrameRefused)?;
        let Some(secret) = new else { return Ok(()) };
        if self.sealer.is_ratcheting() {
            // A round has begun before we have taken the last one in: an honest dialer waits for that.
            return Err(KeyFrameRefused);
        }
        if answer {
            self.sealer.ratchet(secret.clone());
        }
        self.opener.ratchet(secret);
        self.routes_changed = true;
        Ok(())
    }

    pub(super) fn on_reset_token(
        &mut self,
        epoch: u64,
        token: &Token,
    ) -> Result<(), KeyFrameRefused> {
        let new =
            self.token.on_frame(epoch, token, self.sealer.epoch()).map_err(|_| KeyFrameRefused)?;
        self.routes_changed |= new;
        Ok(())
    }

    /// Writes an epoch ack, and the reset token for that epoch.
    pub(super) fn write_epoch_ack(&mut self, number: u64, out: &mut Vec<u8>) {
        Frame::EpochAck(number).write(out);
        self.token_owed |= number == self.opener.epoch();
        self.owed.observed = true;
    }

    pub(super) fn write_keys(&mut self, now: Duration, out: &mut Vec<u8>) {
        if core::mem::take(&mut self.token_owed)
            && let Some(key) = &self.reset_key
        {
            let token = key.token(self.opener.connection_id(), self.remote);
            Frame::ResetToken { epoch: self.opener.epoch(), token }.write(out);
        }
        let (carried, wait) = (self.carried(), self.wait());
        if let Some(frame) = self.rekey.poll(now, carried, wait, &mut self.rng) {
            frame.write(out);
        }
    }
}
