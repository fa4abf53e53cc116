//! Identities: a publisher's key, which signs cards, and a link key, which agrees on secrets and authenticates links.

use core::fmt;
use core::net::SocketAddr;

use xylem_link::{PeerKey, StaticKey};
use xylem_object::ticket::RelayContact;
use xylem_object::{PublisherId, PublisherKey};

use crate::card::Card;
use crate::prekeys::Prekey;

/// Public half of an identity. Both keys are part of every derivation, so neither can be replaced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Party {
    /// The publisher's key, which signs the card.
    pub publisher: PublisherId,
    /// X25519 key.
    pub link: PeerKey,
}

impl Party {
    pub(crate) fn to_bytes(self) -> [u8; 64] {
        let mut out = [0; 64];
        out[..32].copy_from_slice(&self.publisher.0);
        out[32..].copy_from_slice(&self.link.0);
        out
    }

    pub(crate) fn from_bytes(publisher: [u8; 32], link: [u8; 32]) -> Self {
        Self { publisher: PublisherId(publisher), link: PeerKey(link) }
    }
}

/// Our own keys. `Debug` hides the secrets.
pub struct MailIdentity {
    publisher: PublisherKey,
    link: StaticKey,
}

impl MailIdentity {
    /// Makes an identity. The caller stores both keys; they outlive every session.
    #[must_use]
    pub fn new(publisher: PublisherKey, link: StaticKey) -> Self {
        Self { publisher, link }
    }

    /// Returns the public half.
    #[must_use]
    pub fn party(&self) -> Party {
        Party { publisher: self.publisher.public(), link: self.link.public() }
    }

    /// Signs a card. `made` is in seconds since 1970; only the first 16 addresses are included.
    #[must_use]
    pub fn card(&self, prekey: &Prekey, made: u64, addresses: &[SocketAddr]) -> Card {
        self.card_at(prekey, made, addresses, None)
    }

    /// Signs a card as [`MailIdentity::card`] does, with the relay through which we can be reached.
    #[must_use]
    pub fn card_at(
        &self,
        prekey: &Prekey,
        made: u64,
        addresses: &[SocketAddr],
        relay: Option<&RelayContact>,
    ) -> Card {
        // After a clock was set back, a card must not be older than its prekey: receivers keep the newest card.
        let made = made.max(prekey.made);
        Card::sign(self.party(), prekey, made, addresses, relay, &self.publisher)
    }

    pub(crate) fn link(&self) -> &StaticKey {
        &self.link
    }
}

impl fmt::Debug for MailIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity(secrets of {:?})", self.party())
    }
}
