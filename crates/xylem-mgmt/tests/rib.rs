//! The FIB that follows from the RIB, compared with a literal implementation of the definition.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use xylem_forward::{FaceId, FaceScope, Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_mgmt::types::{ROUTE_CAPTURE, ROUTE_CHILD_INHERIT};
use xylem_mgmt::{RegisteredRoute, Rib, RibError};
use xylem_packet::{Component, Name};

/// All registered routes that still exist.
#[derive(Default)]
struct ReferenceRib(Vec<(Name, RegisteredRoute)>);

impl ReferenceRib {
    fn register(&mut self, prefix: &Name, route: RegisteredRoute) {
        self.unregister(prefix, route.face, route.origin);
        self.0.push((prefix.clone(), route));
    }

    fn unregister(&mut self, prefix: &Name, face: FaceId, origin: u64) {
        self.0.retain(|(p, r)| p != prefix || r.face != face || r.origin != origin);
    }

    /// For every prefix with routes and every face: the nearest prefix, upwards from this one, with a route of that
    /// face that counts here. Above a CAPTURE no route counts. Next hops of the nearest name come first, and the
    /// cheapest of one name.
    fn fib(&self) -> BTreeMap<String, Vec<(u64, u32)>> {
        let mut fib: BTreeMap<String, Vec<(u64, u32)>> = BTreeMap::new();
        for (prefix, _) in &self.0 {
            let mut hops = BTreeSet::new();
            for face in self.0.iter().map(|(_, route)| route.face) {
                for n in (0..=prefix.len()).rev() {
                    let at = prefix.as_ref().prefix(n);
                    let here = || self.0.iter().filter(|(p, _)| p.as_ref() == at).map(|(_, r)| r);
                    let counts = |r: &&RegisteredRoute| {
                        r.face == face && (n == prefix.len() || r.flags & ROUTE_CHILD_INHERIT != 0)
                    };
                    if let Some(cost) = here().filter(counts).map(|r| r.cost).min() {
                        hops.insert((prefix.len() - n, cost as u32, face.0));
                        break;
                    }
                    if here().any(|r| r.flags & ROUTE_CAPTURE != 0) {
                        break;
                    }
                }
            }
            let hops = hops.into_iter().map(|(_, cost, face)| (face, cost));
            fib.insert(prefix.to_string(), hops.collect());
        }
        fib
    }
}

/// Each prefix's next hops in the order in which they are tried.
fn fib_of(forwarder: &Forwarder) -> BTreeMap<String, Vec<(u64, u32)>> {
    let mut fib = BTreeMap::new();
    forwarder.for_each_route(&mut |prefix, hops| {
        fib.insert(prefix.to_string(), hops.iter().map(|hop| (hop.face.0, hop.cost)).collect());
    });
    fib
}

#[derive(Debug, Clone)]
enum Step {
    Register { prefix: Vec<u8>, face: usize, origin: u64, cost: u64, flags: u64, ends: Option<u64> },
    Unregister { prefix: Vec<u8>, face: usize, origin: u64 },
    FaceGone(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let prefix = || prop::collection::vec(0u8..2, 0..4);
    prop_oneof![
        6 => (prefix(), 0usize..3, 0u64..2, 0u64..4, 0u64..4, prop::option::of(1u64..20)).prop_map(
            |(prefix, face, origin, cost, flags, ends)| {
                Step::Register { prefix, face, origin, cost, flags, ends }
            }
        ),
        3 => (prefix(), 0usize..3, 0u64..2)
            .prop_map(|(prefix, face, origin)| Step::Unregister { prefix, face, origin }),
        1 => (0usize..3).prop_map(Step::FaceGone),
        1 => (0u64..10).prop_map(Step::Wait),
    ]
}

fn name_of(prefix: &[u8]) -> Name {
    prefix.iter().fold(Name::new(), |name, byte| name.child(Component::generic(&[*byte])))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn the_fib_follows_from_the_routes(steps in prop::collection::vec(step(), 1..60)) {
        let mut forwarder = Forwarder::new(ForwarderConfig::default(), ForwarderSeed::from_random([1; 16]));
        let mut faces: Vec<FaceId> =
            (0..3).map(|_| forwarder.add_face(FaceScope::NonLocal)).collect();
        let (mut rib, mut slow) = (Rib::new(1000), ReferenceRib::default());
        let mut now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Register { prefix, face, origin, cost, flags, ends } => {
                    let expires = ends.map(|s| now + Duration::from_secs(s));
                    let route = RegisteredRoute { face: faces[face], origin, cost, flags, expires };
                    let prefix = name_of(&prefix);
                    slow.register(&prefix, route);
                    rib.register(prefix.as_ref(), route, &mut forwarder).unwrap();
                }
                Step::Unregister { prefix, face, origin } => {
                    let prefix = name_of(&prefix);
                    let before = slow.0.len();
                    slow.unregister(&prefix, faces[face], origin);
                    let known = rib.unregister(prefix.as_ref(), faces[face], origin, &mut forwarder);
                    prop_assert_eq!(known, slow.0.len() < before);
                }
                Step::FaceGone(face) => {
                    let gone = faces[face];
                    forwarder.remove_face(gone);
                    rib.face_gone(gone, &mut forwarder);
                    slow.0.retain(|(_, route)| route.face != gone);
                    faces[face] = forwarder.add_face(FaceScope::NonLocal);
                }
                Step::Wait(seconds) => {
                    now += Duration::from_secs(seconds);
                    rib.handle_timeout(now, &mut forwarder);
                    slow.0.retain(|(_, route)| route.expires.is_none_or(|at| at > now));
                }
            }
            prop_assert_eq!(fib_of(&forwarder), slow.fib());
            prop_assert_eq!(rib.len(), slow.0.len());
            prop_assert_eq!(rib.poll_timeout(), slow.0.iter().filter_map(|(_, r)| r.expires).min());
            let mut listed = 0;
            rib.for_each(&mut |_, routes| listed += routes.len());
            prop_assert_eq!(listed, slow.0.len());
        }
    }
}

