//! [`EngineEvent`]: what the program hears.

use std::net::SocketAddr;

use bytes::Bytes;
use xylem_forward::FaceId;
use xylem_link::StreamId;
use xylem_packet::{NackReason, Name};

use crate::reaching::RelayNews;
use xylem_library::reachable::FaceAddress;

/// What the program hears from the engine.
#[derive(Debug)]
pub enum EngineEvent {
    /// A face can be used from now on.
    FaceUp {
        /// Which.
        face: FaceId,
        /// Who is at its other end.
        peer: FaceAddress,
    },
    /// What the strategy self-learning heard; nothing of it is proven.
    Lesson {
        /// The face that it came over.
        face: FaceId,
        /// The name of the Data with which it came, or of the Interest that came back.
        name: Name,
        /// The Data by which a prefix is announced; `None`: whoever is behind the face knows no way to the name.
        announcement: Option<Vec<u8>>,
    },
    /// A face's connection ended, or never came up. Unless the face is `gone`, it is dialled again.
    FaceDown {
        /// Which.
        face: FaceId,
        /// Who was at its other end.
        peer: FaceAddress,
        /// Why, in words for people.
        why: String,
        /// It will not be dialled again.
        gone: bool,
    },
    /// A packet for the program; `from` is the face that it came over. With `nack` it is an Interest
    /// of the program's that came back. `marked`: it met congestion on its way.
    Packet {
        /// The face that it came over.
        from: FaceId,
        /// The whole NDN packet.
        packet: Bytes,
        /// Why an Interest of the program's came back.
        nack: Option<NackReason>,
        /// It met congestion on its way.
        marked: bool,
    },
    /// Somebody answers a dial who has another key than the one that is wanted there.
    OtherKey {
        /// The face that was dialled.
        face: FaceId,
    },
    /// A link goes on by another way.
    Moved {
        /// The face of the link.
        face: FaceId,
        /// Where its other end is now.
        to: FaceAddress,
    },
    /// Something happened with a relay that is used.
    Relay {
        /// The key of the relay.
        relay: [u8; 32],
        /// Where it is tried first.
        at: SocketAddr,
        /// What happened.
        what: RelayNews,
    },
    /// Something that the user should know of, once.
    Trouble {
        /// In words for people.
        what: String,
    },
    /// Something happened to a reliable stream of an encrypted link.
    Stream {
        /// The face of the link.
        face: FaceId,
        /// Which stream of it.
        stream: StreamId,
        /// What happened.
        what: StreamEvent,
    },
}

/// What happened to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEvent {
    /// The peer opened it, for this purpose.
    Opened {
        /// As two programs agree: docs/spec/link.md, "Streams".
        purpose: u16,
    },
    /// There is something to read, or the end.
    Readable,
    /// There is room to write again.
    Writable,
    /// The peer gave its half up.
    Reset,
    /// The peer reads no more.
    Stopped,
    /// Everything that was written, and the end, has arrived.
    Delivered,
}
