//! A forwarder with named faces, and packets in short notation.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use core::time::Duration;

use bytes::Bytes;
use xylem_forward::{Config, DropReason, FaceId, FaceScope, Forwarder};
use xylem_packet::{DataBuilder, InterestBuilder, LpPacket, NackReason, Name, Packet};

pub fn name(uri: &str) -> Name {
    Name::from_uri(uri).expect("a name that the test wrote")
}

/// An Interest for `uri`, changed by `change`.
pub fn interest_with(
    uri: &str,
    nonce: u32,
    change: impl for<'a> FnOnce(InterestBuilder<'a>) -> InterestBuilder<'a>,
) -> Bytes {
    let name = name(uri);
    let mut out = Vec::new();
    change(InterestBuilder::new(name.as_ref()).nonce(nonce.to_be_bytes()))
        .encode(&mut out)
        .expect("small enough");
    out.into()
}

pub fn interest(uri: &str, nonce: u32) -> Bytes {
    interest_with(uri, nonce, |builder| builder)
}

pub fn data_with(uri: &str, content: &[u8], freshness_ms: u64) -> Bytes {
    let name = name(uri);
    let mut out = Vec::new();
    DataBuilder::new(name.as_ref())
        .freshness_ms(freshness_ms)
        .encode(&mut out, content, |signed, value| {
            value.extend_from_slice(&xylem_packet::sha256(signed));
        })
        .expect("small enough");
    out.into()
}

pub fn data(uri: &str) -> Bytes {
    data_with(uri, b"content", 0)
}

pub fn link(fragment: &Bytes, change: impl for<'a> FnOnce(&mut LpPacket<'a>)) -> Bytes {
    let mut lp = LpPacket { fragment: Some(fragment), ..Default::default() };
    change(&mut lp);
    let mut out = Vec::new();
    lp.encode(&mut out);
    out.into()
}

pub fn with_token(fragment: &Bytes, token: &[u8]) -> Bytes {
    let mut out = Vec::new();
    LpPacket { fragment: Some(fragment), pit_token: Some(token), ..Default::default() }
        .encode(&mut out);
    out.into()
}

pub fn nacked(fragment: &Bytes, reason: NackReason) -> Bytes {
    link(fragment, |lp| lp.nack = Some(reason))
}

/// What left: the network packet's kind and name, with what the link packet said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub to: FaceId,
    pub what: What,
    pub name: String,
    pub token: Option<Vec<u8>>,
    pub nonce: Option<u32>,
    pub hops: Option<u8>,
    pub mark: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Interest,
    Data,
    Nack(NackReason),
}

pub fn read((to, packet): &(FaceId, Bytes)) -> Sent {
    let (inner, token, nack, mark) = match Packet::decode(packet).expect("a valid packet") {
        Packet::Lp(lp) => (
            lp.fragment.expect("a forwarder sends no idle packets"),
            lp.pit_token.map(<[u8]>::to_vec),
            lp.nack,
            lp.congestion_mark,
        ),
        _ => (&packet[..], None, None, None),
    };
    match Packet::decode(inner).expect("a valid packet") {
        Packet::Interest(i) => Sent {
            to: *to,
            what: nack.map_or(What::Interest, What::Nack),
            name: i.name().to_string(),
            token,
            nonce: i.nonce().map(u32::from_be_bytes),
            hops: i.hop_limit(),
            mark,
        },
        Packet::Data(d) => Sent {
            to: *to,
            what: What::Data,
            name: d.name().to_string(),
            token,
            nonce: None,
            hops: None,
            mark,
        },
        Packet::Lp(_) => panic!("a link packet within a link packet"),
    }
}

/// A forwarder, its clock, and what it sent.
pub struct World {
    pub forwarder: Forwarder,
    pub now: Duration,
}

impl World {
    pub fn new(change: impl FnOnce(&mut Config)) -> World {
        let mut config = Config::default();
        change(&mut config);
        World { forwarder: Forwarder::new(config), now: Duration::from_secs(1) }
    }

    pub fn local(&mut self) -> FaceId {
        self.forwarder.add_face(FaceScope::Local)
    }

    pub fn remote(&mut self) -> FaceId {
        self.forwarder.add_face(FaceScope::NonLocal)
    }

    pub fn route(&mut self, prefix: &str, face: FaceId, cost: u32) {
        self.forwarder.add_route(name(prefix).as_ref(), face, cost).expect("room for a route");
    }

    /// The result of a packet, and the bytes that left.
    pub fn raw(
        &mut self,
        from: FaceId,
        packet: &Bytes,
    ) -> (Result<(), DropReason>, Vec<(FaceId, Bytes)>) {
        let mut out = Vec::new();
        let result = self.forwarder.handle_packet(self.now, from, packet.clone(), &mut out);
        (result, out)
    }

    /// What left, for a packet that was accepted.
    pub fn ok(&mut self, from: FaceId, packet: &Bytes) -> Vec<Sent> {
        let (result, out) = self.raw(from, packet);
        assert_eq!(result, Ok(()));
        out.iter().map(read).collect()
    }

    /// Where a packet that was accepted went.
    pub fn to(&mut self, from: FaceId, packet: &Bytes) -> Vec<FaceId> {
        self.ok(from, packet).iter().map(|sent| sent.to).collect()
    }

    /// Why a packet was dropped, and what left all the same.
    pub fn dropped(&mut self, from: FaceId, packet: &Bytes) -> (DropReason, Vec<Sent>) {
        let (result, out) = self.raw(from, packet);
        (result.expect_err("a dropped packet"), out.iter().map(read).collect())
    }

    pub fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        let mut out = Vec::new();
        self.forwarder.handle_timeout(self.now, &mut out);
        assert!(out.is_empty());
    }
}
