//! When a fetch that has reached nobody is over.

use xylem_object::ticket::RelayAt;
use xylem_object::{Kind, PublisherKey};

use super::*;

const MS: Duration = Duration::from_millis(1);

/// An address and one relay, dialled at once.
fn dialler() -> Dialler {
    let [address, relay] = ["192.0.2.1:9", "192.0.2.2:9"].map(|at| at.parse().expect("an address"));
    let ticket = Ticket {
        publisher: PublisherKey::from_bytes(&[1; 32]).public(),
        root: xylem_hash::hash(b"x"),
        name: None,
        link_key: Some([2; 32]),
        size: Some(1),
        kind: Some(Kind::File),
        addresses: vec![address],
        relays: vec![RelayAt { key: [3; 32], addresses: vec![relay] }],
    };
    let mut dialler = Dialler::new(&ticket, &[], &[]).expect("somebody to dial");
    assert_eq!(dialler.peers.len(), 2);
    dialler.begun = vec![Some(Duration::ZERO); 2];
    dialler
}

/// The relay's word ends the wait: the address, from which nothing comes, holds it up no longer than an answer would take.
#[test]
fn the_word_of_the_only_relay_is_final() {
    let mut dialler = dialler();
    let not_here = Refusal::NotHere.to_string();
    assert!(!dialler.is_hopeless(NOBODY * 100), "nobody has said anything");
    dialler.failed(MS * 100, 1, &not_here);
    assert!(dialler.is_away() && !dialler.is_hopeless(NOBODY + MS * 99));
    // It is asked again meanwhile, and says so again.
    dialler.failed(MS * 1_100, 1, &not_here);
    assert!(dialler.is_hopeless(NOBODY + MS * 100));
}

/// A relay that cannot be reached, or refuses for another reason, has said nothing of the sharer.
#[test]
fn what_a_relay_does_not_say_is_not_final() {
    let mut dialler = dialler();
    for why in [Refusal::Quota.to_string(), "no answer to the handshake in time".to_owned()] {
        dialler.failed(MS, 0, "no answer to the handshake in time");
        dialler.failed(MS, 1, &why);
        assert!(!dialler.is_hopeless(NOBODY * 100), "{why}");
    }
    dialler.failed(MS, 1, &Refusal::NotHere.to_string());
    assert!(dialler.is_hopeless(NOBODY + MS));
    // It has led there, and not any more.
    dialler.failed(NOBODY + MS, 1, "no answer to the handshake in time");
    assert!(!dialler.is_hopeless(NOBODY * 100));
}

/// An address that the LAN told of late has its time, too.
#[test]
fn an_address_that_came_late_has_its_time() {
    let mut dialler = dialler();
    dialler.failed(MS, 1, &Refusal::NotHere.to_string());
    dialler.begun[0] = Some(NOBODY);
    assert!(!dialler.is_hopeless(NOBODY * 2 - MS));
    assert!(dialler.is_hopeless(NOBODY * 2));
    dialler.was_up = true;
    assert!(!dialler.is_hopeless(NOBODY * 2), "who was there may come back");
}
