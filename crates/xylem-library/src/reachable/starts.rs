//! [`Starts`]: in which order the addresses of one node are dialled, and when each is its turn: not all at once, as a
//! handshake at an address that is not the node's costs datagrams and shows them to somebody else; nor one after the
//! other has failed, as silence takes seconds (the reasons, and the order, are those of RFC 8305).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Between two starts, while nobody has answered. RFC 8305 has 250 ms for connections of which each costs a server
/// something; here sixteen addresses are to be through within half a second.
const BETWEEN: Duration = Duration::from_millis(30);

/// See the module's documentation.
#[derive(Default)]
pub struct Starts {
    /// Peers by number, and whether the next one need not wait for this.
    queue: VecDeque<(usize, bool)>,
    next: Duration,
}

impl Starts {
    /// Of peers by number, best first: the two families take turns, the first one's first.
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

    /// An address that has failed before is dialled again, behind the others.
    pub fn again(&mut self, peer: usize, address: SocketAddr) {
        self.queue.push_back((peer, address.ip().to_canonical().is_loopback()));
    }

    /// Whether a peer waits for its turn.
    pub fn has(&self, peer: usize) -> bool {
        self.queue.iter().any(|(waits, _)| *waits == peer)
    }

    /// The next peer whose turn it is.
    pub fn next(&mut self, now: Duration) -> Option<usize> {
        if now < self.next {
            return None;
        }
        let (peer, near) = self.queue.pop_front()?;
        // What does not leave this machine costs nobody anything.
        self.next = if near { now } else { now + BETWEEN };
        Some(peer)
    }

    /// An address has failed: the next one's turn is now.
    pub fn failed(&mut self) {
        self.next = Duration::ZERO;
    }

    /// Nobody else has to be dialled.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Whether nobody is left.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// When [`Starts::next`] has somebody.
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

    /// Who is dialled within a time, and when.
    fn run(starts: &mut Starts, until: Duration) -> Vec<(usize, u128)> {
        let mut dialled = Vec::new();
        while let Some(at) = starts.poll_timeout().filter(|at| *at <= until) {
            dialled.extend(starts.next(at).map(|peer| (peer, at.as_millis())));
        }
        dialled
    }

    #[test]
    fn families_take_turns_and_nobody_waits_for_silence() {
        let v4 = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"];
        let mut starts = starts(&[v4[0], v4[1], v4[2], "[2001:db8::1]:1"]);
        let all = run(&mut starts, Duration::from_secs(1));
        assert_eq!(all, [(0, 0), (3, 30), (1, 60), (2, 90)]);
        assert!(starts.is_empty());
    }

    #[test]
    fn as_many_as_a_ticket_may_have_are_through_in_half_a_second() {
        let mut starts = starts(&["192.0.2.1:1"; 16]);
        assert_eq!(run(&mut starts, Duration::from_millis(500)).len(), 16);
    }

    #[test]
    fn on_this_machine_and_after_a_failure_nobody_waits() {
        let mut near = starts(&["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "192.0.2.1:1"]);
        assert_eq!(run(&mut near, Duration::ZERO).len(), 4);
        let mut starts = starts(&["192.0.2.1:1", "192.0.2.2:1"]);
        assert_eq!(starts.next(Duration::ZERO), Some(0));
        assert_eq!(starts.next(Duration::ZERO), None);
        starts.failed();
        assert_eq!(starts.next(Duration::ZERO), Some(1));
    }
}
