//! Epochs: a secret, everything that is derived from it, and the two ways to the next epoch's secret.
//!
//! The plain step is one-way, so old datagrams stay closed when a later secret leaks. Where the two sides have
//! exchanged fresh X25519 keys ([`crate::rekey`]), the ratcheted step also takes in their shared secret, so later
//! datagrams stay closed when an earlier secret has leaked.

use crate::aead::{Aead, Cipher, IV_LEN};
use crate::header::{CID_LEN, ConnectionId, HEADER_LEN, HeaderKey};
use crate::kdf::{derive_secret, label};
use crate::secret::{HeapSecret, leaving_nothing};

/// A secret from which an epoch and all later ones follow.
pub(crate) struct EpochSecret(HeapSecret);

/// The result of one round of Diffie-Hellman: both directions' chains take it in, once each.
#[derive(Clone)]
pub(crate) struct RatchetSecret {
    pub shared: HeapSecret,
    pub round: u32,
}

impl EpochSecret {
    /// The first secret of a direction, from that direction's half of Noise's split. `split`: one of Noise's split
    /// keys, secret. `shared`: the KEM's secret, where the handshake was hybrid. `transcript`: the handshake hash,
    /// which is public and binds everything else.
    pub(crate) fn first(
        label: &'static str,
        split: &[u8; 32],
        shared: Option<&[u8; 32]>,
        transcript: &[u8; 32],
        cipher: Cipher,
    ) -> Self {
        let suite = [u8::from(shared.is_some()), cipher as u8];
        let shared = shared.unwrap_or(&[0; 32]);
        Self(derive_secret(label, &[split, shared, transcript, &suite]))
    }

    /// The next epoch's secret, without a new round of Diffie-Hellman.
    pub(crate) fn next(&self) -> Self {
        Self(derive_secret(label::NEXT_EPOCH, &[&self.0[..]]))
    }

    /// The next epoch's secret after a complete round of Diffie-Hellman.
    pub(crate) fn ratcheted(&self, ratchet: &RatchetSecret) -> Self {
        let round = ratchet.round.to_be_bytes();
        let parts: [&[u8]; 3] = [&self.0[..], &ratchet.shared[..], &round];
        Self(derive_secret(label::RATCHETED_EPOCH, &parts))
    }

    /// The content that an attacker with access to memory would take.
    #[cfg(test)]
    pub(crate) fn copy_for_test(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The keys and values derived from one epoch's secret.
pub(crate) struct EpochKeys {
    pub aead: Box<dyn Aead>,
    header: HeaderKey,
    pub cid: ConnectionId,
    pub commitment: [u8; 32],
}

impl EpochKeys {
    pub(crate) fn new(cipher: Cipher, secret: &EpochSecret) -> Self {
        let part = |label| derive_secret(label, &[&secret.0[..]]);
        let iv = part(label::AEAD_IV);
        let iv: &[u8; IV_LEN] = iv.first_chunk().expect("24 of 32 bytes");
        let cid = part(label::CONNECTION_ID);
        let cid: &[u8; CID_LEN] = cid.first_chunk().expect("8 of 32 bytes");
        Self {
            aead: cipher.keys(&part(label::AEAD_KEY), iv),
            header: HeaderKey::new(&part(label::HEADER_KEY)),
            cid: ConnectionId(*cid),
            commitment: *part(label::COMMITMENT),
        }
    }

    /// The mask that is XORed onto the packet number on the wire. The sample is the first 16 bytes after the header,
    /// which every datagram of at least [`crate::seal::OVERHEAD`] bytes has.
    #[inline]
    pub(crate) fn mask(&self, datagram: &[u8]) -> u32 {
        let sample = datagram[HEADER_LEN..].first_chunk().expect("a datagram has OVERHEAD bytes");
        self.header.mask(sample)
    }
}

/// An epoch's secret and keys, which move without being copied.
pub(crate) struct KeyEpoch {
    pub secret: EpochSecret,
    pub keys: Box<EpochKeys>,
}

impl KeyEpoch {
    pub(crate) fn new(cipher: Cipher, secret: EpochSecret) -> Self {
        let keys = leaving_nothing(|| Box::new(EpochKeys::new(cipher, &secret)));
        Self { keys, secret }
    }
}
