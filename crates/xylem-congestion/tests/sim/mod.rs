//! Virtual time: flows that always have something to send, over one bottleneck with a buffer, each
//! with a delay of its own. Every packet is acknowledged by itself, as Data answer Interests. One seed
//! decides what is lost and what comes late.
#![allow(dead_code)] // each test binary uses a part of it
#![allow(missing_docs)] // read together with the tests

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use xylem_congestion::{Algorithm, Controller, Pacer, Rtt, Sent, TimeoutLimits};

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What the flows share.
#[derive(Clone)]
pub struct Path {
    /// Bits a second, from these times on.
    pub rates: Vec<(Duration, f64)>,
    /// Bytes that wait at most; more are dropped.
    pub buffer: f64,
    /// Bytes that wait when a packet comes from which on it is marked.
    pub mark_from: f64,
    pub loss: f64,
    /// Share of packets that come up to `late_by` late.
    pub late: f64,
    pub late_by: Duration,
    pub packet: u64,
    /// Datagrams that a packet travels in: lost one by one. And how many the flows are told of.
    pub datagrams: u64,
    pub told: u32,
}

impl Path {
    /// A path of `mbit` with a buffer of `round_trips` of `rtt`.
    pub fn new(mbit: f64, rtt: Duration, round_trips: f64) -> Self {
        Self {
            rates: vec![(ms(0), mbit * 1e6)],
            buffer: (mbit * 125_000.0 * rtt.as_secs_f64() * round_trips).max(20_000.0),
            mark_from: f64::INFINITY,
            loss: 0.0,
            late: 0.0,
            late_by: ms(0),
            packet: 1_200,
            datagrams: 1,
            told: 1,
        }
    }

    /// Packets of 8,700 bytes, each in six datagrams; the flows know it, or do not.
    pub fn in_six(self, told: bool) -> Self {
        Self { packet: 8_700, datagrams: 6, told: if told { 6 } else { 1 }, ..self }
    }

    pub fn loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    pub fn then(mut self, at: Duration, mbit: f64) -> Self {
        self.rates.push((at, mbit * 1e6));
        self
    }

    /// Bytes a second.
    fn rate(&self, now: Duration) -> f64 {
        let (_, rate) = self.rates.iter().rev().find(|(at, _)| *at <= now).expect("one from 0 on");
        rate / 8.0
    }
}

struct Flow {
    controller: Controller,
    rtt: Rtt,
    pacer: Pacer,
    round_trip: Duration,
    starts: Duration,
    stops: Duration,
    next: u64,
    in_flight: BTreeMap<u64, Sent>,
    lost: BTreeMap<u64, Sent>,
    bytes: u64,
    newest: u64,
    reordering: u32,
    wakes: Option<Duration>,
    heard: Duration,
    count: Counters,
}

/// What became of a flow's packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub sent: u64,
    pub delivered: u64,
    pub lost: u64,
    pub marked: u64,
}

enum Event {
    Ack { flow: usize, number: u64, marked: bool },
    Wake(usize),
}

pub struct World {
    pub now: Duration,
    path: Path,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    cargo: BTreeMap<u64, Event>,
    serial: u64,
    rng: Rng,
    busy_until: Duration,
    /// Datagrams that came to the bottleneck, and that it had no room for.
    pub offered: u64,
    pub drops: u64,
    /// Time-weighted sum of what waited, and the most.
    waited: f64,
    pub most_waiting: f64,
    since: Duration,
    seen: Duration,
    /// Bytes delivered to each flow since the counters were cleared.
    delivered: Vec<u64>,
}

impl World {
    pub fn new(path: Path) -> Self {
        Self {
            now: ms(0),
            path,
            flows: Vec::new(),
            events: BinaryHeap::new(),
            cargo: BTreeMap::new(),
            serial: 0,
            rng: Rng(1),
            busy_until: ms(0),
            offered: 0,
            drops: 0,
            waited: 0.0,
            most_waiting: 0.0,
            since: ms(0),
            seen: ms(0),
            delivered: Vec::new(),
        }
    }

    pub fn flow(mut self, algorithm: Algorithm, round_trip: Duration) -> Self {
        self.add(algorithm, round_trip, ms(0), Duration::MAX);
        self
    }

