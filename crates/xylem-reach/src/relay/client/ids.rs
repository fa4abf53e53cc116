//! [`ClientIds`]: the ids of a registration's datagrams, which change so that an observer cannot link them, and the keys
//! of its keep-alives.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;

use xylem_hash::keyed_hash;
use zeroize::Zeroizing;

use super::super::wire::{
    self, CircuitTag, DatagramHead, DatagramId, HEADER, IdEpoch, KeepAlive, KeepAliveKeys, PADDING,
    TOKEN,
};

/// Minimum lifetime of ids, so that a late datagram is still recognised.
const MIN_EPOCH_LIFETIME: Duration = Duration::from_secs(15);

/// See the module's documentation. Ids of three epochs are recognised: of the present one, and of those beside it.
pub(super) struct ClientIds {
    secret: Zeroizing<[u8; 32]>,
    keys: KeepAliveKeys,
    /// The epoch of the ids in outgoing datagrams.
    epoch: u32,
    heads: IdEpoch,
    before: Option<DatagramHead>,
    /// The next epoch, to which the relay may have moved already.
    after: Option<(u32, IdEpoch)>,
    rotated: Duration,
}

impl ClientIds {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        let secret = Zeroizing::new(secret);
        Self {
            keys: KeepAliveKeys::new(&secret),
            epoch: 0,
            heads: IdEpoch::new(&secret, 0),
            before: None,
            after: None,
            rotated: Duration::ZERO,
            secret,
        }
    }

    pub(super) fn secret(&self) -> &Zeroizing<[u8; 32]> {
        &self.secret
    }

    /// The present epoch.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Token that ends the relay's notification after it was killed and started again.
    pub(super) fn restart_token(&self) -> [u8; TOKEN] {
        wire::restart_token(&self.secret, self.epoch)
    }

    /// The header before a datagram for the peer with this tag.
    pub(super) fn header(&self, tag: CircuitTag) -> [u8; HEADER] {
        self.heads.up.header(Some(tag))
    }

    /// The head of the relay's datagrams with this id, if it is one of ours.
    pub(super) fn head_of(&self, id: DatagramId) -> Option<DatagramHead> {
        let after = self.after.map(|(_, epoch)| epoch.down);
        let heads = [Some(self.heads.down), after, self.before];
        heads.into_iter().flatten().find(|head| head.id == id)
    }

    /// Opens a control datagram of the relay.
    pub(super) fn open(&self, datagram: &mut [u8]) -> Option<KeepAlive> {
        wire::open(&self.keys.down, datagram)
    }

    /// Seals a keep-alive.
    pub(super) fn seal(&self, keep: &KeepAlive) -> Vec<u8> {
        let random = keyed_hash(&self.keys.up, &keep.number.to_be_bytes()).as_bytes()[0];
        let padding = random.checked_rem(PADDING).unwrap_or(0);
        wire::seal(&self.keys.up, self.heads.up, keep, padding)
    }

    /// The epoch that a keep-alive proposes: the next one, if it `may` rotate and the present ids are old enough.
    pub(super) fn propose(&mut self, now: Duration, may: bool) -> u32 {
        let rotates = may && now >= self.rotated.saturating_add(MIN_EPOCH_LIFETIME);
        match self.after {
            Some((next, _)) => next,
            None if rotates => {
                let next = self.epoch.wrapping_add(1);
                self.after = Some((next, IdEpoch::new(&self.secret, next)));
                next
            }
            None => self.epoch,
        }
    }

    /// Takes an answer of the relay in this epoch: if it was proposed, its ids are used from now on.
    pub(super) fn confirm(&mut self, now: Duration, epoch: u32) {
        if let Some((next, heads)) = self.after.take_if(|(next, _)| *next == epoch) {
            self.before = Some(self.heads.down);
            (self.epoch, self.heads, self.rotated) = (next, heads, now);
        }
    }

    /// Takes new ids, and forgets all others: replays of messages with those have no effect.
    pub(super) fn renew(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.heads = IdEpoch::new(&self.secret, self.epoch);
        (self.before, self.after) = (None, None);
    }
}
