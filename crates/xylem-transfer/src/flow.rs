//! [`SourceFlow`]: how fast one source is asked, and which of its requests are lost.
//!
//! Loss detection follows RACK (RFC 8985). A request is lost when a later one has been answered and a round trip and a
//! reordering window have passed. Requests at the end, with no later ones, are probed. A source is silent after several
//! probe timeouts without any answer. Its requests are then given up so that other sources can be asked, and it is
//! asked for one item now and then. A source that refuses repeatedly is not asked for a while.

use core::time::Duration;

use xylem_congestion::{CongestionAlgorithm, Controller, Pacer, ProbeTimer, Rtt, TimeoutLimits};
use xylem_packet::MAX_PACKET;

use crate::event::{PathReport, TransferConfig};
use crate::flight::{Flight, LossCause, LostRequest, RequestAnswer};
use crate::key::ItemKey;
use crate::round_trip::RoundTrip;

/// Minimum wait before a source counts as silent: disks and schedulers stall that long.
const SILENCE_MIN: Duration = Duration::from_millis(250);
/// Number of probe timeouts that make a silence.
const SILENCE_TIMEOUTS: u32 = 3;
/// Number of refusals in a row after which a source is not asked for a while.
const REFUSALS: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(4);
/// Size of the largest Data in bytes: the unit of the smallest windows.
pub(crate) const DATA_BYTES: u64 = MAX_PACKET as u64;
/// Round trip below which CUBIC is used. There it fills a path as well as BBR does, and delays within the machine blur
/// what BBR measures.
const SHORT_PATH: Duration = Duration::from_millis(5);
/// A retransmission should arrive within the Interest's lifetime, so no wait is longer than 4 s.
const TIMEOUT: TimeoutLimits =
    TimeoutLimits { most: Duration::from_secs(4), ..TimeoutLimits::PROBE };

/// Requests to one source: window, pacing and loss detection.
#[derive(Debug)]
pub(crate) struct SourceFlow {
    round_trip: RoundTrip,
    controller: Controller,
    /// The algorithm is chosen by the path: the first short round trip switches to CUBIC.
    by_path: bool,
    pacer: Pacer,
    flight: Flight,
    /// Maximum number of unanswered Interests.
    max_requests: usize,
    pieces: DatagramsPerData,
    silence: SilenceDetector,
    rest: RefusalBackoff,
    /// The controller received acknowledgements since [`Self::end_acks`] was last called.
    acks_open: bool,
    requests: u64,
    lost: u64,
}

/// Number of datagrams that carry one Data. The Data arrives only if all of them do.
#[derive(Debug)]
struct DatagramsPerData {
    /// Size in bytes of the largest datagram of the path, if known.
    datagram: Option<u64>,
    /// The last report of the link's counters, where the link counts.
    path: Option<PathReport>,
    /// Datagrams per Data, as last reported to the controller.
    reported: u64,
}

/// State that detects a source that answers nothing.
#[derive(Debug)]
struct SilenceDetector {
    probe: ProbeTimer,
    /// Start of the wait for an answer: the last answer, or the first request after idleness.
    waiting_since: Duration,
    /// Number of requests that may be sent beyond the window, to probe whether the source is there.
    probes: u32,
    silent: bool,
}

impl SilenceDetector {
    fn on_sent(&mut self, now: Duration, is_first: bool) {
        if is_first {
            self.waiting_since = now;
        }
        self.probe.restart(now);
        self.probes = self.probes.saturating_sub(1);
    }

    /// `known`: the round trip is known, so that doubled waits may be reset.
    fn on_received(&mut self, now: Duration, known: bool) {
        self.waiting_since = now;
        self.probe.restart(now);
        if known {
            self.probe.forget_backoff();
        }
        (self.probes, self.silent) = (0, false);
    }

    fn has_lasted(&self, now: Duration, rtt: &Rtt) -> bool {
        let silence = (self.probe.first_timeout(rtt) * SILENCE_TIMEOUTS).max(SILENCE_MIN);
        now.saturating_sub(self.waiting_since) >= silence
    }
}

/// How long a source that refuses is not asked.
#[derive(Debug, Default)]
struct RefusalBackoff {
    refusals_in_row: u32,
    until: Duration,
}

