//! Tests of Interests.

mod common;

use std::num::NonZeroU8;

use bytes::Bytes;
use common::{What, World, data, interest, interest_with, link, nacked, name, with_token};
use xylem_forward::{DropReason, FaceId, RouteError};
use xylem_packet::{InterestBuilder, LpPacket, NackReason};

#[test]
fn the_cheapest_route_of_the_longest_prefix() {
    let mut w = World::new(|_| {});
    let (app, a, b, c) = (w.local(), w.remote(), w.remote(), w.remote());
    w.route("/", a, 0);
    w.route("/x", b, 20);
    w.route("/x", c, 10);
    assert_eq!(w.to(app, &interest("/x/1", 1)), [c]);
    assert_eq!(w.to(app, &interest("/y/1", 2)), [a]);
    w.route("/x", b, 5);
    assert_eq!(w.to(app, &interest("/x/2", 3)), [b]);
    assert!(w.forwarder.remove_route(name("/x").as_ref(), b));
    assert_eq!(w.to(app, &interest("/x/3", 4)), [c]);
    // Never back to the face that it came from.
    assert_eq!(w.dropped(c, &interest("/x/4", 5)).0, DropReason::NoRoute);
    w.forwarder.remove_face(c);
    assert_eq!(w.to(app, &interest("/x/5", 6)), [a]);
    assert_eq!(w.raw(c, &interest("/x/6", 7)).0, Err(DropReason::NoSuchFace));
}

#[test]
fn an_interest_leaves_as_it_came() {
    let mut w = World::new(|_| {});
    let (app, up) = (w.local(), w.remote());
    w.route("/", up, 0);
    let packet = interest("/x", 1);
    let (_, out) = w.raw(app, &packet);
    assert_eq!((out.len(), out[0].to, out[0].at), (1, up, packet.as_ptr()), "no copy");
    assert_eq!((&out[0].packet[..], out[0].incoming_face), (&packet[..], Some(app)));
}

#[test]
fn without_a_route_an_interest_is_refused() {
    let mut w = World::new(|_| {});
    let app = w.local();
    let packet = interest("/x/1", 7);
    let (reason, sent) = w.dropped(app, with_token(&packet, &[1, 2]));
    assert_eq!(reason, DropReason::NoRoute);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].to, sent[0].what), (app, What::Nack(NackReason::NO_ROUTE)));
    assert_eq!((sent[0].nonce, sent[0].token.as_deref()), (Some(7), Some(&[1, 2][..])));
    assert_eq!(w.forwarder.pit_len(), 0);
    assert_eq!(w.forwarder.totals().no_route, 1);
}

#[test]
fn equal_interests_of_other_faces_are_aggregated() {
    let mut w = World::new(|_| {});
    let (a, b, up) = (w.local(), w.remote(), w.remote());
    w.route("/", up, 0);
    assert_eq!(w.to(a, &interest("/x", 1)), [up]);
    assert_eq!(w.to(b, &interest("/x", 2)), []);
    assert_eq!(w.forwarder.totals().aggregated, 1);
    // Other flags make it another request.
    assert_eq!(w.to(b, &interest_with("/x", 3, |i| i.can_be_prefix(true))), [up]);
    assert_eq!(w.to(b, &interest_with("/x", 4, |i| i.must_be_fresh(true))), [up]);
    assert_eq!(w.forwarder.pit_len(), 3);
    // One Data answers all three.
    let mut to = w.to(up, &data("/x"));
    to.sort();
    assert_eq!(to, [a, b]);
    assert_eq!(w.forwarder.pit_len(), 0);
}

#[test]
fn an_upstream_that_asks_back_is_not_waited_for() {
    let mut w = World::new(|_| {});
    let (app, a, b) = (w.local(), w.remote(), w.remote());
    w.route("/", a, 0);
    w.route("/", b, 1);
    assert_eq!(w.to(app, &interest("/x", 1)), [a]);
    // Only `a` was asked, and `a` does not have it: another face has to be asked.
    assert_eq!(w.to(a, &interest("/x", 2)), [b]);
}

