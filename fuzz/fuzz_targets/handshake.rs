//! Two endpoints and a network that the input commands: deliver, hold back, repeat, damage, forge (inside a right
//! envelope too), let time pass, lose a side's state. Nothing panics, and no packet arrives twice.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use xylem_link_internals::internals::handshake_envelope;
use xylem_link_internals::{
    Endpoint, LinkConfig, LinkEvent, LinkId, RatchetLimits, RekeyLimits, StaticKey,
};

struct World {
    ends: [Endpoint; 2],
    links: [Option<LinkId>; 2],
    flying: VecDeque<(usize, Vec<u8>)>,
    past: Vec<(usize, Vec<u8>)>,
    now: Duration,
    sent: [u32; 2],
    seen: [Vec<u32>; 2],
}

fn at(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n as u8], 1))
}

impl World {
    fn collect(&mut self) {
        let mut buf = Vec::new();
        for i in 0..2 {
            self.ends[i].handle_timeout(self.now);
            while let Some(t) = self.ends[i].poll_transmit(self.now, &mut buf) {
                for datagram in buf.chunks(t.segment_size.unwrap_or(t.len)) {
                    self.flying.push_back((1 - i, datagram.to_vec()));
                }
            }
            while let Some(event) = self.ends[i].poll_event() {
                match event {
                    LinkEvent::Connected { link, .. } => self.links[i] = Some(link),
                    LinkEvent::Closed { .. } => self.links[i] = None,
                    LinkEvent::Packet { packet, .. } => {
                        let n = u32::from_be_bytes(packet[..4].try_into().expect("as sent"));
                        assert!(!self.seen[i].contains(&n), "twice");
                        self.seen[i].push(n);
                    }
                    event => panic!("nobody opens streams: {event:?}"),
                }
            }
        }
    }

    fn deliver(&mut self, to: usize, from: usize, bytes: &[u8]) {
        self.ends[to].handle_datagram(self.now, at(from), BytesMut::from(bytes));
    }
}

fuzz_target!(|data: &[u8]| {
    let rekey = RekeyLimits { packets: 5, ..RekeyLimits::default() };
    let ratchet = RatchetLimits { bytes: 4_000, ..RatchetLimits::default() };
    let config = LinkConfig { rekey, ratchet, max_datagram: 1_500, ..LinkConfig::default() };
    let end = |n: u8| Endpoint::new(config.clone(), StaticKey::generate([n; 32]), [n; 32]);
    let mut world = World {
        ends: [end(0), end(1)],
        links: [None; 2],
        flying: VecDeque::new(),
        past: vec![],
        now: Duration::ZERO,
        sent: [0; 2],
        seen: [vec![], vec![]],
    };
    let key = world.ends[1].public_key();
    world.ends[0].connect(Duration::ZERO, at(1), Some(key));
    let mut rest = data;
    while let Some((&op, tail)) = rest.split_first() {
        rest = tail;
        world.collect();
        let pick = usize::from(op >> 4);
        match op & 15 {
            0..=4 => {
                if let Some((to, bytes)) = world.flying.pop_front() {
                    world.deliver(to, 1 - to, &bytes);
                    world.past.push((to, bytes));
                }
            }
            5 => world.flying.rotate_left(pick.min(world.flying.len())),
            6 => drop(world.flying.pop_front()),
            7 => {
                if let Some((to, bytes)) = world.past.iter().rev().nth(pick).cloned() {
                    world.deliver(to, if pick % 2 == 0 { 1 - to } else { 7 }, &bytes);
                }
            }
            8 => {
                if let Some((to, mut bytes)) = world.flying.front().cloned() {
                    let place = rest.first().copied().unwrap_or(0);
                    let place = usize::from(place) % bytes.len();
                    bytes[place] ^= 1 << (pick % 8);
                    world.deliver(to, 1 - to, &bytes);
                }
            }
            9 => {
                // A forged body in a right envelope, to an id in use if there is one.
                let len = rest.len().min(pick * 16);
                let (body, tail) = rest.split_at(len);
                rest = tail;
                let front = world.flying.front().and_then(|(_, b)| b.first_chunk().copied());
                let datagram = handshake_envelope(
                    (pick % 2 == 0).then_some(key.0),
                    front.unwrap_or([1; 8]),
                    body,
                );
                world.deliver(pick % 2, 1 - pick % 2, &datagram);
            }
            10 => {
                let len = rest.len().min(pick * 4);
                let (bytes, tail) = rest.split_at(len);
                rest = tail;
                world.deliver(pick % 2, 3, bytes);
            }
            11 | 12 => {
                let i = pick % 2;
                if let Some(link) = world.links[i] {
                    let mut packet = world.sent[i].to_be_bytes().to_vec();
                    packet.resize(4 + pick * 300, 0);
                    if world.ends[i].send(link, &packet).is_ok() {
                        world.sent[i] += 1;
                    }
                }
            }
            13 => world.now += Duration::from_millis(1 << pick),
            14 => world.now += Duration::from_micros(100),
            _ if pick > 13 => {
                if let Some(link) = world.links[pick % 2] {
                    world.ends[pick % 2].close(link);
                }
            }
            _ if pick == 13 => {
                // A restart: the same key, without state.
                world.ends[1] =
                    Endpoint::new(config.clone(), StaticKey::generate([1; 32]), [2; 32]);
                world.links[1] = None;
            }
            _ => world.ends[pick % 2].add_entropy([op; 32]),
        }
    }
});
