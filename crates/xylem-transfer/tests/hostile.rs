//! Tests with peers that lie, stay silent or refuse. No wrong byte is ever accepted (the world checks each), a lying
//! peer is dropped, and honest peers complete the transfer or it ends for the right reason.

mod sim;

use std::time::Duration;

use sim::{Behaviour, Original, World, ms, path};
use xylem_object::ObjectId;
use xylem_packet::{InterestBuilder, Name, Packet};
use xylem_sim::Conditions;
use xylem_transfer::{FailReason, Misbehaviour, PeerId, PeerStatus, TransferConfig};

const LIES: [Behaviour; 9] = [
    Behaviour::WrongByte,
    Behaviour::WrongProof,
    Behaviour::ShortProof,
    Behaviour::WrongTile,
    Behaviour::BadSignature,
    Behaviour::OtherPublisher,
    Behaviour::OtherManifest,
    Behaviour::Truncated,
    Behaviour::Oversized,
];

/// Behaviours that spoil single segments. There are enough segments for three misbehaviours.
const DROPPED_FOR: [Behaviour; 5] = [
    Behaviour::WrongByte,
    Behaviour::WrongProof,
    Behaviour::ShortProof,
    Behaviour::Truncated,
    Behaviour::Oversized,
];

fn run(original: &Original, behaviours: &[Behaviour], net: &Conditions, seed: u64) -> World {
    let mut world = World::new(original, TransferConfig::default(), seed);
    for behaviour in behaviours {
        world = world.peer(original, *behaviour, *net);
    }
    world.run(Duration::from_secs(3_600));
    world
}

#[test]
fn the_honest_peer_completes_what_a_liar_spoils() {
    let original = Original::file(3_000_000);
    for lie in LIES.into_iter().chain([Behaviour::WrongFinalBlock]) {
        for (seed, loss) in [(1, 0.0), (2, 0.05)] {
            for order in [[lie, Behaviour::Honest], [Behaviour::Honest, lie]] {
                let world = run(&original, &order, &path(20, loss), seed);
                assert_eq!(world.failed, None, "{lie:?}: {:?}", world.transfer.progress());
                assert_eq!(world.complete, [ObjectId::Root], "{lie:?}");
                let liar = PeerId(order.iter().position(|b| *b == lie).unwrap() as u32);
                assert!(
                    world.blamed.iter().all(|(peer, _)| *peer == liar),
                    "{lie:?}: {:?}",
                    world.blamed
                );
                assert!(world.dropped.iter().all(|peer| *peer == liar));
                if DROPPED_FOR.contains(&lie) {
                    assert_eq!(world.dropped, [liar], "{lie:?}");
                    assert_eq!(world.blamed.len(), 3, "{lie:?}");
                }
            }
        }
    }
}

#[test]
fn a_lone_lying_peer_is_dropped_for_the_right_reason() {
    let original = Original::file(3_000_000);
    for lie in LIES.into_iter().chain([Behaviour::WrongFinalBlock]) {
        let world = run(&original, &[lie], &path(20, 0.01), 1);
        let last = world.blamed.last().expect("three misbehaviours").1.clone();
        assert_eq!(
            world.failed,
            Some(FailReason::AllPeersMisbehaved { peers: 1, last: last.clone() })
        );
        assert_eq!(world.blamed.len(), 3);
        assert_eq!(world.complete, []);
        let named = match lie {
            Behaviour::BadSignature | Behaviour::OtherPublisher => {
                matches!(last, Misbehaviour::Manifest(_))
            }
            Behaviour::OtherManifest => last == Misbehaviour::OtherManifest,
            Behaviour::Truncated => last == Misbehaviour::Undecodable,
            Behaviour::WrongFinalBlock => matches!(last, Misbehaviour::Packet(_)),
            _ => matches!(last, Misbehaviour::NotProven(_)),
        };
        assert!(named, "{lie:?} was called {last:?}");
    }
}

#[test]
fn three_liars_do_not_outvote_one_honest_peer() {
    let original = Original::file(3_000_000);
    let behaviours =
        [Behaviour::WrongByte, Behaviour::WrongProof, Behaviour::Truncated, Behaviour::Honest];
    let world = run(&original, &behaviours, &path(30, 0.02), 3);
    assert_eq!((world.failed.clone(), &world.complete[..]), (None, &[ObjectId::Root][..]));
    assert!(!world.dropped.contains(&PeerId(3)));
    assert_eq!(world.dropped.len(), 3);
}

