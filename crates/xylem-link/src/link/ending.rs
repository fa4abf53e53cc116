//! [`LinkEnding`]: why a link has ended, and the closes that this side still answers with.

use core::time::Duration;

use crate::event::CloseReason;
use crate::frame::{CLOSE_NORMAL, CLOSE_PROTOCOL};

/// How long a closed link still answers datagrams with a close.
const LINGER: Duration = Duration::from_secs(1);
/// Most closes sent for one link.
const MAX_CLOSES: u8 = 8;

/// A close that this side has begun.
#[derive(Debug)]
struct Closing {
    code: u8,
    /// Until when it is sent; `None` before the first.
    until: Option<Duration>,
    due: bool,
    left: u8,
}

/// See the module's documentation.
#[derive(Default, Debug)]
pub(super) struct LinkEnding {
    closing: Option<Closing>,
    ended: Option<CloseReason>,
}

impl LinkEnding {
    /// Ends the link; the last reason counts.
    pub(super) fn end(&mut self, reason: CloseReason) {
        self.ended = Some(reason);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes the reason, once the link has ended.
    pub(super) fn take(&mut self) -> Option<CloseReason> {
        self.ended.take()
    }

    /// Begins to send closes.
    pub(super) fn close(&mut self, reason: CloseReason) {
        let code =
            if reason == CloseReason::PeerMisbehaved { CLOSE_PROTOCOL } else { CLOSE_NORMAL };
        self.closing.get_or_insert(Closing { code, until: None, due: true, left: MAX_CLOSES });
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Handles a datagram of the peer: it has not received the close yet. Returns whether there was one.
    pub(super) fn answer(&mut self) -> bool {
        self.closing.as_mut().map(|closing| closing.due = true).is_some()
    }

    /// The code of the close that is to be sent now.
    pub(super) fn poll(&mut self, now: Duration) -> Option<u8> {
        let closing = self.closing.as_mut()?;
        closing.until.get_or_insert(now + LINGER);
        if !closing.due || closing.left == 0 {
            return None;
        }
        closing.due = false;
        closing.left -= 1;
        Some(closing.code)
    }

    /// When a closing link is over.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.closing.as_ref()?.until
    }

    /// Ends a closing link after its time.
    pub(super) fn handle_timeout(&mut self, now: Duration) {
        if self.next_timeout().is_some_and(|until| now >= until) {
            self.end(CloseReason::Local);
        }
    }
}
