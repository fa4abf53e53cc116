//! Reassembles fragments into packets. It holds a limited number of incomplete packets, each of at most [`MAX_PACKET`]
//! bytes, so a flood of first fragments takes a fixed amount of memory.

use alloc::vec::Vec;
use core::time::Duration;

use super::{LinkHeaders, LinkServiceConfig, LinkServiceError};
use crate::lp::{LpPacket, MAX_PIT_TOKEN};
use crate::{MAX_PACKET, NackReason};

/// Most fragments of a packet, whatever the settings: one bit each below.
const MOST_FRAGMENTS: u64 = 512;

/// Buffers of finished packets that are kept for reuse.
const MAX_SPARE: usize = 8;

/// The incomplete packets of one face, and the last complete one.
#[derive(Debug, Clone, Default)]
pub(super) struct Reassembler {
    partials: Vec<PartialPacket>,
    spare: Vec<Vec<u8>>,
    whole: Vec<u8>,
    headers: StoredHeaders,
}

#[derive(Debug, Clone)]
struct PartialPacket {
    /// The sender, and the Sequence of the packet's first fragment.
    key: (u64, u64),
    count: u64,
    deadline: Duration,
    /// The fragments' bytes in order of arrival.
    bytes: Vec<u8>,
    /// FragIndex and length of each fragment in `bytes`.
    pieces: Vec<(u16, u16)>,
    seen: [u64; MOST_FRAGMENTS as usize / 64],
    headers: StoredHeaders,
}

/// The network packet's headers, which its first fragment carries (NDNLPv2, "Fragmentation and reassembly").
#[derive(Debug, Clone, Default)]
pub(super) struct StoredHeaders {
    token: [u8; MAX_PIT_TOKEN],
    token_len: u8,
    nack: Option<NackReason>,
    congestion_mark: Option<u64>,
    next_hop_face_id: Option<u64>,
    incoming_face_id: Option<u64>,
    no_cache: bool,
    non_discovery: bool,
    /// Bounded by the length of one frame, as are the other fields.
    prefix_announcement: Option<Vec<u8>>,
}

impl StoredHeaders {
    fn store(headers: &LinkHeaders<'_>) -> Self {
        let mut token = [0; MAX_PIT_TOKEN];
        let from = headers.pit_token.unwrap_or(&[]);
        // The decoder refuses longer ones.
        let len = from.len().min(MAX_PIT_TOKEN);
        token[..len].copy_from_slice(&from[..len]);
        StoredHeaders {
            token,
            token_len: len as u8,
            nack: headers.nack,
            congestion_mark: headers.congestion_mark,
            next_hop_face_id: headers.next_hop_face_id,
            incoming_face_id: headers.incoming_face_id,
            no_cache: headers.no_cache,
            non_discovery: headers.non_discovery,
            prefix_announcement: headers.prefix_announcement.map(<[u8]>::to_vec),
        }
    }

    fn get(&self) -> LinkHeaders<'_> {
        let token = &self.token[..usize::from(self.token_len)];
        LinkHeaders {
            pit_token: (!token.is_empty()).then_some(token),
            nack: self.nack,
            congestion_mark: self.congestion_mark,
            next_hop_face_id: self.next_hop_face_id,
            incoming_face_id: self.incoming_face_id,
            no_cache: self.no_cache,
            non_discovery: self.non_discovery,
            prefix_announcement: self.prefix_announcement.as_deref(),
        }
    }
}

/// Result of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FragmentOutcome {
    /// The packet is still incomplete.
    Waiting,
    /// The fragment had been received before.
    Duplicate,
    /// It was the last one: see [`Reassembler::whole`].
    Complete,
}

impl Reassembler {
    /// Adds a fragment. `piece` is its bytes and `headers` its network packet's headers. The packet may stay incomplete
    /// until `deadline`, or later if more of it comes. `lost` is incremented for each packet that is given up to make
    /// room.
    #[allow(clippy::too_many_arguments)] // a single caller; a struct would only repeat the names
    pub(super) fn accept(
        &mut self,
        deadline: Duration,
        endpoint: u64,
        lp: &LpPacket<'_>,
        piece: &[u8],
        headers: &LinkHeaders<'_>,
        config: &LinkServiceConfig,
        lost: &mut u64,
    ) -> Result<FragmentOutcome, LinkServiceError> {
        let (index, count) = (lp.frag_index.unwrap_or(0), lp.frag_count.unwrap_or(1));
        if index >= count {
            return Err(LinkServiceError::FragmentIndex { index, count });
        }
        if count > u64::from(config.max_fragments).min(MOST_FRAGMENTS) {
            return Err(LinkServiceError::TooManyFragments(count));
        }
        let sequence = lp.sequence.ok_or(LinkServiceError::SequenceMissing)?;
        let key = (endpoint, sequence.wrapping_sub(index));
        // The newest packet is last, and most fragments belong to it.
        let at = match self.partials.iter().rposition(|partial| partial.key == key) {
            Some(at) => at,
            None => {
                self.make_room(config.max_partial_packets.max(1), lost);
                let bytes = self.spare.pop().unwrap_or_default();
                self.partials.push(PartialPacket::new(key, count, bytes));
                self.partials.len() - 1
            }
        };
        let partial = &mut self.partials[at];
        let added = partial.add(index, count, piece);
        match added {
            Ok(true) => partial.deadline = deadline,
            Ok(false) => return Ok(FragmentOutcome::Duplicate),
            Err(LinkServiceError::TooLong) => {
                self.remove(at);
                *lost += 1;
                return Err(LinkServiceError::TooLong);
            }
            Err(other) => return Err(other),
        }
        if index == 0 {
            partial.headers = StoredHeaders::store(headers);
        }
        if partial.pieces.len() as u64 != count {
            return Ok(FragmentOutcome::Waiting);
        }
        self.complete(at);
        Ok(FragmentOutcome::Complete)
    }

