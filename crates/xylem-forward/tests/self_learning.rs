//! Tests of the self-learning strategy at one forwarder: which faces are asked, which Interests are marked, and what is
//! passed on.

mod common;

use common::{What, World, data, interest, link, nacked, name};
use xylem_forward::{DropReason, FaceId, ForwardingStrategy};
use xylem_packet::NackReason;

/// Two programs, two neighbours, and no routes.
fn world() -> (World, [FaceId; 4]) {
    let mut w = World::new(|_| ());
    let faces = [w.local(), w.local(), w.remote(), w.remote()];
    w.forwarder.set_strategy(name("/").as_ref(), ForwardingStrategy::SelfLearning).unwrap();
    (w, faces)
}

#[test]
fn an_interest_without_a_route_goes_to_all_neighbours() {
    let (mut w, [app, other, a, b]) = world();
    assert_eq!(w.to(app, &interest("/x", 1)), [a, b], "no program");
    assert_eq!(w.to(a, &interest("/y", 2)), [b], "not back");
    // Suppression applies to each face by itself, as with multicast.
    assert_eq!(w.to(other, &interest("/x", 3)), []);
    w.pass(10);
    assert_eq!(w.to(other, &interest("/x", 4)), [a, b]);
    // Names for this machine or this link are not searched for.
    assert_eq!(w.dropped(app, &interest("/localhost/x", 5)).0, DropReason::NoRoute);
    assert_eq!(w.dropped(a, &interest("/localhop/x", 6)).0, DropReason::NoRoute);
    // All neighbours answer, and one answer is forwarded.
    assert_eq!(w.to(a, &data("/x")), [app, other]);
    assert_eq!(w.dropped(b, &data("/x")).0, DropReason::Unsolicited);
}

#[test]
fn a_marked_interest_is_not_searched_for() {
    let (mut w, [app, _, a, b]) = world();
    let marked = |n| link(&interest("/x", n), |frame| frame.non_discovery = true);
    let (reason, sent) = w.dropped(a, marked(1));
    assert_eq!((reason, sent[0].what), (DropReason::NoRoute, What::Nack(NackReason::NO_ROUTE)));
    w.route("/x", b, 1);
    for frame in [marked(2), marked(3)] {
        let (_, left) = w.raw(a, frame);
        assert!(left.iter().all(|left| left.to == b && left.non_discovery));
        w.pass(50);
    }
    // A route ends the search: forwarded Interests are marked.
    let (_, left) = w.raw(app, &interest("/x/y", 4));
    assert_eq!(left.iter().map(|l| (l.to, l.non_discovery)).collect::<Vec<_>>(), [(b, true)]);
    // Other strategies forward the mark unchanged.
    w.forwarder.set_strategy(name("/x").as_ref(), ForwardingStrategy::BEST_ROUTE).unwrap();
    let (_, left) = w.raw(a, link(&interest("/x/z", 5), |frame| frame.non_discovery = true));
    assert_eq!((left[0].to, left[0].non_discovery), (b, true));
    let (_, left) = w.raw(a, &interest("/x/w", 6));
    assert!(!left[0].non_discovery);
}

#[test]
fn announcements_go_with_the_data_to_searching_neighbours() {
    let (mut w, [app, other, a, b]) = world();
    w.forwarder.set_announcement(name("/").as_ref(), a, b"of all");
    w.forwarder.set_announcement(name("/x").as_ref(), app, b"of x");
    w.route("/x", app, 1);
    // A neighbour searches, and this forwarder has a route.
    w.raw(a, &interest("/x/1", 1)).0.unwrap();
    let (_, left) = w.raw(app, &data("/x/1"));
    assert_eq!((left[0].to, left[0].announcement.as_deref()), (a, Some(&b"of x"[..])));
    // A neighbour that does not search gets no announcement, and neither does a program.
    w.raw(a, link(&interest("/x/2", 2), |frame| frame.non_discovery = true)).0.unwrap();
    w.raw(other, &interest("/x/2", 3)).0.unwrap();
    let (_, left) = w.raw(app, &data("/x/2"));
    assert!(left.iter().all(|left| left.announcement.is_none()));
    // The announcement that came with the answer to a search is forwarded, but not to programs, and is reported.
    w.raw(b, &interest("/z", 4)).0.unwrap();
    w.raw(other, &interest("/z", 5)).0.unwrap();
    let (_, left) = w.raw(a, link(&data("/z"), |frame| frame.announcement = Some(b"z".to_vec())));
    let to = |face| left.iter().find(|left| left.to == face).unwrap().announcement.clone();
    assert_eq!((to(b), to(other)), (Some(b"z".to_vec()), None));
    assert_eq!(w.lessons(), [format!("{a} announces \"z\" with /z")]);
    // An announcement with a Data that was not searched for is not reported.
    w.raw(a, &interest("/x/6", 6)).0.unwrap();
    w.raw(app, link(&data("/x/6"), |frame| frame.announcement = Some(b"lie".to_vec()))).0.unwrap();
    w.forwarder.set_strategy(name("/m").as_ref(), ForwardingStrategy::MULTICAST).unwrap();
    w.route("/m", a, 1);
    w.raw(b, &interest("/m", 7)).0.unwrap();
    let (_, left) = w.raw(a, link(&data("/m"), |frame| frame.announcement = Some(b"m".to_vec())));
    assert!(left[0].announcement.is_none());
    assert!(w.lessons().is_empty());
    // Announcements are removed with their face.
    w.forwarder.remove_face(app);
    assert_eq!(w.forwarder.announcements(), 1);
    w.forwarder.unset_announcement(name("/").as_ref(), a);
    assert_eq!(w.forwarder.announcements(), 0);
}

#[test]
fn a_no_route_nack_is_reported_to_the_outlet() {
    let (mut w, [app, _, a, b]) = world();
    w.route("/x", a, 1);
    w.raw(app, &interest("/x", 1)).0.unwrap();
    // After a Nack for another reason there may still be a route.
    let congested = nacked(&interest("/x", 1), NackReason::CONGESTION);
    w.raw(a, congested).0.unwrap();
    assert!(w.lessons().is_empty());
    w.raw(app, &interest("/x", 2)).0.unwrap();
    w.raw(a, nacked(&interest("/x", 2), NackReason::NO_ROUTE)).0.unwrap();
    assert_eq!(w.lessons(), [format!("{a} knows no way to /x")]);
    // Other strategies do not report what is learned.
    w.forwarder.set_strategy(name("/").as_ref(), ForwardingStrategy::BEST_ROUTE).unwrap();
    w.route("/y", b, 1);
    w.raw(app, &interest("/y", 3)).0.unwrap();
    w.raw(b, nacked(&interest("/y", 3), NackReason::NO_ROUTE)).0.unwrap();
    assert!(w.lessons().is_empty());
}

/// A search does not go to an unlimited number of faces, even if a neighbour opens many.
#[test]
fn a_search_goes_to_a_limited_number_of_faces() {
    let (mut w, [app, ..]) = world();
    for _ in 0..1000 {
        w.remote();
    }
    assert_eq!(w.to(app, &interest("/x", 1)).len(), 256);
}
