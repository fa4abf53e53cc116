//! Peers that cannot reach each other meet at a relay. On loopback a ticket's addresses are made stale. The relay is
//! one of our own, which can do whatever a hostile relay could.
#![cfg(unix)]

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use crate::common;
use crate::common::fetching::FetchSetup;
use crate::common::relay::TestRelay;
use crate::common::{Share, assert_exit, get, stderr, until};
use xylem_object::Ticket;
use xylem_sim::Rng;

/// A ticket with a stale address: only its relay leads to the sharer.
fn stale(ticket: &str) -> String {
    let mut ticket: Ticket = ticket.parse().expect("a ticket");
    assert!(!ticket.relays.is_empty(), "it names the relay");
    // An address reserved for documentation never answers.
    ticket.addresses = vec!["192.0.2.1:9999".parse().expect("an address")];
    ticket.to_string()
}

fn store(place: &FetchSetup) -> PathBuf {
    place.dir.path().join("store-a")
}

/// A share that is registered at the relay.
fn share(place: &FetchSetup, relay: &TestRelay) -> Share {
    let share = Share::with(&place.source, &store(place), &["--relay", &relay.uri]);
    until("it is registered", || share.told("relay").iter().any(|told| told["registered"] == true));
    share
}

/// Fetches with what the relay alone gives, and compares the file.
fn fetches(place: &FetchSetup, share: &Share) {
    let mut get = place.get("b", &stale(&share.ticket), &[]);
    assert_eq!(get.wait(), Some(0));
    place.is_right("b");
}

#[test]
fn an_unreachable_sharer_is_reached_by_relay_and_then_directly() {
    let place = FetchSetup::new(3_000_000, 1);
    let relay = TestRelay::honest();
    let share = share(&place, &relay);
    let mut get = place.get("b", &stale(&share.ticket), &["--limit", "2000000"]);
    // Both exchange addresses through the relay, find a better way, and move to it.
    until("it has moved", || !share.told("moved").is_empty());
    let at_relay = format!("xylem+relay://{}", relay.address);
    let [came, moved] =
        ["peer_connected", "moved"].map(|event| share.told(event)[0]["peer"].clone());
    assert_eq!((came, moved), (at_relay.clone().into(), at_relay.into()));
    assert_eq!(get.wait(), Some(0));
    place.is_right("b");
    assert!(relay.passed() > 0, "the relay was of use");
}

