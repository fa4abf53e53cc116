//! Arbitrary packets, nacks and pauses into a transfer, in each of its phases: no panic, and only the true bytes ever
//! come out.
#![no_main]

use core::time::Duration;

use libfuzzer_sys::fuzz_target;
use xylem_object::{Manifest, ObjectId, PublisherKey, naming, sign_manifest};
use xylem_packet::{DataBuilder, InterestBuilder, NackReason, Packet};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};
use xylem_trust::Signer;

/// Steps on a transfer, one byte each; some take the following bytes as a packet.
fn step(
    transfer: &mut Transfer,
    now: &mut Duration,
    asked: &mut Vec<Vec<u8>>,
    op: u8,
    body: &[u8],
) {
    let peer = PeerId(u32::from(op >> 6));
    match op & 7 {
        0 => transfer.handle_data(*now, peer, body.to_vec().into()),
        1 => {
            // The name of a pending Interest, and a fuzzed rest.
            let Some(interest) = asked.get(body.first().copied().unwrap_or(0) as usize) else {
                return;
            };
            let Ok(Packet::Interest(interest)) = Packet::decode(interest) else { return };
            let mut name = Vec::new();
            interest.name().encode(&mut name);
            let inner = name.len() + body.len();
            let mut packet = vec![6, 253, (inner >> 8) as u8, inner as u8];
            packet.extend_from_slice(&name);
            packet.extend_from_slice(body);
            transfer.handle_data(*now, peer, packet.into());
        }
        2 => {
            let Some(interest) = asked.get(body.first().copied().unwrap_or(0) as usize) else {
                return;
            };
            let Ok(Packet::Interest(interest)) = Packet::decode(interest) else { return };
            transfer.handle_nack(*now, peer, interest.name(), NackReason(u64::from(op) * 10));
        }
        3 => *now += Duration::from_micros(u64::from(body.first().copied().unwrap_or(0)).pow(3)),
        4 => transfer.handle_timeout(*now),
        5 => {
            transfer.remove_peer(*now, peer);
        }
        6 if op & 8 != 0 => {
            transfer.add_direct_peer(*now, peer);
        }
        6 => {
            transfer.add_peer(*now, peer);
        }
        7 if op & 16 != 0 => {
            // A fuzzed list of a peer's pieces, with a right digest, as the answer to a pending Interest.
            for question in asked.iter().rev() {
                let Ok(Packet::Interest(interest)) = Packet::decode(question) else { continue };
                if !interest.name().to_string().contains("32=have") {
                    continue;
                }
                let mut out = Vec::new();
                let builder = DataBuilder::new(interest.name());
                if Signer::digest_sha256().data(builder, body, &mut out).is_ok() {
                    transfer.handle_data(*now, peer, out.into());
                }
            }
        }
        _ => transfer.set_paused(*now, op & 8 != 0),
    }
}

fuzz_target!(|input: &[u8]| {
    let key = PublisherKey::from_bytes(&[7; 32]);
    let object = naming::default_name(&key.public(), b"x");
    let Ok(prefix) = naming::versioned(object.as_ref(), 1) else { return };
    let content = vec![7_u8; 100_000];
    let manifest = Manifest::file(xylem_hash::hash(&content), 100_000, b"x");
    let Ok(signed) = sign_manifest(&manifest, prefix.as_ref(), &key) else { return };
    let spec = TransferSpec { prefix, publisher: key.public(), root: None, size: Some(100_000) };
    let mut transfer =
        Transfer::new(spec, TransferConfig { max_held: 4, ..TransferConfig::default() }, 1);
    let mut now = Duration::ZERO;
    let Some((&phase, mut rest)) = input.split_first() else { return };
    for peer in 0..3 {
        if phase & 2 << peer != 0 {
            transfer.add_direct_peer(now, PeerId(peer));
        } else {
            transfer.add_peer(now, PeerId(peer));
        }
    }
    let (mut asked, mut packet) = (Vec::new(), Vec::new());
    if phase & 1 == 1 {
        // Every peer has the manifest.
        while let Some(peer) = transfer.poll_transmit(now, &mut packet) {
            transfer.handle_data(now, peer, signed.clone().into());
        }
    }
    while let Some((&op, after)) = rest.split_first() {
        let length = usize::from(after.first().copied().unwrap_or(0)).min(after.len());
        let (body, next) = after.split_at(length);
        rest = next;
        step(&mut transfer, &mut now, &mut asked, op, body);
        for _ in 0..64 {
            if transfer.poll_transmit(now, &mut packet).is_none() {
                break;
            }
            assert!(
                InterestBuilder::new(match Packet::decode(&packet) {
                    Ok(Packet::Interest(interest)) => interest.name(),
                    _ => panic!("not an Interest"),
                })
                .encode(&mut Vec::new())
                .is_ok()
            );
            if asked.len() < 256 {
                asked.push(packet.clone());
            }
        }
        while let Some(event) = transfer.poll_event() {
            match event {
                TransferEvent::Manifest { manifest, .. } => {
                    let geometry = manifest.geometry();
                    let all = Some(0..geometry.segments());
                    let _ =
                        transfer.add_object(ObjectId::Root, manifest.root, geometry, all, [], None);
                }
                TransferEvent::Segment { segment, .. } => {
                    assert!(
                        segment.content.iter().all(|byte| *byte == 7),
                        "a wrong byte came through"
                    );
                }
                _ => {}
            }
        }
        let _ = (transfer.poll_timeout(now), transfer.progress(), transfer.wants_objects());
    }
});
