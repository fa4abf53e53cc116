//! Datagrams of stream frames, filled completely and laid end to end as UDP GSO expects them.

use core::time::Duration;

use super::recovery::{SentFrame, SentFrames};
use super::{LinkStream, Streams};
use crate::aead::TAG_LEN;
use crate::frame::{Frame, STREAM_OVERHEAD, WHOLE_LINK, stream_data_head};
use crate::header::HEADER_LEN;
use crate::mtu::MAX_DATAGRAM;
use crate::replay::ReplayWindow;
use crate::shape::padding::Padding;

/// Length of the largest frame here without data, in bytes.
const MAX_SMALL: usize = 17;
/// A piece shorter than this is not worth a frame if there is more: it goes into the next datagram.
const MIN_PIECE: usize = 64;

/// The allowed layout of datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramLayout<'a> {
    /// Most bytes of a datagram.
    pub datagram: usize,
    /// Most datagrams of one size in a row.
    pub segments: usize,
    /// The padding of each, where the link is shaped.
    pub padding: Option<&'a Padding>,
    /// The packet number of the first datagram.
    pub number: u64,
    /// Received datagrams so far that were marked, modulo 2^32.
    pub marked: u32,
}

/// Datagrams that have been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenDatagrams {
    /// The size of each but the last.
    pub segment: usize,
    /// Bytes of padding.
    pub padding: usize,
    /// It is a single datagram with an acknowledgement alone.
    pub is_ack: bool,
}

/// The content of a written datagram.
enum Filled {
    /// Nothing at all.
    Empty,
    /// An acknowledgement alone.
    Ack,
    Frames(SentFrames),
}

impl Streams {
    /// Writes the datagrams that may leave now to `buf`, which must be empty, with room for header and tag, ready to be
    /// sealed. `None`: nothing for now.
    pub(crate) fn fill(
        &mut self,
        now: Duration,
        layout: DatagramLayout<'_>,
        window: &ReplayWindow,
        buf: &mut Vec<u8>,
    ) -> Option<WrittenDatagrams> {
        self.now = now;
        self.recovery.set_datagram(layout.datagram);
        let mut segment = layout.datagram;
        let (mut count, mut padding, mut is_ack) = (0, 0, false);
        while count < layout.segments && buf.len() + segment <= MAX_DATAGRAM {
            let start = buf.len();
            let end = start + segment - TAG_LEN;
            let filled = self.datagram(now, window, layout.marked, buf, end);
            if matches!(filled, Filled::Empty) {
                break;
            }
            // A short datagram is padded if that is cheap, else it is the last one.
            let short = end - buf.len();
            let full = short < MIN_PIECE + STREAM_OVERHEAD && self.has_work();
            let needed = buf.len() + TAG_LEN - start;
            let len = match layout.padding {
                _ if full => segment,
                Some(padding) => padding.closed(needed, segment),
                None => needed,
            };
            padding += len - needed;
            buf.resize(start + len, 0);
            match filled {
                Filled::Frames(frames) => {
                    self.recovery.on_sent(now, layout.number + count as u64, len, frames);
                }
                // Acknowledgements went with the first datagram, if there were any.
                Filled::Ack | Filled::Empty => is_ack = count == 0,
            }
            segment = if count == 0 { len } else { segment };
            count += 1;
            if len < layout.datagram {
                break;
            }
        }
        (count > 0).then_some(WrittenDatagrams { segment, padding, is_ack })
    }

    /// Writes one datagram's header space and frames up to `end`.
    fn datagram(
        &mut self,
        now: Duration,
        window: &ReplayWindow,
        marked: u32,
        buf: &mut Vec<u8>,
        end: usize,
    ) -> Filled {
        let start = buf.len();
        let due = self.acks.is_due(now, window);
        let has_work = self.has_work();
        if !has_work {
            self.recovery.on_idle();
        }
        let may_send = has_work && self.recovery.may_send(now);
        if !may_send && !due {
            return Filled::Empty;
        }
        buf.resize(start + HEADER_LEN, 0);
        if self.acks.is_waiting() {
            self.acks.write(now, window, marked, buf);
        }
        let acks_end = buf.len();
        let mut frames = SentFrames::default();
        if may_send {
            self.frames(buf, end, &mut frames);
        }
        match (frames.is_empty(), acks_end > start + HEADER_LEN) {
            (false, _) => Filled::Frames(frames),
            (true, true) => Filled::Ack,
            (true, false) => {
                buf.truncate(start);
                Filled::Empty
            }
        }
    }

