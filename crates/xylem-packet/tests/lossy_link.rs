//! Two link services with a bad link between them, under virtual time, from a seed.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BinaryHeap, HashMap};

use proptest::prelude::*;
use xylem_packet::link_service::{LinkHeaders, LinkService, LinkServiceConfig};

/// splitmix64: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The link: its loss, duplication and delays of frames.
#[derive(Debug, Clone, Copy)]
struct Link {
    loss_percent: u64,
    duplicate_percent: u64,
    /// Delays are 5 ms plus up to this much, so frames overtake each other.
    jitter_us: u64,
}

/// A timed step; the number keeps simultaneous steps in order.
type Event = Reverse<(Duration, u64, Step)>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Side 0 or 1 sends packet n.
    Send(usize, u64),
    /// A frame reaches a side.
    Arrive(usize, Vec<u8>),
}

struct World {
    random: Random,
    link: Link,
    now: Duration,
    events: BinaryHeap<Event>,
    serial: u64,
    sides: [LinkService; 2],
    /// Number of arrivals of each packet from the other side.
    arrived: [HashMap<u64, u32>; 2],
    mtu: usize,
}

/// Packet n: bytes, length and headers follow from n.
fn packet(n: u64) -> (Vec<u8>, Option<[u8; 8]>) {
    let mut random = Random(n);
    let len = match random.below(3) {
        0 => 10 + random.below(240) as usize,
        1 => 260 + random.below(1500) as usize,
        _ => 260 + random.below(8500) as usize,
    };
    let mut bytes = match len {
        0..=250 => vec![5, (len - 2) as u8],
        _ => [&[6, 253], &((len - 4) as u16).to_be_bytes()[..]].concat(),
    };
    bytes.extend_from_slice(&n.to_be_bytes());
    while bytes.len() < len {
        bytes.push(random.next() as u8);
    }
    (bytes, random.chance(50).then(|| n.to_le_bytes()))
}

/// The number of a received packet, which must equal that packet in every byte.
fn number_of(bytes: &[u8], token: Option<&[u8]>) -> u64 {
    let start = if bytes[0] == 5 { 2 } else { 4 };
    let n = u64::from_be_bytes(bytes[start..start + 8].try_into().unwrap());
    let (expected, with) = packet(n);
    assert!(bytes == expected, "packet {n} is damaged");
    assert_eq!(token, with.as_ref().map(|token| &token[..]));
    n
}

impl World {
    fn new(seed: u64, link: Link, config: LinkServiceConfig) -> Self {
        let service =
            |first_sequence| LinkService::new(LinkServiceConfig { first_sequence, ..config });
        World {
            random: Random(seed),
            link,
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            serial: 0,
            sides: [service(seed), service(u64::MAX - 20)],
            arrived: [HashMap::new(), HashMap::new()],
            mtu: config.mtu,
        }
    }

    fn at(&mut self, when: Duration, what: Step) {
        self.serial += 1;
        self.events.push(Reverse((when, self.serial, what)));
    }

    /// Sends frames on the link to side `to`.
    fn transmit(&mut self, to: usize, frames: Vec<Vec<u8>>) {
        for frame in frames {
            assert!(frame.len() <= self.mtu);
            let copies = 1 + u64::from(self.random.chance(self.link.duplicate_percent));
            for _ in 0..copies {
                if !self.random.chance(self.link.loss_percent) {
                    let jitter = self.random.below(self.link.jitter_us + 1);
                    let when = self.now + Duration::from_micros(5000 + jitter);
                    self.at(when, Step::Arrive(to, frame.clone()));
                }
            }
        }
    }

    fn happen(&mut self, what: Step) {
        let mut frames = Vec::new();
        let mut emit = |frame: &[u8]| frames.push(frame.to_vec());
        match what {
            Step::Send(side, n) => {
                let (bytes, token) = packet(n);
                let pit_token = token.as_ref().map(|token| &token[..]);
                let headers = LinkHeaders { pit_token, ..LinkHeaders::default() };
                self.sides[side].send(self.now, &bytes, &headers, 0, &mut emit).expect("it fits");
                self.transmit(1 - side, frames);
            }
            Step::Arrive(side, frame) => {
                let received = self.sides[side].receive(self.now, &frame).expect("our own frame");
                if let Some(received) = received {
                    let n = number_of(received.packet, received.headers.pit_token);
                    *self.arrived[side].entry(n).or_default() += 1;
                }
            }
        }
    }