#[test]
fn a_new_nonce_from_the_same_face_is_sent_again() {
    let mut w = World::new(|_| {});
    let (app, a, b) = (w.local(), w.remote(), w.remote());
    w.route("/", a, 0);
    assert_eq!(w.to(app, &interest("/x", 1)), [a]);
    w.pass(100);
    assert_eq!(w.to(app, &interest("/x", 2)), [a]);
    w.route("/", b, 1);
    w.pass(100);
    // A next hop not tried yet comes first, then the one tried longest ago.
    assert_eq!(w.to(app, &interest("/x", 3)), [b]);
    w.pass(100);
    assert_eq!(w.to(app, &interest("/x", 4)), [a]);
    w.pass(100);
    assert_eq!(w.to(app, &interest("/x", 5)), [b]);
    // Any of them may answer, and the entry ends.
    assert_eq!(w.to(a, &data("/x")), [app]);
    assert_eq!(w.dropped(b, &data("/x")).0, DropReason::Unsolicited);
}

#[test]
fn the_same_interest_twice_is_a_duplicate() {
    let mut w = World::new(|_| {});
    let (app, up) = (w.local(), w.remote());
    w.route("/", up, 0);
    w.ok(app, &interest("/x", 1));
    let (reason, sent) = w.dropped(app, &interest("/x", 1));
    assert_eq!((reason, sent.len()), (DropReason::Duplicate, 0));
}

#[test]
fn loops_are_detected_while_pending_and_after() {
    let mut w =
        World::new(|config| config.dead_nonce_lifetime = core::time::Duration::from_secs(6));
    let (app, a, b) = (w.local(), w.remote(), w.remote());
    w.route("/", a, 0);
    w.ok(app, &interest("/x", 1));
    let (reason, sent) = w.dropped(b, &interest("/x", 1));
    assert_eq!(reason, DropReason::Loop);
    assert_eq!((sent[0].to, sent[0].what), (b, What::Nack(NackReason::DUPLICATE)));
    // The looping Interest has not become a request.
    assert_eq!(w.to(a, &data("/x")), [app]);
    assert_eq!(w.dropped(b, &interest("/x", 1)).0, DropReason::Loop);
    w.pass(5000);
    assert_eq!(w.dropped(b, &interest("/x", 1)).0, DropReason::Loop);
    // A nonce counts together with its name.
    assert_eq!(w.to(b, &interest("/y", 1)), [a]);
    w.pass(2000);
    assert_eq!(w.to(b, &interest("/x", 1)), [a]);
    assert_eq!(w.forwarder.totals().loops, 3);
}

#[test]
fn nonces_replaced_by_retransmissions_are_remembered() {
    let mut w = World::new(|_| {});
    let (app, up, b) = (w.local(), w.remote(), w.remote());
    w.route("/", up, 0);
    w.ok(app, &interest("/x", 1));
    w.ok(app, &interest("/x", 2));
    assert_eq!(w.dropped(b, &interest("/x", 1)).0, DropReason::Loop);
    assert_eq!(w.dropped(b, &interest("/x", 2)).0, DropReason::Loop);
}

#[test]
fn nonces_of_expired_interests_are_remembered() {
    let mut w = World::new(|_| {});
    let (app, up, b) = (w.local(), w.remote(), w.remote());
    w.route("/", up, 0);
    w.ok(app, &interest_with("/x", 1, |i| i.lifetime_ms(100)));
    w.pass(200);
    assert_eq!(w.forwarder.pit_len(), 0);
    assert_eq!(w.dropped(b, &interest("/x", 1)).0, DropReason::Loop);
}

#[test]
fn a_missing_nonce_is_added() {
    let mut w = World::new(|_| ());
    let (app, up) = (w.local(), w.remote());
    w.route("/", up, 0);
    let mut nonces = Vec::new();
    for uri in ["/x", "/y"] {
        let name = name(uri);
        let mut packet = Vec::new();
        InterestBuilder::new(name.as_ref()).hop_limit(9).encode(&mut packet).unwrap();
        let sent = w.ok(app, &bytes::Bytes::from(packet));
        assert_eq!((sent[0].to, sent[0].hops), (up, Some(8)));
        nonces.push(sent[0].nonce.expect("a nonce"));
    }
    assert_ne!(nonces[0], nonces[1]);
}

