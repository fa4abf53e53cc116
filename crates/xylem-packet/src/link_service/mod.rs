//! [`LinkService`]: the layer between one face's socket and the forwarder (NDNLPv2).
//!
//! Incoming frames (datagrams, or the pieces that [`crate::frame_len`] separates from a stream) become bare Interests
//! and Data with their link headers. Outgoing packets become frames no longer than the link's MTU. The service
//! fragments and reassembles packets. It numbers, acknowledges and retransmits frames if both ends use reliability. It
//! marks packets while the socket's queue is long, and drops headers that this face may not send.
//! `docs/spec/link-service.md` states how each frame is handled.
//!
//! The service does no I/O: the caller passes the time in, and frames leave through a closure. Order of calls:
//! [`LinkService::receive`] and [`LinkService::send`] as frames and packets come. After them,
//! [`LinkService::poll_timeout`] returns when [`LinkService::handle_timeout`] is due. Every table has a limit in
//! [`LinkServiceConfig`].
//!
//! Sockets, the choice of a packet's face, and checks of the packets inside are elsewhere.
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
//! // They may arrive in any order; the last one completes the packet.
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
use congestion::CongestionMarker;
use reassembly::{FragmentOutcome, Reassembler};
use reliability::{AckReceiver, AckSender};

/// Longest time for which an incomplete packet is kept, however slow the link.
const MAX_REASSEMBLY: Duration = Duration::from_secs(10);

/// Link headers of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkHeaders<'a> {
    /// 1 to 32 octets that are returned with the Data or Nack.
    pub pit_token: Option<&'a [u8]>,
    /// The packet is a Nack: an Interest that is returned for this reason.
    pub nack: Option<NackReason>,
    /// Congestion mark; 0 means no congestion.
    pub congestion_mark: Option<u64>,
    /// The face to which a local application wants its Interest to go.
    pub next_hop_face_id: Option<u64>,
    /// The face from which a packet to a local application came.
    pub incoming_face_id: Option<u64>,
    /// The Data must not be cached.
    pub no_cache: bool,
    /// The Interest must not be flooded.
    pub non_discovery: bool,
    /// The Data packet, not parsed here, by which its signer announces a prefix. Only allowed on a Data. When sending,
    /// it is omitted if it would take more than half of a frame.
    pub prefix_announcement: Option<&'a [u8]>,
}

/// A received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedPacket<'a> {
    /// Its link headers.
    pub headers: LinkHeaders<'a>,
    /// The packet. It begins as an Interest or a Data and is not parsed further.
    pub packet: &'a [u8],
}

/// One face's link service. For the order of calls see the module's documentation.
#[derive(Debug, Clone)]
pub struct LinkService {
    config: LinkServiceConfig,
    counters: LinkServiceCounters,
    reassembler: Reassembler,
    marker: CongestionMarker,
    next_sequence: u64,
    sender: AckSender,
    receiver: AckReceiver,
    /// The header of the frame that is being sent, or the whole frame if the caller wants one slice.
    head: Vec<u8>,
    frame: Vec<u8>,
    acks: Vec<u64>,
}

impl LinkService {
    /// A link service without any state yet.
    pub fn new(config: LinkServiceConfig) -> Self {
        LinkService {
            config,
            counters: LinkServiceCounters::default(),
            reassembler: Reassembler::default(),
            marker: CongestionMarker::default(),
            next_sequence: config.first_sequence,
            sender: AckSender::default(),
            receiver: AckReceiver::default(),
            head: Vec::new(),
            frame: Vec::new(),
            acks: Vec::new(),
        }
    }

    /// The settings.
    pub fn config(&self) -> &LinkServiceConfig {
        &self.config
    }

    /// Changes the settings. If reliability is turned off, frames that wait for an acknowledgement are dropped.
    /// `first_sequence` affects new services only.
    pub fn set_config(&mut self, config: LinkServiceConfig) {
        if self.config.reliability && !config.reliability {
            self.sender.clear();
            self.receiver = AckReceiver::default();
        }
        self.config = config;
    }

    /// The counters so far.
    pub fn counters(&self) -> LinkServiceCounters {
        self.counters
    }

