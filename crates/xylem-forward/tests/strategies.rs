//! Tests of the strategies best-route, multicast, ASF, random and access, and of the choice between them.

mod common;

use common::{What, World, data, interest, nacked, name};
use xylem_forward::{
    AsfParameters, DropReason, FaceId, FaceScope, FaceSettings, ForwardingStrategy, LinkType,
    RetxSuppression, RouteError,
};
use xylem_packet::NackReason;

fn with(strategy: ForwardingStrategy) -> (World, FaceId, FaceId, FaceId) {
    let mut w = World::new(|_| ());
    let faces = (w.local(), w.remote(), w.remote());
    w.route("/", faces.1, 1);
    w.route("/", faces.2, 2);
    w.forwarder.set_strategy(name("/").as_ref(), strategy).unwrap();
    (w, faces.0, faces.1, faces.2)
}

#[test]
fn the_longest_prefix_chooses_the_strategy() {
    let (mut w, app, a, b) = with(ForwardingStrategy::BEST_ROUTE);
    w.forwarder.set_strategy(name("/all").as_ref(), ForwardingStrategy::MULTICAST).unwrap();
    w.forwarder
        .set_strategy(name("/all/one").as_ref(), ForwardingStrategy::Asf(AsfParameters::default()))
        .unwrap();
    assert_eq!(w.to(app, &interest("/x", 1)), [a]);
    assert_eq!(w.to(app, &interest("/all/x", 2)), [a, b]);
    assert_eq!(w.to(app, &interest("/all/one/x", 3)), [a]);
    let mut choices = Vec::new();
    w.forwarder.for_each_strategy(&mut |prefix, s| choices.push((prefix.to_string(), s)));
    choices.sort_by_key(|(prefix, _)| prefix.len());
    let expected = [("/", ForwardingStrategy::BEST_ROUTE), ("/all", ForwardingStrategy::MULTICAST)];
    assert!(choices.iter().zip(expected).all(|((name, s), e)| (name.as_str(), *s) == e));
    assert_eq!(
        choices[2..],
        [("/all/one".to_owned(), ForwardingStrategy::Asf(AsfParameters::default()))]
    );
    assert!(w.forwarder.unset_strategy(name("/all").as_ref()));
    assert!(!w.forwarder.unset_strategy(name("/all").as_ref()));
    assert_eq!(w.to(app, &interest("/all/y", 4)), [a]);
    let long = name(&"/x".repeat(64));
    let refused =
        w.forwarder.set_strategy(long.as_ref(), ForwardingStrategy::Asf(AsfParameters::default()));
    assert_eq!(refused, Err(RouteError::PrefixTooLong));
    let mut routes = Vec::new();
    w.forwarder.for_each_route(&mut |prefix, hops| routes.push((prefix.to_string(), hops.len())));
    assert_eq!(routes, [("/".to_string(), 2)]);
}

#[test]
fn best_route_suppresses_and_then_takes_the_next_way() {
    let (mut w, app, a, b) = with(ForwardingStrategy::BEST_ROUTE);
    let other = w.local();
    assert_eq!(w.to(app, &interest("/x", 1)), [a]);
    w.pass(9);
    assert_eq!(w.to(app, &interest("/x", 2)), []);
    assert_eq!(w.to(other, &interest("/x", 3)), []);
    w.pass(1);
    assert_eq!(w.to(app, &interest("/x", 4)), [b], "10 ms after the last one that was sent");
    w.pass(19);
    assert_eq!(w.to(other, &interest("/x", 5)), []);
    w.pass(1);
    assert_eq!(w.to(other, &interest("/x", 6)), [a], "20 ms, whoever asks");
    // 40, 80, 160, and never more than 250.
    for wait in [40, 80, 160, 250, 250] {
        w.pass(wait - 1);
        assert_eq!(w.to(app, &interest("/x", 1000 + wait as u32)), []);
        w.pass(1);
        assert_eq!(w.to(app, &interest("/x", 2000 + w.now.as_millis() as u32)).len(), 1);
    }
    let totals = w.forwarder.totals();
    assert_eq!((totals.suppressed, totals.aggregated), (6, 2));
    // All faces that asked are answered, once.
    assert_eq!(w.to(a, &data("/x")), [app, other]);
    assert_eq!(w.dropped(b, &data("/x")).0, DropReason::Unsolicited);
}

