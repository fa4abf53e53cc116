//! Any sequence of packets, well-formed or not, leaves the forwarder within its limits, and no face gets more than it
//! asked for.

mod common;

use std::collections::HashMap;

use bytes::Bytes;
use common::{Frame, Kept, What, World, data_with, interest_with, nacked, name, read};
use proptest::prelude::*;
use xylem_forward::{FaceId, IncomingPacket};
use xylem_packet::{Component, Data, NackReason, Packet};

const FACES: usize = 5;
const PIT: usize = 12;
const STORE: usize = 4000;

/// Few names, so that they collide: chains of prefixes, two branches, local ones.
const NAMES: [&str; 9] =
    ["/a", "/a/b", "/a/b/c", "/a/b/c/seg=1", "/b", "/b/c", "/localhost/x", "/localhop/x", "/c/d"];

#[derive(Debug, Clone)]
enum Step {
    Interest { face: usize, name: usize, nonce: u8, flags: u8, lifetime: u16, digest: bool },
    Data { face: usize, name: usize, version: u8, fresh: bool },
    Nack { face: usize, name: usize, nonce: u8, flags: u8 },
    Replay { face: usize, which: prop::sample::Index },
    Garbage { face: usize, bytes: Vec<u8> },
    Pass { ms: u16 },
    Faces { remove: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let face = 0..FACES;
    let name = 0..NAMES.len();
    prop_oneof![
        8 => (face.clone(), name.clone(), 0u8..8, 0u8..64, 0u16..5000, any::<bool>()).prop_map(
            |(face, name, nonce, flags, lifetime, digest)| Step::Interest {
                face, name, nonce, flags, lifetime, digest: digest && flags % 4 == 0,
            }),
        6 => (face.clone(), name.clone(), 0u8..2, any::<bool>())
            .prop_map(|(face, name, version, fresh)| Step::Data { face, name, version, fresh }),
        1 => (face.clone(), name, 0u8..8, 0u8..64)
            .prop_map(|(face, name, nonce, flags)| Step::Nack { face, name, nonce, flags }),
        // A working upstream answers Interests that were sent to it.
        6 => (face.clone(), any::<prop::sample::Index>())
            .prop_map(|(face, which)| Step::Replay { face, which }),
        1 => (face.clone(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(face, bytes)| Step::Garbage { face, bytes }),
        2 => (0u16..3000).prop_map(|ms| Step::Pass { ms }),
        1 => face.prop_map(|remove| Step::Faces { remove }),
    ]
}

fn an_interest(step_name: usize, nonce: u8, flags: u8, lifetime: u16, digest: bool) -> Frame {
    let mut uri = NAMES[step_name].to_string();
    if digest {
        let digest = Data::decode(&a_data(step_name, 0, false)).unwrap().implicit_digest();
        uri = name(&uri).child(Component::implicit_digest(&digest)).to_string();
    }
    let packet = interest_with(&uri, u32::from(nonce), |mut i| {
        i = i.can_be_prefix(flags & 1 != 0).must_be_fresh(flags & 2 != 0);
        i = i.lifetime_ms(u64::from(lifetime));
        if flags & 4 != 0 { i.hop_limit(flags >> 3) } else { i }
    });
    if flags & 32 != 0 { common::with_token(&packet, &[nonce, flags]) } else { (&packet).into() }
}

fn a_data(name: usize, version: u8, fresh: bool) -> Bytes {
    data_with(NAMES[name], &[version; 300], if fresh { 1000 } else { 0 })
}

struct Storm {
    w: World,
    faces: Vec<FaceId>,
    /// Data that each face may still get: one for each Interest that it sent.
    owed: HashMap<FaceId, usize>,
    /// The Interests that were sent: destination and bytes.
    asked: Vec<(FaceId, Bytes)>,
}

impl Storm {
    fn new() -> Storm {
        let mut w = World::new(|config| {
            config.pit_capacity = PIT;
            config.cs_capacity_bytes = STORE;
            config.dead_nonces = 16;
        });
        let faces: Vec<FaceId> =
            (0..FACES).map(|i| if i < 2 { w.local() } else { w.remote() }).collect();
        let mut storm = Storm { w, faces, owed: HashMap::new(), asked: Vec::new() };
        (0..FACES).for_each(|i| storm.routes(i));
        storm
    }

    fn routes(&mut self, i: usize) {
        let prefix = ["/", "/localhost", "/a", "/a/b", "/b"][i];
        self.w.route(prefix, self.faces[i], i as u32);
        self.w.route("/a", self.faces[i], 9 - i as u32);
    }

    fn send(&mut self, from: FaceId, packet: impl Into<Frame>) -> Result<(), TestCaseError> {
        let packet = packet.into();
        let asks = packet.nack.is_none()
            && matches!(Packet::decode(&packet.packet), Ok(Packet::Interest(_)));
        if asks {
            *self.owed.entry(from).or_default() += 1;
        }
        let (_, out) = self.w.raw(from, &packet);
        for sent in out {
            prop_assert!(self.faces.contains(&sent.to), "sent to a face that is gone");
            let what = read(&sent);
            let local = self.faces[..2].contains(&sent.to);
            prop_assert!(local || !what.name.starts_with("/localhost/"), "local name left");
            match what.what {
                What::Interest => {
                    prop_assert!(asks && sent.to != from);
                    prop_assert!(what.hops != Some(0) || local, "over the hop limit");
                    self.asked.push((sent.to, sent.packet.into()));
                }
                What::Data => {
                    let owed = self.owed.entry(sent.to).or_default();
                    prop_assert!(*owed > 0, "Data that was not asked for");
                    *owed -= 1;
                }
                What::Nack(_) => {}
            }
        }
        prop_assert!(self.w.forwarder.pit_len() <= PIT);
        prop_assert!(self.w.forwarder.cs().bytes <= STORE);
        prop_assert_eq!(
            self.w.forwarder.pit_len() == 0,
            self.w.forwarder.poll_timeout().is_none(),
            "a request that never ends, or a timer for none"
        );
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Interest { face, name, nonce, flags, lifetime, digest } => {
                let packet = an_interest(name, nonce, flags, lifetime, digest);
                self.send(self.faces[face], packet)
            }
            Step::Data { face, name, version, fresh } => {
                self.send(self.faces[face], &a_data(name, version, fresh))
            }
            Step::Nack { face, name, nonce, flags } => {
                let packet = an_interest(name, nonce, flags & 3, 1000, false);
                self.send(self.faces[face], nacked(&packet.packet, NackReason::NO_ROUTE))
            }
            Step::Replay { which, face } => {
                if self.asked.is_empty() {
                    return Ok(());
                }
                let (to, packet) = self.asked[which.index(self.asked.len())].clone();
                if !self.faces.contains(&to) {
                    return Ok(());
                }
                let Ok(Packet::Interest(interest)) = Packet::decode(&packet) else {
                    return Ok(());
                };
                let uri = interest.name().to_string();
                match NAMES.iter().position(|n| *n == uri) {
                    Some(name) => self.send(to, &a_data(name, 0, true)),
                    // Back to the forwarder over another face, which is a loop.
                    None => self.send(self.faces[face], &packet),
                }
            }
            Step::Garbage { face, bytes } => {
                let from = self.faces[face];
                let mut out = Kept::default();
                let _ = self.w.forwarder.handle_packet(
                    self.w.now,
                    from,
                    IncomingPacket::bare(&bytes),
                    &mut out,
                );
                Ok(())
            }
            Step::Pass { ms } => {
                self.w.pass(u64::from(ms));
                Ok(())
            }
            Step::Faces { remove } => {
                self.w.forwarder.remove_face(self.faces[remove]);
                self.faces[remove] = if remove < 2 { self.w.local() } else { self.w.remote() };
                self.routes(remove);
                Ok(())
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_sequence_of_packets_keeps_the_limits(steps in prop::collection::vec(step(), 1..120)) {
        let mut storm = Storm::new();
        for step in steps {
            storm.step(step)?;
        }
        // In the end everything expires.
        storm.w.pass(10_000);
        prop_assert_eq!(storm.w.forwarder.pit_len(), 0);
        prop_assert_eq!(storm.w.forwarder.poll_timeout(), None);
    }
}
