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
use crate::frame::{CLOSE_NORMAL, CLOSE_PROTOCOL, MAX_PACKET};
use crate::header::ConnectionId;
use crate::kdf::LinkRng;
use crate::keys::PeerKey;
use crate::message::LinkParameters;
use crate::mtu::{BASE_DATAGRAM, PathMtu};
use crate::queue::{SendQueue, SpareBuffers};
use crate::reassembly::Reassembly;
use crate::rekey::{Carried, Rekey};
use crate::repair::FragmentRepair;
use crate::reset::{PeerToken, ResetKey, Token};
use crate::seal::{Opener, Sealer};
use crate::shape::{Level, Shaper};
use crate::stats::LinkStats;
use crate::stream::{StreamSettings, Streams};

mod candidates;
mod ecn;
mod keys;
mod moving;
mod path;
mod probe;
mod receive;
mod shaped;
mod streams;
mod transmit;

use candidates::CandidateExchange;
use ecn::EcnState;
use path::PathValidation;
use probe::PathProber;
pub use probe::ProbePace;
use shaped::PaddingDice;

/// Shortest wait for an acknowledgement: the peer's thread may be busy.
const MIN_WAIT: Duration = Duration::from_millis(200);
/// Longest wait for an acknowledgement; half of it applies before the round trip has been measured.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// How long pings may go unanswered before a link counts as silent.
const UNANSWERED: Duration = Duration::from_millis(2_500);
/// The first ping follows after this much silence, or three round trips, on a link in use: it detects a path that fails
/// in the middle.
const SILENCE_BEFORE_PING: Duration = Duration::from_millis(300);
/// Number of such early pings in a row; after them pings are as rare as on an idle link.
const EARLY_PINGS: u8 = 3;
/// How long a closed link still answers datagrams with a close.
const LINGER: Duration = Duration::from_secs(1);
/// Most closes sent for one link.
const MAX_CLOSES: u8 = 8;
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

#[derive(Debug)]
struct Closing {
    code: u8,
    until: Option<Duration>,
    due: bool,
    left: u8,
}

/// Small frames that this side owes to the peer.
#[derive(Debug, Default)]
struct Owed {
    ping: bool,
    pongs: VecDeque<u64>,
    probe_acks: VecDeque<u32>,
    responses: VecDeque<u64>,
    epoch_ack: Option<u64>,
    /// An observed frame: the address at which the peer is seen.
    observed: bool,
    /// When our epoch is announced (again); `None` once the peer has confirmed it.
    announce: Option<Duration>,
}

/// A link to a peer with which the handshake is complete. [`crate::Endpoint::link`] lends it.
pub struct Link {
    id: LinkId,
    peer: PeerKey,
    remote: SocketAddr,
    sealer: Sealer,
    opener: Opener,
    rekey: Rekey,
    /// Makes the reset tokens that the peer receives; `None` where no resets are sent.
    reset_key: Option<ResetKey>,
    /// A token has to be sent once more, although the epoch has been acknowledged.
    token_owed: bool,
    token: PeerToken,
    /// The connection ids or the peer's token have changed.
    routes_changed: bool,
    queue: SendQueue,
    reassembly: Reassembly,
    repair: FragmentRepair,
    /// Received datagrams that a router had marked, modulo 2^32.
    marked: u32,
    mtu: PathMtu,
    rng: LinkRng,
    idle_timeout: Duration,
    keep_alive: Option<Duration>,
    last_received: Duration,
    /// Token and time of the last ping, until it is answered.
    ping: Option<(u64, Duration)>,
    /// Early pings left: they follow soon after silence while the program uses the link.
    early_pings: u8,
    rtt: Option<Duration>,
    owed: Owed,
    paths: PathValidation,
    reach: PathProber,
    candidates: CandidateExchange,
    /// The address at which the peer sees us, and until when further reports of a change are ignored.
    observed: Option<SocketAddr>,
    observed_rest: Duration,
    finish: Option<Finish>,
    closing: Option<Closing>,
    ended: Option<CloseReason>,
    shaper: Option<Box<Shaper>>,
    padding_dice: PaddingDice,
    /// Made when the first stream is opened.
    streams: Option<Box<Streams>>,
    stream_settings: StreamSettings,
    /// Whether packets are sent next, not streams: the two alternate.
    packets_next: bool,
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
        let second = Duration::from_secs(1);
        Self {
            id: new.id,
            peer: new.peer,
            remote: new.remote,
            sealer: new.sealer,
            opener: new.opener,
            // Only a dialer has a finish to send.
            rekey: match &new.finish {
                Some(_) => Rekey::dialer(config.ratchet, now),
                None => Rekey::responder(),
            },
            reset_key: None,
            token_owed: false,
            token: PeerToken::default(),
            routes_changed: false,
            queue,
            reassembly: Reassembly::default(),
            repair: FragmentRepair::new(now),
            marked: 0,
            mtu: PathMtu::new(BASE_DATAGRAM, limit, now),
            rng: new.rng,
            idle_timeout: config.idle_timeout.min(new.theirs.idle_timeout).max(second),
            keep_alive: config.keep_alive,
            last_received: now,
            ping: None,
            early_pings: 0,
            rtt: new.rtt,
            owed: Owed { ping: true, announce: Some(now), ..Owed::default() },
            paths: PathValidation::default(),
            reach: PathProber::default(),
            candidates: CandidateExchange::default(),
            observed: None,
            observed_rest: now,
            padding_dice: PaddingDice::default(),
            streams: None,
            stream_settings: StreamSettings {
                dialer: new.finish.is_some(),
                algorithm: config.congestion,
                max_streams: config.max_streams,
            },
            packets_next: false,
            // ECN stays off behind a gate: a mark that comes and goes would show through a fixed rhythm.
            ecn: EcnState::new(config.ecn && !shaper.as_ref().is_some_and(|s| s.is_gated())),
            finish: new.finish,
            closing: None,
            ended: None,
            shaper,
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
        let shaping = self.shaper.as_ref().map_or(Level::Off, |shaper| shaper.level());
        LinkStats {
            datagram_size: self.mtu.current(),
            rtt: self.rtt,
            shaping,
            datagrams_missing: self.opener.window().end() - self.stats.datagrams_received,
            ..self.stats
        }
    }

