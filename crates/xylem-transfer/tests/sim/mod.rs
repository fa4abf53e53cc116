//! A simulation in virtual time: one transfer, honest and dishonest producers, and a path to and from each. One seed
//! decides everything.
#![allow(dead_code)] // each test binary uses a part of the module
#![allow(missing_docs)] // the module is read together with the tests

pub(crate) mod producer;
pub(crate) mod swarm;

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use bytes::Bytes;
use xylem_object::ObjectId;
use xylem_packet::{NackReason, Packet};
use xylem_transfer::{
    FailReason, Misbehaviour, PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec,
};

pub(crate) use producer::{Behaviour, Original, Producer, Reply};
#[allow(unused_imports)]
pub(crate) use swarm::{Role, Swarm};

pub(crate) use xylem_sim::ms;
use xylem_sim::{Conditions, EventQueue, Path, Rng, Simulation};

/// A round trip without queueing, and the share of packets that each direction loses.
pub(crate) fn path(rtt_ms: u64, loss: f64) -> Conditions {
    Conditions { delay: ms(rtt_ms) / 2, loss, ..Conditions::PERFECT }
}

/// A packet under way.
#[derive(Debug)]
pub(crate) enum Flying {
    Interest(usize, Vec<u8>),
    Data(usize, Bytes, bool),
    Nack(usize, Vec<u8>),
}

/// A producer and the paths to and from it.
pub(crate) struct Peer {
    pub producer: Producer,
    pub up: Path,
    pub down: Path,
}

/// One run: the transfer, its peers, and the results.
pub(crate) struct World {
    pub transfer: Transfer,
    pub peers: Vec<Peer>,
    queue: EventQueue<Flying>,
    /// Seeds of the paths.
    rng: Rng,
    /// Which segments arrived, per object. Each segment is compared with the original.
    pub got: HashMap<ObjectId, Vec<bool>>,
    pub nodes: HashMap<ObjectId, usize>,
    pub complete: Vec<ObjectId>,
    pub blamed: Vec<(PeerId, Misbehaviour)>,
    pub dropped: Vec<PeerId>,
    pub failed: Option<FailReason>,
    pub bytes: u64,
    /// Every name asked for, and the number of requests for it.
    pub asked: HashMap<String, u32>,
    pub manifest_seen: bool,
    /// Segments of the root object that are wanted and that are already there. Files are wanted whole.
    pub wanted: Vec<Range<u64>>,
    pub have: Vec<Range<u64>>,
    /// Files still to be added, as a node adds them while it reads the listing.
    pub files: std::collections::VecDeque<u64>,
    /// Interests that were outside the in-order window.
    pub in_order: Option<u64>,
}

impl World {
    pub(crate) fn new(original: &Original, config: TransferConfig, seed: u64) -> Self {
        let spec = TransferSpec {
            prefix: original.prefix.clone(),
            publisher: original.key.public(),
            root: Some(original.manifest.root),
            size: Some(original.manifest.size),
        };
        Self {
            transfer: Transfer::new(spec, config, seed),
            peers: Vec::new(),
            queue: EventQueue::new(),
            rng: Rng::new(seed ^ 0x5eed),
            got: HashMap::new(),
            nodes: HashMap::new(),
            complete: Vec::new(),
            blamed: Vec::new(),
            dropped: Vec::new(),
            failed: None,
            bytes: 0,
            asked: HashMap::new(),
            manifest_seen: false,
            wanted: Vec::from_iter(Some(0..u64::MAX)),
            have: Vec::new(),
            files: std::collections::VecDeque::new(),
            in_order: None,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.queue.now()
    }

    /// Lets virtual time pass without any event.
    pub(crate) fn skip_to(&mut self, at: Duration) {
        self.queue.advance(at);
    }

    /// Adds a peer. The bottleneck of `conditions` is on the path from the peer, which carries the Data.
    pub(crate) fn peer(
        mut self,
        original: &Original,
        who: Behaviour,
        conditions: Conditions,
    ) -> Self {
        let id = PeerId(self.peers.len() as u32);
        assert!(self.transfer.add_peer(self.now(), id));
        self.connect(original, who, conditions);
        self
    }

    /// As [`Self::peer`], for one that is asked which segments it has.
    pub(crate) fn direct_peer(
        mut self,
        original: &Original,
        who: Behaviour,
        path: Conditions,
    ) -> Self {
        let id = PeerId(self.peers.len() as u32);
        assert!(self.transfer.add_direct_peer(self.now(), id));
        self.connect(original, who, path);
        self
    }

    fn connect(&mut self, original: &Original, who: Behaviour, conditions: Conditions) {
        let Conditions { rate, queue, .. } = Conditions::PERFECT;
        self.peers.push(Peer {
            producer: Producer::new(original.clone(), who),
            up: Path::new(Conditions { rate, queue, ..conditions }, self.rng.next_u64()),
            down: Path::new(conditions, self.rng.next_u64()),
        });
    }

    /// The share of each peer in the content bytes.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let mut bytes = vec![0.0; self.peers.len()];
        self.transfer.peers(self.now()).for_each(|p| bytes[p.peer.0 as usize] = p.bytes as f64);
        let all: f64 = bytes.iter().sum();
        bytes.into_iter().map(|b| b / all.max(1.0)).collect()
    }

    /// Runs until everything is complete, the transfer has failed, or time `until` is reached.
    pub(crate) fn run(&mut self, until: Duration) {
        self.run_until(until);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.manifest_seen && self.files.is_empty() && self.transfer.is_idle()
    }

