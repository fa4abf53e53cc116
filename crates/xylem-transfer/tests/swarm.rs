//! Tests with many peers: partial peers are used for what they have, fetchers serve each other, dishonest and vanished
//! peers delay nothing, and every peer with room is asked.
#![allow(clippy::single_range_in_vec_init)] // lists of runs, some with one run

mod sim;

use std::time::Duration;

use sim::{Behaviour, Original, Role, Swarm, World, ms, path};
use xylem_object::{Have, ObjectId, sign_manifest};
use xylem_packet::{InterestBuilder, Packet};
use xylem_sim::Conditions;
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent};

const MBIT: f64 = 50.0;
const LIMIT: Duration = Duration::from_secs(300);

fn swarm(original: &Original, fetchers: usize) -> Swarm {
    let mut swarm = Swarm::new(original, ms(20), 1).node(Role::Source, MBIT);
    for _ in 0..fetchers {
        swarm = swarm.node(Role::Fetcher, MBIT);
    }
    swarm
}

/// Runs the swarm. Returns its duration, and how many copies of everything the source sent.
fn finish(swarm: &mut Swarm, original: &Original) -> (f64, f64) {
    swarm.run(LIMIT);
    let failed: Vec<_> = swarm.nodes.iter().filter_map(|node| node.failed.clone()).collect();
    assert_eq!(failed, []);
    let seconds = swarm.finished().expect("everybody has everything").as_secs_f64();
    let size: usize = original.objects.values().map(|truth| truth.content.len()).sum();
    (seconds, swarm.sent_by_sources() as f64 / size as f64)
}

#[test]
fn fetchers_of_one_source_help_each_other() {
    let original = Original::file(16_000_000);
    let one = finish(&mut swarm(&original, 1), &original);
    let mut all = swarm(&original, 8);
    let eight = finish(&mut all, &original);
    // With the source alone, eight fetchers would take eight times as long and cost it eight times as much.
    assert!(eight.0 < 2.0 * one.0, "{eight:?} and {one:?}");
    assert!(eight.1 < 2.0, "{eight:?}");
    assert!(all.duplicates() < 0.03, "{}", all.duplicates());
    assert!(all.nodes.iter().all(|node| node.blamed.is_empty()));
}

#[test]
fn fetchers_of_one_directory_help_each_other() {
    let original = Original::directory(&(0..300).map(|i| i * 211 % 40_000).collect::<Vec<_>>());
    let one = finish(&mut swarm(&original, 1), &original);
    let four = finish(&mut swarm(&original, 4), &original);
    assert!(four.0 < 3.0 * one.0 && four.1 < 3.0, "{four:?} and {one:?}");
}

#[test]
fn dishonest_peers_cost_little_time() {
    let original = Original::file(8_000_000);
    let honest = finish(&mut swarm(&original, 4), &original);
    for lie in [Role::Refuses, Role::Silent, Role::Garbage] {
        let mut with = swarm(&original, 4).node(lie, MBIT).node(lie, MBIT);
        let (seconds, times) = finish(&mut with, &original);
        assert!(seconds < 2.0 * honest.0 + 1.0, "{lie:?}: {seconds} s, {honest:?}");
        assert!(times < 3.0, "{lie:?}: {times}");
        let liars = [PeerId(5), PeerId(6)];
        let blamed = with.nodes.iter().flat_map(|node| &node.blamed);
        assert!(blamed.clone().all(|peer| liars.contains(peer)), "{lie:?}");
        assert_eq!(blamed.count() > 0, lie == Role::Garbage, "{lie:?}");
    }
}

/// The source leaves once everything it has sent is a whole copy. Some fetchers leave and others join half-way. The
/// fetchers that stay complete the copy from each other.
#[test]
fn fetchers_complete_while_nodes_leave_and_join() {
    let original = Original::file(8_000_000);
    let half = ms(1_000);
    let mut swarm = swarm(&original, 4);
    swarm.add(Role::Fetcher, MBIT, ms(0), Some(half));
    swarm.add(Role::Fetcher, MBIT, ms(0), Some(half));
    swarm.add(Role::Fetcher, MBIT, half, None);
    swarm.add(Role::Selfish, MBIT, half, None);
    let (seconds, times) = finish(&mut swarm, &original);
    assert!(seconds < 10.0 && times < 4.0, "{seconds} s, {times}");
}

