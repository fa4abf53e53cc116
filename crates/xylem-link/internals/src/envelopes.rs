//! Handshake datagrams opened and made by whoever holds a ticket: what an attacker of the handshake starts with.

use crate::PeerKey;
use crate::envelope::EnvelopeKey;
use crate::header::ConnectionId;

/// What is known of a responder: its key, or a knock.
pub struct Envelope(EnvelopeKey);

impl Envelope {
    /// Of those who know the responder's public key.
    #[must_use]
    pub fn of_key(key: [u8; 32]) -> Self {
        Self(EnvelopeKey::new(Some(PeerKey(key))))
    }

    /// Of those who know a knock.
    #[must_use]
    pub fn of_knock(knock: &[u8; 32]) -> Self {
        Self(EnvelopeKey::of_knock(knock))
    }

    /// The body with its padding; `None` for what is no handshake message of this responder's.
    #[must_use]
    pub fn open(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        self.0.open(datagram)
    }

    /// A datagram of at least `len` bytes.
    #[must_use]
    pub fn seal(&self, id: [u8; 8], body: &[u8], len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.seal(ConnectionId(id), body, len, &mut out);
        out
    }
}
