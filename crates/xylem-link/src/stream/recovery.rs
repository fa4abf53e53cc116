//! Loss recovery of streams: datagrams under way, which of them were lost, and how much more may be sent (RFC 9002,
//! with xylem-congestion's window and pacing).
//!
//! Only datagrams that ask for an acknowledgement are in the ledger; they alone count against the window. Packets of
//! the program are not subject to this.

use core::time::Duration;
use std::collections::VecDeque;

use xylem_congestion::{
    CongestionAlgorithm, Controller, Pacer, ProbeTimer, Rtt, SendRecord, SentPacket, TimeoutLimits,
};

use crate::acks::MAX_ACK_DELAY;
use crate::frame::Ack;
use crate::ledger::{Ledger, LostRecord};

const TIMEOUT: TimeoutLimits = TimeoutLimits { ack_delay: MAX_ACK_DELAY, ..TimeoutLimits::PROBE };
/// Losses that are remembered in case they arrive after all.
const MAX_LOST: usize = 256;
/// Most datagrams under way, however wide the window is.
const MAX_LEDGER: usize = 1 << 16;
/// Datagrams that a probe timeout sends beyond the window.
const PROBES: u8 = 2;

/// A frame that was sent in a datagram which asks for an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SentFrame {
    Open(u32),
    Data { stream: u32, start: u64, end: u64 },
    Close(u32),
    Reset(u32),
    Stop(u32),
    Window { stream: u32, limit: u64 },
    LinkWindow(u64),
}

/// The frames of one datagram: nearly always one or two.
#[derive(Clone, Debug, Default)]
pub(super) struct SentFrames {
    first: Option<SentFrame>,
    more: Vec<SentFrame>,
}

