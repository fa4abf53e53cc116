//! Eviction when the PIT is full or a face reaches its quota: the oldest Interest of the face with the highest load is
//! dropped.
//!
//! A new Interest is never refused because others wait. A flood of unanswered Interests therefore evicts only itself,
//! and a face with less than the flood keeps all of its Interests. Nothing is sent for an evicted Interest, because a
//! Nack for each would answer a flood with another one.

use xylem_packet::Interest;

use crate::forwarder::Forwarder;
use crate::storage::Storage;

/// Maximum number of evictions for one Interest: a name of the greatest length takes the room of this many short ones.
pub(crate) const MAX_EVICTIONS: usize = 64;

impl<S: Storage> Forwarder<S> {
    /// Makes some room in the tables for this Interest. Returns false if it could never fit, or if nothing is pending.
    #[cold]
    pub(crate) fn make_room(&mut self, now: u64, interest: &Interest<'_>) -> bool {
        self.pit.could_hold(interest)
            && self
                .faces
                .face_with_highest_load()
                .is_some_and(|face| self.evict_oldest_of(now, face))
    }

    /// Evicts the oldest pending Interest of a face. Returns false if it has none.
    #[cold]
    pub(crate) fn evict_oldest_of(&mut self, now: u64, face: u32) -> bool {
        let dropped = self.release_oldest_of(now, face);
        self.counters.evicted += u64::from(dropped);
        dropped
    }