impl SourceFlow {
    pub(crate) fn new(now: Duration, config: &TransferConfig) -> Self {
        let algorithm = config.congestion.unwrap_or(CongestionAlgorithm::Bbr);
        Self {
            round_trip: RoundTrip::default(),
            controller: Controller::new(algorithm, now, DATA_BYTES),
            by_path: config.congestion.is_none(),
            pacer: Pacer::default(),
            flight: Flight::default(),
            max_requests: config.max_window as usize,
            pieces: DatagramsPerData { datagram: None, path: None, reported: 1 },
            silence: SilenceDetector {
                probe: ProbeTimer::new(TIMEOUT, now),
                waiting_since: now,
                probes: 0,
                silent: false,
            },
            rest: RefusalBackoff::default(),
            acks_open: false,
            requests: 0,
            lost: 0,
        }
    }

    // ---- state ----

    /// The smoothed round trip, once known.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.measured().smoothed()
    }

    /// Time after sending from which an answer is overdue.
    pub(crate) fn overdue_after(&self) -> Duration {
        self.silence.probe.first_timeout(self.round_trip.for_timeouts())
    }

    /// Whether the source counts as silent.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.silent
    }

    /// Whether the source is not asked for a while.
    pub(crate) fn is_resting(&self, now: Duration) -> bool {
        self.rest.until > now
    }

    /// Bytes that unanswered requests may call for.
    pub(crate) fn window(&self) -> u64 {
        self.controller.window()
    }

    /// The window as a number of requests, each of the average size of those outstanding now.
    pub(crate) fn window_in_requests(&self) -> u64 {
        (self.window() / self.average_request_bytes()).min(self.max_requests as u64)
    }

    /// Bytes a second that the window allows. Before a round trip is measured: the maximum.
    pub(crate) fn rate(&self) -> u64 {
        let Some(rtt) = self.round_trip.measured().smoothed() else { return u64::MAX };
        let rate = u128::from(self.window()) * 1_000_000 / rtt.as_micros().max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Requests sent, and how many of them counted as lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.requests, self.lost)
    }

    /// The outstanding requests.
    pub(crate) fn flight(&self) -> &Flight {
        &self.flight
    }

    /// See [`Flight::oldest_uncopied`].
    pub(crate) fn oldest_uncopied(&mut self) -> Option<(ItemKey, Duration)> {
        self.flight.oldest_uncopied()
    }

    /// See [`Flight::mark_copied`].
    pub(crate) fn mark_copied(&mut self) {
        self.flight.mark_copied();
    }

    /// Average bytes that an outstanding request calls for.
    fn average_request_bytes(&self) -> u64 {
        match self.flight.outstanding() as u64 {
            0 => DATA_BYTES,
            n => (self.flight.bytes() / n).max(1),
        }
    }

    // ---- asking -----------------------------------------------------------------------------

    /// Sets the size in bytes of the largest datagram of the path.
    pub(crate) fn set_datagram(&mut self, bytes: u64) {
        self.pieces.datagram = Some(bytes.max(1));
    }

    /// See [`RoundTrip::expect`].
    pub(crate) fn expect_round_trip(&mut self, rtt: Duration) {
        self.round_trip.expect(rtt);
    }

    /// Takes the link's counters of what the source has sent and what is missing.
    pub(crate) fn note_path(&mut self, now: Duration, report: PathReport) {
        let before = self.pieces.path.replace(report).unwrap_or(report);
        if before == report && self.pieces.reported == 1 {
            return;
        }
        if self.pieces.reported != 1 {
            self.pieces.reported = 1;
            self.controller.set_packets_per_unit(1);
        }
        self.expect_repairs();
        let brought = report.brought.saturating_sub(before.brought);
        let missed = report.missing.wrapping_sub(before.missing).cast_signed();
        let datagram = self.pieces.datagram.unwrap_or(DATA_BYTES);
        let repaired = self.controller.on_path(now, brought, missed, datagram);
        self.pacer.charge(repaired, self.controller.window());
    }

    /// Expects the path to repair its losses, if the link counts them and CUBIC is not used. CUBIC relies on lost
    /// requests as well and has to learn of them soon.
    fn expect_repairs(&mut self) {
        let repairs =
            self.pieces.path.is_some() && self.controller.algorithm() != CongestionAlgorithm::Cubic;
        self.flight.expect_repairs(repairs);
    }

    fn has_window(&self) -> bool {
        !self.silence.silent
            && self.flight.outstanding() < self.max_requests
            && self.flight.bytes() < self.controller.window()
    }

    /// Whether a request may be sent now.
    pub(crate) fn may_ask(&mut self, now: Duration) -> bool {
        if self.is_resting(now) {
            return false;
        }
        self.silence.probes > 0
            || (self.has_window()
                && self.pacer.ready(now, self.controller.pacing_rate(), self.controller.burst()))
    }

    /// When a request may be sent next, if only time forbids it now.
    pub(crate) fn next_token(&self, now: Duration) -> Option<Duration> {
        if !self.has_window() {
            return None;
        }
        if self.is_resting(now) {
            return Some(self.rest.until);
        }
        self.pacer.next(self.controller.pacing_rate(), self.controller.burst())
    }

    /// Records that there is nothing to ask. If a request could be sent, answers now reflect little of the path's
    /// capacity.
    pub(crate) fn on_idle(&mut self, now: Duration) {
        if self.may_ask(now) {
            self.controller.app_limited(self.flight.bytes());
        }
    }

    /// Records a request that calls for `bytes`.
    pub(crate) fn on_sent(&mut self, now: Duration, key: ItemKey, copied: bool, bytes: u64) {
        self.silence.on_sent(now, self.flight.outstanding() == 0);
        let sent = self.controller.on_sent(now, bytes, self.flight.bytes());
        self.flight.on_sent(sent, key, copied);
        self.pacer.spend(bytes);
        self.requests += 1;
    }

    // ---- answers ----------------------------------------------------------------------------

    /// Takes an answer to `key`. It shows that the source is there, and earlier requests are now due.
    pub(crate) fn answered(&mut self, now: Duration, key: ItemKey) -> RequestAnswer {
        let answer = self.flight.answered(key);
        match answer {
            RequestAnswer::Unasked => {}
            RequestAnswer::Late(late) => {
                self.silence.on_received(now, self.round_trip.is_known());
                self.on_late(now, &late);
            }
            RequestAnswer::Outstanding { number, sent, earlier } => {
                let took = now.saturating_sub(sent.sent_at());
                if earlier.is_none() {
                    self.choose_algorithm(took);
                    self.round_trip.sample(took);
                    self.controller.on_round_trip(took, self.round_trip.measured());
                }
                let first = earlier.filter(|_| !self.round_trip.matches_last_request(took));
                self.silence.on_received(now, self.round_trip.is_known());
                match first {
                    Some(late) => self.on_late(now, &late),
                    None => self.flight.on_arrival(number),
                }
            }
        }
        answer
    }

    fn choose_algorithm(&mut self, rtt: Duration) {
        if self.by_path && rtt < SHORT_PATH {
            self.controller.switch_to_cubic();
            self.expect_repairs();
            self.by_path = false;
        }
    }

    /// Takes back a loss: the request was answered late.
    fn on_late(&mut self, now: Duration, late: &LostRequest) {
        self.lost = self.lost.saturating_sub(1);
        match late.cause {
            LossCause::Overtaken => self.controller.on_late(now, &late.sent),
            LossCause::Silence => {
                self.acks_open = true;
                self.controller.on_ack(now, &late.sent, self.round_trip.measured());
            }
        }
        self.flight.on_late(now, late, self.round_trip.measured());
    }

    /// Records a good answer. The window grows for verified bytes only.
    pub(crate) fn on_good(&mut self, now: Duration, answer: RequestAnswer) {
        if answer != RequestAnswer::Unasked {
            self.rest.refusals_in_row = 0;
        }
        if let RequestAnswer::Outstanding { sent, .. } = answer {
            self.controller.on_ack(now, &sent, self.round_trip.measured());
            self.acks_open = true;
        }
    }

    /// Records a congestion mark on an answer: the path from the source is congested.
    pub(crate) fn on_mark(&mut self, now: Duration, answer: RequestAnswer) {
        if let RequestAnswer::Outstanding { sent, .. }
        | RequestAnswer::Late(LostRequest { sent, .. }) = answer
        {
            self.controller.on_mark(now, Some(&sent));
        }
    }

    /// As [`Self::on_mark`], for the answer to `key` that is not handed in yet.
    pub(crate) fn on_mark_before(&mut self, now: Duration, key: ItemKey) {
        if let Some(sent) = self.flight.sent_of(key) {
            self.controller.on_mark(now, Some(&sent));
        }
    }

    /// Records a refusal. After a few in a row the source is not asked for a while.
    pub(crate) fn on_refusal(&mut self, now: Duration) {
        self.rest.refusals_in_row += 1;
        if self.rest.refusals_in_row >= REFUSALS {
            self.pause_after_refusals(now, self.rest.refusals_in_row - REFUSALS);
        }
    }

    /// Stops asking the source for 200 ms, doubled `times` times, up to 4 s.
    pub(crate) fn pause_after_refusals(&mut self, now: Duration, times: u32) {
        self.rest.until = now + (REST_MIN * (1 << times.min(5))).min(REST_MAX);
    }

    /// Forgets the refusals, and ends their rest at `now` at the latest.
    pub(crate) fn reset_refusals(&mut self, now: Duration) {
        self.rest = RefusalBackoff { refusals_in_row: 0, until: self.rest.until.min(now) };
    }

    /// Records that the source sent something that answers no counted request.
    pub(crate) fn on_unrequested_answer(&mut self, now: Duration) {
        if self.silence.silent {
            self.silence.on_received(now, self.round_trip.is_known());
        }
    }

    /// Ends a batch: all packets that arrived together are handed in.
    pub(crate) fn end_acks(&mut self, now: Duration) {
        if core::mem::take(&mut self.acks_open) {
            self.report_pieces();
            self.controller.on_ack_end(now, self.round_trip.measured(), self.flight.bytes());
        }
    }

    fn report_pieces(&mut self) {
        let Some(datagram) = self.pieces.datagram.filter(|_| self.flight.outstanding() > 0) else {
            return;
        };
        // Where the link counts datagrams, each of their losses counts by itself.
        if self.pieces.path.is_some() {
            return;
        }
        let pieces = self.average_request_bytes().div_ceil(datagram);
        if pieces != self.pieces.reported {
            self.pieces.reported = pieces;
            self.controller.set_packets_per_unit(u32::try_from(pieces).unwrap_or(u32::MAX));
        }
    }

    // ---- losses -----------------------------------------------------------------------------

    /// Takes one request that counts as lost by now, oldest first.
    pub(crate) fn take_lost(&mut self, now: Duration) -> Option<ItemKey> {
        let (key, sent) = self.flight.take_lost(now, self.round_trip.for_losses())?;
        self.lost += 1;
        self.controller.on_loss(now, &sent);
        Some(key)
    }

    /// When there is something to do although nothing arrives.
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        if self.flight.outstanding() == 0 {
            return None;
        }
        let probe = self.silence.probe.due(self.round_trip.for_timeouts());
        let lost = self.flight.loss_due(self.round_trip.for_losses());
        Some(lost.map_or(probe, |lost| lost.min(probe)))
    }

    /// Handles a due probe timeout, which detects requests at the end that are not answered. Returns what to ask for
    /// again, from any peer.
    pub(crate) fn on_probe_timer(&mut self, now: Duration) -> Vec<ItemKey> {
        if self.flight.outstanding() == 0
            || now < self.silence.probe.due(self.round_trip.for_timeouts())
        {
            return Vec::new();
        }
        self.silence.probe.back_off();
        self.silence.probes = 1;
        let mut keys: Vec<ItemKey> = self.flight.give_up_oldest(now).into_iter().collect();
        if self.silence.has_lasted(now, self.round_trip.measured()) {
            if !self.silence.silent {
                self.silence.silent = true;
                self.controller.on_persistent_congestion(now);
            }
            keys.extend(core::iter::from_fn(|| self.flight.give_up_oldest(now)));
        }
        self.lost += keys.len() as u64;
        keys
    }

    /// Removes all requests because the source is not asked any more. Returns the outstanding ones, oldest first.
    pub(crate) fn drain(&mut self) -> Vec<ItemKey> {
        self.flight.drain()
    }
}
