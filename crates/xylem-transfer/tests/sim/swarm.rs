//! A simulation of many nodes in virtual time: sources, fetchers that serve each other verified segments, and dishonest
//! nodes. Each node has one outgoing and one incoming path with a rate of its own, which all its packets share.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use bytes::Bytes;
use xylem_object::naming::{self, PublicationRequest};
use xylem_object::{Have, ObjectId};
use xylem_packet::{Data, NackReason, Packet};
use xylem_sim::{Conditions, EventQueue, Path, Simulation};
use xylem_transfer::{FailReason, PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};
use xylem_tree::SegmentSet;

use super::producer::{Behaviour, Original, Producer, Reply};

/// How a node behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// Has everything.
    Source,
    /// Fetches, and serves what it has verified.
    Fetcher,
    /// Fetches and answers nothing, like a program that only fetches.
    Selfish,
    /// Claims to have everything, and refuses all requests.
    Refuses,
    /// Claims to have everything, and never answers.
    Silent,
    /// Claims to have everything, and answers with wrong bytes.
    Garbage,
}

/// One direction of a node's path to all others, with a queue of 50 ms.
fn pipe(mbit: f64, delay: Duration) -> Path {
    let queue = (mbit * 125_000.0 / 20.0).max(64_000.0) as u64;
    Path::new(Conditions { delay, ..Conditions::PERFECT.bottleneck(mbit, queue) }, 0)
}

pub(crate) struct Node {
    role: Role,
    pub transfer: Option<Transfer>,
    producer: Producer,
    up: Path,
    down: Path,
    joins: Duration,
    leaves: Option<Duration>,
    joined: bool,
    held: BTreeMap<ObjectId, SegmentSet>,
    files: std::collections::VecDeque<u64>,
    manifest_seen: bool,
    /// When the node had everything.
    pub done: Option<Duration>,
    pub failed: Option<FailReason>,
    /// Bytes of Data that the node sent.
    pub sent: u64,
    pub blamed: Vec<PeerId>,
    timer: Option<Duration>,
    idle_turns: u32,
}

enum Cargo {
    Packet(Bytes),
    Refusal(Vec<u8>),
}

pub(crate) struct Flying {
    from: usize,
    to: usize,
    cargo: Cargo,
    /// The packet has passed the receiver's incoming path.
    is_in: bool,
}

/// All nodes. Each is a peer of every other, under its number.
pub(crate) struct Swarm {
    pub nodes: Vec<Node>,
    original: Original,
    round_trip: Duration,
    seed: u64,
    queue: EventQueue<Flying>,
    /// During this time, nodes below the number cannot reach the other nodes.
    pub cut: Option<(Range<Duration>, usize)>,
    /// Fetchers ask only sources.
    pub alone: bool,
    /// Fetchers read in order, with a window of this many segments.
    pub in_order: Option<u64>,
}

impl Swarm {
    pub(crate) fn new(original: &Original, round_trip: Duration, seed: u64) -> Self {
        Self {
            nodes: Vec::new(),
            original: original.clone(),
            round_trip,
            seed,
            queue: EventQueue::new(),
            cut: None,
            alone: false,
            in_order: None,
        }
    }

    /// Adds a node with a rate of `mbit` Mbit/s in each direction.
    pub(crate) fn node(mut self, role: Role, mbit: f64) -> Self {
        self.add(role, mbit, Duration::ZERO, None);
        self
    }

