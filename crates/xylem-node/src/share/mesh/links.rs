//! [`MeshLinks`]: what a mesh needs of the links below it. Normally an [`Engine`]; in tests, a network under virtual time.

use std::time::Duration;

use xylem_engine::{Engine, wall_clock};
use xylem_forward::FaceId;
use xylem_link::{StreamError, StreamId, StreamRead, purpose};
use xylem_mgmt::Persistency;
use xylem_object::Ticket;
use xylem_peers::reachable::PeerAddress;
use xylem_reach::relay::ConnectTarget;

use crate::look_up::resolved;
use crate::reaching;

/// Error code that resets a stream with invalid content.
const NOT_UNDERSTOOD: u32 = 1;

/// The links below a mesh.
pub(in crate::share) trait MeshLinks {
    fn now(&self) -> Duration;

    /// Milliseconds since 1970, for the expiry of certificates.
    fn wall_ms(&self) -> u64;

    /// Our own link key.
    fn own_key(&self) -> [u8; 32];

    /// The key that the other end of a link has proven.
    fn peer_key(&self, face: FaceId) -> Option<[u8; 32]>;

    /// The peers to dial for the owner of this key, at the ticket's addresses and relays.
    fn ways(&mut self, ticket: &Ticket, key: [u8; 32]) -> Vec<PeerAddress>;

    fn dial(&mut self, to: &PeerAddress) -> Option<FaceId>;

    /// Keeps a link that another member dialled.
    fn keep(&mut self, face: FaceId);

    fn hang_up(&mut self, face: FaceId, why: &'static str);

    fn open(&mut self, face: FaceId) -> Option<StreamId>;

    fn write(&mut self, face: FaceId, stream: StreamId, bytes: &[u8])
    -> Result<usize, StreamError>;

    fn read(&mut self, face: FaceId, stream: StreamId) -> Result<StreamRead, StreamError>;

    /// Ends our half; bytes written before still arrive. Returns false if the stream is unusable.
    fn finish(&mut self, face: FaceId, stream: StreamId) -> bool;

    fn abandon(&mut self, face: FaceId, stream: StreamId);
}

impl MeshLinks for Engine {
    fn now(&self) -> Duration {
        Self::now(self)
    }

    fn wall_ms(&self) -> u64 {
        wall_clock().milliseconds()
    }

    fn own_key(&self) -> [u8; 32] {
        self.link_key().0
    }

    fn peer_key(&self, face: FaceId) -> Option<[u8; 32]> {
        self.link_peer(face).map(|key| key.0)
    }

    fn ways(&mut self, ticket: &Ticket, key: [u8; 32]) -> Vec<PeerAddress> {
        let mut peers: Vec<PeerAddress> = resolved(&ticket.addresses)
            .0
            .into_iter()
            .map(|address| PeerAddress::Link { address, key: Some(key) })
            .collect();
        for relay in ticket.relays.iter().cloned() {
            if let Ok(relay) = reaching::to_dial(&relay.into())
                && self.use_relay(relay.clone()).is_ok()
            {
                peers.extend(reaching::through(&relay, Some(key), ConnectTarget::Key(key)));
            }
        }
        peers
    }

    fn dial(&mut self, to: &PeerAddress) -> Option<FaceId> {
        Self::dial(self, to, Persistency::Persistent).ok()
    }

    fn keep(&mut self, face: FaceId) {
        self.keep_face(face);
    }

    fn hang_up(&mut self, face: FaceId, why: &'static str) {
        self.drop_face(face, why);
    }

    fn open(&mut self, face: FaceId) -> Option<StreamId> {
        self.open_stream(face, purpose::SYNC).ok()
    }

    fn write(
        &mut self,
        face: FaceId,
        stream: StreamId,
        bytes: &[u8],
    ) -> Result<usize, StreamError> {
        self.write_stream(face, stream, bytes)
    }

    fn read(&mut self, face: FaceId, stream: StreamId) -> Result<StreamRead, StreamError> {
        self.read_stream(face, stream)
    }

    fn finish(&mut self, face: FaceId, stream: StreamId) -> bool {
        self.finish_stream(face, stream).is_ok()
    }

    fn abandon(&mut self, face: FaceId, stream: StreamId) {
        self.abandon_stream(face, stream, NOT_UNDERSTOOD);
    }
}
