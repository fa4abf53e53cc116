//! The half of a stream that this side reads: bytes put in order, and the window that the peer may fill.
//!
//! Data that arrives in order is handed on as a slice of its datagram. Small pieces are copied, and all are once many
//! wait: a slice keeps its whole receive buffer alive.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::Violation;
use super::flow::FlowWindow;
use super::outgoing::FrameState;

/// Pieces smaller than this are copied together.
const SMALL: usize = 1 << 10;
/// Bytes of a buffer that small pieces share.
const TOGETHER: usize = 16 << 10;
/// Pieces of one link that may wait as slices of their datagrams.
const MAX_SLICES: usize = 64;

/// The state of the half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadState {
    /// Bytes are kept for the program.
    Open,
    /// The end has been reported to the program.
    Finished,
    /// The peer reset it.
    Reset(u32),
    /// The program stopped reading; arrivals are only counted.
    Stopped(u32),
}

#[derive(Debug)]
pub(super) struct RecvHalf {
    /// Pieces in order, not read yet.
    ready: VecDeque<Bytes>,
    /// Follows `ready`: small pieces, copied.
    tail: BytesMut,
    /// Pieces out of order, by offset; disjoint and all above `next`.
    pending: BTreeMap<u64, Bytes>,
    /// Everything below has arrived.
    next: u64,
    /// Bytes handed to the program, or discarded.
    read: u64,
    /// One above the highest byte that arrived.
    highest: u64,
    size: Option<u64>,
    pub window: FlowWindow,
    pub state: ReadState,
    pub stop: FrameState,
    /// A window update is due.
    pub window_due: bool,
    /// `StreamReadable` has been reported and the program has not read to the end since.
    pub readable_reported: bool,
}

impl RecvHalf {
    pub(super) fn new(window: FlowWindow) -> Self {
        Self {
            ready: VecDeque::new(),
            tail: BytesMut::new(),
            pending: BTreeMap::new(),
            next: 0,
            read: 0,
            highest: 0,
            size: None,
            window,
            state: ReadState::Open,
            stop: FrameState::NotDue,
            window_due: false,
            readable_reported: false,
        }
    }

    /// Number of pieces that are held.
    pub(super) fn pieces(&self) -> usize {
        self.ready.len().saturating_add(self.pending.len())
    }

    /// Bytes that count against the link's window and have not been given back to it.
    pub(super) fn unread(&self) -> u64 {
        self.highest.saturating_sub(self.read)
    }

    /// Returns whether a read would give the program something, if only the end.
    pub(super) fn is_readable(&self) -> bool {
        self.state == ReadState::Open && (self.next > self.read || self.size == Some(self.read))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.size == Some(self.next)
    }

    /// Returns whether no further arrival can change anything.
    pub(super) fn is_done(&self) -> bool {
        match self.state {
            ReadState::Open => false,
            ReadState::Finished | ReadState::Reset(_) => true,
            ReadState::Stopped(_) => self.size.is_some(),
        }
    }

    /// Returns whether the peer may get a larger window.
    pub(super) fn wants_more(&self) -> bool {
        self.state == ReadState::Open && self.size.is_none()
    }

    /// Records that the peer has sent up to `end`. Returns by how much that is more than before.
    fn grow(&mut self, end: u64) -> Result<u64, Violation> {
        if end > self.window.limit() || self.size.is_some_and(|size| end > size) {
            return Err(Violation);
        }
        let grown = end.saturating_sub(self.highest);
        self.highest = self.highest.max(end);
        Ok(grown)
    }

    /// Takes the size of the peer's half. Returns by how much it exceeds what has arrived.
    pub(super) fn on_size(&mut self, size: u64) -> Result<u64, Violation> {
        if size < self.highest || self.size.is_some_and(|known| known != size) {
            return Err(Violation);
        }
        let grown = self.grow(size)?;
        self.size = Some(size);
        Ok(grown)
    }

    /// Discards data, held and to come. Returns how many bytes that gives back.
    pub(super) fn discard(&mut self, state: ReadState) -> u64 {
        self.state = state;
        self.ready.clear();
        self.tail = BytesMut::new();
        self.pending.clear();
        self.window_due = false;
        let given_back = self.unread();
        self.read = self.highest;
        given_back
    }

