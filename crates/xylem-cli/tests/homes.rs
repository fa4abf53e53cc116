//! Peers in homes behind NATs, in network namespaces: by which way they reach each other. Needs root, `ip netns` and
//! nft; skipped with a line where they are missing.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common;
use crate::common::fetching::{FetchSetup, Get, from};
use crate::common::homes::{Nat, Network};
use crate::common::{text, until};
use xylem_object::Ticket;

const SIZE: usize = 4_000_000;
/// So slow that a fetch takes some seconds.
const LIMIT: [&str; 2] = ["--limit", "600K"];

/// Starts a getter.
fn get(mut command: Command, ticket: &str, out: &Path, more: &[&str]) -> Get {
    command.args(["get", ticket, "-o", text(out)]).args(more);
    Get::of(command)
}

/// A share on a machine, and its ticket.
fn share(mut command: Command, place: &FetchSetup, relays: &[String]) -> (Get, String) {
    command.arg("share").args(relays).arg(&place.source);
    let share = Get::of(command);
    if !relays.is_empty() {
        share.event("relay", |told| told["registered"] == true);
    }
    let ticket = share.event("shared", |_| true)["ticket"].as_str().expect("a ticket").to_owned();
    (share, ticket)
}

/// A relay, a sharer and a getter behind port-restricted NATs. The router of one home loses all mappings in the middle
/// of the fetch, and assigns other ports from then on.
fn reboots(tag: &str, home: &str) {
    let Some(mut network) = Network::new(tag) else { return };
    let place = FetchSetup::new(SIZE, 1);
    let store = |who: &str| place.dir.path().join(who);
    network.open("relay", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::Cone);
    network.home("b", "20.3.0.1", Nat::Cone);
    let (_relay, relays) = network.relay("relay", &store("relay"));
    let (share, ticket) = share(network.on("a", &store("a")), &place, &relays);
    share.event("reach", |told| told["way"] == "punched" && told["nat"] == "cone");
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &LIMIT);
    let address = if home == "a" { "20.2.0.1:" } else { "20.3.0.1:" };
    // The side with the stable NAT reports where the link moved.
    let moves = |from: u16| {
        let is = |told: &serde_json::Value| {
            let port = told["to"].as_str().and_then(|to| to.strip_prefix(address));
            let port = port.and_then(|port| port.parse::<u16>().ok());
            port.is_some_and(|port| (from..from + 5_000).contains(&port))
        };
        let _ = if home == "a" { b.event("moved", is) } else { share.event("moved", is) };
    };
    moves(40_000);
    b.has_fetched(500_000);
    network.reboot(home);
    moves(50_000);
    assert!(!b.has("done"), "it was in the middle");
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    let way = &b.done()["ways"][0];
    assert_eq!((&way["way"], &way["relay"]), (&"direct".into(), &"20.1.0.1:7348".into()));
}

#[test]
fn a_nat_that_reboots_in_the_middle_costs_no_byte() {
    reboots("reboot", "b");
}

#[test]
fn a_sharers_nat_that_reboots_in_the_middle_costs_no_byte() {
    reboots("rebootshare", "a");
}

/// Only TCP leaves the getter's network: it reaches the relay by its port 443.
#[test]
fn a_network_without_udp_reaches_a_share_through_the_relay_s_tls() {
    let Some(mut network) = Network::new("noudp") else { return };
    let place = FetchSetup::new(SIZE, 2);
    let store = |who: &str| place.dir.path().join(who);
    network.open("relay", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::Cone);
    network.home("b", "20.3.0.1", Nat::NoUdp);
    let (_relay, relays) = network.relay("relay", &store("relay"));
    let (_share, ticket) = share(network.on("a", &store("a")), &place, &relays);
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &[]);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    assert_eq!(b.event("relay", |told| told["registered"] == true)["over_tcp"], true);
    assert_eq!(b.done()["ways"][0]["way"], "relayed");
}