    pub(crate) fn add(&mut self, role: Role, mbit: f64, joins: Duration, leaves: Option<Duration>) {
        let spec = TransferSpec {
            prefix: self.original.prefix.clone(),
            publisher: self.original.key.public(),
            root: Some(self.original.manifest.root),
            size: Some(self.original.manifest.size),
        };
        let seed = self.seed * 1_000 + self.nodes.len() as u64;
        let fetches = matches!(role, Role::Fetcher | Role::Selfish);
        let behaviour = match role {
            Role::Garbage => Behaviour::WrongByte,
            _ => Behaviour::Honest,
        };
        let files = self.original.objects.len() as u64 - 1;
        self.nodes.push(Node {
            role,
            transfer: fetches.then(|| Transfer::new(spec, TransferConfig::default(), seed)),
            producer: Producer::new(self.original.clone(), behaviour),
            up: pipe(mbit, self.round_trip / 2),
            down: pipe(mbit, Duration::ZERO),
            joins,
            leaves,
            joined: false,
            held: BTreeMap::new(),
            files: (0..files).collect(),
            manifest_seen: false,
            done: None,
            failed: None,
            sent: 0,
            blamed: Vec::new(),
            timer: Some(joins),
            idle_turns: 0,
        });
    }

    /// Runs until every fetcher that stays is done or has failed, or time `until` is reached.
    pub(crate) fn run(&mut self, until: Duration) {
        self.run_until(until);
    }

    pub(crate) fn now(&self) -> Duration {
        self.queue.now()
    }

    pub(crate) fn is_done(&self) -> bool {
        let fetchers = self.nodes.iter().filter(|n| n.transfer.is_some() && n.leaves.is_none());
        fetchers.into_iter().all(|node| node.done.is_some() || node.failed.is_some())
    }

    fn is_here(&self, n: usize) -> bool {
        self.nodes[n].joined && self.nodes[n].leaves.is_none_or(|at| self.now() < at)
    }

    fn join(&mut self) {
        for n in 0..self.nodes.len() {
            if self.nodes[n].joined || self.now() < self.nodes[n].joins {
                continue;
            }
            self.nodes[n].joined = true;
            self.nodes[n].timer = Some(self.now());
            if let Some(transfer) = &mut self.nodes[n].transfer {
                transfer.in_order_window(self.in_order);
            }
            for other in 0..self.nodes.len() {
                if other != n && self.is_here(other) {
                    self.meet(n, other);
                    self.meet(other, n);
                }
            }
        }
    }

    fn meet(&mut self, n: usize, other: usize) {
        let serves = self.nodes[other].role != Role::Selfish;
        let wanted = !self.alone || self.nodes[other].role == Role::Source;
        if let Some(transfer) = self.nodes[n].transfer.as_mut().filter(|_| serves && wanted) {
            assert!(transfer.add_direct_peer(self.queue.now(), PeerId(other as u32)));
        }
        self.nodes[n].timer = Some(self.now());
    }

    /// Lets a node do all that it can do now.
    fn pump(&mut self, n: usize) {
        self.nodes[n].timer = None;
        if !self.is_here(n) || self.nodes[n].transfer.is_none() || self.nodes[n].failed.is_some() {
            return;
        }
        let mut packet = Vec::new();
        let now = self.now();
        let due = |t: &Transfer| t.poll_timeout(now).is_some_and(|at| at <= now);
        if self.nodes[n].transfer.as_ref().is_some_and(due) {
            self.nodes[n].transfer.as_mut().unwrap().handle_timeout(now);
        }
        self.events(n);
        while let Some(peer) =
            self.nodes[n].transfer.as_mut().unwrap().poll_transmit(now, &mut packet)
        {
            self.send(n, peer.0 as usize, Cargo::Packet(Bytes::copy_from_slice(&packet)));
        }
        let timer = self.nodes[n].transfer.as_ref().unwrap().poll_timeout(now);
        // Times are rounded. A timer that is due repeatedly without effect would keep the caller busy forever.
        self.nodes[n].idle_turns = match timer.is_some_and(|at| at <= now) {
            true => self.nodes[n].idle_turns + 1,
            false => 0,
        };
        assert!(self.nodes[n].idle_turns < 5, "{:?}", self.nodes[n].transfer);
        self.nodes[n].timer = timer.map(|at| at.max(now + Duration::from_micros(1)));
    }

