//! [`Link`]: the state of one established link, and its timers.
//!
//! `link/receive.rs` takes datagrams in, `link/transmit.rs` writes them out.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use thiserror::Error;

use crate::config::LinkConfig;
use crate::event::{CloseReason, LinkId};
use crate::frame::MAX_PACKET;
use crate::header::ConnectionId;
use crate::kdf::LinkRng;
use crate::keys::PeerKey;
use crate::message::LinkParameters;
use crate::mtu::{BASE_DATAGRAM, PathMtu};
use crate::queue::{SendQueue, SpareBuffers};
use crate::reassembly::Reassembly;
use crate::rekey::Rekey;
use crate::repair::FragmentRepair;
use crate::seal::{Opener, Sealer};
use crate::shape::Shaper;
use crate::stats::LinkStats;
use crate::stream::{StreamSettings, Streams};

mod candidates;
mod ecn;
mod ending;
mod keys;
mod liveness;
mod moving;
mod path;
mod probe;
mod receive;
mod shaped;
mod streams;
mod transmit;

use candidates::CandidateExchange;
use ecn::EcnState;
use ending::LinkEnding;
use keys::LinkKeys;
use liveness::Liveness;
use moving::ReportedAddress;
use path::PathValidation;
use probe::PathProber;
pub use probe::ProbePace;
use shaped::LinkShaping;
use streams::LinkStreams;

/// Bytes that may wait for `poll_transmit` before [`LinkSendError::Full`].
const SEND_QUEUE_BYTES: usize = 1 << 20;
/// Most datagrams of one size in one [`crate::Transmit`].
const MAX_SEGMENTS: usize = 32;
/// Most pongs, and answers of each other kind, that wait to be sent; further ones are not answered.
const MAX_ANSWERS: usize = 8;

/// Why a packet was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum LinkSendError {
    /// The link's send queue is full: call again after `poll_transmit`.
    #[error("the link's send queue is full")]
    Full,
    /// The packet is empty or longer than [`MAX_PACKET`].
    #[error("the packet is empty or longer than {MAX_PACKET} bytes")]
    Size,
    /// There is no such link (any more).
    #[error("no such link")]
    NoLink,
    /// The link's handshake is not complete.
    #[error("the link is not connected yet")]
    NotConnected,
}

/// The dialer's last handshake message, sent again until something authentic arrives.
#[derive(Debug)]
pub(crate) struct Finish {
    pub datagram: Vec<u8>,
    pub next: Duration,
    pub wait: Duration,
    pub deadline: Duration,
}

/// Small frames that this side owes to the peer.
#[derive(Debug, Default)]
struct Owed {
    ping: bool,
    pongs: VecDeque<u64>,
    probe_acks: VecDeque<u32>,
    responses: VecDeque<u64>,
    /// An observed frame: the address at which the peer is seen.
    observed: bool,
}

/// A link to a peer with which the handshake is complete. [`crate::Endpoint::link`] lends it.
pub struct Link {
    id: LinkId,
    peer: PeerKey,
    remote: SocketAddr,
    keys: LinkKeys,
    queue: SendQueue,
    reassembly: Reassembly,
    repair: FragmentRepair,
    mtu: PathMtu,
    rng: LinkRng,
    liveness: Liveness,
    owed: Owed,
    paths: PathValidation,
    reach: PathProber,
    candidates: CandidateExchange,
    observed: ReportedAddress,
    finish: Option<Finish>,
    ending: LinkEnding,
    shaping: LinkShaping,
    streams: LinkStreams,
    ecn: EcnState,
    scratch: Vec<u8>,
    stats: LinkStats,
}

/// The results of a completed handshake, from which a link is made.
pub(crate) struct NewLink {
    pub id: LinkId,
    pub peer: PeerKey,
    pub remote: SocketAddr,
    pub sealer: Sealer,
    pub opener: Opener,
    pub theirs: LinkParameters,
    pub post_quantum: bool,
    /// The duration of the handshake, if it measures the path's round trip.
    pub rtt: Option<Duration>,
    pub rng: LinkRng,
    pub finish: Option<Finish>,
}

impl Link {
    pub(crate) fn new(config: &LinkConfig, now: Duration, mut new: NewLink) -> Self {
        let mut limit = config.max_datagram.min(new.theirs.max_datagram);
        let mut queue = SendQueue::new(SEND_QUEUE_BYTES, MAX_SEGMENTS);
        let mut shaper = Shaper::of_link(&config.shaping, &new.theirs, &mut new.rng, now);
        if let Some(shaper) = &mut shaper {
            limit = shaper.largest().map_or(limit, |largest| largest.min(limit));
            queue.shape(shaper);
        }
        // Only a dialer has a finish to send.
        let dialer = new.finish.is_some();
        let rekey = if dialer { Rekey::dialer(config.ratchet, now) } else { Rekey::responder() };
        let idle_timeout = config.idle_timeout.min(new.theirs.idle_timeout);
        let idle_timeout = idle_timeout.max(Duration::from_secs(1));
        // ECN stays off behind a gate: a mark that comes and goes would show through a fixed rhythm.
        let ecn = config.ecn && !shaper.as_ref().is_some_and(|s| s.is_gated());
        Self {
            id: new.id,
            peer: new.peer,
            remote: new.remote,
            keys: LinkKeys::new(now, new.sealer, new.opener, rekey),
            queue,
            reassembly: Reassembly::default(),
            repair: FragmentRepair::new(now),
            mtu: PathMtu::new(BASE_DATAGRAM, limit, now),
            rng: new.rng,
            liveness: Liveness::new(now, idle_timeout, config.keep_alive, new.rtt),
            owed: Owed { ping: true, ..Owed::default() },
            paths: PathValidation::default(),
            reach: PathProber::default(),
            candidates: CandidateExchange::default(),
            observed: ReportedAddress::default(),
            finish: new.finish,
            ending: LinkEnding::default(),
            shaping: LinkShaping::new(shaper),
            streams: LinkStreams::new(StreamSettings {
                dialer,
                algorithm: config.congestion,
                max_streams: config.max_streams,
            }),
            ecn: EcnState::new(ecn),
            scratch: Vec::new(),
            stats: LinkStats { post_quantum: new.post_quantum, ..LinkStats::default() },
        }
    }