    /// Takes a piece of `datagram`. `pieces`: number held on the whole link. Returns by how much the highest offset has
    /// grown.
    pub(super) fn on_data(
        &mut self,
        offset: u64,
        piece: &[u8],
        datagram: &Bytes,
        pieces: usize,
    ) -> Result<u64, Violation> {
        let end = offset.checked_add(piece.len() as u64).ok_or(Violation)?;
        let grown = self.grow(end)?;
        if self.state != ReadState::Open {
            self.read = self.highest;
        } else if end > self.next {
            // The piece ends behind `next`, so what is skipped lies within it.
            let skip = usize::try_from(self.next.saturating_sub(offset)).map_err(|_| Violation)?;
            let (offset, piece) = (offset.max(self.next), &piece[skip..]);
            let copy = piece.len() < SMALL || pieces >= MAX_SLICES;
            if offset == self.next && self.pending.is_empty() {
                self.next = end;
                if copy { self.append(piece) } else { self.push(datagram.slice_ref(piece)) }
            } else {
                let piece =
                    if copy { Bytes::copy_from_slice(piece) } else { datagram.slice_ref(piece) };
                self.set_aside(offset, piece);
                self.advance();
            }
        }
        Ok(grown)
    }

    fn append(&mut self, piece: &[u8]) {
        self.tail.extend_from_slice(piece);
        if self.tail.len() >= TOGETHER {
            self.ready.push_back(self.tail.split().freeze());
        }
    }

    fn push(&mut self, piece: Bytes) {
        if piece.len() < SMALL {
            return self.append(&piece);
        }
        if !self.tail.is_empty() {
            self.ready.push_back(self.tail.split().freeze());
        }
        self.ready.push_back(piece);
    }

