//! One peer: what it was asked, how fast it answers, how far it is trusted.
//!
//! Loss detection follows RACK (RFC 8985): a request is lost when one that was sent later has been
//! answered and a round trip and a reordering window have passed. A tail without later requests is
//! probed. Silence, several probe timeouts without any answer, empties the table so that others can be
//! asked; a silent peer is then asked one thing now and then.

use core::time::Duration;

use crate::cubic::{Answered, Cubic};
use crate::event::{Config, PeerId, PeerStats, Standing};
use crate::flight::{Answer, Flight};
use crate::key::Key;
use crate::pacer::Pacer;
use crate::rtt::Rtt;

/// The least wait before a peer counts as silent: disks and schedulers stall that long.
const SILENCE_MIN: Duration = Duration::from_millis(250);
/// Silence is this many probe timeouts.
const SILENCE_TIMEOUTS: u32 = 3;
/// Windows below this leave loss detection nothing to compare with.
const MIN_WINDOW: u32 = 2;
/// Refusals in a row after which a peer is left alone for a while.
const REFUSALS: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(4);
/// Interests that may leave at once whatever the rate.
const BURST: f64 = 16.0;
/// Timers of the caller may be this coarse without slowing anything down.
const BURST_TIME: f64 = 0.002;

/// What `Peer::on_timer` found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost(pub Vec<Key>);

#[derive(Debug)]
pub(crate) struct Peer {
    pub id: PeerId,
    pub rtt: Rtt,
    pub cubic: Cubic,
    pub flight: Flight,
    pacer: Pacer,
    /// Requests below this number have a later one answered.
    answered_below: u64,
    /// Requests below this number were answered while the window was the limit.
    limited_below: u64,
    /// Reordering window in quarters of a round trip, and when it last grew.
    reordering: u32,
    reordering_grew: Option<Duration>,
    /// Since when an answer is waited for without any: the last answer, or the first sending after idleness.
    waiting_since: Duration,
    last_sent: Duration,
    backoff: u32,
    /// Requests that may go out beyond the window, to find out whether the peer is there.
    pub probes: u32,
    pub silent: bool,
    pub dropped: bool,
    pub misbehaviour: u32,
    /// A forwarder: what it brings may come from a cache that somebody else has filled.
    pub forwards: bool,
    refusals_in_row: u32,
    pub rest_until: Duration,
    /// The manifest: how often refused here.
    pub manifest_refusals: u32,
    pub bytes: u64,
    interests: u64,
    lost: u64,
    refused: u64,
}

impl Peer {
    pub(crate) fn new(now: Duration, id: PeerId, config: &Config) -> Self {
        Self {
            id,
            rtt: Rtt::default(),
            cubic: Cubic::new(config.initial_window, MIN_WINDOW, config.max_window),
            flight: Flight::default(),
            pacer: Pacer::default(),
            answered_below: 0,
            limited_below: 0,
            reordering: 1,
            reordering_grew: None,
            waiting_since: now,
            last_sent: now,
            backoff: 0,
            probes: 0,
            silent: false,
            dropped: false,
            misbehaviour: 0,
            forwards: false,
            refusals_in_row: 0,
            rest_until: Duration::ZERO,
            manifest_refusals: 0,
            bytes: 0,
            interests: 0,
            lost: 0,
            refused: 0,
        }
    }

    /// Whether it is asked in the ordinary way.
    pub(crate) fn is_active(&self, now: Duration) -> bool {
        !self.dropped && !self.silent && self.rest_until <= now
    }

    fn has_window(&self) -> bool {
        !self.silent && self.flight.outstanding() < self.cubic.window()
    }

    /// Interests a second, and how many at once.
    fn pace(&self) -> Option<(f64, f64)> {
        let srtt = self.rtt.smoothed()?.as_secs_f64().max(1e-6);
        let gain = if self.cubic.in_slow_start() { 2.5 } else { 1.25 };
        let rate = gain * self.cubic.window() as f64 / srtt;
        Some((rate, (rate * BURST_TIME).max(BURST)))
    }

    /// Whether something may be asked now. Notes when the window is what forbids it.
    pub(crate) fn may_ask(&mut self, now: Duration) -> bool {
        if self.dropped || self.rest_until > now {
            return false;
        }
        if self.probes > 0 {
            return true;
        }
        if !self.has_window() {
            self.limited_below = self.flight.next_sequence();
            return false;
        }
        match self.pace() {
            Some((rate, burst)) if !self.pacer.ready(now, rate, burst) => {
                self.limited_below = self.flight.next_sequence();
                false
            }
            _ => true,
        }
    }

    /// When `may_ask` may hold next for want of tokens alone.
    pub(crate) fn next_token(&self, now: Duration) -> Option<Duration> {
        if self.dropped || !self.has_window() {
            return None;
        }
        if self.rest_until > now {
            return Some(self.rest_until);
        }
        let (rate, burst) = self.pace()?;
        self.pacer.next(rate, burst)
    }

    pub(crate) fn sent(&mut self, now: Duration, key: Key, copied: bool) {
        if self.flight.outstanding() == 0 {
            self.waiting_since = now;
        }
        self.flight.sent(now, key, copied);
        self.pacer.spend(1.0);
        self.last_sent = now;
        self.probes = self.probes.saturating_sub(1);
        self.interests += 1;
    }

