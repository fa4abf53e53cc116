//! Flows that always have data to send, over one bottleneck with a buffer, each with its own delay. Every packet is
//! acknowledged by itself, as Data answers an Interest.
#![allow(dead_code)] // each test binary uses a part of it
#![allow(missing_docs)] // read together with the tests

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use xylem_congestion::{CongestionAlgorithm, Controller, Pacer, Rtt, SentPacket, TimeoutLimits};
pub(crate) use xylem_sim::ms;
use xylem_sim::{Conditions, EventQueue, Path, PathCounts, Simulation};

/// The path that the flows share.
#[derive(Clone)]
pub(crate) struct Bottleneck {
    pub conditions: Conditions,
    /// Changes of the rate in megabits a second, with their times.
    pub changes: Vec<(Duration, f64)>,
    pub packet: u64,
    /// Datagrams of one packet, lost one by one; and the number that the flows are given.
    pub datagrams: u64,
    pub told: u32,
}

impl Bottleneck {
    /// A bottleneck of `mbit` megabits a second with a buffer of `round_trips` times `rtt`.
    pub(crate) fn new(mbit: f64, rtt: Duration, round_trips: f64) -> Self {
        let buffer = (mbit * 125_000.0 * rtt.as_secs_f64() * round_trips).max(20_000.0);
        Self {
            conditions: Conditions::PERFECT.bottleneck(mbit, buffer as u64),
            changes: Vec::new(),
            packet: 1_200,
            datagrams: 1,
            told: 1,
        }
    }

    /// Packets of 8,700 bytes, each in six datagrams; `told` if the flows know that.
    pub(crate) fn with_six_datagrams(self, told: bool) -> Self {
        Self { packet: 8_700, datagrams: 6, told: if told { 6 } else { 1 }, ..self }
    }

    pub(crate) fn loss(mut self, loss: f64) -> Self {
        self.conditions.loss = loss;
        self
    }

    pub(crate) fn then(mut self, at: Duration, mbit: f64) -> Self {
        self.changes.push((at, mbit));
        self
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
    in_flight: BTreeMap<u64, SentPacket>,
    lost: BTreeMap<u64, SentPacket>,
    bytes: u64,
    newest: u64,
    reordering: u32,
    wakes: Option<Duration>,
    heard: Duration,
    count: Counters,
}

/// Counters of a flow's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub sent: u64,
    pub delivered: u64,
    pub lost: u64,
    pub marked: u64,
}

pub(crate) enum Event {
    Ack {
        flow: usize,
        number: u64,
        marked: bool,
    },
    Wake(usize),
    /// Sets the bottleneck's rate to this many megabits a second.
    Rate(f64),
}

pub(crate) struct World {
    shared: Bottleneck,
    path: Path,
    flows: Vec<Flow>,
    queue: EventQueue<Event>,
    /// Time-weighted sum of the bytes in the queue up to `seen`, and the bytes in the queue since.
    waited: f64,
    waiting: f64,
    seen: Duration,
    /// Time at which the counters were cleared, and the bytes delivered to each flow since.
    since: Duration,
    delivered: Vec<u64>,
}

impl World {
    pub(crate) fn new(shared: Bottleneck) -> Self {
        let mut queue = EventQueue::new();
        shared.changes.iter().for_each(|(at, mbit)| queue.schedule(*at, Event::Rate(*mbit)));
        Self {
            path: Path::new(shared.conditions, 1),
            shared,
            flows: Vec::new(),
            queue,
            waited: 0.0,
            waiting: 0.0,
            seen: ms(0),
            since: ms(0),
            delivered: Vec::new(),
        }
    }

    pub(crate) fn flow(mut self, algorithm: CongestionAlgorithm, round_trip: Duration) -> Self {
        self.add(algorithm, round_trip, ms(0), Duration::MAX);
        self
    }

