//! Test helpers: a forwarder with named faces, and short notation for packets.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use core::time::Duration;

use bytes::Bytes;
use xylem_forward::{
    DropReason, FaceId, FaceScope, Forwarder, ForwarderConfig, ForwarderSeed, IncomingPacket,
    LearnedRoute, OutgoingPacket, Outlet,
};
use xylem_packet::{DataBuilder, InterestBuilder, NackReason, Name, Packet};

pub(crate) fn name(uri: &str) -> Name {
    Name::from_uri(uri).expect("a name that the test wrote")
}

/// An Interest for `uri`, changed by `change`.
pub(crate) fn interest_with(
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

pub(crate) fn interest(uri: &str, nonce: u32) -> Bytes {
    interest_with(uri, nonce, |builder| builder)
}

pub(crate) fn data_with(uri: &str, content: &[u8], freshness_ms: u64) -> Bytes {
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

pub(crate) fn data(uri: &str) -> Bytes {
    data_with(uri, b"content", 0)
}

/// A packet with the link headers that it arrived with, owned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub(crate) packet: Bytes,
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) nack: Option<NackReason>,
    pub(crate) mark: Option<u64>,
    pub(crate) next_hop: Option<FaceId>,
    pub(crate) no_cache: bool,
    pub(crate) non_discovery: bool,
    pub(crate) announcement: Option<Vec<u8>>,
}

impl Frame {
    pub(crate) fn incoming(&self) -> IncomingPacket<'_> {
        IncomingPacket {
            packet: &self.packet,
            pit_token: self.token.as_deref(),
            nack: self.nack,
            congestion_mark: self.mark,
            next_hop: self.next_hop,
            no_cache: self.no_cache,
            non_discovery: self.non_discovery,
            announcement: self.announcement.as_deref(),
        }
    }
}

impl From<&Bytes> for Frame {
    fn from(packet: &Bytes) -> Frame {
        Frame { packet: packet.clone(), ..Frame::default() }
    }
}

impl From<&Frame> for Frame {
    fn from(frame: &Frame) -> Frame {
        frame.clone()
    }
}

pub(crate) fn link(packet: &Bytes, change: impl FnOnce(&mut Frame)) -> Frame {
    let mut frame = Frame::from(packet);
    change(&mut frame);
    frame
}

pub(crate) fn with_token(packet: &Bytes, token: &[u8]) -> Frame {
    link(packet, |frame| frame.token = Some(token.to_vec()))
}

pub(crate) fn nacked(packet: &Bytes, reason: NackReason) -> Frame {
    link(packet, |frame| frame.nack = Some(reason))
}

/// A packet that the forwarder sent, and where its bytes lay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) to: FaceId,
    pub(crate) packet: Vec<u8>,
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) nack: Option<NackReason>,
    pub(crate) mark: Option<u64>,
    pub(crate) incoming_face: Option<FaceId>,
    pub(crate) non_discovery: bool,
    pub(crate) announcement: Option<Vec<u8>>,
    pub(crate) at: *const u8,
}

/// An outlet that keeps what is sent.
#[derive(Default)]
pub(crate) struct Kept(pub Vec<Left>, pub Vec<String>);

impl Outlet for Kept {
    fn send(&mut self, to: FaceId, leaving: OutgoingPacket<'_>) {
        assert_ne!(leaving.congestion_mark, Some(0));
        self.0.push(Left {
            to,
            packet: leaving.packet.to_vec(),
            token: leaving.pit_token.map(<[u8]>::to_vec),
            nack: leaving.nack,
            mark: leaving.congestion_mark,
            incoming_face: leaving.incoming_face,
            non_discovery: leaving.non_discovery,
            announcement: leaving.announcement.map(<[u8]>::to_vec),
            at: leaving.packet.as_ptr(),
        });
    }

