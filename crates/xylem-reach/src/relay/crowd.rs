//! [`HostCounts`]: counts of what each host and each site has, in order of age, and which site has most.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::{BTreeSet, HashMap};

use xylem_link::source;

/// The site of an address: its first 24 bits for IPv4, 48 for IPv6, as one site is assigned.
pub(super) fn site(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & 0xffff_ff00).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80).into(),
    }
}

/// Numbers of items by host and by site.
#[derive(Debug, Default)]
pub(super) struct HostCounts {
    /// The items of each site, oldest first.
    sites: HashMap<IpAddr, Vec<u32>>,
    /// The number of items of each site, sorted.
    most: BTreeSet<(usize, IpAddr)>,
    hosts: HashMap<IpAddr, u32>,
}

impl HostCounts {
    pub(super) fn add(&mut self, host: IpAddr, what: u32) {
        let site = site(host);
        let of_site = self.sites.entry(site).or_default();
        self.most.remove(&(of_site.len(), site));
        of_site.push(what);
        self.most.insert((of_site.len(), site));
        let of_host = self.hosts.entry(source(host)).or_default();
        *of_host = of_host.saturating_add(1);
    }

    pub(super) fn remove(&mut self, host: IpAddr, what: u32) {
        let site = site(host);
        let Some(of_site) = self.sites.get_mut(&site) else { return };
        let Some(at) = of_site.iter().position(|one| *one == what) else { return };
        self.most.remove(&(of_site.len(), site));
        of_site.remove(at);
        if of_site.is_empty() {
            self.sites.remove(&site);
        } else {
            self.most.insert((of_site.len(), site));
        }
        if let Some(of_host) = self.hosts.get_mut(&source(host)) {
            *of_host = of_host.saturating_sub(1);
            if *of_host == 0 {
                self.hosts.remove(&source(host));
            }
        }
    }

    pub(super) fn of_host(&self, host: IpAddr) -> usize {
        self.hosts.get(&source(host)).map_or(0, |count| *count as usize)
    }

    pub(super) fn of_site(&self, host: IpAddr) -> usize {
        self.sites.get(&site(host)).map_or(0, Vec::len)
    }

    /// The sites with most items, and how many they have.
    pub(super) fn largest_sites(&self) -> impl Iterator<Item = (IpAddr, usize)> {
        self.most.iter().rev().map(|(count, site)| (*site, *count))
    }

    /// The oldest item of a host's site.
    pub(super) fn oldest_of_site(&self, host: IpAddr) -> Option<u32> {
        self.sites.get(&site(host))?.first().copied()
    }

    /// The oldest item of the site that has most.
    pub(super) fn oldest_of_largest_site(&self) -> Option<u32> {
        let (_, site) = self.most.last()?;
        self.sites.get(site)?.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_item_of_the_largest_site_is_found() {
        let mut crowd = HostCounts::default();
        let of = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(crowd.oldest_of_largest_site(), None);
        crowd.add(of("192.0.2.1"), 1);
        crowd.add(of("198.51.100.1"), 2);
        crowd.add(of("198.51.100.2"), 3);
        assert_eq!(crowd.oldest_of_largest_site(), Some(2));
        assert_eq!((crowd.of_host(of("198.51.100.1")), crowd.of_site(of("198.51.100.9"))), (1, 2));
        crowd.remove(of("198.51.100.1"), 2);
        crowd.remove(of("198.51.100.1"), 2);
        crowd.add(of("192.0.2.1"), 4);
        assert_eq!(crowd.oldest_of_largest_site(), Some(1));
        crowd.remove(of("192.0.2.1"), 1);
        crowd.remove(of("192.0.2.1"), 4);
        crowd.remove(of("198.51.100.2"), 3);
        assert!(crowd.sites.is_empty() && crowd.hosts.is_empty() && crowd.most.is_empty());
    }
}
