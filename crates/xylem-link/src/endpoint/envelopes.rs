//! [`Envelopes`]: what dialers may know of this side, and the envelope that follows from each.

use core::net::SocketAddr;
use core::time::Duration;

use super::Endpoint;
use crate::envelope::EnvelopeKey;
use crate::event::LinkId;
use crate::handshake::DialedBy;
use crate::keys::PeerKey;

/// Most knocks that one endpoint answers: random bytes are held against each.
pub const MAX_KNOCKS: usize = 64;

/// See the module's documentation.
pub(super) struct Envelopes {
    key: EnvelopeKey,
    knocks: Vec<Knock>,
    open: EnvelopeKey,
}

struct Knock {
    value: [u8; 32],
    envelope: EnvelopeKey,
    /// Handshakes under way go on where it is answered no more.
    answered: bool,
}

impl Envelopes {
    /// Of an endpoint with this public key.
    pub(super) fn new(key: PeerKey) -> Self {
        let (key, open) = (EnvelopeKey::new(Some(key)), EnvelopeKey::new(None));
        Self { key, knocks: Vec::new(), open }
    }

    /// Answers one more; false if there are too many.
    pub(super) fn add_knock(&mut self, knock: &[u8; 32]) -> bool {
        if let Some(known) = self.knocks.iter_mut().find(|known| known.value == *knock) {
            known.answered = true;
            return true;
        }
        if self.knocks.len() >= MAX_KNOCKS {
            return false;
        }
        let envelope = EnvelopeKey::of_knock(knock);
        self.knocks.push(Knock { value: *knock, envelope, answered: true });
        true
    }

    /// The one that a handshake under way came in.
    pub(super) fn of(&self, by: DialedBy) -> &EnvelopeKey {
        match by {
            DialedBy::Key => &self.key,
            // None is ever taken out.
            DialedBy::Knock(number) => &self.knocks[number].envelope,
            DialedBy::Address => &self.open,
        }
    }

    /// Those that are answered, the open one if `open`.
    pub(super) fn all(&self, open: bool) -> impl Iterator<Item = (DialedBy, &EnvelopeKey)> {
        let knocks = self.knocks.iter().enumerate();
        let knocks = knocks.filter(|(_, knock)| knock.answered);
        let knocks = knocks.map(|(number, knock)| (DialedBy::Knock(number), &knock.envelope));
        let open = open.then_some((DialedBy::Address, &self.open));
        core::iter::once((DialedBy::Key, &self.key)).chain(knocks).chain(open)
    }
}

impl Endpoint {
    /// Dials whoever answers `knock` at `remote` ([`Self::answer_knock`]), whatever its key: that is to
    /// be judged once it has been proven ([`crate::Link::peer`]). Only those who know the knock can
    /// tell that this is a handshake.
    pub fn connect_by_knock(
        &mut self,
        now: Duration,
        remote: SocketAddr,
        knock: &[u8; 32],
    ) -> LinkId {
        self.dial(now, (remote, None, EnvelopeKey::of_knock(knock)))
    }

    /// From now on dialers who know this value, and not our key, are answered, too, whether
    /// [`crate::Config::accept_open`] is on or not. At most [`MAX_KNOCKS`] are known; false past that.
    pub fn answer_knock(&mut self, knock: &[u8; 32]) -> bool {
        self.envelopes.add_knock(knock)
    }
    /// Answers it no more; it goes on counting as one of [`MAX_KNOCKS`].
    pub fn forget_knock(&mut self, knock: &[u8; 32]) {
        let known = self.envelopes.knocks.iter_mut().find(|known| known.value == *knock);
        known.into_iter().for_each(|known| known.answered = false);
    }
}