#[test]
fn mangled_packets_do_not_stop_the_transfer() {
    let original = Original::file(8_000_000);
    for seed in 0..4 {
        // No peer is dropped, so each segment is spoiled repeatedly until the honest peer sends it.
        let config = TransferConfig { max_misbehaviour: u32::MAX, ..TransferConfig::default() };
        let mut world = World::new(&original, config, seed)
            .peer(&original, Behaviour::Mangles, path(5, 0.0))
            .peer(&original, Behaviour::Honest, path(60, 0.01).bottleneck(30.0, 200_000));
        world.run(Duration::from_secs(600));
        assert_eq!((world.failed.clone(), &world.complete[..]), (None, &[ObjectId::Root][..]));
        assert!(world.blamed.iter().all(|(peer, _)| *peer == PeerId(0)));
        assert!(world.blamed.len() > 100, "{}", world.blamed.len());
    }
}

#[test]
fn unrequested_answers_are_dropped() {
    let original = Original::file(1_000_000);
    let world = run(&original, &[Behaviour::Chatty], &path(20, 0.0), 1);
    assert_eq!((world.failed.clone(), world.blamed.len()), (None, 0));
    assert!(world.transfer.progress().duplicates > 100);
    // A good segment under another name than the requested one does not count as progress.
    let world = run(&original, &[Behaviour::OtherNames, Behaviour::Honest], &path(20, 0.0), 1);
    assert_eq!((world.failed.clone(), &world.complete[..]), (None, &[ObjectId::Root][..]));
}

#[test]
fn silent_and_dying_peers_do_not_stop_the_transfer() {
    let original = Original::file(3_000_000);
    let net = path(20, 0.0);
    for behaviour in [Behaviour::Silent, Behaviour::DiesAfter(1), Behaviour::DiesAfter(60)] {
        let world = run(&original, &[behaviour, Behaviour::Honest], &net, 1);
        assert_eq!((world.failed.clone(), &world.complete[..]), (None, &[ObjectId::Root][..]));
        assert!(world.now() < Duration::from_secs(4), "{behaviour:?}: {:?}", world.now());
        assert_eq!(world.blamed, []);
    }
    let world = run(&original, &[Behaviour::DiesAfter(60)], &net, 1);
    assert_eq!(world.failed, Some(FailReason::TimedOut { after: Duration::from_secs(30) }));
    assert!(world.now() < Duration::from_secs(32));
    assert!(world.transfer.peers(world.now()).all(|p| p.standing == PeerStatus::Stalled));
    let asked: u32 = world.asked.values().sum();
    assert!(asked < 400, "a dead peer is probed, not flooded: {asked} Interests");
}

#[test]
fn a_transfer_fails_when_no_peer_has_it() {
    let original = Original::file(100_000);
    let refusing = [Behaviour::RefusesAll, Behaviour::RefusesAll];
    let world = run(&original, &refusing, &path(20, 0.0), 1);
    assert_eq!(world.failed, Some(FailReason::NobodyHasIt { peers: 2 }));
    assert!(world.now() < Duration::from_secs(3), "{:?}", world.now());

    let world = run(&original, &[Behaviour::RefusesAll, Behaviour::Honest], &path(20, 0.0), 1);
    assert_eq!(world.failed, None);

    let world = run(&original, &[Behaviour::RefusesSegments], &path(20, 0.0), 1);
    assert!(matches!(world.failed, Some(FailReason::TimedOut { .. })));
    let asked: u32 = world.asked.values().sum();
    assert!(asked < 200, "a refusing peer is left alone: {asked} Interests");

    let both = [Behaviour::RefusesSegments, Behaviour::Honest];
    let world = run(&original, &both, &path(20, 0.0), 1);
    assert_eq!((world.failed.clone(), world.blamed.len()), (None, 0));
    assert!(world.now() < Duration::from_secs(1), "{:?}", world.now());
}

/// A peer from which a few segments can't be had (its file is damaged) brings the rest as quickly as if nothing were
/// wrong: what it refuses is asked for once a second and takes the turn of nothing else.
#[test]
fn refused_segments_hold_up_no_others() {
    let original = Original::file(8_000_000);
    let mut transfer = run(&original, &[Behaviour::Honest], &path(80, 0.0), 1);
    assert_eq!(transfer.failed, None);
    let (whole, all) = (transfer.now(), transfer.transfer.progress().verified_segments);
    for step in [all, 100, 10] {
        transfer = run(&original, &[Behaviour::RefusesEach(step)], &path(80, 0.0), 1);
        let refused = all.div_ceil(step);
        let progress = transfer.transfer.progress();
        assert_eq!(progress.verified_segments, all - refused, "each {step}");
        // It gives up 30 s after the last segment that came.
        assert_eq!(transfer.failed, Some(FailReason::TimedOut { after: Duration::from_secs(30) }));
        let took = transfer.now() - Duration::from_secs(30);
        assert!(took < whole * 3 / 2, "each {step}: {took:?}, without faults {whole:?}");
        let asked: u32 = transfer.asked.values().sum();
        let most = all + 40 * refused + 100;
        assert!(u64::from(asked) < most, "each {step}: {asked} Interests, {most} at most");
    }
}

