//! [`LinkService`]: what stands between one face's socket and the forwarder.
//!
//! Frames come from the socket (a datagram, or what [`crate::frame_len`] cuts out of a stream) and
//! leave as bare Interests and Data beside their link headers; packets leave as frames no longer
//! than the link's. In between: fragments are cut and put together, frames are numbered,
//! acknowledged and repeated where both ends want it, packets are marked while the socket's queue is
//! long, and headers are dropped that this face may not send. `docs/spec/link-service.md` says what
//! becomes of each frame.
//!
//! Sans-io: time comes in, frames go out through a closure. Order of calls: [`LinkService::receive`]
//! and [`LinkService::send`] as things come; after them, [`LinkService::poll_timeout`] says when
//! [`LinkService::handle_timeout`] is due. Every table has a limit in [`LinkServiceConfig`].
//!
//! Not here: sockets, which face a packet belongs to, checking of the packets inside.
//!
//! ```
//! use core::time::Duration;
//! use xylem_packet::link_service::{LinkHeaders, LinkService, LinkServiceConfig};
//!
//! let config = LinkServiceConfig { mtu: 1400, fragmentation: true, ..Default::default() };
//! let (mut here, mut there) = (LinkService::new(config), LinkService::new(config));
//! // A Data of 4,000 bytes with a PIT token leaves in three frames.
//! let mut packet = vec![6, 253, 0x0F, 0x9C];
//! packet.resize(4000, 0);
//! let headers = LinkHeaders { pit_token: Some(&[7; 4]), ..LinkHeaders::default() };
//! let mut frames = Vec::new();
//! let now = Duration::ZERO;
//! here.send(now, &packet, &headers, 0, &mut |frame| frames.push(frame.to_vec())).unwrap();
//! assert_eq!(frames.len(), 3);
//! // In whatever order they arrive, the last one completes it.
//! assert!(there.receive(now, &frames[2]).unwrap().is_none());
//! assert!(there.receive(now, &frames[0]).unwrap().is_none());
//! let received = there.receive(now, &frames[1]).unwrap().expect("complete");
//! assert_eq!(received.packet, packet);
//! assert_eq!(received.headers, headers);
//! ```

mod config;
mod congestion;
mod reassembly;
mod reliability;
mod send;

use alloc::vec::Vec;
use core::time::Duration;

pub use config::{LinkServiceConfig, LinkServiceCounters, LinkServiceError, MIN_MTU};

use crate::lp::{CachePolicy, LpPacket, NackReason};
use crate::tlv::types;
use congestion::Marker;
use reassembly::{Outcome, Reassembler};
use reliability::{Receiver, Sender};

/// No incomplete packet is worth keeping longer, however slow the link.
const MAX_REASSEMBLY: Duration = Duration::from_secs(10);

/// What travels with a packet on one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkHeaders<'a> {
    /// 1 to 32 octets that come back with the Data or Nack.
    pub pit_token: Option<&'a [u8]>,
    /// The packet is an Interest that comes back, for this reason.
    pub nack: Option<NackReason>,
    /// 0 is no congestion.
    pub congestion_mark: Option<u64>,
    /// Where a local application wants its Interest to go.
    pub next_hop_face_id: Option<u64>,
    /// Where a packet to a local application came from.
    pub incoming_face_id: Option<u64>,
    /// The Data is not to be cached.
    pub no_cache: bool,
    /// The Interest is not to be flooded.
    pub non_discovery: bool,
    /// The Data, not looked into, by which somebody announces a prefix: on a Data alone. What would take more
    /// than half of a frame is left out when sending.
    pub prefix_announcement: Option<&'a [u8]>,
}

/// A packet that has come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// What travelled with it.
    pub headers: LinkHeaders<'a>,
    /// The packet: begins like an Interest or a Data and is not looked into any further.
    pub packet: &'a [u8],
}

/// One face's link service. Call order in the module's documentation.
#[derive(Debug, Clone)]
pub struct LinkService {
    config: LinkServiceConfig,
    counters: LinkServiceCounters,
    reassembler: Reassembler,
    marker: Marker,
    next_sequence: u64,
    sender: Sender,
    receiver: Receiver,
    /// The header of the frame that is being sent, and a frame where one slice is wanted.
    head: Vec<u8>,
    frame: Vec<u8>,
    acks: Vec<u64>,
}

