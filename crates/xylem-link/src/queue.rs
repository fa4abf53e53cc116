//! The send queue: packets are copied once, straight to where they will be sealed.
//!
//! A [`DatagramBatch`] is one buffer of datagrams laid end to end, all of one size but the last, as UDP GSO expects them. Small
//! packets share a datagram; a packet that fits into a datagram is never split; a larger one fills datagrams
//! completely. On a shaped link ([`SendQueue::shape`]) datagrams are padded as they are closed, and where their sizes
//! are drawn, packets are cut to those.

use std::collections::VecDeque;

use crate::aead::TAG_LEN;
use crate::frame::{FRAGMENT_OVERHEAD, Fragment, Frame, Frames, PACKET_OVERHEAD};
use crate::header::HEADER_LEN;
use crate::mtu::MAX_DATAGRAM;
use crate::seal::OVERHEAD;
use crate::shape::Shaper;
use crate::shape::padding::{Padder, Padding};

/// A fragment shorter than this is not worth a frame; it goes into the next datagram.
const MIN_PIECE: usize = 64;
/// Used buffers that an endpoint keeps for the next batches.
const MAX_SPARE: usize = 32;

/// Used buffers of all links of an endpoint: an idle link holds none.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// Keeps a used buffer, unless there are enough.
    pub(crate) fn keep(&mut self, mut used: Vec<u8>) {
        if used.capacity() > 0 && self.0.len() < MAX_SPARE {
            used.clear();
            self.0.push(used);
        }
    }

    fn take_buffer(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }
}

/// Datagrams laid end to end, not sealed yet.
#[derive(Debug, Default)]
struct DatagramBatch {
    buf: Vec<u8>,
    /// Size of the first datagram once it is closed; all but the last have it.
    segment: Option<usize>,
    /// Where the datagram under construction begins.
    open: Option<usize>,
    /// No more datagrams fit this batch.
    full: bool,
    /// Largest datagram when the batch was begun, in bytes.
    datagram: usize,
    /// Bytes of padding in closed datagrams.
    padding: usize,
    /// Some datagram holds a fragment.
    pieces: bool,
}

/// A batch ready to be sealed.
#[derive(Debug)]
pub(crate) struct ReadyBatch {
    pub buf: Vec<u8>,
    /// Bytes of each datagram but the last, which may be shorter.
    pub segment: usize,
    /// Bytes of padding in it.
    pub padding: usize,
    /// It holds fragments.
    pub pieces: bool,
}

#[derive(Debug)]
pub(crate) struct SendQueue {
    batches: VecDeque<DatagramBatch>,
    /// The caller's buffer that the last batch was exchanged for.
    used: Vec<u8>,
    bytes: usize,
    max_bytes: usize,
    max_segments: usize,
    next_message: u32,
    padder: Option<Box<Padder>>,
}

/// The queue is at its limit of bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

impl SendQueue {
    pub(crate) fn new(max_bytes: usize, max_segments: usize) -> Self {
        Self {
            batches: VecDeque::new(),
            used: Vec::new(),
            bytes: 0,
            max_bytes,
            max_segments: max_segments.max(1),
            next_message: 0,
            padder: None,
        }
    }

    /// The layout of datagrams outside of this queue: the most bytes of each, the most in a row, and the padding of
    /// each.
    pub(crate) fn layout(&mut self, datagram: usize) -> (usize, usize, Option<&Padding>) {
        let datagram = match &mut self.padder {
            Some(padder) => padder.limit(datagram),
            None => datagram,
        };
        (datagram, self.max_segments, self.padder.as_deref().map(Padder::padding))
    }

    /// Takes datagram sizes from `shaper`, and makes single datagrams where it needs them. Called before the first
    /// packet.
    pub(crate) fn shape(&mut self, shaper: &mut Shaper) {
        let padder = shaper.queue_padder();
        if shaper.is_gated() || padder.draws() {
            self.max_segments = 1;
        }
        self.max_bytes = shaper.queue_bytes(self.max_bytes);
        self.padder = Some(Box::new(padder));
    }

