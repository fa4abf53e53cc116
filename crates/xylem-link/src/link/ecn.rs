//! Counts the marks of received datagrams (ECN), and decides whether datagrams leave as ECN-capable. Some paths drop such datagrams, so one ping is sent as ECN-capable
//! first, and the others follow once it has been answered.

/// Pings sent as ECN-capable before the path is assumed to drop such datagrams.
const TRIES: u8 = 3;
/// Probe timeouts of streams in a row that turn ECN off.
const MAX_TIMEOUTS: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct EcnState {
    wanted: bool,
    on: bool,
    tries: u8,
    /// Token of the last ping that was sent as ECN-capable.
    asked: Option<u64>,
    /// Received datagrams that a router had marked, modulo 2^32.
    marked: u32,
}

impl EcnState {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, on: false, tries: if wanted { TRIES } else { 0 }, asked: None, marked: 0 }
    }

    /// Begins again on a new path. Returns whether a ping is needed.
    pub(super) fn on_new_path(&mut self) -> bool {
        *self = Self { marked: self.marked, ..Self::new(self.wanted) };
        self.wanted
    }

    /// Records a received datagram, and whether a router had marked it.
    #[inline]
    pub(super) fn on_datagram(&mut self, marked: bool) {
        self.marked = self.marked.wrapping_add(marked.into());
    }

    /// Received datagrams that a router had marked, modulo 2^32.
    pub(super) fn marked(&self) -> u32 {
        self.marked
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Returns whether the next ping is to be sent as ECN-capable.
    pub(super) fn wants_probe(&self) -> bool {
        !self.on && self.tries > 0
    }

    /// Records a sent ping, ECN-capable if that was wanted.
    pub(super) fn on_ping(&mut self, token: u64) {
        if self.wants_probe() {
            self.tries -= 1;
            self.asked = Some(token);
        }
    }

    /// Records an answer to a ping of ours.
    pub(super) fn on_pong(&mut self, token: u64) {
        self.on |= self.asked == Some(token);
    }

    /// Handles `count` probe timeouts in a row: perhaps the path has begun to drop such datagrams.
    pub(super) fn on_timeouts(&mut self, count: u32) {
        if self.on && count >= MAX_TIMEOUTS {
            (self.on, self.tries) = (false, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_is_on_after_an_answered_probe_and_off_after_timeouts() {
        let mut ecn = EcnState::new(true);
        assert!(!ecn.is_on() && ecn.wants_probe());
        ecn.on_ping(1);
        ecn.on_pong(2);
        assert!(!ecn.is_on());
        ecn.on_pong(1);
        assert!(ecn.is_on() && !ecn.wants_probe());
        ecn.on_timeouts(MAX_TIMEOUTS);
        assert!(!ecn.is_on() && !ecn.wants_probe());
        assert!(ecn.on_new_path() && ecn.wants_probe());
        for token in 0..u64::from(TRIES) {
            assert!(ecn.wants_probe());
            ecn.on_ping(token);
        }
        assert!(!ecn.wants_probe(), "the link must live where such datagrams are dropped");
        assert!(!EcnState::new(false).on_new_path());
    }
}
