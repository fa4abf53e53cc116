//! What is under way, what of it was lost, and how much more may be sent (RFC 9002, with
//! xylem-congestion's window and pace).
//!
//! Only datagrams that ask for an acknowledgement are in the ledger; they alone count against the
//! window. Packets of the program pass by all of this.

use core::time::Duration;
use std::collections::VecDeque;

use xylem_congestion::{Algorithm, Controller, Pacer, Rtt, Sent};

use super::acks::MAX_ACK_DELAY;
use crate::frame::Ack;

/// Later arrivals after which a datagram counts as lost (RFC 9002 section 6.1.1), before the path has
/// shown that it reorders more.
const THRESHOLD: u64 = 3;
/// The threshold grows no further; what is later than this is lost.
const MAX_THRESHOLD: u64 = 256;
/// Losses that are remembered in case they arrive after all.
const MAX_LOST: usize = 256;
/// Datagrams under way; more are not sent, however wide the window is.
const MAX_LEDGER: usize = 1 << 16;
/// Room that is kept for those of a flow that rests.
const LEDGER_AT_REST: usize = 8;
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
    pub fn push(&mut self, frame: SentFrame) {
        if self.first.is_none() {
            self.first = Some(frame);
        } else {
            self.more.push(frame);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = SentFrame> {
        self.first.into_iter().chain(self.more.iter().copied())
    }
}

#[derive(Debug)]
struct Entry {
    /// The datagram's number.
    number: u64,
    at: Duration,
    bytes: u32,
    /// Neither acknowledged nor lost.
    live: bool,
    sent: Sent,
    frames: SentFrames,
}

/// What counts as lost and may arrive after all.
#[derive(Clone, Copy, Debug)]
struct Lost {
    number: u64,
    serial: u64,
    at: Duration,
    sent: Sent,
}

/// What an acknowledgement or a timer has brought about.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub acked: Vec<SentFrames>,
    pub lost: Vec<SentFrames>,
}

#[derive(Debug)]
pub(super) struct Recovery {
    /// By number. Entries that are no longer live stay only behind one that is.
    ledger: VecDeque<Entry>,
    /// Entries that have left the ledger: the first one's serial, which counts these datagrams alone.
    first_serial: u64,
    /// The highest serial that was acknowledged.
    largest_acked: Option<u64>,
    lost: VecDeque<Lost>,
    in_flight: u64,
    controller: Controller,
    pub rtt: Rtt,
    pacer: Pacer,
    threshold: u64,
    /// Quarter round trips that a datagram may be late.
    quarters: u32,
    /// Probe timeouts in a row.
    backoff: u32,
    probes: u8,
    last_sent: Duration,
    /// When the oldest unacknowledged datagram before the largest acknowledged one counts as lost.
    loss_at: Option<Duration>,
    /// The peer's count of marked datagrams, and the largest number of the ack that told it.
    marked: Option<(u32, u64)>,
    datagram: u64,
    /// Datagrams sent before went over another path and say nothing about this one.
    path_since: Duration,
}

impl Recovery {
    pub fn new(algorithm: Algorithm, now: Duration, datagram: usize) -> Self {
        Self {
            ledger: VecDeque::new(),
            first_serial: 0,
            largest_acked: None,
            lost: VecDeque::new(),
            in_flight: 0,
            controller: Controller::new(algorithm, now, datagram as u64),
            rtt: Rtt::default(),
            pacer: Pacer::default(),
            threshold: THRESHOLD,
            quarters: 1,
            backoff: 0,
            probes: 0,
            last_sent: now,
            loss_at: None,
            marked: None,
            datagram: datagram as u64,
            path_since: Duration::ZERO,
        }
    }

    /// Datagrams have this size from now on.
    pub fn set_datagram(&mut self, bytes: usize) {
        if self.datagram != bytes as u64 {
            self.datagram = bytes as u64;
            self.controller.set_packet_bytes(self.datagram);
        }
    }

    /// The peer is elsewhere: nothing is known of the path (RFC 9000 section 9.4).
    pub fn on_new_path(&mut self, now: Duration) {
        let algorithm = self.controller.algorithm();
        self.controller = Controller::new(algorithm, now, self.datagram);
        (self.rtt, self.pacer) = (Rtt::default(), Pacer::default());
        self.path_since = now;
        self.lost.clear();
    }

