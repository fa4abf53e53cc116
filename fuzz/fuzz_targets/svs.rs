//! State vectors: a parsed one is written and parsed again the same. A member that trusts any signer, with any input,
//! stays within its limits and reports each number once.
#![no_main]

use std::collections::HashMap;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use xylem_packet::{Component, DataBuilder, Interest, InterestBuilder, Name};
use xylem_svs::{Anyone, Group, GroupConfig, GroupEvent, StateVector, SyncVersion, VectorLimits};
use xylem_trust::{CommandStamp, Signer};

const MEMBERS: usize = 40;

/// A sync Interest with `bytes` as its vector, valid or not.
fn carried(version: SyncVersion, group: &Name, bytes: &[u8]) -> Option<Vec<u8>> {
    let (signer, mut wire, mut data) = (Signer::digest_sha256(), Vec::new(), Vec::new());
    let prefix = version.prefix(group);
    let stamp = CommandStamp::new([1; 8], 1);
    match version {
        SyncVersion::V1 => {
            let name = prefix.child(Component::new(201, bytes).ok()?);
            signer.interest(InterestBuilder::new(name.as_ref()), b"", stamp, &mut wire).ok()?;
        }
        SyncVersion::V2 => {
            signer.interest(InterestBuilder::new(prefix.as_ref()), bytes, stamp, &mut wire).ok()?;
        }
        SyncVersion::V3 => {
            signer.data(DataBuilder::new(prefix.as_ref()), bytes, &mut data).ok()?;
            InterestBuilder::new(prefix.as_ref()).encode_with_parameters(&mut wire, &data).ok()?;
        }
    }
    Some(wire)
}

fuzz_target!(|input: &[u8]| {
    let Some((first, rest)) = input.split_first() else { return };
    let version = [SyncVersion::V1, SyncVersion::V2, SyncVersion::V3][usize::from(first % 3)];
    if let Ok(vector) = StateVector::decode(rest, version) {
        let mut wire = Vec::new();
        vector.encode(version, &mut wire);
        assert_eq!(StateVector::decode(&wire, version).as_ref(), Ok(&vector));
        let mut twice = vector.clone();
        twice.merge(&vector);
        assert_eq!(twice, vector);
    }

    let name = Name::from_uri("/g").unwrap();
    let limits = VectorLimits { members: MEMBERS, boots: 3, vector_bytes: 300 };
    let own = Some(Name::from_uri("/a").unwrap());
    let config = GroupConfig { name: own, limits, ..GroupConfig::new(name.clone(), version) };
    let mut group = Group::new(config, Duration::ZERO, 1).unwrap();
    let mut told: HashMap<_, u64> = HashMap::new();
    let mut now = Duration::ZERO;
    // Pieces of the input, each a vector; the byte before it gives its length.
    let mut left = rest;
    while let Some((len, more)) = left.split_first() {
        let (piece, more) = more.split_at(usize::from(*len).min(more.len()));
        left = more;
        now += Duration::from_millis(u64::from(*len) * 10);
        if len % 7 == 0 {
            group.publish(now);
        }
        if let Some(wire) = carried(version, &name, piece) {
            let interest = Interest::decode(&wire).unwrap();
            let _ = group.receive(now, 1, &interest, &mut Anyone);
        }
        while let Some(event) = group.poll_event() {
            if let GroupEvent::Updated { member, from, to } = event {
                assert!(Some(&member) != group.own() && from <= to);
                // A life that was displaced may be reported again.
                let known = told.insert(member, to).unwrap_or(0);
                assert!(from == known + 1 || from == 1);
            }
        }
        assert!(group.state().len() <= MEMBERS);
        group.handle_timer(now);
        let mut wire = Vec::new();
        let stamp = CommandStamp::new([0; 8], 1);
        if group.poll_transmit(now, &Signer::digest_sha256(), stamp, [0; 4], &mut wire).unwrap() {
            let mut listener = Group::new(GroupConfig::new(name.clone(), version), now, 2).unwrap();
            let sent = Interest::decode(&wire).unwrap();
            listener.receive(now, 1, &sent, &mut Anyone).unwrap();
        }
    }
});
