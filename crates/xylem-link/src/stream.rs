//! Reliable streams of one link, beside its packets: ordered bytes both ways, with flow control, acknowledgements and
//! congestion control (docs/spec/link.md, Streams).
//!
//! `Streams` is made when the first stream is opened, by either side. Bytes out: `write` → chunks ([`buffer`]) → frames
//! in a datagram ([`transmit`]) → sealed by the link. Bytes in: frames → order ([`incoming`]) → `read`. [`recovery`]
//! finds lost datagrams; [`PendingAcks`] reports arrived ones. This module does not know the purpose of streams, seals nothing
//! and reads no clock.
//!
//! Streams carry the delivery of mail, the control channel of relays, codes, and statements of folders in step. All
//! exchange small requests and answers with one peer that they authenticate by the link's keys. Over packets each would
//! need its own repetition, order and limits. A second transport (TCP with TLS, QUIC) would need a second port,
//! handshake and identity, and would show an observer what a link hides. So streams are part of the link, with the loss
//! detector and the congestion control that they share with transfers (xylem-congestion).

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use thiserror::Error;
use xylem_congestion::CongestionAlgorithm;

use crate::acks::PendingAcks;
use crate::event::{LinkEvent, LinkId, StreamId};

mod buffer;
mod flow;
mod incoming;
mod outgoing;
mod ranges;
mod receive;
mod recovery;
mod transmit;

pub(crate) use transmit::{DatagramLayout, WrittenDatagrams};

use flow::FlowWindow;
use incoming::{ReadState, RecvHalf};
use outgoing::{End, FrameState, SendHalf};
use recovery::Recovery;

/// Bytes of a stream that a side may send before a window update arrives.
pub const INITIAL_STREAM_WINDOW: u64 = 64 << 10;
/// Bytes of all streams of a link together that a side may send before a window update arrives.
pub const INITIAL_LINK_WINDOW: u64 = 256 << 10;
/// Most streams that a side may have open at once of those that it has opened.
pub const MAX_STREAMS: usize = 256;
/// Code that resets and stops a stream that the peer's side refuses: too many, or opened after a go away.
pub const REFUSED: u32 = u32::MAX;

/// Streams of the peer that are remembered until it has confirmed their end.
const MAX_REMEMBERED: usize = 4 * MAX_STREAMS;
/// The highest id of a stream. The ids above it belong to no stream: 2^32 - 1 means the whole link, and the two below
/// that are left free, so that one above an id in use, or the next one of a side, still fits 32 bits.
const MAX_STREAM_ID: u32 = u32::MAX - 3;
/// Offset limit of a link, in bytes, that no stream reaches; no window is wider.
const MAX_OFFSET: u64 = 1 << 62;
/// Bytes up to which a stream's window grows while the peer keeps filling it; also the most written bytes that one
/// stream holds until they are acknowledged.
const MAX_STREAM_WINDOW: u64 = 16 << 20;
/// Bytes up to which the window of all streams of a link grows.
const MAX_LINK_WINDOW: u64 = 24 << 20;
/// Written bytes of a stream that may wait to be sent for the first time.
const MAX_UNSENT: u64 = 1 << 20;
/// Datagrams in a row that ask for an acknowledgement, before one is sent.
const ACK_EVERY: u32 = 2;
/// Most pieces that one link may hold for reading: one for every 512 bytes of its largest window, and some more.
const MAX_PIECES: usize = (MAX_LINK_WINDOW / 512) as usize + 4_096;

/// Purposes of streams that are agreed on beyond this crate. A program resets streams of unknown purposes.
pub mod purpose {
    /// Messages and handed-over tickets.
    pub const MAIL: u16 = 1;
    /// Measurements.
    pub const BENCH: u16 = 2;
    /// Control traffic of a program.
    pub const CONTROL: u16 = 3;
    /// Registrations with a relay (docs/spec/reach.md).
    pub const REACH: u16 = 4;
    /// Codes that people read out to one another (docs/spec/reach.md).
    pub const CODE: u16 = 5;
    /// Statements of members of a group that keeps folders in step (docs/spec/sync.md).
    pub const SYNC: u16 = 6;
}

/// The result of [`crate::Endpoint::read_stream`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamRead {
    /// The next bytes, at least one.
    Data(Bytes),
    /// Nothing for now; [`LinkEvent::StreamReadable`] follows when there is.
    Pending,
    /// The peer has finished its half and all of it has been read.
    Finished,
}

/// Why a call on a stream failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum StreamError {
    /// There is no such link (any more).
    #[error("no such link")]
    NoLink,
    /// The link's handshake is not complete.
    #[error("the link is not connected yet")]
    NotConnected,
    /// There is no such stream (any more): both halves have ended.
    #[error("no such stream")]
    NoStream,
    /// The limit of open streams is reached ([`MAX_STREAMS`]).
    #[error("too many streams are open")]
    TooMany,
    /// The peer takes no further streams; those that are open go on.
    #[error("no more streams can be opened on this link")]
    GoingAway,
    /// Our half was finished or reset before.
    #[error("this side has already ended its half of the stream")]
    Ended,
    /// The peer reset its half with this code.
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    /// The peer reads no more of our half, for the reason of this code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u32),
}