/// Only TCP leaves either network: both reach the relay by its port 443.
#[test]
fn two_networks_without_udp_meet_at_the_relay_s_tls() {
    let Some(mut network) = Network::new("notwice") else { return };
    let place = FetchSetup::new(SIZE, 7);
    let store = |who: &str| place.dir.path().join(who);
    network.open("relay", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::NoUdp);
    network.home("b", "20.3.0.1", Nat::NoUdp);
    let (_relay, relays) = network.relay("relay", &store("relay"));
    let (share, ticket) = share(network.on("a", &store("a")), &place, &relays);
    assert_eq!(share.event("relay", |told| told["registered"] == true)["over_tcp"], true);
    share.event("reach", |told| told["way"] == "relayed");
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &[]);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    assert_eq!(b.done()["ways"][0]["way"], "relayed");
}

/// Only TCP leaves the getter's network, and the sharer listens for TLS at port 443: no relay is needed.
#[test]
fn a_network_without_udp_reaches_a_share_that_listens_for_tls() {
    let Some(mut network) = Network::new("wss") else { return };
    let place = FetchSetup::new(SIZE, 8);
    let store = |who: &str| place.dir.path().join(who);
    network.open("a", "20.2.0.1");
    network.home("b", "20.3.0.1", Nat::NoUdp);
    let mut command = network.on("a", &store("a"));
    command.args(["share", "--listen=xylem://0.0.0.0:7348", "--listen=xylem+wss://0.0.0.0:443"]);
    let share = Get::of({
        command.arg(&place.source);
        command
    });
    let ticket = share.event("shared", |_| true)["ticket"].as_str().expect("a ticket").to_owned();
    let from = ["--from", "xylem+wss://20.2.0.1"];
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &from);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
}

/// The path from one side to the relay carries IPv6 packets of up to 1,280 bytes, the minimum that IPv6 guarantees. A
/// relay's header leaves too little of that for a full datagram of a link; the relay's port 443 is used then.
fn narrow(tag: &str, narrow: &str) {
    let Some(mut network) = Network::new(tag) else { return };
    let place = FetchSetup::new(SIZE, 9);
    let store = |who: &str| place.dir.path().join(who);
    for (machine, v4, v6) in
        [("relay", 1, "2001:db8::1"), ("a", 2, "2001:db8::2"), ("b", 3, "2001:db8::3")]
    {
        network.open(machine, &format!("20.{v4}.0.1"));
        let only = format!("ip -4 addr flush dev eth && ip addr add {v6}/32 dev eth nodad");
        if !network.sh(machine, &only) {
            return common::skipped("no IPv6");
        }
    }
    // No datagram passes directly between the two.
    for (machine, other) in [("a", "2001:db8::3"), ("b", "2001:db8::2")] {
        let drops = format!(
            "nft 'add table ip6 t; add chain ip6 t in {{ type filter hook input priority 0; }}; add rule ip6 t in ip6 saddr {other} drop'"
        );
        assert!(network.sh(machine, &drops));
    }
    assert!(network.sh(narrow, "ip link set eth mtu 1280"));
    let mut command = network.on("relay", &store("relay"));
    command.args(["relay", "--listen=xylem://[::]:7348", "--listen=xylem+wss://[::]:443"]);
    let relay = Get::of(command);
    let told = relay.event("relaying", |_| true);
    let uri = told["uris"][0].as_str().expect("text").to_owned();
    assert!(uri.ends_with("@[2001:db8::1]:7348"), "{told}");
    let (share, ticket) = share(network.on("a", &store("a")), &place, &[format!("--relay={uri}")]);
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &[]);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    assert_eq!(b.done()["ways"][0]["way"], "relayed");
    let over_tcp =
        |of: &Get| of.event("relay", |told| told["registered"] == true)["over_tcp"] == true;
    assert_eq!([over_tcp(&share), over_tcp(&b)], [narrow == "a", narrow == "b"]);
}

#[test]
fn a_getter_on_narrow_paths_reaches_relays_by_tls() {
    narrow("narrowget", "b");
}