    fn on_learned(&mut self, lesson: LearnedRoute<'_>) {
        self.1.push(match lesson {
            LearnedRoute::Announced { face, name, announcement } => {
                let text = String::from_utf8_lossy(announcement);
                format!("{face} announces {text:?} with {name}")
            }
            LearnedRoute::NoRoute { face, name } => format!("{face} knows no way to {name}"),
        });
    }
}

/// A packet that the forwarder sent: its kind, its name and its link headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) to: FaceId,
    pub(crate) what: What,
    pub(crate) name: String,
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) nonce: Option<u32>,
    pub(crate) hops: Option<u8>,
    pub(crate) mark: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Interest,
    Data,
    Nack(NackReason),
}

pub(crate) fn read(left: &Left) -> Sent {
    let (to, token, mark) = (left.to, left.token.clone(), left.mark);
    match Packet::decode(&left.packet).expect("a valid packet") {
        Packet::Interest(i) => Sent {
            to,
            what: left.nack.map_or(What::Interest, What::Nack),
            name: i.name().to_string(),
            token,
            nonce: i.nonce().map(u32::from_be_bytes),
            hops: i.hop_limit(),
            mark,
        },
        Packet::Data(d) => Sent {
            to,
            what: What::Data,
            name: d.name().to_string(),
            token,
            nonce: None,
            hops: None,
            mark,
        },
        Packet::Lp(_) => panic!("a forwarder sends bare packets"),
    }
}

/// A forwarder, its clock, and what it sent.
pub(crate) struct World {
    pub(crate) forwarder: Forwarder,
    pub(crate) now: Duration,
    lessons: Vec<String>,
}

impl World {
    pub(crate) fn new(change: impl FnOnce(&mut ForwarderConfig)) -> World {
        let mut config = ForwarderConfig::default();
        change(&mut config);
        World {
            forwarder: Forwarder::new(config, ForwarderSeed::from_random([5; 16])),
            now: Duration::from_secs(1),
            lessons: Vec::new(),
        }
    }

    pub(crate) fn local(&mut self) -> FaceId {
        self.forwarder.add_face(FaceScope::Local)
    }

    pub(crate) fn remote(&mut self) -> FaceId {
        self.forwarder.add_face(FaceScope::NonLocal)
    }

    pub(crate) fn route(&mut self, prefix: &str, face: FaceId, cost: u32) {
        self.forwarder.add_route(name(prefix).as_ref(), face, cost).expect("room for a route");
    }

    /// The result for a packet, and what the forwarder sent.
    pub(crate) fn raw(
        &mut self,
        from: FaceId,
        packet: impl Into<Frame>,
    ) -> (Result<(), DropReason>, Vec<Left>) {
        let mut out = Kept::default();
        let frame = packet.into();
        let result = self.forwarder.handle_packet(self.now, from, frame.incoming(), &mut out);
        self.lessons.extend(out.1);
        (result, out.0)
    }

    /// The lessons that the forwarder reported since the last call.
    pub(crate) fn lessons(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lessons)
    }

    /// The packets that the forwarder sent for one that it accepted.
    pub(crate) fn ok(&mut self, from: FaceId, packet: impl Into<Frame>) -> Vec<Sent> {
        let (result, out) = self.raw(from, packet);
        assert_eq!(result, Ok(()));
        out.iter().map(read).collect()
    }

    /// The faces to which it sent, for a packet that it accepted.
    pub(crate) fn to(&mut self, from: FaceId, packet: impl Into<Frame>) -> Vec<FaceId> {
        self.ok(from, packet).iter().map(|sent| sent.to).collect()
    }

    /// Why a packet was dropped, and what the forwarder sent nevertheless.
    pub(crate) fn dropped(
        &mut self,
        from: FaceId,
        packet: impl Into<Frame>,
    ) -> (DropReason, Vec<Sent>) {
        let (result, out) = self.raw(from, packet);
        (result.expect_err("a dropped packet"), out.iter().map(read).collect())
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        let mut out = Kept::default();
        self.forwarder.handle_timeout(self.now, &mut out);
        assert!(out.0.is_empty());
    }
}
