//! [`LinkKeys`]: the keys of both directions and their changes: epochs, rounds of Diffie-Hellman, and tokens of stateless
//! resets.

use core::net::SocketAddr;
use core::time::Duration;

use constant_time_eq::constant_time_eq_n;

use super::Link;
#[cfg(test)]
use crate::aead::Cipher;
#[cfg(test)]
use crate::epoch::EpochSecret;
use crate::event::CloseReason;
use crate::frame::Frame;
use crate::header::ConnectionId;
use crate::kdf::LinkRng;
use crate::rekey::{Carried, Rekey};
use crate::replay::ReplayWindow;
use crate::reset::{PeerToken, ResetKey, Token, is_reset};
use crate::seal::{OpenDatagramError, Opener, Sealer, Stalled, Unsealed};
use crate::stats::LinkStats;

/// The peer's frame is not allowed at this point.
pub(super) struct KeyFrameRefused;

/// See the module's documentation.
pub(super) struct LinkKeys {
    sealer: Sealer,
    opener: Opener,
    rekey: Rekey,
    /// Makes the reset tokens that the peer receives; `None` where no resets are sent.
    reset_key: Option<ResetKey>,
    /// A token has to be sent once more, although the epoch has been acknowledged.
    token_owed: bool,
    token: PeerToken,
    /// The connection ids or the peer's token have changed.
    routes_changed: bool,
    /// The peer's epoch that is to be acknowledged.
    epoch_ack: Option<u64>,
    /// When our epoch is announced (again); `None` once the peer has confirmed it.
    announce: Option<Duration>,
}

impl LinkKeys {
    pub(super) fn new(now: Duration, sealer: Sealer, opener: Opener, rekey: Rekey) -> Self {
        Self {
            sealer,
            opener,
            rekey,
            reset_key: None,
            token_owed: false,
            token: PeerToken::default(),
            routes_changed: false,
            epoch_ack: None,
            announce: Some(now),
        }
    }

    /// Seals a datagram in place; see [`Sealer::seal`].
    #[inline]
    pub(super) fn seal(&mut self, datagram: &mut [u8]) {
        self.sealer.seal(datagram);
    }

    /// The packet number of the datagram that is sealed next.
    #[inline]
    pub(super) fn next_number(&self) -> u64 {
        self.sealer.next_number()
    }

    /// Opens a datagram in place. The connection ids may have changed with it.
    #[inline]
    pub(super) fn open(
        &mut self,
        now: Duration,
        datagram: &mut [u8],
    ) -> Result<Unsealed, OpenDatagramError> {
        let opened = self.opener.open(now, datagram)?;
        self.routes_changed |= opened.advanced;
        Ok(opened)
    }

    /// Returns whether so many forgeries have arrived that the keys must not open more.
    pub(super) fn is_worn_out(&self) -> bool {
        self.opener.is_worn_out()
    }

    /// The packet numbers received.
    #[inline]
    pub(super) fn window(&self) -> &ReplayWindow {
        self.opener.window()
    }