    /// Queues a packet in datagrams of at most `datagram` bytes, in buffers from `spare`. `as_pieces`: as one fragment
    /// at least, so that it has a message number and can be repaired.
    pub(crate) fn push(
        &mut self,
        packet: &[u8],
        datagram: usize,
        as_pieces: bool,
        spare: &mut SpareBuffers,
    ) -> Result<(), QueueFull> {
        if self.bytes != 0 && self.bytes + packet.len() > self.max_bytes {
            return Err(QueueFull);
        }
        let frame = packet.len() + if as_pieces { FRAGMENT_OVERHEAD } else { PACKET_OVERHEAD };
        let whole = self.fits_whole(frame, datagram, spare);
        if whole && as_pieces {
            // Opens a new datagram if needed, so that the packet is not split over two.
            self.batch_with_room(frame, datagram, spare);
        }
        if whole && !as_pieces {
            let batch = self.batch_with_room(frame, datagram, spare);
            let before = batch.buf.len();
            Frame::Packet(packet).write(&mut batch.buf);
            self.bytes += self.back_len() - before;
        } else {
            self.push_fragments(packet, datagram, spare);
        }
        Ok(())
    }

    /// Returns whether a frame fits into one datagram.
    fn fits_whole(&mut self, frame: usize, datagram: usize, spare: &mut SpareBuffers) -> bool {
        if self.padder.as_ref().is_some_and(|padder| padder.draws()) {
            let least = frame.min(FRAGMENT_OVERHEAD + MIN_PIECE);
            return self.batch_with_room(least, datagram, spare).room() >= frame;
        }
        frame + OVERHEAD <= datagram
    }

    fn push_fragments(&mut self, packet: &[u8], datagram: usize, spare: &mut SpareBuffers) {
        let message = self.next_message;
        self.next_message = message.wrapping_add(1);
        self.push_pieces(message, 0, packet.len(), packet, datagram, spare);
    }

    /// Queues a piece of a message, from this offset on, in as many fragments as needed.
    fn push_pieces(
        &mut self,
        message: u32,
        begin: usize,
        total: usize,
        piece: &[u8],
        datagram: usize,
        spare: &mut SpareBuffers,
    ) {
        let mut offset = 0;
        while offset < piece.len() {
            let rest = piece.len() - offset;
            let least = FRAGMENT_OVERHEAD + rest.min(MIN_PIECE);
            let batch = self.batch_with_room(least, datagram, spare);
            let len = rest.min(batch.room() - FRAGMENT_OVERHEAD);
            let before = batch.buf.len();
            Frame::Fragment(Fragment {
                message,
                offset: (begin + offset) as u32,
                total: total as u32,
                piece: &piece[offset..offset + len],
            })
            .write(&mut batch.buf);
            batch.pieces = true;
            self.bytes += self.back_len() - before;
            offset += len;
        }
    }

    /// Appends small frames to the only, still open datagram if they fit. Returns false otherwise: they had better go
    /// ahead of the queue in a datagram of their own.
    pub(crate) fn append_small(&mut self, frames: &[u8]) -> bool {
        let [batch] = self.batches.make_contiguous() else { return false };
        let alone = batch.open.is_some() && batch.room() >= frames.len();
        if alone {
            batch.buf.extend_from_slice(frames);
            self.bytes += frames.len();
        }
        alone
    }

    /// Lays waiting frames out anew in datagrams of at most `datagram` bytes: larger ones would be lost on a new path.
    pub(crate) fn refit(&mut self, datagram: usize) {
        if self.batches.iter().all(|batch| batch.limit() <= datagram) {
            return;
        }
        let padding = self.padder.as_deref().map(Padder::padding);
        let mut waiting = core::mem::take(&mut self.batches);
        waiting.iter_mut().for_each(|batch| batch.close(false, padding));
        self.bytes = 0;
        let spare = &mut SpareBuffers::default();
        for DatagramBatch { buf, segment, .. } in waiting {
            for sealed in buf.chunks(segment.unwrap_or(buf.len())) {
                let frames = sealed.get(HEADER_LEN..sealed.len().saturating_sub(TAG_LEN));
                for frame in Frames::new(frames.unwrap_or_default()).flatten() {
                    self.push_frame(frame, datagram, spare);
                }
            }
        }
    }