    /// Puts a piece that does not begin before `next` into the holes that it covers.
    #[expect(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        reason = "offsets are below the window's limit and cuts within the piece"
    )]
    fn set_aside(&mut self, mut offset: u64, mut piece: Bytes) {
        if let Some((at, before)) = self.pending.range(..=offset).next_back() {
            let covered = (at + before.len() as u64).saturating_sub(offset) as usize;
            if covered >= piece.len() {
                return;
            }
            offset += covered as u64;
            piece = piece.slice(covered..);
        }
        while !piece.is_empty() {
            let after = self.pending.range(offset..).next();
            let hole = after.map(|(at, piece)| (*at, at + piece.len() as u64));
            let Some((at, end)) = hole.filter(|(at, _)| *at < offset + piece.len() as u64) else {
                break;
            };
            let before = piece.split_to((at - offset) as usize);
            self.keep(offset, before);
            let covered = ((end - at) as usize).min(piece.len());
            piece = piece.slice(covered..);
            offset = end;
        }
        self.keep(offset, piece);
    }

    #[expect(clippy::arithmetic_side_effects, reason = "offsets are below the window's limit")]
    fn keep(&mut self, offset: u64, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        // Keeps a stream of tiny pieces from becoming as many entries.
        if piece.len() < SMALL / 2
            && let Some((at, before)) = self.pending.range_mut(..offset).next_back()
            && at + before.len() as u64 == offset
            && before.len() < SMALL / 2
        {
            *before = [&before[..], &piece[..]].concat().into();
            return;
        }
        self.pending.insert(offset, piece);
    }

    fn advance(&mut self) {
        while let Some(first) = self.pending.first_entry() {
            if *first.key() != self.next {
                break;
            }
            let piece = first.remove();
            self.next = self.next.saturating_add(piece.len() as u64);
            self.push(piece);
        }
    }

    /// The next bytes in order.
    pub(super) fn read(&mut self) -> Option<Bytes> {
        let next = self.ready.pop_front().or_else(|| {
            // Takes the buffer with its spare room: a stream read to its end keeps none.
            let tail = core::mem::take(&mut self.tail).freeze();
            (!tail.is_empty()).then_some(tail)
        })?;
        self.read = self.read.saturating_add(next.len() as u64);
        Some(next)
    }

    /// Returns whether all has been read and no more will come.
    pub(super) fn is_at_end(&self) -> bool {
        self.size == Some(self.read)
    }

    /// Enlarges the window after a read, if that is due.
    pub(super) fn after_read(&mut self, now: Duration, rtt: Duration) {
        let more = self.wants_more() && self.window.on_consumed(self.read, now, rtt);
        self.window_due |= more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::LinkRng;
    use crate::stream::flow::FlowWindow;

    /// Pieces in any order, overlapping, repeated, of any size: the bytes read are those sent, in order, and little
    /// more than that is held.
    #[test]
    fn any_pieces_are_read_in_order() {
        let mut rng = LinkRng::new(&[3; 32]);
        for round in 0..200 {
            let size = 1 + rng.below([100, 5_000, 200_000][round % 3]);
            let max = [1, 20, 700, 3_000, 65_000][rng.below(5)].clamp(size / 1_000 + 1, size);
            let mut whole = vec![0; size];
            rng.fill(&mut whole);
            let datagram = Bytes::from(whole.clone());
            let mut half = RecvHalf::new(FlowWindow::new(1 << 20, 1 << 20));
            let mut got = Vec::new();
            let mut missing: Vec<usize> = (0..size.div_ceil(max)).collect();
            while let Some(left) = missing.len().checked_sub(1) {
                let pick = rng.below(left + 1);
                let again = rng.below(3) == 0;
                let at = (missing[pick] * max).saturating_sub(rng.below(max));
                let end = size.min((missing[pick] + 1) * max + rng.below(max));
                if !again {
                    missing.swap_remove(pick);
                }
                let pieces = half.pieces();
                half.on_data(at as u64, &datagram[at..end], &datagram, pieces).unwrap();
                if rng.below(4) == 0 {
                    while let Some(bytes) = half.read() {
                        got.extend_from_slice(&bytes);
                    }
                }
                assert!(whole.starts_with(&got));
            }
            assert_eq!(half.on_size(size as u64), Ok(0));
            while let Some(bytes) = half.read() {
                got.extend_from_slice(&bytes);
            }
            assert!(got == whole && half.is_at_end() && half.pieces() == 0, "round {round}");
        }
    }

    #[test]
    fn tiny_pieces_are_held_together() {
        let bytes = Bytes::from(vec![0; 10_001]);
        let mut half = RecvHalf::new(FlowWindow::new(1 << 20, 1 << 20));
        for at in 1..10_001 {
            half.on_data(at as u64, &bytes[at..=at], &bytes, half.pieces()).unwrap();
            assert!(half.pieces() <= 1 + at / (SMALL / 4), "{} pieces", half.pieces());
        }
        half.on_data(0, &bytes[..1], &bytes, half.pieces()).unwrap();
        let mut got = 0;
        while let Some(bytes) = half.read() {
            got += bytes.len();
        }
        assert_eq!(got, 10_001);
    }

    #[test]
    fn contradictory_pieces_are_refused() {
        let bytes = Bytes::from(vec![0; 100]);
        let new = || RecvHalf::new(FlowWindow::new(50, 50));
        assert_eq!(new().on_data(0, &bytes[..51], &bytes, 0), Err(Violation), "beyond the window");
        assert_eq!(new().on_data(50, &bytes[..1], &bytes, 0), Err(Violation));
        assert_eq!(new().on_data(0, &bytes[..50], &bytes, 0), Ok(50));
        assert_eq!(new().on_size(51), Err(Violation), "a size beyond the window");
        let mut half = new();
        assert_eq!(half.on_size(20), Ok(20));
        assert_eq!(half.on_size(20), Ok(0));
        assert_eq!(half.on_size(21), Err(Violation), "two sizes");
        assert_eq!(half.on_data(15, &bytes[..6], &bytes, 0), Err(Violation), "beyond the end");
        let mut half = new();
        assert_eq!(half.on_data(0, &bytes[..20], &bytes, 0), Ok(20));
        assert_eq!(half.on_size(19), Err(Violation), "a size below what has come");
    }
}