    fn send(&mut self, from: usize, to: usize, cargo: Cargo) {
        let len = match &cargo {
            Cargo::Packet(packet) => packet.len(),
            Cargo::Refusal(packet) => packet.len(),
        };
        let now = self.now();
        let Some(delivery) = self.nodes[from].up.send(now, len, false).next() else { return };
        self.queue.schedule(delivery.at, Flying { from, to, cargo, is_in: false });
    }

    fn is_cut(&self, a: usize, b: usize) -> bool {
        let cut = self.cut.as_ref();
        cut.is_some_and(|(when, from)| when.contains(&self.now()) && (a < *from) != (b < *from))
    }

    /// Delivers a packet. Returns the node with the affected transfer.
    fn arrive(&mut self, mut flying: Flying) -> Option<usize> {
        let (from, to) = (flying.from, flying.to);
        if !self.is_here(to) || self.is_cut(from, to) {
            return None;
        }
        if !flying.is_in {
            flying.is_in = true;
            let len = match &flying.cargo {
                Cargo::Packet(packet) => packet.len(),
                Cargo::Refusal(packet) => packet.len(),
            };
            let now = self.now();
            let delivery = self.nodes[to].down.send(now, len, false).next()?;
            self.queue.schedule(delivery.at, flying);
            return None;
        }
        let peer = PeerId(from as u32);
        match flying.cargo {
            Cargo::Refusal(packet) => {
                let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else { panic!() };
                let transfer = self.nodes[to].transfer.as_mut()?;
                transfer.handle_nack(self.queue.now(), peer, interest.name(), NackReason::NO_ROUTE);
                Some(to)
            }
            Cargo::Packet(packet) if Data::decode(&packet).is_ok() => {
                self.nodes[to].transfer.as_mut()?.handle_data(self.queue.now(), peer, packet);
                self.events(to);
                Some(to)
            }
            Cargo::Packet(packet) => {
                self.answer(to, from, &packet);
                None
            }
        }
    }

    fn answer(&mut self, n: usize, to: usize, packet: &Bytes) {
        let Ok(Packet::Interest(interest)) = Packet::decode(packet) else { panic!("no Interest") };
        let request = naming::parse(self.original.prefix.as_ref(), interest.name());
        let node = &mut self.nodes[n];
        let has = |object: ObjectId, range: Range<u64>| {
            let held = node.held.get(&object);
            held.is_some_and(|held| held.next(range.start).is_some_and(|i| i < range.end))
        };
        let is_there = match (node.role, request.expect("a name of the publication")) {
            (Role::Selfish, _) => return,
            (Role::Source | Role::Garbage, _) => true,
            (
                Role::Refuses | Role::Silent,
                PublicationRequest::Have { .. } | PublicationRequest::Manifest,
            ) => true,
            (Role::Silent, _) => return,
            (Role::Refuses, _) => false,
            (Role::Fetcher, PublicationRequest::Have { .. }) => {
                let mut out = Vec::new();
                have(&node.held, &self.original).packet(interest.name(), &mut out).expect("small");
                return self.send(n, to, Cargo::Packet(out.into()));
            }
            (Role::Fetcher, PublicationRequest::Manifest) => node.manifest_seen,
            (Role::Fetcher, PublicationRequest::Segment { object, index }) => {
                has(object, index.0..index.0 + 1)
            }
            (Role::Fetcher, PublicationRequest::Tile { object, tile }) => {
                let (level, nodes) = self.original.objects[&object].geometry.tile_nodes(tile);
                has(object, nodes.start << level..nodes.end << level)
            }
            (Role::Fetcher, PublicationRequest::Metadata) => false,
        };
        if !is_there {
            return self.send(n, to, Cargo::Refusal(packet.to_vec()));
        }
        for reply in node.producer.reply(packet) {
            let cargo = match reply {
                Reply::Data(data) => {
                    self.nodes[n].sent += data.len() as u64;
                    Cargo::Packet(data.into())
                }
                Reply::Nack => Cargo::Refusal(packet.to_vec()),
            };
            self.send(n, to, cargo);
        }
    }

