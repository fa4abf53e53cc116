//! [`Unproven`]: what an address is sent before it has shown that it hears us.
//!
//! Whoever forges a sender's address has the answers go there. So such an address is sent no more than
//! three bytes for each that came from it, and is asked something that only who hears us can answer: an
//! Interest with a name drawn at random, which comes back as a Nack from any NDN forwarder, or from
//! whatever program of ours is there. What did not fit waits for that, in a small room.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::net::IpAddr;
use std::time::Duration;

use xylem_packet::probe::{self, PROBE_LEN, SECRET_LEN};
use xylem_packet::{Data, Interest};

/// As for QUIC (RFC 9000, 8.1).
const FACTOR: usize = 3;
/// What can be saved up.
const MOST_CREDIT: usize = 1 << 20;
/// Frames that wait for the answer, and their bytes: of a thousand addresses some megabytes.
const HELD: usize = 4;
const HELD_BYTES: usize = 16 * 1024;
/// Questions without an answer after which the user is told.
const MUTE: u32 = 3;
/// Between two questions.
const AGAIN: Duration = Duration::from_secs(1);
/// Which UDP peers have to show that they are there before they are sent more than three bytes for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prove {
    /// All but those on loopback, whose addresses nobody forges from outside.
    #[default]
    Others,
    /// Those as well.
    All,
    /// None: on a network where nobody forges addresses.
    Nobody,
}

impl Prove {
    /// Whether this address has to.
    #[must_use]
    pub fn demanded_of(self, ip: IpAddr) -> bool {
        match self {
            Self::Others => !ip.to_canonical().is_loopback(),
            Self::All => true,
            Self::Nobody => false,
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Unproven {
    credit: usize,
    held: Vec<Vec<u8>>,
    /// The question, and when it was asked last.
    asked: Option<([u8; PROBE_LEN], Duration)>,
    times: u32,
}

impl Unproven {
    /// So many bytes came from there.
    #[inline]
    pub fn received(&mut self, bytes: usize) {
        let more = bytes.saturating_mul(FACTOR);
        self.credit = self.credit.saturating_add(more).min(MOST_CREDIT);
    }

    /// Whether this frame may leave now; what may not is kept until [`Unproven::answered`], as far as
    /// there is room.
    pub fn takes(&mut self, frame: &[u8]) -> bool {
        // What the question costs is set aside, so that one can be asked at all.
        match self.credit.checked_sub(frame.len()).filter(|left| *left >= PROBE_LEN) {
            Some(left) => {
                self.credit = left;
                true
            }
            None => {
                let held = self.held.iter().map(Vec::len).fold(frame.len(), usize::saturating_add);
                if self.held.len() < HELD && held <= HELD_BYTES {
                    self.held.push(frame.to_vec());
                }
                false
            }
        }
    }

    /// Whether something waits for the answer.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// The question to send now, if one is due: something waits, and none was asked lately.
    pub fn asks(&mut self, now: Duration, secret: [u8; SECRET_LEN]) -> Option<[u8; PROBE_LEN]> {
        let lately = self.asked.is_some_and(|(_, at)| now < at.saturating_add(AGAIN));
        if !self.waits() || lately {
            return None;
        }
        self.credit = self.credit.checked_sub(PROBE_LEN)?;
        // The same again: the answer to the one before may be on its way.
        let question = self.asked.map_or_else(|| probe::encode(secret), |(question, _)| question);
        self.asked = Some((question, now));
        self.times = self.times.saturating_add(1);
        Some(question)
    }

    /// It was asked several times, and a program that answers would have done so.
    #[must_use]
    pub fn is_mute(&self) -> bool {
        self.times >= MUTE
    }

    /// Whether this packet answers the question: the Interest that comes back, or Data.
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

    /// It has answered: what has waited.
    #[must_use]
    pub fn answered(self) -> Vec<Vec<u8>> {
        self.held
    }
}