#[test]
fn a_sharer_on_narrow_paths_reaches_relays_by_tls() {
    narrow("narrowshare", "a");
}

/// Many tunnels carry packets of at most 1,280 bytes: over IPv4 that is enough for every registration over UDP.
#[test]
fn ways_of_1280_bytes_lead_to_the_relay_over_udp() {
    let Some(mut network) = Network::new("mtu") else { return };
    let place = FetchSetup::new(1_000, 12);
    let store = |who: &str| place.dir.path().join(who);
    network.open("relay", "20.1.0.1");
    network.open("a", "20.2.0.1");
    // Longer packets are lost silently, as behind most tunnels.
    assert!(network.sh("a", "nft 'add table ip t; add chain ip t out { type filter hook output priority 0; }; add rule ip t out ip daddr 20.1.0.1 meta l4proto udp meta length > 1280 drop'"));
    let (_relay, relays) = network.relay("relay", &store("relay"));
    // Each run draws its lengths anew.
    for i in 0..8 {
        let (share, _) = share(network.on("a", &store(&format!("a{i}"))), &place, &relays);
        let told = share.event("relay", |told| told["registered"] == true);
        assert_eq!(told["over_tcp"], false, "{told}");
    }
}

/// The relay is killed during a fetch that has no other way, and started again: the fetch goes on. Then the relay ends
/// in order and is started again, and its sharer registers before any getter asks.
#[test]
fn a_relay_that_starts_anew_costs_no_fetch() {
    let Some(mut network) = Network::new("anew") else { return };
    let place = FetchSetup::new(SIZE, 13);
    let store = |who: &str| place.dir.path().join(who);
    network.open("relay", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::Symmetric);
    network.home("b", "20.3.0.1", Nat::Symmetric);
    let (mut relay, relays) = network.relay("relay", &store("relay"));
    let (share, ticket) = share(network.on("a", &store("a")), &place, &relays);
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &LIMIT);
    b.has_fetched(500_000);
    relay.kill();
    drop(relay);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (mut relay, _) = network.relay("relay", &store("relay"));
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    assert_eq!(b.done()["ways"][0]["way"], "relayed");
    // The ending relay notifies its clients.
    assert!(
        Command::new("kill")
            .args(["-INT", &relay.child.id().to_string()])
            .status()
            .expect("kill runs")
            .success()
    );
    assert_eq!(relay.wait(), Some(0));
    drop(relay);
    let (_relay, _) = network.relay("relay", &store("relay"));
    let mut c = get(network.on("b", &store("c")), &ticket, &place.out("c"), &[]);
    assert_eq!(c.wait(), Some(0));
    place.is_right("c");
    drop(share);
}

/// Two getters of one share, behind NATs that let no stranger in, know no relay. The share introduces them, and the
/// content between them takes its own way.
#[test]
fn getters_behind_nats_meet_through_the_share() {
    let Some(mut network) = Network::new("meet") else { return };
    let place = FetchSetup::new(SIZE, 3);
    let store = |who: &str| place.dir.path().join(who);
    network.open("share", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::Cone);
    network.home("b", "20.3.0.1", Nat::Cone);
    let (_share, ticket) = share(network.on("share", &store("share")), &place, &[]);
    // A has all of the content, and serves it.
    let a = get(network.on("a", &store("a")), &ticket, &place.out("a"), &["--seed"]);
    a.done();
    network.count("share", "20.2.0.1");
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &LIMIT);
    let met = b.event("peer_connected", |told| {
        told["peer"].as_str().is_some_and(|peer| peer.starts_with("20.2.0.1:"))
    });
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    let done = b.done();
    let came = from(&done, met["peer"].as_str().expect("text"));
    // Only messages about addresses pass through the share.
    let passed = network.counted("share");
    assert!(came >= 200_000 && passed < 100_000, "{came} bytes, {passed} by the share: {done}");
}

