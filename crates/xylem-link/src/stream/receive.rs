//! Processing of the peer's stream frames.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;

use super::incoming::ReadState;
use super::outgoing::{End, FrameState};
use super::recovery::{RecoveryOutcome, SentFrame};
use super::{
    INITIAL_STREAM_WINDOW, LinkStream, MAX_OFFSET, MAX_PIECES, MAX_REMEMBERED, MAX_STREAM_ID,
    MAX_STREAM_WINDOW, MAX_UNSENT, REFUSED, Streams, Violation,
};
use crate::event::{LinkEvent, StreamId};
use crate::frame::{Ack, Frame, WHOLE_LINK};
use crate::replay::ReplayWindow;

impl Streams {
    /// Records a datagram that asks for an acknowledgement.
    pub(crate) fn on_datagram(&mut self, now: Duration, number: u64, window: &ReplayWindow) {
        self.acks.on_datagram(now, number, window);
    }

    /// Records that a router marked the datagram instead of dropping it.
    pub(crate) fn on_mark(&mut self) {
        self.acks.on_mark();
    }

    /// Takes the link's measured round trip.
    pub(crate) fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    /// Takes a frame of a stream, a window update or a go away.
    pub(crate) fn on_frame(
        &mut self,
        now: Duration,
        frame: Frame<'_>,
        datagram: &Bytes,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Violation> {
        self.now = now;
        match frame {
            Frame::StreamOpen { stream, purpose } => self.on_open(stream, purpose, events)?,
            Frame::StreamData { stream, offset, piece } => {
                self.on_data(stream, offset, piece, datagram, events)?;
            }
            Frame::StreamClose { stream, size } => self.on_close(stream, size, events)?,
            Frame::StreamReset { stream, code, size } => {
                self.on_reset(stream, code, size, events)?;
            }
            Frame::StreamStop { stream, code } => self.on_stop(stream, code, events)?,
            Frame::WindowUpdate { stream, limit } => self.on_window(stream, limit)?,
            Frame::GoAway(_) => self.peer_went_away = true,
            _ => {}
        }
        Ok(())
    }

    /// The stream of a frame; `None` if it has ended. An unknown stream of the peer's is created if its id was not used
    /// before.
    fn known(&mut self, id: u32) -> Result<Option<&mut LinkStream>, Violation> {
        if !(1..=MAX_STREAM_ID).contains(&id) {
            return Err(Violation);
        }
        if self.is_ours(id) {
            if id >= self.next_ours {
                return Err(Violation);
            }
        } else {
            self.create_up_to(id)?;
        }
        Ok(self.table.get_mut(&id))
    }

    /// Creates the peer's streams up to this one: other frames may have overtaken the ones that open them.
    fn create_up_to(&mut self, id: u32) -> Result<(), Violation> {
        // Ids of one side are two apart, and `known` has bounded this one.
        let Some(beyond) = id.checked_sub(self.next_theirs) else { return Ok(()) };
        let new = beyond as usize / 2;
        if self.theirs.saturating_add(new) >= MAX_REMEMBERED {
            return Err(Violation);
        }
        while self.next_theirs <= id {
            let id = self.next_theirs;
            self.next_theirs = id.saturating_add(2);
            let stream = Self::new_stream(None, FrameState::NotDue);
            self.table.insert(id, stream);
            self.theirs = self.theirs.saturating_add(1);
            if self.theirs > self.settings.max_streams {
                self.refuse(id);
            }
        }
        Ok(())
    }

    fn refuse(&mut self, id: u32) {
        let Some(stream) = self.table.get_mut(&id) else { return };
        stream.refused = true;
        stream.send.reset(End::Reset(REFUSED));
        stream.recv.stop = FrameState::Due;
        self.discard(id, ReadState::Stopped(REFUSED));
        self.queue(id);
    }

    fn on_open(
        &mut self,
        id: u32,
        purpose: u16,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Violation> {
        if self.is_ours(id) {
            return Err(Violation);
        }
        let link = self.link;
        let Some(stream) = self.known(id)? else { return Ok(()) };
        match stream.purpose.replace(purpose) {
            Some(before) if before != purpose => return Err(Violation),
            Some(_) => return Ok(()),
            None => {}
        }
        if !stream.refused {
            let stream_id = StreamId(id);
            events.push_back(LinkEvent::StreamOpened { link, stream: stream_id, purpose });
            events.extend(stream.readable_event(link, id));
            if let ReadState::Reset(code) = stream.recv.state {
                events.push_back(LinkEvent::StreamReset { link, stream: stream_id, code });
            }
            if let End::Stopped(code) = stream.send.end {
                events.push_back(LinkEvent::StreamStopped { link, stream: stream_id, code });
            }
        }
        self.reap(id);
        Ok(())
    }

    /// Counts `grown` more bytes of the peer's streams against the link's window.
    fn grow(&mut self, grown: u64) -> Result<(), Violation> {
        self.received = self.received.saturating_add(grown);
        if self.received > self.window.limit() { Err(Violation) } else { Ok(()) }
    }

    fn on_data(
        &mut self,
        id: u32,
        offset: u64,
        piece: &[u8],
        datagram: &Bytes,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Violation> {
        let (link, pieces) = (self.link, self.pieces);
        let Some(stream) = self.known(id)? else { return Ok(()) };
        let (before, kept) = (stream.recv.pieces(), stream.recv.state == ReadState::Open);
        let grown = stream.recv.on_data(offset, piece, datagram, pieces)?;
        let after = stream.recv.pieces();
        events.extend(stream.readable_event(link, id));
        self.pieces = pieces.saturating_add(after).saturating_sub(before);
        if self.pieces > MAX_PIECES {
            return Err(Violation);
        }
        self.grow(grown)?;
        if !kept {
            self.give_back(grown);
        }
        Ok(())
    }

    fn on_close(
        &mut self,
        id: u32,
        size: u64,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Violation> {
        let link = self.link;
        let Some(stream) = self.known(id)? else { return Ok(()) };
        let grown = stream.recv.on_size(size)?;
        events.extend(stream.readable_event(link, id));
        let kept = stream.recv.state == ReadState::Open;
        self.grow(grown)?;
        if !kept {
            self.release_counted(id);
        }
        self.reap(id);
        Ok(())
    }

    /// Gives bytes back that were counted for a stream that is no longer read.
    fn release_counted(&mut self, id: u32) {
        let state = self.table.get(&id).map(|stream| stream.recv.state);
        if let Some(state) = state {
            self.discard(id, state);
        }
    }

    fn on_reset(
        &mut self,
        id: u32,
        code: u32,
        size: u64,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Violation> {
        let link = self.link;
        let Some(stream) = self.known(id)? else { return Ok(()) };
        // Data that has arrived completely, with its end, is not discarded.
        let whole = stream.recv.is_complete();
        let grown = stream.recv.on_size(size)?;
        let open = stream.recv.state == ReadState::Open;
        let cut = open && !whole;
        if cut && stream.purpose.is_some() {
            events.push_back(LinkEvent::StreamReset { link, stream: StreamId(id), code });
        } else {
            events.extend(stream.readable_event(link, id));
        }
        self.grow(grown)?;
        if cut {
            self.discard(id, ReadState::Reset(code));
        } else if !open {
            self.release_counted(id);
        }
        self.reap(id);
        Ok(())
    }

    fn on_stop(
        &mut self,
        id: u32,
        code: u32,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Violation> {
        let link = self.link;
        let Some(stream) = self.known(id)? else { return Ok(()) };
        if stream.send.reset(End::Stopped(code)) {
            if stream.purpose.is_some() {
                events.push_back(LinkEvent::StreamStopped { link, stream: StreamId(id), code });
            }
            self.queue(id);
        }
        Ok(())
    }

    fn on_window(&mut self, id: u32, limit: u64) -> Result<(), Violation> {
        // A limit below the initial window is never valid; one below the last limit came late.
        if !(INITIAL_STREAM_WINDOW..=MAX_OFFSET).contains(&limit) {
            return Err(Violation);
        }
        if id == WHOLE_LINK {
            self.send_limit = self.send_limit.max(limit);
            let all: Vec<u32> = self.table.keys().copied().collect();
            all.into_iter().for_each(|id| self.queue(id));
            return Ok(());
        }
        let Some(stream) = self.known(id)? else { return Ok(()) };
        stream.send.limit = stream.send.limit.max(limit);
        self.queue(id);
        Ok(())
    }

    /// Takes an acknowledgement. `next`: one above the last number that we used. Returns the smoothed round trip if it
    /// was measured.
    pub(crate) fn on_ack(
        &mut self,
        now: Duration,
        ack: &Ack<'_>,
        next: u64,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<Option<Duration>, Violation> {
        if ack.largest >= next {
            return Err(Violation);
        }
        self.now = now;
        let mut outcome = RecoveryOutcome::default();
        let rtt = self.recovery.on_ack(now, ack, &mut outcome);
        self.settle(&outcome, events);
        Ok(rtt)
    }

    /// Runs the timers that are due.
    pub(crate) fn on_timeout(&mut self, now: Duration) {
        self.now = now;
        let mut outcome = RecoveryOutcome::default();
        self.recovery.on_timeout(now, &mut outcome);
        debug_assert!(outcome.acked.is_empty(), "time acknowledges nothing");
        self.settle(&outcome, &mut VecDeque::new());
        // A probe needs frames that ask for an acknowledgement. There may be none left to repeat, although the last
        // acknowledgement was lost. A window update may be sent at any time.
        self.window_due |= self.recovery.is_probing() && !self.has_work();
    }

    /// Probe timeouts in a row: nothing that was sent has been acknowledged since.
    pub(crate) fn timeouts(&self) -> u32 {
        self.recovery.backoff()
    }

    fn settle(&mut self, outcome: &RecoveryOutcome, events: &mut VecDeque<LinkEvent>) {
        for frame in outcome.acked.iter().flat_map(|frames| frames.iter()) {
            self.on_acked(frame, events);
        }
        for frame in outcome.lost.iter().flat_map(|frames| frames.iter()) {
            self.on_lost(frame);
        }
    }

    fn on_acked(&mut self, frame: SentFrame, events: &mut VecDeque<LinkEvent>) {
        let link = self.link;
        let id = match frame {
            SentFrame::Open(id)
            | SentFrame::Close(id)
            | SentFrame::Reset(id)
            | SentFrame::Stop(id)
            | SentFrame::Data { stream: id, .. } => id,
            SentFrame::Window { .. } | SentFrame::LinkWindow(_) => return,
        };
        let Some(stream) = self.table.get_mut(&id) else { return };
        let send = &mut stream.send;
        match frame {
            SentFrame::Open(_) => send.open.on_acked(),
            SentFrame::Close(_) => send.close.on_acked(),
            SentFrame::Reset(_) => send.reset.on_acked(),
            SentFrame::Stop(_) => stream.recv.stop.on_acked(),
            SentFrame::Data { start, end, .. } => {
                send.buffer.on_acked(start, end);
                let half = send.buffer.unsent() <= MAX_UNSENT / 2
                    && send.buffer.held() <= MAX_STREAM_WINDOW / 2;
                if send.writer_waits && half && send.end == End::Open {
                    send.writer_waits = false;
                    events.push_back(LinkEvent::StreamWritable { link, stream: StreamId(id) });
                }
            }
            SentFrame::Window { .. } | SentFrame::LinkWindow(_) => {}
        }
        if send.is_delivered() && !send.delivered {
            send.delivered = true;
            events.push_back(LinkEvent::StreamDelivered { link, stream: StreamId(id) });
        }
        if send.is_done() {
            self.reap(id);
        }
    }

    fn on_lost(&mut self, frame: SentFrame) {
        let id = match frame {
            // A later update supersedes the lost one.
            SentFrame::LinkWindow(limit) => {
                self.window_due |= limit == self.window.limit();
                return;
            }
            SentFrame::Open(id)
            | SentFrame::Close(id)
            | SentFrame::Reset(id)
            | SentFrame::Stop(id)
            | SentFrame::Window { stream: id, .. }
            | SentFrame::Data { stream: id, .. } => id,
        };
        let Some(stream) = self.table.get_mut(&id) else { return };
        match frame {
            SentFrame::Open(_) => stream.send.open.on_lost(),
            SentFrame::Close(_) => stream.send.close.on_lost(),
            SentFrame::Reset(_) => stream.send.reset.on_lost(),
            SentFrame::Stop(_) => stream.recv.stop.on_lost(),
            SentFrame::Window { limit, .. } => {
                let last = limit == stream.recv.window.limit();
                stream.recv.window_due |= last && stream.recv.wants_more();
            }
            SentFrame::Data { start, end, .. } if stream.send.reset == FrameState::NotDue => {
                stream.send.buffer.on_lost(start, end);
            }
            _ => {}
        }
        self.queue(id);
    }
}
