//! When a fetch that has reached no peer gives up.

use xylem_link::CloseReason;
use xylem_object::ticket::RelayContact;
use xylem_object::{PublicationKind, PublisherKey};
use xylem_reach::relay::RelayRefusal;

use super::named::ABSENT_AFTER;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// A dialler with an address and one relay, each dialled at its time.
fn dialler(begun: [Duration; 2]) -> Dialler {
    let [address, relay] = ["192.0.2.1:9", "192.0.2.2:9"].map(|at| at.parse().expect("an address"));
    let ticket = Ticket {
        publisher: PublisherKey::from_bytes(&[1; 32]).public(),
        root: xylem_hash::hash(b"x"),
        name: None,
        link_key: Some([2; 32]),
        size: Some(1),
        kind: Some(PublicationKind::File),
        addresses: vec![address],
        relays: vec![RelayContact { key: [3; 32], addresses: vec![relay] }],
    };
    let mut dialler = Dialler::new(&ticket, &[], &[]).expect("somebody to dial");
    assert_eq!(dialler.named.len(), 2);
    dialler.named.iter_mut().zip(begun).for_each(|(peer, at)| peer.begin(at));
    dialler
}

/// The relay's report ends the wait. The silent address extends it only by the time that an answer would take.
#[test]
fn absence_at_the_only_relay_ends_the_fetch() {
    let mut dialler = dialler([Duration::ZERO; 2]);
    let not_here = || RelayRefusal::NotHere.into();
    assert!(!dialler.is_hopeless(ABSENT_AFTER * 100), "nobody has said anything");
    dialler.named[1].failed(MS * 100, not_here());
    assert!(dialler.sharer_is_absent() && !dialler.is_hopeless(ABSENT_AFTER + MS * 99));
    // The relay is asked again meanwhile, and reports the same.
    dialler.named[1].failed(MS * 1_100, not_here());
    assert!(dialler.is_hopeless(ABSENT_AFTER + MS * 100));
}

/// A relay that cannot be reached, or refuses for another reason, has reported nothing about the sharer.
#[test]
fn other_relay_failures_do_not_end_the_fetch() {
    let mut dialler = dialler([Duration::ZERO; 2]);
    let silent = || FaceEnd::Link(CloseReason::HandshakeTimeout);
    for why in [RelayRefusal::Quota.into(), silent()] {
        dialler.named[0].failed(MS, silent());
        dialler.named[1].failed(MS, why);
        assert!(!dialler.is_hopeless(ABSENT_AFTER * 100), "{:?}", dialler.named[1].failure());
    }
    dialler.named[1].failed(MS, RelayRefusal::NotHere.into());
    assert!(dialler.is_hopeless(ABSENT_AFTER + MS));
    // The relay led to the sharer before, and no longer does.
    dialler.named[1].failed(ABSENT_AFTER + MS, silent());
    assert!(!dialler.is_hopeless(ABSENT_AFTER * 100));
}

/// An address that the LAN supplied late gets its full time, too.
#[test]
fn a_late_address_gets_its_full_time() {
    let mut dialler = dialler([ABSENT_AFTER, Duration::ZERO]);
    dialler.named[1].failed(MS, RelayRefusal::NotHere.into());
    assert!(!dialler.is_hopeless(ABSENT_AFTER * 2 - MS));
    assert!(dialler.is_hopeless(ABSENT_AFTER * 2));
    dialler.was_up = true;
    assert!(!dialler.is_hopeless(ABSENT_AFTER * 2), "who was there may come back");
}