    /// Number of incomplete packets, and bytes of their fragments.
    pub fn reassembling(&self) -> (usize, usize) {
        self.reassembler.pending()
    }

    /// Number of frames that wait for an acknowledgement, and their bytes.
    pub fn unacknowledged(&self) -> (usize, usize) {
        self.sender.outstanding()
    }

    /// Handles a frame from the socket. `None`: it was a fragment, an idle packet, or a duplicate.
    ///
    /// A packet that comes whole is returned as a slice of `frame`. For a bare packet only the first octet is examined.
    #[inline]
    pub fn receive<'a>(
        &'a mut self,
        now: Duration,
        frame: &'a [u8],
    ) -> Result<Option<ReceivedPacket<'a>>, LinkServiceError> {
        self.receive_from(now, 0, frame)
    }

    /// As [`Self::receive`], on a link with several senders. `endpoint` identifies the sender, so that fragments of
    /// different senders are kept apart.
    #[inline]
    pub fn receive_from<'a>(
        &'a mut self,
        now: Duration,
        endpoint: u64,
        frame: &'a [u8],
    ) -> Result<Option<ReceivedPacket<'a>>, LinkServiceError> {
        self.counters.in_frames += 1;
        self.counters.in_bytes += frame.len() as u64;
        if is_network_packet(frame) {
            return Ok(Some(ReceivedPacket { headers: LinkHeaders::default(), packet: frame }));
        }
        match self.receive_lp(now, endpoint, frame) {
            Ok(FrameOutcome::Borrowed(received)) => Ok(Some(received)),
            Ok(FrameOutcome::Reassembled) => {
                let (headers, packet) = self.reassembler.whole();
                Ok(Some(ReceivedPacket { headers, packet }))
            }
            Ok(FrameOutcome::Nothing) => Ok(None),
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
    ) -> Result<FrameOutcome<'f>, LinkServiceError> {
        if frame.first().is_none_or(|first| u32::from(*first) != types::LP_PACKET) {
            return Err(LinkServiceError::NotAPacket);
        }
        let lp = LpPacket::decode(frame)?;
        if self.config.reliability {
            for number in lp.acks {
                self.counters.acknowledged += u64::from(self.sender.acknowledged(now, number));
            }
        }
        // An empty fragment counts as none.
        let Some(piece) = lp.fragment.filter(|piece| !piece.is_empty()) else {
            return Ok(FrameOutcome::Nothing);
        };
        if self.config.reliability
            && let Some(number) = lp.tx_sequence
        {
            self.receiver.acknowledge(now, number, self.config.max_waiting_acks);
            if let Some(sequence) = lp.sequence
                && self.receiver.is_duplicate(now, sequence, number)
            {
                self.counters.duplicates += 1;
                return Ok(FrameOutcome::Nothing);
            }
        }
        if !lp.is_fragmented() {
            check_fields(&lp, piece)?;
            let headers = self.headers_of(&lp)?;
            return Ok(FrameOutcome::Borrowed(ReceivedPacket { headers, packet: piece }));
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
            FragmentOutcome::Waiting => Ok(FrameOutcome::Nothing),
            FragmentOutcome::Duplicate => {
                self.counters.duplicates += 1;
                Ok(FrameOutcome::Nothing)
            }
            FragmentOutcome::Complete => {
                self.counters.reassembled += 1;
                Ok(FrameOutcome::Reassembled)
            }
        }
    }

    /// A lost fragment may be retransmitted several times, each after a timeout that grows with the time without any
    /// acknowledgement. Only the sender knows this timeout, and it counts a late arrival as delivered. So the wait is
    /// long; the number of waiting packets is bounded anyway.
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

    /// Time at which [`Self::handle_timeout`] is due next; a past time means at once.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let timers = [
            self.reassembler.deadline(),
            self.sender.deadline(),
            self.receiver.deadline(self.config.ack_delay),
        ];
        timers.into_iter().flatten().min()
    }
}

/// Result of a frame with link headers.
enum FrameOutcome<'f> {
    Nothing,
    Borrowed(ReceivedPacket<'f>),
    Reassembled,
}

/// Returns whether `bytes` begin as an Interest or a Data.
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
