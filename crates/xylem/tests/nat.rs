//! Peers that cannot reach each other meet at a relay. On loopback a ticket's addresses are made stale, and the relay
//! is one of our own, which does what a relay may do.
#![cfg(unix)]

mod common;
#[path = "common/relay.rs"]
#[allow(dead_code, reason = "reach_attacks.rs uses the rest")]
mod relay;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

use common::fetching::Place;
use common::{Share, assert_exit, get, stderr, until};
use relay::TestRelay;
use xylem_object::Ticket;

/// A ticket whose addresses nobody has any more: what of it is left is the relay.
fn stale(ticket: &str) -> String {
    let mut ticket: Ticket = ticket.parse().expect("a ticket");
    assert!(ticket.relay.is_some(), "it names the relay");
    // Of addresses for documentation nothing comes back.
    ticket.addresses = vec!["192.0.2.1:9999".parse().expect("an address")];
    ticket.to_string()
}

fn store(place: &Place) -> PathBuf {
    place.dir.path().join("store-a")
}

/// A share that the relay has.
fn share(place: &Place, relay: &TestRelay) -> Share {
    let share = Share::with(&place.source, &store(place), &["--relay", &relay.uri]);
    until("it is registered", || share.told("relay").iter().any(|told| told["registered"] == true));
    share
}

/// Fetches by what the relay gives alone, and ends with the same file.
fn fetches(place: &Place, share: &Share) {
    let mut get = place.get("b", &stale(&share.ticket), &[]);
    assert_eq!(get.wait(), Some(0));
    place.is_right("b");
}

#[test]
fn who_cannot_be_reached_is_reached_through_the_relay_and_then_without() {
    let place = Place::new(3_000_000, 1);
    let relay = TestRelay::honest();
    let share = share(&place, &relay);
    let mut get = place.get("b", &stale(&share.ticket), &["--limit", "2000000"]);
    // What both tell each other through it is a better way, and taken.
    until("it has moved", || !share.told("moved").is_empty());
    let at_relay = format!("xylem+relay://{}", relay.address);
    let [came, moved] =
        ["peer_connected", "moved"].map(|event| share.told(event)[0]["peer"].clone());
    assert_eq!((came, moved), (at_relay.clone().into(), at_relay.into()));
    assert_eq!(get.wait(), Some(0));
    place.is_right("b");
    assert!(relay.passed() > 0, "the relay was of use");
}

/// Once a direct way is found the relay may go: nothing depends on it.
#[test]
fn a_relay_that_goes_in_the_middle_of_it_is_not_missed() {
    let place = Place::new(3_000_000, 2);
    let relay = TestRelay::honest();
    let share = share(&place, &relay);
    let mut get = place.get("b", &stale(&share.ticket), &["--limit", "1500000"]);
    until("it has moved", || !share.told("moved").is_empty());
    drop(relay);
    assert_eq!(get.wait(), Some(0));
    place.is_right("b");
}

#[test]
fn a_relay_that_delays_and_reorders_costs_time_alone() {
    let place = Place::new(400_000, 3);
    let mut held: Option<(SocketAddr, Vec<u8>)> = None;
    let relay = TestRelay::new(
        move |to, datagram| match held.take() {
            // Every second one leaves before the one that came before it, and that twice.
            Some(before) => vec![(to, datagram), before.clone(), before],
            None => {
                held = Some((to, datagram));
                vec![]
            }
        },
        |seen| seen,
    );
    fetches(&place, &share(&place, &relay));
}

#[test]
fn a_relay_that_rewrites_and_drops_costs_time_alone() {
    let place = Place::new(400_000, 4);
    let mut count = 0_usize;
    let relay = TestRelay::new(
        move |to, mut datagram| {
            count += 1;
            if count.is_multiple_of(3) {
                let at = count * 7 % datagram.len();
                datagram[at] ^= 1;
            }
            if count.is_multiple_of(4) { vec![] } else { vec![(to, datagram)] }
        },
        |seen| seen,
    );
    fetches(&place, &share(&place, &relay));
}

#[test]
fn a_relay_that_passes_nothing_on_is_named() {
    let place = Place::new(1_000, 5);
    let relay = TestRelay::new(|_, _| vec![], |seen| seen);
    let share = share(&place, &relay);
    let output = get(&place.dir.path().join("other"), &[&stale(&share.ticket), "--timeout", "4"]);
    assert_exit(&output, 3);
    let said = stderr(&output);
    let last = said.lines().last().expect("a line");
    assert!(last.starts_with("xylem: nobody answered in 4 s: "), "{said}");
    assert!(last.contains(&format!("xylem+relay://{}", relay.address)), "{said}");
}

/// The sharer has gone, and has told the relay: it says so, and nobody waits for silence.
#[cfg(target_os = "linux")]
#[test]
fn who_is_not_at_the_relay_is_said_not_to_be() {
    let place = Place::new(1_000, 6);
    let relay = TestRelay::honest();
    let share = share(&place, &relay);
    let ticket = stale(&share.ticket);
    let pid = share.pid().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    until("it has ended", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.contains("State:") || status.contains("State:\tZ")
    });
    let output = get(&place.dir.path().join("other"), &[&ticket, "--timeout", "4"]);
    assert_exit(&output, 3);
    assert!(stderr(&output).contains("registered at the relay"), "{}", stderr(&output));
}

/// A relay says of us what it likes: that we are where a victim is. What the victim gets of it is bounded, and small.
#[test]
fn a_relay_that_lies_about_addresses_aims_little_at_a_victim() {
    let victims: Vec<UdpSocket> =
        (0..8).map(|_| UdpSocket::bind("127.0.0.1:0").expect("loopback")).collect();
    victims.iter().for_each(|victim| victim.set_nonblocking(true).expect("may be set"));
    let at: Vec<_> = victims.iter().map(|victim| victim.local_addr().expect("bound")).collect();
    let place = Place::new(3_000_000, 7);
    // Each is told another of its addresses.
    let known = std::sync::Mutex::new(Vec::new());
    let tells = move |from| {
        let mut known = known.lock().expect("whole");
        if !known.contains(&from) {
            known.push(from);
        }
        at[known.iter().position(|one| *one == from).expect("known") % 8]
    };
    let relay = TestRelay::new(|to, datagram| vec![(to, datagram)], tells);
    let share = share(&place, &relay);
    let mut get = place.get("b", &stale(&share.ticket), &["--limit", "1500000"]);
    assert_eq!(get.wait(), Some(0));
    place.is_right("b");
    let (mut lens, mut buffer) = (Vec::new(), [0; 65_536]);
    for victim in &victims {
        while let Ok((len, _)) = victim.recv_from(&mut buffer) {
            lens.push(len);
        }
    }
    // A question is small, and one address is asked by one link 24 times at most; content would be neither.
    assert!((1..=48).contains(&lens.len()), "{} datagrams", lens.len());
    assert!(lens.iter().all(|len| *len <= 128), "{lens:?}");
}

/// Whoever serves what it fetches passes on nothing for others.
#[test]
fn who_is_no_relay_is_said_to_be_none() {
    let place = Place::new(1_000, 8);
    let share = place.share();
    let seed = place.get("seed", &share.ticket, &["--seed"]);
    let (uri, _) = seed.address();
    let third = Share::with(&place.source, &place.dir.path().join("store-c"), &["--relay", &uri]);
    until("it is told", || third.told("relay").iter().any(|told| told["registered"] == false));
    let told = &third.told("relay")[0];
    assert_eq!(told["why"], "it is no relay, or not for us");
}
