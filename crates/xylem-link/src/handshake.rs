//! Handshakes under way: [`Dialing`] for the dialer, [`HalfOpen`] for the responder. Each produces the parts of a link
//! when it completes.

mod answers;
mod cookies;
mod dialing;
mod half_open;
mod offer;
mod schedule;

pub(crate) use dialing::{AcceptedResponse, DialTarget, Dialing, ResponseVerdict};
pub(crate) use half_open::{FirstOutcome, HalfOpen, InitialMessage};

use core::time::Duration;

use crate::aead::Cipher;
use crate::config::{LinkConfig, PostQuantum, Suites};
use crate::epoch::EpochSecret;
use crate::kdf::{LinkRng, label};
use crate::kem;
use crate::message::{LinkParameters, MIN_INITIAL};
use crate::noise::Secrets;
use crate::shape::Level;

/// A handshake that is not complete after this time is given up.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lengths of a finish and a rest, in bytes: they need not be as long as an initial.
const SHORT_LEN: core::ops::Range<usize> = 128..256;

fn ours(config: &LinkConfig) -> LinkParameters {
    let (max_datagram, idle_timeout) = (config.max_datagram, config.idle_timeout);
    let (shaping, shaping_limit) = (config.shaping.level as u8, config.shaping.limit as u8);
    LinkParameters { max_datagram, idle_timeout, shaping, shaping_limit }
}

/// Length of a rest or a finish: a side that wants shaping makes them as long as initials.
fn short_len(shaping: Level, rng: &mut LinkRng) -> usize {
    match shaping {
        Level::Off => SHORT_LEN.start + rng.below(SHORT_LEN.len()),
        _ => MIN_INITIAL + rng.below(33),
    }
}

pub(crate) fn offers_aes(config: &LinkConfig) -> bool {
    config.suites == Suites::Fastest && Cipher::aes_is_fast()
}

fn is_hybrid(config: &LinkConfig) -> bool {
    config.post_quantum != PostQuantum::Never && kem::is_available()
}

/// The first epochs of initiator to responder, and of responder to initiator.
fn directions(
    secrets: &Secrets,
    shared: Option<&[u8; 32]>,
    cipher: Cipher,
) -> (EpochSecret, EpochSecret) {
    let first = |label, split: &[u8; 32]| {
        EpochSecret::first(label, split, shared, &secrets.transcript, cipher)
    };
    (
        first(label::INITIATOR_EPOCH, &secrets.initiator),
        first(label::RESPONDER_EPOCH, &secrets.responder),
    )
}

/// The envelope that the dialer used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DialedBy {
    /// The one of our public key.
    Key,
    /// The one of the knock with this number.
    Knock(u64),
    /// The open envelope, for dialers that know neither: any listening program answers.
    Address,
}
