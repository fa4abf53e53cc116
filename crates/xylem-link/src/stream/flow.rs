//! Flow control windows: how far the peer may send, for a stream or the whole link.
//!
//! A window begins small and is doubled, up to a limit, each time half of it has been used up within two round trips:
//! then it was the window that held the sender back.

use core::time::Duration;

/// Shortest round trip assumed: programs read in turns, and a processor that is busy for a while must not leave the
/// window shut.
const MIN_ROUND_TRIP: Duration = Duration::from_millis(5);

/// The receiver's side of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowWindow {
    limit: u64,
    size: u64,
    max: u64,
    /// When the limit was last moved.
    moved: Option<Duration>,
}

impl FlowWindow {
    pub(super) fn new(size: u64, max: u64) -> Self {
        Self { limit: size, size, max: max.max(size), moved: None }
    }

    /// The peer may send bytes below this.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Records that `consumed` bytes in all have been read or discarded. Returns whether the limit has moved, which the
    /// peer must learn.
    pub(super) fn on_consumed(&mut self, consumed: u64, now: Duration, rtt: Duration) -> bool {
        if consumed + self.size < self.limit + self.size / 2 {
            return false;
        }
        let quick = 2 * rtt.max(MIN_ROUND_TRIP);
        if self.moved.is_none_or(|moved| now.saturating_sub(moved) <= quick) {
            self.size = (self.size * 2).min(self.max);
        }
        self.moved = Some(now);
        self.limit = consumed + self.size;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_window_grows_while_it_holds_the_sender_back() {
        let mut window = FlowWindow::new(1_000, 16_000);
        assert!(!window.on_consumed(499, ms(0), ms(100)), "told in halves");
        assert!(window.on_consumed(500, ms(0), ms(100)));
        assert_eq!(window.limit(), 500 + 2_000);
        assert!(window.on_consumed(1_500, ms(150), ms(100)));
        assert_eq!(window.limit(), 1_500 + 4_000, "within two round trips");
        assert!(window.on_consumed(3_500, ms(900), ms(100)));
        assert_eq!(window.limit(), 3_500 + 4_000, "the program is what is slow");
        let mut consumed = 3_500;
        for n in 0..10 {
            consumed = window.limit();
            assert!(window.on_consumed(consumed, ms(901 + n), ms(100)));
        }
        assert_eq!(window.limit(), consumed + 16_000, "up to the limit");
    }
}
