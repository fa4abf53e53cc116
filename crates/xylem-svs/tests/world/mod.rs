//! Members of one group and a bad network between each two, under virtual time.
#![allow(dead_code, reason = "each test uses a part")]

use std::ops::ControlFlow;
use std::time::Duration;

use xylem_packet::{Interest, Name};
use xylem_sim::{Conditions, EventQueue, Path, Rng, Simulation};
use xylem_svs::{
    Group, GroupConfig, GroupEvent, GroupMember, StateVector, SyncVersion, VectorLimits,
};
use xylem_trust::{CommandStamp, Signer, Verifier};

/// Start of the simulation, in seconds since 1970.
pub(crate) const EPOCH: u64 = 1_700_000_000;

pub(crate) struct World {
    pub(crate) events: EventQueue<(usize, Vec<u8>)>,
    pub(crate) members: Vec<Option<Group>>,
    pub(crate) paths: Vec<Vec<Path>>,
    /// The updates that each member reported, as ranges.
    pub(crate) told: Vec<Vec<(GroupMember, u64, u64)>>,
    /// Number of sync Interests that each has sent.
    pub(crate) sent: Vec<u64>,
    pub(crate) conditions: Conditions,
    pub(crate) limits: VectorLimits,
    /// Ends the run once all agree.
    pub(crate) until_equal: bool,
    /// Planned publications: time and member, earliest last.
    pub(crate) plan: Vec<(Duration, usize)>,
    rng: Rng,
    signer: Signer,
    believe: Verifier,
}

pub(crate) fn config(index: usize, boot: u64, limits: VectorLimits) -> GroupConfig {
    let group = Name::from_uri("/group").unwrap();
    let name = Some(Name::from_uri(&format!("/member/{index}")).unwrap());
    GroupConfig { name, boot, limits, ..GroupConfig::new(group, SyncVersion::V3) }
}

impl World {
    pub(crate) fn new(
        count: usize,
        conditions: Conditions,
        limits: VectorLimits,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut path = || Path::new(conditions, rng.next_u64());
        let paths = (0..count).map(|_| (0..count).map(|_| path()).collect()).collect();
        let mut world = World {
            events: EventQueue::new(),
            members: (0..count).map(|_| None).collect(),
            paths,
            told: vec![Vec::new(); count],
            sent: vec![0; count],
            conditions,
            limits,
            until_equal: false,
            plan: Vec::new(),
            rng,
            signer: Signer::hmac(b"secret", Name::from_uri("/key").unwrap()),
            believe: Verifier::hmac(b"secret"),
        };
        (0..count).for_each(|index| world.start(index, EPOCH, StateVector::new()));
        world
    }

    pub(crate) fn now(&self) -> Duration {
        self.events.now()
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        EPOCH * 1000 + u64::try_from(self.now().as_millis()).unwrap()
    }

    /// Starts a member with the given state.
    pub(crate) fn start(&mut self, index: usize, boot: u64, state: StateVector) {
        let config = GroupConfig { state, ..config(index, boot, self.limits) };
        self.members[index] = Group::new(config, self.now(), self.rng.next_u64());
        assert!(self.members[index].is_some());
    }

    pub(crate) fn publish(&mut self, index: usize) -> u64 {
        let now = self.now();
        self.members[index].as_mut().unwrap().publish(now).unwrap()
    }

    /// Cuts, or restores, all paths between the members below `at` and the others.
    pub(crate) fn cut(&mut self, at: usize, cut: bool) {
        for (from, row) in self.paths.iter_mut().enumerate() {
            for (to, path) in row.iter_mut().enumerate() {
                path.conditions.cut = cut && ((from < at) != (to < at));
            }
        }
    }

    /// The merged state of all running members.
    pub(crate) fn union(&self) -> StateVector {
        let mut all = StateVector::new();
        self.members.iter().flatten().for_each(|member| all.merge(&member.state()));
        all
    }

    pub(crate) fn equal(&self) -> bool {
        let all = self.union();
        self.members.iter().flatten().all(|member| member.state() == all)
    }

    /// Runs until all agree, for `most` at most; returns how long it took.
    pub(crate) fn settle(&mut self, most: Duration) -> Option<Duration> {
        let begun = self.now();
        self.until_equal = true;
        self.run_until(begun + most);
        self.until_equal = false;
        self.equal().then(|| self.now() - begun)
    }
}

impl Simulation for World {
    type Event = (usize, Vec<u8>);

    fn queue(&mut self) -> &mut EventQueue<(usize, Vec<u8>)> {
        &mut self.events
    }

    fn act(&mut self) -> ControlFlow<()> {
        let now = self.now();
        while self.plan.last().is_some_and(|(at, _)| *at <= now) {
            let (_, index) = self.plan.pop().unwrap();
            self.publish(index);
        }
        let unix_ms = self.unix_ms();
        for from in 0..self.members.len() {
            let Some(member) = &mut self.members[from] else { continue };
            member.handle_timer(now);
            while let Some(event) = member.poll_event() {
                if let GroupEvent::Updated { member, from: first, to } = event {
                    self.told[from].push((member, first, to));
                }
            }
            let mut wire = Vec::new();
            let stamp = CommandStamp::new(self.rng.next_u64().to_be_bytes(), unix_ms);
            if !member.poll_transmit(now, &self.signer, stamp, [1; 4], &mut wire).unwrap() {
                continue;
            }
            self.sent[from] += 1;
            for to in (0..self.members.len()).filter(|to| *to != from) {
                for delivery in self.paths[from][to].send(now, wire.len(), false) {
                    self.events.schedule(delivery.at, (to, delivery.packet(&wire)));
                }
            }
        }
        if self.until_equal && self.equal() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn next_timer(&self) -> Option<Duration> {
        let timers = self.members.iter().flatten().map(Group::next_timer);
        timers.chain(self.plan.last().map(|(at, _)| *at)).min()
    }

    fn handle(&mut self, (to, wire): (usize, Vec<u8>)) {
        let (now, unix_ms) = (self.now(), self.unix_ms());
        if let (Some(member), Ok(interest)) = (&mut self.members[to], Interest::decode(&wire)) {
            let _ = member.receive(now, unix_ms, &interest, &mut self.believe);
        }
    }
}
