use super::*;
use proptest::prelude::*;

const LAN: &str = "192.168.1.7:7348";
const OWN: &str = "198.51.100.7:7348";
const OWN_V6: &str = "[2001:db8::7]:7348";
/// The two ports of one relay, and another observer.
const ONE: &str = "203.0.113.1:7348";
const TWO: &str = "203.0.113.1:7349";
const OTHER: &str = "203.0.113.2:7348";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn known(own: &[&str], seen: &[(&str, &str)], relay: RelayState) -> ReachEvidence {
    let seen = seen
        .iter()
        .map(|(by, seen)| AddressObservation { observer: at(by), at: at(seen) })
        .collect();
    ReachEvidence {
        own: own.iter().map(|own| at(own)).collect(),
        seen,
        relay,
        ..ReachEvidence::default()
    }
}

fn mapped(known: ReachEvidence, external: &str) -> ReachEvidence {
    ReachEvidence { mapped: Some(external.parse().unwrap()), ..known }
}

/// The text states what is known and no more.
#[test]
fn each_situation_has_its_text() {
    use RelayState::{Asked, Failed, None as Alone, OverTcp, OverUdp};
    let behind = |seen: &[(&str, &str)], relay| known(&[LAN], seen, relay);
    let table = [
        (
            known(&[OWN], &[], Alone),
            NatKind::Unknown,
            "directly at 198.51.100.7:7348, unless a firewall drops UDP",
        ),
        (
            known(&[OWN, LAN], &[(ONE, OWN)], OverUdp),
            NatKind::None,
            "directly at 198.51.100.7:7348, unless a firewall drops UDP, else through the relay",
        ),
        (
            ReachEvidence { reached: true, ..known(&[OWN], &[], Alone) },
            NatKind::Unknown,
            "directly from anywhere at 198.51.100.7:7348",
        ),
        (
            behind(&[], Alone),
            NatKind::Unknown,
            "this LAN only: name a relay (--relay) or forward UDP 7348",
        ),
        (
            behind(&[], Asked),
            NatKind::Unknown,
            "this LAN only, as the relay has not registered this machine: is it on, and is its key right?",
        ),
        (
            behind(&[], Failed),
            NatKind::Unknown,
            "this LAN only, as the relay has not registered this machine: is it on, and is its key right?",
        ),
        (
            behind(&[(ONE, "203.0.113.50:40001")], OverUdp),
            NatKind::Some,
            "behind a NAT, by hole punching, else through the relay",
        ),
        (
            behind(&[(ONE, "203.0.113.50:40001"), (TWO, "203.0.113.50:40001")], OverUdp),
            NatKind::Cone,
            "behind a NAT, by hole punching, else through the relay",
        ),
        (
            behind(&[(ONE, "203.0.113.50:40001"), (TWO, "203.0.113.50:9")], OverUdp),
            NatKind::Symmetric,
            "behind a NAT that gives each peer another port: by hole punching where the other side's does not, \
          else through the relay",
        ),
        (
            behind(&[(ONE, "203.0.113.50:1"), (OTHER, "203.0.113.51:1")], OverUdp),
            NatKind::Symmetric,
            "behind a NAT that gives each peer another port: by hole punching where the other side's does not, \
          else through the relay",
        ),
        (
            behind(&[], OverTcp),
            NatKind::Unknown,
            "through the relay only, as UDP to it gets no answer",
        ),
        (known(&["127.0.0.1:7348"], &[], Alone), NatKind::Unknown, "this machine only"),
        (
            mapped(behind(&[], Alone), "203.0.113.50:7348"),
            NatKind::Unknown,
            "directly by the port that the router maps at 203.0.113.50:7348",
        ),
        // Others see the same router at another port.
        (
            mapped(behind(&[(ONE, "203.0.113.50:40001")], OverUdp), "203.0.113.50:7348"),
            NatKind::Some,
            "directly by the port that the router maps at 203.0.113.50:7348, else through the relay",
        ),
        // Others see another address, so the router is behind a NAT itself.
        (
            mapped(behind(&[(ONE, "203.0.113.99:40001")], OverUdp), "203.0.113.50:7348"),
            NatKind::Some,
            "behind a NAT, by hole punching, else through the relay",
        ),
        (
            mapped(behind(&[], Alone), "100.64.3.1:7348"),
            NatKind::Unknown,
            "this LAN only: name a relay (--relay) or forward UDP 7348",
        ),
        (
            ReachEvidence { announced: true, ..behind(&[], Alone) },
            NatKind::Unknown,
            "as announced, unchecked",
        ),
        (
            ReachEvidence { announced: true, reached: true, ..behind(&[], Alone) },
            NatKind::Unknown,
            "directly, as announced",
        ),
        // Carrier-grade NAT: the interface's address means nothing in other networks.
        (
            known(&["100.72.0.9:7348"], &[], Alone),
            NatKind::Unknown,
            "this LAN only: name a relay (--relay) or forward UDP 7348",
        ),
        // The interface's address looks global but differs from what others see (NAT of a data centre).
        (
            known(&[OWN], &[(ONE, "203.0.113.50:7348")], OverUdp),
            NatKind::Some,
            "behind a NAT, by hole punching, else through the relay",
        ),
        (
            known(&[LAN, OWN_V6], &[], Alone),
            NatKind::Unknown,
            "directly at [2001:db8::7]:7348, unless a firewall drops UDP; over IPv4: this LAN only: name a relay \
          (--relay) or forward UDP 7348",
        ),
        (
            known(&[LAN, OWN_V6], &[(ONE, "203.0.113.50:1")], OverUdp),
            NatKind::Some,
            "directly at [2001:db8::7]:7348, unless a firewall drops UDP, else through the relay; over IPv4: behind a NAT, \
          by hole punching, else through the relay",
        ),
        (
            known(&[OWN_V6], &[], Alone),
            NatKind::Unknown,
            "directly at [2001:db8::7]:7348, unless a firewall drops UDP",
        ),
        // An observer on the same LAN sees the address that all see there.
        (
            behind(&[("192.168.1.9:7348", LAN)], Alone),
            NatKind::Unknown,
            "this LAN only: name a relay (--relay) or forward UDP 7348",
        ),
    ];
    for (known, nat, says) in table {
        let reach = judge(&known);
        assert_eq!((reach.to_string().as_str(), reach.nat), (says, nat), "{known:?}");
    }
}

