//! Any packets from any faces: the forwarder must not panic, must keep its limits, and must send only whole packets to
//! faces that exist. Two of them, on the heap and in arrays, get the same input.
//!
//! Input: steps of one octet (face in the low two bits; time to pass in the others, in 100 ms), one octet of headers
//! and settings, one octet of length, then this many bytes of packet.
#![no_main]

use core::time::Duration;

use xylem_forward::{
    CsSettings, FaceId, FaceScope, FaceSettings, Fixed, Forwarder, ForwarderConfig, ForwarderSeed,
    ForwardingStrategy, Heap, IncomingPacket, LinkType, OutgoingPacket, Storage,
};
use xylem_packet::{NackReason, Name, Packet};

const PIT: usize = 16;
const STORE: usize = 8192;

struct World<S: Storage> {
    forwarder: Forwarder<S>,
    faces: Vec<FaceId>,
}

impl<S: Storage> World<S> {
    fn new() -> Self {
        let mut config = ForwarderConfig::default();
        config.pit_capacity = PIT;
        config.cs_capacity_bytes = STORE;
        config.dead_nonces = 16;
        config.measurements = 8;
        config.probing_interval = Duration::from_millis(200);
        let mut world = World {
            forwarder: Forwarder::new(config, ForwarderSeed::from_random([0; 16])),
            faces: Vec::new(),
        };
        (0..4).for_each(|i| world.face(i));
        world.forwarder.add_region(name("/a/b").as_ref()).expect("room");
        world
    }

    fn face(&mut self, i: usize) {
        let mut settings = FaceSettings::from(FaceScope::NonLocal);
        match i {
            0 => settings.scope = FaceScope::Local,
            2 => settings.link_type = LinkType::AdHoc,
            3 => (settings.interests_per_second, settings.pit_quota) = (Some(100), Some(4)),
            _ => {}
        }
        let face = self.forwarder.try_add_face(settings).expect("room for a face");
        if i < self.faces.len() {
            self.faces[i] = face;
        } else {
            self.faces.push(face);
        }
        for prefix in [["/localhost", "/", "/a", "/"][i], "/b"] {
            self.forwarder.add_route(name(prefix).as_ref(), face, i as u32).expect("room");
        }
    }

    fn change(&mut self, change: u8) {
        let strategy = ForwardingStrategy::ALL[usize::from(change) % ForwardingStrategy::ALL.len()];
        match change >> 5 {
            1 => self.forwarder.set_strategy(name("/").as_ref(), strategy).expect("room"),
            2 => self.forwarder.set_strategy(name("/a").as_ref(), strategy).expect("room"),
            3 => drop(self.forwarder.erase_cs(name("/a").as_ref(), Some(2))),
            4 => self.forwarder.configure_cs(CsSettings {
                capacity_packets: Some(usize::from(change & 7)),
                ..CsSettings::default()
            }),
            5 => {
                let i = usize::from(change & 3);
                self.forwarder.remove_face(self.faces[i]);
                self.face(i);
            }
            _ => {}
        }
    }

    fn step(&mut self, now: Duration, step: u8, headers: u8, packet: &[u8]) {
        let known = self.faces.clone();
        let mut out = |to: FaceId, leaving: OutgoingPacket<'_>| {
            assert!(known.contains(&to));
            assert!(leaving.pit_token.is_none_or(|token| (1..=32).contains(&token.len())));
            assert!(matches!(
                (Packet::decode(leaving.packet), leaving.nack),
                (Ok(Packet::Interest(_)), _) | (Ok(Packet::Data(_)), None)
            ));
        };
        self.forwarder.handle_timeout(now, &mut out);
        let from = self.faces[usize::from(step & 3)];
        let token = [headers; 32];
        let incoming = IncomingPacket {
            pit_token: (headers & 1 != 0).then(|| &token[..1 + usize::from(headers >> 3)]),
            nack: (headers & 6 == 6).then_some(NackReason::CONGESTION),
            next_hop: (headers & 14 == 8).then(|| self.faces[usize::from(headers >> 6)]),
            no_cache: headers & 16 != 0,
            ..IncomingPacket::bare(packet)
        };
        let _ = self.forwarder.handle_packet(now, from, incoming, &mut out);
        assert!(self.forwarder.pit_len() <= PIT);
        assert!(self.forwarder.cs().bytes <= STORE);
        assert_eq!(self.forwarder.pit_len() == 0, self.forwarder.poll_timeout().is_none());
    }

    fn end(&mut self, now: Duration) {
        let mut out = |_: FaceId, _: OutgoingPacket<'_>| panic!("time sends nothing");
        self.forwarder.handle_timeout(now + Duration::from_secs(100), &mut out);
        assert_eq!(self.forwarder.pit_len(), 0);
    }
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).expect("a name")
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut heap: World<Heap> = World::new();
    let mut arrays: World<Fixed<4, PIT, 4, 4, 300, 24>> = World::new();
    let mut now = Duration::ZERO;
    let mut rest = input;
    while let [step, headers, len, more @ ..] = rest {
        let (packet, after) = more.split_at(usize::from(*len).min(more.len()));
        rest = after;
        now += Duration::from_millis(100) * u32::from(step >> 2);
        if packet.is_empty() {
            heap.change(*headers);
            arrays.change(*headers);
        }
        heap.step(now, *step, *headers, packet);
        arrays.step(now, *step, *headers, packet);
    }
    heap.end(now);
    arrays.end(now);
});
