//! Virtual time: one transfer, producers that are honest or not, and a network that loses, delays,
//! reorders, duplicates, limits the rate and queues. One seed decides everything.
#![allow(dead_code)] // each test binary uses a part of it
#![allow(missing_docs)] // read together with the tests

pub mod net;
pub mod producer;
pub mod swarm;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use xylem_object::ObjectId;
use xylem_packet::{NackReason, Packet};
use xylem_transfer::{Config, Event, FailReason, Misbehaviour, PeerId, Spec, Transfer};

pub use net::{Net, Rng};
pub use producer::{Behaviour, Original, Producer, Reply};
#[allow(unused_imports)]
pub use swarm::{Role, Swarm};

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What travels.
#[derive(Debug)]
enum Flying {
    Interest(usize, Vec<u8>),
    Data(usize, Bytes, bool),
    Nack(usize, Vec<u8>),
}

/// One run: what the transfer is told, and what came of it.
pub struct World {
    pub now: Duration,
    pub transfer: Transfer,
    pub peers: Vec<(Producer, Net)>,
    pub rng: Rng,
    flying: BinaryHeap<Reverse<(Duration, u64)>>,
    cargo: HashMap<u64, Flying>,
    serial: u64,
    /// The bytes that came, per object; compared with the truth at each segment.
    pub got: HashMap<ObjectId, Vec<bool>>,
    pub nodes: HashMap<ObjectId, usize>,
    pub complete: Vec<ObjectId>,
    pub blamed: Vec<(PeerId, Misbehaviour)>,
    pub dropped: Vec<PeerId>,
    pub failed: Option<FailReason>,
    pub bytes: u64,
    /// Every name asked for, with how often.
    pub asked: HashMap<String, u32>,
    pub manifest_seen: bool,
    /// Ranges wanted and had of the root object; files are wanted whole.
    pub wanted: Vec<Range<u64>>,
    pub have: Vec<Range<u64>>,
    /// Files still to be added, as a node would while it reads the listing.
    pub files: std::collections::VecDeque<u64>,
    /// Interests that were outside the in-order window.
    pub in_order: Option<u64>,
}