    fn events(&mut self, n: usize) {
        let (original, now) = (self.original.clone(), self.now());
        let node = &mut self.nodes[n];
        let transfer = node.transfer.as_mut().expect("a fetcher");
        let add = |transfer: &mut Transfer, id: ObjectId| {
            let truth = &original.objects[&id];
            let all = Some(0..u64::MAX);
            transfer.add_object(id, truth.root, truth.geometry, all, [], None).expect("in limits");
        };
        loop {
            while node.manifest_seen
                && transfer.wants_objects()
                && let Some(file) = node.files.pop_front()
            {
                add(transfer, ObjectId::File(file));
            }
            let Some(event) = transfer.poll_event() else { break };
            match event {
                TransferEvent::Manifest { .. } => {
                    node.manifest_seen = true;
                    add(transfer, ObjectId::Root);
                }
                TransferEvent::Segment { object, segment } => {
                    let truth = &original.objects[&object];
                    let range = truth.geometry.segment_range(segment.index);
                    let content = &truth.content[range.start as usize..range.end as usize];
                    assert!(segment.content[..] == *content, "a wrong byte came through");
                    let segments = truth.geometry.segments();
                    let held = node.held.entry(object).or_insert_with(|| SegmentSet::new(segments));
                    assert!(held.insert(segment.index.0), "{} twice", segment.index);
                }
                TransferEvent::PeerMisbehaved { peer, .. } => node.blamed.push(peer),
                TransferEvent::Failed(reason) => node.failed = Some(reason),
                _ => {}
            }
        }
        if node.done.is_none() && node.manifest_seen && node.files.is_empty() && transfer.is_idle()
        {
            node.done = Some(now);
        }
    }

    /// When the last fetcher that stays had everything.
    pub(crate) fn finished(&self) -> Option<Duration> {
        let fetchers = self.nodes.iter().filter(|n| n.transfer.is_some() && n.leaves.is_none());
        fetchers.map(|node| node.done).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    pub(crate) fn sent_by_sources(&self) -> u64 {
        self.nodes.iter().filter(|node| node.role == Role::Source).map(|node| node.sent).sum()
    }

    /// Share of the received Data that were duplicates.
    pub(crate) fn duplicates(&self) -> f64 {
        let all = self.nodes.iter().filter_map(|node| node.transfer.as_ref());
        let (twice, once) = all.fold((0, 0), |(twice, once), transfer| {
            let progress = transfer.progress();
            (twice + progress.duplicates, once + progress.verified_segments)
        });
        twice as f64 / once.max(1) as f64
    }
}

impl Simulation for Swarm {
    type Event = Flying;

    fn queue(&mut self) -> &mut EventQueue<Flying> {
        &mut self.queue
    }

    fn next_timer(&self) -> Option<Duration> {
        self.nodes.iter().filter_map(|node| node.timer).min()
    }

    fn act(&mut self) -> ControlFlow<()> {
        self.join();
        for n in 0..self.nodes.len() {
            if self.nodes[n].timer.is_some_and(|at| at <= self.now()) {
                self.pump(n);
            }
        }
        if self.is_done() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn handle(&mut self, flying: Flying) {
        if let Some(touched) = self.arrive(flying) {
            self.nodes[touched].timer = Some(self.now());
        }
    }
}

fn have(held: &BTreeMap<ObjectId, SegmentSet>, original: &Original) -> Have {
    let mut have = Have::default();
    for (object, set) in held {
        let is_whole = set.count() == original.objects[object].geometry.segments();
        match object {
            ObjectId::File(file) if is_whole => have.whole_files.push(*file..file + 1),
            _ => have.partial.push((*object, set.iter().map(|i| i..i + 1).collect())),
        }
    }
    if original.objects.len() == 1 && held.values().any(|set| set.count() == set.len()) {
        return Have::everything();
    }
    have
}