    fn send_interest(&mut self, p: usize, packet: &[u8]) {
        let Ok(Packet::Interest(interest)) = Packet::decode(packet) else { panic!("no Interest") };
        *self.asked.entry(interest.name().to_string()).or_default() += 1;
        let now = self.now();
        for delivery in self.peers[p].up.send(now, packet.len(), false) {
            self.queue.schedule(delivery.at, Flying::Interest(p, packet.to_vec()));
        }
    }

    fn answer(&mut self, p: usize, packet: &[u8]) {
        let now = self.now();
        let Peer { producer, down, .. } = &mut self.peers[p];
        for reply in producer.reply(packet) {
            match reply {
                Reply::Data(data) => {
                    let data = Bytes::from(data);
                    for delivery in down.send(now, data.len(), true) {
                        let flying = Flying::Data(p, data.clone(), delivery.marked);
                        self.queue.schedule(delivery.at, flying);
                    }
                }
                Reply::Nack => {
                    for delivery in down.send(now, packet.len(), false) {
                        self.queue.schedule(delivery.at, Flying::Nack(p, packet.to_vec()));
                    }
                }
            }
        }
    }

    fn events(&mut self) {
        loop {
            while self.manifest_seen
                && self.transfer.wants_objects()
                && let Some(file) = self.files.pop_front()
            {
                self.add(ObjectId::File(file));
            }
            let Some(event) = self.transfer.poll_event() else { return };
            match event {
                TransferEvent::Manifest { manifest, .. } => {
                    assert_eq!(manifest, self.peers[0].producer.original.manifest);
                    assert!(!self.manifest_seen, "one manifest only");
                    self.manifest_seen = true;
                    self.add(ObjectId::Root);
                }
                TransferEvent::Segment { object, segment } => {
                    let truth = &self.peers[0].producer.original.objects[&object];
                    let range = truth.geometry.segment_range(segment.index);
                    assert_eq!(segment.root(), truth.root);
                    assert_eq!(range.start, segment.offset);
                    assert!(
                        segment.content[..]
                            == truth.content[range.start as usize..range.end as usize],
                        "a wrong byte came through"
                    );
                    let got = self.got.entry(object).or_default();
                    got.resize(truth.geometry.segments() as usize, false);
                    assert!(!got[segment.index.0 as usize], "{} twice", segment.index);
                    got[segment.index.0 as usize] = true;
                    self.bytes += segment.content.len() as u64;
                }
                TransferEvent::Nodes { object, nodes } => {
                    *self.nodes.entry(object).or_default() += nodes.len()
                }
                TransferEvent::ObjectComplete(object) => {
                    assert!(!self.complete.contains(&object), "{object:?} completed twice");
                    self.complete.push(object);
                }
                TransferEvent::PeerMisbehaved { peer, what } => self.blamed.push((peer, what)),
                TransferEvent::PeerDropped { peer } => self.dropped.push(peer),
                TransferEvent::Failed(reason) => self.failed = Some(reason),
            }
        }
    }

    fn add(&mut self, id: ObjectId) {
        let truth = &self.peers[0].producer.original.objects[&id];
        let (root, geometry) = (truth.root, truth.geometry);
        let added = if id == ObjectId::Root {
            let (wanted, have) = (self.wanted.clone(), self.have.clone());
            self.transfer.add_object(id, root, geometry, wanted, have, None)
        } else {
            self.transfer.add_object(id, root, geometry, Some(0..u64::MAX), [], None)
        };
        added.expect("within the limits");
    }

    pub(crate) fn segments_got(&self, id: ObjectId) -> u64 {
        self.got.get(&id).map_or(0, |g| g.iter().filter(|b| **b).count() as u64)
    }

    /// Bytes of content a second.
    pub(crate) fn goodput(&self) -> f64 {
        self.bytes as f64 / self.now().as_secs_f64().max(1e-9)
    }
}

impl Simulation for World {
    type Event = Flying;

    fn queue(&mut self) -> &mut EventQueue<Flying> {
        &mut self.queue
    }

    fn next_timer(&self) -> Option<Duration> {
        self.transfer.poll_timeout(self.now())
    }

    fn act(&mut self) -> ControlFlow<()> {
        let now = self.now();
        // As the program does, only when the timer is due.
        if self.transfer.poll_timeout(now).is_some_and(|due| due <= now) {
            self.transfer.handle_timeout(now);
        }
        self.events();
        if self.failed.is_some() || self.is_done() {
            return ControlFlow::Break(());
        }
        let mut buffer = Vec::new();
        while let Some(peer) = self.transfer.poll_transmit(now, &mut buffer) {
            self.send_interest(peer.0 as usize, &buffer);
        }
        ControlFlow::Continue(())
    }

    fn handle(&mut self, arrived: Flying) {
        let now = self.now();
        match arrived {
            Flying::Interest(p, packet) => self.answer(p, &packet),
            Flying::Data(p, data, false) => {
                self.transfer.handle_data(now, PeerId(p as u32), data);
            }
            Flying::Data(p, data, true) => {
                self.transfer.handle_marked_data(now, PeerId(p as u32), data);
            }
            Flying::Nack(p, packet) => {
                let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else { panic!() };
                let (name, reason) = (interest.name(), NackReason::NO_ROUTE);
                self.transfer.handle_nack(now, PeerId(p as u32), name, reason);
            }
        }
    }
}
