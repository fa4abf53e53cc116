//! NDNLPv2 reliability: numbered transmissions, acknowledgements, retransmission of lost frames.
//!
//! Every transmission of a frame has its own TxSequence, one above the last, which is also its number in the loss
//! detector. So an acknowledgement finds its frame by subtraction, and lost frames are at the queue's front.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use xylem_congestion::{LossDetector, LossRule, Rtt, SendRecord, TimeoutLimits};

use super::{LinkServiceConfig, LinkServiceCounters};

/// Time to wait for an acknowledgement (RFC 6298). Delays of links are not measured exactly enough for less than 200 ms
/// (NFD's limit too). After 20 s an Interest has long been given up.
const TIMEOUT: TimeoutLimits = TimeoutLimits {
    least: Duration::from_millis(200),
    most: Duration::from_secs(20),
    doublings: 7,
    ack_delay: Duration::ZERO,
};

/// Buffers of acknowledged frames that are kept for reuse.
const MAX_SPARE: usize = 64;

/// A frame without an acknowledgement yet.
#[derive(Debug, Clone)]
struct Unacknowledged {
    frame: Vec<u8>,
    /// Offset of the eight octets of its TxSequence in the frame.
    number_at: usize,
    /// Sequence of the packet's first fragment, common to all of the packet's frames.
    message: u64,
    sent_at: Duration,
    repeated: u8,
}

impl SendRecord for Unacknowledged {
    fn sent_at(&self) -> Duration {
        self.sent_at
    }

    fn bytes(&self) -> usize {
        self.frame.len()
    }
}

/// The sending side.
#[derive(Debug, Clone)]
pub(super) struct AckSender {
    /// By TxSequence. Three later acknowledgements prove a loss (NFD counts acknowledgements too, up to the same
    /// number). Time after a later acknowledgement proves none: the other side may delay the acknowledgements of
    /// neighbouring frames for longer than a reordering window, each until a packet has room for it. So all other
    /// frames wait for their retransmission timeout, and there are no probes.
    frames: LossDetector<Unacknowledged>,
    rtt: Rtt,
    /// Number of timeouts since the last acknowledgement. Every transmission has its own number, so it is known which
    /// one was acknowledged; Karn's rule (RFC 6298 section 3) is not needed.
    backoff: u32,
    spare: Vec<Vec<u8>>,
}

impl Default for AckSender {
    fn default() -> Self {
        let frames = LossDetector::new(LossRule::Packets);
        AckSender { frames, rtt: Rtt::default(), backoff: 0, spare: Vec::new() }
    }
}

impl AckSender {
    /// Drops outstanding frames and measurements of the link; numbers continue.
    pub(super) fn clear(&mut self) {
        while self.frames.take_oldest().is_some() {}
        (self.rtt, self.backoff) = (Rtt::default(), 0);
        self.spare = Vec::new();
    }

    /// The number of the next transmission.
    pub(super) fn next_number(&self) -> u64 {
        self.frames.next_number()
    }

    /// Returns whether `frames` more frames with `bytes` bytes in total may be outstanding.
    pub(super) fn has_room(&self, frames: usize, bytes: usize, config: &LinkServiceConfig) -> bool {
        self.frames.span().saturating_add(frames) <= config.max_unacknowledged
            && self.frames.bytes().saturating_add(bytes) <= config.max_unacknowledged_bytes
    }

    /// An empty buffer for [`Self::sent`].
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Records transmission [`Self::next_number`].
    pub(super) fn sent(&mut self, now: Duration, message: u64, frame: Vec<u8>, number_at: usize) {
        let frame = Unacknowledged { frame, number_at, message, sent_at: now, repeated: 0 };
        self.frames.on_sent(frame);
    }

    /// Handles the acknowledgement of transmission `number`. Returns whether it was outstanding.
    pub(super) fn acknowledged(&mut self, now: Duration, number: u64) -> bool {
        let Some(frame) = self.frames.remove(number) else { return false };
        self.frames.on_arrival(number);
        self.rtt.sample(now.saturating_sub(frame.sent_at), Duration::ZERO);
        self.backoff = 0;
        self.reuse(frame);
        true
    }