    fn frames(&mut self, buf: &mut Vec<u8>, end: usize, frames: &mut SentFrames) {
        if self.window_due && end - buf.len() >= MAX_SMALL {
            self.window_due = false;
            let limit = self.window.limit();
            Frame::WindowUpdate { stream: WHOLE_LINK, limit }.write(buf);
            frames.push(SentFrame::LinkWindow(limit));
        }
        // Each stream in the queue has one turn at most; a stream with nothing left leaves the queue.
        while end - buf.len() >= MAX_SMALL {
            let Some(id) = self.sendable.pop_front() else { break };
            let mut room = self.link_room();
            let Some(stream) = self.table.get_mut(&id) else { continue };
            let before = stream.send.buffer.sent();
            let more = stream.frames(id, buf, end, &mut room, frames);
            self.sent += stream.send.buffer.sent() - before;
            stream.queued = more;
            if more {
                self.sendable.push_back(id);
                // The stream stopped for lack of room in the datagram.
                break;
            }
        }
    }
}

impl LinkStream {
    /// Writes the stream's due frames. Returns whether it has more.
    fn frames(
        &mut self,
        id: u32,
        buf: &mut Vec<u8>,
        end: usize,
        link_room: &mut u64,
        frames: &mut SentFrames,
    ) -> bool {
        use super::FrameState::Sent;
        let room = |buf: &Vec<u8>| end - buf.len() >= MAX_SMALL;
        if self.send.open.is_due() && room(buf) {
            let purpose = self.purpose.unwrap_or_default();
            Frame::StreamOpen { stream: id, purpose }.write(buf);
            self.send.open = Sent;
            frames.push(SentFrame::Open(id));
        }
        if self.recv.window_due && room(buf) {
            self.recv.window_due = false;
            let limit = self.recv.window.limit();
            Frame::WindowUpdate { stream: id, limit }.write(buf);
            frames.push(SentFrame::Window { stream: id, limit });
        }
        if self.recv.stop.is_due() && room(buf) {
            let super::ReadState::Stopped(code) = self.recv.state else { return false };
            Frame::StreamStop { stream: id, code }.write(buf);
            self.recv.stop = Sent;
            frames.push(SentFrame::Stop(id));
        }
        if self.send.reset.is_due() && room(buf) {
            let (super::End::Reset(code) | super::End::Stopped(code)) = self.send.end else {
                return false;
            };
            Frame::StreamReset { stream: id, code, size: self.send.buffer.sent() }.write(buf);
            self.send.reset = Sent;
            frames.push(SentFrame::Reset(id));
        }
        self.data(id, buf, end, link_room, frames);
        if self.send.close_is_due() && room(buf) {
            Frame::StreamClose { stream: id, size: self.send.buffer.end() }.write(buf);
            self.send.close = Sent;
            frames.push(SentFrame::Close(id));
        }
        self.has_work(*link_room)
    }

    fn data(
        &mut self,
        id: u32,
        buf: &mut Vec<u8>,
        end: usize,
        link_room: &mut u64,
        frames: &mut SentFrames,
    ) {
        let buffer = &mut self.send.buffer;
        loop {
            let room = (end - buf.len()).saturating_sub(STREAM_OVERHEAD);
            let limit = self.send.limit.min(buffer.sent() + *link_room);
            let Some((start, len)) = buffer.next_piece(room, limit) else { return };
            if len == 0 {
                return;
            }
            if len < MIN_PIECE
                && len == room
                && buffer.next_piece(MIN_PIECE, limit).is_some_and(|(_, whole)| whole > len)
            {
                return;
            }
            buf.extend_from_slice(&stream_data_head(id, start, len));
            buffer.copy(start, len, buf);
            *link_room -= (start + len as u64).saturating_sub(buffer.sent());
            buffer.on_sent(start, len);
            frames.push(SentFrame::Data { stream: id, start, end: start + len as u64 });
        }
    }
}