impl LinkService {
    /// A link service that has seen nothing yet.
    pub fn new(config: LinkServiceConfig) -> Self {
        LinkService {
            config,
            counters: LinkServiceCounters::default(),
            reassembler: Reassembler::default(),
            marker: Marker::default(),
            next_sequence: config.first_sequence,
            sender: Sender::default(),
            receiver: Receiver::default(),
            head: Vec::new(),
            frame: Vec::new(),
            acks: Vec::new(),
        }
    }

    /// The settings.
    pub fn config(&self) -> &LinkServiceConfig {
        &self.config
    }

    /// Changes the settings. Without reliability, frames that wait for an acknowledgement are
    /// forgotten; `first_sequence` is for new services only.
    pub fn set_config(&mut self, config: LinkServiceConfig) {
        if self.config.reliability && !config.reliability {
            self.sender.clear();
            self.receiver = Receiver::default();
        }
        self.config = config;
    }

    /// What has been seen so far.
    pub fn counters(&self) -> LinkServiceCounters {
        self.counters
    }

    /// Incomplete packets, and the bytes of their fragments.
    pub fn reassembling(&self) -> (usize, usize) {
        self.reassembler.pending()
    }

    /// Frames that wait for an acknowledgement, and their bytes.
    pub fn unacknowledged(&self) -> (usize, usize) {
        self.sender.outstanding()
    }

    /// A frame from the socket. `None`: a fragment, an idle packet, or a duplicate.
    ///
    /// A packet that came whole is given as it lies in `frame`; a bare one takes no more than a
    /// look at its first octet.
    #[inline]
    pub fn receive<'a>(
        &'a mut self,
        now: Duration,
        frame: &'a [u8],
    ) -> Result<Option<Received<'a>>, LinkServiceError> {
        self.receive_from(now, 0, frame)
    }

    /// As [`Self::receive`], on a link with several senders: `endpoint` says which one it was, so
    /// that their fragments are kept apart.
    #[inline]
    pub fn receive_from<'a>(
        &'a mut self,
        now: Duration,
        endpoint: u64,
        frame: &'a [u8],
    ) -> Result<Option<Received<'a>>, LinkServiceError> {
        self.counters.in_frames += 1;
        self.counters.in_bytes += frame.len() as u64;
        if is_network_packet(frame) {
            return Ok(Some(Received { headers: LinkHeaders::default(), packet: frame }));
        }
        match self.receive_lp(now, endpoint, frame) {
            Ok(Whole::Borrowed(received)) => Ok(Some(received)),
            Ok(Whole::Reassembled) => {
                let (headers, packet) = self.reassembler.whole();
                Ok(Some(Received { headers, packet }))
            }
            Ok(Whole::Nothing) => Ok(None),
            Err(error) => {
                self.counters.in_refused += 1;
                Err(error)
            }
        }
    }

    fn receive_lp<'f>(
        &mut self,
        now: Duration,
        endpoint: u64,
        frame: &'f [u8],
    ) -> Result<Whole<'f>, LinkServiceError> {
        if frame.first().is_none_or(|first| u32::from(*first) != types::LP_PACKET) {
            return Err(LinkServiceError::NotAPacket);
        }
        let lp = LpPacket::decode(frame)?;
        if self.config.reliability {
            for number in lp.acks {
                self.counters.acknowledged += u64::from(self.sender.acknowledged(now, number));
            }
        }
        // An empty fragment is as good as none.
        let Some(piece) = lp.fragment.filter(|piece| !piece.is_empty()) else {
            return Ok(Whole::Nothing);
        };
        if self.config.reliability
            && let Some(number) = lp.tx_sequence
        {
            self.receiver.acknowledge(now, number, self.config.max_waiting_acks);
            if let Some(sequence) = lp.sequence
                && self.receiver.is_duplicate(now, sequence, number)
            {
                self.counters.duplicates += 1;
                return Ok(Whole::Nothing);
            }
        }
        if !lp.is_fragmented() {
            check_fields(&lp, piece)?;
            let headers = self.headers_of(&lp)?;
            return Ok(Whole::Borrowed(Received { headers, packet: piece }));
        }
        if lp.frag_index.unwrap_or(0) == 0 {
            check_fields(&lp, piece)?;
        }
        let headers = self.headers_of(&lp)?;
        let deadline = now.saturating_add(self.reassembly_timeout());
        let (config, lost) = (&self.config, &mut self.counters.reassembly_lost);
        let outcome =
            self.reassembler.accept(deadline, endpoint, &lp, piece, &headers, config, lost)?;
        match outcome {
            Outcome::Waiting => Ok(Whole::Nothing),
            Outcome::Duplicate => {
                self.counters.duplicates += 1;
                Ok(Whole::Nothing)
            }
            Outcome::Complete => {
                self.counters.reassembled += 1;
                Ok(Whole::Reassembled)
            }
        }
    }

    /// A lost fragment may yet be repeated, several times, each after a timeout that is the longer the longer nothing
    /// at all was acknowledged before: only the sender knows how long. It takes what arrives in the end for
    /// delivered. How many packets wait is bounded anyway.
    fn reassembly_timeout(&self) -> Duration {
        let configured = self.config.reassembly_timeout;
        if self.config.reliability { configured.max(MAX_REASSEMBLY) } else { configured }
    }

    /// The headers that belong to the packet inside.
    fn headers_of<'f>(&self, lp: &LpPacket<'f>) -> Result<LinkHeaders<'f>, LinkServiceError> {
        let local = self.config.local_fields;
        if lp.next_hop_face_id.is_some() && !local {
            return Err(LinkServiceError::LocalField);
        }
        Ok(LinkHeaders {
            pit_token: lp.pit_token,
            nack: lp.nack,
            congestion_mark: lp.congestion_mark,
            next_hop_face_id: lp.next_hop_face_id,
            incoming_face_id: lp.incoming_face_id.filter(|_| local),
            no_cache: lp.cache_policy == Some(CachePolicy::NO_CACHE),
            non_discovery: lp.non_discovery,
            prefix_announcement: lp.prefix_announcement,
        })
    }

    /// When [`Self::handle_timeout`] is due next; a time that has passed means at once.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let timers = [
            self.reassembler.deadline(),
            self.sender.deadline(),
            self.receiver.deadline(self.config.ack_delay),
        ];
        timers.into_iter().flatten().min()
    }
}