    /// The packet that the last fragment completed.
    pub(super) fn whole(&self) -> (LinkHeaders<'_>, &[u8]) {
        (self.headers.get(), &self.whole)
    }

    /// Moves a complete packet to `whole`.
    fn complete(&mut self, at: usize) {
        let mut partial = self.partials.remove(at);
        let in_order = partial.pieces.windows(2).all(|pair| pair[0].0 < pair[1].0);
        self.headers = partial.headers.clone();
        if in_order {
            core::mem::swap(&mut self.whole, &mut partial.bytes);
        } else {
            // (index, offset, length) in the order of the indices.
            let mut start = 0;
            let mut places: Vec<(u16, usize, usize)> = Vec::with_capacity(partial.pieces.len());
            for (index, len) in &partial.pieces {
                places.push((*index, start, usize::from(*len)));
                start += usize::from(*len);
            }
            places.sort_unstable();
            self.whole.clear();
            for (_, start, len) in places {
                self.whole.extend_from_slice(&partial.bytes[start..start + len]);
            }
        }
        self.recycle(partial.bytes);
    }

    fn make_room(&mut self, most: usize, lost: &mut u64) {
        while self.partials.len() >= most {
            let oldest = (0..self.partials.len()).min_by_key(|at| self.partials[*at].deadline);
            let Some(oldest) = oldest else { return };
            self.remove(oldest);
            *lost += 1;
        }
    }

    fn remove(&mut self, at: usize) {
        let bytes = self.partials.remove(at).bytes;
        self.recycle(bytes);
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Time at which the next incomplete packet is given up.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.partials.iter().map(|partial| partial.deadline).min()
    }

    /// Gives up incomplete packets after their deadline; returns their number.
    pub(super) fn expire(&mut self, now: Duration) -> u64 {
        let before = self.partials.len();
        let mut at = 0;
        while at < self.partials.len() {
            if self.partials[at].deadline <= now {
                self.remove(at);
            } else {
                at += 1;
            }
        }
        (before - self.partials.len()) as u64
    }

    /// Number of incomplete packets, and bytes of their fragments.
    pub(super) fn pending(&self) -> (usize, usize) {
        (self.partials.len(), self.partials.iter().map(|partial| partial.bytes.len()).sum())
    }
}

impl PartialPacket {
    fn new(key: (u64, u64), count: u64, bytes: Vec<u8>) -> Self {
        PartialPacket {
            key,
            count,
            deadline: Duration::ZERO,
            bytes,
            pieces: Vec::new(),
            seen: [0; MOST_FRAGMENTS as usize / 64],
            headers: StoredHeaders::default(),
        }
    }

    /// Adds fragment `index`, which is below `count`. Returns false if it had been received before.
    fn add(&mut self, index: u64, count: u64, piece: &[u8]) -> Result<bool, LinkServiceError> {
        if count != self.count {
            return Err(LinkServiceError::FragmentConflict);
        }
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if self.seen[word] & bit != 0 {
            let same = self.piece(index as u16) == Some(piece);
            return if same { Ok(false) } else { Err(LinkServiceError::FragmentConflict) };
        }
        if self.bytes.len() + piece.len() > MAX_PACKET {
            return Err(LinkServiceError::TooLong);
        }
        self.seen[word] |= bit;
        // Both fit: an index is below 512, and a piece is no longer than a packet.
        self.pieces.push((index as u16, piece.len() as u16));
        self.bytes.extend_from_slice(piece);
        Ok(true)
    }

    /// The bytes of fragment `index`.
    fn piece(&self, index: u16) -> Option<&[u8]> {
        let mut start = 0;
        for (at, len) in &self.pieces {
            let end = start + usize::from(*len);
            if *at == index {
                return self.bytes.get(start..end);
            }
            start = end;
        }
        None
    }
}
