//! The Diffie-Hellman ratchet of a link: when fresh keys are exchanged, and when each side may use them.
//!
//! The dialer offers an X25519 key and repeats it until the responder has answered with one of its own; both travel
//! sealed, in rekey frames. From then on each side's receiver knows two epochs that may come next: the plain one, and
//! the one that takes the shared secret in. The dialer takes it in with its next epoch, at once. The responder takes it
//! in when something has arrived in that epoch, which shows that the dialer has the answer. The round ends when the
//! dialer receives something in an epoch of the responder's that has taken it in (docs/spec/link.md, "Rekeying").
//!
//! An attacker that knew every secret of the link before a round reads nothing after it, if it did not insert keys of
//! its own during the round, and if the round's keys are drawn from randomness that it does not know:
//! [`crate::Endpoint::add_entropy`].
//!
//! This module does not derive epochs ([`crate::seal`]), read the clock or count retransmissions. A round costs each
//! side two multiplications.

use core::time::Duration;

use crate::curve;
use crate::epoch::RatchetSecret;
use crate::frame::Frame;
use crate::kdf::LinkRng;
use crate::secret::{HeapSecret, leaving_nothing};

/// Datagrams that have to arrive before time makes a round due: rounds must not keep a silent link from idling out.
const MIN_RECEIVED: u64 = 8;

/// When the dialer of a link begins a round of Diffie-Hellman. The first limit that is reached counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RatchetLimits {
    /// Bytes of datagrams in both directions since the last round.
    pub bytes: u64,
    /// Time since the last round.
    pub time: Duration,
}

impl Default for RatchetLimits {
    fn default() -> Self {
        Self { bytes: 1 << 34, time: Duration::from_secs(120) }
    }
}

/// The peer's frame is not allowed at this point.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RekeyRefused;

/// Traffic of the link so far.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Carried {
    /// Bytes of both directions.
    pub bytes: u64,
    /// Datagrams that arrived.
    pub received: u64,
}

/// One side's state in the rounds of a link.
pub(crate) struct Rekey {
    /// The last round that this side has begun or answered, from 1; 0 before the first.
    round: u32,
    state: RekeyState,
}

enum RekeyState {
    /// Dialer: no round since this time and this traffic.
    Resting { limits: RatchetLimits, since: Duration, carried: Carried },
    /// Dialer: an offer is under way, sent (again) at `next`.
    Offered { limits: RatchetLimits, secret: HeapSecret, public: [u8; 32], next: Duration },
    /// Dialer: answered; the responder's epochs have not taken the secret in yet.
    Answered { limits: RatchetLimits },
    /// Responder: nothing under way.
    Listening,
    /// Responder: answered. The secret is for our own sender, once the dialer has it.
    Answering { offer: [u8; 32], answer: [u8; 32], due: bool, secret: RatchetSecret },
}

impl Rekey {
    pub(crate) fn dialer(limits: RatchetLimits, now: Duration) -> Self {
        let carried = Carried::default();
        Self { round: 0, state: RekeyState::Resting { limits, since: now, carried } }
    }

    pub(crate) fn responder() -> Self {
        Self { round: 0, state: RekeyState::Listening }
    }

    /// When [`Rekey::poll`] is due, if that depends on time alone.
    pub(crate) fn next_timeout(&self, carried: Carried) -> Option<Duration> {
        match &self.state {
            RekeyState::Resting { limits, since, carried: before }
                if carried.received - before.received >= MIN_RECEIVED =>
            {
                since.checked_add(limits.time)
            }
            RekeyState::Offered { next, .. } => Some(*next),
            _ => None,
        }
    }