#[test]
fn multicast_asks_all_and_suppresses_each_by_itself() {
    let (mut w, app, a, b) = with(ForwardingStrategy::MULTICAST);
    assert_eq!(w.to(app, &interest("/x", 1)), [a, b]);
    assert_eq!(w.to(app, &interest("/x", 2)), []);
    let c = w.remote();
    w.route("/", c, 3);
    assert_eq!(w.to(app, &interest("/x", 3)), [c]);
    w.pass(10);
    assert_eq!(w.to(app, &interest("/x", 4)), [a, b, c]);
    w.pass(10);
    assert_eq!(w.to(app, &interest("/x", 5)), []);
    // A Nack of one next hop is not passed on; the answer of one is.
    assert_eq!(w.to(a, nacked(&interest("/x", 4), NackReason::NO_ROUTE)), []);
    assert_eq!(w.to(b, &data("/x")), [app]);
    assert_eq!(w.dropped(c, &data("/x")).0, DropReason::Unsolicited);
    // Never back to the asking face. If there is no other, the Interest is refused.
    assert_eq!(w.to(a, &interest("/y", 6)), [b, c]);
    w.forwarder.remove_face(b);
    w.forwarder.remove_face(c);
    assert_eq!(w.dropped(a, &interest("/z", 7)).0, DropReason::NoRoute);
}

#[test]
fn suppression_follows_its_parameters() {
    let how = RetxSuppression {
        initial_ms: Some(40),
        max_ms: Some(90),
        multiplier_thousandths: Some(1_500),
    };
    let asf = AsfParameters { suppression: how, ..AsfParameters::default() };
    for strategy in [
        ForwardingStrategy::BestRoute(how),
        ForwardingStrategy::Multicast(how),
        ForwardingStrategy::Random(how),
        ForwardingStrategy::Asf(asf),
    ] {
        let (mut w, app, ..) = with(strategy);
        assert!(!w.to(app, &interest("/x", 1)).is_empty(), "{strategy}");
        // 40 ms, then 60, then 90 and never more.
        for (n, ms) in [(2, 40), (4, 60), (6, 90), (8, 90)] {
            w.pass(ms - 1);
            assert_eq!(w.to(app, &interest("/x", n)), [], "{strategy}: {ms}");
            w.pass(1);
            assert!(!w.to(app, &interest("/x", n + 1)).is_empty(), "{strategy}: {ms}");
        }
    }
}

/// Sends one Interest, which the first face asked answers after `ms`. Returns the faces that were asked.
fn asked(w: &mut World, app: FaceId, n: u32, ms: impl Fn(FaceId) -> u64) -> Vec<FaceId> {
    let uri = format!("/x/seg={n}");
    let to = w.to(app, &interest(&uri, n));
    let mut waiting = to.clone();
    waiting.sort_by_key(|face| ms(*face));
    let start = w.now;
    for face in waiting {
        let due = start + std::time::Duration::from_millis(ms(face));
        w.pass((due - w.now).as_millis() as u64);
        // The entry may have ended before a second answer.
        let _ = w.raw(face, &data(&uri));
    }
    w.pass(1000);
    to
}

#[test]
fn asf_learns_which_next_hop_is_faster() {
    let (mut w, app, a, b) = with(ForwardingStrategy::Asf(AsfParameters::default()));
    let rtt = |face: FaceId| if face == a { 80 } else { 20 };
    assert_eq!(asked(&mut w, app, 0, rtt), [a], "the cheapest, as long as nothing is known");
    // Within five seconds the other next hop is probed, with a nonce of its own.
    let probed = (1..10).map(|n| asked(&mut w, app, n, rtt)).find(|to| to.len() == 2);
    assert_eq!(probed.map(|mut to| (to.sort(), to).1), Some(vec![a, b]));
    for n in 20..40 {
        assert_eq!(asked(&mut w, app, n, rtt), [b], "the faster one");
    }
    // After a minute the slower one is probed again, once.
    let probes = (40..110).filter(|n| asked(&mut w, app, *n, rtt).contains(&a)).count();
    assert_eq!(probes, 1);
    // It becomes the faster one, which is noticed after a while.
    let now_slow = |face: FaceId| if face == b { 300 } else { 20 };
    let taken: Vec<_> = (200..300).map(|n| asked(&mut w, app, n, now_slow)[0]).collect();
    assert_eq!(taken.last(), Some(&a));
    w.pass(10_000);
    assert_eq!(w.forwarder.pit_len(), 0);
}

#[test]
fn asf_leaves_a_silent_or_refusing_next_hop() {
    let (mut w, app, a, b) = with(ForwardingStrategy::Asf(AsfParameters::default()));
    for n in 0..3 {
        assert_eq!(w.to(app, &interest(&format!("/x/{n}"), n))[0], a);
        w.pass(5000);
    }
    assert_eq!(w.to(app, &interest("/x/3", 3))[0], b, "three in a row without an answer");
    let (mut w, app, a, b) = with(ForwardingStrategy::Asf(AsfParameters::default()));
    w.to(app, &interest("/x/1", 1));
    let sent = w.ok(a, nacked(&interest("/x/1", 1), NackReason::CONGESTION));
    assert!(sent.iter().all(|sent| sent.what == What::Nack(NackReason::CONGESTION)));
    w.pass(5000);
    assert_eq!(w.to(app, &interest("/x/2", 2))[0], b);
}