/// Once a direct way is found the relay may end: nothing depends on it.
#[test]
fn once_a_direct_way_exists_the_relay_may_end() {
    let place = FetchSetup::new(3_000_000, 2);
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
    let place = FetchSetup::new(400_000, 3);
    let mut held: Option<(SocketAddr, Vec<u8>)> = None;
    let relay = TestRelay::new(
        move |to, datagram| match held.take() {
            // Every second datagram leaves before the one that came before it, and that one twice.
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
    let place = FetchSetup::new(400_000, 4);
    // At random: faults at each third datagram would hit the same part of every handshake, which is sent as three.
    let mut rng = Rng::new(4);
    let relay = TestRelay::new(
        move |to, mut datagram| {
            if rng.below(3) == 0 {
                let at = rng.index(datagram.len());
                datagram[at] ^= 1;
            }
            if rng.below(4) == 0 { vec![] } else { vec![(to, datagram)] }
        },
        |seen| seen,
    );
    let share = share(&place, &relay);
    // A fifth of the handshakes succeed, and one is tried every two seconds: 30 s would sometimes be too short.
    let mut get = place.get("b", &stale(&share.ticket), &["--timeout", "600"]);
    assert_eq!(get.wait_within(Duration::from_secs(600)), Some(0));
    place.is_right("b");
}

#[test]
fn a_relay_that_forwards_nothing_is_named() {
    let place = FetchSetup::new(1_000, 5);
    let relay = TestRelay::new(|_, _| vec![], |seen| seen);
    let share = share(&place, &relay);
    let output = get(&place.dir.path().join("other"), &[&stale(&share.ticket), "--timeout", "4"]);
    assert_exit(&output, 3);
    let said = stderr(&output);
    let last = said.lines().last().expect("a line");
    assert!(last.starts_with("xylem: no peer answered in 4 s: "), "{said}");
    assert!(last.contains(&format!("relay {}", relay.address)), "{said}");
}

/// The sharer has ended and has notified the relay. The relay reports that, so that no getter has to wait for a
/// timeout.
#[cfg(target_os = "linux")]
#[test]
fn a_sharer_that_left_its_relay_is_reported_absent() {
    let place = FetchSetup::new(1_000, 6);
    let relay = TestRelay::honest();
    let share = share(&place, &relay);
    let ticket = stale(&share.ticket);
    ends(&share);
    // Whatever the timeout of the fetch is.
    for timeout in ["4", "86400"] {
        let output = get(&place.dir.path().join("other"), &[&ticket, "--timeout", timeout]);
        assert_exit(&output, 3);
        let said = stderr(&output);
        let away = format!("xylem: the sharer is not connected to relay {}: ", relay.address);
        let last = said.lines().last().expect("a line");
        assert!(last.starts_with(&away) && last.contains("--wait"), "{said}");
    }
}

/// The first of two relays is off when the share begins; the second one leads to the share.
#[test]
fn a_relay_that_is_off_is_not_the_only_one_that_a_ticket_names() {
    let place = FetchSetup::new(400_000, 11);
    let relay = TestRelay::honest();
    let off = format!("{}@127.0.0.1:9", "05".repeat(32));
    let more = ["--relay", &off, "--relay", &relay.uri];
    let share = Share::with(&place.source, &store(&place), &more);
    until("it is registered", || share.told("relay").iter().any(|told| told["registered"] == true));
    fetches(&place, &share);
}

/// Ends a share in order, so that it notifies its relay.
#[cfg(target_os = "linux")]
fn ends(share: &Share) {
    let pid = share.pid().to_string();
    signal("-INT", &pid);
    until("it has ended", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.contains("State:") || status.contains("State:\tZ")
    });
}

#[cfg(target_os = "linux")]
fn signal(which: &str, pid: &str) {
    assert!(std::process::Command::new("kill").args([which, pid]).status().unwrap().success());
}

/// The getter is first, and waits: it asks the relay again and again, whether it asks the LAN as well or not.
#[cfg(target_os = "linux")]
#[test]
fn a_sharer_that_comes_a_little_later_is_found() {
    let place = FetchSetup::new(400_000, 9);
    let relay = TestRelay::honest();
    let first = share(&place, &relay);
    let ticket = stale(&first.ticket);
    ends(&first);
    drop(first);
    let start = |who: &str, lan: bool, more: &[&str]| {
        let mut command = common::xylem(&place.dir.path().join(format!("store-{who}")));
        if lan {
            command.env_remove("XYLEM_NO_LAN");
        }
        command.args(["--json", "get", &ticket, "-o", common::text(&place.out(who))]).args(more);
        common::fetching::Get::of(command)
    };
    let mut gets = [start("b", true, &["--wait"]), start("c", false, &["--wait"])];
    let mut patient = start("d", true, &["--wait"]);
    for get in gets.iter().chain([&patient]) {
        get.event("unanswered", |told| told["seconds"].as_f64() >= Some(4.0));
    }
    let late = share(&place, &relay);
    for get in &mut gets {
        assert_eq!(get.wait(), Some(0));
    }
    assert_eq!(patient.wait(), Some(0));
    ["b", "c", "d"].into_iter().for_each(|who| place.is_right(who));
    ends(&late);
    // A getter waits for longer than a relay's answer counts as current.
    std::fs::remove_file(place.out("d")).expect("it was fetched");
    std::fs::remove_dir_all(place.dir.path().join("store-d")).expect("it is there");
    let mut patient = start("d", false, &["--wait"]);
    let mut other = start("e", false, &[]);
    assert_eq!(other.wait(), Some(3));
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(patient.child.try_wait().unwrap().is_none(), "it waits");
    let _late = share(&place, &relay);
    assert_eq!(patient.wait(), Some(0));
    place.is_right("d");
}

/// A sharer that slept for longer than its relay keeps a registration is reachable again as soon as it wakes.
#[cfg(target_os = "linux")]
#[test]
fn a_sharer_that_has_slept_is_found_when_it_wakes() {
    let place = FetchSetup::new(400_000, 10);
    let relay = TestRelay::forgetful(std::time::Duration::from_secs(6));
    let share = share(&place, &relay);
    let pid = share.pid().to_string();
    signal("-STOP", &pid);
    until("it is forgotten", || relay.registered() == 0);
    signal("-CONT", &pid);
    fetches(&place, &share);
}

/// A relay lies that a peer is at a victim's address. The traffic sent to the victim is bounded, and small.
#[test]
fn a_relay_that_lies_about_addresses_aims_little_at_a_victim() {
    let victims: Vec<UdpSocket> =
        (0..8).map(|_| UdpSocket::bind("127.0.0.1:0").expect("loopback")).collect();
    victims.iter().for_each(|victim| victim.set_nonblocking(true).expect("may be set"));
    let at: Vec<_> = victims.iter().map(|victim| victim.local_addr().expect("bound")).collect();
    let place = FetchSetup::new(3_000_000, 7);
    // The relay reports another of the victim's addresses to each peer.
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
    // A probe is small, and one link probes one address at most 24 times; content would be neither small nor rare.
    assert!((1..=48).contains(&lens.len()), "{} datagrams", lens.len());
    assert!(lens.iter().all(|len| *len <= 128), "{lens:?}");
}

/// A getter that serves what it fetches forwards nothing for others.
#[test]
fn a_peer_that_is_no_relay_is_reported_as_such() {
    let place = FetchSetup::new(1_000, 8);
    let share = place.share();
    let seed = place.get("seed", &share.ticket, &["--seed"]);
    let (uri, _) = seed.address();
    let third = Share::with(&place.source, &place.dir.path().join("store-c"), &["--relay", &uri]);
    until("it is told", || third.told("relay").iter().any(|told| told["registered"] == false));
    let told = &third.told("relay")[0];
    assert_eq!(told["why"], "it is not a relay, or it does not serve this peer");
}
