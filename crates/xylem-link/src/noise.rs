//! The Noise handshake (revision 34): XX with ChaCha20-Poly1305 and SHA-256.
//!
//! XX, because the dialer may not know the responder's key, and because both static keys then travel encrypted. SHA256
//! and ChaChaPoly, because ring has both in assembler on every CPU; the transport's own AEAD is negotiated separately,
//! in the payloads.
//!
//! The DH is X25519 over public keys of two forms, distinguished by a first byte that Noise sees. A static key is
//! plain, an ephemeral one is an Elligator2 representative ([`crate::elligator`]). On the wire the byte of an ephemeral
//! key is left out, so a message begins with uniform bytes, and the transcript binds those very bytes.
//!
//! The state machine is our own, because of two requirements. A refused message leaves the state as it was, wherever in
//! the message the fault is found: a message is processed in a copy, which replaces the state if all of it is valid. No
//! secret is moved or left behind in memory.
//!
//! The results are the two halves of Noise's `Split()`, which only the two parties can compute. The handshake hash is
//! public; it only binds and is never used as a key.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod symmetric;

use ring::aead;

use crate::aead::TAG_LEN;
use crate::elligator::{self, KeyPair};
use crate::secret::{HeapSecret, leaving_nothing};
use crate::{PeerKey, StaticKey, curve};

pub(crate) use symmetric::Suite;
use symmetric::Symmetric;

/// Bound into the transcript: another version or suite of this protocol fails at message two.
pub(crate) const PROLOGUE: &[u8] = b"xylem-link/5 Noise_XX_25519_ChaChaPoly_SHA256 Elligator2";

pub(crate) const SUITE: Suite = Suite {
    name: "Noise_XX_25519_ChaChaPoly_SHA256",
    aead: &aead::CHACHA20_POLY1305,
    nonce: |number| {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_le_bytes());
        nonce
    },
    forms: true,
};

/// First byte of a plain X25519 public key (static keys), as Noise sees it.
const PLAIN: u8 = 0;
/// First byte of an Elligator2 representative (ephemeral keys), as Noise sees it.
const REPRESENTATIVE: u8 = 1;
/// Length of a public key as Noise sees it, in bytes.
const FORMED_LEN: usize = 33;

/// Bytes that each message of XX adds to its payload: keys and tags.
pub(crate) const MESSAGE_1_OVERHEAD: usize = 32;
pub(crate) const MESSAGE_2_OVERHEAD: usize = 32 + FORMED_LEN + 16 + 16;
pub(crate) const MESSAGE_3_OVERHEAD: usize = STATIC_LEN + 16;
/// Length of the sealed static key at the start of message 3, in bytes.
pub(crate) const STATIC_LEN: usize = FORMED_LEN + 16;

/// The message did not authenticate, or is not allowed at this point.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoiseRefused;

/// The result of a complete handshake, which only the two parties know.
pub(crate) struct Secrets {
    /// Noise's first split key: initiator to responder.
    pub initiator: HeapSecret,
    /// Noise's second split key: responder to initiator.
    pub responder: HeapSecret,
    /// The handshake hash, known to any recorder of the datagrams.
    pub transcript: [u8; 32],
}

/// One side of one handshake. A clone goes on from the same point: an initiator may read several answers to one first
/// message, each in a clone. All but one of the clones are dropped or lead to a peer of their own.
#[derive(Clone)]
pub(crate) struct Handshake {
    suite: &'static Suite,
    initiator: bool,
    statics: StaticKey,
    ephemeral: KeyPair,
    symmetric: Symmetric,
    /// The peer's keys as plain X25519 keys.
    remote_ephemeral: Option<[u8; 32]>,
    remote: Option<PeerKey>,
    /// Messages written and read so far.
    messages: u8,
}

impl Handshake {
    pub(crate) fn initiator(key: &StaticKey, ephemeral: KeyPair) -> Self {
        Self::new(&SUITE, PROLOGUE, true, key, ephemeral)
    }

    pub(crate) fn responder(key: &StaticKey, ephemeral: KeyPair) -> Self {
        Self::new(&SUITE, PROLOGUE, false, key, ephemeral)
    }

    pub(crate) fn new(
        suite: &'static Suite,
        prologue: &[u8],
        initiator: bool,
        key: &StaticKey,
        ephemeral: KeyPair,
    ) -> Self {
        Self {
            suite,
            initiator,
            statics: key.clone(),
            ephemeral,
            symmetric: Symmetric::new(suite, prologue),
            remote_ephemeral: None,
            remote: None,
            messages: 0,
        }
    }

