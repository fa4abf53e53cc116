//! Tests that everything arrives over networks that lose, delay, reorder and duplicate packets.

mod sim;

use std::time::Duration;

use sim::{Behaviour, Original, World, ms, path};
use xylem_congestion::CongestionAlgorithm;
use xylem_object::{ObjectId, naming};
use xylem_packet::Component;
use xylem_sim::{Conditions, Path};
use xylem_transfer::{PeerId, TransferConfig};

const LOSSES: [f64; 5] = [0.0, 0.001, 0.01, 0.05, 0.20];
const ROUND_TRIPS: [u64; 4] = [1, 20, 100, 300];

fn fetch(original: &Original, nets: &[Conditions], seed: u64) -> World {
    fetch_with(original, nets, seed, None)
}

fn fetch_with(
    original: &Original,
    nets: &[Conditions],
    seed: u64,
    algorithm: Option<CongestionAlgorithm>,
) -> World {
    let config = TransferConfig { congestion: algorithm, ..TransferConfig::default() };
    let mut world = World::new(original, config, seed);
    for net in nets {
        world = world.peer(original, Behaviour::Honest, *net);
    }
    world.run(Duration::from_secs(3_600));
    assert_eq!(world.failed, None, "{:?} at {:?}", world.transfer.progress(), world.now());
    assert_eq!(world.complete, [ObjectId::Root]);
    let segments = original.objects[&ObjectId::Root].geometry.segments();
    assert_eq!(world.segments_got(ObjectId::Root), segments);
    assert_eq!(world.blamed, [], "honest peers are not blamed");
    // Each of the 2N - 1 real nodes was reported once.
    assert_eq!(world.nodes[&ObjectId::Root] as u64, 2 * segments - 1);
    world
}

#[test]
fn everything_arrives_despite_loss_and_delay() {
    let original = Original::file(1_000_000);
    for loss in LOSSES {
        for rtt in ROUND_TRIPS {
            let world = fetch(&original, &[path(rtt, loss)], rtt);
            let rounds = world.now().as_secs_f64() / (rtt as f64 / 1e3);
            // For 123 segments slow start takes about 5 round trips. Losses may cost some time, but not much more.
            let most = if loss < 0.02 { 25.0 } else { 25.0 + 1_500.0 * loss };
            assert!(rounds < most, "loss {loss}, {rtt} ms: {rounds} round trips");
        }
    }
}

/// One content may be published under several names. Each peer is asked under the name that it has.
#[test]
fn peers_that_have_the_content_under_other_names_share_the_work() {
    let original = Original::file(1_000_000);
    let mut renamed = original.clone();
    renamed.prefix =
        naming::versioned(original.prefix.child(Component::generic(b"again")).as_ref(), 1).unwrap();
    let config = TransferConfig::default();
    let mut world = World::new(&original, config, 5)
        .direct_peer(&original, Behaviour::Honest, path(20, 0.01))
        .direct_peer(&renamed, Behaviour::Honest, path(20, 0.01));
    world.transfer.set_prefix(PeerId(1), renamed.prefix);
    world.run(Duration::from_secs(600));
    assert_eq!(world.failed, None);
    assert_eq!(world.blamed, []);
    assert_eq!(world.complete, [ObjectId::Root]);
    assert!(world.shares().iter().all(|share| *share > 0.2), "{:?}", world.shares());
}

#[test]
fn everything_arrives_despite_reordering_duplicates_and_a_short_queue() {
    let original = Original::file(2_000_000);
    for rtt in [1, 20, 100] {
        let base = path(rtt, 0.01);
        fetch(&original, &[base.late(0.3, ms(rtt))], 1);
        fetch(&original, &[Conditions { duplicate: 0.1, ..base }], 2);
        fetch(&original, &[base.bottleneck(50.0, 100_000)], 3);
        fetch(
            &original,
            &[Conditions { duplicate: 0.05, ..base }
                .late(0.1, ms(rtt / 2))
                .bottleneck(20.0, 60_000)],
            4,
        );
    }
}

