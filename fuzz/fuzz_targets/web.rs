//! Inputs of a page's fetch: packets of peers, and data kept by the browser. No panic, and no wrong byte comes out.
#![no_main]

use core::time::Duration;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use xylem_object::{Manifest, Packets, PublisherKey, Ticket, naming, produce};
use xylem_packet::{Data, Packet};
use xylem_web::{Download, PageReport};

const LEN: usize = 70_000;

static FILE: LazyLock<(String, Vec<Vec<u8>>)> = LazyLock::new(|| {
    let key = PublisherKey::from_bytes(&[7; 32]);
    let object = naming::default_name(&key.public(), b"x");
    let prefix = naming::versioned(object.as_ref(), 1).unwrap();
    let mut packets = Packets::default();
    let like = Manifest::file(xylem_hash::hash(b""), 0, b"x");
    let manifest = produce(&like, prefix.as_ref(), &[7; LEN], key.signer(), &mut packets).unwrap();
    let ticket = Ticket {
        publisher: key.public(),
        root: manifest.root,
        name: Some(prefix),
        link_key: None,
        size: None,
        kind: None,
        addresses: Vec::new(),
        relays: Vec::new(),
    };
    (ticket.to_string(), packets.iter().map(<[u8]>::to_vec).collect())
});

fuzz_target!(|input: &[u8]| {
    let (ticket, packets) = &*FILE;
    let mut download = Download::new(ticket, 1).unwrap();
    let mut asked: Vec<(u32, Vec<u8>)> = Vec::new();
    let (mut now, mut packet) = (Duration::ZERO, Vec::new());
    download.add_peer(now, 0);
    let mut rest = input;
    while let Some((&op, after)) = rest.split_first() {
        let length = usize::from(after.first().copied().unwrap_or(0)).min(after.len());
        let (body, next) = after.split_at(length);
        rest = next;
        let peer = u32::from(op >> 6);
        let first = usize::from(body.first().copied().unwrap_or(0));
        match op & 15 {
            0 => download.handle_message(now, peer, body.to_vec().into()),
            // Honest answers to Interests, whole or with a byte changed.
            1..=3 => {
                for (whom, interest) in std::mem::take(&mut asked) {
                    let Ok(Packet::Interest(interest)) = Packet::decode(&interest) else {
                        panic!()
                    };
                    let named =
                        |data: &&Vec<u8>| Data::decode(data).unwrap().name() == interest.name();
                    let Some(found) = packets.iter().find(named) else { continue };
                    let mut answer = found.clone();
                    if op & 15 == 3 {
                        let at = first * answer.len() / 256;
                        answer[at] ^= op | 1;
                    }
                    download.handle_message(now, whom, answer.into());
                }
            }
            4 => now += Duration::from_micros((first as u64).pow(3)),
            5 => {
                download.add_peer(now, peer);
            }
            6 => download.remove_peer(now, peer),
            7 => download.flush(),
            8 => download.load_nodes(body),
            9 => {
                // Records of true nodes, which the fuzzer cannot guess.
                let mut records = Vec::new();
                for (slot, value) in body.chunks(33).enumerate() {
                    records.extend_from_slice(&(slot as u64).to_le_bytes());
                    records.extend(value.iter().copied().chain(core::iter::repeat(0)).take(32));
                }
                download.load_nodes(&records);
            }
            10 => {
                let asked = download.next_check();
                assert!(asked.is_none_or(|range| range.end <= LEN as u64));
            }
            11 => {
                download.check(body);
            }
            12 => {
                download.check(&[7; 10_000]);
            }
            13 => download.begin(),
            _ => download.handle_timeout(now),
        }
        for _ in 0..64 {
            let Some(peer) = download.poll_transmit(now, &mut packet) else { break };
            if asked.len() < 64 {
                asked.push((peer, packet.clone()));
            }
        }
        while let Some(told) = download.poll_report() {
            match told {
                PageReport::Run(run) => {
                    assert!(run.offset + run.bytes.len() as u64 <= LEN as u64);
                    assert!(run.bytes.iter().all(|byte| *byte == 7), "a wrong byte came through");
                }
                PageReport::Text(text) => assert!(text.starts_with("{\"is\":\"")),
                PageReport::Nodes(records) => assert_eq!(records.len() % 40, 0),
            }
        }
        let _ = (download.poll_timeout(now), download.state(now));
    }
});