#[test]
fn a_transfer_without_peers_times_out() {
    let original = Original::file(100);
    let mut world = World::new(&original, TransferConfig::default(), 1);
    world.run(Duration::from_secs(100));
    assert_eq!(world.failed, Some(FailReason::NobodyHasIt { peers: 0 }));
}

#[test]
fn the_timeout_starts_when_something_is_wanted() {
    let original = Original::file(100);
    let mut world = World::new(&original, TransferConfig::default(), 1);
    world.skip_to(Duration::from_secs(5_000)); // the node was started long ago
    world.transfer.handle_timeout(world.now());
    assert!(world.transfer.poll_event().is_none());
    world.run(Duration::from_secs(6_000));
    assert_eq!(world.failed, Some(FailReason::NobodyHasIt { peers: 0 }));
    assert_eq!(world.now(), Duration::from_secs(5_030));

    let original = Original::directory(&[10]);
    let mut world = World::new(&original, TransferConfig::default(), 1);
    world = world.peer(&original, Behaviour::Honest, path(20, 0.0));
    world.run(Duration::from_secs(10));
    assert!(world.is_done());
    world.skip_to(Duration::from_secs(5_000)); // idle until now: the next object gets its full time
    world.files.push_back(0);
    world.run(Duration::from_secs(6_000));
    assert_eq!((world.failed.clone(), world.complete.len()), (None, 2));
}

#[test]
fn segments_of_a_removed_peer_are_judged_and_asked_of_others() {
    // Wrong segments wait for a late tile while their sender leaves.
    let original = Original::file(3_000_000);
    let mut world = World::new(&original, TransferConfig::default(), 1)
        .peer(&original, Behaviour::WrongByte, path(10, 0.0))
        .peer(&original, Behaviour::Honest, path(200, 0.0));
    world.run(ms(35));
    world.transfer.remove_peer(world.now(), PeerId(0));
    world.run(Duration::from_secs(20));
    assert_eq!((world.failed.clone(), &world.complete[..]), (None, &[ObjectId::Root][..]));
}

#[test]
fn a_transfer_survives_leaving_and_joining_peers() {
    let original = Original::file(5_000_000);
    let net = path(20, 0.0).bottleneck(20.0, 100_000);
    let mut world =
        World::new(&original, TransferConfig::default(), 1).peer(&original, Behaviour::Honest, net);
    world.run(ms(500));
    assert!(world.bytes > 100_000);
    world.transfer.remove_peer(world.now(), PeerId(0));
    let before = world.bytes;
    world.run(ms(5_000));
    assert_eq!(world.bytes, before, "nobody to ask");
    let mut world = world.peer(&original, Behaviour::Honest, net);
    world.run(Duration::from_secs(100));
    assert_eq!((world.failed.clone(), &world.complete[..]), (None, &[ObjectId::Root][..]));
}

#[test]
fn a_dropped_peer_stays_dropped() {
    let original = Original::file(3_000_000);
    let mut world = run(&original, &[Behaviour::WrongByte, Behaviour::Honest], &path(20, 0.0), 1);
    assert_eq!(world.dropped, [PeerId(0)]);
    let stats: Vec<_> = world.transfer.peers(world.now()).collect();
    assert_eq!(
        (stats[0].standing, stats[0].misbehaviour, stats[0].bytes),
        (PeerStatus::Dropped, 3, 0)
    );
    assert!(!world.transfer.add_peer(world.now(), PeerId(0)), "its number is taken");
}

#[test]
fn other_packets_are_ignored() {
    let original = Original::file(100_000);
    let mut world = World::new(&original, TransferConfig::default(), 1).peer(
        &original,
        Behaviour::Honest,
        path(20, 0.0),
    );
    let mut buffer = Vec::new();
    world.transfer.poll_transmit(ms(0), &mut buffer);
    let stray = Name::from_uri("/somebody/else").unwrap();
    let mut interest = Vec::new();
    InterestBuilder::new(stray.as_ref()).encode(&mut interest).unwrap();
    for packet in
        [&b""[..], b"\x06", b"\x06\x03\x07\xfd", b"\x64\x00", b"\xff\xff", &interest, &buffer]
    {
        world.transfer.handle_data(ms(1), PeerId(0), packet.to_vec().into());
        world.transfer.handle_data(ms(1), PeerId(9), packet.to_vec().into());
    }
    assert!(matches!(Packet::decode(&buffer), Ok(Packet::Interest(_))));
    world.run(Duration::from_secs(10));
    assert_eq!((world.failed.clone(), world.blamed.len()), (None, 0));
    assert_eq!(world.complete, [ObjectId::Root]);
}
