//! The sending side: packets into frames.

use alloc::vec::Vec;
use core::time::Duration;

use super::{LinkHeaders, LinkService, LinkServiceError, MIN_MTU};
use crate::acks::Acks;
use crate::lp::{CachePolicy, LpPacket};
use crate::tlv::{self, types};
use crate::{MAX_FRAME, MAX_PACKET};

/// Type and length of the LpPacket before the header fields: 1 octet, and 1 or 3.
const OUTER: usize = 4;
/// Type and length of the Fragment.
const FRAGMENT: usize = 4;
/// Sequence: type, length, 8 octets.
const SEQUENCE: usize = 1 + 1 + 8;
/// FragIndex and FragCount, at most 2 octets each.
const FRAGMENTATION: usize = 2 * (1 + 1 + 2);
/// TxSequence or Ack: type, length, 8 octets.
const TX_SEQUENCE: usize = 3 + 1 + 8;

impl LinkService {
    /// Sends a packet: `emit` is called with each frame, none longer than the MTU. A packet without headers that fits
    /// is sent bare, unchanged. `queued` is the number of bytes in the socket's queue, for congestion marks; 0 if
    /// unknown.
    ///
    /// Errors: `OverMtu`, `TooManyFragments`; nothing was emitted then.
    #[inline]
    pub fn send(
        &mut self,
        now: Duration,
        packet: &[u8],
        headers: &LinkHeaders<'_>,
        queued: usize,
        emit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), LinkServiceError> {
        let mut frame = core::mem::take(&mut self.frame);
        let sent = self.send_parts(now, packet, headers, queued, &mut |head, body| {
            if head.is_empty() {
                emit(body);
            } else {
                frame.clear();
                frame.extend_from_slice(head);
                frame.extend_from_slice(body);
                emit(&frame);
            }
        });
        self.frame = frame;
        sent
    }

    /// As [`Self::send`], with each frame in two pieces: its header, empty if the packet is bare, and a part of
    /// `packet`. It saves a copy if the socket's queue accepts pieces.
    #[inline]
    pub fn send_parts(
        &mut self,
        now: Duration,
        packet: &[u8],
        headers: &LinkHeaders<'_>,
        queued: usize,
        emit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), LinkServiceError> {
        let config = &self.config;
        let marked = config.congestion_marking
            && self.marker.mark(
                now,
                queued,
                config.congestion_threshold,
                config.congestion_interval,
            );
        if !marked
            && !config.reliability
            && *headers == LinkHeaders::default()
            && packet.len() <= config.mtu.max(MIN_MTU)
        {
            self.count_out(packet.len());
            emit(&[], packet);
            return Ok(());
        }
        self.counters.congestion_marked += u64::from(marked);
        self.send_framed(now, packet, &self.fields(headers, marked), emit)
    }