#[test]
fn the_source_may_leave_once_everything_is_spread() {
    let original = Original::file(8_000_000);
    let mut swarm = Swarm::new(&original, ms(20), 1);
    swarm.add(Role::Source, MBIT, ms(0), Some(ms(4_000)));
    for _ in 0..4 {
        swarm.add(Role::Fetcher, MBIT, ms(0), None);
    }
    // The other fetchers are slow, and one joins after the source has left.
    swarm.add(Role::Fetcher, 4.0, ms(0), None);
    swarm.add(Role::Fetcher, MBIT, ms(4_500), None);
    finish(&mut swarm, &original);
}

#[test]
fn fetchers_complete_after_a_partition_heals() {
    let original = Original::file(8_000_000);
    let mut swarm = swarm(&original, 6);
    // The source and three fetchers are on one side. On the other side are three fetchers with what they have by then.
    swarm.cut = Some((ms(500)..ms(6_000), 4));
    let (seconds, _) = finish(&mut swarm, &original);
    assert!((6.0..20.0).contains(&seconds), "{seconds}");
}

#[test]
fn in_order_readers_help_each_other() {
    let original = Original::file(4_000_000);
    let one = finish(&mut swarm(&original, 1), &original);
    let mut readers = swarm(&original, 4);
    readers.in_order = Some(128);
    let four = finish(&mut readers, &original);
    assert!(four.0 < 5.0 * one.0, "{four:?} and {one:?}");
}

// ---- one partial peer ----

/// A transfer that has asked peer 0 which segments it has, and the requests to that peer.
struct Asking {
    transfer: Transfer,
    original: Original,
    now: Duration,
    questions: Vec<Vec<u8>>,
    /// Requested segments and tiles, as the ends of their names.
    asked: Vec<String>,
}

impl Asking {
    fn new(original: &Original, peers: u32) -> Self {
        let mut world = World::new(original, TransferConfig::default(), 1);
        let packet = sign_manifest(&original.manifest, original.prefix.as_ref(), &original.key);
        let (guest, mut interest) = (PeerId(u32::MAX), Vec::new());
        assert!(world.transfer.add_peer(ms(0), guest));
        assert_eq!(world.transfer.poll_transmit(ms(0), &mut interest), Some(guest));
        world.transfer.handle_data(ms(0), guest, packet.unwrap().into());
        world.transfer.remove_peer(ms(0), guest);
        (0..peers).for_each(|peer| assert!(world.transfer.add_direct_peer(ms(0), PeerId(peer))));
        let transfer = world.transfer;
        let mut asking = Self {
            transfer,
            original: original.clone(),
            now: ms(0),
            questions: Vec::new(),
            asked: Vec::new(),
        };
        let truth = &original.objects[&ObjectId::Root];
        let (root, geometry) = (truth.root, truth.geometry);
        let all = Some(0..u64::MAX);
        asking.transfer.add_object(ObjectId::Root, root, geometry, all, [], None).unwrap();
        asking
    }

    fn poll(&mut self) {
        let mut packet = Vec::new();
        while let Some(peer) = self.transfer.poll_transmit(self.now, &mut packet) {
            let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else { panic!() };
            let name = interest.name().to_string();
            match name.split_once("/32=have/") {
                Some(_) => self.questions.push(packet.clone()),
                None => {
                    let end = name.split_once("/v=").unwrap().1.split_once('/').unwrap().1;
                    self.asked.push(format!("{}:{end}", peer.0));
                }
            }
        }
        while let Some(event) = self.transfer.poll_event() {
            assert!(!matches!(event, TransferEvent::Failed(_)), "{event:?}");
        }
    }

    /// Answers the last question to peer 0.
    fn tell(&mut self, have: &Have) {
        self.tell_from(0, have);
    }

    /// Answers the last question, which went to this peer.
    fn tell_from(&mut self, peer: u32, have: &Have) {
        let question = self.questions.pop().expect("it was asked");
        let Ok(Packet::Interest(interest)) = Packet::decode(&question) else { panic!() };
        let mut out = Vec::new();
        have.packet(interest.name(), &mut out).unwrap();
        self.transfer.handle_data(self.now, PeerId(peer), out.into());
    }

