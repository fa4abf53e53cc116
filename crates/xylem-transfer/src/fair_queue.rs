//! Start-time fair queueing (Goyal, Vin, Cheng 1996): every source with room is asked, in proportion to its rate.
//!
//! A source keeps its turn for a burst, so that Interests for one datagram's worth of Data travel together. Then comes
//! the source that has been asked for least, measured in the time that it needs to send that. While windows limit a
//! transfer, all of them are full and turns decide nothing. Under a rate limit, or with a slow reader, turns decide
//! which source serves.

/// Bytes that one source is asked for in a turn: a datagram's worth of Interests on a fast path.
const BURST: u64 = 65_536;

/// Which source has the turn. Sources are numbered by their places in the caller's table.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// By place: how much the source was asked for, in nanoseconds of its own sending time.
    served: Vec<u64>,
    current: usize,
    /// Bytes asked for in this turn.
    bytes: u64,
    /// Virtual start time of the last turn. Sources start at it at the earliest, so that unused time is not saved up.
    floor: u64,
}

impl FairQueue {
    /// Adds a source, at the place after the last.
    pub(crate) fn push(&mut self) {
        self.served.push(0);
    }

    /// Removes the source at this place. The last one moves there.
    pub(crate) fn swap_remove(&mut self, place: usize) {
        self.served.swap_remove(place);
        (self.current, self.bytes) = (0, 0);
    }

    /// The place of the source that has the turn.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Records `bytes` used in this turn.
    #[inline]
    pub(crate) fn on_used(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Whether the burst is over and another source might be next.
    #[inline]
    pub(crate) fn is_burst_over(&self) -> bool {
        self.bytes >= BURST && self.served.len() > 1
    }

    /// Ends the turn and passes it to the least served of the `able` sources. Without one, the current source keeps it.
    /// `rate`: bytes a second that the source can send.
    pub(crate) fn pass(
        &mut self,
        rate: impl FnOnce(usize) -> u64,
        mut able: impl FnMut(usize) -> bool,
    ) {
        self.end(rate);
        let able = self.served.iter().enumerate().filter(|(place, _)| able(*place));
        if let Some((_, place)) = able.map(|(place, served)| (*served, place)).min() {
            self.begin(place);
        }
    }

    /// Passes the turn to the next place because the current source has no room or no work.
    pub(crate) fn skip(&mut self, rate: impl FnOnce(usize) -> u64) {
        self.end(rate);
        self.begin((self.current + 1) % self.served.len());
    }

    fn end(&mut self, rate: impl FnOnce(usize) -> u64) {
        let bytes = core::mem::take(&mut self.bytes);
        if let Some(served) = self.served.get_mut(self.current).filter(|_| bytes > 0) {
            let nanoseconds = bytes.saturating_mul(1_000_000_000) / rate(self.current).max(1);
            *served = served.saturating_add(nanoseconds);
        }
    }

    fn begin(&mut self, place: usize) {
        self.current = place;
        self.floor = self.floor.max(self.served[place]);
        self.served[place] = self.floor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts that each of three sources is asked for out of 900, at rates of 1, 2 and 6 MB/s.
    fn shares(able: impl Fn(usize, usize) -> bool) -> [u64; 3] {
        let rate = |place: usize| [1_000_000, 2_000_000, 6_000_000][place];
        let mut queue = FairQueue::default();
        (0..3).for_each(|_| queue.push());
        let mut bytes = [0; 3];
        for round in 0..900 {
            while !queue.is_burst_over() {
                bytes[queue.current()] += 8_192;
                queue.on_used(8_192);
            }
            queue.pass(rate, |place| able(round, place));
        }
        bytes.map(|bytes| bytes / BURST)
    }

    #[test]
    fn sources_are_asked_in_proportion_to_their_rates() {
        let [a, b, c] = shares(|_, _| true);
        assert!(a.abs_diff(100) < 3 && b.abs_diff(200) < 3 && c.abs_diff(600) < 3, "{a} {b} {c}");
    }

    #[test]
    fn time_without_work_is_not_saved_up() {
        let [_, _, c] = shares(|round, place| place != 2 || round >= 450);
        assert!(c.abs_diff(300) < 5, "{c}");
    }

    #[test]
    fn a_source_without_work_is_skipped() {
        let mut queue = FairQueue::default();
        (0..3).for_each(|_| queue.push());
        queue.on_used(1);
        queue.skip(|_| 1);
        assert_eq!(queue.current(), 1);
        queue.skip(|_| panic!("nothing was used"));
        queue.skip(|_| panic!("nothing was used"));
        assert_eq!(queue.current(), 0);
        queue.swap_remove(0);
        assert!(!queue.is_burst_over());
    }
}