    /// The frame that is due now, if one is. `wait`: how long an answer may take.
    pub(crate) fn poll(
        &mut self,
        now: Duration,
        carried: Carried,
        wait: Duration,
        rng: &mut LinkRng,
    ) -> Option<Frame<'_>> {
        if let RekeyState::Resting { limits, since, carried: before } = &self.state {
            let in_use = carried.received - before.received >= MIN_RECEIVED;
            let due = in_use && now.saturating_sub(*since) >= limits.time
                || carried.bytes - before.bytes >= limits.bytes;
            if !due || self.round == u32::MAX {
                return None;
            }
            let secret = rng.secret();
            let public = leaving_nothing(|| curve::public_key(&secret));
            self.round += 1;
            self.state = RekeyState::Offered { limits: *limits, secret, public, next: now };
        }
        let round = self.round;
        match &mut self.state {
            RekeyState::Offered { public, next, .. } if now >= *next => {
                *next = now + wait;
                Some(Frame::Rekey { round, answer: false, key: public })
            }
            RekeyState::Answering { answer, due, .. } if *due => {
                *due = false;
                Some(Frame::Rekey { round, answer: true, key: answer })
            }
            _ => None,
        }
    }

    /// Takes a rekey frame of the peer. Returns the secret once, when it is new: this side's receiver has to know it
    /// from now on, and the dialer's sender may use it.
    pub(crate) fn on_frame(
        &mut self,
        round: u32,
        answer: bool,
        key: &[u8; 32],
        rng: &mut LinkRng,
    ) -> Result<Option<RatchetSecret>, RekeyRefused> {
        let is_dialer = !matches!(self.state, RekeyState::Listening | RekeyState::Answering { .. });
        if answer != is_dialer || round > self.round.saturating_add(u32::from(!is_dialer)) {
            return Err(RekeyRefused);
        }
        if is_dialer { self.on_answer(round, key) } else { self.on_offer(round, key, rng) }
    }

    fn on_answer(
        &mut self,
        round: u32,
        key: &[u8; 32],
    ) -> Result<Option<RatchetSecret>, RekeyRefused> {
        let RekeyState::Offered { limits, secret, .. } = &self.state else { return Ok(None) };
        if round != self.round {
            return Ok(None);
        }
        let shared = leaving_nothing(|| curve::agree(secret, key)).ok_or(RekeyRefused)?;
        self.state = RekeyState::Answered { limits: *limits };
        Ok(Some(RatchetSecret { shared, round }))
    }

    fn on_offer(
        &mut self,
        round: u32,
        key: &[u8; 32],
        rng: &mut LinkRng,
    ) -> Result<Option<RatchetSecret>, RekeyRefused> {
        match &mut self.state {
            RekeyState::Answering { offer, due, .. } if round == self.round => {
                if offer != key {
                    return Err(RekeyRefused);
                }
                *due = true;
                return Ok(None);
            }
            // An honest dialer ends a round before it begins another.
            RekeyState::Answering { .. } if round > self.round => return Err(RekeyRefused),
            // An old copy that was delayed.
            _ if round <= self.round => return Ok(None),
            _ => {}
        }
        let secret = rng.secret();
        let both = leaving_nothing(|| (curve::agree(&secret, key), curve::public_key(&secret)));
        let (shared, answer) = both;
        let secret = RatchetSecret { shared: shared.ok_or(RekeyRefused)?, round };
        self.round = round;
        let given = secret.clone();
        self.state = RekeyState::Answering { offer: *key, answer, due: true, secret };
        Ok(Some(given))
    }

    /// Handles an arrival in an epoch of the peer's that has taken the secret in. Returns the secret to the responder:
    /// its sender may use it from now on; ends the dialer's round.
    pub(crate) fn on_ratcheted(
        &mut self,
        now: Duration,
        carried: Carried,
    ) -> Option<RatchetSecret> {
        match core::mem::replace(&mut self.state, RekeyState::Listening) {
            RekeyState::Answering { secret, .. } => Some(secret),
            RekeyState::Answered { limits } => {
                self.state = RekeyState::Resting { limits, since: now, carried };
                None
            }
            other => {
                self.state = other;
                None
            }
        }
    }
}