/// Two symmetric NATs can't reach each other directly. The share, which introduces the getters, is asked for all
/// content itself; it forwards nothing but messages about addresses.
#[test]
fn the_share_forwards_no_content_between_getters() {
    let Some(mut network) = Network::new("apart") else { return };
    let place = FetchSetup::new(SIZE, 10);
    let store = |who: &str| place.dir.path().join(who);
    network.open("share", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::Symmetric);
    network.home("b", "20.3.0.1", Nat::Symmetric);
    let (_share, ticket) = share(network.on("share", &store("share")), &place, &[]);
    let a = get(network.on("a", &store("a")), &ticket, &place.out("a"), &["--seed"]);
    a.done();
    network.count("share", "20.2.0.1");
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &LIMIT);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    let done = b.done();
    let peers: Vec<_> = done["peers"].as_array().expect("a list").iter().collect();
    assert!(peers.iter().all(|peer| peer["peer"] == "20.1.0.1:7348"), "{done}");
    let passed = network.counted("share");
    assert!(passed < 100_000, "{passed} bytes of the seed");
}

/// With `--from` no other peer and no relay is asked, not even the ticket's.
#[test]
fn with_from_no_relay_is_asked() {
    let Some(mut network) = Network::new("named") else { return };
    let place = FetchSetup::new(10_000, 11);
    let store = |who: &str| place.dir.path().join(who);
    network.open("relay", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::Cone);
    network.open("b", "20.3.0.1");
    let (_relay, relays) = network.relay("relay", &store("relay"));
    let (_share, ticket) = share(network.on("a", &store("a")), &place, &relays);
    network.count("relay", "20.3.0.1");
    let from = ["--from", "20.2.0.1:7348", "--timeout", "2"];
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &from);
    assert_eq!(b.wait(), Some(3));
    assert_eq!(network.counted("relay"), 0);
    // Without `--from` the relay is asked, and leads to the sharer.
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &[]);
    assert_eq!(b.wait(), Some(0));
    assert!(network.counted("relay") > 0);
}

/// The command of a sharer that asks its router for a port.
fn sharing(network: &Network, store: &Path) -> Command {
    let mut command = network.on("a", store);
    command.env_remove("XYLEM_NO_MAP");
    command
}

/// A mapped port stands in the ticket, and leads through the NAT without a relay.
#[test]
fn a_mapped_port_stands_in_the_ticket() {
    let Some(mut network) = Network::new("mapped") else { return };
    let place = FetchSetup::new(SIZE, 4);
    let store = |who: &str| place.dir.path().join(who);
    network.home("a", "20.2.0.1", Nat::Symmetric);
    network.home("b", "20.3.0.1", Nat::Symmetric);
    let Some(_mapper) = network.maps("a", "20.2.0.1", place.dir.path()) else { return };
    // A ticket does not wait for a slow router, such as one on a busy machine.
    let mut shared = None;
    until("the ticket names the port", || {
        shared = None;
        let (share, ticket) = share(sharing(&network, &store("a")), &place, &[]);
        let named = ticket.parse::<Ticket>().expect("a ticket").addresses;
        shared = Some((share, ticket));
        named.iter().any(|address| address.to_string() == "20.2.0.1:7348")
    });
    let (_share, ticket) = shared.expect("until it is there");
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &[]);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    assert_eq!(b.done()["ways"][0]["peer"], "20.2.0.1:7348");
}

