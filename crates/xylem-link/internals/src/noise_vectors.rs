//! The link's Noise handshake, for published vectors and other implementations' state machines. The link's public keys
//! have 33 bytes ([`crate::noise`]), those of the vectors 32.

use ring::aead;

use crate::elligator::KeyPair;
use crate::noise::{Handshake, SUITE, Suite};
use crate::secret::HeapSecret;
use crate::{PeerKey, StaticKey, curve};

/// The suite of the vectors.
static PLAIN_CHACHA: Suite = Suite { forms: false, ..SUITE };
/// A second AEAD in the same state machine.
static PLAIN_AES: Suite = Suite {
    name: "Noise_XX_25519_AESGCM_SHA256",
    aead: &aead::AES_256_GCM,
    nonce: |number| {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        nonce
    },
    forms: false,
};

/// The input of a Noise vector: an XX handshake with plain 32-byte keys.
#[derive(Debug)]
pub struct NoiseVector<'a> {
    /// Its Noise protocol name.
    pub suite: &'a str,
    /// The prologue of both sides.
    pub prologue: &'a [u8],
    /// Static and ephemeral secret of the initiator, then of the responder.
    pub keys: [[[u8; 32]; 2]; 2],
    /// The payloads of the three messages.
    pub payloads: [&'a [u8]; 3],
}

/// The results of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub struct NoiseOutcome {
    /// The handshake hash.
    pub transcript: [u8; 32],
    /// Noise's split keys: initiator to responder, and back.
    pub split: [[u8; 32]; 2],
}

impl NoiseVector<'_> {
    /// Runs both sides; returns the three messages and the results.
    ///
    /// # Panics
    /// If the two sides do not understand each other, or the suite is unknown.
    #[must_use]
    pub fn run(&self) -> ([Vec<u8>; 3], NoiseOutcome) {
        const AGREE: &str = "both sides follow one vector";
        let mut sides = [0, 1].map(|i| self.side(i));
        let messages = [0, 1, 2].map(|n| {
            let (from, to) = (n % 2, 1 - n % 2);
            let message = sides[from].write(self.payloads[n]).expect(AGREE);
            assert_eq!(sides[to].read(&message).expect(AGREE), self.payloads[n]);
            message
        });
        let [initiator, responder] = sides.map(|side| side.finish().expect(AGREE));
        assert_eq!(initiator, responder);
        (messages, initiator)
    }

    fn side(&self, i: usize) -> NoiseSide {
        let suites = [&PLAIN_CHACHA, &PLAIN_AES];
        let suite =
            suites.into_iter().find(|suite| suite.name == self.suite).expect("a known suite");
        let [secret, ephemeral] = self.keys[i];
        let representative = curve::public_key(&ephemeral);
        let ephemeral = KeyPair { secret: HeapSecret::copy_of(&ephemeral), representative };
        let key = StaticKey::from_bytes(secret);
        NoiseSide(Handshake::new(suite, self.prologue, i == 0, &key, ephemeral))
    }
}

/// One side of a handshake, as the link has it.
#[derive(Clone)]
pub struct NoiseSide(Handshake);

impl NoiseSide {
    /// Makes a side with an ephemeral secret and its representative.
    #[must_use]
    pub fn new(initiator: bool, key: &StaticKey, pair: ([u8; 32], [u8; 32])) -> Self {
        let (secret, representative) = pair;
        let ephemeral = KeyPair { secret: HeapSecret::copy_of(&secret), representative };
        Self(match initiator {
            true => Handshake::initiator(key, ephemeral),
            false => Handshake::responder(key, ephemeral),
        })
    }

    /// The next message, if it is this side's.
    pub fn write(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        self.0.write(payload, &mut message).ok().map(|()| message)
    }

    /// The payload of the next message, unless it is refused.
    pub fn read(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.0.read(message).ok()
    }

    /// The other side's static key, once its message has been read.
    #[must_use]
    pub fn remote(&self) -> Option<PeerKey> {
        self.0.remote()
    }

    /// The results, after the third message.
    #[must_use]
    pub fn finish(self) -> Option<NoiseOutcome> {
        let done = self.0.finish()?;
        Some(NoiseOutcome {
            transcript: done.transcript,
            split: [*done.initiator, *done.responder],
        })
    }
}
