//! Repair: fragments of a lost datagram are sent again, within about a round trip. Without it a packet in six datagrams
//! would be lost six times as often as one datagram.
//!
//! A datagram with fragments (`Frame::Fragment`) is kept until the peer acknowledges it, and counts as lost by the
//! rules for stream datagrams (RFC 9002). Then its fragments go out in a datagram of their own. Fragments are given up
//! after [`MAX_REPEATS`] or [`MAX_AGE`]: the link may still lose packets. Nothing is sent again to a peer that has not
//! shown, by acknowledging fragments, that it accepts repeated ones.

use core::time::Duration;
use std::collections::VecDeque;

use xylem_congestion::{ProbeTimer, Rtt, SendRecord, TimeoutLimits};

use crate::acks::{MAX_ACK_DELAY, PendingAcks};
use crate::frame::{Ack, Frame, Frames};
use crate::ledger::{Ledger, LostRecord};
use crate::replay::ReplayWindow;

/// Most repetitions of fragments.
const MAX_REPEATS: u8 = 8;
/// Longest time since their first transmission: receivers drop an incomplete packet after 5 s.
const MAX_AGE: Duration = Duration::from_secs(4);
/// Bytes that are kept for a peer that acknowledges fragments; beyond them the oldest are given up.
const MAX_BYTES: usize = 8 << 20;
/// Bytes that are kept for a peer that has not done so yet; beyond them nothing more is kept.
const MAX_BYTES_UNCONFIRMED: usize = 256 << 10;
/// Bookkeeping bytes that count against these limits for each datagram.
const COST: usize = 128;
/// Losses that are remembered in case they arrive after all.
const MAX_LATE: usize = 4_096;
/// Datagrams that a probe timeout repeats.
const PROBES: usize = 2;
/// Datagrams with fragments that are acknowledged together where none is missing.
const ACK_EVERY: u32 = 32;
/// For this long after a loss, packets that fit a datagram are sent as one fragment, so that they are repaired as well.
const LOSSY_FOR: Duration = Duration::from_secs(10);
const TIMEOUT: TimeoutLimits = TimeoutLimits { ack_delay: MAX_ACK_DELAY, ..TimeoutLimits::PROBE };

/// The fragments of one datagram.
#[derive(Debug)]
pub(crate) struct KeptDatagram {
    /// Frames, as they were written.
    pub frames: Vec<u8>,
    sent_at: Duration,
    /// When they were first sent; `repeats`: how often since.
    since: Duration,
    repeats: u8,
}

impl SendRecord for KeptDatagram {
    fn sent_at(&self) -> Duration {
        self.sent_at
    }

    fn bytes(&self) -> usize {
        self.frames.len() + COST
    }
}

/// A datagram that counts as lost and may arrive after all.
#[derive(Clone, Copy, Debug)]
struct LateFragments {
    number: u64,
    serial: u64,
    at: Duration,
    sent_at: Duration,
}

/// Fragments of one link that are under way or lost, and acknowledgements owed for the peer's.
#[derive(Debug)]
pub(crate) struct FragmentRepair {
    ledger: Ledger<KeptDatagram>,
    /// Fragments to be sent again, and their bytes.
    lost: VecDeque<KeptDatagram>,
    lost_bytes: usize,
    late: VecDeque<LateFragments>,
    rtt: Rtt,
    probe: ProbeTimer,
    /// The peer acknowledges fragments, and so accepts repeated ones.
    peer_acks_fragments: bool,
    /// Datagrams sent before this time went over another path.
    path_since: Duration,
    repair_all_until: Duration,
    acks: PendingAcks,
}