    fn reuse(&mut self, frame: Unacknowledged) {
        if self.spare.len() < MAX_SPARE {
            let mut buffer = frame.frame;
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Current time to wait for an acknowledgement.
    pub(super) fn timeout(&self) -> Duration {
        self.rtt.timeout(&TIMEOUT, self.backoff)
    }

    /// Time at which [`Self::handle_timeout`] is due; zero for at once.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let oldest = self.frames.oldest()?;
        let timeout = || oldest.sent_at.saturating_add(self.timeout());
        Some(self.frames.loss_due(&self.rtt).unwrap_or_else(timeout))
    }

    /// Removes the oldest frame if it has waited for `timeout`.
    fn take_timed_out(&mut self, now: Duration, timeout: Duration) -> Option<Unacknowledged> {
        let oldest = self.frames.oldest()?;
        (now >= oldest.sent_at.saturating_add(timeout))
            .then(|| self.frames.take_oldest())
            .flatten()
            .map(|(_, frame)| frame)
    }

    /// Retransmits lost frames, and gives up packets with frames that were sent too often. `emit` is called with each
    /// frame.
    pub(super) fn handle_timeout(
        &mut self,
        now: Duration,
        most: u8,
        counters: &mut LinkServiceCounters,
        emit: &mut dyn FnMut(&[u8]),
    ) {
        let timeout = self.timeout();
        let mut timed_out = false;
        // Retransmissions get numbers from here on, so that the loop ends before them.
        let end = self.next_number();
        while self.frames.first() < end {
            let lost = self.frames.take_lost(now, &self.rtt).map(|(_, frame)| frame);
            let timed = lost.is_none();
            let Some(mut frame) = lost.or_else(|| self.take_timed_out(now, timeout)) else { break };
            timed_out |= timed;
            if frame.repeated >= most {
                counters.lost += 1;
                self.give_up(frame.message);
                self.reuse(frame);
                continue;
            }
            frame.repeated += 1;
            frame.sent_at = now;
            let place = frame.number_at..frame.number_at + 8;
            if let Some(octets) = frame.frame.get_mut(place) {
                octets.copy_from_slice(&self.next_number().to_be_bytes());
            }
            emit(&frame.frame);
            counters.retransmitted += 1;
            self.frames.on_sent(frame);
        }
        if timed_out {
            self.backoff = self.backoff.saturating_add(1);
        }
    }

    /// Drops all frames of a packet: without the lost one they are useless.
    fn give_up(&mut self, message: u64) {
        for number in self.frames.first()..self.next_number() {
            if self.frames.get(number).is_some_and(|frame| frame.message == message)
                && let Some(frame) = self.frames.remove(number)
            {
                self.reuse(frame);
            }
        }
    }

    /// Number and bytes of outstanding frames.
    pub(super) fn outstanding(&self) -> (usize, usize) {
        (self.frames.count(), self.frames.bytes())
    }
}

/// The receiving side: acknowledgements to send, and Sequences received recently.
#[derive(Debug, Clone, Default)]
pub(super) struct AckReceiver {
    waiting: VecDeque<u64>,
    /// Arrival time of the first of `waiting`.
    since: Duration,
    recent: Option<Box<RecentSequences>>,
}

impl AckReceiver {
    /// Queues the acknowledgement of transmission `number`.
    pub(super) fn acknowledge(&mut self, now: Duration, number: u64, most: usize) {
        if self.waiting.is_empty() {
            self.since = now;
        }
        while self.waiting.len() >= most.max(1) {
            self.waiting.pop_front();
        }
        self.waiting.push_back(number);
    }

    /// Moves up to `most` acknowledgements to the end of `out`.
    pub(super) fn take(&mut self, most: usize, out: &mut Vec<u64>) {
        let most = most.min(self.waiting.len());
        out.extend(self.waiting.drain(..most));
    }

    /// Time at which the acknowledgements have waited for `delay`.
    pub(super) fn deadline(&self, delay: Duration) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| self.since.saturating_add(delay))
    }

    /// Returns whether fragment `sequence` has been received before; `number` is its TxSequence.
    pub(super) fn is_duplicate(&mut self, now: Duration, sequence: u64, number: u64) -> bool {
        self.recent.get_or_insert_with(Box::default).is_duplicate(now, sequence, number)
    }
}

/// Number of Sequences that `RecentSequences` remembers.
const WINDOW: u64 = 4096;
/// A sender that was silent for this long and then uses an old TxSequence has restarted. A retransmission would have a
/// new one, and no link delivers a duplicate so late.
const RESTART_SILENCE: Duration = Duration::from_secs(1);
/// After this many Sequences in a row from before the window the sender is taken to have restarted.
const STALE_BEFORE_RESTART: u32 = 16;

/// The received Sequences among the last [`WINDOW`].
#[derive(Debug, Clone)]
struct RecentSequences {
    /// One above the largest Sequence; the window ends here.
    end: u64,
    seen: [u64; WINDOW as usize / 64],
    /// Arrival time of the last frame. Next: the largest TxSequence so far.
    last: Duration,
    largest_number: u64,
    stale: u32,
    started: bool,
}

impl Default for RecentSequences {
    fn default() -> Self {
        let seen = [0; WINDOW as usize / 64];
        let last = Duration::ZERO;
        RecentSequences { end: 0, seen, last, largest_number: 0, stale: 0, started: false }
    }
}

impl RecentSequences {
    fn is_duplicate(&mut self, now: Duration, sequence: u64, number: u64) -> bool {
        let silent =
            now.saturating_sub(self.last) > RESTART_SILENCE && number <= self.largest_number;
        self.last = now;
        let behind = self.end.wrapping_sub(1).wrapping_sub(sequence);
        // Numbers wrap around: a number less than half of their range ahead is ahead.
        let ahead = sequence.wrapping_sub(self.end);
        if !self.started || silent || (ahead >= 1 << 63 && self.stale >= STALE_BEFORE_RESTART) {
            self.restart(sequence, number);
            return false;
        }
        self.largest_number = self.largest_number.max(number);
        if ahead < 1 << 63 {
            self.advance(ahead.saturating_add(1));
        } else if behind >= WINDOW {
            // Too old to be remembered. Accepting it is safe: a duplicate costs only work.
            self.stale += 1;
            return false;
        }
        self.stale = 0;
        let (word, bit) = place(sequence);
        let seen = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        seen
    }

