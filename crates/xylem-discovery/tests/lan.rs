//! Presence by mDNS, in network namespaces on one bridge. Peers that know the tag find the announcer, and strangers'
//! answers stay bounded. Needs root and `ip netns`, and reports it if they are missing.
#![cfg(target_os = "linux")]

mod namespaces;

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namespaces::{Namespace, answer, inside, role};
use xylem_discovery::Lan;
use xylem_hash::hash;
use xylem_object::PublisherId;
use xylem_reach::names::LanTag;

const PUBLISHER: PublisherId = PublisherId([9; 32]);

fn tag(n: u8) -> LanTag {
    LanTag::new(&hash(&[n]), &PUBLISHER, 20_000)
}

/// Machines on one switch, from 10.66.0.1 on; `None` without the right to make them.
fn machines<const N: usize>(name: &str) -> Option<(Namespace, [Namespace; N])> {
    let switch = Namespace::new(&format!("{name}s"))?;
    let s = switch.name();
    if !namespaces::sh(&format!("ip -n {s} link add sw0 type bridge && ip -n {s} link set sw0 up"))
    {
        return None;
    }
    let all = (0..N).map(|i| {
        let machine = Namespace::new(&format!("{name}{i}"))?;
        let (m, n) = (machine.name(), i + 1);
        let script = format!(
            "ip link add p{i} netns {s} type veth peer name eth netns {m} && ip -n {s} link set p{i} master sw0 up && \
             ip -n {m} addr add 10.66.0.{n}/24 dev eth && ip -n {m} link set eth up"
        );
        namespaces::sh(&script).then_some(machine)
    });
    let all: Option<Vec<_>> = all.collect();
    Some((switch, all?.try_into().ok()?))
}

/// Announces or queries, as its role states, until its standard input ends.
#[test]
#[ignore = "run by the others, within a namespace"]
fn machine() {
    let Some(role) = role() else { return };
    let input = namespaces::input();
    if role == "stranger" {
        return stranger(&input);
    }
    let (sender, woken) = std::sync::mpsc::channel();
    let wake = Arc::new(move || sender.send(()).unwrap_or(()));
    let seed = role.bytes().fold(1_u64, |all, b| all.wrapping_mul(257).wrapping_add(b.into()));
    let mut lan = Lan::start(seed.to_be_bytes(), wake).unwrap();
    match role.as_str() {
        "announces" => lan.announce(tag(1), 4001).unwrap(),
        "asks" => lan.ask(tag(1)).unwrap(),
        _ => lan.ask(tag(2)).unwrap(),
    }
    println!("ready");
    while input.try_recv().is_err() {
        let _ = woken.recv_timeout(Duration::from_millis(50));
        while let Some(found) = lan.poll() {
            assert!(found.addresses.len() <= 8);
            for address in found.addresses {
                println!("{address}");
            }
        }
    }
    drop(lan);
    println!("ended");
}

/// Observes the query and answers as a hundred machines, with addresses of a victim elsewhere, and with garbage.
fn stranger(input: &std::sync::mpsc::Receiver<()>) {
    let socket = UdpSocket::bind("10.66.0.1:5353").unwrap();
    let service = tag(1).service();
    let victim: Vec<[u8; 4]> = (0..20).map(|i| [203, 0, 113, i]).collect();
    println!("ready");
    while input.try_recv().is_err() {
        for n in 0..100 {
            let _ = socket.send_to(&answer(&service, n, &victim), "224.0.0.251:5353");
        }
        let _ = socket.send_to(&[0xff; 900], "224.0.0.251:5353");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_peer_with_the_tag_finds_the_announcer() {
    let Some((_switch, [a, b, c])) = machines::<3>("dlan") else {
        eprintln!("SKIPPED: no right to make network namespaces");
        return;
    };
    let mut announcer = inside(&a, "machine", "announces");
    assert_eq!(announcer.line(), "ready");
    // A responder does not repeat an answer within a second (RFC 6762, section 6).
    std::thread::sleep(Duration::from_millis(2_500));
    let mut other = inside(&c, "machine", "asks for something else");
    assert_eq!(other.line(), "ready");
    let mut asker = inside(&b, "machine", "asks");
    assert_eq!(asker.line(), "ready");
    let started = Instant::now();
    // Addresses of the link alone may come before it, in a datagram of their own.
    let mut found = asker.line();
    while found.starts_with("[fe80::") && found.ends_with(":4001") {
        found = asker.line();
    }
    assert_eq!(found, "10.66.0.1:4001");
    println!("found in {:?}", started.elapsed());
    announcer.end();
    assert_eq!(announcer.line(), "ended");
    other.end();
    assert_eq!(other.line(), "ended", "another tag finds nothing");
}

/// A stranger on the LAN can answer, but only a limited number of its answers is used.
#[test]
fn answers_of_strangers_are_bounded() {
    let Some((_switch, [a, b])) = machines::<2>("dstr") else {
        eprintln!("SKIPPED: no right to make network namespaces");
        return;
    };
    assert!(namespaces::sh(&format!("ip -n {} route add 224.0.0.0/4 dev eth", a.name())));
    let mut liar = inside(&a, "machine", "stranger");
    assert_eq!(liar.line(), "ready");
    let mut asker = inside(&b, "machine", "asks");
    assert_eq!(asker.line(), "ready");
    assert!(asker.line().starts_with("203.0.113."));
    std::thread::sleep(Duration::from_secs(4));
    asker.end();
    let mut taken = 1;
    while asker.line() != "ended" {
        taken += 1;
    }
    assert!(taken <= 32 * 8, "{taken}");
}
