//! Requests that are open: a bounded table.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::BTreeMap;

use xylem_packet::Name;
use xylem_trust::{PublicKey, ValidityPeriod, Verifier};

use super::AFTER_MS;
use super::code::Code;
use super::config::Limits;
use crate::numbers::{ErrorCode, Kind};
use crate::proof::{NONCE_LEN, Proof};
use crate::session::{RequestId, Session};

/// How far a request has come.
pub(super) enum Stage {
    /// No challenge was chosen; that many choices were of no use.
    Before(u32),
    /// A code was given out, and so many tries are left.
    Code(Kind, Code, u32),
    /// The owner of this key signs the nonce.
    Proof(PublicKey, [u8; NONCE_LEN]),
    /// Over, and what whoever comes now is told.
    Over(ErrorCode),
}

/// One request.
pub(super) struct Open {
    pub(super) key_name: Name,
    pub(super) key: PublicKey,
    /// Of the key: who has how many is asked of each request at each NEW.
    pub(super) key_digest: [u8; 32],
    pub(super) verifier: Verifier,
    pub(super) validity: ValidityPeriod,
    pub(super) session: Session,
    pub(super) stage: Stage,
    /// What a proof of possession is to be over.
    pub(super) proof: Proof,
    /// The digest of the Interest that opened it, and the answer: an Interest that comes again is
    /// answered again.
    pub(super) opened: ([u8; 32], Vec<u8>),
    /// Likewise the last challenge.
    pub(super) last: Option<([u8; 32], Vec<u8>)>,
    pub(super) expires_ms: u64,
    /// Orders requests by age.
    pub(super) number: u64,
}

impl Open {
    /// Octets that it holds, about.
    fn memory(&self) -> usize {
        let last = self.last.as_ref().map_or(0, |(_, answer)| answer.capacity());
        size_of::<Self>()
            .saturating_add(self.key_name.encoded_len().saturating_mul(2))
            .saturating_add(self.key.to_spki().len())
            .saturating_add(self.opened.1.capacity())
            .saturating_add(last)
    }
}

#[derive(Default)]
pub(super) struct Table {
    requests: BTreeMap<RequestId, Open>,
    opened: u64,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.requests.values().map(Open::memory).sum()
    }

    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.requests.contains_key(&id)
    }

    /// Ends what has run out of time, which is told for a while to who comes after all.
    pub(super) fn expire(&mut self, now_ms: u64) {
        for open in self.requests.values_mut().filter(|open| now_ms >= open.expires_ms) {
            if !matches!(open.stage, Stage::Over(_)) {
                open.stage = Stage::Over(ErrorCode::OUT_OF_TIME);
                open.expires_ms = open.expires_ms.saturating_add(AFTER_MS);
            }
        }
        self.requests.retain(|_, open| now_ms < open.expires_ms);
    }

    /// The answer to the Interest of this digest, if it opened a request.
    pub(super) fn opened_by(&self, digest: &[u8; 32]) -> Option<&[u8]> {
        let open = self.requests.values().find(|open| open.opened.0 == *digest);
        open.map(|open| open.opened.1.as_slice())
    }

    /// Puts a request into the table; older ones give way.
    pub(super) fn insert(&mut self, id: RequestId, mut open: Open, limits: &Limits) {
        let key = open.key_digest;
        while self.requests.values().filter(|o| o.key_digest == key).count()
            >= limits.per_key.max(1)
        {
            self.remove_oldest(|o| o.key_digest == key);
        }
        while self.requests.len() >= limits.open.max(1) {
            // Whoever opens requests by the thousand has to begin challenges too, if others' are to go.
            if !self.remove_oldest(|o| matches!(o.stage, Stage::Before(_) | Stage::Over(_))) {
                self.remove_oldest(|_| true);
            }
        }
        self.opened = self.opened.saturating_add(1);
        open.number = self.opened;
        self.requests.insert(id, open);
    }

    fn remove_oldest(&mut self, of: impl Fn(&Open) -> bool) -> bool {
        let of = self.requests.iter().filter(|(_, open)| of(open));
        let oldest = of.min_by_key(|(_, open)| open.number).map(|(id, _)| *id);
        oldest.is_some_and(|id| self.requests.remove(&id).is_some())
    }

    pub(super) fn take(&mut self, id: RequestId) -> Option<Open> {
        self.requests.remove(&id)
    }

    /// Puts back what was taken.
    pub(super) fn put_back(&mut self, id: RequestId, open: Open) {
        self.requests.insert(id, open);
    }
}