    /// As [`Self::evict_oldest_of`], for a face that is removed.
    pub(crate) fn release_oldest_of(&mut self, now: u64, face: u32) -> bool {
        let Some(id) = self.pit.oldest_of(&self.faces, face) else { return false };
        if !self.pit.release_in_record(&mut self.faces, id, face) {
            self.end_entry(now, id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;
    use xylem_packet::{DataBuilder, InterestBuilder, Name};

    use super::*;
    use crate::{
        FaceId, FaceScope, FaceSettings, Fixed, ForwarderConfig, ForwarderSeed, IncomingPacket,
        OutgoingPacket,
    };

    const FACES: usize = 5;
    const PIT: usize = 24;
    /// Cost of a record here: its own bytes, and a name of fixed length.
    const COST: u64 = 256 + 7;

    #[derive(Debug, Clone)]
    enum EvictionStep {
        Ask { face: usize, name: u8 },
        Answer { name: u8 },
        Pass { ms: u64 },
        Leave { face: usize },
    }

    fn step() -> impl Strategy<Value = EvictionStep> {
        prop_oneof![
            // Face 0 sends most Interests.
            20 => any::<u8>().prop_map(|name| EvictionStep::Ask { face: 0, name }),
            20 => (1..FACES, any::<u8>()).prop_map(|(face, name)| EvictionStep::Ask { face, name: name % 40 }),
            6 => any::<u8>().prop_map(|name| EvictionStep::Answer { name: name % 40 }),
            1 => (0u64..300).prop_map(|ms| EvictionStep::Pass { ms }),
            1 => (0..FACES).prop_map(|face| EvictionStep::Leave { face }),
        ]
    }

    fn name(name: u8) -> Name {
        Name::from_uri(&format!("/a/{name:02x}")).expect("a name")
    }

    struct EvictionWorld<S: Storage> {
        forwarder: Forwarder<S>,
        faces: Vec<FaceId>,
        producer: FaceId,
        now: Duration,
        nonce: u32,
        /// The names that each face waits for, oldest first, with the expiry.
        waits: HashMap<FaceId, Vec<(u8, Duration)>>,
        /// The expiry of each name, set by the last face that asked.
        ends: HashMap<u8, Duration>,
    }

    const LIFETIME: Duration = Duration::from_millis(1_000);

    impl<S: Storage> EvictionWorld<S> {
        fn new(quota: usize) -> Self {
            let config = ForwarderConfig { pit_capacity: PIT, ..ForwarderConfig::default() };
            let mut forwarder = Forwarder::<S>::new(config, ForwarderSeed::from_random([3; 16]));
            let settings = FaceSettings { pit_quota: Some(quota), ..FaceScope::NonLocal.into() };
            let mut add = || forwarder.try_add_face(settings).expect("room for a face");
            let producer = add();
            let faces = (0..FACES).map(|_| add()).collect();
            forwarder
                .add_route(Name::from_uri("/a").expect("a name").as_ref(), producer, 0)
                .expect("room");
            let (now, waits, ends) = (Duration::from_secs(1), HashMap::new(), HashMap::new());
            Self { forwarder, faces, producer, now, nonce: 0, waits, ends }
        }

        fn handle(&mut self, from: FaceId, packet: &[u8]) -> HashSet<FaceId> {
            let mut sent = HashSet::new();
            let mut out = |to: FaceId, _: OutgoingPacket<'_>| {
                sent.insert(to);
            };
            let _ = self.forwarder.handle_packet(
                self.now,
                from,
                IncomingPacket::bare(packet),
                &mut out,
            );
            sent
        }

        /// The forwarder's list of a face's entries, oldest first.
        fn listed(&self, face: FaceId) -> Vec<u32> {
            let number = self.forwarder.faces.number(face).expect("a face");
            self.forwarder.pit.listed(&self.forwarder.faces, number)
        }

        fn load(&self, face: FaceId) -> u64 {
            self.waits.get(&face).map_or(0, |waits| waits.len() as u64) * COST
        }

        fn ask(&mut self, face: FaceId, asked: u8, quota: usize) -> Result<(), TestCaseError> {
            let before = self.forwarder.totals().evicted;
            let mut loads: Vec<u64> = self.faces.iter().map(|face| self.load(*face)).collect();
            self.nonce += 1;
            let mut interest = Vec::new();
            InterestBuilder::new(name(asked).as_ref())
                .nonce(self.nonce.to_be_bytes())
                .lifetime_ms(LIFETIME.as_millis() as u64)
                .encode(&mut interest)
                .expect("small");
            self.handle(face, &interest);
            let until = self.now + LIFETIME;
            let again = self.waits.entry(face).or_default().iter_mut().find(|(of, _)| *of == asked);
            match again {
                Some((_, expires)) => *expires = until,
                None => self.waits.entry(face).or_default().push((asked, until)),
            }
            self.ends.insert(asked, until);
            let evicted = (self.forwarder.totals().evicted - before) as usize;
            // The lists show which faces lost records, and the model checks that.
            let mut less = Vec::new();
            for other in self.faces.clone() {
                let listed = self.listed(other).len();
                let waits = self.waits.entry(other).or_default();
                less.push(waits.len() - listed);
                waits.drain(..waits.len() - listed);
            }
            prop_assert_eq!(less.iter().sum::<usize>(), evicted);
            let own = self.faces.iter().position(|known| *known == face).expect("a face");
            if less[own] > 0 && loads[own] >= quota as u64 * COST {
                (less[own], loads[own]) = (less[own] - 1, loads[own] - COST);
            }
            // One after the other, because a record of an entry with two records frees no entry.
            while less.iter().any(|less| *less > 0) {
                let gave_way = (0..FACES).filter(|i| less[*i] > 0).max_by_key(|i| loads[*i]);
                let (i, most) = (gave_way.expect("one"), loads.iter().max().expect("faces"));
                prop_assert!(loads[i] * 8 >= most * 7, "{} gave way, not {most}", loads[i]);
                (less[i], loads[i]) = (less[i] - 1, loads[i] - COST);
            }
            Ok(())
        }

        fn check(&self, quota: usize) -> Result<(), TestCaseError> {
            let entries: HashSet<u8> =
                self.waits.values().flatten().map(|(name, _)| *name).collect();
            prop_assert_eq!(self.forwarder.pit_len(), entries.len());
            prop_assert!(entries.len() <= PIT);
            for face in &self.faces {
                let waits = self.waits.get(face).map_or(&[][..], |waits| waits);
                prop_assert!(waits.len() <= quota);
                // The model and the forwarder have the same entries in the same order.
                let number = self.forwarder.faces.number(*face).expect("a face");
                let known = self.forwarder.faces.get(number).expect("a face");
                prop_assert_eq!((known.pending, known.load), (waits.len(), self.load(*face)));
                let listed = self.listed(*face);
                let values: Vec<u64> =
                    listed.iter().map(|id| self.forwarder.pit.hash_of(*id)).collect();
                let hasher = &self.forwarder.hasher;
                let wanted: Vec<u64> =
                    waits.iter().map(|(of, _)| hasher.hash(name(*of).as_ref())).collect();
                prop_assert_eq!(values, wanted);
            }
            Ok(())
        }

        fn run(&mut self, steps: &[EvictionStep], quota: usize) -> Result<(), TestCaseError> {
            for step in steps {
                match *step {
                    EvictionStep::Ask { face, name } => self.ask(self.faces[face], name, quota)?,
                    EvictionStep::Answer { name: of } => {
                        let mut data = Vec::new();
                        let encoded = DataBuilder::new(name(of).as_ref()).encode(
                            &mut data,
                            b"",
                            |_, value| value.extend_from_slice(&[0; 32]),
                        );
                        encoded.expect("small");
                        let got = self.handle(self.producer, &data);
                        for face in self.faces.clone() {
                            let waits = self.waits.entry(face).or_default();
                            let asked =
                                waits.iter().any(|(n, until)| *n == of && *until > self.now);
                            prop_assert_eq!(got.contains(&face), asked, "{:?}", face);
                            waits.retain(|(n, _)| *n != of);
                        }
                    }
                    EvictionStep::Pass { ms } => {
                        // Whole ticks of the wheel, so that the model need not know them.
                        self.now += Duration::from_millis(ms * 16);
                        let now = self.now;
                        self.forwarder
                            .handle_timeout(now, &mut |_: FaceId, _: OutgoingPacket<'_>| {});
                        // An entry lives until the expiry of its last downstream record, rounded up.
                        let over = |name: u8| {
                            let ticks = self.ends[&name].as_millis().div_ceil(16);
                            now.as_millis() / 16 >= ticks
                        };
                        for waits in self.waits.values_mut() {
                            waits.retain(|(name, _)| !over(*name));
                        }
                    }
                    EvictionStep::Leave { face } => {
                        self.waits.remove(&self.faces[face]);
                        self.forwarder.remove_face(self.faces[face]);
                        let settings =
                            FaceSettings { pit_quota: Some(quota), ..FaceScope::NonLocal.into() };
                        self.faces[face] = self.forwarder.try_add_face(settings).expect("room");
                    }
                }
                self.check(quota)?;
            }
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Compares with a naive model: an evicted Interest is the oldest of a face with the highest load or nearly
        /// so. Nothing else is evicted, and everything else is delivered.
        #[test]
        fn the_oldest_of_the_face_with_most_is_evicted(
            steps in prop::collection::vec(step(), 1..300),
            quota in prop_oneof![Just(9usize), Just(PIT)],
        ) {
            EvictionWorld::<crate::Heap>::new(quota).run(&steps, quota)?;
            EvictionWorld::<Fixed<8, PIT, 4, 4, 1024, 64>>::new(quota).run(&steps, quota)?;
        }
    }
}
