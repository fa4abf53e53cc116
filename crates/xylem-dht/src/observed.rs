//! [`ObservedAddresses`]: our own addresses as nodes report them (`ip` of BEP 42).

use core::cmp::Reverse;
use core::net::SocketAddr;
use std::collections::VecDeque;

use crate::address::Host;

/// Most nodes of one family with a latest report that counts.
const MAX_REPORTS: usize = 64;
/// Nodes that have to report an address before it counts: one may lie.
pub(crate) const ENOUGH_REPORTS: usize = 2;

/// An address of this socket, as some nodes see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedAddress {
    /// The address.
    pub at: SocketAddr,
    /// Number of nodes that reported it last, each at a host of its own.
    pub nodes: usize,
}

/// Reports of one family, one a host.
#[derive(Debug, Default)]
pub(crate) struct ObservedAddresses(VecDeque<(Host, SocketAddr)>);

impl ObservedAddresses {
    /// Adds a report; returns whether the addresses that count have changed.
    pub(crate) fn report(&mut self, from: Host, seen: SocketAddr) -> bool {
        let before = self.counting();
        self.0.retain(|(host, _)| *host != from);
        if self.0.len() >= MAX_REPORTS {
            self.0.pop_front();
        }
        self.0.push_back((from, seen));
        before != self.counting()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Reported addresses, the most frequent one first.
    pub(crate) fn list(&self) -> Vec<ObservedAddress> {
        let mut list: Vec<ObservedAddress> = Vec::new();
        for (_, at) in &self.0 {
            match list.iter_mut().find(|seen| seen.at == *at) {
                Some(seen) => seen.nodes = seen.nodes.saturating_add(1),
                None => list.push(ObservedAddress { at: *at, nodes: 1 }),
            }
        }
        list.sort_by_key(|seen| (Reverse(seen.nodes), seen.at));
        list
    }

    fn counting(&self) -> Vec<SocketAddr> {
        let mut counting: Vec<SocketAddr> =
            self.list().iter().filter(|s| s.nodes >= ENOUGH_REPORTS).map(|s| s.at).collect();
        counting.sort();
        counting
    }
}

/// Whether a NAT gives each peer another port: `Some(true)` if nodes see several ports of one address, `Some(false)` if
/// several nodes see one. A single node is not believed, except that ports which nearly all differ show the same. The
/// IP address that most nodes see is judged.
pub fn is_symmetric(seen: &[ObservedAddress]) -> Option<bool> {
    let of = |ip| seen.iter().filter(move |seen| seen.at.ip() == ip);
    let nodes = |ip| of(ip).fold(0_usize, |sum, seen| sum.saturating_add(seen.nodes));
    let ip = seen.iter().map(|seen| seen.at.ip()).max_by_key(|ip| nodes(*ip))?;
    let (ports, sure) = (of(ip).count(), of(ip).filter(|s| s.nodes >= ENOUGH_REPORTS).count());
    let most_differ = ports >= 3 && ports.saturating_mul(2) > nodes(ip);
    match (sure >= 2 || most_differ, sure) {
        (true, _) => Some(true),
        (false, 1..) => Some(false),
        (false, 0) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::AddressScope;

    fn report(observed: &mut ObservedAddresses, node: u8, seen: &str) -> bool {
        let from = SocketAddr::from(([8, 8, 8, node], 1));
        observed.report(Host::of(from, AddressScope::Global), seen.parse().unwrap())
    }

    #[test]
    fn two_ports_of_one_address_are_a_symmetric_nat() {
        let mut observed = ObservedAddresses::default();
        assert_eq!(is_symmetric(&observed.list()), None);
        assert!(!report(&mut observed, 1, "9.9.9.9:100"));
        assert_eq!(is_symmetric(&observed.list()), None);
        assert!(report(&mut observed, 2, "9.9.9.9:100"));
        assert_eq!(is_symmetric(&observed.list()), Some(false));
        // One liar changes nothing, however often it reports.
        for port in 200..300 {
            assert!(!report(&mut observed, 3, &format!("9.9.9.9:{port}")));
        }
        assert_eq!(is_symmetric(&observed.list()), Some(false));
        report(&mut observed, 4, "9.9.9.9:500");
        assert!(report(&mut observed, 5, "9.9.9.9:500"));
        assert_eq!(is_symmetric(&observed.list()), Some(true));
    }

    #[test]
    fn ports_that_all_differ_are_a_symmetric_nat() {
        let mut observed = ObservedAddresses::default();
        for node in 0..20 {
            report(&mut observed, node, &format!("9.9.9.9:{}", 1_000 + u16::from(node)));
        }
        assert_eq!(is_symmetric(&observed.list()), Some(true));
        for node in 0..200 {
            report(&mut observed, node, "9.9.9.9:7");
        }
        assert_eq!(
            observed.list(),
            [ObservedAddress { at: "9.9.9.9:7".parse().unwrap(), nodes: 64 }]
        );
    }
}