    fn window_has_room(&self) -> bool {
        self.ledger.len() < MAX_LEDGER
            && (self.in_flight == 0 || self.in_flight + self.datagram <= self.controller.window())
    }

    /// Whether a datagram may leave now.
    pub fn may_send(&mut self, now: Duration) -> bool {
        self.probes > 0
            || (self.window_has_room()
                && self.pacer.ready(now, self.controller.pacing_rate(), self.controller.burst()))
    }

    /// When a datagram may leave, if that is a matter of time alone.
    pub fn send_at(&self) -> Option<Duration> {
        let room = self.window_has_room();
        room.then(|| self.pacer.next(self.controller.pacing_rate(), self.controller.burst()))
            .flatten()
    }

    /// There was nothing (more) to send.
    pub fn on_idle(&mut self) {
        self.probes = 0;
        if self.window_has_room() {
            self.controller.app_limited(self.in_flight);
        }
    }

    /// A datagram of these frames leaves. Numbers grow.
    pub fn on_sent(&mut self, now: Duration, number: u64, bytes: usize, frames: SentFrames) {
        debug_assert!(self.ledger.back().is_none_or(|last| last.number < number));
        let sent = self.controller.on_sent(now, bytes as u64, self.in_flight);
        self.in_flight += bytes as u64;
        self.pacer.spend(bytes as u64);
        self.probes = self.probes.saturating_sub(1);
        self.last_sent = now;
        // A datagram has at most 65,507 bytes.
        let bytes = bytes as u32;
        self.ledger.push_back(Entry { number, at: now, bytes, live: true, sent, frames });
    }

    /// When [`Recovery::on_timeout`] is due.
    pub fn next_timeout(&self) -> Option<Duration> {
        if self.ledger.is_empty() {
            return None;
        }
        let probe = self.last_sent + self.rtt.probe_timeout(MAX_ACK_DELAY, self.backoff);
        Some(self.loss_at.unwrap_or(probe))
    }

    /// Whether a probe timeout has come and its datagrams have not left.
    pub fn is_probing(&self) -> bool {
        self.probes > 0
    }

    /// Probe timeouts in a row.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Declares lost what is late, or asks for a sign of life: what `outcome.lost` gains is to be
    /// sent again either way.
    pub fn on_timeout(&mut self, now: Duration, outcome: &mut Outcome) {
        if self.next_timeout().is_none_or(|at| now < at) {
            return;
        }
        if self.loss_at.is_some() {
            self.detect(now, outcome);
            self.controller.on_ack_end(now, &self.rtt, self.in_flight);
            return;
        }
        self.backoff += 1;
        self.probes = PROBES;
        self.last_sent = now;
        let live = self.ledger.iter().filter(|entry| entry.live);
        outcome.lost.extend(live.take(usize::from(PROBES)).map(|entry| entry.frames.clone()));
    }

    /// Takes an acknowledgement. Returns a sample of the round trip if it holds one.
    pub fn on_ack(&mut self, now: Duration, ack: &Ack<'_>, out: &mut Outcome) -> Option<Duration> {
        self.on_late(now, ack);
        let sampled = self.sample(now, ack);
        let mut newest: Option<Sent> = None;
        for range in ack.ranges() {
            let Some(first) = self.ledger.front() else { break };
            if *range.end() < first.number {
                break;
            }
            let from = self.ledger.partition_point(|entry| entry.number < *range.start());
            for index in from..self.ledger.len() {
                let entry = &mut self.ledger[index];
                if entry.number > *range.end() {
                    break;
                }
                if !core::mem::take(&mut entry.live) {
                    continue;
                }
                let (sent, at) = (entry.sent, entry.at);
                self.in_flight -= u64::from(entry.bytes);
                out.acked.push(core::mem::take(&mut entry.frames));
                let serial = self.first_serial + index as u64;
                if newest.is_none_or(|newest| newest.sent_at() <= sent.sent_at()) {
                    newest = Some(sent);
                }
                self.largest_acked = self.largest_acked.max(Some(serial));
                if at >= self.path_since {
                    self.controller.on_ack(now, &sent, &self.rtt, self.in_flight);
                }
            }
        }
        if newest.is_some() {
            // What a probe would ask for is here.
            (self.backoff, self.probes) = (0, 0);
            self.detect(now, out);
        }
        self.on_marks(now, ack, newest.as_ref());
        if newest.is_some() {
            self.controller.on_ack_end(now, &self.rtt, self.in_flight);
        }
        sampled.then(|| self.rtt.smoothed()).flatten()
    }