impl SentFrames {
    pub(super) fn push(&mut self, frame: SentFrame) {
        if self.first.is_none() {
            self.first = Some(frame);
        } else {
            self.more.push(frame);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = SentFrame> {
        self.first.into_iter().chain(self.more.iter().copied())
    }
}

/// A datagram under way.
#[derive(Debug)]
struct SentDatagram {
    sent: SentPacket,
    frames: SentFrames,
}

impl SendRecord for SentDatagram {
    fn sent_at(&self) -> Duration {
        self.sent.sent_at()
    }

    fn bytes(&self) -> usize {
        SendRecord::bytes(&self.sent)
    }
}

/// A datagram that counts as lost and may arrive after all.
#[derive(Clone, Copy, Debug)]
struct LostDatagram {
    number: u64,
    serial: u64,
    at: Duration,
    sent: SentPacket,
}

/// The longest time spanned by consecutive lost datagrams (RFC 9002 section 7.6).
#[derive(Debug, Default)]
struct LostStretch {
    /// The last serial of the run, and when its first datagram was sent.
    run: Option<(u64, Duration)>,
    longest: Duration,
}

impl LostStretch {
    fn add(&mut self, serial: u64, sent_at: Duration) {
        let begun =
            self.run.filter(|(last, _)| last + 1 == serial).map_or(sent_at, |(_, begun)| begun);
        self.run = Some((serial, begun));
        self.longest = self.longest.max(sent_at - begun);
    }
}

/// The effects of an acknowledgement or a timer.
#[derive(Debug, Default)]
pub(super) struct RecoveryOutcome {
    pub(super) acked: Vec<SentFrames>,
    pub(super) lost: Vec<SentFrames>,
}

#[derive(Debug)]
pub(super) struct Recovery {
    flight: Ledger<SentDatagram>,
    lost: VecDeque<LostDatagram>,
    controller: Controller,
    rtt: Rtt,
    pacer: Pacer,
    probe: ProbeTimer,
    /// Datagrams that may leave beyond the window.
    probes: u8,
    /// The peer's count of marked datagrams, and the largest number of the ack that reported it.
    marked: Option<(u32, u64)>,
    datagram: u64,
    /// Datagrams sent before this time went over another path and reveal nothing about this one.
    path_since: Duration,
}

impl Recovery {
    pub(super) fn new(algorithm: CongestionAlgorithm, now: Duration, datagram: usize) -> Self {
        Self {
            flight: Ledger::default(),
            lost: VecDeque::new(),
            controller: Controller::new(algorithm, now, datagram as u64),
            rtt: Rtt::default(),
            pacer: Pacer::default(),
            probe: ProbeTimer::new(TIMEOUT, now),
            probes: 0,
            marked: None,
            datagram: datagram as u64,
            path_since: Duration::ZERO,
        }
    }

    /// Sets the datagram size from now on.
    pub(super) fn set_datagram(&mut self, bytes: usize) {
        if self.datagram != bytes as u64 {
            self.datagram = bytes as u64;
            self.controller.set_packet_bytes(self.datagram);
        }
    }

    /// Begins anew on another path, of which nothing is known (RFC 9000 section 9.4).
    pub(super) fn on_new_path(&mut self, now: Duration) {
        let algorithm = self.controller.algorithm();
        self.controller = Controller::new(algorithm, now, self.datagram);
        (self.rtt, self.pacer) = (Rtt::default(), Pacer::default());
        self.path_since = now;
        self.lost.clear();
    }

    fn in_flight(&self) -> u64 {
        self.flight.bytes() as u64
    }

    fn window_has_room(&self) -> bool {
        let in_flight = self.in_flight();
        self.flight.span() < MAX_LEDGER
            && (in_flight == 0 || in_flight + self.datagram <= self.controller.window())
    }

    /// Returns whether a datagram may leave now.
    pub(super) fn may_send(&mut self, now: Duration) -> bool {
        self.probes > 0
            || (self.window_has_room()
                && self.pacer.ready(now, self.controller.pacing_rate(), self.controller.burst()))
    }

    /// When a datagram may leave, if only time holds it back.
    pub(super) fn send_at(&self) -> Option<Duration> {
        let room = self.window_has_room();
        room.then(|| self.pacer.next(self.controller.pacing_rate(), self.controller.burst()))
            .flatten()
    }

    /// Records that there was nothing (more) to send.
    pub(super) fn on_idle(&mut self) {
        self.probes = 0;
        if self.window_has_room() {
            self.controller.app_limited(self.in_flight());
        }
    }

    /// Records a sent datagram with these frames. Numbers grow.
    pub(super) fn on_sent(&mut self, now: Duration, number: u64, bytes: usize, frames: SentFrames) {
        let sent = self.controller.on_sent(now, bytes as u64, self.in_flight());
        self.pacer.spend(bytes as u64);
        self.probes = self.probes.saturating_sub(1);
        self.probe.restart(now);
        self.flight.on_sent(number, SentDatagram { sent, frames });
    }

    /// When [`Recovery::on_timeout`] is due.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.flight.oldest()?;
        Some(self.flight.loss_due(&self.rtt).unwrap_or_else(|| self.probe.due(&self.rtt)))
    }

    /// Returns whether a probe timeout has come and its datagrams have not left.
    pub(super) fn is_probing(&self) -> bool {
        self.probes > 0
    }

    /// Probe timeouts in a row.
    pub(super) fn backoff(&self) -> u32 {
        self.probe.backoff()
    }

    /// Declares late datagrams lost, or sends probes: in both cases the frames in `outcome.lost` are to be sent again.
    pub(super) fn on_timeout(&mut self, now: Duration, outcome: &mut RecoveryOutcome) {
        if self.next_timeout().is_none_or(|at| now < at) {
            return;
        }
        if self.flight.loss_due(&self.rtt).is_some() {
            self.detect(now, outcome);
            self.controller.on_ack_end(now, &self.rtt, self.in_flight());
            return;
        }
        self.probe.back_off();
        self.probe.restart(now);
        self.probes = PROBES;
        let oldest = self.flight.iter().take(usize::from(PROBES));
        outcome.lost.extend(oldest.map(|entry| entry.frames.clone()));
    }

    /// Takes an acknowledgement. Returns a sample of the round trip if it holds one.
    pub(super) fn on_ack(
        &mut self,
        now: Duration,
        ack: &Ack<'_>,
        out: &mut RecoveryOutcome,
    ) -> Option<Duration> {
        self.on_late(now, ack);
        let sampled = self.sample(now, ack);
        let mut newest: Option<SentPacket> = None;
        for range in ack.ranges() {
            let more = self.flight.acknowledge(&range, |entry| {
                out.acked.push(entry.frames);
                if newest.is_none_or(|newest| newest.sent_at() <= entry.sent.sent_at()) {
                    newest = Some(entry.sent);
                }
                if entry.sent.sent_at() >= self.path_since {
                    self.controller.on_ack(now, &entry.sent, &self.rtt);
                }
            });
            if !more {
                break;
            }
        }
        if newest.is_some() {
            // The acknowledgement that a probe would ask for is here.
            self.probe.forget_backoff();
            self.probes = 0;
            self.detect(now, out);
        }
        self.on_marks(now, ack, newest.as_ref());
        if newest.is_some() {
            self.controller.on_ack_end(now, &self.rtt, self.in_flight());
        }
        sampled.then(|| self.rtt.smoothed()).flatten()
    }

    /// Measures the round trip by the newest datagram, if this ack is the first to acknowledge it. This comes before
    /// the controller's calls, so that it knows this round trip.
    fn sample(&mut self, now: Duration, ack: &Ack<'_>) -> bool {
        let newest = self.flight.get(ack.largest);
        let Some(at) = newest.map(SentDatagram::sent_at).filter(|at| *at >= self.path_since) else {
            return false;
        };
        let delay = Duration::from_micros(ack.delay.into()).min(MAX_ACK_DELAY);
        self.rtt.sample(now.saturating_sub(at), delay);
        true
    }

    fn on_marks(&mut self, now: Duration, ack: &Ack<'_>, newest: Option<&SentPacket>) {
        let (before, at) = self.marked.unwrap_or((0, 0));
        // Old acks may come late, with an old count.
        if self.marked.is_some() && ack.largest < at {
            return;
        }
        self.marked = Some((ack.marked, ack.largest));
        let more = ack.marked.wrapping_sub(before);
        if more != 0 && more < 1 << 31 {
            self.controller.on_mark(now, newest);
        }
    }

    /// Three probe timeouts of a path that answers: how long a loss is remembered, and the length of a run of losses
    /// that makes persistent congestion (RFC 9002 section 7.6.1).
    fn persistence(&self) -> Duration {
        3 * self.probe.first_timeout(&self.rtt)
    }

    /// A datagram that counted as lost and has arrived undoes the congestion response, and shows how much this path
    /// reorders.
    fn on_late(&mut self, now: Duration, ack: &Ack<'_>) {
        let keep = self.persistence();
        while self.lost.front().is_some_and(|lost| now > lost.at + keep) {
            self.lost.pop_front();
        }
        if self.lost.is_empty() {
            return;
        }
        for range in ack.ranges() {
            let from = self.lost.partition_point(|lost| lost.number < *range.start());
            while let Some(lost) = self.lost.get(from).filter(|lost| lost.number <= *range.end()) {
                self.controller.on_late(now, &lost.sent);
                self.flight.on_late(now, lost.serial, lost.sent.sent_at(), &self.rtt);
                self.lost.remove(from);
            }
        }
    }

    /// Declares lost the datagrams that the detector finds.
    fn detect(&mut self, now: Duration, out: &mut RecoveryOutcome) {
        let mut stretch = LostStretch::default();
        while let Some(overtaken) = self.flight.take_lost(now, &self.rtt) {
            let LostRecord { number, serial, record: SentDatagram { sent, frames } } = overtaken;
            out.lost.push(frames);
            if sent.sent_at() < self.path_since {
                continue;
            }
            self.controller.on_loss(now, &sent);
            if self.lost.len() == MAX_LOST {
                self.lost.pop_front();
            }
            self.lost.push_back(LostDatagram { number, serial, at: now, sent });
            stretch.add(serial, sent.sent_at());
        }
        // An idle flow keeps little capacity.
        self.flight.shrink();
        if self.rtt.smoothed().is_some() && stretch.longest > self.persistence() {
            self.controller.on_persistent_congestion(now);
        }
    }
}
