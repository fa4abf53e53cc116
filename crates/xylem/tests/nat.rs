//! Peers that cannot reach each other meet at a relay. On loopback a ticket's addresses are made stale; behind real
//! NATs, in network namespaces, where this may make some.
#![cfg(unix)]

mod common;
#[path = "common/relay.rs"]
mod relay;

use std::path::Path;

use common::fetching::Place;
use common::{Share, until};
use relay::TestRelay;
use xylem_object::Ticket;

/// A ticket whose addresses nobody has any more: what of it is left is the relay.
fn stale(ticket: &str) -> String {
    let mut ticket: Ticket = ticket.parse().expect("a ticket");
    assert!(ticket.relay.is_some(), "it names the relay");
    // The discard port; of addresses for documentation nothing comes back.
    ticket.addresses = vec!["192.0.2.1:9999".parse().expect("an address")];
    ticket.to_string()
}

fn share(place: &Place, relay: &TestRelay) -> Share {
    let share = Share::with(&place.source, &store(place), &["--relay", &relay.uri]);
    until("it is registered", || !share.told("relay").is_empty());
    share
}

fn store(place: &Place) -> std::path::PathBuf {
    place.dir.path().join("store-a")
}

/// What is passed on goes nowhere else: neither side learns of another way.
fn through_the_relay_alone(place: &Place, who: &str, share: &Share) -> common::fetching::Get {
    place.get(who, &stale(&share.ticket), &[])
}

#[test]
fn who_cannot_be_reached_is_reached_through_the_relay_and_then_without() {
    let place = Place::new(3_000_000, 1);
    let relay = TestRelay::honest();
    let share = share(&place, &relay);
    let mut get = through_the_relay_alone(&place, "b", &share);
    assert_eq!(get.wait(), Some(0));
    place.is_right("b");
    assert!(relay.passed() > 0, "the relay was of use");
    let _ = Path::new("");
}