    /// Queues a frame that was laid out before.
    fn push_frame(&mut self, frame: Frame<'_>, datagram: usize, spare: &mut SpareBuffers) {
        match frame {
            Frame::Packet(packet) if packet.len() + PACKET_OVERHEAD + OVERHEAD > datagram => {
                self.push_fragments(packet, datagram, spare);
            }
            Frame::Fragment(Fragment { message, offset, total, piece }) => {
                self.push_pieces(message, offset as usize, total as usize, piece, datagram, spare);
            }
            whole => {
                let mut bytes = Vec::new();
                whole.write(&mut bytes);
                let batch = self.batch_with_room(bytes.len(), datagram, spare);
                batch.buf.extend_from_slice(&bytes);
                self.bytes += bytes.len();
            }
        }
    }

    /// Takes the next batch out. `used`: the caller's buffer, for [`SendQueue::take_used_buffer`].
    pub(crate) fn pop(&mut self, used: Vec<u8>) -> Result<ReadyBatch, Vec<u8>> {
        let Some(mut batch) = self.batches.pop_front() else { return Err(used) };
        self.bytes -= batch.counted();
        self.used = used;
        batch.close(false, self.padder.as_deref().map(Padder::padding));
        let segment = batch.segment.unwrap_or(batch.buf.len());
        Ok(ReadyBatch { buf: batch.buf, segment, padding: batch.padding, pieces: batch.pieces })
    }

    /// The buffer that the last batch was exchanged for.
    pub(crate) fn take_used_buffer(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.used)
    }

    fn back_len(&self) -> usize {
        self.batches.back().map_or(0, |b| b.buf.len())
    }

    /// The last batch, with an open datagram that has room for `frame` bytes.
    fn batch_with_room(
        &mut self,
        frame: usize,
        datagram: usize,
        spare: &mut SpareBuffers,
    ) -> &mut DatagramBatch {
        let max_segments = self.max_segments;
        let padding = self.padder.as_deref().map(Padder::padding);
        let fits = self.batches.back_mut().is_some_and(|batch| {
            let before = batch.buf.len();
            let fits = batch.make_room(frame, max_segments, datagram, padding);
            self.bytes += batch.buf.len() - before;
            fits
        });
        if !fits {
            let mut buf = spare.take_buffer();
            let datagram = match &mut self.padder {
                Some(padder) => padder.limit(datagram),
                None => datagram,
            };
            buf.reserve(datagram.min(MAX_DATAGRAM));
            let mut batch = DatagramBatch { buf, datagram, ..DatagramBatch::default() };
            batch.begin();
            self.bytes += batch.buf.len();
            self.batches.push_back(batch);
        }
        self.batches.back_mut().expect("one was there or has just been pushed")
    }
}

impl DatagramBatch {
    /// The bytes that the queue counts for this batch: all but the tag of the open datagram.
    fn counted(&self) -> usize {
        self.buf.len()
    }

    fn limit(&self) -> usize {
        self.segment.unwrap_or(self.datagram)
    }

    /// Bytes of frames that the open datagram still has room for.
    fn room(&self) -> usize {
        let Some(start) = self.open else { return 0 };
        (start + self.limit() - TAG_LEN).saturating_sub(self.buf.len())
    }

    fn begin(&mut self) {
        self.open = Some(self.buf.len());
        self.buf.extend_from_slice(&[0; HEADER_LEN]);
    }