#[test]
fn a_router_behind_another_is_noticed() {
    let behind = known(&[LAN], &[(ONE, "203.0.113.99:40001")], RelayState::OverUdp);
    assert!(judge(&mapped(behind.clone(), "203.0.113.50:7348")).second_nat);
    assert!(judge(&mapped(behind.clone(), "10.0.0.5:7348")).second_nat);
    assert!(!judge(&mapped(behind.clone(), "203.0.113.99:7348")).second_nat);
    assert!(!judge(&behind).second_nat);
}

fn any_ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<IpAddr>(),
        (0..4u8).prop_map(|n| IpAddr::from([198, 51, 100, n])),
        (0..4u8).prop_map(|n| IpAddr::from([192, 168, 1, n])),
    ]
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    (any_ip(), prop_oneof![Just(7348u16), any::<u16>()]).prop_map(SocketAddr::from)
}

prop_compose! {
    fn any_known()(
        own in prop::collection::vec(any_address(), 0..6),
        seen in prop::collection::vec((any_address(), any_address()), 0..6),
        mapped in prop::option::of((any::<Ipv4Addr>(), any::<u16>())),
        relay in prop::sample::select(&[
            RelayState::None, RelayState::Asked, RelayState::OverUdp, RelayState::OverTcp, RelayState::Failed,
        ][..]),
        (announced, reached) in any::<(bool, bool)>(),
    ) -> ReachEvidence {
        let seen = seen.into_iter().map(|(by, at)| AddressObservation { observer: by, at }).collect();
        let mapped = mapped.map(|(ip, port)| SocketAddrV4::new(ip, port));
        ReachEvidence { own, seen, mapped, relay, announced, reached }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No way is reported without evidence for it.
    #[test]
    fn no_way_is_reported_without_evidence(known in any_known()) {
        let reach = judge(&known);
        let has_relay = matches!(known.relay, RelayState::OverUdp | RelayState::OverTcp);
        let says = reach.to_string();
        prop_assert!(!says.contains('\n') && !says.is_empty());
        prop_assert_eq!(reach.relay, has_relay);
        prop_assert!(known.reached || !says.contains("from anywhere"));
        prop_assert!(has_relay || !says.contains("through the relay"));
        match reach.way {
            ReachWay::Direct => {
                let at = reach.at.unwrap();
                prop_assert!(known.own.contains(&at) && is_global(at.ip()));
                // Each observer outside sees one of the node's own addresses; one observation of each counts.
                let of_family = |seen: &&AddressObservation| seen.at.is_ipv4() == at.is_ipv4() && is_global(seen.at.ip());
                let twice = |seen: &AddressObservation| known.seen.iter().filter(|other| other.observer == seen.observer).count() > 1;
                let all = known.seen.iter().filter(of_family).all(|seen| known.own.contains(&seen.at));
                prop_assert!(all || known.seen.iter().any(twice));
            }
            ReachWay::Mapped => prop_assert_eq!(reach.at, known.mapped.map(SocketAddr::V4)),
            ReachWay::Announced => prop_assert!(known.announced),
            ReachWay::Relayed => prop_assert_eq!(known.relay, RelayState::OverTcp),
            ReachWay::Punched | ReachWay::PunchedOrRelayed => prop_assert_eq!(known.relay, RelayState::OverUdp),
            ReachWay::Lan | ReachWay::Here => prop_assert!(!has_relay && !known.announced),
        }
    }

    /// The order of observations does not matter, and another relay never makes the result worse.
    #[test]
    fn the_result_does_not_depend_on_the_order(known in any_known(), by in 0usize..6) {
        let mut turned = known.clone();
        if !turned.seen.is_empty() {
            let by = by % turned.seen.len();
            turned.seen.rotate_left(by);
        }
        let without_twins = known.seen.iter().all(|a| known.seen.iter().filter(|b| b.observer == a.observer).count() == 1);
        if without_twins {
            prop_assert_eq!(judge(&turned).nat, judge(&known).nat);
            prop_assert_eq!(judge(&turned).way, judge(&known).way);
        }
        let more = ReachEvidence { relay: RelayState::OverUdp, ..known.clone() };
        prop_assert!(known.relay == RelayState::OverTcp || judge(&more).way >= judge(&known).way);
    }
}
