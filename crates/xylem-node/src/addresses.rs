//! Addresses of this machine that are given to other peers.

use std::net::SocketAddr;

use xylem_engine::offered;
use xylem_object::ticket::{Address, MAX_ADDRESSES};
use xylem_peers::reachable::AddressChoice;

use crate::event::Event;

/// The addresses for tickets: first those announced by hand, then [`offered`]. Also returns the event that reports
/// them.
pub(crate) fn of_tickets(announce: &[Address], bound: &[SocketAddr]) -> (Vec<Address>, Event) {
    let (own, AddressChoice { left_out, .. }) = offered(bound);
    let mut addresses = announce.to_vec();
    addresses.extend(own.into_iter().map(Address::Ip).filter(|own| !announce.contains(own)));
    addresses.truncate(MAX_ADDRESSES);
    (addresses.clone(), Event::Reachable { addresses, left_out })
}
