//! The bounded table of open requests.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::BTreeMap;

use xylem_packet::Name;
use xylem_trust::{PublicKey, ValidityPeriod, Verifier};

use super::ENDED_REQUEST_MS;
use super::code::ChallengeCode;
use super::config::CaLimits;
use crate::numbers::{ChallengeKind, ErrorCode};
use crate::proof::{NONCE_LEN, Proof};
use crate::session::{RequestId, RequestSession};

/// The stage of a request.
pub(super) enum RequestStage {
    /// No challenge was chosen yet; the number of useless choices.
    Before(u32),
    /// A code was given out; the number of tries left.
    Code(ChallengeKind, ChallengeCode, u32),
    /// The owner of this key has to sign the nonce.
    Proof(PublicKey, [u8; NONCE_LEN]),
    /// The request is over; the error for later Interests.
    Over(ErrorCode),
}

/// One request.
pub(super) struct OpenRequest {
    pub(super) key_name: Name,
    pub(super) key: PublicKey,
    /// The digest of the key. Each NEW counts the requests with its key.
    pub(super) key_digest: [u8; 32],
    pub(super) verifier: Verifier,
    pub(super) validity: ValidityPeriod,
    pub(super) session: RequestSession,
    pub(super) stage: RequestStage,
    /// The form of the proof of possession.
    pub(super) proof: Proof,
    /// The digest of the Interest that opened the request, and its answer. The same Interest gets the same answer
    /// again.
    pub(super) opening_exchange: ([u8; 32], Vec<u8>),
    /// The same for the last challenge Interest.
    pub(super) last_challenge: Option<([u8; 32], Vec<u8>)>,
    pub(super) expires_ms: u64,
    /// Serial number, by which requests are ordered by age.
    pub(super) serial_number: u64,
}

impl OpenRequest {
    /// Octets that it holds, about.
    fn memory(&self) -> usize {
        let last = self.last_challenge.as_ref().map_or(0, |(_, answer)| answer.capacity());
        size_of::<Self>()
            .saturating_add(self.key_name.encoded_len().saturating_mul(2))
            .saturating_add(self.key.to_spki().len())
            .saturating_add(self.opening_exchange.1.capacity())
            .saturating_add(last)
    }
}

#[derive(Default)]
pub(super) struct RequestTable {
    requests: BTreeMap<RequestId, OpenRequest>,
    total_opened: u64,
}

impl RequestTable {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.requests.values().map(OpenRequest::memory).sum()
    }

    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.requests.contains_key(&id)
    }

    /// Ends requests that have timed out. Their end is kept for a while, for late Interests.
    pub(super) fn expire(&mut self, now_ms: u64) {
        for open in self.requests.values_mut().filter(|open| now_ms >= open.expires_ms) {
            if !matches!(open.stage, RequestStage::Over(_)) {
                open.stage = RequestStage::Over(ErrorCode::OUT_OF_TIME);
                open.expires_ms = open.expires_ms.saturating_add(ENDED_REQUEST_MS);
            }
        }
        self.requests.retain(|_, open| now_ms < open.expires_ms);
    }

    /// The answer to the Interest of this digest, if it opened a request.
    pub(super) fn opened_by(&self, digest: &[u8; 32]) -> Option<&[u8]> {
        let open = self.requests.values().find(|open| open.opening_exchange.0 == *digest);
        open.map(|open| open.opening_exchange.1.as_slice())
    }

    /// Adds a request; older ones are dropped if there is no room.
    pub(super) fn insert(&mut self, id: RequestId, mut open: OpenRequest, limits: &CaLimits) {
        let key = open.key_digest;
        while self.requests.values().filter(|o| o.key_digest == key).count()
            >= limits.per_key.max(1)
        {
            self.remove_oldest(|o| o.key_digest == key);
        }
        while self.requests.len() >= limits.open.max(1) {
            // Requests without a challenge are dropped first, so a flood has to begin challenges, too, before it
            // displaces those of others.
            if !self.remove_oldest(|o| {
                matches!(o.stage, RequestStage::Before(_) | RequestStage::Over(_))
            }) {
                self.remove_oldest(|_| true);
            }
        }
        self.total_opened = self.total_opened.saturating_add(1);
        open.serial_number = self.total_opened;
        self.requests.insert(id, open);
    }

    fn remove_oldest(&mut self, of: impl Fn(&OpenRequest) -> bool) -> bool {
        let of = self.requests.iter().filter(|(_, open)| of(open));
        let oldest = of.min_by_key(|(_, open)| open.serial_number).map(|(id, _)| *id);
        oldest.is_some_and(|id| self.requests.remove(&id).is_some())
    }

    pub(super) fn take(&mut self, id: RequestId) -> Option<OpenRequest> {
        self.requests.remove(&id)
    }

    /// Puts back a request that was taken.
    pub(super) fn put_back(&mut self, id: RequestId, open: OpenRequest) {
        self.requests.insert(id, open);
    }
}
