//! [`Envelopes`]: what dialers may know of this side (its key, a knock, nothing), and the envelope that follows from
//! each.

use core::net::SocketAddr;
use core::time::Duration;

use super::Endpoint;
use crate::envelope::EnvelopeKey;
use crate::event::LinkId;
use crate::handshake::{DialTarget, DialedBy};
use crate::keys::{PeerKey, StaticKey};

/// Most knocks that one endpoint answers at a time: every unknown datagram is tried against each.
pub const MAX_KNOCKS: usize = 512;

/// See the module's documentation.
pub(super) struct Envelopes {
    key: EnvelopeKey,
    knocks: Vec<Knock>,
    /// Number of the next knock.
    numbers: u64,
    open: EnvelopeKey,
}

struct Knock {
    /// Unique: a handshake under way is never assigned to another knock.
    number: u64,
    value: [u8; 32],
    envelope: EnvelopeKey,
    /// The key that answers; `None`: the endpoint's.
    key: Option<StaticKey>,
}

impl Envelopes {
    /// Makes the envelopes of an endpoint with this public key.
    pub(super) fn new(key: PeerKey) -> Self {
        let (key, open) = (EnvelopeKey::new(Some(key)), EnvelopeKey::new(None));
        Self { key, knocks: Vec::new(), numbers: 0, open }
    }

    /// Answers one more knock, by the endpoint's key or by this one; false if there are too many. The same knock with
    /// another key replaces it.
    fn add_knock(&mut self, knock: &[u8; 32], key: Option<StaticKey>) -> bool {
        let public = |key: &Option<StaticKey>| key.as_ref().map(StaticKey::public);
        let is_it = |known: &Knock| public(&known.key) == public(&key);
        if self.knocks.iter().any(|known| known.value == *knock && is_it(known)) {
            return true;
        }
        self.forget_knock(knock);
        if self.knocks.len() >= MAX_KNOCKS {
            return false;
        }
        let (envelope, number) = (EnvelopeKey::of_knock(knock), self.numbers);
        self.numbers += 1;
        self.knocks.push(Knock { number, value: *knock, envelope, key });
        true
    }

    fn forget_knock(&mut self, knock: &[u8; 32]) {
        self.knocks.retain(|known| known.value != *knock);
    }

    fn knock(&self, number: u64) -> Option<&Knock> {
        self.knocks.iter().find(|knock| knock.number == number)
    }

    /// The envelope key of a handshake under way; `None` once its knock is forgotten.
    pub(super) fn of(&self, by: DialedBy) -> Option<&EnvelopeKey> {
        match by {
            DialedBy::Key => Some(&self.key),
            DialedBy::Knock(number) => self.knock(number).map(|knock| &knock.envelope),
            DialedBy::Address => Some(&self.open),
        }
    }

    /// The static key that answers dialers of this kind; `None`: the endpoint's.
    pub(super) fn key_of(&self, by: DialedBy) -> Option<&StaticKey> {
        match by {
            DialedBy::Knock(number) => self.knock(number)?.key.as_ref(),
            DialedBy::Key | DialedBy::Address => None,
        }
    }

    /// All envelope keys, the open one only if `open`.
    pub(super) fn all(&self, open: bool) -> impl Iterator<Item = (DialedBy, &EnvelopeKey)> {
        let knocks = self.knocks.iter();
        let knocks = knocks.map(|knock| (DialedBy::Knock(knock.number), &knock.envelope));
        let open = open.then_some((DialedBy::Address, &self.open));
        core::iter::once((DialedBy::Key, &self.key)).chain(knocks).chain(open)
    }
}

impl Endpoint {
    /// Dials the peer that answers `knock` at `remote` ([`Self::answer_knock`]), whatever its key. The program judges
    /// the key once it has been proven ([`crate::Link::peer`]). Only those that know the knock can tell that this is a
    /// handshake.
    pub fn connect_by_knock(
        &mut self,
        now: Duration,
        remote: SocketAddr,
        knock: &[u8; 32],
    ) -> LinkId {
        let envelope = EnvelopeKey::of_knock(knock);
        self.dial(now, DialTarget { remote, expected: None, envelope })
    }

    /// From now on also answers dialers that know this value but not our key, whether [`crate::LinkConfig::accept_open`] is
    /// on or not. At most [`MAX_KNOCKS`] are active; false past that.
    #[must_use]
    pub fn answer_knock(&mut self, knock: &[u8; 32]) -> bool {
        self.envelopes.add_knock(knock, None)
    }

    /// Like [`Self::answer_knock`], but proves `key` to such dialers. It is for a knock that can be guessed: a dialer
    /// that guesses it should not learn the endpoint's key.
    #[must_use]
    pub fn answer_knock_by(&mut self, knock: &[u8; 32], key: StaticKey) -> bool {
        self.envelopes.add_knock(knock, Some(key))
    }

    /// Stops answering this knock, also in handshakes under way. Established links stay up.
    pub fn forget_knock(&mut self, knock: &[u8; 32]) {
        self.envelopes.forget_knock(knock);
    }
}