/// What a frame with link headers came to.
enum Whole<'f> {
    Nothing,
    Borrowed(Received<'f>),
    Reassembled,
}

/// True if `bytes` begin like an Interest or a Data.
#[inline]
fn is_network_packet(bytes: &[u8]) -> bool {
    const INTEREST: u8 = types::INTEREST as u8;
    const DATA: u8 = types::DATA as u8;
    matches!(bytes.first(), Some(&(INTEREST | DATA)))
}

/// Refuses header fields that have no meaning with the packet that begins with `piece`.
fn check_fields(lp: &LpPacket<'_>, piece: &[u8]) -> Result<(), LinkServiceError> {
    if !is_network_packet(piece) {
        return Err(LinkServiceError::NotAPacket);
    }
    let is_data = u32::from(piece[0]) == types::DATA;
    let is_nack = lp.nack.is_some();
    let is_interest = !is_data && !is_nack;
    let misplaced = |field| Err(LinkServiceError::Misplaced { field });
    if is_nack && is_data {
        return misplaced(types::LP_NACK);
    }
    if lp.next_hop_face_id.is_some() && !is_interest {
        return misplaced(types::LP_NEXT_HOP_FACE_ID);
    }
    if lp.cache_policy.is_some() && !is_data {
        return misplaced(types::LP_CACHE_POLICY);
    }
    if lp.non_discovery && !is_interest {
        return misplaced(types::LP_NON_DISCOVERY);
    }
    if lp.prefix_announcement.is_some() && !is_data {
        return misplaced(types::LP_PREFIX_ANNOUNCEMENT);
    }
    Ok(())
}