fn route(face: FaceId, cost: u64) -> RegisteredRoute {
    RegisteredRoute { face, origin: 0, cost, flags: ROUTE_CHILD_INHERIT, expires: None }
}

#[test]
fn a_full_rib_refuses_new_routes_and_changes_old_ones() {
    let mut forwarder =
        Forwarder::new(ForwarderConfig::default(), ForwarderSeed::from_random([1; 16]));
    let face = forwarder.add_face(FaceScope::NonLocal);
    let mut rib = Rib::new(3);
    for i in 0..5u8 {
        let taken = rib.register(name_of(&[i]).as_ref(), route(face, 1), &mut forwarder);
        assert_eq!(taken, if i < 3 { Ok(()) } else { Err(RibError::Full) });
    }
    assert_eq!(rib.register(name_of(&[0]).as_ref(), route(face, 9), &mut forwarder), Ok(()));
    assert_eq!(fib_of(&forwarder)["/%00"], [(face.0, 9)]);
    assert_eq!((rib.len(), forwarder.fib_len()), (3, 3));
}

#[test]
fn a_route_that_the_forwarder_refuses_leaves_no_trace() {
    let mut config = ForwarderConfig::default();
    config.max_routes = 2;
    config.max_next_hops = 1;
    let mut forwarder = Forwarder::new(config, ForwarderSeed::from_random([1; 16]));
    let face = forwarder.add_face(FaceScope::NonLocal);
    let other = forwarder.add_face(FaceScope::NonLocal);
    let mut rib = Rib::new(100);
    for i in 0..2u8 {
        rib.register(name_of(&[i]).as_ref(), route(face, 1), &mut forwarder).unwrap();
    }
    let before = fib_of(&forwarder);
    for (prefix, route) in [
        (name_of(&[7]), route(face, 1)),
        (name_of(&[0]), route(other, 1)),
        (name_of(&[0; 64]), route(face, 1)),
        (name_of(&[7]), route(FaceId(77), 1)),
    ] {
        assert!(rib.register(prefix.as_ref(), route, &mut forwarder).is_err());
        assert_eq!((fib_of(&forwarder), rib.len()), (before.clone(), 2));
    }
    for i in 0..2u8 {
        assert!(rib.unregister(name_of(&[i]).as_ref(), face, 0, &mut forwarder));
    }
    assert_eq!(forwarder.fib_len(), 0);
    assert!(rib.is_empty());
}

#[test]
fn next_hops_of_others_stay() {
    let mut forwarder =
        Forwarder::new(ForwarderConfig::default(), ForwarderSeed::from_random([1; 16]));
    let (a, b) = (forwarder.add_face(FaceScope::NonLocal), forwarder.add_face(FaceScope::NonLocal));
    let prefix = name_of(&[1]);
    forwarder.add_route(prefix.as_ref(), a, 5).unwrap();
    let mut rib = Rib::new(10);
    rib.register(prefix.as_ref(), route(b, 1), &mut forwarder).unwrap();
    rib.unregister(prefix.as_ref(), b, 0, &mut forwarder);
    assert_eq!(fib_of(&forwarder)["/%01"], [(a.0, 5)]);
}

/// A default route of the machine existed first, at no cost and inherited. An older program holds `/shop`, as programs
/// register.
#[test]
fn holders_of_longer_prefixes_are_asked_first() {
    let mut forwarder =
        Forwarder::new(ForwarderConfig::default(), ForwarderSeed::from_random([1; 16]));
    let [upstream, shop, bob] = [(); 3].map(|()| forwarder.add_face(FaceScope::Local));
    let mut rib = Rib::new(10);
    for (prefix, face, cost) in [("/", upstream, 0), ("/shop", shop, 0), ("/shop/bob", bob, 7)] {
        let prefix = Name::from_uri(prefix).unwrap();
        rib.register(prefix.as_ref(), route(face, cost), &mut forwarder).unwrap();
    }
    let fib = fib_of(&forwarder);
    assert_eq!(fib["/shop"], [(shop.0, 0), (upstream.0, 0)]);
    assert_eq!(fib["/shop/bob"], [(bob.0, 7), (shop.0, 0), (upstream.0, 0)]);
}