    /// The peer answered `key`: proves that it is there, and what was sent before is due.
    pub(crate) fn answered(&mut self, now: Duration, key: Key) -> Answer {
        let answer = self.flight.answered(key);
        match answer {
            Answer::Unasked => {}
            Answer::Late { sent_at } => {
                self.heard(now);
                self.lost = self.lost.saturating_sub(1);
                self.cubic.on_spurious(sent_at);
                self.widen_reordering(now, sent_at);
            }
            Answer::Outstanding { sequence, sent_at, ambiguous } => {
                self.heard(now);
                let rtt = now.saturating_sub(sent_at);
                if !ambiguous {
                    self.rtt.sample(rtt);
                }
                // Faster than ever, and asked twice: this answers the first asking (RFC 8985 6.2).
                let of_first = ambiguous && self.rtt.min().is_none_or(|min| rtt < min);
                if !of_first {
                    self.answered_below = self.answered_below.max(sequence + 1);
                }
            }
        }
        answer
    }

    fn heard(&mut self, now: Duration) {
        self.waiting_since = now;
        self.backoff = 0;
        self.probes = 0;
        self.silent = false;
    }

    fn widen_reordering(&mut self, now: Duration, sent_at: Duration) {
        if self.reordering_grew.is_none_or(|at| sent_at > at) {
            self.reordering = (self.reordering + 1).min(4);
            self.reordering_grew = Some(now);
        }
    }

    /// What the answer was good for: the window grows for verified bytes only.
    pub(crate) fn credit(&mut self, now: Duration, answer: Answer, bytes: usize) {
        if answer == Answer::Unasked {
            return;
        }
        self.bytes += bytes as u64;
        self.refusals_in_row = 0;
        let Answer::Outstanding { sequence, sent_at, ambiguous } = answer else { return };
        let rtt = now.saturating_sub(sent_at);
        self.cubic.on_answer(
            now,
            Answered {
                sent_at,
                sequence,
                next_sequence: self.flight.next_sequence(),
                rtt: (!ambiguous).then_some(rtt),
                smoothed: self.rtt.smoothed().unwrap_or(rtt),
                limited: sequence < self.limited_below,
            },
        );
    }

    /// The peer said that it does not have something. After a few such answers it is left alone.
    pub(crate) fn refused(&mut self, now: Duration) {
        self.refused += 1;
        self.refusals_in_row += 1;
        if self.refusals_in_row >= REFUSALS {
            self.rest(now, self.refusals_in_row - REFUSALS);
        }
    }

    pub(crate) fn rest(&mut self, now: Duration, times: u32) {
        self.rest_until = now + (REST_MIN * (1 << times.min(5))).min(REST_MAX);
    }

    /// Requests that count as lost by now, oldest first.
    pub(crate) fn take_lost(&mut self, now: Duration) -> Option<Key> {
        let delay = self.rtt.loss_delay(self.reordering);
        let sent_by = now.checked_sub(delay)?;
        let (key, sent_at) = self.flight.lose_oldest(now, self.answered_below, sent_by)?;
        self.lost += 1;
        self.cubic.on_loss(now, sent_at);
        Some(key)
    }

    fn probe_at(&self) -> Duration {
        self.waiting_since.max(self.last_sent) + self.rtt.probe_timeout(self.backoff)
    }

    /// When there is something to do although nothing arrives.
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        let (sequence, sent_at) = self.flight.oldest()?;
        let probe = self.probe_at();
        if sequence < self.answered_below {
            return Some(probe.min(sent_at + self.rtt.loss_delay(self.reordering)));
        }
        Some(probe)
    }

    /// Looks for a tail that nothing answers. Returns what is to be asked again, of whomever.
    pub(crate) fn on_probe_timer(&mut self, now: Duration) -> Lost {
        if self.flight.outstanding() == 0 || now < self.probe_at() {
            return Lost::default();
        }
        self.backoff += 1;
        self.probes = 1;
        let silence = (self.rtt.probe_timeout(0) * SILENCE_TIMEOUTS).max(SILENCE_MIN);
        let mut keys = Vec::new();
        if now.saturating_sub(self.waiting_since) >= silence {
            if !self.silent {
                self.silent = true;
                self.cubic.on_silence(now);
            }
            while let Some((key, _)) = self.flight.lose_oldest(now, u64::MAX, now) {
                keys.push(key);
            }
        } else if let Some((key, _)) = self.flight.lose_oldest(now, u64::MAX, now) {
            keys.push(key);
        }
        self.lost += keys.len() as u64;
        Lost(keys)
    }

    pub(crate) fn stats(&self, now: Duration) -> PeerStats {
        PeerStats {
            peer: self.id,
            standing: if self.dropped {
                Standing::Dropped
            } else if self.is_active(now) {
                Standing::Active
            } else {
                Standing::Stalled
            },
            round_trip: self.rtt.smoothed(),
            window: self.cubic.window(),
            in_flight: self.flight.outstanding(),
            bytes: self.bytes,
            interests: self.interests,
            lost: self.lost,
            refused: self.refused,
            misbehaviour: self.misbehaviour,
        }
    }
}
