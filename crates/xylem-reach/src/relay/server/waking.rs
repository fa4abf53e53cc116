//! [`RestartNotices`]: notifies the clients of a relay that was killed and started again.
//!
//! An idle client sends so little that it notices only at its next keep-alive that the relay has lost it. The relay's
//! program therefore keeps the clients' addresses, and the relay sends each a datagram after a restart.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use super::registrations::RelayRegistration;
use super::{ADDRESS, TOKEN, address_bytes};

/// Number of clients notified at once, and the pause until the next batch. Each of them then registers.
const BATCH_SIZE: usize = 256;
const BATCH_PAUSE: Duration = Duration::from_millis(50);
/// How often each client is notified, and the time between: datagrams can be lost.
const NOTICES_PER_CLIENT: u8 = 2;
const NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// A client's address, and the token that its notification ends with.
pub(super) type NotifiedClient = (SocketAddr, [u8; TOKEN]);

/// Clients still to be notified: when, how many times more, and the client.
#[derive(Default)]
pub(super) struct RestartNotices(VecDeque<(Duration, u8, NotifiedClient)>);

/// The bytes kept of one registration.
pub(super) fn encode_client(one: &RelayRegistration) -> impl Iterator<Item = u8> {
    address_bytes(one.at).into_iter().chain(one.restart_token)
}

impl RestartNotices {
    /// Decodes at most `most` clients from `kept`. Entries without a valid address are skipped.
    pub(super) fn new(now: Duration, kept: &[u8], most: usize) -> Self {
        let (all, _) = kept.as_chunks::<{ ADDRESS + TOKEN }>();
        let one = |kept: &[u8; ADDRESS + TOKEN]| {
            let (ip, rest) = kept.split_first_chunk::<16>()?;
            let (port, rest) = rest.split_first_chunk()?;
            let at = SocketAddr::from((*ip, u16::from_be_bytes(*port)));
            let at = SocketAddr::new(at.ip().to_canonical(), at.port());
            let is_one = at.port() != 0 && !at.ip().is_unspecified() && !at.ip().is_multicast();
            is_one.then_some((now, NOTICES_PER_CLIENT, (at, *rest.first_chunk()?)))
        };
        Self(all.iter().take(most).filter_map(one).collect())
    }

    /// When the next client is to be notified.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.0.front().map(|(due, ..)| *due)
    }

    /// The clients to notify now.
    pub(super) fn due(&mut self, now: Duration) -> Vec<NotifiedClient> {
        let mut woken = Vec::new();
        while woken.len() < BATCH_SIZE
            && self.0.front().is_some_and(|(due, ..)| *due <= now)
            && let Some((_, left, one)) = self.0.pop_front()
        {
            woken.push(one);
            if let Some(left) = left.checked_sub(1).filter(|left| *left > 0) {
                self.0.push_back((now.saturating_add(NOTICE_INTERVAL), left, one));
            }
        }
        if let Some((due, ..)) = self.0.front_mut().filter(|_| !woken.is_empty()) {
            *due = (*due).max(now.saturating_add(BATCH_PAUSE));
        }
        woken
    }
}
