use super::*;
use crate::ms;

/// Arrivals of the copies of 1,000-byte packets, sent one every millisecond.
fn arrivals(
    conditions: Conditions,
    seed: u64,
    packets: u32,
) -> (Vec<Vec<PathDelivery>>, PathCounts) {
    let mut path = Path::new(conditions, seed);
    let arrived = (0..packets).map(|n| path.send(ms(1) * n, 1_000, true).collect()).collect();
    (arrived, path.counts)
}

/// Asserts that `count` is the `share` of `of`, within four standard deviations.
fn assert_about(count: u64, share: f64, of: u64) {
    let expected = share * of as f64;
    let most = 4.0 * (expected * (1.0 - share)).sqrt();
    assert!((count as f64 - expected).abs() <= most, "{count} where {expected} is expected");
}

#[test]
fn a_perfect_path_delivers_at_once() {
    let (arrived, counts) = arrivals(Conditions::PERFECT, 1, 100);
    for (n, copies) in (0..).zip(arrived) {
        assert_eq!(copies, [PathDelivery { at: ms(n), marked: false, flipped: None }]);
    }
    assert_eq!(counts, PathCounts { sent: 100, bytes: 100_000, ..PathCounts::default() });
}

#[test]
fn packets_keep_their_order_and_take_the_delay() {
    let (arrived, _) = arrivals(Conditions { delay: ms(10), ..Conditions::PERFECT }, 1, 5);
    assert!(arrived.iter().flatten().map(|d| d.at).eq((10..15).map(ms)));
}

#[test]
fn shares_are_as_stated() {
    let faults = Conditions {
        loss: 0.2,
        duplicate: 0.1,
        damage: 0.05,
        late: 0.25,
        late_by: ms(50),
        ..Conditions::PERFECT
    };
    for seed in 0..5 {
        let (arrived, counts) = arrivals(faults, seed, 20_000);
        let copies: Vec<_> = arrived.iter().flatten().collect();
        assert_about(counts.lost, 0.2, 20_000);
        assert_about(counts.duplicated, 0.1, 20_000 - counts.lost);
        assert_about(counts.damaged, 0.05, copies.len() as u64);
        assert_eq!(counts.damaged, copies.iter().filter(|d| d.flipped.is_some()).count() as u64);
        assert!(copies.iter().all(|d| d.flipped.is_none_or(|bit| bit < 8_000)));
        let late =
            (0..).zip(&arrived).flat_map(|(n, copies)| copies.iter().map(move |d| d.at - ms(n)));
        let late: Vec<_> = late.filter(|late| !late.is_zero()).collect();
        assert_about(late.len() as u64, 0.25, copies.len() as u64);
        assert!(late.iter().max() < Some(&ms(50)) && late.iter().max() > Some(&ms(49)));
    }
}

#[test]
fn jitter_is_within_its_limit_and_overtakes() {
    let (arrived, _) = arrivals(Conditions { jitter: ms(5), ..Conditions::PERFECT }, 1, 1_000);
    let at: Vec<_> = arrived.iter().flatten().map(|d| d.at).collect();
    assert!((0..).zip(&at).all(|(n, at)| (ms(n)..ms(n + 5)).contains(at)));
    assert!(!at.is_sorted());
}

#[test]
fn one_seed_gives_one_sequence_of_arrivals() {
    let bad = Conditions {
        jitter: ms(3),
        late: 0.1,
        late_by: ms(9),
        loss: 0.1,
        duplicate: 0.1,
        damage: 0.1,
        ..Conditions::PERFECT.bottleneck(8.0, 10_000)
    };
    assert_eq!(arrivals(bad, 7, 1_000), arrivals(bad, 7, 1_000));
    assert_ne!(arrivals(bad, 7, 1_000).0, arrivals(bad, 8, 1_000).0);
}

/// 8 Mbit/s is a byte a microsecond.
#[test]
fn a_rate_spaces_packets_and_a_full_queue_drops_them() {
    let mut path = Path::new(Conditions::PERFECT.bottleneck(8.0, 10_000), 1);
    let mut burst = |now| -> Vec<_> {
        (0..20).flat_map(|_| path.send(now, 1_000, true)).map(|d| d.at).collect()
    };
    assert_eq!(burst(ms(0)), (1..=10).map(ms).collect::<Vec<_>>());
    assert_eq!(burst(ms(5)), (11..=15).map(ms).collect::<Vec<_>>());
    assert_eq!((path.counts.overflowed, path.counts.most_waiting), (25, 10_000));
    assert_eq!(path.waiting(ms(5)), 10_000.0);
    path.conditions.rate /= 2.0;
    assert_eq!(path.waiting(ms(5)), 5_000.0, "what waits takes as long as it would have");
}

#[test]
fn ecn_packets_are_marked_above_the_threshold() {
    let narrow = Conditions { mark_above: 4_000, ..Conditions::PERFECT.bottleneck(8.0, 10_000) };
    for (ecn, marks) in [(true, 5), (false, 0)] {
        let mut path = Path::new(narrow, 1);
        let marked = (0..10).flat_map(|_| path.send(ms(0), 1_000, ecn)).map(|d| d.marked);
        assert!(marked.eq((0..10).map(|n| ecn && n >= 5)));
        assert_eq!(path.counts.marked, marks);
    }
}

#[test]
fn drops_by_cut_size_and_ecn_are_counted() {
    let mut path = Path::new(Conditions { mtu: 1_500, ..Conditions::PERFECT }, 1);
    assert_eq!(path.send(ms(0), 1_501, false).count(), 0);
    assert_eq!(path.send(ms(0), 1_500, false).count(), 1);
    path.conditions.drops_ecn = true;
    assert_eq!(path.send(ms(0), 1_500, true).count(), 0);
    assert_eq!(path.send(ms(0), 1_500, false).count(), 1);
    path.conditions.cut = true;
    assert_eq!(path.send(ms(0), 100, false).count(), 0);
    let PathCounts { sent, too_large, ecn_dropped, cut, .. } = path.counts;
    assert_eq!((sent, too_large, ecn_dropped, cut), (5, 1, 1, 1));
}

#[test]
fn a_flipped_bit_is_one_bit() {
    let delivery = PathDelivery { at: ms(0), marked: false, flipped: Some(11) };
    assert_eq!(delivery.packet(&[0, 0xff, 0]), [0, 0xf7, 0]);
    assert_eq!(PathDelivery { flipped: None, ..delivery }.packet(&[1, 2]), [1, 2]);
}