    /// Runs until no frame is on the link and no timer is set.
    fn run(&mut self) {
        loop {
            let timer = (0..2).filter_map(|s| Some((self.sides[s].poll_timeout()?, s))).min();
            let event = self.events.peek().map(|Reverse((when, ..))| *when);
            match (timer, event) {
                (Some((due, side)), event) if event.is_none_or(|event| due <= event) => {
                    self.now = self.now.max(due);
                    let mut frames = Vec::new();
                    self.sides[side]
                        .handle_timeout(self.now, &mut |frame| frames.push(frame.to_vec()));
                    let next = self.sides[side].poll_timeout();
                    assert!(next.is_none_or(|next| next > self.now), "{next:?} at {:?}", self.now);
                    self.transmit(1 - side, frames);
                }
                (_, Some(_)) => {
                    let Some(Reverse((when, _, what))) = self.events.pop() else { return };
                    self.now = when;
                    self.happen(what);
                }
                _ => return,
            }
            for side in &self.sides {
                let (frames, bytes) = side.unacknowledged();
                assert!(frames <= side.config().max_unacknowledged);
                assert!(bytes <= side.config().max_unacknowledged_bytes);
                let (partials, bytes) = side.reassembling();
                assert!(partials <= side.config().max_partial_packets);
                assert!(bytes <= partials * xylem_packet::MAX_PACKET);
            }
        }
    }

    /// `count` packets from each side, at random times within two seconds.
    fn traffic(&mut self, count: u64) {
        for side in 0..2 {
            for n in 0..count {
                let when = Duration::from_micros(self.random.below(2_000_000));
                self.at(when, Step::Send(side, (n << 1) | side as u64));
            }
        }
        self.run();
    }
}

fn links() -> impl Strategy<Value = Link> {
    (0u64..30, 0u64..20, prop_oneof![Just(0u64), Just(300), Just(30_000)]).prop_map(
        |(loss_percent, duplicate_percent, jitter_us)| Link {
            loss_percent,
            duplicate_percent,
            jitter_us,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// With reliability every packet arrives once, whole, or is counted as given up.
    #[test]
    fn reliable_links_lose_only_what_they_give_up(
        seed: u64,
        link in links(),
        mtu in prop_oneof![Just(200usize), Just(1400), Just(8800)],
    ) {
        let config =
            LinkServiceConfig { mtu, fragmentation: true, reliability: true, ..Default::default() };
        let mut world = World::new(seed, link, config);
        world.traffic(150);
        for side in 0..2 {
            let sender = world.sides[1 - side].counters();
            let arrived = &world.arrived[side];
            prop_assert!(arrived.values().all(|times| *times == 1), "{arrived:?}");
            let missing = 150 - arrived.len() as u64;
            prop_assert!(
                missing <= sender.lost + sender.unprotected,
                "{missing} missing, {sender:?}",
            );
            prop_assert_eq!(world.sides[side].unacknowledged(), (0, 0));
            prop_assert_eq!(world.sides[side].reassembling(), (0, 0));
            if link.loss_percent == 0 && link.jitter_us == 0 {
                prop_assert_eq!((missing, sender.retransmitted), (0, 0));
            }
        }
    }

    /// Without reliability a lost fragment loses its packet, and every packet that arrives is whole.
    #[test]
    fn plain_links_damage_nothing(seed: u64, link in links()) {
        let config = LinkServiceConfig { mtu: 1400, fragmentation: true, ..Default::default() };
        let mut world = World::new(seed, link, config);
        world.traffic(150);
        for side in 0..2 {
            let arrived = &world.arrived[side];
            if link.loss_percent == 0 {
                prop_assert_eq!(arrived.len(), 150);
            }
            if link.duplicate_percent == 0 {
                prop_assert!(arrived.values().all(|times| *times == 1));
            }
            prop_assert_eq!(world.sides[side].reassembling(), (0, 0));
        }
    }
}

/// Without acknowledgements for a while, the sender waits long before each retransmission of this packet. The receiver
/// must not give the incomplete packet up before the last one, which the sender counts as delivered.
#[test]
fn late_retransmissions_complete_their_packet() {
    let link = Link { loss_percent: 16, duplicate_percent: 10, jitter_us: 0 };
    let config = LinkServiceConfig {
        mtu: 1400,
        fragmentation: true,
        reliability: true,
        ..Default::default()
    };
    let mut world = World::new(1_116_407_652_106_434_531, link, config);
    world.traffic(150);
    for side in 0..2 {
        let sender = world.sides[1 - side].counters();
        let missing = 150 - world.arrived[side].len() as u64;
        assert!(missing <= sender.lost + sender.unprotected, "{missing} missing, {sender:?}");
    }
}

/// Number of 4,000 packets of up to six frames that arrive, by loss and reliability.
#[test]
fn retransmission_raises_delivery() {
    let delivered = |reliability, loss_percent| {
        let link = Link { loss_percent, duplicate_percent: 0, jitter_us: 200 };
        let config =
            LinkServiceConfig { mtu: 1400, fragmentation: true, reliability, ..Default::default() };
        let mut world = World::new(1, link, config);
        world.traffic(2000);
        world.arrived.iter().map(HashMap::len).sum::<usize>()
    };
    assert_eq!(delivered(false, 0), 4000);
    assert_eq!(delivered(true, 0), 4000);
    assert!(delivered(false, 5) < 3700, "{}", delivered(false, 5));
    // A frame is sent four times: 0.05^4 of about 10,000 frames is below one.
    assert!(delivered(true, 5) > 3990, "{}", delivered(true, 5));
}
