use super::*;

const S: Duration = Duration::from_secs(1);

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A host at 10.0.0.2 behind a NAT at 1.1.1.1, and hosts at 5.5.5.5 and 6.6.6.6 without NATs.
fn behind(behaviour: NatBehaviour) -> (Internet, Realm) {
    let mut net = Internet::default();
    let inside = net.add_nat(Realm::PUBLIC, ip("1.1.1.1"), behaviour, 7);
    net.add_host(inside, ip("10.0.0.2"));
    net.add_host(Realm::PUBLIC, ip("5.5.5.5"));
    net.add_host(Realm::PUBLIC, ip("6.6.6.6"));
    (net, inside)
}

/// Sends from the host behind the NAT. Returns the source address that the receiver sees.
fn out(net: &mut Internet, inside: Realm, now: Duration, to: &str) -> SocketAddr {
    net.send(now, inside, at("10.0.0.2:7"), at(to)).unwrap().from
}

fn comes_in(net: &mut Internet, now: Duration, from: &str, to: SocketAddr) -> bool {
    let arrival = net.send(now, Realm::PUBLIC, at(from), to);
    assert!(arrival.is_none_or(|a| a.to == at("10.0.0.2:7") && a.from == at(from)));
    arrival.is_some()
}

#[test]
fn each_behaviour_filters_as_documented() {
    for (behaviour, other_port, other_host) in [
        (NatBehaviour::FULL_CONE, true, true),
        (NatBehaviour::ADDRESS_RESTRICTED, true, false),
        (NatBehaviour::PORT_RESTRICTED, false, false),
        (NatBehaviour::SYMMETRIC, false, false),
    ] {
        let (mut net, inside) = behind(behaviour);
        assert!(!comes_in(&mut net, S, "5.5.5.5:1", at("1.1.1.1:5000")), "nothing was opened");
        let seen = out(&mut net, inside, S, "5.5.5.5:1");
        assert!(seen.ip() == ip("1.1.1.1") && seen == out(&mut net, inside, S, "5.5.5.5:1"));
        assert!(comes_in(&mut net, S, "5.5.5.5:1", seen), "{behaviour:?}");
        assert_eq!(comes_in(&mut net, S, "5.5.5.5:2", seen), other_port, "{behaviour:?}");
        assert_eq!(comes_in(&mut net, S, "6.6.6.6:1", seen), other_host, "{behaviour:?}");
        let elsewhere = out(&mut net, inside, S, "6.6.6.6:1");
        assert_eq!(elsewhere == seen, behaviour.mapping == MappingBehaviour::Independent);
    }
}

#[test]
fn mappings_end_by_timeout_and_reboot() {
    let (mut net, inside) =
        behind(NatBehaviour { timeout: 30 * S, ..NatBehaviour::PORT_RESTRICTED });
    let seen = out(&mut net, inside, S, "5.5.5.5:1");
    assert!(comes_in(&mut net, 30 * S, "5.5.5.5:1", seen));
    assert!(!comes_in(&mut net, 31 * S, "5.5.5.5:1", seen), "what comes in keeps nothing open");
    let again = out(&mut net, inside, 40 * S, "5.5.5.5:1");
    assert_ne!(again, seen);
    net.reboot(inside);
    assert!(!comes_in(&mut net, 41 * S, "5.5.5.5:1", again));
    assert_ne!(out(&mut net, inside, 41 * S, "5.5.5.5:1"), again);
}

#[test]
fn nested_nats_translate_twice() {
    let mut net = Internet::default();
    let outer = net.add_nat(Realm::PUBLIC, ip("1.1.1.1"), NatBehaviour::FULL_CONE, 1);
    let inner = net.add_nat(outer, ip("100.64.0.9"), NatBehaviour::PORT_RESTRICTED, 2);
    net.add_host(inner, ip("10.0.0.2"));
    net.add_host(Realm::PUBLIC, ip("5.5.5.5"));
    let seen = out(&mut net, inner, S, "5.5.5.5:1");
    assert_eq!(seen.ip(), ip("1.1.1.1"));
    assert!(comes_in(&mut net, S, "5.5.5.5:1", seen));
    assert!(!comes_in(&mut net, S, "5.5.5.5:2", seen), "the inner one");
}

#[test]
fn neighbours_connect_directly_and_by_hairpin() {
    for hairpin in [false, true] {
        let (mut net, inside) = behind(NatBehaviour { hairpin, ..NatBehaviour::FULL_CONE });
        net.add_host(inside, ip("10.0.0.3"));
        let local = net.send(S, inside, at("10.0.0.3:9"), at("10.0.0.2:7")).unwrap();
        assert_eq!(
            (local.from, local.to, local.realm),
            (at("10.0.0.3:9"), at("10.0.0.2:7"), inside)
        );
        let seen = out(&mut net, inside, S, "5.5.5.5:1");
        let around = net.send(S, inside, at("10.0.0.3:9"), seen);
        assert_eq!(around.is_some(), hairpin);
        assert!(around.is_none_or(|a| a.from.ip() == ip("1.1.1.1") && a.to == at("10.0.0.2:7")));
    }
}
