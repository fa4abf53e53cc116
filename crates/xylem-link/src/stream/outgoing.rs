//! The half of a stream that this side writes.

use super::StreamError;
use super::buffer::SendBuffer;

/// A frame that must reach the peer: sent until it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum FrameState {
    #[default]
    NotDue,
    Due,
    Sent,
    Acked,
}

impl FrameState {
    pub(super) fn is_due(self) -> bool {
        self == FrameState::Due
    }

    pub(super) fn on_lost(&mut self) {
        if *self == FrameState::Sent {
            *self = FrameState::Due;
        }
    }

    pub(super) fn on_acked(&mut self) {
        if *self != FrameState::NotDue {
            *self = FrameState::Acked;
        }
    }
}

/// How the half ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Not ended yet.
    Open,
    /// Ends after all that was written.
    Finish,
    /// Reset at once by our program.
    Reset(u32),
    /// Reset at once because the peer stopped reading.
    Stopped(u32),
}

#[derive(Debug)]
pub(super) struct SendHalf {
    pub buffer: SendBuffer,
    /// The peer takes bytes below this.
    pub limit: u64,
    pub open: FrameState,
    pub close: FrameState,
    pub reset: FrameState,
    pub end: End,
    /// A write was cut short: the program gets an event when there is room again.
    pub writer_waits: bool,
    /// `StreamDelivered` has been reported.
    pub delivered: bool,
}

impl SendHalf {
    pub(super) fn new(limit: u64, open: FrameState) -> Self {
        Self {
            buffer: SendBuffer::default(),
            limit,
            open,
            close: FrameState::NotDue,
            reset: FrameState::NotDue,
            end: End::Open,
            writer_waits: false,
            delivered: false,
        }
    }

    /// Returns whether the program may write.
    pub(super) fn check_open(&self) -> Result<(), StreamError> {
        match self.end {
            End::Open => Ok(()),
            End::Finish => Err(StreamError::Ended),
            End::Reset(_) => Err(StreamError::Ended),
            End::Stopped(code) => Err(StreamError::Stopped(code)),
        }
    }

    pub(super) fn finish(&mut self) {
        self.end = End::Finish;
        self.close = FrameState::Due;
    }

    /// Ends the half at once. Returns false if there is nothing left to end.
    pub(super) fn reset(&mut self, end: End) -> bool {
        let over = matches!(self.end, End::Reset(_) | End::Stopped(_)) || self.is_done();
        if !over {
            self.end = end;
            self.close = FrameState::NotDue;
            self.reset = FrameState::Due;
            self.buffer.discard();
        }
        !over
    }

    /// Returns whether all that was written, and the end, have arrived.
    pub(super) fn is_delivered(&self) -> bool {
        self.end == End::Finish && self.close == FrameState::Acked && self.buffer.is_acked()
    }

    /// Returns whether the peer has confirmed the end and nothing is owed.
    pub(super) fn is_done(&self) -> bool {
        self.is_delivered() || self.reset == FrameState::Acked
    }

    /// Returns whether the close may go: everything before it has been sent at least once.
    pub(super) fn close_is_due(&self) -> bool {
        self.close.is_due() && self.buffer.unsent() == 0
    }

    /// Returns whether there is something to send; `link_room`: new bytes that the link's window allows.
    pub(super) fn has_work(&self, link_room: u64) -> bool {
        self.open.is_due()
            || self.reset.is_due()
            || self.buffer.has_lost()
            || self.close_is_due()
            || (link_room > 0 && self.buffer.sent() < self.buffer.end().min(self.limit))
    }
}
