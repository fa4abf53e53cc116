//! [`EngineEvent`]: the events that a program receives. [`FaceEnd`]: why a face ended. [`PendingEvents`]: those that the
//! program has not received yet.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use xylem_forward::FaceId;
use xylem_link::{CloseReason, StreamId};
use xylem_packet::{NackReason, Name};
use xylem_peers::reachable::{FaceAddress, KEYLESS};
use xylem_reach::relay::RelayRefusal;

use crate::faces::FaceTrouble;
use crate::reaching::RelayNotice;

/// Why a face's connection ended, or never came up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FaceEnd {
    /// Its encrypted link ended.
    #[error(transparent)]
    Link(#[from] CloseReason),
    /// Nothing answered at an address that was dialled without a key. A peer there may answer those alone that know
    /// its key.
    #[error("{KEYLESS}")]
    Keyless,
    /// The relay through which it was dialled refuses to connect it.
    #[error(transparent)]
    Relay(#[from] RelayRefusal),
    /// The relay through which it was dialled has failed.
    #[error("relay {at}: {why}")]
    RelayFailed {
        /// The relay's address.
        at: String,
        /// The failure, as text for users.
        why: String,
    },
    /// Its socket failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// This program ended it, for this reason.
    #[error("{0}")]
    Dropped(&'static str),
}

impl From<&'static str> for FaceEnd {
    fn from(why: &'static str) -> Self {
        Self::Dropped(why)
    }
}

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
        /// The reason.
        why: FaceEnd,
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

/// Events that wait for the program, in order. A trouble is among them once in the engine's life.
#[derive(Default)]
pub(crate) struct PendingEvents {
    events: VecDeque<EngineEvent>,
    troubles: Vec<FaceTrouble>,
}

impl PendingEvents {
    #[inline]
    pub(crate) fn push(&mut self, event: EngineEvent) {
        self.events.push_back(event);
    }

    /// Reports a trouble, unless one of its kind was reported before.
    pub(crate) fn push_trouble(&mut self, trouble: FaceTrouble, what: impl FnOnce() -> String) {
        if !self.troubles.contains(&trouble) {
            self.troubles.push(trouble);
            let what = what();
            tracing::warn!(what);
            self.push(EngineEvent::Trouble { what });
        }
    }

    /// Takes the oldest event.
    pub(crate) fn pop(&mut self) -> Option<EngineEvent> {
        self.events.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