    /// A flow that sends from `starts` until `stops`.
    pub fn add(&mut self, a: Algorithm, round_trip: Duration, starts: Duration, stops: Duration) {
        let flow = self.flows.len();
        let mut controller = Controller::new(a, starts, self.path.packet);
        controller.set_packets_per_unit(self.path.told);
        self.flows.push(Flow {
            controller,
            rtt: Rtt::default(),
            pacer: Pacer::default(),
            round_trip,
            starts,
            stops,
            next: 0,
            in_flight: BTreeMap::new(),
            lost: BTreeMap::new(),
            bytes: 0,
            newest: 0,
            reordering: 1,
            wakes: None,
            heard: starts,
            count: Counters::default(),
        });
        self.delivered.push(0);
        self.at(starts, Event::Wake(flow));
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial)));
        self.cargo.insert(self.serial, event);
    }

    fn waiting(&self) -> f64 {
        self.busy_until.saturating_sub(self.now).as_secs_f64() * self.path.rate(self.now)
    }

    pub fn run(&mut self, until: Duration) {
        while let Some(&Reverse((at, serial))) = self.events.peek() {
            if at > until {
                break;
            }
            self.events.pop();
            let waiting = self.waiting();
            self.most_waiting = self.most_waiting.max(waiting);
            self.waited += waiting * (at - self.seen).as_secs_f64();
            (self.now, self.seen) = (at, at);
            let flow = match self.cargo.remove(&serial).expect("one for each serial") {
                Event::Ack { flow, number, marked } => {
                    self.acknowledged(flow, number, marked);
                    flow
                }
                // One that was overtaken by an earlier is void.
                Event::Wake(flow) if self.flows[flow].wakes.is_some_and(|w| w != at) => continue,
                Event::Wake(flow) => {
                    self.flows[flow].wakes = None;
                    flow
                }
            };
            self.find_lost(flow);
            self.send(flow);
        }
        self.now = until;
    }

    fn acknowledged(&mut self, flow: usize, number: u64, marked: bool) {
        let (now, f) = (self.now, &mut self.flows[flow]);
        f.heard = now;
        self.delivered[flow] += self.path.packet;
        f.count.delivered += 1;
        f.count.marked += u64::from(marked);
        if let Some(sent) = f.lost.remove(&number) {
            f.controller.on_late(now, &sent);
            f.reordering = (f.reordering + 1).min(4);
        } else if let Some(sent) = f.in_flight.remove(&number) {
            f.bytes -= sent.bytes();
            f.newest = f.newest.max(number);
            f.rtt.sample(now - sent.sent_at(), ms(0));
            if marked {
                f.controller.on_mark(now, Some(&sent));
            }
            f.controller.on_ack(now, &sent, &f.rtt);
        }
        f.controller.on_ack_end(now, &f.rtt, f.bytes);
    }

    fn find_lost(&mut self, flow: usize) {
        let (now, f) = (self.now, &mut self.flows[flow]);
        let delay = f.rtt.loss_delay(f.reordering);
        while let Some((&number, &sent)) = f.in_flight.first_key_value() {
            if number >= f.newest || sent.sent_at() + delay > now {
                break;
            }
            f.in_flight.remove(&number);
            f.bytes -= sent.bytes();
            f.count.lost += 1;
            f.lost.insert(number, sent);
            f.controller.on_loss(now, &sent);
        }
        let silence = f.rtt.timeout(&TimeoutLimits::PROBE, 0) * 3;
        if !f.in_flight.is_empty() && now > f.heard + silence {
            f.controller.on_persistent_congestion(now);
            (f.bytes, f.heard) = (0, now);
            f.in_flight.clear();
        }
    }

    fn send(&mut self, flow: usize) {
        let f = &self.flows[flow];
        if self.now < f.starts || self.now >= f.stops {
            return;
        }
        let packet = self.path.packet;
        loop {
            let (now, f) = (self.now, &mut self.flows[flow]);
            let (rate, burst) = (f.controller.pacing_rate(), f.controller.burst());
            let room = f.bytes + packet <= f.controller.window();
            if !room || !f.pacer.ready(now, rate, burst) {
                let token = if room { f.pacer.next(rate, burst) } else { None };
                let timer = (!f.in_flight.is_empty()).then(|| now + f.rtt.loss_delay(4));
                let wake = token.into_iter().chain(timer).min();
                if let Some(wake) = wake
                    && f.wakes.is_none_or(|at| at > wake)
                {
                    f.wakes = Some(wake);
                    self.at(wake, Event::Wake(flow));
                }
                return;
            }
            f.pacer.spend(packet);
            let sent = f.controller.on_sent(now, packet, f.bytes);
            f.bytes += packet;
            f.count.sent += 1;
            f.in_flight.insert(f.next, sent);
            f.next += 1;
            let number = f.next - 1;
            self.carry(flow, number);
        }
    }

    fn carry(&mut self, flow: usize, number: u64) {
        let waiting = self.waiting();
        let (mut arrives, mut whole) = (self.now, true);
        for _ in 0..self.path.datagrams {
            let leaves = self.queue_one();
            whole &= leaves.is_some() && self.rng.share() >= self.path.loss;
            arrives = leaves.unwrap_or(arrives);
        }
        if !whole {
            return;
        }
        arrives += self.flows[flow].round_trip;
        if self.rng.share() < self.path.late {
            arrives += self.path.late_by.mul_f64(self.rng.share());
        }
        let marked = waiting >= self.path.mark_from;
        self.at(arrives, Event::Ack { flow, number, marked });
    }

    /// When the bottleneck lets a datagram go that comes now; `None`: it is full.
    fn queue_one(&mut self) -> Option<Duration> {
        let bytes = self.path.packet as f64 / self.path.datagrams as f64;
        self.offered += 1;
        if self.waiting() + bytes > self.path.buffer {
            self.drops += 1;
            return None;
        }
        let takes = Duration::from_secs_f64(bytes / self.path.rate(self.now));
        self.busy_until = self.now.max(self.busy_until) + takes;
        Some(self.busy_until)
    }

    /// Counts from now on.
    pub fn clear(&mut self) {
        (self.waited, self.most_waiting, self.since) = (0.0, 0.0, self.now);
        (self.offered, self.drops) = (0, 0);
        self.delivered.iter_mut().for_each(|d| *d = 0);
        self.flows.iter_mut().for_each(|f| f.count = Counters::default());
    }

    /// Megabits a second of each flow since `clear`.
    pub fn mbit(&self, flow: usize) -> f64 {
        self.delivered[flow] as f64 * 8e-6 / (self.now - self.since).as_secs_f64()
    }

    /// How long a packet waited on average since `clear`, at the rate of now.
    pub fn queue(&self) -> Duration {
        let bytes = self.waited / (self.now - self.since).as_secs_f64();
        Duration::from_secs_f64(bytes / self.path.rate(self.now))
    }

    pub fn counters(&self, flow: usize) -> Counters {
        self.flows[flow].count
    }

    pub fn controller(&self, flow: usize) -> &Controller {
        &self.flows[flow].controller
    }
}
