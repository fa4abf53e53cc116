//! [`EngineEvent`]: the events that a program receives.

use std::net::SocketAddr;

use bytes::Bytes;
use xylem_forward::FaceId;
use xylem_link::StreamId;
use xylem_packet::{NackReason, Name};

use crate::reaching::RelayNotice;
use xylem_library::reachable::FaceAddress;

/// An event of the engine for its program.
#[derive(Debug)]
pub enum EngineEvent {
    /// A face can be used from now on.
    FaceUp {
        /// The face.
        face: FaceId,
        /// Its other end.
        peer: FaceAddress,
    },
    /// An observation of the self-learning strategy; it is not verified.
    LearnedRoute {
        /// The face that it came over.
        face: FaceId,
        /// The name of the Data that brought it, or of the Interest that came back.
        name: Name,
        /// The Data that announces a prefix; `None`: the node behind the face has no route to the name.
        announcement: Option<Vec<u8>>,
    },
    /// A face's connection ended, or never came up. Unless the face is `gone`, it is dialled again.
    FaceDown {
        /// The face.
        face: FaceId,
        /// Its other end.
        peer: FaceAddress,
        /// The reason, as text for users.
        why: String,
        /// It will not be dialled again.
        gone: bool,
    },
    /// A packet for the program. With `nack` it is an Interest of the program's that came back.
    Packet {
        /// The face that it came over.
        from: FaceId,
        /// The whole NDN packet.
        packet: Bytes,
        /// Why an Interest of the program's came back.
        nack: Option<NackReason>,
        /// It met congestion on its path.
        marked: bool,
    },
    /// A peer answered a dial with another key than the expected one.
    OtherKey {
        /// The face that was dialled.
        face: FaceId,
    },
    /// A link has moved to another way.
    Moved {
        /// The face of the link.
        face: FaceId,
        /// The address of its other end now.
        to: FaceAddress,
    },
    /// News of a relay in use.
    Relay {
        /// The key of the relay.
        relay: [u8; 32],
        /// The address at which it is tried first.
        at: SocketAddr,
        /// The news.
        what: RelayNotice,
    },
    /// A problem that is reported to the user once.
    Trouble {
        /// The text for users.
        what: String,
    },
    /// An event of a reliable stream of an encrypted link.
    Stream {
        /// The face of the link.
        face: FaceId,
        /// The stream of that link.
        stream: StreamId,
        /// The event.
        what: StreamEvent,
    },
}

/// An event of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEvent {
    /// The peer opened it, for this purpose.
    Opened {
        /// The purpose that both programs agree on: docs/spec/link.md, "Streams".
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