#[test]
fn sizes_around_segment_and_tile_boundaries_arrive() {
    let segment = 8_192;
    for len in [0, 1, segment - 1, segment, segment + 1, 8 * segment, 8 * segment + 1, 9 * segment]
    {
        fetch(&Original::file(len), &[path(20, 0.05)], len as u64);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let original = Original::file(500_000);
    let run = |seed| {
        let net = Conditions { duplicate: 0.02, ..path(20, 0.05).late(0.1, ms(5)) };
        let world = fetch(&original, &[net, net], seed);
        (world.now(), world.transfer.progress())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn a_lossless_path_is_filled() {
    // 50 Mbit/s, 40 ms, a queue of one bandwidth-delay product.
    let original = Original::file(24_000_000);
    let world = fetch(&original, &[path(40, 0.0).bottleneck(50.0, 250_000)], 1);
    let share = world.goodput() / 6_250_000.0;
    assert!(share > 0.80, "{:.0} % of the path, {:?}", share * 100.0, world.transfer.progress());
}

#[test]
fn two_peers_together_are_faster() {
    let original = Original::file(16_000_000);
    let net = || path(40, 0.0).bottleneck(20.0, 100_000);
    let one = fetch(&original, &[net()], 1);
    let two = fetch(&original, &[net(), net()], 1);
    assert!(two.goodput() > 1.6 * one.goodput(), "{} and {}", one.goodput(), two.goodput());
}

#[test]
fn a_slow_peer_does_not_delay_the_end() {
    let original = Original::file(8_000_000);
    let fast = path(10, 0.0).bottleneck(100.0, 250_000);
    let slow = path(300, 0.0).bottleneck(0.2, 500_000);
    let alone = fetch(&original, std::slice::from_ref(&fast), 1);
    let both = fetch(&original, &[fast, slow], 1);
    assert!(both.now() < alone.now() * 3 / 2, "{:?} alone, {:?} together", alone.now(), both.now());
}

#[test]
fn reordering_is_learnt_and_costs_no_window() {
    // A fifth of all packets arrives up to half a round trip late. Without learning, each would cost a window.
    let original = Original::file(16_000_000);
    let net = path(40, 0.0).late(0.2, ms(20)).bottleneck(100.0, 500_000);
    let world = fetch(&original, &[net], 1);
    let share = world.goodput() / 12_500_000.0;
    assert!(share > 0.5, "{:.0} % of the path, {:?}", share * 100.0, world.transfer.progress());
}

/// Routers mark packets instead of dropping them: nothing is lost, queues stay short, and the path is filled.
#[test]
fn marks_keep_a_queue_short_without_loss() {
    let original = Original::file(24_000_000);
    for congestion in [CongestionAlgorithm::Cubic, CongestionAlgorithm::Bbr] {
        // 50 Mbit/s, 40 ms: 250 KB fill the path. The queue marks from 60 KB on and holds 2 MB.
        let unmarked = path(40, 0.0).bottleneck(50.0, 2_000_000);
        let net = Conditions { mark_above: 60_000, ..unmarked };
        let world = fetch_with(&original, &[net], 1, Some(congestion));
        let (counts, progress) = (world.peers[0].down.counts, world.transfer.progress());
        assert_eq!((progress.lost, counts.overflowed), (0, 0), "{congestion}");
        assert!(counts.marked > 0, "{congestion}");
        assert!(counts.most_waiting < 600_000, "{congestion}: {counts:?}");
        let share = world.goodput() / 6_250_000.0;
        assert!(share > 0.80, "{congestion}: {:.0} % of the path", share * 100.0);
        if congestion == CongestionAlgorithm::Cubic {
            let without = fetch_with(&original, &[unmarked], 1, Some(congestion));
            assert!(without.peers[0].down.counts.most_waiting > 2 * counts.most_waiting);
        }
    }
}

/// BBR sustains its rate under losses that are not caused by load.
#[test]
fn bbr_fills_a_long_lossy_path() {
    let original = Original::file(24_000_000);
    let net = || path(100, 0.01).bottleneck(100.0, 1_250_000);
    let cubic = fetch_with(&original, &[net()], 1, Some(CongestionAlgorithm::Cubic));
    let bbr = fetch_with(&original, &[net()], 1, None);
    let (cubic, bbr) = (cubic.goodput(), bbr.goodput());
    assert!(bbr > 3.0 * cubic, "{bbr} and {cubic} bytes a second");
}

/// The first Interest is lost, and the link has measured the path's round trip. The repeated request is answered within
/// three such round trips, not after the second that an unknown path gets.
#[test]
fn a_lost_first_interest_costs_some_round_trips() {
    let original = Original::file(100_000);
    let finished = |rtt: Option<Duration>| {
        let world = World::new(&original, TransferConfig::default(), 1);
        let mut world = world.peer(&original, Behaviour::Honest, path(100, 0.0));
        world.transfer.expect_round_trip(PeerId(0), rtt);
        world.peers[0].up = Path::new(path(100, 1.0), 1);
        world.run(ms(1));
        world.peers[0].up = Path::new(path(100, 0.0), 1);
        world.run(Duration::from_secs(60));
        assert_eq!(world.complete, [ObjectId::Root]);
        world.now()
    };
    let (unknown, known) = (finished(None), finished(Some(ms(100))));
    assert!(unknown > Duration::from_secs(1), "{unknown:?}");
    assert!(unknown - known >= ms(600), "{known:?} and {unknown:?}");
}

/// The answer comes after the third request, when the link's round trip predicts it. Then the first window is lost.
/// That is detected after one wait, not after one four times as long.
#[test]
fn an_answer_at_the_expected_time_resets_the_backoff() {
    let original = Original::file(100_000);
    let world = World::new(&original, TransferConfig::default(), 1);
    let mut world = world.peer(&original, Behaviour::Honest, path(100, 0.0));
    world.transfer.expect_round_trip(PeerId(0), Some(ms(100)));
    let all_lost = |world: &mut World, lost: bool, until: u64| {
        world.peers[0].up = Path::new(path(100, if lost { 1.0 } else { 0.0 }), 1);
        world.run(ms(until));
    };
    // Requests leave at 0, 300 and 900 ms; the answer arrives at 1,000 ms.
    all_lost(&mut world, true, 800);
    all_lost(&mut world, false, 950);
    all_lost(&mut world, true, 1_050);
    all_lost(&mut world, false, 60_000);
    assert_eq!(world.complete, [ObjectId::Root]);
    assert!(world.now() < ms(1_900), "{:?}", world.now());
}

/// The link is short but the answers take long: the peer at its other end fetches them from far away, or from a slow
/// disk. A few items are requested twice until that is known; nothing else differs.
#[test]
fn answers_may_take_far_longer_than_the_link() {
    for (trip, size, sooner) in
        [(20, 3_000_000, 0), (300, 30_000, 4), (300, 3_000_000, 4), (1000, 3_000_000, 6)]
    {
        let original = Original::file(size);
        let fetched = |link: Option<Duration>| {
            let world = World::new(&original, TransferConfig::default(), 1);
            let mut world = world.direct_peer(&original, Behaviour::Honest, path(trip, 0.0));
            world.transfer.expect_round_trip(PeerId(0), link);
            world.run(Duration::from_secs(60));
            assert_eq!(world.complete, [ObjectId::Root]);
            let stats = world.transfer.peers(world.now()).next().expect("it is still there");
            assert_eq!(stats.round_trip, Some(ms(trip)), "measured, over a link of {link:?}");
            (world.now(), world.transfer.progress().interests)
        };
        let (took, asked) = fetched(None);
        for link in [Duration::ZERO, Duration::from_micros(100), ms(10)] {
            let (also_took, also_asked) = fetched(Some(link));
            assert!(also_took <= took + ms(trip) / 10, "{trip} ms: {also_took:?}, not {took:?}");
            assert!(also_asked <= asked + sooner, "{trip} ms: {also_asked}, not {asked}");
        }
    }
}