    /// The peer's identity.
    #[must_use]
    pub fn peer(&self) -> PeerKey {
        self.peer
    }

    /// The peer's address, as far as proven.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Counters since the link was made.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        LinkStats {
            datagram_size: self.mtu.current(),
            rtt: self.liveness.rtt(),
            shaping: self.shaping.level(),
            datagrams_missing: self.keys.window().end() - self.stats.datagrams_received,
            ..self.stats
        }
    }

    /// Number of authentic datagrams received.
    pub(crate) fn received(&self) -> u64 {
        self.stats.datagrams_received
    }

    /// The connection ids under which the peer's datagrams may arrive now.
    pub(crate) fn connection_ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.keys.connection_ids()
    }

    pub(crate) fn send(
        &mut self,
        packet: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), LinkSendError> {
        if packet.is_empty() || packet.len() > MAX_PACKET {
            return Err(LinkSendError::Size);
        }
        if self.ending.is_closing() {
            return Err(LinkSendError::NoLink);
        }
        // The latest time known here is that of the last arrival.
        let as_pieces = self.repair.is_lossy(self.liveness.last_received());
        let datagram = self.mtu.current();
        self.queue.push(packet, datagram, as_pieces, spare).map_err(|_| LinkSendError::Full)?;
        self.stats.packets_sent += 1;
        self.liveness.on_use();
        Ok(())
    }

    /// Takes the reason for the link's end, once it has ended.
    pub(crate) fn take_ended(&mut self) -> Option<CloseReason> {
        self.ending.take()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ending.has_ended()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.ending.is_closing()
    }

    /// Sends a close to the peer and keeps answering with it for a while. The endpoint reports the reason at once.
    pub(crate) fn close(&mut self, reason: CloseReason) {
        self.ending.close(reason);
    }

    /// Returns whether nothing has arrived since the last pings, of which two or three have been sent. The path may be
    /// broken, or the peer may have lost its state; a peer answers with a reset only where it answers strangers.
    #[must_use]
    pub fn is_silent(&self, now: Duration) -> bool {
        self.liveness.is_silent(now)
    }

    /// Returns the purposes of the streams that are open on this link. Streams end with their link: another link to the same
    /// peer cannot carry them on.
    pub fn stream_purposes(&self) -> impl Iterator<Item = u16> {
        self.streams.begun().into_iter().flat_map(Streams::purposes)
    }

    /// A datagram of frames that no honest sender writes.
    #[cfg(any(test, internals))]
    pub(crate) fn seal_frames(&mut self, frames: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let (to, size) = (self.remote, frames.len() + crate::seal::OVERHEAD);
        self.datagram(&mut out, to, size, |out| out.extend_from_slice(frames));
        out
    }

    /// When [`Link::handle_timeout`] or a transmission is due.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        if self.ending.is_closing() {
            return self.ending.next_timeout();
        }
        let due = [
            Some(self.liveness.idle_at()),
            self.liveness.ping_at(),
            self.finish.as_ref().map(|f| f.next.min(f.deadline)),
            self.next_path_timeout(),
            self.candidates.next_timeout(),
            self.mtu.next_timeout(self.liveness.wait()),
            self.reassembly.expires_at(),
            self.repair.next_timeout(),
            self.keys.next_timeout(self.carried()),
            self.streams.begun().and_then(|streams| streams.next_timeout()),
        ]
        .into_iter()
        .flatten()
        .min();
        self.shaping.timeout(due)
    }

    /// Runs the timers that are due; `poll_transmit` sends what results.
    pub(crate) fn handle_timeout(&mut self, now: Duration) {
        if self.ending.is_closing() {
            return self.ending.handle_timeout(now);
        }
        if self.finish.as_ref().is_some_and(|finish| now >= finish.deadline) {
            self.ending.end(CloseReason::HandshakeTimeout);
        } else if now >= self.liveness.idle_at() {
            self.ending.end(CloseReason::IdleTimeout);
        }
        self.reassembly.expire(now);
        self.repair.on_timeout(now);
        self.on_stream_timeout(now);
        if self.liveness.ping_at().is_some_and(|at| now >= at) {
            self.owed.ping = true;
        }
        self.keys.handle_timeout(now);
        self.on_path_timeout(now);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .field("remote", &self.remote)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}
