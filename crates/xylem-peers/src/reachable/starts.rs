//! [`Starts`]: the order and times at which the addresses of one node are dialled. Not all at once: a handshake at a
//! wrong address costs datagrams and reveals them to a stranger. Not one after the other's failure: silence takes
//! seconds. Reasons and order follow RFC 8305.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Interval between two dials while none has answered. RFC 8305 has 250 ms, for connections that each cost a server
/// something; here sixteen addresses must be tried within half a second.
const BETWEEN: Duration = Duration::from_millis(30);

/// Addresses in dialling order; see the module's documentation.
#[derive(Default)]
pub struct Starts {
    /// Peers by number, and whether the next one need not wait after this.
    queue: VecDeque<(usize, bool)>,
    next: Duration,
}

impl Starts {
    /// Queues peers by number, best first. The two address families alternate, starting with the first peer's.
    pub fn new(now: Duration, peers: impl Iterator<Item = (usize, SocketAddr)>) -> Self {
        let mut queues = [VecDeque::new(), VecDeque::new()];
        let mut first_is_v6 = None;
        for (peer, address) in peers {
            let ip = address.ip().to_canonical();
            let turn = usize::from(*first_is_v6.get_or_insert(ip.is_ipv6()) != ip.is_ipv6());
            queues[turn].push_back((peer, ip.is_loopback()));
        }
        let [mut one, mut other] = queues;
        let mut queue = VecDeque::with_capacity(one.len() + other.len());
        while !(one.is_empty() && other.is_empty()) {
            queue.extend(one.pop_front());
            queue.extend(other.pop_front());
        }
        Self { queue, next: now }
    }

    /// Queues an address that failed before, behind the others.
    pub fn again(&mut self, peer: usize, address: SocketAddr) {
        self.queue.push_back((peer, address.ip().to_canonical().is_loopback()));
    }

    /// Returns whether a peer waits in the queue.
    pub fn has(&self, peer: usize) -> bool {
        self.queue.iter().any(|(waits, _)| *waits == peer)
    }

    /// Takes the next peer that is due.
    pub fn next(&mut self, now: Duration) -> Option<usize> {
        if now < self.next {
            return None;
        }
        let (peer, near) = self.queue.pop_front()?;
        // A dial within this machine costs nothing.
        self.next = if near { now } else { now + BETWEEN };
        Some(peer)
    }

    /// Records that a dial failed: the next address is due now.
    pub fn failed(&mut self) {
        self.next = Duration::ZERO;
    }

    /// Cancels all further dials.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns when [`Starts::next`] has a peer.
    pub fn poll_timeout(&self) -> Option<Duration> {
        (!self.queue.is_empty()).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(addresses: &[&str]) -> Starts {
        let parsed = addresses.iter().map(|a| a.parse().expect("an address"));
        Starts::new(Duration::ZERO, parsed.enumerate())
    }

    /// Returns the peers dialled until a time, and when.
    fn run(starts: &mut Starts, until: Duration) -> Vec<(usize, u128)> {
        let mut dialled = Vec::new();
        while let Some(at) = starts.poll_timeout().filter(|at| *at <= until) {
            dialled.extend(starts.next(at).map(|peer| (peer, at.as_millis())));
        }
        dialled
    }

    #[test]
    fn families_alternate_without_waiting_for_failures() {
        let v4 = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"];
        let mut starts = starts(&[v4[0], v4[1], v4[2], "[2001:db8::1]:1"]);
        let all = run(&mut starts, Duration::from_secs(1));
        assert_eq!(all, [(0, 0), (3, 30), (1, 60), (2, 90)]);
        assert!(starts.is_empty());
    }

    #[test]
    fn all_addresses_of_a_ticket_are_dialled_within_half_a_second() {
        let mut starts = starts(&["192.0.2.1:1"; 16]);
        assert_eq!(run(&mut starts, Duration::from_millis(500)).len(), 16);
    }

    #[test]
    fn loopback_and_failures_cause_no_wait() {
        let mut near = starts(&["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "192.0.2.1:1"]);
        assert_eq!(run(&mut near, Duration::ZERO).len(), 4);
        let mut starts = starts(&["192.0.2.1:1", "192.0.2.2:1"]);
        assert_eq!(starts.next(Duration::ZERO), Some(0));
        assert_eq!(starts.next(Duration::ZERO), None);
        starts.failed();
        assert_eq!(starts.next(Duration::ZERO), Some(1));
    }
}