    /// The connection ids under which the peer's datagrams may arrive now.
    pub(super) fn connection_ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.opener.connection_ids()
    }

    /// Returns whether the connection ids or the peer's token have changed since the last call.
    pub(super) fn take_routes_changed(&mut self) -> bool {
        core::mem::take(&mut self.routes_changed)
    }

    /// Begins our next epoch if it is due, and counts that.
    pub(super) fn advance_if_due(
        &mut self,
        now: Duration,
        stats: &mut LinkStats,
    ) -> Result<(), Stalled> {
        let ratcheting = self.sealer.is_ratcheting();
        if self.sealer.advance_if_due(now)? {
            stats.rekeys += 1;
            stats.ratchets += u64::from(ratcheting);
            self.announce = Some(now);
        }
        Ok(())
    }

    /// Handles a new address of the peer, to which reset tokens are bound.
    pub(super) fn on_peer_moved(&mut self) {
        self.sealer.on_move();
        self.token_owed = true;
    }

    /// Handles a new address of this side.
    pub(super) fn on_own_move(&mut self) {
        self.sealer.on_move();
    }

    /// Handles an arrival in an epoch that has taken a round in.
    pub(super) fn on_ratcheted(&mut self, now: Duration, carried: Carried) {
        if let Some(secret) = self.rekey.on_ratcheted(now, carried) {
            self.sealer.ratchet(secret);
        }
    }

    /// A newer epoch has overtaken an announcement of an older one; no honest peer can have sealed one of a future
    /// epoch yet.
    pub(super) fn on_epoch(
        &mut self,
        number: u64,
        commitment: &[u8; 32],
    ) -> Result<(), KeyFrameRefused> {
        if number > self.opener.epoch() {
            return Err(KeyFrameRefused);
        }
        if number == self.opener.epoch() {
            if !constant_time_eq_n(commitment, &self.opener.commitment()) {
                return Err(KeyFrameRefused);
            }
            self.epoch_ack = Some(number);
        }
        Ok(())
    }

    pub(super) fn on_epoch_ack(&mut self, number: u64) {
        self.sealer.confirm(number);
        if self.sealer.is_confirmed() {
            self.announce = None;
        }
    }

    pub(super) fn on_rekey(
        &mut self,
        round: u32,
        answer: bool,
        key: &[u8; 32],
        rng: &mut LinkRng,
    ) -> Result<(), KeyFrameRefused> {
        let new = self.rekey.on_frame(round, answer, key, rng).map_err(|_| KeyFrameRefused)?;
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

    /// Writes the frames about keys that are due. Returns whether one of them acknowledges an epoch of the peer's.
    pub(super) fn write(&mut self, now: KeyTime, rng: &mut LinkRng, out: &mut Vec<u8>) -> bool {
        let KeyTime { now, wait, carried, remote } = now;
        let acked = self.epoch_ack.take();
        if let Some(number) = acked {
            Frame::EpochAck(number).write(out);
            self.token_owed |= number == self.opener.epoch();
        }
        if self.announce.is_some_and(|at| now >= at) {
            self.announce = Some(now + wait);
            let (number, commitment) = (self.sealer.epoch(), self.sealer.commitment());
            Frame::Epoch { number, commitment }.write(out);
        }
        if core::mem::take(&mut self.token_owed)
            && let Some(key) = &self.reset_key
        {
            let token = key.token(self.opener.connection_id(), remote);
            Frame::ResetToken { epoch: self.opener.epoch(), token }.write(out);
        }
        if let Some(frame) = self.rekey.poll(now, carried, wait, rng) {
            frame.write(out);
        }
        acked.is_some()
    }

    /// When [`Self::write`] or [`Self::handle_timeout`] is due.
    pub(super) fn next_timeout(&self, carried: Carried) -> Option<Duration> {
        let due = [self.announce, self.rekey.next_timeout(carried), self.opener.forget_at()];
        due.into_iter().flatten().min()
    }

    /// Forgets keys of epochs that are over.
    pub(super) fn handle_timeout(&mut self, now: Duration) {
        self.opener.forget_if_due(now);
    }
}

/// What the frames about keys depend on beside the keys.
pub(super) struct KeyTime {
    pub(super) now: Duration,
    /// How long an acknowledgement is awaited.
    pub(super) wait: Duration,
    pub(super) carried: Carried,
    /// The peer's address, to which reset tokens are bound.
    pub(super) remote: SocketAddr,
}

impl Link {
    /// The cipher that seals datagrams.
    #[cfg(test)]
    pub(crate) fn cipher(&self) -> Cipher {
        self.keys.sealer.cipher()
    }

    /// The content that an attacker with access to memory would take.
    #[cfg(test)]
    pub(crate) fn secrets_in_memory(&self) -> (EpochSecret, LinkRng) {
        (self.keys.sealer.stolen(), self.rng.stolen())
    }

    /// Mixes in randomness for future keys.
    pub(crate) fn add_entropy(&mut self, random: &[u8; 32]) {
        self.rng.add(random);
    }

    /// Has the reset tokens of this side sent to the peer, by which it can recognize that this side has lost its state.
    pub(crate) fn send_reset_tokens(&mut self, key: ResetKey) {
        self.keys.reset_key = Some(key);
    }

    /// The peer's token for the datagrams that we send now, once it has arrived.
    pub(crate) fn peer_token(&self) -> Option<&Token> {
        self.keys.token.get()
    }

    /// Handles a datagram that no key opens. Returns whether it is the peer's stateless reset, which has then ended the
    /// link.
    pub(crate) fn on_unknown_datagram(&mut self, from: SocketAddr, datagram: &[u8]) -> bool {
        let is = |token| is_reset(datagram, token);
        let reset = from == self.remote && self.peer_token().is_some_and(is);
        if reset {
            self.ending.end(CloseReason::Reset);
        }
        reset
    }

    /// What the link has carried, of which the time of key changes depends.
    pub(super) fn carried(&self) -> Carried {
        let stats = &self.stats;
        Carried {
            bytes: stats.bytes_sent + stats.bytes_received,
            received: stats.datagrams_received,
        }
    }
}
