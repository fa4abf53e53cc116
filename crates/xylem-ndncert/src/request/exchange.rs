//! One Interest, sent until it is answered.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Interest, InterestBuilder, Name, NameRef};

/// Number of times that an Interest is sent, and how long each waits.
const SENDS: u32 = 10;
const WAIT_MS: u64 = 2000;
pub(super) const LIFETIME_MS: u64 = 4000;

/// An Interest that waits for its answer.
pub(super) struct InterestExchange {
    wire: Vec<u8>,
    name: Name,
    nonce_at: Option<usize>,
    sends: u32,
    next_ms: u64,
}

impl InterestExchange {
    /// `wire` is an Interest with a nonce, which is replaced each time it is sent. `None` if it can't be parsed.
    pub(super) fn new(wire: Vec<u8>) -> Option<Self> {
        let interest = Interest::decode(&wire).ok()?;
        let (name, nonce_at) = (interest.name().to_name(), interest.nonce_offset());
        Some(InterestExchange { name, nonce_at, wire, sends: 0, next_ms: 0 })
    }

    pub(super) fn name(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// When to call [`Self::poll`] again.
    pub(super) fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Whether the last try has timed out.
    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.sends >= SENDS && now_ms >= self.next_ms
    }

    /// The Interest to send now, if any.
    pub(super) fn poll(&mut self, now_ms: u64, nonce: [u8; 4]) -> Option<Vec<u8>> {
        if now_ms < self.next_ms || self.sends >= SENDS {
            return None;
        }
        self.sends = self.sends.saturating_add(1);
        self.next_ms = now_ms.saturating_add(WAIT_MS);
        let place = self.nonce_at.and_then(|at| self.wire.get_mut(at..)?.first_chunk_mut::<4>());
        if let Some(place) = place {
            *place = nonce;
        }
        Some(self.wire.clone())
    }
}

/// An exchange with an unsigned Interest for the packet of exactly this name.
pub(super) fn packet_exchange(name: NameRef<'_>) -> Option<InterestExchange> {
    let mut wire = Vec::new();
    builder(name).encode(&mut wire).ok()?;
    InterestExchange::new(wire)
}

/// An exchange with an unsigned Interest for a fresh packet of a name that begins with this one.
pub(super) fn discovery_exchange(name: NameRef<'_>) -> Option<InterestExchange> {
    let mut wire = Vec::new();
    builder(name).can_be_prefix(true).must_be_fresh(true).encode(&mut wire).ok()?;
    InterestExchange::new(wire)
}

pub(super) fn builder(name: NameRef<'_>) -> InterestBuilder<'_> {
    InterestBuilder::new(name).nonce([0; 4]).lifetime_ms(LIFETIME_MS)
}