    /// Ensures an open datagram with room for `frame` bytes, or reports that this batch has none.
    fn make_room(
        &mut self,
        frame: usize,
        max_segments: usize,
        datagram: usize,
        padding: Option<&Padding>,
    ) -> bool {
        if self.full {
            return false;
        }
        if self.room() >= frame {
            return true;
        }
        self.close(true, padding);
        let segment = self.limit();
        self.full |= self.datagram != datagram
            || segment < frame + OVERHEAD
            || self.buf.len() + segment > MAX_DATAGRAM
            || self.buf.len() / segment >= max_segments;
        if !self.full {
            self.begin();
        }
        !self.full
    }

    /// Closes the open datagram. One that is not the first and shorter than the others must be the last, unless the
    /// difference is so small that padding is cheaper than a new batch.
    fn close(&mut self, pad: bool, shape: Option<&Padding>) {
        let Some(start) = self.open.take() else { return };
        let needed = self.buf.len() + TAG_LEN - start;
        let len = shape.map_or(needed, |padding| padding.closed(needed, self.limit()));
        let segment = *self.segment.get_or_insert(len);
        let short = segment - len;
        let padding = len - needed + if pad && short <= segment / 8 { short } else { 0 };
        // Padding is zeros, and so is the room for the tag.
        self.buf.resize(self.buf.len() + padding + TAG_LEN, 0);
        self.full |= needed + padding < segment;
        self.padding += padding;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;
    use crate::kdf::LinkRng;

    fn drain(queue: &mut SendQueue) -> Vec<(usize, Vec<Vec<u8>>)> {
        let mut batches = Vec::new();
        while let Ok(ready) = queue.pop(Vec::new()) {
            let datagrams = ready.buf.chunks(ready.segment).map(<[u8]>::to_vec).collect();
            batches.push((ready.segment, datagrams));
        }
        assert_eq!(queue.bytes, 0, "every byte that was counted is counted off");
        batches
    }

    fn push(queue: &mut SendQueue, packet: &[u8], datagram: usize) -> Result<(), QueueFull> {
        queue.push(packet, datagram, false, &mut SpareBuffers::default())
    }

    fn frames(datagram: &[u8]) -> Vec<Frame<'_>> {
        let inside = &datagram[HEADER_LEN..datagram.len() - TAG_LEN];
        Frames::new(inside).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn small_packets_share_datagrams_and_large_ones_fill_them() {
        let mut queue = SendQueue::new(1 << 20, 32);
        for _ in 0..10 {
            push(&mut queue, &[1; 50], 1_232).unwrap();
        }
        let batches = drain(&mut queue);
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].1.len(), 1);
        assert_eq!(frames(&batches[0].1[0]).len(), 10);
        push(&mut queue, &[2; 8_400], 1_232).unwrap();
        let batches = drain(&mut queue);
        assert_eq!(batches.len(), 1);
        let sizes: Vec<usize> = batches[0].1.iter().map(Vec::len).collect();
        assert_eq!(sizes[..7], [1_232; 7]);
        assert_eq!(sizes.len(), 8);
    }

    #[test]
    fn whole_packets_stay_whole_in_large_datagrams() {
        let mut queue = SendQueue::new(1 << 20, 32);
        for _ in 0..14 {
            push(&mut queue, &[1; 8_500], 65_507).unwrap();
        }
        let batches = drain(&mut queue);
        assert_eq!(batches.len(), 2);
        for (_, datagrams) in &batches {
            assert_eq!(datagrams.len(), 1);
            assert_eq!(frames(&datagrams[0]).len(), 7);
        }
        for _ in 0..14 {
            push(&mut queue, &[1; 8_500], 8_952).unwrap();
        }
        let batches = drain(&mut queue);
        assert_eq!(batches.iter().map(|b| b.1.len()).collect::<Vec<_>>(), [7, 7]);
    }

    /// On a new path that carries less, all of it arrives, in order.
    #[test]
    fn waiting_packets_are_refitted_to_a_smaller_path() {
        for (before, after) in [(65_507, 1_232), (8_952, 1_452), (1_452, 1_232), (1_232, 65_507)] {
            let mut queue = SendQueue::new(1 << 20, 32);
            let packets: Vec<Vec<u8>> = [50, 9_000, 1_400, 65_536, 1_200, 1]
                .iter()
                .map(|len| vec![*len as u8; *len])
                .collect();
            packets.iter().for_each(|packet| push(&mut queue, packet, before).unwrap());
            queue.refit(after);
            queue.push(&[9; 300], after, false, &mut SpareBuffers::default()).unwrap();
            let mut reassembly = crate::reassembly::Reassembly::default();
            let mut got = vec![];
            for (_, datagrams) in drain(&mut queue) {
                for datagram in &datagrams {
                    assert!(datagram.len() <= after.max(1_232), "{}", datagram.len());
                    for frame in frames(datagram) {
                        match frame {
                            Frame::Packet(packet) => got.push(packet.to_vec()),
                            Frame::Fragment(piece) => {
                                let whole = reassembly.insert(core::time::Duration::ZERO, piece);
                                got.extend(whole.unwrap().map(|packet| packet.to_vec()));
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
            }
            assert!(got[..6] == packets && got[6] == [9; 300], "{before} to {after}");
        }
    }

    #[test]
    fn used_buffers_serve_any_queue_and_are_not_kept_in_one() {
        let mut spare = SpareBuffers::default();
        let mut queues = [(); 4].map(|()| SendQueue::new(1 << 20, 32));
        let mut buf = vec![0; 70_000];
        for round in 0..20 {
            let queue = &mut queues[round % 4];
            queue.push(&[1; 1_000], 65_507, false, &mut spare).unwrap();
            buf = queue.pop(buf).unwrap().buf;
            spare.keep(queue.take_used_buffer());
            assert_eq!((queue.used.capacity(), spare.0.len()), (0, 1), "two take turns");
        }
        for _ in 0..2 * MAX_SPARE {
            spare.keep(vec![0; 100]);
        }
        assert_eq!(spare.0.len(), MAX_SPARE);
        assert!(spare.take_buffer().is_empty());
    }

    #[test]
    fn the_queue_is_bounded_but_takes_any_single_packet() {
        let mut queue = SendQueue::new(10_000, 32);
        push(&mut queue, &[1; 65_536], 1_232).unwrap();
        assert_eq!(push(&mut queue, &[1; 1], 1_232), Err(QueueFull));
        drain(&mut queue);
        assert_eq!(push(&mut queue, &[1; 1], 1_232), Ok(()));
    }

    /// Every packet is there, in order, once; no datagram and no batch exceeds its limit.
    #[test]
    fn random_packets_keep_every_limit() {
        let mut rng = LinkRng::new(&[5; 32]);
        for round in 0..200 {
            let datagram = [1_200, 1_232, 1_452, 8_952, 65_507][rng.below(5)];
            let segments = 1 + rng.below(40);
            let mut queue = SendQueue::new(1 << 24, segments);
            let mut sent = Vec::new();
            for i in 0..1 + rng.below(60) {
                let max = [20, 1_300, 8_800, 65_536][rng.below(4)];
                let packet = vec![i as u8; 1 + rng.below(max)];
                push(&mut queue, &packet, datagram).unwrap();
                sent.push(packet);
            }
            let mut got: Vec<Vec<u8>> = Vec::new();
            for (segment, datagrams) in drain(&mut queue) {
                assert!(segment <= datagram && datagrams.len() <= segments, "round {round}");
                assert!(datagrams.iter().map(Vec::len).sum::<usize>() <= MAX_DATAGRAM);
                for frame in datagrams.iter().flat_map(|d| frames(d)) {
                    match frame {
                        Frame::Packet(packet) => got.push(packet.to_vec()),
                        Frame::Fragment(f) if f.offset == 0 => got.push(f.piece.to_vec()),
                        Frame::Fragment(f) => {
                            let packet = got.last_mut().unwrap();
                            assert_eq!(packet.len(), f.offset as usize);
                            packet.extend_from_slice(f.piece);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert!(got == sent, "round {round}");
        }
    }
}