impl FragmentRepair {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            ledger: Ledger::default(),
            lost: VecDeque::new(),
            lost_bytes: 0,
            late: VecDeque::new(),
            rtt: Rtt::default(),
            probe: ProbeTimer::new(TIMEOUT, now),
            peer_acks_fragments: false,
            path_since: Duration::ZERO,
            repair_all_until: Duration::ZERO,
            acks: PendingAcks::new(ACK_EVERY),
        }
    }

    // ---- sending ----------------------------------------------------------------------------

    /// Returns whether packets that fit a datagram are to be sent as a fragment: one of the directions has lost
    /// something recently.
    pub(crate) fn is_lossy(&self, now: Duration) -> bool {
        now < self.repair_all_until
    }

    /// Records a sent datagram with this content; only its fragments are kept.
    pub(crate) fn on_sent(&mut self, now: Duration, number: u64, content: &[u8]) {
        // At this limit the oldest stay: their acknowledgements come first and show whether the peer sends any.
        if !self.peer_acks_fragments
            && self.ledger.bytes() + content.len() + COST > MAX_BYTES_UNCONFIRMED
        {
            return;
        }
        let mut frames = Vec::with_capacity(content.len());
        for frame in Frames::new(content).flatten() {
            if let Frame::Fragment(_) = frame {
                frame.write(&mut frames);
            }
        }
        if !frames.is_empty() {
            self.keep(now, number, KeptDatagram { frames, sent_at: now, since: now, repeats: 0 });
        }
    }

    fn keep(&mut self, now: Duration, number: u64, kept: KeptDatagram) {
        let held = kept.bytes() + self.lost_bytes;
        while self.ledger.bytes() + held > MAX_BYTES && self.ledger.take_oldest().is_some() {}
        self.probe.restart(now);
        self.ledger.on_sent(number, kept);
    }

    /// The next fragments to send again, in a datagram with room for `room` bytes. Fragments that no longer fit are
    /// given up.
    pub(crate) fn next_lost(&mut self, now: Duration, room: usize) -> Option<KeptDatagram> {
        loop {
            let kept = self.lost.pop_front()?;
            self.lost_bytes -= kept.bytes();
            if kept.frames.len() <= room && now < kept.since + MAX_AGE {
                return Some(kept);
            }
        }
    }

    /// Records that they were sent again under this number.
    pub(crate) fn on_sent_again(&mut self, now: Duration, number: u64, kept: KeptDatagram) {
        self.keep(now, number, KeptDatagram { sent_at: now, repeats: kept.repeats + 1, ..kept });
    }

    /// Handles an acknowledgement.
    pub(crate) fn on_ack(&mut self, now: Duration, ack: &Ack<'_>) {
        self.on_late(now, ack);
        if let Some(newest) = self.ledger.get(ack.largest) {
            // An ack for stream datagrams never has one of these as its largest number.
            self.peer_acks_fragments = true;
            if newest.sent_at >= self.path_since {
                let delay = Duration::from_micros(ack.delay.into()).min(MAX_ACK_DELAY);
                self.rtt.sample(now.saturating_sub(newest.sent_at), delay);
            }
        }
        let mut arrived = false;
        for range in ack.ranges() {
            if !self.ledger.acknowledge(&range, |_| arrived = true) {
                break;
            }
        }
        if arrived {
            self.probe.forget_backoff();
            self.detect(now);
        }
    }

    /// A datagram that counted as lost and has arrived shows how much this path reorders.
    fn on_late(&mut self, now: Duration, ack: &Ack<'_>) {
        let keep = 3 * self.probe.first_timeout(&self.rtt);
        while self.late.front().is_some_and(|late| now > late.at + keep) {
            self.late.pop_front();
        }
        if self.late.is_empty() {
            return;
        }
        for range in ack.ranges() {
            let from = self.late.partition_point(|late| late.number < *range.start());
            while let Some(late) = self.late.get(from).filter(|late| late.number <= *range.end()) {
                self.ledger.on_late(now, late.serial, late.sent_at, &self.rtt);
                self.late.remove(from);
            }
        }
    }

    fn detect(&mut self, now: Duration) {
        while let Some(overtaken) = self.ledger.take_lost(now, &self.rtt) {
            let LostRecord { number, serial, record } = overtaken;
            if self.late.len() == MAX_LATE {
                self.late.pop_front();
            }
            self.late.push_back(LateFragments { number, serial, at: now, sent_at: record.sent_at });
            self.repair_all_until = now + LOSSY_FOR;
            self.repeat(now, record);
        }
        self.ledger.shrink();
    }

    fn repeat(&mut self, now: Duration, kept: KeptDatagram) {
        if self.peer_acks_fragments && kept.repeats < MAX_REPEATS && now < kept.since + MAX_AGE {
            self.lost_bytes += kept.bytes();
            self.lost.push_back(kept);
        }
    }

    /// When [`FragmentRepair::on_timeout`], a repetition or an acknowledgement is due.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        if !self.lost.is_empty() {
            return Some(Duration::ZERO);
        }
        let oldest = self.ledger.oldest().map(|oldest| oldest.since + MAX_AGE);
        let lost = oldest
            .filter(|_| self.peer_acks_fragments)
            .map(|_| self.ledger.loss_due(&self.rtt).unwrap_or_else(|| self.probe.due(&self.rtt)));
        [oldest, lost, self.acks.deadline()].into_iter().flatten().min()
    }

    /// Gives up fragments that are too old, and finds those that time proves lost.
    pub(crate) fn on_timeout(&mut self, now: Duration) {
        while self.ledger.oldest().is_some_and(|oldest| now >= oldest.since + MAX_AGE) {
            self.ledger.take_oldest();
        }
        if !self.peer_acks_fragments || self.ledger.is_empty() {
            return;
        }
        match self.ledger.loss_due(&self.rtt) {
            Some(due) if now >= due => self.detect(now),
            None if now >= self.probe.due(&self.rtt) => {
                self.probe.back_off();
                self.probe.restart(now);
                for _ in 0..PROBES {
                    let Some(kept) = self.ledger.take_oldest() else { break };
                    self.repeat(now, kept);
                }
            }
            _ => {}
        }
    }

    /// Begins anew on another path, of which nothing is known.
    pub(crate) fn on_new_path(&mut self, now: Duration) {
        (self.rtt, self.path_since) = (Rtt::default(), now);
        self.late.clear();
    }

    // ---- receiving --------------------------------------------------------------------------

    /// Records a received datagram with fragments.
    pub(crate) fn on_datagram(&mut self, now: Duration, number: u64, window: &ReplayWindow) {
        if self.acks.on_datagram(now, number, window) {
            self.repair_all_until = now + LOSSY_FOR;
        }
    }

    /// Appends the acknowledgement of the peer's fragments, if it is due.
    pub(crate) fn write_ack(
        &mut self,
        now: Duration,
        window: &ReplayWindow,
        marked: u32,
        out: &mut Vec<u8>,
    ) {
        if self.acks.is_due(now, window) {
            self.acks.write(now, window, marked, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{AckRanges, Fragment};

    const MS: Duration = Duration::from_millis(1);

    fn content(message: u32) -> Vec<u8> {
        let mut content = Vec::new();
        Frame::Ping(1).write(&mut content);
        Frame::Fragment(Fragment { message, offset: 0, total: 8_000, piece: &[0; 1_400] })
            .write(&mut content);
        content
    }

    fn ack(repair: &mut FragmentRepair, now: Duration, numbers: &[u64]) {
        let mut ranges = AckRanges::default();
        numbers.iter().rev().for_each(|n| assert!(ranges.push(*n..=*n)));
        repair.on_ack(now, &ranges.ack(0, 0).unwrap());
    }

    fn sent(repair: &mut FragmentRepair, now: Duration, numbers: core::ops::Range<u64>) {
        numbers.for_each(|n| repair.on_sent(now, n, &content(n as u32)));
    }

    fn again(repair: &mut FragmentRepair, now: Duration) -> Vec<KeptDatagram> {
        core::iter::from_fn(|| repair.next_lost(now, 1_500)).collect()
    }

    #[test]
    fn a_datagram_overtaken_by_three_is_sent_again() {
        let mut repair = FragmentRepair::new(MS);
        sent(&mut repair, MS, 0..8);
        ack(&mut repair, 20 * MS, &[1, 3, 5]);
        let lost = again(&mut repair, 20 * MS);
        assert_eq!(lost.len(), 2, "0 and 2; 4 has been overtaken once");
        assert_eq!(lost[0].frames, content(0)[9..], "the pieces alone");
        assert!(repair.is_lossy(20 * MS) && !repair.is_lossy(11 * Duration::from_secs(1)));
        assert_eq!(repair.lost_bytes, 0);
    }

    /// A peer of an older version, or a hostile one: it costs little, and nothing is repeated to it.
    #[test]
    fn nothing_is_repeated_to_a_peer_that_never_acknowledges() {
        let mut repair = FragmentRepair::new(MS);
        for n in 0..10_000 {
            sent(&mut repair, MS, n..n + 1);
            assert!(repair.ledger.bytes() <= MAX_BYTES_UNCONFIRMED);
        }
        // An ack for stream datagrams with ranges that cover fragments.
        let mut ranges = AckRanges::default();
        assert!(ranges.push(10_000..=10_000) && ranges.push(5..=9));
        repair.on_ack(20 * MS, &ranges.ack(0, 0).unwrap());
        assert!(again(&mut repair, 20 * MS).is_empty() && repair.lost.is_empty());
        let at = repair.next_timeout().unwrap();
        assert_eq!(at, MS + MAX_AGE);
        repair.on_timeout(at);
        assert!(repair.ledger.is_empty() && repair.next_timeout().is_none());
    }

    /// A peer that acknowledges every second fragment for ever makes this side hold and repeat a bounded amount.
    #[test]
    fn bytes_repeats_and_time_are_bounded() {
        let mut repair = FragmentRepair::new(MS);
        let (mut next, mut most) = (0, 0);
        for turn in 1..40_000_u32 {
            let now = MS * turn / 8;
            repair.on_timeout(now);
            sent(&mut repair, now, next..next + 1);
            next += 1;
            if turn % 40 == 0 {
                ack(&mut repair, now, &[next - 1]);
            }
            for kept in again(&mut repair, now) {
                most = most.max(kept.repeats);
                assert!(now < kept.since + MAX_AGE);
                repair.on_sent_again(now, next, kept);
                next += 1;
            }
            assert!(repair.ledger.bytes() + repair.lost_bytes <= MAX_BYTES);
            assert!(repair.late.len() <= MAX_LATE);
        }
        assert_eq!(most + 1, MAX_REPEATS);
    }

    #[test]
    fn a_lost_tail_is_probed_and_oversized_fragments_dropped() {
        let mut repair = FragmentRepair::new(MS);
        sent(&mut repair, MS, 0..1);
        ack(&mut repair, 11 * MS, &[0]);
        sent(&mut repair, 20 * MS, 1..2);
        let at = repair.next_timeout().unwrap();
        assert!(at > 30 * MS && at < 100 * MS, "{at:?}");
        repair.on_timeout(at);
        assert_eq!(repair.next_timeout(), Some(Duration::ZERO));
        let kept = again(&mut repair, at).pop().unwrap();
        repair.on_sent_again(at, 2, kept);
        let later = repair.next_timeout().unwrap();
        repair.on_timeout(later);
        assert!(later - at > at - 20 * MS, "twice as long");
        assert!(repair.next_lost(later, 1_200).is_none() && repair.next_timeout().is_none());
    }
}
