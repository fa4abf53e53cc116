//! Tests that packets judged in a batch give the same results as packets judged one after the other.

mod sim;

use std::time::Duration;

use bytes::Bytes;
use sim::producer::{Producer, Reply};
use sim::{Behaviour, Original, ms};
use xylem_object::ObjectId;
use xylem_sim::Rng;
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};

fn transfer_of(original: &Original, peers: usize, config: TransferConfig) -> Transfer {
    let spec = TransferSpec {
        prefix: original.prefix.clone(),
        publisher: original.key.public(),
        root: None,
        size: None,
    };
    let mut transfer = Transfer::new(spec, config, 9);
    (0..peers).for_each(|p| assert!(transfer.add_peer(ms(0), PeerId(p as u32))));
    transfer
}

fn transfer(original: &Original, peers: usize) -> Transfer {
    // No peer is dropped here: more of a batch may count when its sender is dropped in the middle, because all of it is
    // proven. The windows are limited, so that they do not depend on when in a burst an answer counts.
    let config =
        TransferConfig { max_misbehaviour: u32::MAX, max_window: 48, ..TransferConfig::default() };
    transfer_of(original, peers, config)
}

/// The events as text, and the reported nodes of several reports together. Acts on a manifest.
fn events(transfer: &mut Transfer, original: &Original) -> (Vec<String>, Vec<String>) {
    let (mut said, mut proven) = (Vec::new(), Vec::new());
    transfer.flush_nodes();
    while let Some(event) = transfer.poll_event() {
        said.push(match event {
            TransferEvent::Manifest { .. } => {
                let mut objects: Vec<_> = original.objects.iter().collect();
                objects.sort_unstable_by_key(|(id, _)| **id);
                for (id, truth) in objects {
                    let all = Some(0..u64::MAX);
                    let added = transfer.add_object(*id, truth.root, truth.geometry, all, [], None);
                    added.expect("within the limits");
                }
                "manifest".into()
            }
            TransferEvent::Segment { object, segment } => {
                let content = &original.objects[&object].content[segment.offset as usize..];
                assert!(content.starts_with(&segment.content), "a wrong byte passed");
                format!("{object:?} {:?}", segment.index)
            }
            TransferEvent::Nodes { object, nodes } => {
                proven.extend(nodes.iter().map(|(node, _)| format!("{object:?} {node:?}")));
                continue;
            }
            other => format!("{other:?}"),
        });
    }
    proven.sort_unstable();
    (said, proven)
}

/// Runs two transfers. One receives each packet by itself, the other all packets that arrive together.
fn both(original: &Original, behaviours: &[Behaviour], seed: u64) {
    let mut producers: Vec<_> =
        behaviours.iter().map(|b| Producer::new(original.clone(), *b)).collect();
    let mut slow = transfer(original, behaviours.len());
    let mut fast = transfer(original, behaviours.len());
    let (mut rng, mut now, mut sizes) = (Rng::new(seed), Duration::ZERO, 0);
    for round in 0.. {
        assert!(round < 20_000, "{behaviours:?}: {:?}", slow.progress());
        let (mut asked, mut also) = (Vec::new(), Vec::new());
        let mut arrived: Vec<(PeerId, Bytes)> = Vec::new();
        while let Some(peer) = slow.poll_transmit(now, &mut asked) {
            assert_eq!(fast.poll_transmit(now, &mut also), Some(peer), "round {round}");
            assert_eq!(asked, also, "{behaviours:?}: asks for something else in round {round}");
            for reply in producers[peer.0 as usize].reply(&asked) {
                let Reply::Data(data) = reply else { continue };
                arrived.push((peer, data.clone().into()));
                if rng.chance(0.1) {
                    arrived.push((peer, data.into()));
                }
            }
        }
        assert_eq!(fast.poll_transmit(now, &mut also), None);
        rng.shuffle(&mut arrived);
        sizes = sizes.max(arrived.len());
        now += ms(1);
        for (peer, packet) in &arrived {
            slow.handle_data(now, *peer, packet.clone());
            fast.queue_data(now, *peer, packet.clone(), false);
        }
        fast.prove_queued(now);
        if slow.poll_timeout(now).is_some_and(|due| due <= now) {
            slow.handle_timeout(now);
        }
        if fast.poll_timeout(now).is_some_and(|due| due <= now) {
            fast.handle_timeout(now);
        }
        assert_eq!(events(&mut slow, original), events(&mut fast, original), "round {round}");
        assert_eq!(slow.progress(), fast.progress(), "round {round}");
        if slow.is_idle() {
            break;
        }
    }
    assert!(sizes > 40, "many came together: {sizes}");
    let bytes = |transfer: &Transfer| transfer.peers(now).map(|p| p.bytes).collect::<Vec<_>>();
    assert_eq!(bytes(&slow), bytes(&fast));
}