    /// Returns whether this side writes the next message.
    fn writes(&self) -> bool {
        self.messages < 3 && self.initiator == self.messages.is_multiple_of(2)
    }

    /// Appends the next message to `out`. After an error the state and `out` are unchanged.
    pub(crate) fn write(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), NoiseRefused> {
        let start = out.len();
        let mut after = self.clone();
        let written = leaving_nothing(|| after.write_message(payload, out));
        match written {
            Ok(()) => *self = after,
            Err(NoiseRefused) => out.truncate(start),
        }
        written
    }

    /// Reads the next message; returns its payload. After an error the state is unchanged: a forged message does not
    /// exclude the genuine one.
    pub(crate) fn read(&mut self, message: &[u8]) -> Result<Vec<u8>, NoiseRefused> {
        let mut after = self.clone();
        let payload = leaving_nothing(|| after.read_message(message))?;
        *self = after;
        Ok(payload)
    }

    /// The state after the static part of a third message, which takes its one multiplication.
    pub(crate) fn read_third_static(&self, message: &[u8]) -> Result<Self, NoiseRefused> {
        if self.writes() || self.messages != 2 {
            return Err(NoiseRefused);
        }
        let mut after = self.clone();
        leaving_nothing(|| {
            after.read_static(message)?;
            after.mix(OurKey::Ephemeral, after.remote.map(|key| key.0)) // se
        })?;
        Ok(after)
    }

    /// Reads the rest of that third message. After an error the state is unchanged.
    pub(crate) fn read_third_payload(&mut self, sealed: &[u8]) -> Result<Vec<u8>, NoiseRefused> {
        let mut after = self.clone();
        let payload = leaving_nothing(|| after.symmetric.decrypt(sealed))?;
        after.messages = after.messages.saturating_add(1);
        *self = after;
        Ok(payload)
    }

    fn write_message(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), NoiseRefused> {
        if !self.writes() {
            return Err(NoiseRefused);
        }
        if self.messages < 2 {
            self.write_ephemeral(out);
        }
        if self.messages == 1 {
            self.mix(OurKey::Ephemeral, self.remote_ephemeral)?; // ee
        }
        if self.messages > 0 {
            let formed = formed(PLAIN, &self.statics.public().0);
            self.symmetric.encrypt(self.suite.key(&formed), out);
            self.mix(OurKey::Static, self.remote_ephemeral)?; // es, se
        }
        self.symmetric.encrypt(payload, out);
        self.messages = self.messages.saturating_add(1);
        Ok(())
    }

    fn read_message(&mut self, message: &[u8]) -> Result<Vec<u8>, NoiseRefused> {
        if self.writes() || self.messages > 2 {
            return Err(NoiseRefused);
        }
        // Each step runs only if the one before succeeded: a message forged in its first part costs no multiplication
        // for the second.
        let mut rest = message;
        if self.messages < 2 {
            rest = self.read_ephemeral(rest)?;
        }
        if self.messages == 1 {
            self.mix(OurKey::Ephemeral, self.remote_ephemeral)?; // ee
        }
        if self.messages > 0 {
            rest = self.read_static(rest)?;
            self.mix(OurKey::Ephemeral, self.remote.map(|key| key.0))?; // es, se
        }
        let payload = self.symmetric.decrypt(rest)?;
        self.messages = self.messages.saturating_add(1);
        Ok(payload)
    }

    fn write_ephemeral(&mut self, out: &mut Vec<u8>) {
        let key = &self.ephemeral.representative;
        out.extend_from_slice(key);
        self.symmetric.mix_hash(self.suite.key(&formed(REPRESENTATIVE, key)));
    }