    /// Measures the round trip by the newest datagram, if this is the first that says it arrived.
    /// Before the controller is told of anything, so that it knows of this round trip.
    fn sample(&mut self, now: Duration, ack: &Ack<'_>) -> bool {
        let index = self.ledger.partition_point(|entry| entry.number < ack.largest);
        let newest = self.ledger.get(index).filter(|entry| {
            entry.number == ack.largest && entry.live && entry.at >= self.path_since
        });
        let Some(at) = newest.map(|entry| entry.at) else { return false };
        let delay = Duration::from_micros(ack.delay.into()).min(MAX_ACK_DELAY);
        self.rtt.sample(now.saturating_sub(at), delay);
        true
    }

    fn on_marks(&mut self, now: Duration, ack: &Ack<'_>, newest: Option<&Sent>) {
        let (before, at) = self.marked.unwrap_or((0, 0));
        // Older acks may come late, with an older count.
        if self.marked.is_some() && ack.largest < at {
            return;
        }
        self.marked = Some((ack.marked, ack.largest));
        let more = ack.marked.wrapping_sub(before);
        if more != 0 && more < 1 << 31 {
            self.controller.on_mark(now, newest);
        }
    }

    /// What had counted as lost and has arrived takes the reaction back, and shows by how much
    /// this path reorders.
    fn on_late(&mut self, now: Duration, ack: &Ack<'_>) {
        let keep = 3 * self.rtt.probe_timeout(MAX_ACK_DELAY, 0);
        while self.lost.front().is_some_and(|lost| now > lost.at + keep) {
            self.lost.pop_front();
        }
        if self.lost.is_empty() {
            return;
        }
        let newest = self.largest_acked.unwrap_or(0);
        for range in ack.ranges() {
            let from = self.lost.partition_point(|lost| lost.number < *range.start());
            while let Some(lost) = self.lost.get(from).filter(|lost| lost.number <= *range.end()) {
                self.controller.on_late(now, &lost.sent);
                let behind = newest.saturating_sub(lost.serial) + 1;
                self.threshold = self.threshold.max(behind).min(MAX_THRESHOLD);
                self.quarters = (self.quarters + 1).min(4);
                self.lost.remove(from);
            }
        }
    }

    /// Finds what is lost: overtaken by `threshold` others, or long enough by a later one.
    fn detect(&mut self, now: Duration, out: &mut Outcome) {
        self.loss_at = None;
        let delay = self.rtt.loss_delay(self.quarters);
        let before = self.largest_acked.map_or(0, |s| (s + 1).saturating_sub(self.first_serial));
        let mut run: Option<(u64, Duration)> = None;
        let mut longest = Duration::ZERO;
        for index in 0..(before as usize).min(self.ledger.len()) {
            let serial = self.first_serial + index as u64;
            let late = self.largest_acked.unwrap_or(0).saturating_sub(serial) >= self.threshold;
            let entry = &mut self.ledger[index];
            if !entry.live {
                continue;
            }
            if !late && now < entry.at + delay {
                self.loss_at = Some(entry.at + delay);
                break;
            }
            entry.live = false;
            self.in_flight -= u64::from(entry.bytes);
            let (number, at, sent) = (entry.number, entry.at, entry.sent);
            out.lost.push(core::mem::take(&mut entry.frames));
            if at < self.path_since {
                continue;
            }
            self.controller.on_loss(now, &sent, self.in_flight);
            if self.lost.len() == MAX_LOST {
                self.lost.pop_front();
            }
            self.lost.push_back(Lost { number, serial, at: now, sent });
            let begun = run.filter(|(last, _)| last + 1 == serial).map_or(at, |(_, begun)| begun);
            run = Some((serial, begun));
            longest = longest.max(at - begun);
        }
        while self.ledger.front().is_some_and(|entry| !entry.live) {
            self.ledger.pop_front();
            self.first_serial += 1;
        }
        // A flow that rests keeps no room for many.
        if self.ledger.is_empty() {
            self.ledger.shrink_to(LEDGER_AT_REST);
        }
        // RFC 9002 section 7.6: everything over three probe timeouts was lost.
        if self.rtt.smoothed().is_some() && longest > 3 * self.rtt.probe_timeout(MAX_ACK_DELAY, 0) {
            self.controller.on_persistent_congestion(now);
        }
    }
}