#[test]
fn each_downstream_expires_by_its_own_lifetime() {
    let mut w = World::new(|config| config.max_lifetime = core::time::Duration::from_secs(10));
    let (app, b, up) = (w.local(), w.remote(), w.remote());
    w.route("/", up, 0);
    assert_eq!(w.forwarder.poll_timeout(), None);
    w.ok(app, &interest_with("/short", 1, |i| i.lifetime_ms(500)));
    w.ok(app, &interest("/usual", 2));
    w.ok(app, &interest_with("/long", 3, |i| i.lifetime_ms(u64::MAX)));
    let first = w.forwarder.poll_timeout().unwrap() - w.now;
    assert!((500..=516).contains(&first.as_millis()), "{first:?}");
    // Joining prolongs the entry, but only for the face that joined.
    w.pass(400);
    w.ok(b, &interest_with("/short", 4, |i| i.lifetime_ms(500)));
    w.pass(200);
    assert_eq!(w.forwarder.pit_len(), 3);
    assert_eq!(w.to(up, &data("/short")), [b]);
    w.pass(3350);
    assert_eq!(w.forwarder.pit_len(), 2);
    w.pass(100);
    assert_eq!(w.forwarder.pit_len(), 1, "4 s is the default");
    assert_eq!(w.dropped(up, &data("/usual")).0, DropReason::Unsolicited);
    w.pass(6000);
    assert_eq!(w.forwarder.pit_len(), 0, "10 s is our limit");
    assert_eq!(w.forwarder.totals().expired, 2);
    assert_eq!(w.forwarder.poll_timeout(), None);
}

#[test]
fn hop_limits_are_decremented_and_enforced() {
    let mut w = World::new(|_| {});
    let (app, local, up) = (w.local(), w.local(), w.remote());
    w.route("/far", up, 0);
    w.route("/near", local, 0);
    let hops = |uri, nonce, n| interest_with(uri, nonce, |i| i.hop_limit(n));
    assert_eq!(w.dropped(app, &hops("/far", 1, 0)).0, DropReason::HopLimit);
    assert_eq!(w.ok(app, &hops("/far", 2, 64))[0].hops, Some(63));
    // The hop limit is used up here, so no other machine may receive the Interest.
    assert_eq!(w.dropped(app, &hops("/far/1", 3, 1)).0, DropReason::NoRoute);
    let sent = w.ok(up, &hops("/near", 4, 1));
    assert_eq!((sent[0].to, sent[0].hops), (local, Some(0)));
}

#[test]
fn an_interest_without_a_hop_limit_gets_the_usual_one() {
    let hops = |usual: u8, packet: &Bytes| {
        let mut w = World::new(|config| config.default_hop_limit = NonZeroU8::new(usual));
        let (down, up) = (w.remote(), w.remote());
        w.route("/far", up, 0);
        w.ok(down, packet)[0].hops
    };
    assert_eq!(hops(0, &interest("/far", 1)), None);
    assert_eq!(hops(32, &interest("/far", 1)), Some(32));
    assert_eq!(hops(1, &interest("/far", 1)), Some(1), "it still leaves this machine");
    assert_eq!(hops(32, &interest_with("/far", 1, |i| i.hop_limit(64))), Some(63));
    let timed = interest_with("/far", 1, |i| i.lifetime_ms(77));
    assert_eq!(hops(255, &timed), Some(255));
}

#[test]
fn local_names_stay_local() {
    let mut w = World::new(|_| {});
    let (app, local, a, b) = (w.local(), w.local(), w.remote(), w.remote());
    w.route("/localhost", a, 0);
    w.route("/localhost", local, 1);
    w.route("/localhop", b, 0);
    assert_eq!(w.to(app, &interest("/localhost/x", 1)), [local]);
    assert_eq!(w.dropped(a, &interest("/localhost/y", 2)).0, DropReason::Scope);
    assert_eq!(w.dropped(a, &data("/localhost/x")).0, DropReason::Scope);
    assert_eq!(w.to(local, &data("/localhost/x")), [app]);
    // A localhop name may leave this machine, but not pass through it.
    assert_eq!(w.to(app, &interest("/localhop/x", 3)), [b]);
    assert_eq!(w.dropped(a, &interest("/localhop/y", 4)).0, DropReason::NoRoute);
    // A name is not local if its first component only begins with these letters.
    w.route("/localhosts", a, 0);
    assert_eq!(w.to(b, &interest("/localhosts/x", 5)), [a]);
}