    fn restart(&mut self, sequence: u64, number: u64) {
        self.seen = [0; WINDOW as usize / 64];
        self.end = sequence.wrapping_add(1);
        (self.stale, self.started, self.largest_number) = (0, true, number);
        let (word, bit) = place(sequence);
        self.seen[word] |= bit;
    }

    /// Moves the window's end by `by` and clears what falls out of it.
    fn advance(&mut self, by: u64) {
        if by >= WINDOW {
            self.seen = [0; WINDOW as usize / 64];
        } else {
            for n in 0..by {
                let (word, bit) = place(self.end.wrapping_add(n));
                self.seen[word] &= !bit;
            }
        }
        self.end = self.end.wrapping_add(by);
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let at = sequence % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn duplicates_are_detected_within_the_window() {
        let mut recent = RecentSequences::default();
        let start = u64::MAX - 5; // wraps around
        for n in 0..100 {
            assert!(!recent.is_duplicate(ms(n), start.wrapping_add(n), n));
            assert!(recent.is_duplicate(ms(n), start.wrapping_add(n), n));
        }
        // Ahead by less than the window: the numbers between are new, the earlier ones are still known.
        assert!(!recent.is_duplicate(ms(100), start.wrapping_add(1000), 200));
        assert!(!recent.is_duplicate(ms(100), start.wrapping_add(500), 201));
        assert!(recent.is_duplicate(ms(100), start.wrapping_add(99), 202));
        // Ahead by more: all earlier ones are forgotten.
        assert!(!recent.is_duplicate(ms(100), start.wrapping_add(10_000), 300));
        assert!(!recent.is_duplicate(ms(100), start.wrapping_add(99), 301));
    }

    #[test]
    fn a_restarted_sender_is_noticed() {
        let mut recent = RecentSequences::default();
        for n in 0..100 {
            assert!(!recent.is_duplicate(ms(n), n, n));
        }
        // A late retransmission has a new number, a restarted sender an old one.
        assert!(recent.is_duplicate(ms(5000), 7, 100));
        assert!(!recent.is_duplicate(ms(10_000), 7, 0));
        assert!(!recent.is_duplicate(ms(10_000), 8, 1));
        // A sender that restarts far behind, without a pause.
        assert!(!recent.is_duplicate(ms(10_001), 1 << 40, 2));
        for n in 0..=u64::from(STALE_BEFORE_RESTART) {
            assert!(!recent.is_duplicate(ms(10_002), n, 3 + n));
        }
        assert!(recent.is_duplicate(ms(10_003), u64::from(STALE_BEFORE_RESTART), 50));
    }

    #[test]
    fn frames_overtaken_by_three_are_retransmitted_then_given_up() {
        let mut sender = AckSender::default();
        let mut counters = LinkServiceCounters::default();
        for n in 0..5 {
            let frame = sender.buffer();
            sender.sent(ms(0), n, [&frame[..], &[0xEE; 10]].concat(), 1);
        }
        assert_eq!(sender.deadline(), Some(ms(1000)));
        // 0 is missing: the acknowledgements of 1 and 2 prove no loss yet, that of 3 does.
        assert!(sender.acknowledged(ms(10), 1) && sender.acknowledged(ms(10), 2));
        assert!(!sender.acknowledged(ms(10), 2), "twice");
        assert!(!sender.acknowledged(ms(10), 99), "never sent");
        assert_eq!(sender.deadline(), Some(ms(200)));
        assert!(sender.acknowledged(ms(10), 3));
        assert_eq!(sender.deadline(), Some(Duration::ZERO));
        let mut sent = Vec::new();
        sender.handle_timeout(ms(10), 1, &mut counters, &mut |frame| sent.push(frame.to_vec()));
        // Retransmitted as number 5.
        assert_eq!(sent, [[0xEE, 0, 0, 0, 0, 0, 0, 0, 5, 0xEE]]);
        assert_eq!((counters.retransmitted, counters.lost), (1, 0));
        assert_eq!(sender.outstanding(), (2, 20));
        // 4 times out first, then the retransmission of 0, which is given up.
        assert_eq!(sender.deadline(), Some(ms(200)));
        sender.handle_timeout(ms(210), 1, &mut counters, &mut |_| {});
        assert_eq!((counters.retransmitted, counters.lost), (2, 1));
        assert_eq!(sender.outstanding(), (1, 10));
        assert_eq!(sender.deadline(), Some(ms(210 + 400)), "backed off");
        sender.handle_timeout(ms(10_000), 1, &mut counters, &mut |_| {});
        assert_eq!((sender.outstanding(), sender.deadline()), ((0, 0), None));
        assert_eq!(counters.lost, 2);
    }
}