/// The peer broke the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Violation;

/// This side's role on the link, and the settings of its streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamSettings {
    pub dialer: bool,
    pub algorithm: CongestionAlgorithm,
    /// Streams of the peer that may be open at once; more are refused.
    pub max_streams: usize,
}

#[derive(Debug)]
struct LinkStream {
    /// `None` while other frames have overtaken the one that opens the stream.
    purpose: Option<u16>,
    /// It was refused: no event of it is reported to the program.
    refused: bool,
    send: SendHalf,
    recv: RecvHalf,
    /// Whether it is in the queue for sending.
    queued: bool,
}

impl LinkStream {
    fn is_done(&self) -> bool {
        let known = self.purpose.is_some() || self.refused;
        known && self.send.is_done() && self.recv.is_done() && !self.recv.stop.is_due()
    }
}

/// All streams of a link, and the datagrams that carry them.
#[derive(Debug)]
pub(crate) struct Streams {
    link: LinkId,
    settings: StreamSettings,
    table: BTreeMap<u32, LinkStream>,
    next_ours: u32,
    /// The peer's ids below this have been seen or skipped.
    next_theirs: u32,
    ours: usize,
    theirs: usize,
    /// Streams with something to send.
    sendable: VecDeque<u32>,
    /// Bytes of all streams that the peer allows us to send; `sent`: that we have sent.
    send_limit: u64,
    sent: u64,
    window: FlowWindow,
    /// Bytes of all streams that arrived or were skipped; the next field counts those read or discarded.
    received: u64,
    consumed: u64,
    window_due: bool,
    /// The peer takes no further streams.
    peer_went_away: bool,
    /// Pieces held for reading, of all streams.
    pieces: usize,
    /// The link's round trip, and the latest time known here: both for the windows.
    rtt: Duration,
    now: Duration,
    recovery: Recovery,
    acks: PendingAcks,
}

impl Streams {
    pub(crate) fn new(
        link: LinkId,
        settings: StreamSettings,
        now: Duration,
        datagram: usize,
    ) -> Self {
        let dialer = settings.dialer;
        Self {
            link,
            settings,
            table: BTreeMap::new(),
            next_ours: if dialer { 2 } else { 1 },
            next_theirs: if dialer { 1 } else { 2 },
            ours: 0,
            theirs: 0,
            sendable: VecDeque::new(),
            send_limit: INITIAL_LINK_WINDOW,
            sent: 0,
            window: FlowWindow::new(INITIAL_LINK_WINDOW, MAX_LINK_WINDOW),
            received: 0,
            consumed: 0,
            window_due: false,
            peer_went_away: false,
            pieces: 0,
            rtt: Duration::from_millis(100),
            now,
            recovery: Recovery::new(settings.algorithm, now, datagram),
            acks: PendingAcks::new(ACK_EVERY),
        }
    }

    /// Bytes sent and received so far, of all streams.
    pub(crate) fn moved(&self) -> u64 {
        self.sent + self.received
    }

    /// The purposes of the open streams, of either end.
    pub(crate) fn purposes(&self) -> impl Iterator<Item = u16> {
        self.table.values().filter(|stream| !stream.refused).filter_map(|stream| stream.purpose)
    }

    fn is_ours(&self, id: u32) -> bool {
        id.is_multiple_of(2) == self.settings.dialer
    }

    fn new_stream(purpose: Option<u16>, open: FrameState) -> LinkStream {
        let recv = RecvHalf::new(FlowWindow::new(INITIAL_STREAM_WINDOW, MAX_STREAM_WINDOW));
        let send = SendHalf::new(INITIAL_STREAM_WINDOW, open);
        LinkStream { purpose, refused: false, send, recv, queued: false }
    }

    pub(crate) fn open(&mut self, purpose: u16) -> Result<StreamId, StreamError> {
        if self.peer_went_away {
            return Err(StreamError::GoingAway);
        }
        let id = self.next_ours;
        if self.ours >= MAX_STREAMS || id > MAX_STREAM_ID {
            return Err(StreamError::TooMany);
        }
        self.next_ours += 2;
        self.ours += 1;
        let stream = Self::new_stream(Some(purpose), FrameState::Due);
        self.table.insert(id, stream);
        self.queue(id);
        Ok(StreamId(id))
    }

    fn get(&mut self, id: StreamId) -> Result<&mut LinkStream, StreamError> {
        let stream = self.table.get_mut(&id.0).filter(|s| s.purpose.is_some() && !s.refused);
        stream.ok_or(StreamError::NoStream)
    }

    /// How many of `len` bytes may be written now. If that is not all, the writer gets an event later.
    fn room(&mut self, id: StreamId, len: usize) -> Result<usize, StreamError> {
        let send = &mut self.get(id)?.send;
        send.check_open()?;
        let room = MAX_UNSENT.saturating_sub(send.buffer.unsent());
        let room = room.min(MAX_STREAM_WINDOW.saturating_sub(send.buffer.held()));
        let taken = (len as u64).min(room) as usize;
        send.writer_waits |= taken < len;
        Ok(taken)
    }