    /// How many segments and tiles this peer was asked for.
    fn asked_of(&self, peer: u32) -> usize {
        self.asked.iter().filter(|asked| asked.starts_with(&format!("{peer}:"))).count()
    }

    /// Answers the requests to peer 0.
    fn bring(&mut self) {
        let mut producer = sim::Producer::new(self.original.clone(), Behaviour::Honest);
        for end in std::mem::take(&mut self.asked) {
            let end = end.split_once(':').unwrap().1;
            let name = format!("{}/{end}", self.original.prefix);
            let mut wire = Vec::new();
            let name = xylem_packet::Name::from_uri(&name).unwrap();
            InterestBuilder::new(name.as_ref()).encode(&mut wire).unwrap();
            let Some(sim::Reply::Data(data)) = producer.reply(&wire).pop() else { panic!() };
            self.transfer.handle_data(self.now, PeerId(0), data.into());
        }
    }

    fn numbers(&self) -> std::collections::BTreeSet<u64> {
        self.asked.iter().filter_map(|a| a.split_once("seg=")?.1.parse().ok()).collect()
    }
}

fn part(runs: &[std::ops::Range<u64>]) -> Have {
    Have { partial: vec![(ObjectId::Root, runs.to_vec())], ..Have::default() }
}

#[test]
fn a_peer_is_asked_for_what_it_has() {
    let original = Original::file(20_000_000);
    let mut asking = Asking::new(&original, 1);
    asking.transfer.set_paused(ms(0), true);
    asking.poll();
    assert!(asking.questions.is_empty() && asking.asked.is_empty());
    asking.transfer.set_paused(ms(0), false);
    // The question is sent first, and its answer arrives before anything else is asked.
    let mut packet = Vec::new();
    assert!(asking.transfer.poll_transmit(ms(0), &mut packet).is_some());
    asking.questions.push(packet);
    asking.tell(&part(&[5..8, 200..202]));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..10 {
        asking.now += ms(20);
        asking.poll();
        seen.extend(asking.numbers());
        asking.bring();
    }
    assert_eq!(seen, [5, 6, 7, 200, 201].into());
    // Nothing was left to ask the peer for, so the next question was sent soon.
    assert_eq!(asking.questions.len(), 1);
    asking.tell(&part(&[5..10, 200..202]));
    asking.poll();
    assert_eq!(asking.numbers(), [8, 9].into());
    asking.bring();
    asking.now += ms(1_500);
    asking.poll();
    asking.tell(&Have::everything());
    asking.poll();
    assert!(asking.numbers().contains(&0), "{:?}", asking.asked);
    asking.bring();
    for _ in 0..50 {
        asking.now += ms(200);
        asking.poll();
        asking.bring();
    }
    assert!(asking.transfer.is_idle());
    assert_eq!(asking.questions, [] as [Vec<u8>; 0], "who has everything is not asked again");
}

/// An answer to no question, to an older question, or one that cannot be decoded, changes nothing.
#[test]
fn unrequested_lists_of_segments_are_ignored() {
    let original = Original::file(20_000_000);
    let mut asking = Asking::new(&original, 1);
    asking.poll();
    let count = asking.asked.len();
    assert!(count > 3, "who has not answered counts as having everything");
    let question = asking.questions[0].clone();
    asking.transfer.handle_data(asking.now, PeerId(9), question.clone().into());
    asking.tell(&part(&[0..1]));
    asking.questions.push(question);
    let before = asking.transfer.progress().unasked;
    asking.tell(&Have::everything());
    assert_eq!(asking.transfer.progress().unasked, before + 1);
    asking.bring();
    asking.now += ms(20);
    asking.poll();
    assert!(asking.numbers().is_empty(), "it still has one segment only: {:?}", asking.asked);
}

