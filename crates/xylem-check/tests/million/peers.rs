//! Peers of the program under test, under virtual time: they lie at times, each has a path of its own, and a loop
//! drives a transfer among them.

use std::time::Duration;

use bytes::Bytes;
use xylem_packet::{NackReason, Packet};
use xylem_sim::{Conditions, EventQueue, Path, Rng, ms};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};

use crate::counts::Counts;
use crate::producer::{Behaviour, Original, Producer, Reply};

/// Longest virtual time of a run, whatever its peers do.
const LONGEST: Duration = Duration::from_secs(1_000);
/// Possible lies in one answer.
const LIES: [Behaviour; 16] = [
    Behaviour::WrongByte,
    Behaviour::WrongProof,
    Behaviour::ShortProof,
    Behaviour::WrongTile,
    Behaviour::BadSignature,
    Behaviour::OtherPublisher,
    Behaviour::OtherManifest,
    Behaviour::Truncated,
    Behaviour::Oversized,
    Behaviour::Undersized,
    Behaviour::WrongFinalBlock,
    Behaviour::OtherNames,
    Behaviour::OtherObject,
    Behaviour::Chatty,
    Behaviour::Mangles,
    Behaviour::Silent,
];

/// Properties of a run's peers.
#[derive(Clone, Debug)]
pub(crate) struct Company {
    /// For each peer, the share of its answers that are lies.
    liars: Vec<f64>,
    /// Lies after which a peer is dropped.
    patience: u32,
    loss: f64,
    jitter: Duration,
    seed: u64,
}

impl Company {
    /// Makes one honest peer over a short path.
    pub(crate) fn honest(seed: u64) -> Self {
        Self { liars: vec![0.0], patience: 3, loss: 0.0, jitter: Duration::ZERO, seed }
    }

    /// Makes up to three liars, usually with an honest peer among them, over good or bad paths.
    pub(crate) fn mixed(rng: &mut Rng) -> Self {
        let mut liars: Vec<f64> =
            (0..rng.below(4)).map(|_| [0.2, 0.6, 1.0][rng.index(3)]).collect();
        if liars.is_empty() || !rng.chance(0.1) {
            liars.insert(rng.index(liars.len() + 1), 0.0);
        }
        Self {
            liars,
            patience: if rng.chance(0.5) { 3 } else { u32::MAX },
            loss: [0.0, 0.0, 0.05][rng.index(3)],
            jitter: ms([0, 0, 15][rng.index(3)]),
            seed: rng.next_u64(),
        }
    }

    pub(crate) fn has_honest(&self) -> bool {
        self.liars.contains(&0.0)
    }

    fn is_liar(&self, peer: PeerId) -> bool {
        self.liars.get(peer.0 as usize).is_some_and(|share| *share > 0.0)
    }
}

#[derive(Clone)]
enum Flying {
    Interest(usize, Vec<u8>),
    Data(usize, Bytes),
    Nack(usize, Vec<u8>),
}

/// A transfer and its peers.
pub(crate) struct Net {
    pub(crate) transfer: Transfer,
    company: Company,
    producer: Producer,
    paths: Vec<[Path; 2]>,
    queue: EventQueue<Flying>,
    rng: Rng,
    /// In some runs the threads of sinks get time to work between two events; in others events come as fast as
    /// possible.
    lets_threads_run: bool,
}