#[test]
fn local_applications_choose_their_next_hop() {
    let mut w = World::new(|_| {});
    let (app, a, b) = (w.local(), w.remote(), w.remote());
    w.route("/", a, 0);
    let to = |uri, nonce, face: FaceId| link(&interest(uri, nonce), |lp| lp.next_hop = Some(face));
    let sent = w.ok(app, to("/x", 1, b));
    assert_eq!((sent[0].to, sent[0].what, sent[0].token.is_none()), (b, What::Interest, true));
    assert_eq!(w.to(b, &data("/x")), [app]);
    assert_eq!(w.dropped(app, to("/y", 2, FaceId(99))).0, DropReason::NoRoute);
    assert_eq!(w.dropped(app, to("/y", 3, app)).0, DropReason::NoRoute);
    assert_eq!(w.dropped(a, to("/y", 4, b)).0, DropReason::LocalField);
    // The same segment is asked of another peer while the first has not answered.
    w.ok(app, to("/z", 5, a));
    assert_eq!(w.to(app, to("/z", 6, b)), [b]);
    assert_eq!(w.to(b, &data("/z")), [app]);
}

fn hinted(uri: &str, nonce: u32, hint: &[&str]) -> bytes::Bytes {
    let names: Vec<_> = hint.iter().map(|uri| name(uri)).collect();
    let hint: Vec<_> = names.iter().map(|name| name.as_ref()).collect();
    let name = name(uri);
    let mut out = Vec::new();
    InterestBuilder::new(name.as_ref())
        .nonce(nonce.to_be_bytes())
        .forwarding_hint(&hint)
        .encode(&mut out)
        .unwrap();
    out.into()
}

#[test]
fn a_forwarding_hint_is_routed_instead_of_the_name() {
    let mut w = World::new(|_| {});
    let (app, a, b, c) = (w.local(), w.remote(), w.remote(), w.remote());
    w.route("/", a, 0);
    w.route("/isp", b, 0);
    w.route("/known", c, 0);
    let hint = ["/nowhere", "/isp/site"];
    assert_eq!(w.to(app, &hinted("/x", 1, &hint)), [b]);
    assert_eq!(w.to(app, &hinted("/known/x", 2, &hint)), [b], "not by its name");
    // Data comes back by its name as usual.
    assert_eq!(w.to(b, &data("/x")), [app]);
    // If no delegation has a route but the default one, that is used.
    assert!(w.forwarder.remove_route(name("/isp").as_ref(), b));
    assert_eq!(w.to(app, &hinted("/known/y", 3, &hint)), [a]);
    assert!(w.forwarder.remove_route(name("/").as_ref(), a));
    assert_eq!(w.dropped(app, &hinted("/known/z", 4, &hint)).0, DropReason::NoRoute);
}

#[test]
fn a_hint_is_removed_in_its_region() {
    let mut w = World::new(|_| {});
    let (app, b, c) = (w.local(), w.remote(), w.remote());
    w.route("/isp", b, 0);
    w.route("/known", c, 0);
    w.forwarder.add_region(name("/isp/site/rack").as_ref()).unwrap();
    let (_, out) = w.raw(app, &hinted("/known/x", 1, &["/nowhere", "/isp/site"]));
    assert_eq!((out.len(), out[0].to), (1, c));
    assert_eq!(out[0].packet, interest("/known/x", 1));
    // A delegation below ours, or beside it, has not arrived.
    assert_eq!(w.to(app, &hinted("/known/w", 2, &["/isp/site/rack/1"])), [b]);
    assert_eq!(w.to(app, &hinted("/known/y", 3, &["/isp/other"])), [b]);
}

#[test]
fn a_flood_is_bounded() {
    let mut w = World::new(|config| config.pit_capacity = 10);
    let (app, b, up) = (w.local(), w.remote(), w.remote());
    w.route("/", up, 0);
    for n in 0..10 {
        w.ok(app, &interest(&format!("/x/seg={n}"), n));
    }
    for n in 10..30 {
        assert_eq!(w.to(app, &interest(&format!("/x/seg={n}"), n)), [up], "the oldest makes room");
    }
    let totals = w.forwarder.totals();
    assert_eq!((w.forwarder.pit_len(), totals.evicted, totals.pit_full), (10, 20, 0));
    assert_eq!(w.dropped(up, &data("/x/seg=19")).0, DropReason::Unsolicited);
    // Joining needs no room; answers make room.
    assert_eq!(w.to(b, &interest("/x/seg=20", 99)), []);
    assert_eq!(w.to(up, &data("/x/seg=20")), [app, b]);
    assert_eq!(w.to(app, &interest("/x/seg=30", 100)), [up]);
    assert_eq!(w.forwarder.totals().evicted, 20);
}