/// Getters that begin together have nothing yet. Each would refuse a window of requests, and be left alone for seconds.
#[test]
fn beside_another_a_new_peer_is_asked_once_its_list_is_here() {
    let original = Original::file(20_000_000);
    for answers in [true, false] {
        let mut asking = Asking::new(&original, 1);
        asking.poll();
        asking.tell(&Have::everything());
        asking.bring();
        asking.now += ms(20);
        assert!(asking.transfer.add_direct_peer(asking.now, PeerId(1)));
        asking.poll();
        assert_eq!((asking.questions.len(), asking.asked_of(1)), (1, 0), "{:?}", asking.asked);
        asking.now += ms(100);
        if answers {
            asking.tell_from(1, &part(&[2_000..2_005]));
            asking.poll();
            assert!((1..=6).contains(&asking.asked_of(1)), "{:?}", asking.asked);
        } else {
            asking.poll();
            assert_eq!(asking.asked_of(1), 0);
            asking.now += ms(1_000);
            asking.poll();
            assert!(asking.asked_of(1) > 3, "it may not know the question: {:?}", asking.asked);
        }
    }
}

#[test]
fn a_peer_that_ignores_the_question_is_asked_for_everything() {
    let original = Original::file(4_000_000);
    let net = || path(20, 0.0).bottleneck(20.0, 100_000);
    let plain = World::new(&original, TransferConfig::default(), 1);
    let mut plain = plain.peer(&original, Behaviour::Honest, net());
    plain.run(LIMIT);
    for behaviour in [Behaviour::Older, Behaviour::Honest] {
        let world = World::new(&original, TransferConfig::default(), 1);
        let mut world = world.direct_peer(&original, behaviour, net());
        world.run(LIMIT);
        assert!(world.is_done() && world.now() < plain.now() * 11 / 10, "{behaviour:?}");
        let questions = world.asked.keys().filter(|name| name.contains("32=have")).count();
        let most = if behaviour == Behaviour::Older { 3 } else { 1 };
        assert!((1..=most).contains(&questions), "{behaviour:?}: {questions}");
        assert_eq!(world.transfer.progress().lost, plain.transfer.progress().lost);
    }
}

// ---- turns ----

fn fetch(original: &Original, nets: &[Conditions], rate: Option<u64>) -> World {
    let mut world = World::new(original, TransferConfig::default(), 1);
    for net in nets {
        world = world.peer(original, Behaviour::Honest, *net);
    }
    world.transfer.set_rate_limit(rate);
    world.run(Duration::from_secs(600));
    assert!(world.is_done() && world.failed.is_none());
    world
}

#[test]
fn equal_peers_serve_equal_parts_under_a_limit() {
    let original = Original::file(16_000_000);
    for rtt in [1, 20, 100] {
        let nets = vec![path(rtt, 0.0).bottleneck(50.0, 625_000); 4];
        for rate in [1_000_000, 4_000_000, 12_000_000] {
            let shares = fetch(&original, &nets, Some(rate)).shares();
            assert!(
                shares.iter().all(|s| (0.15..=0.35).contains(s)),
                "{rtt} ms, {rate}: {shares:?}"
            );
        }
    }
}

#[test]
fn peers_serve_in_proportion_to_their_speed() {
    let original = Original::file(16_000_000);
    let nets = [path(20, 0.0).bottleneck(20.0, 100_000), path(20, 0.0).bottleneck(80.0, 400_000)];
    let free = fetch(&original, &nets, None).shares();
    assert!((0.15..=0.26).contains(&free[0]), "{free:?}");
    let limited = fetch(&original, &nets, Some(6_000_000)).shares();
    assert!((0.10..=0.35).contains(&limited[0]), "{limited:?}");
}

/// One of four peers becomes silent after some time, for a while or for good.
#[test]
fn few_duplicates_arrive_at_the_end() {
    let original = Original::file(16 << 20);
    let net = path(20, 0.0).bottleneck(50.0, 125_000);
    for behaviour in [Behaviour::Honest, Behaviour::DiesAfter(200)] {
        let mut world = World::new(&original, TransferConfig::default(), 1);
        for stalls in [false, false, false, true] {
            let behaviour = if stalls { behaviour } else { Behaviour::Honest };
            world = world.peer(&original, behaviour, net);
        }
        world.run(Duration::from_secs(60));
        assert!(world.is_done());
        let twice = world.transfer.progress().duplicates as f64 / 2_048.0;
        assert!(twice < 0.01, "{behaviour:?}: {twice}");
    }
}