impl Net {
    pub(crate) fn new(original: &Original, company: &Company) -> Self {
        let mut rng = Rng::new(company.seed);
        let spec = TransferSpec {
            prefix: original.prefix.clone(),
            publisher: original.key.public(),
            root: Some(original.manifest.root),
            size: Some(original.manifest.size),
        };
        let patient = Duration::from_secs(if company.has_honest() { 300 } else { 5 });
        let config = TransferConfig {
            give_up: patient,
            max_misbehaviour: company.patience,
            ..TransferConfig::default()
        };
        let mut transfer = Transfer::new(spec, config, rng.next_u64());
        let mut paths = Vec::new();
        for peer in 0..company.liars.len() {
            assert!(transfer.add_direct_peer(Duration::ZERO, PeerId(peer as u32)));
            let delay = ms(1 + rng.below(40));
            let (loss, jitter) = (company.loss, company.jitter);
            let conditions =
                Conditions { delay, jitter, loss, duplicate: loss / 2.0, ..Conditions::PERFECT };
            paths.push([0, 1].map(|_| Path::new(conditions, rng.next_u64())));
        }
        Self {
            transfer,
            company: company.clone(),
            producer: Producer::new(original.clone(), Behaviour::Honest),
            paths,
            queue: EventQueue::new(),
            lets_threads_run: rng.chance(0.05),
            rng,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.queue.now()
    }

    /// Returns the transfer's next event; an error if it accuses an honest peer.
    pub(crate) fn event(&mut self) -> Result<Option<TransferEvent>, String> {
        let event = self.transfer.poll_event();
        match &event {
            Some(TransferEvent::PeerMisbehaved { peer, what }) if !self.company.is_liar(*peer) => {
                Err(format!("an honest peer is accused: {what}"))
            }
            _ => Ok(event),
        }
    }

    /// Lets all parties act and time pass. `again` is when a sink must be called, if it waits for a thread of its own.
    pub(crate) fn turn(
        &mut self,
        again: Option<Duration>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let now = self.now();
        if self.transfer.poll_timeout(now).is_some_and(|due| due <= now) {
            self.transfer.handle_timeout(now);
        }
        let mut packet = Vec::new();
        while let Some(peer) = self.transfer.poll_transmit(now, &mut packet) {
            let peer = peer.0 as usize;
            for delivery in self.paths[peer][0].send(now, packet.len(), false) {
                self.queue.schedule(delivery.at, Flying::Interest(peer, packet.clone()));
            }
        }
        let own = [self.transfer.poll_timeout(now), self.queue.next_at()];
        let next = own.into_iter().chain([again]).flatten().min();
        if self.lets_threads_run || (again.is_some() && next == again) {
            // Virtual time must not run away from a thread that works in real time.
            std::thread::sleep(Duration::from_micros(50));
        }
        let next = next.map_or(now, |next| next.max(now)).max(now + Duration::from_micros(1));
        if next > LONGEST {
            return Err(format!("it never ends: {:?}", self.transfer.progress()));
        }
        self.queue.advance(next);
        while let Some(arrived) = self.queue.pop_due() {
            self.arrive(arrived, counts);
        }
        Ok(())
    }

    /// Adds the counts of the paths.
    pub(crate) fn count(&self, counts: &mut Counts) {
        for path in self.paths.iter().flatten() {
            let of = path.counts;
            counts.packets += of.lost + of.duplicated;
        }
    }

    fn arrive(&mut self, arrived: Flying, counts: &mut Counts) {
        let now = self.now();
        match arrived {
            Flying::Interest(peer, packet) => self.answer(peer, &packet, counts),
            Flying::Data(peer, data) => self.transfer.handle_data(now, PeerId(peer as u32), data),
            Flying::Nack(peer, packet) => {
                let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else { return };
                let (id, reason) = (PeerId(peer as u32), NackReason::NO_ROUTE);
                self.transfer.handle_nack(now, id, interest.name(), reason);
            }
        }
    }

    fn answer(&mut self, peer: usize, packet: &[u8], counts: &mut Counts) {
        let replies = match self.rng.chance(self.company.liars[peer]) {
            true => self.lie(packet, counts),
            false => self.say(packet, Behaviour::Honest),
        };
        let now = self.now();
        for reply in replies {
            let (len, flying) = match reply {
                Reply::Data(data) => (data.len(), Flying::Data(peer, data.into())),
                Reply::Nack => (packet.len(), Flying::Nack(peer, packet.to_vec())),
            };
            for delivery in self.paths[peer][1].send(now, len, false) {
                self.queue.schedule(delivery.at, flying.clone());
            }
        }
    }

    fn say(&mut self, packet: &[u8], behaviour: Behaviour) -> Vec<Reply> {
        self.producer.behaviour = behaviour;
        self.producer.reply(packet)
    }

    /// Answers with a lie, if the chosen kind has one for this Interest.
    fn lie(&mut self, packet: &[u8], counts: &mut Counts) -> Vec<Reply> {
        let how = match self.rng.below(12) {
            0 => Behaviour::RefusesAll,
            _ => LIES[self.rng.index(LIES.len())],
        };
        let truth = self.say(packet, Behaviour::Honest);
        let lie = self.say(packet, how);
        match (&truth[..], &lie[..]) {
            ([Reply::Data(truth)], [Reply::Data(lie)]) if truth == lie => {}
            ([Reply::Nack], [Reply::Nack]) => {}
            (_, [] | [Reply::Nack]) => counts.silences += 1,
            _ => counts.lies += 1,
        }
        lie
    }
}