/// The router answers after the ticket was printed. A getter that comes by the relay is sent the mapped port, the only
/// direct way between two symmetric NATs.
#[test]
fn a_port_that_is_mapped_late_is_sent_to_peers() {
    let Some(mut network) = Network::new("late") else { return };
    let place = FetchSetup::new(SIZE, 5);
    let store = |who: &str| place.dir.path().join(who);
    network.open("relay", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::Symmetric);
    network.home("b", "20.3.0.1", Nat::Symmetric);
    let Some(mapper) = network.maps("a", "20.2.0.1", place.dir.path()) else { return };
    let (_relay, relays) = network.relay("relay", &store("relay"));
    mapper.rest(true);
    let (share, ticket) = share(sharing(&network, &store("a")), &place, &relays);
    mapper.rest(false);
    share.event("mapped", |told| told["address"] == "20.2.0.1:7348");
    let named = ticket.parse::<Ticket>().expect("a ticket").addresses;
    assert!(named.iter().all(|address| address.to_string() != "20.2.0.1:7348"));
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &LIMIT);
    b.event("moved", |told| told["to"] == "20.2.0.1:7348");
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
}

/// The sender has the receiver's card alone. Neither can be reached except through the relay that the card names.
#[test]
fn mail_between_two_nats_needs_a_card_and_nothing_else() {
    let Some(mut network) = Network::new("mail") else { return };
    let place = FetchSetup::new(SIZE, 6);
    let store = |who: &str| place.dir.path().join(who);
    network.open("relay", "20.1.0.1");
    network.home("a", "20.2.0.1", Nat::Cone);
    network.home("b", "20.3.0.1", Nat::Cone);
    let (_relay, relays) = network.relay("relay", &store("relay"));
    let at_b = |arguments: &[&str], relays: &[String]| {
        let mut command = network.on("b", &store("b"));
        command.args(arguments).args(relays);
        command
    };
    let inbox = Get::of(at_b(&["inbox", "--listen", "7348"], &relays));
    inbox.event("relay", |told| told["registered"] == true);
    let card = Get::of(at_b(&["inbox", "card"], &relays)).event("card", |_| true);
    let card = card["card"].as_str().expect("a card").to_owned();
    let mut command = network.on("a", &store("a"));
    command.arg("send").arg(&place.source).arg(card);
    let mut send = Get::of(command);
    let number = inbox.event("mail", |_| true)["number"].to_string();
    send.event("mail_delivered", |told| told["direct"] == true);
    let out = place.out("b");
    let mut accept = Get::of(at_b(&["inbox", "accept", &number, "-o", text(&out)], &[]));
    assert_eq!(accept.wait(), Some(0));
    place.is_right("b");
    // The sender has received the confirmation and ends.
    assert_eq!(send.wait(), Some(0));
}

/// A public server is sent a file from behind a NAT. It fetches the content over the link that the sender opened, with
/// no other address named and no other process running.
#[test]
fn a_server_fetches_what_a_sender_behind_a_nat_sends() {
    for (tag, nat) in [("sent", Nat::Cone), ("sentsym", Nat::Symmetric)] {
        let Some(mut network) = Network::new(tag) else { return };
        let place = FetchSetup::new(SIZE, 14);
        let store = |who: &str| place.dir.path().join(who);
        network.open("b", "20.1.0.1");
        network.home("a", "20.2.0.1", nat);
        let at_b = |arguments: &[&str]| {
            let mut command = network.on("b", &store("b"));
            command.args(arguments);
            command
        };
        let inbox = Get::of(at_b(&["inbox", "--listen", "7400"]));
        inbox.event("listening", |_| true);
        let card = Get::of(at_b(&["inbox", "card", "--announce", "20.1.0.1:7400"]))
            .event("card", |_| true);
        let card = card["card"].as_str().expect("a card").to_owned();
        let mut command = network.on("a", &store("a"));
        command.arg("send").arg(&place.source).arg(card).args(["--to", "20.1.0.1:7400"]);
        let mut send = Get::of(command);
        let number = inbox.event("mail", |_| true)["number"].to_string();
        let out = place.out("b");
        let mut accept = Get::of(at_b(&["inbox", "accept", &number, "-o", text(&out)]));
        assert_eq!(accept.wait(), Some(0));
        place.is_right("b");
        // The sender has received the confirmation and ends.
        assert_eq!(send.wait(), Some(0));
    }
}

