//! [`UnprovenAddress`]: how much is sent to an address before it has answered.
//!
//! Answers to a forged sender address go to a victim. Such an address is therefore sent at most three bytes for each
//! byte that came from it, what [`super::UnprovenAllowance`] grants beyond that, and a probe that only its receiver can
//! answer: an Interest with a random name. A forwarder with Nacks returns it as one, as do programs of xylem. Interests that
//! are forwarded to the address carry a random PIT token, which every NDN program that answers them sends back. Frames that
//! exceed the limit wait for the answer, within a small buffer.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::net::IpAddr;
use std::time::Duration;

use xylem_packet::probe::{self, PROBE_LEN, SECRET_LEN};
use xylem_packet::{Data, Interest};

/// Bytes sent for each byte received; as for QUIC (RFC 9000, section 8.1).
const FACTOR: usize = 3;
/// Most bytes of credit that accumulate.
const MOST_CREDIT: usize = 1 << 20;
/// Frames that wait for the answer, and their bytes: some megabytes for a thousand addresses.
const HELD: usize = 4;
const HELD_BYTES: usize = 16 * 1024;
/// Probes without an answer after which a peer counts as one that does not answer: further ones are sent only while
/// frames wait, and the user is warned of those.
const MUTE: u32 = 3;
/// Octets of the PIT token by which an answer to a forwarded Interest is recognised. NDNd 1.5.3 ends at a token of
/// another length. A forged answer has to guess them within the lifetime of an Interest that waits there.
const TOKEN_LEN: usize = 6;
/// Interval between two probes.
const AGAIN: Duration = Duration::from_secs(1);

/// Which UDP peers must prove their address before they are sent bytes without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prove {
    /// All but those on loopback: such addresses cannot be forged from outside.
    #[default]
    Others,
    /// All, loopback included.
    All,
    /// None: for a network in which addresses are not forged.
    Nobody,
}

impl Prove {
    /// Returns whether this address must be proven.
    #[must_use]
    pub fn demanded_of(self, ip: IpAddr) -> bool {
        match self {
            Self::Others => !ip.to_canonical().is_loopback(),
            Self::All => true,
            Self::Nobody => false,
        }
    }
}

/// Credit, waiting frames and the probe of one address; see the module's documentation.
#[derive(Debug, Default)]
pub struct UnprovenAddress {
    credit: usize,
    held: Vec<Vec<u8>>,
    /// It was sent more than three bytes for one.
    drew: bool,
    /// The probe, and when it was sent last.
    asked: Option<([u8; PROBE_LEN], Duration)>,
    times: u32,
    /// The PIT token of Interests to the address.
    token: Option<[u8; TOKEN_LEN]>,
}

impl UnprovenAddress {
    /// Adds credit for bytes received from the address.
    #[inline]
    pub fn received(&mut self, bytes: usize) {
        let more = bytes.saturating_mul(FACTOR);
        self.credit = self.credit.saturating_add(more).min(MOST_CREDIT);
    }

    /// Returns whether this frame may leave now: three for one cover it, or `draw` grants the missing bytes. Otherwise the
    /// frame is kept until [`UnprovenAddress::answered`], as far as there is room.
    pub fn may_send(&mut self, frame: &[u8], draw: impl FnOnce(usize) -> bool) -> bool {
        // The cost of a probe is set aside, so that one can always be sent.
        let paid = self.credit.saturating_sub(PROBE_LEN).min(frame.len());
        let missing = frame.len().saturating_sub(paid);
        if missing == 0 || draw(missing) {
            self.credit = self.credit.saturating_sub(paid);
            self.drew |= missing > 0;
            return true;
        }
        let held = self.held.iter().map(Vec::len).fold(frame.len(), usize::saturating_add);
        if self.held.len() < HELD && held <= HELD_BYTES {
            self.held.push(frame.to_vec());
        }
        false
    }

    /// Returns whether probes are to be sent: frames wait for the answer, or it was sent more than three bytes for one and
    /// may yet be a program that answers.
    #[must_use]
    pub fn wants_proof(&self) -> bool {
        !self.held.is_empty() || (self.drew && self.times < MUTE)
    }

    /// Returns the probe to send now, if one is due: proof is wanted, and no probe was sent lately. `secret` is a random
    /// number for the first one.
    pub fn probe_due(
        &mut self,
        now: Duration,
        secret: impl FnOnce() -> Option<[u8; SECRET_LEN]>,
    ) -> Option<[u8; PROBE_LEN]> {
        let lately = self.asked.is_some_and(|(_, at)| now < at.saturating_add(AGAIN));
        if !self.wants_proof() || lately {
            return None;
        }
        let left = self.credit.checked_sub(PROBE_LEN)?;
        // Repeats the same probe: the answer to the one before may be under way.
        let question = match self.asked {
            Some((question, _)) => question,
            None => probe::encode(secret()?),
        };
        self.credit = left;
        self.asked = Some((question, now));
        self.times = self.times.saturating_add(1);
        Some(question)
    }

    /// Returns whether frames wait although several probes were sent: a program that answers would have done so.
    #[must_use]
    pub fn is_mute(&self) -> bool {
        !self.held.is_empty() && self.times >= MUTE
    }

    /// Returns whether this packet answers the probe: the Interest returned as a Nack, or Data.
    #[must_use]
    pub fn is_answer(&self, packet: &[u8], is_nack: bool) -> bool {
        let Some((question, _)) = &self.asked else { return false };
        let Ok(question) = Interest::decode(question) else { return false };
        let name = match is_nack {
            true => Interest::decode(packet).map(|interest| interest.name().value()),
            false => Data::decode(packet).map(|data| data.name().value()),
        };
        name.is_ok_and(|name| name == question.name().value())
    }

    /// Returns the PIT token for Interests to this address. `secret` is a random number for the first call; `None` if the
    /// system has none.
    pub fn token(
        &mut self,
        secret: impl FnOnce() -> Option<[u8; TOKEN_LEN]>,
    ) -> Option<[u8; TOKEN_LEN]> {
        self.token = self.token.or_else(secret);
        self.token
    }

    /// Returns whether requested Data or a Nack with this PIT token prove the address: only a receiver of our Interests
    /// knows the token.
    #[must_use]
    pub fn is_token(&self, token: Option<&[u8]>) -> bool {
        self.token.is_some_and(|ours| token == Some(&ours))
    }

    /// Returns the waiting frames, once the address has answered.
    #[must_use]
    pub fn answered(self) -> Vec<Vec<u8>> {
        self.held
    }
}
