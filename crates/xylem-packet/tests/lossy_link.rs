//! Two link services and a bad link between them, under virtual time, from a seed.

use core::ops::ControlFlow;
use core::time::Duration;
use std::collections::HashMap;

use proptest::prelude::*;
use xylem_packet::link_service::{LinkHeaders, LinkService, LinkServiceConfig};
use xylem_sim::{Conditions, EventQueue, Path, Rng, Simulation, ms, percent};

enum Event {
    /// Side 0 or 1 sends packet n.
    Send(usize, u64),
    /// A frame reaches a side.
    Arrive(usize, Vec<u8>),
}

struct World {
    queue: EventQueue<Event>,
    /// Towards side 0 and 1.
    paths: [Path; 2],
    sides: [LinkService; 2],
    /// How often each packet of the other side has arrived.
    arrived: [HashMap<u64, u32>; 2],
    mtu: usize,
}

/// Packet n, whose bytes, length and headers follow from n.
fn packet(n: u64) -> (Vec<u8>, Option<[u8; 8]>) {
    let mut rng = Rng::new(n);
    let len = match rng.below(3) {
        0 => 10 + rng.below(240) as usize,
        1 => 260 + rng.below(1500) as usize,
        _ => 260 + rng.below(8500) as usize,
    };
    let mut bytes = match len {
        0..=250 => vec![5, (len - 2) as u8],
        _ => [&[6, 253], &((len - 4) as u16).to_be_bytes()[..]].concat(),
    };
    bytes.extend_from_slice(&n.to_be_bytes());
    while bytes.len() < len {
        bytes.push(rng.next_u64() as u8);
    }
    (bytes, rng.chance(0.5).then(|| n.to_le_bytes()))
}

/// Which packet it is; it has to be that one to the last byte.
fn number_of(bytes: &[u8], token: Option<&[u8]>) -> u64 {
    let start = if bytes[0] == 5 { 2 } else { 4 };
    let n = u64::from_be_bytes(bytes[start..start + 8].try_into().unwrap());
    let (expected, with) = packet(n);
    assert!(bytes == expected, "packet {n} is damaged");
    assert_eq!(token, with.as_ref().map(|token| &token[..]));
    n
}

impl World {
    fn new(seed: u64, link: Conditions, config: LinkServiceConfig) -> Self {
        let service =
            |first_sequence| LinkService::new(LinkServiceConfig { first_sequence, ..config });
        World {
            queue: EventQueue::new(),
            paths: [seed, !seed].map(|seed| Path::new(link, seed)),
            sides: [service(seed), service(u64::MAX - 20)],
            arrived: [HashMap::new(), HashMap::new()],
            mtu: config.mtu,
        }
    }

    /// Puts frames on the wire to side `to`.
    fn transmit(&mut self, to: usize, frames: Vec<Vec<u8>>) {
        for frame in frames {
            assert!(frame.len() <= self.mtu);
            for delivery in self.paths[to].send(self.queue.now(), frame.len(), false) {
                self.queue.schedule(delivery.at, Event::Arrive(to, delivery.packet(&frame)));
            }
        }
    }

    fn hold_within_limits(&self) {
        for side in &self.sides {
            let (frames, bytes) = side.unacknowledged();
            assert!(frames <= side.config().max_unacknowledged);
            assert!(bytes <= side.config().max_unacknowledged_bytes);
            let (partials, bytes) = side.reassembling();
            assert!(partials <= side.config().max_partial_packets);
            assert!(bytes <= partials * xylem_packet::MAX_PACKET);
        }
    }

    /// `count` packets from each side, at random times within two seconds.
    fn traffic(&mut self, seed: u64, count: u64) {
        let mut rng = Rng::new(seed);
        for side in 0..2 {
            for n in 0..count {
                let when = rng.time_below(ms(2_000));
                self.queue.schedule(when, Event::Send(side, (n << 1) | side as u64));
            }
        }
        // Until nothing is on the wire and no timer runs.
        self.run_until(Duration::MAX);
    }
}

impl Simulation for World {
    type Event = Event;

    fn queue(&mut self) -> &mut EventQueue<Event> {
        &mut self.queue
    }

    fn next_timer(&self) -> Option<Duration> {
        self.sides.iter().filter_map(LinkService::poll_timeout).min()
    }