/// The link-local address of a machine, once it can be used.
fn link_local(network: &Network, machine: &str) -> Option<String> {
    let list = network.output(machine, "ip -6 -o addr show dev eth scope link -tentative");
    let at = list.split_whitespace().skip_while(|word| *word != "inet6").nth(1);
    at.and_then(|at| at.split('/').next()).map(str::to_owned)
}

/// Two machines on one cable, once each has a link-local address. `None`, with a line, without IPv6.
fn at_one_cable(tag: &str) -> Option<Network> {
    if !Path::new("/proc/sys/net/ipv6").exists() {
        common::skipped("no IPv6");
        return None;
    }
    let mut network = Network::new(tag)?;
    network.open("a", "20.2.0.1");
    network.open("b", "20.3.0.1");
    until("both have addresses", || {
        ["a", "b"].iter().all(|machine| link_local(&network, machine).is_some())
    });
    Some(network)
}

/// Two machines on one cable have link-local addresses alone: over IPv6, mDNS leads from one to the other.
#[test]
fn mdns_leads_over_link_local_addresses() {
    let Some(network) = at_one_cable("mdns6") else { return };
    let place = FetchSetup::new(SIZE, 16);
    for machine in ["a", "b"] {
        assert!(network.sh(machine, "ip -4 addr flush dev eth"));
    }
    let lan = |machine: &str| {
        let mut command = network.on(machine, &place.dir.path().join(machine));
        command.env_remove("XYLEM_NO_LAN");
        command
    };
    let (_share, ticket) = share(lan("a"), &place, &[]);
    let mut ticket: Ticket = ticket.parse().expect("a ticket");
    // A stale address in the ticket.
    ticket.addresses = vec!["192.0.2.1:9999".parse().expect("an address")];
    let mut b = get(lan("b"), &ticket.to_string(), &place.out("b"), &[]);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    let peer = b.done()["peers"][0]["peer"].as_str().expect("text").to_owned();
    assert!(peer.contains("fe80:"), "{peer}");
}

/// Two machines on one cable have link-local addresses alone. The ticket has no interface, as those of the getter are
/// others; nothing is asked of the LAN.
#[test]
fn a_ticket_leads_over_link_local_addresses() {
    let Some(network) = at_one_cable("ticket6") else { return };
    let place = FetchSetup::new(SIZE, 17);
    for machine in ["a", "b"] {
        assert!(network.sh(machine, "ip -4 addr flush dev eth"));
    }
    let on = |machine: &str| network.on(machine, &place.dir.path().join(machine));
    let (_share, ticket) = share(on("a"), &place, &[]);
    let named = ticket.parse::<Ticket>().expect("a ticket").addresses;
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    assert!(named.iter().any(|at| at.starts_with("[fe80:")), "{named:?}");
    let mut b = get(on("b"), &ticket, &place.out("b"), &[]);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    let peer = b.done()["peers"][0]["peer"].as_str().expect("text").to_owned();
    assert!(peer.contains("fe80:"), "{peer}");
}

/// Two machines on one cable have link-local addresses alone: given with the interface, they lead there.
#[test]
fn a_link_local_address_leads_over_its_interface() {
    let Some(network) = at_one_cable("zone") else { return };
    let place = FetchSetup::new(SIZE, 15);
    let store = |who: &str| place.dir.path().join(who);
    let local = |machine: &str| link_local(&network, machine);
    let mut command = network.on("a", &store("a"));
    command.args(["share", "--listen", "[::]:7348"]).arg(&place.source);
    let share = Get::of(command);
    let ticket = share.event("shared", |_| true)["ticket"].as_str().expect("a ticket").to_owned();
    let at = format!("[{}%eth]:7348", local("a").expect("an address"));
    let mut b = get(network.on("b", &store("b")), &ticket, &place.out("b"), &["--from", &at]);
    assert_eq!(b.wait(), Some(0));
    place.is_right("b");
    // An interface that does not exist is reported as missing.
    let at = format!("[{}%nosuch]:7348", local("a").expect("an address"));
    let mut c = get(network.on("b", &store("c")), &ticket, &place.out("c"), &["--from", &at]);
    assert_eq!(c.wait(), Some(3));
}