impl World {
    pub fn new(original: &Original, config: Config, seed: u64) -> Self {
        let spec = Spec {
            prefix: original.prefix.clone(),
            publisher: original.key.public(),
            root: Some(original.manifest.root),
            size: Some(original.manifest.size),
        };
        Self {
            now: Duration::ZERO,
            transfer: Transfer::new(spec, config, seed),
            peers: Vec::new(),
            rng: Rng(seed ^ 0x5eed),
            flying: BinaryHeap::new(),
            cargo: HashMap::new(),
            serial: 0,
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

    pub fn peer(mut self, original: &Original, behaviour: Behaviour, net: Net) -> Self {
        let id = PeerId(self.peers.len() as u32);
        assert!(self.transfer.add_peer(self.now, id));
        self.peers.push((Producer::new(original.clone(), behaviour), net));
        self
    }

    /// Bytes of content of each peer, as shares of all of them.
    pub fn shares(&self) -> Vec<f64> {
        let mut bytes = vec![0.0; self.peers.len()];
        self.transfer.peers(self.now).for_each(|p| bytes[p.peer.0 as usize] = p.bytes as f64);
        let all: f64 = bytes.iter().sum();
        bytes.into_iter().map(|b| b / all.max(1.0)).collect()
    }

    /// As [`Self::peer`], for one that is asked what it has.
    pub fn direct_peer(mut self, original: &Original, behaviour: Behaviour, net: Net) -> Self {
        let id = PeerId(self.peers.len() as u32);
        assert!(self.transfer.add_direct_peer(self.now, id));
        self.peers.push((Producer::new(original.clone(), behaviour), net));
        self
    }

    fn fly(&mut self, at: Duration, cargo: Flying) {
        self.serial += 1;
        self.flying.push(Reverse((at, self.serial)));
        self.cargo.insert(self.serial, cargo);
    }

    /// Runs until everything is complete, the transfer has failed, or `until` has come.
    pub fn run(&mut self, until: Duration) {
        let mut buffer = Vec::new();
        loop {
            self.events();
            if self.failed.is_some() || self.is_done() {
                return;
            }
            while let Some(peer) = self.transfer.poll_transmit(self.now, &mut buffer) {
                self.send_interest(peer.0 as usize, &buffer);
            }
            let next = self.flying.peek().map(|Reverse((at, _))| *at);
            let timer = self.transfer.poll_timeout(self.now);
            let Some(at) = next.into_iter().chain(timer).min() else {
                self.now = until; // paused: nothing will ever happen
                return;
            };
            if at > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(at);
            while let Some(Reverse((at, _))) = self.flying.peek()
                && *at <= self.now
            {
                let Reverse((_, serial)) = self.flying.pop().unwrap();
                let cargo = self.cargo.remove(&serial).unwrap();
                self.arrive(cargo);
            }
            // As the program does: only when it is due.
            if self.transfer.poll_timeout(self.now).is_some_and(|due| due <= self.now) {
                self.transfer.handle_timeout(self.now);
            }
        }
    }

    pub fn is_done(&self) -> bool {
        self.manifest_seen && self.files.is_empty() && self.transfer.is_idle()
    }

    fn send_interest(&mut self, p: usize, packet: &[u8]) {
        let Ok(Packet::Interest(interest)) = Packet::decode(packet) else { panic!("no Interest") };
        *self.asked.entry(interest.name().to_string()).or_default() += 1;
        let times = self.peers[p].1.up(self.now, packet.len(), &mut self.rng);
        for at in times {
            self.fly(at, Flying::Interest(p, packet.to_vec()));
        }
    }

    fn arrive(&mut self, cargo: Flying) {
        match cargo {
            Flying::Interest(p, packet) => {
                let replies = self.peers[p].0.reply(&packet);
                for reply in replies {
                    let len = match &reply {
                        Reply::Data(data) => data.len(),
                        Reply::Nack => packet.len(),
                    };
                    let times = self.peers[p].1.down(self.now, len, &mut self.rng);
                    let marked = self.peers[p].1.last_marked;
                    let cargo = match reply {
                        Reply::Data(data) => Flying::Data(p, data.into(), marked),
                        Reply::Nack => Flying::Nack(p, packet.clone()),
                    };
                    let mut copies = times.into_iter();
                    if let Some(second) = copies.nth(1)
                        && let Flying::Data(p, data, marked) = &cargo
                    {
                        self.fly(second, Flying::Data(*p, data.clone(), *marked));
                    }
                    if let Some(at) = self.peers[p].1.last_first {
                        self.fly(at, cargo);
                    }
                }
            }
            Flying::Data(p, data, false) => {
                self.transfer.handle_data(self.now, PeerId(p as u32), data);
            }
            Flying::Data(p, data, true) => {
                self.transfer.handle_marked_data(self.now, PeerId(p as u32), data);
            }
            Flying::Nack(p, packet) => {
                let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else { panic!() };
                let (name, reason) = (interest.name(), NackReason::NO_ROUTE);
                self.transfer.handle_nack(self.now, PeerId(p as u32), name, reason);
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
                Event::Manifest { manifest, .. } => {
                    assert_eq!(manifest, self.peers[0].0.original.manifest);
                    assert!(!self.manifest_seen, "one manifest only");
                    self.manifest_seen = true;
                    self.add(ObjectId::Root);
                }
                Event::Segment { object, segment } => {
                    let truth = &self.peers[0].0.original.objects[&object];
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
                Event::Nodes { object, nodes } => {
                    *self.nodes.entry(object).or_default() += nodes.len()
                }
                Event::ObjectComplete(object) => {
                    assert!(!self.complete.contains(&object), "{object:?} completed twice");
                    self.complete.push(object);
                }
                Event::PeerMisbehaved { peer, what } => self.blamed.push((peer, what)),
                Event::PeerDropped { peer } => self.dropped.push(peer),
                Event::Failed(reason) => self.failed = Some(reason),
            }
        }
    }

    fn add(&mut self, id: ObjectId) {
        let truth = &self.peers[0].0.original.objects[&id];
        let (root, geometry) = (truth.root, truth.geometry);
        let added = if id == ObjectId::Root {
            let (wanted, have) = (self.wanted.clone(), self.have.clone());
            self.transfer.add_object(id, root, geometry, wanted, have, None)
        } else {
            self.transfer.add_object(id, root, geometry, Some(0..u64::MAX), [], None)
        };
        added.expect("within the limits");
    }

    pub fn segments_got(&self, id: ObjectId) -> u64 {
        self.got.get(&id).map_or(0, |g| g.iter().filter(|b| **b).count() as u64)
    }

    /// Bytes of content a second.
    pub fn goodput(&self) -> f64 {
        self.bytes as f64 / self.now.as_secs_f64().max(1e-9)
    }
}
