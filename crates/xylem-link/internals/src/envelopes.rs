//! Opens and makes handshake datagrams as a holder of a ticket can: the starting point of an attack on the handshake.

use crate::PeerKey;
use crate::envelope::EnvelopeKey;
use crate::header::ConnectionId;

/// The envelope of a known key of a responder, or of a known knock.
pub struct Envelope(EnvelopeKey);

impl Envelope {
    /// For peers that know the responder's public key.
    #[must_use]
    pub fn of_key(key: [u8; 32]) -> Self {
        Self(EnvelopeKey::new(Some(PeerKey(key))))
    }

    /// For peers that know a knock.
    #[must_use]
    pub fn of_knock(knock: &[u8; 32]) -> Self {
        Self(EnvelopeKey::of_knock(knock))
    }

    /// The body with its padding; `None` if the datagram is no handshake message of this responder.
    #[must_use]
    pub fn open(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        self.0.open(datagram)
    }

    /// Makes a datagram of at least `len` bytes.
    #[must_use]
    pub fn seal(&self, id: [u8; 8], body: &[u8], len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.seal(ConnectionId(id), body, len, &mut out);
        out
    }
}