    fn read_ephemeral<'a>(&mut self, message: &'a [u8]) -> Result<&'a [u8], NoiseRefused> {
        let (key, rest) = message.split_first_chunk().ok_or(NoiseRefused)?;
        self.symmetric.mix_hash(self.suite.key(&formed(REPRESENTATIVE, key)));
        let public = if self.suite.forms { elligator::public_key(key) } else { *key };
        self.remote_ephemeral = Some(public);
        Ok(rest)
    }

    fn read_static<'a>(&mut self, message: &'a [u8]) -> Result<&'a [u8], NoiseRefused> {
        let len = if self.suite.forms { FORMED_LEN + TAG_LEN } else { 32 + TAG_LEN };
        let (sealed, rest) = message.split_at_checked(len).ok_or(NoiseRefused)?;
        let key = self.symmetric.decrypt(sealed)?;
        let (form, key) = key.split_last_chunk().ok_or(NoiseRefused)?;
        if self.suite.forms && form != [PLAIN] {
            return Err(NoiseRefused);
        }
        self.remote = Some(PeerKey(*key));
        Ok(rest)
    }

    /// One DH of the pattern. A result of all zeros is refused (RFC 7748 section 6.1): with a low-order point any party
    /// could claim the key.
    fn mix(&mut self, ours: OurKey, theirs: Option<[u8; 32]>) -> Result<(), NoiseRefused> {
        let secret = match ours {
            OurKey::Ephemeral => &self.ephemeral.secret,
            OurKey::Static => self.statics.secret(),
        };
        let shared = curve::agree(secret, &theirs.ok_or(NoiseRefused)?).ok_or(NoiseRefused)?;
        self.symmetric.mix_key(&shared);
        Ok(())
    }

    /// The peer's static key, once its message has been read.
    pub(crate) fn remote(&self) -> Option<PeerKey> {
        self.remote
    }

    /// The split keys; `None` before the third message.
    pub(crate) fn finish(self) -> Option<Secrets> {
        if self.messages < 3 {
            return None;
        }
        let (initiator, responder) = leaving_nothing(|| self.symmetric.split());
        Some(Secrets { initiator, responder, transcript: self.symmetric.transcript() })
    }
}

/// Which of our keys takes part in a DH.
enum OurKey {
    Ephemeral,
    Static,
}

fn formed(form: u8, key: &[u8; 32]) -> [u8; FORMED_LEN] {
    let mut formed = [form; FORMED_LEN];
    formed[1..].copy_from_slice(key);
    formed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::LinkRng;

    fn pair() -> (Handshake, Handshake, StaticKey, StaticKey) {
        let (a, b) = (StaticKey::generate([1; 32]), StaticKey::generate([2; 32]));
        let mut rng = LinkRng::new(&[3; 32]);
        let ephemerals = [0; 2].map(|_| KeyPair::generate(&mut rng));
        let [one, other] = ephemerals;
        (Handshake::initiator(&a, one), Handshake::responder(&b, other), a, b)
    }

    #[test]
    fn both_sides_agree_and_know_each_other() {
        let (mut i, mut r, a, b) = pair();
        let mut message = Vec::new();
        i.write(b"one", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_1_OVERHEAD + 3);
        assert_eq!(r.read(&message).unwrap(), b"one");
        message.clear();
        r.write(b"two", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_2_OVERHEAD + 3);
        assert_eq!(i.read(&message).unwrap(), b"two");
        message.clear();
        i.write(b"three", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_3_OVERHEAD + 5);
        assert_eq!(r.read(&message).unwrap(), b"three");
        assert_eq!((i.remote(), r.remote()), (Some(b.public()), Some(a.public())));
        let (x, y) = (i.finish().unwrap(), r.finish().unwrap());
        assert_eq!(*x.initiator, *y.initiator);
        assert_eq!(*x.responder, *y.responder);
        assert_eq!(x.transcript, y.transcript);
        assert_ne!(*x.initiator, *x.responder);
    }

    #[test]
    fn a_forged_second_message_does_not_exclude_the_genuine_one() {
        let (mut i, mut r, _, _) = pair();
        let mut one = Vec::new();
        i.write(b"", &mut one).unwrap();
        r.read(&one).unwrap();
        let mut two = Vec::new();
        r.write(b"", &mut two).unwrap();
        for at in 0..two.len() {
            let mut forged = two.clone();
            forged[at] ^= 1;
            // The top bits of a representative are ignored by the map, but are in the transcript.
            assert_eq!(i.read(&forged), Err(NoiseRefused));
            assert_eq!(i.read(&two[..at]), Err(NoiseRefused));
        }
        assert!(i.read(&two).is_ok());
    }

    #[test]
    fn low_order_points_are_refused() {
        let (_, mut r, _, _) = pair();
        // The representative of the point of order 2: `ee` would be zero.
        r.read(&[0; 32]).unwrap();
        assert_eq!(r.write(b"", &mut Vec::new()), Err(NoiseRefused));
    }
}