    pub(crate) fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        let taken = self.room(id, data.len())?;
        self.get(id)?.send.buffer.write(&data[..taken]);
        self.queue(id.0);
        Ok(taken)
    }

    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), StreamError> {
        let stream = self.get(id)?;
        stream.send.check_open()?;
        stream.send.finish();
        self.queue(id.0);
        Ok(())
    }

    pub(crate) fn reset(&mut self, id: StreamId, code: u32) -> Result<(), StreamError> {
        let stream = self.get(id)?;
        if !stream.send.reset(End::Reset(code)) {
            return Err(StreamError::Ended);
        }
        self.queue(id.0);
        Ok(())
    }

    pub(crate) fn stop(&mut self, id: StreamId, code: u32) -> Result<(), StreamError> {
        let stream = self.get(id)?;
        match stream.recv.state {
            ReadState::Open => {}
            ReadState::Reset(code) => return Err(StreamError::Reset(code)),
            ReadState::Finished | ReadState::Stopped(_) => return Err(StreamError::Ended),
        }
        // The peer has nothing left to reset if all of it is here.
        if !stream.recv.is_complete() {
            stream.recv.stop = FrameState::Due;
        }
        self.discard(id.0, ReadState::Stopped(code));
        self.queue(id.0);
        self.reap(id.0);
        Ok(())
    }

    pub(crate) fn read(&mut self, id: StreamId) -> Result<StreamRead, StreamError> {
        let (now, rtt) = (self.now, self.rtt);
        let recv = &mut self.get(id)?.recv;
        match recv.state {
            ReadState::Open => {}
            ReadState::Finished => return Ok(StreamRead::Finished),
            ReadState::Reset(code) => return Err(StreamError::Reset(code)),
            ReadState::Stopped(_) => return Err(StreamError::Ended),
        }
        let before = recv.pieces();
        let Some(bytes) = recv.read() else {
            recv.readable_reported = false;
            if !recv.is_at_end() {
                return Ok(StreamRead::Pending);
            }
            recv.state = ReadState::Finished;
            self.reap(id.0);
            return Ok(StreamRead::Finished);
        };
        recv.after_read(now, rtt);
        let (due, after) = (recv.window_due, recv.pieces());
        self.pieces = self.pieces + after - before;
        self.give_back(bytes.len() as u64);
        if due {
            self.queue(id.0);
        }
        Ok(StreamRead::Data(bytes))
    }

    /// Discards data of a stream's incoming half, held and to come.
    fn discard(&mut self, id: u32, state: ReadState) {
        let Some(stream) = self.table.get_mut(&id) else { return };
        self.pieces -= stream.recv.pieces();
        let given_back = stream.recv.discard(state);
        self.give_back(given_back);
    }

    /// Returns this many bytes to the link's window.
    fn give_back(&mut self, bytes: u64) {
        self.consumed += bytes;
        self.window_due |= self.window.on_consumed(self.consumed, self.now, self.rtt);
    }

    /// Bytes of new data that the link's window allows.
    fn link_room(&self) -> u64 {
        self.send_limit.saturating_sub(self.sent)
    }

    /// Queues a stream for sending if it has something to send.
    fn queue(&mut self, id: u32) {
        let room = self.link_room();
        if let Some(stream) = self.table.get_mut(&id)
            && !stream.queued
            && stream.has_work(room)
        {
            stream.queued = true;
            self.sendable.push_back(id);
        }
    }

    /// Forgets a stream of which both halves have ended.
    fn reap(&mut self, id: u32) {
        if self.table.get(&id).is_some_and(LinkStream::is_done) {
            self.table.remove(&id);
            let count = if self.is_ours(id) { &mut self.ours } else { &mut self.theirs };
            *count -= 1;
        }
    }

    /// Returns whether something waits to be sent, windows aside.
    fn has_work(&self) -> bool {
        !self.sendable.is_empty() || self.window_due
    }

    /// When [`Streams::on_timeout`], or a transmission, is due.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let send_at = self.has_work().then(|| self.recovery.send_at()).flatten();
        [self.acks.deadline(), self.recovery.next_timeout(), send_at].into_iter().flatten().min()
    }

    /// Begins anew on another path to the peer.
    pub(crate) fn on_new_path(&mut self, now: Duration) {
        self.now = now;
        self.recovery.on_new_path(now);
    }
}

impl LinkStream {
    fn has_work(&self, link_room: u64) -> bool {
        self.recv.window_due || self.recv.stop.is_due() || self.send.has_work(link_room)
    }

    /// Events of the incoming half that are due once the stream has been reported to the program.
    fn readable_event(&mut self, link: LinkId, id: u32) -> Option<LinkEvent> {
        let due = self.purpose.is_some() && !self.recv.readable_reported && self.recv.is_readable();
        self.recv.readable_reported |= due;
        due.then_some(LinkEvent::StreamReadable { link, stream: StreamId(id) })
    }
}