#[test]
fn a_batch_gives_the_results_of_single_packets() {
    let file = Original::file(3_000_000);
    for behaviour in [
        Behaviour::Honest,
        Behaviour::WrongByte,
        Behaviour::WrongProof,
        Behaviour::ShortProof,
        Behaviour::WrongTile,
        Behaviour::OtherNames,
        Behaviour::Chatty,
        Behaviour::Mangles,
    ] {
        both(&file, &[behaviour, Behaviour::Honest], 1);
    }
    both(&file, &[Behaviour::Honest], 2);
}

#[test]
fn a_batch_of_several_objects_gives_the_same_results() {
    let directory =
        Original::directory(&[20_000, 5, 70_000, 400_000, 9_000, 300_000, 8_192, 8_193]);
    assert!(directory.objects.contains_key(&ObjectId::Root));
    for behaviour in [Behaviour::Honest, Behaviour::WrongByte, Behaviour::OtherObject] {
        both(&directory, &[behaviour, Behaviour::Honest], 3);
    }
}

/// A batch holds packets of several peers, and some peers are dropped in its middle. The packets of the others count,
/// and no other peer is blamed.
#[test]
fn dropping_a_peer_mid_batch_keeps_other_peers_segments() {
    let file = Original::file(3_000_000);
    for behaviour in
        [Behaviour::WrongByte, Behaviour::WrongProof, Behaviour::WrongTile, Behaviour::Mangles]
    {
        let behaviours = [behaviour, Behaviour::Honest, behaviour];
        let mut producers: Vec<_> =
            behaviours.iter().map(|b| Producer::new(file.clone(), *b)).collect();
        let mut transfer = transfer_of(&file, 3, TransferConfig::default());
        let (mut rng, mut now, mut blamed, mut segments) = (Rng::new(7), ms(0), [0; 3], 0);
        for round in 0.. {
            assert!(round < 20_000, "{behaviour:?}: {:?}", transfer.progress());
            let (mut asked, mut arrived) = (Vec::new(), Vec::new());
            while let Some(peer) = transfer.poll_transmit(now, &mut asked) {
                for reply in producers[peer.0 as usize].reply(&asked) {
                    if let Reply::Data(data) = reply {
                        arrived.push((peer, Bytes::from(data)));
                    }
                }
            }
            rng.shuffle(&mut arrived);
            now += ms(1);
            for (peer, packet) in arrived {
                transfer.queue_data(now, peer, packet, false);
            }
            transfer.prove_queued(now);
            if transfer.poll_timeout(now).is_some_and(|due| due <= now) {
                transfer.handle_timeout(now);
            }
            for event in std::iter::from_fn(|| transfer.poll_event()).collect::<Vec<_>>() {
                match event {
                    TransferEvent::Manifest { manifest, .. } => {
                        let truth = &file.objects[&ObjectId::Root];
                        let (root, geometry) = (manifest.root, truth.geometry);
                        let all = Some(0..u64::MAX);
                        transfer.add_object(ObjectId::Root, root, geometry, all, [], None).unwrap();
                    }
                    TransferEvent::Segment { object, segment } => {
                        let content = &file.objects[&object].content[segment.offset as usize..];
                        assert!(content.starts_with(&segment.content), "a wrong byte passed");
                        segments += 1;
                    }
                    TransferEvent::PeerMisbehaved { peer, .. } => blamed[peer.0 as usize] += 1,
                    TransferEvent::Failed(reason) => panic!("{behaviour:?}: {reason}"),
                    _ => {}
                }
            }
            if transfer.is_idle() {
                break;
            }
        }
        assert_eq!(blamed[1], 0, "{behaviour:?}");
        assert!(blamed[0] > 0 && blamed[2] > 0, "{behaviour:?}: {blamed:?}");
        let limit = TransferConfig::default().max_misbehaviour;
        assert!(blamed.iter().all(|times| *times <= limit), "{behaviour:?}: {blamed:?}");
        assert_eq!(segments, file.objects[&ObjectId::Root].geometry.segments());
    }
}
