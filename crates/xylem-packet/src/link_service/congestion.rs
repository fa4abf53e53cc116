//! Decides when to mark packets as congested. It uses the rule by which CoDel drops packets (RFC 8289, section 5.3):
//! the time for which the queue has been long. NFD decides in the same way.

use core::time::Duration;

/// State of the congestions of one face.
#[derive(Debug, Clone, Default)]
pub(super) struct CongestionMarker {
    /// Number of marks in this congestion.
    marked: u32,
    /// Time at which the next packet is marked, after the first mark.
    next: Duration,
    /// Time at which the last packet was marked, in this congestion or an earlier one.
    last: Option<Duration>,
}

impl CongestionMarker {
    /// Returns whether the packet that is being sent is to be marked. `queued` bytes wait before it.
    #[inline]
    pub(super) fn mark(
        &mut self,
        now: Duration,
        queued: usize,
        threshold: usize,
        interval: Duration,
    ) -> bool {
        if queued <= threshold {
            self.marked = 0;
            return false;
        }
        let due = match self.marked {
            // At most one mark an interval, however often the queue grows and shrinks.
            0 => self.last.is_none_or(|last| now >= last.saturating_add(interval)),
            _ => now >= self.next,
        };
        if !due {
            return false;
        }
        if self.marked == 0 {
            self.next = now;
        }
        self.marked = self.marked.saturating_add(1);
        self.next = self.next.saturating_add(gap(interval, self.marked));
        self.last = Some(now);
        true
    }
}

/// `interval / sqrt(n)` in integers: the root of n · 2^20 is the root of n times 2^10.
fn gap(interval: Duration, n: u32) -> Duration {
    let root = (u64::from(n) << 20).isqrt();
    let nanos = interval.as_nanos().saturating_mul(1 << 10) / u128::from(root.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn gaps_shrink_with_the_square_root() {
        assert_eq!(gap(INTERVAL, 1), INTERVAL);
        assert_eq!(gap(INTERVAL, 4), INTERVAL / 2);
        assert_eq!(gap(INTERVAL, 100), INTERVAL / 10);
        let two = gap(INTERVAL, 2).as_micros();
        assert!((70_700..=70_720).contains(&two), "{two}");
        assert!(gap(INTERVAL, u32::MAX) > Duration::ZERO);
    }

    #[test]
    fn marks_follow_the_queue() {
        let mut marker = CongestionMarker::default();
        let mut mark = |at: u64, queued| marker.mark(ms(at), queued, 1000, INTERVAL);
        assert!(!mark(0, 1000), "the threshold itself is not over it");
        // Packets every millisecond through a long queue: 0, 100, 100 + 71, then + 58, ...
        let marked: Vec<u64> = (0..400).filter(|at| mark(*at, 1001)).collect();
        assert_eq!(marked, [0, 100, 171, 229, 279, 324, 365]);
        // It ends, and begins again at once: at most one mark an interval.
        assert!(!mark(400, 10));
        assert!(!mark(401, 5000));
        assert!(!mark(464, 5000) && mark(465, 5000));
        assert!(!mark(564, 5000) && mark(565, 5000));
    }
}
