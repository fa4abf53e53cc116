//! Single operations on secrets, for `bench/examples/constant_time`, which checks whether secrets show in the executed
//! instructions or in their time.

use core::net::SocketAddr;
use core::time::Duration;

use crate::cookie::CookieKey;
use crate::envelope::EnvelopeKey;
use crate::header::{ConnectionId, HeaderKey};
use crate::kdf::LinkRng;
use crate::message::{COOKIE_LEN, NOISE_1_LEN, NoiseOneHead};
use crate::{PeerKey, elligator, kem, reset};

/// The mask of a packet number.
#[must_use]
pub fn header_mask(key: &[u8; 32], sample: &[u8; 16]) -> u32 {
    HeaderKey::new(key).mask(sample)
}

/// Returns whether a datagram from [`super::handshake_envelope`], or a changed copy of it, opens.
#[must_use]
pub fn envelope_opens(responder: Option<[u8; 32]>, datagram: &[u8]) -> bool {
    EnvelopeKey::new(responder.map(PeerKey)).open(datagram).is_some()
}

/// The same cookie each time, for one dialer.
#[must_use]
pub fn cookie() -> [u8; COOKIE_LEN] {
    CookieKey::new(&[1; 32]).make(NOW, dialer(), ID, &HEAD)
}

/// Checks that cookie as a responder does.
#[must_use]
pub fn cookie_is_good(cookie: &[u8; COOKIE_LEN]) -> bool {
    CookieKey::new(&[1; 32]).is_good(NOW, dialer(), ID, &HEAD, cookie)
}

const NOW: Duration = Duration::from_secs(5);
const ID: ConnectionId = ConnectionId([4; 8]);
const HEAD: NoiseOneHead<'static> = NoiseOneHead { noise: &[2; NOISE_1_LEN], part: None };

fn dialer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5))
}

/// Returns whether a datagram is a reset with this token.
#[must_use]
pub fn is_reset(datagram: &[u8], token: &[u8; 16]) -> bool {
    reset::is_reset(datagram, token)
}

/// The representative of a secret's public key, if it has one: one iteration of the loop that draws a pair.
#[must_use]
pub fn elligator_representative(secret: &[u8; 32], torsion: u8, first: bool) -> Option<[u8; 32]> {
    elligator::representative(&elligator::public_key_of_all(secret, torsion), first)
}

/// A ciphertext of ML-KEM-768 for this key.
#[must_use]
pub fn kem_ciphertext(key: &[u8; 1_184], seed: &[u8; 32]) -> Option<[u8; 1_088]> {
    kem::encapsulate(key, &mut LinkRng::new(seed)).map(|(ciphertext, _)| ciphertext)
}