/// Not a check by itself: the name server of a network with NAT64, which the test below runs within a network that has
/// IPv6 alone.
#[test]
#[ignore = "run by the next one, within a namespace"]
fn name_server() {
    let Ok(socket) = std::net::UdpSocket::bind("[::1]:53") else { return };
    let mut question = [0; 512];
    while let Ok((len, from)) = socket.recv_from(&mut question) {
        let asked = &question[..len];
        // One question, of type AAAA or another one. The name's last byte is 0.
        let Some(end) = asked.iter().skip(12).position(|byte| *byte == 0) else { continue };
        let Some(question) = asked.get(12..12 + end + 5) else { continue };
        let known = question.starts_with(b"\x08ipv4only\x04arpa\x00\x00\x1c");
        let mut answer = [&asked[..2], &[0x81, 0x80, 0, 1, 0, known.into(), 0, 0, 0, 0]].concat();
        answer.extend_from_slice(question);
        if known {
            answer.extend_from_slice(&[0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
            answer
                .extend_from_slice(&[0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 0, 170]);
        }
        let _ = socket.send_to(&answer, from);
    }
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Resolver settings of a namespace; removed when dropped.
struct Resolver(std::path::PathBuf);

impl Drop for Resolver {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A network has IPv6 alone, and reaches IPv4 addresses through a NAT64 with a prefix of its own, which the name
/// `ipv4only.arpa` gives. A sharer that a ticket or `--from` names by its IPv4 address is reached.
#[test]
fn a_network_with_ipv6_alone_reaches_ipv4_addresses_through_its_nat64() {
    let Some(mut network) = Network::new("nat64") else { return };
    let place = FetchSetup::new(SIZE, 17);
    let store = |who: &str| place.dir.path().join(who);
    network.open("a", "20.2.0.1");
    network.open("b", "20.3.0.1");
    // The sharer has the IPv6 address that the NAT64 would make of its IPv4 address.
    let a = "ip addr add 2001:db8::a/64 dev eth nodad && ip addr add 64:ff9b::20.2.0.1/128 dev eth nodad";
    let b = "ip -4 addr flush dev eth && ip addr add 2001:db8::b/64 dev eth nodad && \
             ip -6 route add default via 2001:db8::a";
    if !network.sh("a", a) || !network.sh("b", b) {
        return common::skipped("no IPv6");
    }
    let resolver = Resolver(Path::new("/etc/netns").join(network.name("b")));
    if std::fs::create_dir_all(&resolver.0).is_err() {
        return common::skipped("no right to write /etc/netns");
    }
    std::fs::write(resolver.0.join("resolv.conf"), "nameserver ::1\n").expect("it may be written");
    let mut server = Command::new("ip");
    server.args(["netns", "exec", &network.name("b")]);
    server.arg(std::env::current_exe().expect("this program"));
    server.args(["--exact", "homes::name_server", "--ignored", "--quiet"]);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Running(server.spawn().expect("ip runs"));
    until("it answers", || network.output("b", "ss -lun").contains("[::1]:53 "));
    let (_share, ticket) = share(network.on("a", &store("a")), &place, &[]);
    let mut ticket: Ticket = ticket.parse().expect("a ticket");
    ticket.addresses = vec!["20.2.0.1:7348".parse().expect("an address")];
    let mut get_b = get(network.on("b", &store("b")), &ticket.to_string(), &place.out("b"), &[]);
    assert_eq!(get_b.wait(), Some(0));
    place.is_right("b");
    ticket.addresses = vec!["192.0.2.1:9999".parse().expect("an address")];
    let from = ["--from", "20.2.0.1:7348"];
    let mut c = get(network.on("b", &store("c")), &ticket.to_string(), &place.out("c"), &from);
    assert_eq!(c.wait(), Some(0));
    place.is_right("c");
}