    /// Adds a flow that sends from `starts` until `stops`.
    pub(crate) fn add(
        &mut self,
        a: CongestionAlgorithm,
        round_trip: Duration,
        starts: Duration,
        stops: Duration,
    ) {
        let flow = self.flows.len();
        let mut controller = Controller::new(a, starts, self.shared.packet);
        controller.set_packets_per_unit(self.shared.told);
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
        self.queue.schedule(starts, Event::Wake(flow));
    }

    pub(crate) fn run(&mut self, until: Duration) {
        self.run_until(until);
    }

    fn acknowledged(&mut self, flow: usize, number: u64, marked: bool) {
        let (now, f) = (self.queue.now(), &mut self.flows[flow]);
        f.heard = now;
        self.delivered[flow] += self.shared.packet;
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
        let (now, f) = (self.queue.now(), &mut self.flows[flow]);
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
        if !(f.starts..f.stops).contains(&self.queue.now()) {
            return;
        }
        let packet = self.shared.packet;
        loop {
            let (now, f) = (self.queue.now(), &mut self.flows[flow]);
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
                    self.queue.schedule(wake, Event::Wake(flow));
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
        let bytes = self.shared.packet / self.shared.datagrams;
        let now = self.queue.now();
        let (mut arrives, mut whole, mut marked) = (now, true, false);
        for _ in 0..self.shared.datagrams {
            match self.path.send(now, bytes as usize, true).next() {
                Some(datagram) => {
                    arrives = arrives.max(datagram.at);
                    marked |= datagram.marked;
                }
                None => whole = false,
            }
        }
        if whole {
            arrives += self.flows[flow].round_trip;
            self.queue.schedule(arrives, Event::Ack { flow, number, marked });
        }
    }

    /// Clears the counters.
    pub(crate) fn clear(&mut self) {
        (self.waited, self.since) = (0.0, self.queue.now());
        self.path.counts = PathCounts::default();
        self.delivered.iter_mut().for_each(|d| *d = 0);
        self.flows.iter_mut().for_each(|f| f.count = Counters::default());
    }

    /// Megabits a second of each flow since `clear`.
    pub(crate) fn mbit(&self, flow: usize) -> f64 {
        self.delivered[flow] as f64 * 8e-6 / (self.queue.now() - self.since).as_secs_f64()
    }

    /// Mean waiting time of a packet since `clear`, at the current rate.
    pub(crate) fn queue(&self) -> Duration {
        let bytes = self.waited / (self.queue.now() - self.since).as_secs_f64();
        Duration::from_secs_f64(bytes / self.path.conditions.rate)
    }

    /// Counters of the bottleneck's datagrams since `clear`.
    pub(crate) fn counts(&self) -> PathCounts {
        self.path.counts
    }

    pub(crate) fn counters(&self, flow: usize) -> Counters {
        self.flows[flow].count
    }

    pub(crate) fn controller(&self, flow: usize) -> &Controller {
        &self.flows[flow].controller
    }
}

impl Simulation for World {
    type Event = Event;

    fn queue(&mut self) -> &mut EventQueue<Event> {
        &mut self.queue
    }

    fn next_timer(&self) -> Option<Duration> {
        None
    }

    fn act(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn handle(&mut self, event: Event) {
        let now = self.queue.now();
        self.waited += self.waiting * (now - self.seen).as_secs_f64();
        self.seen = now;
        match event {
            Event::Rate(mbit) => self.path.conditions.rate = mbit * 125_000.0,
            // A wake-up that an earlier one replaced is void.
            Event::Wake(flow) if self.flows[flow].wakes.is_some_and(|at| at != now) => {}
            Event::Wake(flow) => {
                self.flows[flow].wakes = None;
                self.find_lost(flow);
                self.send(flow);
            }
            Event::Ack { flow, number, marked } => {
                self.acknowledged(flow, number, marked);
                self.find_lost(flow);
                self.send(flow);
            }
        }
        self.waiting = self.path.waiting(now);
    }
}