    /// Number of authentic datagrams received.
    pub(crate) fn received(&self) -> u64 {
        self.stats.datagrams_received
    }

    /// The connection ids under which the peer's datagrams may arrive now.
    pub(crate) fn connection_ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.opener.connection_ids()
    }

    pub(crate) fn send(
        &mut self,
        packet: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), LinkSendError> {
        if packet.is_empty() || packet.len() > MAX_PACKET {
            return Err(LinkSendError::Size);
        }
        if self.closing.is_some() {
            return Err(LinkSendError::NoLink);
        }
        // The latest time known here is that of the last arrival.
        let as_pieces = self.repair.is_lossy(self.last_received);
        let datagram = self.mtu.current();
        self.queue.push(packet, datagram, as_pieces, spare).map_err(|_| LinkSendError::Full)?;
        self.stats.packets_sent += 1;
        self.early_pings = EARLY_PINGS;
        Ok(())
    }

    /// Takes the reason for the link's end, once it has ended.
    pub(crate) fn take_ended(&mut self) -> Option<CloseReason> {
        self.ended.take()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Sends a close to the peer and keeps answering with it for a while. The endpoint reports the reason at once.
    pub(crate) fn close(&mut self, reason: CloseReason) {
        let code =
            if reason == CloseReason::PeerMisbehaved { CLOSE_PROTOCOL } else { CLOSE_NORMAL };
        self.closing.get_or_insert(Closing { code, until: None, due: true, left: MAX_CLOSES });
    }

    /// How long to wait for an acknowledgement.
    fn wait(&self) -> Duration {
        self.rtt.map_or(MAX_WAIT / 2, |rtt| (rtt * 3).clamp(MIN_WAIT, MAX_WAIT))
    }

    fn measured(&mut self, sample: Duration) {
        self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
    }

    /// Returns whether nothing has arrived since the last pings, of which two or three have been sent. The path may be
    /// broken, or the peer may have lost its state; a peer answers with a reset only where it answers strangers.
    #[must_use]
    pub fn is_silent(&self, now: Duration) -> bool {
        self.keep_alive.is_some_and(|after| now >= self.last_received + after + UNANSWERED)
    }

    /// Returns whether a stream is open on this link. Streams end with their link: another link to the same peer cannot
    /// carry them on.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        self.streams.as_ref().is_some_and(|streams| streams.has_any())
    }

    /// When the next ping is due: after silence, and sooner when the last one was not answered.
    fn ping_at(&self) -> Option<Duration> {
        let keep_alive = self.keep_alive?;
        let after = |quiet, again| {
            let quiet = self.last_received + quiet;
            self.ping.map_or(quiet, |(_, sent)| quiet.max(sent + again))
        };
        let rare = after(keep_alive, MAX_WAIT.min(keep_alive));
        let pause = self.wait().max(SILENCE_BEFORE_PING);
        Some(if self.early_pings > 0 { rare.min(after(pause, pause)) } else { rare })
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
        if let Some(closing) = &self.closing {
            return closing.until;
        }
        let due = [
            Some(self.last_received + self.idle_timeout),
            self.ping_at(),
            self.owed.announce,
            self.finish.as_ref().map(|f| f.next.min(f.deadline)),
            self.next_path_timeout(),
            self.candidates.next_timeout(),
            self.mtu.next_timeout(self.wait()),
            self.reassembly.expires_at(),
            self.repair.next_timeout(),
            self.rekey.next_timeout(self.carried()),
            self.opener.forget_at(),
            self.streams.as_ref().and_then(|streams| streams.next_timeout()),
        ]
        .into_iter()
        .flatten()
        .min();
        self.shaped_timeout(due)
    }

    /// Runs the timers that are due; `poll_transmit` sends what results.
    pub(crate) fn handle_timeout(&mut self, now: Duration) {
        if let Some(closing) = &self.closing {
            if closing.until.is_some_and(|until| now >= until) {
                self.ended = Some(CloseReason::Local);
            }
            return;
        }
        if self.finish.as_ref().is_some_and(|finish| now >= finish.deadline) {
            self.ended = Some(CloseReason::HandshakeTimeout);
        } else if now >= self.last_received + self.idle_timeout {
            self.ended = Some(CloseReason::IdleTimeout);
        }
        self.reassembly.expire(now);
        self.repair.on_timeout(now);
        self.on_stream_timeout(now);
        if self.ping_at().is_some_and(|at| now >= at) {
            self.owed.ping = true;
        }
        self.opener.forget_if_due(now);
        self.on_path_timeout(now);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .field("remote", &self.remote)
            .field("closing", &self.closing)
            .finish_non_exhaustive()
    }
}