    fn act(&mut self) -> ControlFlow<()> {
        let now = self.queue.now();
        for side in 0..2 {
            if self.sides[side].poll_timeout().is_some_and(|due| due <= now) {
                let mut frames = Vec::new();
                self.sides[side].handle_timeout(now, &mut |frame| frames.push(frame.to_vec()));
                let next = self.sides[side].poll_timeout();
                assert!(next.is_none_or(|next| next > now), "{next:?} at {now:?}");
                self.transmit(1 - side, frames);
            }
        }
        self.hold_within_limits();
        ControlFlow::Continue(())
    }

    fn handle(&mut self, event: Event) {
        let now = self.queue.now();
        match event {
            Event::Send(side, n) => {
                let (bytes, token) = packet(n);
                let pit_token = token.as_ref().map(|token| &token[..]);
                let headers = LinkHeaders { pit_token, ..LinkHeaders::default() };
                let mut frames = Vec::new();
                let mut emit = |frame: &[u8]| frames.push(frame.to_vec());
                self.sides[side].send(now, &bytes, &headers, 0, &mut emit).expect("it fits");
                self.transmit(1 - side, frames);
            }
            Event::Arrive(side, frame) => {
                let received = self.sides[side].receive(now, &frame).expect("our own frame");
                if let Some(received) = received {
                    let n = number_of(received.packet, received.headers.pit_token);
                    *self.arrived[side].entry(n).or_default() += 1;
                }
            }
        }
        self.hold_within_limits();
    }
}

/// What a link does to frames: they take 5 ms, and with jitter they overtake each other.
fn link(loss: f64, duplicate: f64, jitter: Duration) -> Conditions {
    Conditions { delay: ms(5), jitter, loss, duplicate, ..Conditions::PERFECT }
}

fn links() -> impl Strategy<Value = Conditions> {
    let jitter = prop_oneof![Just(0), Just(300), Just(30_000)].prop_map(Duration::from_micros);
    (0u64..30, 0u64..20, jitter)
        .prop_map(|(loss, duplicate, jitter)| link(percent(loss), percent(duplicate), jitter))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// With reliability every packet arrives once, whole, or is among those given up.
    #[test]
    fn reliable_links_lose_only_what_they_give_up(
        seed: u64,
        link in links(),
        mtu in prop_oneof![Just(200usize), Just(1400), Just(8800)],
    ) {
        let config =
            LinkServiceConfig { mtu, fragmentation: true, reliability: true, ..Default::default() };
        let mut world = World::new(seed, link, config);
        world.traffic(seed, 150);
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
            if link.loss == 0.0 && link.jitter.is_zero() {
                prop_assert_eq!((missing, sender.retransmitted), (0, 0));
            }
        }
    }

    /// Without it, fragments lost are packets lost, and whatever arrives is whole.
    #[test]
    fn plain_links_damage_nothing(seed: u64, link in links()) {
        let config = LinkServiceConfig { mtu: 1400, fragmentation: true, ..Default::default() };
        let mut world = World::new(seed, link, config);
        world.traffic(seed, 150);
        for side in 0..2 {
            let arrived = &world.arrived[side];
            if link.loss == 0.0 {
                prop_assert_eq!(arrived.len(), 150);
            }
            if link.duplicate == 0.0 {
                prop_assert!(arrived.values().all(|times| *times == 1));
            }
            prop_assert_eq!(world.sides[side].reassembling(), (0, 0));
        }
    }
}

/// How many of 4,000 packets of up to six frames arrive, by loss and reliability.
#[test]
fn repetition_is_worth_it() {
    let delivered = |reliability, loss| {
        let link = link(percent(loss), 0.0, Duration::from_micros(200));
        let config =
            LinkServiceConfig { mtu: 1400, fragmentation: true, reliability, ..Default::default() };
        let mut world = World::new(1, link, config);
        world.traffic(1, 2000);
        world.arrived.iter().map(HashMap::len).sum::<usize>()
    };
    assert_eq!(delivered(false, 0), 4000);
    assert_eq!(delivered(true, 0), 4000);
    assert!(delivered(false, 5) < 3700, "{}", delivered(false, 5));
    // A frame is sent four times: 0.05^4 of about 10,000 frames is below one.
    assert!(delivered(true, 5) > 3990, "{}", delivered(true, 5));
}
