//! Tests of parts of objects, many objects, and readers that cannot keep up.

mod sim;

use std::time::Duration;

use bytes::Bytes;
use sim::{Behaviour, Original, World, ms, path};
use xylem_hash::Hash;
use xylem_object::ObjectId;
use xylem_transfer::{AddError, PeerId, TransferConfig, TransferEvent};
use xylem_tree::{Geometry, SegmentSize, TreeVerifier};

fn world(original: &Original) -> World {
    World::new(original, TransferConfig::default(), 1).peer(
        original,
        Behaviour::Honest,
        path(20, 0.01),
    )
}

fn asked_segments(world: &World) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        world.asked.keys().filter_map(|n| n.rsplit_once("/seg=")?.1.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_range_asks_for_its_segments_and_their_tiles_alone() {
    // The file has 6,104 segments and 3 tiles. Some segments under the first tile and some under the third are wanted.
    let original = Original::file(50_000_000);
    let mut world = world(&original);
    world.wanted = vec![100..110, 5_000..5_003];
    world.run(Duration::from_secs(60));
    assert!(world.is_done() && world.complete == [ObjectId::Root]);
    assert_eq!(
        asked_segments(&world),
        [(100..110).collect::<Vec<_>>(), (5_000..5_003).collect()].concat()
    );
    let tiles: Vec<&String> = world.asked.keys().filter(|n| n.contains("32=tree")).collect();
    assert_eq!(tiles.len(), 2, "{tiles:?}");
}

#[test]
fn a_range_past_the_end_is_cut_off_and_an_empty_one_is_complete() {
    let original = Original::file(50_000);
    let mut past = world(&original);
    past.wanted = Vec::from_iter(Some(5..900));
    past.run(Duration::from_secs(60));
    assert_eq!((asked_segments(&past), &past.complete[..]), (vec![5, 6], &[ObjectId::Root][..]));
    let mut none = world(&original);
    none.wanted = Vec::from_iter(Some(7..900));
    none.run(Duration::from_secs(60));
    assert_eq!((asked_segments(&none), &none.complete[..]), (vec![], &[ObjectId::Root][..]));
}

#[test]
fn resuming_asks_for_what_is_missing() {
    let original = Original::file(20_000_000);
    let mut world = world(&original);
    world.have = vec![0..2_100, 2_101..2_441];
    world.run(Duration::from_secs(60));
    assert!(world.is_done());
    assert_eq!(asked_segments(&world), [2_100, 2_441]);
    assert_eq!(world.transfer.progress().wanted_segments, 2);
    let bytes = 8_192 + (20_000_000 - 2_441 * 8_192);
    assert_eq!((world.transfer.progress().wanted_bytes, world.bytes), (bytes, bytes));
}

#[test]
fn tiles_go_before_the_segments_that_need_them() {
    let original = Original::file(40_000_000);
    let mut world = World::new(&original, TransferConfig::default(), 1);
    world.transfer.add_peer(ms(0), PeerId(0));
    let manifest = {
        let mut producer = sim::Producer::new(original.clone(), Behaviour::Honest);
        let mut interest = Vec::new();
        world.transfer.poll_transmit(ms(0), &mut interest);
        let Some(sim::Reply::Data(data)) = producer.reply(&interest).pop() else { panic!() };
        data
    };
    world.transfer.handle_data(ms(20), PeerId(0), manifest.into());
    let Some(TransferEvent::Manifest { manifest, .. }) = world.transfer.poll_event() else {
        panic!()
    };
    world
        .transfer
        .add_object(ObjectId::Root, manifest.root, manifest.geometry(), Some(0..u64::MAX), [], None)
        .unwrap();
    let mut names = Vec::new();
    let mut packet = Vec::new();
    while world.transfer.poll_transmit(ms(20), &mut packet).is_some() {
        let Ok(xylem_packet::Packet::Interest(i)) = xylem_packet::Packet::decode(&packet) else {
            panic!()
        };
        assert!(!i.can_be_prefix() && !i.must_be_fresh() && i.nonce().is_some());
        assert_eq!(i.lifetime_ms(), 4_000);
        let name = i.name().to_string();
        names.push(name[name.find("/v=").unwrap()..].splitn(3, '/').nth(2).unwrap().to_owned());
    }
    assert_eq!(names[..4], ["32=tree/seq=0/seq=0", "32=tree/seq=0/seq=1", "seg=0", "seg=1"]);
}

#[test]
fn ten_thousand_small_files_arrive() {
    let lengths: Vec<usize> =
        (0..10_000).map(|i| if i % 100 == 7 { 70_000 } else { i % 3_000 }).collect();
    let original = Original::directory(&lengths);
    let mut world = World::new(&original, TransferConfig::default(), 1).peer(
        &original,
        Behaviour::Honest,
        path(20, 0.01).bottleneck(200.0, 500_000),
    );
    world.files = (0..10_000).collect();
    let mut most = 0;
    while !world.is_done() {
        world.run(world.now() + ms(50));
        most = most.max(world.transfer.progress().objects);
    }
    assert_eq!((world.failed.clone(), world.complete.len()), (None, 10_001));
    assert!(most < 6_000, "objects are asked for as they are needed: {most} at once");
}

#[test]
fn objects_come_in_the_order_of_addition() {
    let original = Original::directory(&[100_000; 40]);
    let mut world = World::new(&original, TransferConfig::default(), 1).peer(
        &original,
        Behaviour::Honest,
        path(20, 0.0),
    );
    world.files = (0..40).collect();
    world.run(Duration::from_secs(60));
    let wanted: Vec<ObjectId> =
        core::iter::once(ObjectId::Root).chain((0..40).map(ObjectId::File)).collect();
    assert_eq!(world.complete, wanted);
}

#[test]
fn an_in_order_reader_bounds_the_read_ahead() {
    let original = Original::file(4_000_000);
    let mut world = World::new(&original, TransferConfig::default(), 1)
        .peer(&original, Behaviour::Honest, path(20, 0.05))
        .peer(&original, Behaviour::Honest, path(90, 0.01));
    world.transfer.in_order_window(Some(40));
    while !world.is_done() {
        world.run(world.now() + ms(1));
        assert_eq!(world.failed, None);
        let got = world.got.get(&ObjectId::Root).cloned().unwrap_or_default();
        let first_missing = got.iter().position(|g| !g).unwrap_or(got.len());
        let last_got = got.iter().rposition(|g| *g).unwrap_or(0);
        assert!(last_got < first_missing + 40, "{last_got} while {first_missing} is missing");
    }
}

#[test]
fn a_paused_transfer_asks_nothing_and_does_not_time_out() {
    let original = Original::file(4_000_000);
    let mut world = world(&original);
    world.run(ms(100));
    world.transfer.set_paused(world.now(), true);
    world.run(world.now() + ms(2_000));
    let (bytes, interests) = (world.bytes, world.transfer.progress().interests);
    // Far past the timeout of 30 s: time spent paused does not count.
    world.transfer.handle_timeout(ms(200_000));
    assert_eq!((world.bytes, world.transfer.progress().interests), (bytes, interests));
    world.skip_to(ms(200_000));
    world.transfer.set_paused(world.now(), false);
    world.run(Duration::from_secs(300));
    assert!(world.is_done() && world.failed.is_none());
}

#[test]
fn a_rate_limit_is_kept() {
    let original = Original::file(8_000_000);
    let mut world = World::new(&original, TransferConfig::default(), 1).peer(
        &original,
        Behaviour::Honest,
        path(20, 0.0),
    );
    world.transfer.set_rate_limit(Some(2_000_000));
    world.run(Duration::from_secs(60));
    let rate = world.goodput();
    assert!((1_800_000.0..2_200_000.0).contains(&rate), "{rate}");
}

#[test]
fn objects_beyond_the_limits_are_refused() {
    let original = Original::file(100_000);
    let config = TransferConfig { max_objects: 2, max_segments: 50, ..TransferConfig::default() };
    let mut world = World::new(&original, config, 1);
    let geometry = Geometry::new(100_000, SegmentSize::DEFAULT);
    let root = Hash::from_bytes([1; 32]);
    let mut add = |id, geometry: Geometry, verifier| {
        world.transfer.add_object(id, root, geometry, Some(0..u64::MAX), [], verifier)
    };
    assert_eq!(add(ObjectId::File(0), geometry, None), Ok(()));
    assert_eq!(add(ObjectId::File(0), geometry, None), Err(AddError::AlreadyThere));
    let large = Geometry::new(51 * 8_192, SegmentSize::DEFAULT);
    let too_large = AddError::TooLarge { segments: 51, limit: 50 };
    assert_eq!(add(ObjectId::File(1), large, None), Err(too_large));
    let other = TreeVerifier::new(large, root);
    assert_eq!(add(ObjectId::File(1), geometry, Some(other)), Err(AddError::OtherVerifier));
    let own = TreeVerifier::new(geometry, root);
    assert_eq!(add(ObjectId::File(1), geometry, Some(own)), Ok(()));
    assert_eq!(add(ObjectId::File(2), geometry, None), Err(AddError::TooMany(2)));
}

#[test]
fn content_is_a_slice_of_the_packet() {
    let original = Original::file(100);
    let mut world = World::new(&original, TransferConfig::default(), 1);
    world.transfer.add_peer(ms(0), PeerId(0));
    let mut producer = sim::Producer::new(original.clone(), Behaviour::Honest);
    let mut packet = Vec::new();
    let mut now = 0;
    while world.transfer.poll_transmit(ms(now), &mut packet).is_some() {
        now += 10;
        let Some(sim::Reply::Data(data)) = producer.reply(&packet).pop() else { panic!() };
        let data = Bytes::from(data);
        let place = data.as_ptr_range();
        world.transfer.handle_data(ms(now), PeerId(0), data.clone());
        while let Some(event) = world.transfer.poll_event() {
            if let TransferEvent::Manifest { manifest, .. } = &event {
                let geometry = manifest.geometry();
                let added = world.transfer.add_object(
                    ObjectId::Root,
                    manifest.root,
                    geometry,
                    Some(0..1),
                    [],
                    None,
                );
                added.unwrap();
            }
            if let TransferEvent::Segment { segment, .. } = event {
                assert!(place.contains(&segment.content.as_ptr()));
                return;
            }
        }
    }
    panic!("no segment came");
}
