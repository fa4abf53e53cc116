//! Tests of objects that are read on demand. A read takes one round trip at any position, does not wait for segments
//! asked for ahead, and segments no longer wanted are not asked for.

mod sim;

use std::time::Duration;

use sim::{Behaviour, Original, World, ms, path};
use xylem_object::ObjectId;
use xylem_transfer::{TransferConfig, Urgency};

const ROUND_TRIP: u64 = 100;

/// A world in which the transfer has the manifest and has opened the file.
fn open(original: &Original, loss: f64, seed: u64) -> World {
    let world = World::new(original, TransferConfig::default(), seed);
    let mut world = world.peer(original, Behaviour::Honest, path(ROUND_TRIP, loss));
    world.wanted = Vec::new();
    world.run(Duration::from_secs(60));
    assert!(world.manifest_seen && world.is_done());
    let truth = &original.objects[&ObjectId::Root];
    world.transfer.open_object(ObjectId::Root, truth.root, truth.geometry).unwrap();
    world
}

fn has(world: &World, segment: usize) -> bool {
    world.got.get(&ObjectId::Root).is_some_and(|got| got[segment])
}

#[test]
fn a_read_anywhere_takes_one_round_trip() {
    // The file has five tiles and one above them.
    let original = Original::file(80_000_000);
    let mut world = open(&original, 0.0, 1);
    for segment in [9_000, 1, 3_000, 9_001, 5_555, 3_001] {
        let begun = world.now();
        assert!(world.transfer.want(ObjectId::Root, segment..segment + 1, Urgency::Now));
        world.run(begun + Duration::from_secs(60));
        assert!(has(&world, segment as usize), "{segment}");
        let took = world.now() - begun;
        assert!(took < ms(ROUND_TRIP) * 12 / 10, "{segment}: {took:?}");
    }
    assert!(world.asked.values().all(|times| *times == 1), "nothing twice: {:?}", world.asked);
    // The manifest, six segments, and the tiles over them.
    assert!(world.asked.len() <= 1 + 6 + 5, "{:?}", world.asked.keys());
    assert_eq!(world.complete, [ObjectId::Root], "and only as nothing was wanted");
}

#[test]
fn an_urgent_read_does_not_wait_for_read_ahead() {
    let original = Original::file(80_000_000);
    let mut world = open(&original, 0.0, 2);
    world.transfer.want(ObjectId::Root, 0..4_000, Urgency::Ahead);
    let begun = world.now();
    world.run(begun + ms(50));
    world.transfer.want(ObjectId::Root, 9_000..9_002, Urgency::Now);
    // Two round trips, because the first window is under way.
    world.run(begun + ms(50) + ms(ROUND_TRIP) * 21 / 10);
    assert!(has(&world, 9_000) && has(&world, 9_001));
    assert!(world.segments_got(ObjectId::Root) < 3_000, "and the rest is still to come");
    world.transfer.drop_unasked(ObjectId::Root);
    let now = world.now();
    world.run(now + Duration::from_secs(60));
    assert!(world.transfer.is_idle());
    let came = world.segments_got(ObjectId::Root);
    assert!(came < 3_500, "{came} came of what was wanted no more");
    // A segment that is wanted again is asked for again.
    world.transfer.want(ObjectId::Root, 0..4_000, Urgency::Ahead);
    let now = world.now();
    world.run(now + Duration::from_secs(60));
    assert_eq!(world.segments_got(ObjectId::Root), 4_002);
}

#[test]
fn lost_segments_are_asked_for_again_and_fetched_ones_not() {
    let original = Original::file(20_000_000);
    let mut world = open(&original, 0.2, 3);
    for i in 0..200_u64 {
        let segment = i * 7_919 % 2_400;
        world.transfer.want(ObjectId::Root, segment..segment + 1, Urgency::Now);
        let now = world.now();
        world.run(now + Duration::from_secs(60));
        assert!(has(&world, segment as usize), "{segment}");
    }
    let interests = world.transfer.progress().interests;
    world.transfer.want(ObjectId::Root, 0..1, Urgency::Now);
    let now = world.now();
    world.run(now + Duration::from_secs(1));
    assert_eq!(world.transfer.progress().interests, interests, "it was brought before");
    // After the object is given up and opened anew, the segment is asked for again.
    assert!(world.transfer.give_up_object(ObjectId::Root));
    assert!(!world.transfer.want(ObjectId::Root, 0..1, Urgency::Now));
    let truth = &original.objects[&ObjectId::Root];
    world.transfer.open_object(ObjectId::Root, truth.root, truth.geometry).unwrap();
    world.got.clear();
    assert!(world.transfer.want(ObjectId::Root, 0..1, Urgency::Now));
    let now = world.now();
    world.run(now + Duration::from_secs(60));
    assert!(has(&world, 0));
    assert_eq!(world.failed, None);
}