#[test]
fn a_nack_is_returned_when_all_have_refused() {
    let mut w = World::new(|_| {});
    let (app, b, up, up2) = (w.local(), w.remote(), w.remote(), w.remote());
    w.route("/", up, 0);
    let first = interest("/x", 1);
    w.ok(app, with_token(&first, &[7]));
    w.ok(b, &interest("/x", 2));
    // A Nack from a face that was not asked, or with another nonce, is not accepted.
    let no_route = nacked(&first, NackReason::NO_ROUTE);
    assert_eq!(w.dropped(up2, &no_route).0, DropReason::Unsolicited);
    let other = nacked(&interest("/x", 3), NackReason::NO_ROUTE);
    assert_eq!(w.dropped(up, &other).0, DropReason::Unsolicited);
    // A second next hop is still open.
    w.route("/", up2, 1);
    w.pass(10);
    let again = interest("/x", 4);
    assert_eq!(w.to(app, with_token(&again, &[7])), [up2]);
    assert_eq!(w.to(up, &no_route), []);
    let sent = w.ok(up2, nacked(&again, NackReason::CONGESTION));
    assert_eq!(sent.len(), 2);
    for (sent, face, nonce, token) in [(&sent[0], app, 4, Some(&[7][..])), (&sent[1], b, 2, None)] {
        assert_eq!((sent.to, sent.what), (face, What::Nack(NackReason::CONGESTION)));
        assert_eq!((sent.nonce, sent.token.as_deref()), (Some(nonce), token));
    }
    assert_eq!(w.forwarder.pit_len(), 0);
}

#[test]
fn a_nack_of_one_next_hop_does_not_end_an_interest() {
    let mut w = World::new(|_| {});
    let (app, b, up, up2) = (w.local(), w.remote(), w.remote(), w.remote());
    w.route("/", up, 0);
    w.route("/", up2, 1);
    w.ok(app, &interest("/x", 1));
    assert_eq!(w.to(b, &interest("/x", 2)), []);
    w.pass(10);
    assert_eq!(w.to(app, &interest("/x", 3)), [up2]);
    assert_eq!(w.to(up, nacked(&interest("/x", 1), NackReason::NO_ROUTE)), []);
    assert_eq!(w.to(up2, &data("/x")), [app, b]);
}

#[test]
fn routes_are_bounded() {
    let mut w = World::new(|config| config.max_routes = 2);
    let a = w.remote();
    let f = &mut w.forwarder;
    assert_eq!(f.add_route(name("/a").as_ref(), FaceId(9), 0), Err(RouteError::NoSuchFace));
    let long = name(&"/x".repeat(64));
    assert_eq!(f.add_route(long.as_ref(), a, 0), Err(RouteError::PrefixTooLong));
    assert!(!f.remove_route(long.as_ref(), a));
    f.add_route(name("/a").as_ref(), a, 0).unwrap();
    f.add_route(name("/b").as_ref(), a, 0).unwrap();
    assert_eq!(f.add_route(name("/c").as_ref(), a, 0), Err(RouteError::TableFull));
}

#[test]
fn malformed_packets_are_dropped() {
    let mut w = World::new(|_| {});
    let a = w.remote();
    let malformed = |reason| matches!(reason, DropReason::Malformed(_));
    assert!(malformed(w.dropped(a, &bytes::Bytes::from_static(b"\x05\x00")).0));
    assert!(malformed(w.dropped(a, &bytes::Bytes::new()).0));
    let inner = interest("/x", 1);
    let mut wrapped = Vec::new();
    LpPacket { fragment: Some(&inner), ..Default::default() }.encode(&mut wrapped);
    assert_eq!(w.dropped(a, &bytes::Bytes::from(wrapped)).0, DropReason::LinkPacket);
    let nacked_data = link(&data("/x"), |lp| lp.nack = Some(NackReason::NO_ROUTE));
    assert_eq!(w.dropped(a, &nacked_data).0, DropReason::Unsolicited);
    let counters = w.forwarder.counters(a).unwrap();
    assert_eq!((counters.in_dropped, counters.in_interests, counters.in_data), (4, 0, 0));
}
