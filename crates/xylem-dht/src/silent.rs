//! [`SilentAddresses`]: how many datagrams addresses got that have not answered. Foreign nodes name these addresses, so
//! an address may be a victim's.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use crate::address::{AddressScope, Host};

/// Most datagrams to an address (with port) that answers none, in [`SILENT_FOR`].
pub(crate) const MAX_UNANSWERED: u8 = 3;
/// Most datagrams to all ports of a host that answers none, in [`SILENT_FOR`].
pub(crate) const MAX_UNANSWERED_HOST: u8 = 6;
/// Time for which the count lasts.
pub(crate) const SILENT_FOR: Duration = Duration::from_secs(15 * 60);
/// Most addresses that are counted. Lookups ask fewer than that in [`SILENT_FOR`], unless there are forty of them.
const MAX_COUNTED: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Counted {
    Address(SocketAddr),
    Host(Host),
}

#[derive(Debug)]
pub(crate) struct SilentAddresses {
    scope: AddressScope,
    counts: HashMap<Counted, (u8, Duration)>,
    /// In the order of their first datagrams.
    order: VecDeque<(Counted, Duration)>,
}

impl SilentAddresses {
    pub(crate) fn new(scope: AddressScope) -> Self {
        Self { scope, counts: HashMap::new(), order: VecDeque::new() }
    }

    pub(crate) fn set_scope(&mut self, scope: AddressScope) {
        self.scope = scope;
    }

    fn keys(&self, at: SocketAddr) -> [(Counted, u8); 2] {
        let host = Counted::Host(Host::of(at, self.scope));
        [(Counted::Address(at), MAX_UNANSWERED), (host, MAX_UNANSWERED_HOST)]
    }

    /// Whether the address may get one more datagram.
    pub(crate) fn admits(&mut self, now: Duration, at: SocketAddr) -> bool {
        while let Some((key, since)) = self.order.front().copied()
            && (now >= since.saturating_add(SILENT_FOR) || self.order.len() > MAX_COUNTED)
        {
            self.order.pop_front();
            if self.counts.get(&key).is_some_and(|(_, counted)| *counted == since) {
                self.counts.remove(&key);
            }
        }
        let below = |(key, most)| self.counts.get(&key).is_none_or(|(count, _)| *count < most);
        self.keys(at).into_iter().all(below)
    }

    /// Counts a datagram.
    pub(crate) fn sent(&mut self, now: Duration, at: SocketAddr) {
        for (key, _) in self.keys(at) {
            if let Some((count, _)) = self.counts.get_mut(&key) {
                *count = count.saturating_add(1);
            } else {
                self.counts.insert(key, (1, now));
                self.order.push_back((key, now));
            }
        }
    }

    /// An answer has come from there.
    pub(crate) fn answered(&mut self, at: SocketAddr) {
        for (key, _) in self.keys(at) {
            self.counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn silent_addresses_and_hosts_get_few_datagrams() {
        let mut silent = SilentAddresses::new(AddressScope::Global);
        let sends = |silent: &mut SilentAddresses, now, at: &str| {
            let at = at.parse().unwrap();
            let mut sent = 0;
            while sent < 100 && silent.admits(now, at) {
                silent.sent(now, at);
                sent += 1;
            }
            sent
        };
        assert_eq!(sends(&mut silent, S, "8.8.8.8:1"), 3);
        assert_eq!(sends(&mut silent, S, "8.8.8.8:2"), 3);
        assert_eq!(sends(&mut silent, S, "8.8.8.8:3"), 0);
        assert_eq!(sends(&mut silent, S, "8.8.4.4:3"), 3);
        silent.answered("8.8.8.8:1".parse().unwrap());
        assert_eq!(sends(&mut silent, S, "8.8.8.8:1"), 3);
        assert_eq!(sends(&mut silent, S * 902, "8.8.4.4:3"), 3);
    }

    #[test]
    fn counts_are_bounded() {
        let mut silent = SilentAddresses::new(AddressScope::Global);
        for n in 0..20_000_u32 {
            let at = SocketAddr::from(((0x0800_0000 + n).to_be_bytes(), 1));
            assert!(silent.admits(S, at));
            silent.sent(S, at);
        }
        assert!(silent.counts.len() <= MAX_COUNTED + 2 && silent.order.len() <= MAX_COUNTED + 2);
        // Addresses that answer and fall silent in turn do not fill the order either.
        let at = "8.8.8.8:1".parse().unwrap();
        for n in 0..20_000 {
            silent.admits(S * n / 100, at);
            silent.sent(S * n / 100, at);
            silent.answered(at);
        }
        assert!(silent.order.len() <= MAX_COUNTED + 2);
    }
}
