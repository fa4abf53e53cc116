//! Many links over one socket: who a datagram belongs to, and what is sent next.

use core::net::SocketAddr;
use core::time::Duration;

use bytes::BytesMut;

use crate::{
    Config, EndpointStats, Event, LinkId, LinkStats, PeerKey, SendError, StaticKey, Transmit,
};

/// Many links over one socket.
#[derive(Debug)]
pub struct Endpoint {
    key: StaticKey,
    next: u64,
}

impl Endpoint {
    /// An endpoint with this identity. `rng_seed`: 32 random bytes, never used twice.
    #[must_use]
    pub fn new(_config: Config, key: StaticKey, _rng_seed: [u8; 32]) -> Self {
        Self { key, next: 0 }
    }

    /// Our public key.
    #[must_use]
    pub fn public_key(&self) -> PeerKey {
        self.key.public()
    }

    /// Dials `remote`. With `expected`, only the holder of that key can answer.
    pub fn connect(
        &mut self,
        _now: Duration,
        _remote: SocketAddr,
        _expected: Option<PeerKey>,
    ) -> LinkId {
        self.next += 1;
        LinkId(self.next)
    }

    /// Takes one datagram from the socket; it is opened in place.
    pub fn handle_datagram(&mut self, _now: Duration, _from: SocketAddr, _datagram: BytesMut) {}

    /// Queues a packet of 1..=`MAX_PACKET` bytes.
    ///
    /// # Errors
    /// See [`SendError`]; the packet is not queued then.
    pub fn send(&mut self, _link: LinkId, _packet: &[u8]) -> Result<(), SendError> {
        Err(SendError::NotConnected)
    }

    /// Writes what is to be sent next to `buf`, replacing what is in it.
    pub fn poll_transmit(&mut self, _now: Duration, _buf: &mut Vec<u8>) -> Option<Transmit> {
        None
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// When [`Endpoint::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        None
    }

    /// Does what time has made due.
    pub fn handle_timeout(&mut self, _now: Duration) {}

    /// Closes a link.
    pub fn close(&mut self, _link: LinkId) {}

    /// Counters of a link, if there is one.
    #[must_use]
    pub fn stats(&self, _link: LinkId) -> Option<LinkStats> {
        None
    }

    /// Counters of the endpoint.
    #[must_use]
    pub fn endpoint_stats(&self) -> EndpointStats {
        EndpointStats::default()
    }
}