#[test]
fn asf_uses_its_parameters() {
    let how = AsfParameters {
        probing_interval: Some(2_000),
        max_timeouts: Some(1),
        ..AsfParameters::default()
    };
    let (mut w, app, a, b) = with(ForwardingStrategy::Asf(how));
    let rtt = |face: FaceId| if face == a { 80 } else { 20 };
    // With one Interest a second, every second or third of forty is probed.
    let probes = (0..40).filter(|n| asked(&mut w, app, *n, rtt).len() == 2).count();
    assert!((13..=20).contains(&probes), "{probes} probes");
    // One missing answer is enough.
    assert_eq!(w.to(app, &interest("/x/silent", 100))[0], b);
    w.pass(5000);
    assert_eq!(w.to(app, &interest("/x/next", 101))[0], a);
}

#[test]
fn random_uses_all_next_hops_equally() {
    let (mut w, app, a, b) = with(ForwardingStrategy::RANDOM);
    let mut taken = [0; 2];
    for n in 0..1000 {
        let to = w.to(app, &interest(&format!("/x/{n}"), n));
        assert_eq!(to.len(), 1);
        taken[usize::from(to[0] == b)] += 1;
        w.to(to[0], &data(&format!("/x/{n}")));
    }
    assert!(taken.iter().all(|times| (430..570).contains(times)), "{taken:?}");
    // Never back to the asking face. If there is no other, there is no route.
    assert_eq!(w.to(a, &interest("/y", 5000)), [b]);
    w.forwarder.remove_face(b);
    assert_eq!(w.dropped(a, &interest("/z", 5001)).0, DropReason::NoRoute);
    assert_eq!(w.to(app, &interest("/w", 5002)), [a]);
    assert_eq!(w.to(app, &interest("/w", 5003)), [], "a moment ago");
}

#[test]
fn access_stays_with_the_answering_next_hop() {
    let (mut w, app, a, b) = with(ForwardingStrategy::Access);
    let only_b = |w: &mut World, n: u32| {
        let uri = format!("/x/{n}");
        let to = w.to(app, &interest(&uri, n));
        w.pass(20);
        if to.contains(&b) {
            let _ = w.raw(b, &data(&uri));
        }
        w.pass(5000);
        to
    };
    assert_eq!(only_b(&mut w, 0), [a, b], "nobody is known");
    for n in 1..5 {
        assert_eq!(only_b(&mut w, n), [b]);
    }
    // For a retransmission the other next hops are asked too.
    assert_eq!(w.to(app, &interest("/y", 100)), [b]);
    w.pass(10);
    assert_eq!(w.to(app, &interest("/y", 101)), [a, b]);
    assert_eq!(w.to(a, &data("/y")), [app]);
    w.pass(5000);
    // The next hop that answered is asked. Once it does not answer, all are.
    assert_eq!(w.to(app, &interest("/z", 102)), [a]);
    w.pass(5000);
    assert_eq!(only_b(&mut w, 103), [a, b]);
    assert_eq!(only_b(&mut w, 104), [b]);
}

#[test]
fn shared_links_have_no_nacks() {
    let mut w = World::new(|_| {});
    let settings = |link_type| FaceSettings { link_type, ..FaceScope::NonLocal.into() };
    let group = w.forwarder.add_face(settings(LinkType::MultiAccess));
    let radio = w.forwarder.add_face(settings(LinkType::AdHoc));
    let app = w.local();
    w.route("/radio", radio, 0);
    w.route("/group", group, 0);
    // No Nacks are sent to several neighbours, and none is accepted from one of them.
    assert_eq!(w.dropped(group, &interest("/x", 1)), (DropReason::NoRoute, vec![]));
    w.ok(app, &interest("/group/x", 2));
    assert_eq!(w.dropped(group, &interest("/group/x", 2)), (DropReason::Loop, vec![]));
    let refused = nacked(&interest("/group/x", 2), NackReason::NO_ROUTE);
    assert_eq!(w.dropped(group, refused), (DropReason::Unsolicited, vec![]));
    assert_eq!(w.to(group, &data("/group/x")), [app]);
    // On a radio, not all neighbours receive from each other: an Interest leaves over the face it arrived on, and so
    // does the answer.
    assert_eq!(w.to(radio, &interest("/radio/x", 3)), [radio]);
    assert_eq!(w.to(radio, &data("/radio/x")), [radio]);
    assert_eq!(w.dropped(group, &interest("/group/y", 4)).0, DropReason::NoRoute);
}
