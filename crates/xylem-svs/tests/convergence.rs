//! Groups converge: under loss, reordering and duplicates, after partitions and crashes, and with a vector that does
//! not fit into a packet.

mod world;

use std::collections::HashMap;
use std::time::Duration;

use world::{EPOCH, World};
use xylem_sim::{Conditions, Rng, Simulation, ms};
use xylem_svs::{GroupMember, StateVector, VectorLimits};

/// 45 to 50 ms one way: a round trip of 100 ms at most.
const ROUND_TRIP: Duration = ms(100);

fn bad(loss: f64) -> Conditions {
    Conditions { delay: ms(45), jitter: ms(5), loss, ..Conditions::PERFECT }
}

/// Asserts that a member received each number of each other member exactly once.
fn assert_all_reported(world: &World, index: usize) {
    let mut next: HashMap<&GroupMember, u64> = HashMap::new();
    for (member, from, to) in &world.told[index] {
        let expected = next.entry(member).or_insert(1);
        assert_eq!(*from, *expected, "{index} of {member:?}");
        *expected = to + 1;
    }
    let member = world.members[index].as_ref().unwrap();
    for (other, n) in member.state().iter().filter(|(other, _)| Some(*other) != member.own()) {
        assert_eq!(next.get(other), Some(&(n + 1)), "{index} of {other:?}");
    }
}

/// 1,000 updates by ten members within 10 s; returns how long after the last one all agree.
fn thousand_updates(conditions: Conditions, seed: u64) -> (Duration, u64) {
    let mut world = World::new(10, conditions, VectorLimits::default(), seed);
    let mut rng = Rng::new(!seed);
    world.plan = (0..1000).map(|_| (ms(1000 + rng.below(10_000)), rng.index(10))).collect();
    world.plan.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let last = world.plan[0].0;
    world.run_until(last);
    let took = world.settle(ms(120_000)).expect("all agree");
    assert_eq!(world.union().iter().map(|(_, n)| n).sum::<u64>(), 1000);
    (0..10).for_each(|index| assert_all_reported(&world, index));
    (took, world.sent.iter().sum())
}

#[test]
fn a_thousand_updates_under_loss_converge_within_five_round_trips() {
    let mut worst = Duration::ZERO;
    let (mut all, mut sent) = (Duration::ZERO, 0);
    for seed in 0..100 {
        let (took, interests) = thousand_updates(bad(0.05), seed);
        assert!(took <= 5 * ROUND_TRIP, "seed {seed}: {took:?}");
        worst = worst.max(took);
        all += took;
        sent += interests;
    }
    println!("worst {worst:?}, mean {:?}, {} Interests a run", all / 100, sent / 100);
}

#[test]
fn reordering_and_duplicates_change_nothing() {
    let conditions = Conditions { duplicate: 0.2, ..bad(0.05) }.late(0.1, ms(2000));
    for seed in 0..5 {
        thousand_updates(conditions, seed);
    }
}

#[test]
fn damaged_vectors_are_refused() {
    let conditions = Conditions { damage: 0.1, ..bad(0.0) };
    let mut world = World::new(4, conditions, VectorLimits::default(), 3);
    for round in 0..50 {
        world.publish(round % 4);
        world.run_until(world.now() + ms(20));
    }
    world.settle(ms(120_000)).expect("all agree");
    assert_eq!(world.union().iter().map(|(_, n)| n).collect::<Vec<_>>(), [13, 13, 12, 12]);
    (0..4).for_each(|index| assert_all_reported(&world, index));
}

#[test]
fn a_partition_of_a_minute_heals() {
    for seed in 0..10 {
        let mut world = World::new(10, bad(0.05), VectorLimits::default(), seed);
        world.run_until(ms(2000));
        world.cut(4, true);
        for step in 0..60_usize {
            world.publish(step % 10);
            world.run_until(world.now() + ms(1000));
        }
        assert!(!world.equal());
        world.cut(4, false);
        // No member publishes: the next periodic vector of either side shows what the other lacks.
        let took = world.settle(ms(300_000)).expect("all agree");
        assert!(took <= ms(2 * 33_000), "seed {seed}: {took:?}");
        (0..10).for_each(|index| assert_all_reported(&world, index));
    }
}

#[test]
fn crashed_members_continue_with_their_state_or_as_new_lives() {
    let mut world = World::new(6, bad(0.05), VectorLimits::default(), 9);
    for step in 0..60_usize {
        world.publish(step % 6);
        world.run_until(world.now() + ms(50));
    }
    world.settle(ms(60_000)).unwrap();
    let kept = world.members[1].as_ref().unwrap().state();
    (world.members[1], world.members[2]) = (None, None);
    world.publish(3);
    world.run_until(world.now() + ms(5000));
    // One has kept its state and goes on; the other has lost all and begins again.
    world.start(1, EPOCH, kept);
    world.start(2, EPOCH + 8, StateVector::new());
    assert_eq!(world.publish(1), 11);
    assert_eq!(world.publish(2), 1);
    world.settle(ms(60_000)).expect("all agree");
    let own = |index: usize| world.members[index].as_ref().unwrap().own().unwrap().clone();
    let (all, second) = (world.union(), own(2));
    assert_eq!(all.get(&own(1)), 11);
    assert_eq!(all.get(&second), 1);
    assert_eq!(all.get(&GroupMember::new(second.name, EPOCH)), 10);
    (3..6).for_each(|index| assert_all_reported(&world, index));
}

/// At rest the whole group sends one Interest in 30 s or little more.
#[test]
fn a_group_at_rest_is_quiet() {
    let mut world = World::new(10, bad(0.05), VectorLimits::default(), 4);
    world.publish(0);
    world.run_until(ms(60_000));
    let before: u64 = world.sent.iter().sum();
    world.run_until(ms(660_000));
    let interests = world.sent.iter().sum::<u64>() - before;
    assert!((18..=45).contains(&interests), "{interests} in ten minutes");
}

/// 2,000 members in packets with room for 150: parts, in which the newest members and the sender itself come first.
#[test]
fn a_vector_that_does_not_fit_is_sent_in_parts() {
    let known: StateVector = (0..2000)
        .map(|n| {
            let name = xylem_packet::Name::from_uri(&format!("/other/{n}")).unwrap();
            (GroupMember::new(name, EPOCH), 5)
        })
        .collect();
    let mut world = World::new(4, bad(0.05), VectorLimits::default(), 8);
    for index in 0..3 {
        world.start(index, EPOCH, known.clone());
    }
    // The fourth member starts without state, and receives all of it; after losses, some of it in later parts.
    world.run_until(ms(20_000));
    let joined = world.members[3].as_ref().unwrap().state().len();
    assert!(joined > 1700, "{joined}");
    // Meanwhile a new publication is sent at once.
    world.publish(0);
    world.publish(3);
    let (first, fourth) = (0, 3);
    world.run_until(world.now() + 10 * ROUND_TRIP);
    let own = |index: usize| world.members[index].as_ref().unwrap().own().unwrap().clone();
    for member in world.members.iter().flatten() {
        assert_eq!((member.sequence(&own(first)), member.sequence(&own(fourth))), (1, 1));
    }
    world.settle(ms(3_600_000)).expect("all agree in the end");
    // Parts do not make members answer each other for ever.
    let before: u64 = world.sent.iter().sum();
    world.run_until(world.now() + ms(600_000));
    let interests = world.sent.iter().sum::<u64>() - before;
    assert!(interests <= 45, "{interests} in ten minutes");
}