    /// The header fields of a packet.
    fn fields<'h>(&self, headers: &LinkHeaders<'h>, marked: bool) -> LpPacket<'h> {
        let local = self.config.local_fields;
        let mark = headers.congestion_mark;
        LpPacket {
            pit_token: headers.pit_token,
            nack: headers.nack,
            congestion_mark: if marked { Some(mark.unwrap_or(0).max(1)) } else { mark },
            next_hop_face_id: headers.next_hop_face_id.filter(|_| local),
            incoming_face_id: headers.incoming_face_id.filter(|_| local),
            cache_policy: headers.no_cache.then_some(CachePolicy::NO_CACHE),
            non_discovery: headers.non_discovery,
            prefix_announcement: headers
                .prefix_announcement
                .filter(|announcement| announcement.len() <= self.mtu() / 2),
            ..LpPacket::default()
        }
    }

    fn send_framed(
        &mut self,
        now: Duration,
        packet: &[u8],
        fields: &LpPacket<'_>,
        emit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), LinkServiceError> {
        let (mtu, reliability) = (self.mtu(), self.config.reliability);
        open_head(fields, &mut self.head);
        let fields_len = self.head.len() - OUTER;
        // No fields remain (local fields are off): sent bare if it fits.
        if fields_len == 0 && !reliability && packet.len() <= self.config.mtu.max(MIN_MTU) {
            self.count_out(packet.len());
            emit(&[], packet);
            return Ok(());
        }
        let numbered = if reliability { SEQUENCE + TX_SEQUENCE } else { 0 };
        let overhead = OUTER + FRAGMENT + fields_len + numbered;
        let whole = packet.len().saturating_add(overhead) <= mtu;
        if whole && !reliability {
            let start = close_head(&mut self.head, Some(packet.len()));
            self.count_out(self.head.len() - start + packet.len());
            emit(&self.head[start..], packet);
            return Ok(());
        }
        let (count, room) =
            if whole { (1, packet.len()) } else { self.fragments(packet.len(), overhead, mtu)? };
        let message = self.next_sequence;
        let bytes = packet.len() + count * (overhead + FRAGMENTATION + SEQUENCE);
        let reliable = reliability && self.sender.has_room(count, bytes, &self.config);
        self.counters.unprotected += u64::from(reliability && !reliable);
        self.counters.fragmented += u64::from(count > 1);
        let mut rest = packet;
        for index in 0..count {
            let (piece, more) = rest.split_at(room.min(rest.len()));
            rest = more;
            let mut lp = *fields;
            lp.fragment = Some(piece);
            if count > 1 {
                lp.frag_index = Some(index as u64);
                lp.frag_count = Some(count as u64);
            }
            if count > 1 || reliable {
                lp.sequence = Some(self.next_sequence);
                self.next_sequence = self.next_sequence.wrapping_add(1);
            }
            self.emit_frame(now, lp, message, reliable, mtu, emit);
        }
        Ok(())
    }

    /// Number of fragments for a packet, and the bytes that each can carry.
    fn fragments(
        &mut self,
        len: usize,
        overhead: usize,
        mtu: usize,
    ) -> Result<(usize, usize), LinkServiceError> {
        let sequence = if self.config.reliability { 0 } else { SEQUENCE };
        let room = mtu.saturating_sub(overhead + sequence + FRAGMENTATION);
        if !self.config.fragmentation || room == 0 || len > MAX_PACKET {
            self.counters.out_refused += 1;
            return Err(LinkServiceError::OverMtu { len });
        }
        let count = len.div_ceil(room);
        if count > usize::from(self.config.max_fragments) {
            self.counters.out_refused += 1;
            return Err(LinkServiceError::TooManyFragments(count as u64));
        }
        Ok((count, room))
    }

    /// Sends one frame, with as many acknowledgements as fit.
    fn emit_frame(
        &mut self,
        now: Duration,
        mut lp: LpPacket<'_>,
        message: u64,
        reliable: bool,
        mtu: usize,
        emit: &mut dyn FnMut(&[u8], &[u8]),
    ) {
        let piece = lp.fragment.unwrap_or(&[]);
        if reliable {
            lp.tx_sequence = Some(self.sender.next_number());
        }
        let start = encode_head(&lp, &mut self.head);
        let head_len = self.head.len() - start;
        if reliable {
            let mut frame = self.sender.buffer();
            frame.extend_from_slice(&self.head[start..]);
            // TxSequence is followed by NonDiscovery and PrefixAnnouncement, if present, and the Fragment's header.
            let announcement = lp.prefix_announcement.map_or(0, |announcement| {
                tlv::element_len(types::LP_PREFIX_ANNOUNCEMENT, announcement.len())
            });
            let after = if lp.non_discovery { 4 } else { 0 } + announcement;
            let fragment_header = 1 + tlv::var_number_len(piece.len() as u64);
            let number_at = head_len - fragment_header - after - 8;
            frame.extend_from_slice(piece);
            self.sender.sent(now, message, frame, number_at);
        }
        // 2: the outer length may grow from one octet to three.
        let room = mtu.saturating_sub(head_len + piece.len() + 2) / TX_SEQUENCE;
        self.acks.clear();
        self.receiver.take(room, &mut self.acks);
        let start = if self.acks.is_empty() {
            start
        } else {
            let mut with_acks: LpPacket<'_> = lp;
            with_acks.acks = Acks::new(&self.acks);
            encode_head(&with_acks, &mut self.head)
        };
        self.count_out(self.head.len() - start + piece.len());
        emit(&self.head[start..], piece);
    }

    /// Longest frame with link headers.
    fn mtu(&self) -> usize {
        self.config.mtu.clamp(MIN_MTU, MAX_FRAME)
    }

    fn count_out(&mut self, bytes: usize) {
        self.counters.out_frames += 1;
        self.counters.out_bytes += bytes as u64;
    }

    /// Handles timeouts: retransmits lost frames, sends acknowledgements that no packet carried, gives up incomplete
    /// packets.
    pub fn handle_timeout(&mut self, now: Duration, emit: &mut dyn FnMut(&[u8])) {
        self.counters.reassembly_lost += self.reassembler.expire(now);
        let (counters, most) = (&mut self.counters, self.config.max_retransmissions);
        let (mut frames, mut bytes) = (0, 0);
        self.sender.handle_timeout(now, most, counters, &mut |frame| {
            frames += 1;
            bytes += frame.len() as u64;
            emit(frame);
        });
        counters.out_frames += frames;
        counters.out_bytes += bytes;
        if self.receiver.deadline(self.config.ack_delay).is_some_and(|due| due <= now) {
            self.send_idle(emit);
        }
    }

    /// Sends all waiting acknowledgements in idle packets.
    fn send_idle(&mut self, emit: &mut dyn FnMut(&[u8])) {
        let room = (self.mtu() - OUTER) / TX_SEQUENCE;
        loop {
            self.acks.clear();
            self.receiver.take(room, &mut self.acks);
            if self.acks.is_empty() {
                return;
            }
            let lp = LpPacket { acks: Acks::new(&self.acks), ..LpPacket::default() };
            let start = encode_head(&lp, &mut self.head);
            self.count_out(self.head.len() - start);
            emit(&self.head[start..]);
        }
    }
}

/// Writes `lp` without the fragment's bytes to `out`; returns the offset of its beginning.
fn encode_head(lp: &LpPacket<'_>, out: &mut Vec<u8>) -> usize {
    open_head(lp, out);
    close_head(out, lp.fragment.map(<[u8]>::len))
}

/// Starts `out` with room for the LpPacket's type and length, and the header fields of `lp`.
fn open_head(lp: &LpPacket<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; OUTER]);
    lp.encode_fields(out);
}

/// Completes the header that [`open_head`] began, with the header of a fragment of this length; returns the offset of
/// its beginning. The outer length is known last, so it is written directly before the fields that it counts.
fn close_head(out: &mut Vec<u8>, fragment_len: Option<usize>) -> usize {
    if let Some(len) = fragment_len {
        tlv::write_var_number(out, u64::from(types::LP_FRAGMENT));
        tlv::write_var_number(out, len as u64);
    }
    let len = out.len() - OUTER + fragment_len.unwrap_or(0);
    let (octets, width) = tlv::var_number_octets(len as u64);
    // Frames are shorter than 64 KiB, so the length has 1 or 3 octets.
    let start = OUTER - 1 - width;
    out[start] = types::LP_PACKET as u8;
    out[start + 1..OUTER].copy_from_slice(&octets[..width]);
    start
}
