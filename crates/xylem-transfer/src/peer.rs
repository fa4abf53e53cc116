//! One peer: what it was asked, how fast it answers, how far it is trusted.
//!
//! Loss detection follows RACK (RFC 8985): a request is lost when one that was sent later has been
//! answered and a round trip and a reordering window have passed. A tail without later requests is
//! probed. Silence, several probe timeouts without any answer, empties the table so that others can be
//! asked; a silent peer is then asked one thing now and then.

use core::time::Duration;

use xylem_congestion::{Algorithm, Controller, Pacer, Rtt};
use xylem_packet::MAX_PACKET;

use crate::available::{Available, Runs};
use crate::event::{Config, PeerId, PeerStats, Standing};
use crate::flight::{Answer, Flight, Late, Told};
use crate::key::Key;
use crate::question::Questions;
use crate::rarest::Block;
use crate::turns::Served;

/// The least wait before a peer counts as silent: disks and schedulers stall that long.
const SILENCE_MIN: Duration = Duration::from_millis(250);
/// Silence is this many probe timeouts.
const SILENCE_TIMEOUTS: u32 = 3;
/// Refusals in a row after which a peer is left alone for a while.
const REFUSALS: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(4);
/// What the largest Data weighs: the unit of the smallest windows.
pub(crate) const DATA_BYTES: u64 = MAX_PACKET as u64;
/// Up to here CUBIC fills a path as well as BBR does, and a machine's own delays blur what BBR measures.
const SHORT_PATH: Duration = Duration::from_millis(5);
/// A retransmission should come within the Interest's lifetime, so no wait is longer than this.
const MAX_TIMEOUT: Duration = Duration::from_secs(4);

/// What `Peer::on_timer` found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost(pub Vec<Key>);

#[derive(Debug)]
pub(crate) struct Peer {
    pub id: PeerId,
    pub rtt: Rtt,
    pub congestion: Controller,
    /// The algorithm is chosen by the path: the first short round trip decides.
    by_path: bool,
    pub flight: Flight,
    pacer: Pacer,
    /// What the path carries in one piece, if that is known: a Data in several arrives only if all do.
    datagram: Option<u64>,
    /// Pieces of a Data, as congestion control was told.
    pieces: u64,
    /// Requests below this number have a later one answered.
    answered_below: u64,
    /// Interests that may be unanswered at most.
    max_window: usize,
    /// Something was answered since [`Self::after_answers`].
    untold: bool,
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
    /// What it has; `None`: everything, as far as is known.
    pub available: Option<Available>,
    pub questions: Questions,
    /// The block that it is being asked for, when rare ones go first.
    pub block: Option<Block>,
    pub served: Served,
    /// It had room and nothing to be asked for when it was last looked at; until when, and of which
    /// `Transfer::supply`, that need not be looked for again.
    pub starved: bool,
    pub starved_until: (Duration, u64),
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
            congestion: Controller::new(
                config.congestion.unwrap_or(Algorithm::Bbr),
                now,
                DATA_BYTES,
            ),
            by_path: config.congestion.is_none(),
            flight: Flight::default(),
            pacer: Pacer::default(),
            datagram: None,
            pieces: 1,
            answered_below: 0,
            max_window: config.max_window as usize,
            untold: false,
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
            available: None,
            questions: Questions::default(),
            block: None,
            served: Served::default(),
            starved: false,
            starved_until: (Duration::ZERO, 0),
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
        !self.silent
            && self.flight.outstanding() < self.max_window
            && self.flight.bytes() < self.congestion.window()
    }

    /// Bytes a second to ask for, and how many at once.
    fn pace(&self) -> (u64, u64) {
        (self.congestion.pacing_rate(), self.congestion.burst())
    }

    /// How many requests of the kind that is outstanding now make a window.
    pub(crate) fn window_in_requests(&self) -> u64 {
        (self.congestion.window() / self.usual_bytes()).min(self.max_window as u64)
    }

    /// What one of the outstanding requests weighs on average.
    fn usual_bytes(&self) -> u64 {
        match self.flight.outstanding() as u64 {
            0 => DATA_BYTES,
            n => (self.flight.bytes() / n).max(1),
        }
    }

    /// The path to and from this peer carries datagrams of so many bytes.
    pub(crate) fn set_datagram(&mut self, bytes: u64) {
        self.datagram = Some(bytes.max(1));
    }

    fn tell_pieces(&mut self) {
        let Some(datagram) = self.datagram.filter(|_| self.flight.outstanding() > 0) else {
            return;
        };
        let pieces = self.usual_bytes().div_ceil(datagram);
        if pieces != self.pieces {
            self.pieces = pieces;
            self.congestion.set_packets_per_unit(u32::try_from(pieces).unwrap_or(u32::MAX));
        }
    }

    /// Whether something may be asked now.
    pub(crate) fn may_ask(&mut self, now: Duration) -> bool {
        if self.dropped || self.rest_until > now {
            return false;
        }
        if self.probes > 0 {
            return true;
        }
        let (rate, burst) = self.pace();
        self.has_window() && self.pacer.ready(now, rate, burst)
    }

    /// There is nothing to ask it for: if it may be asked, what it answers says little of its path.
    pub(crate) fn idle(&mut self, now: Duration) {
        if self.may_ask(now) {
            self.congestion.app_limited(self.flight.bytes());
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
        let (rate, burst) = self.pace();
        self.pacer.next(rate, burst)
    }

    /// A request leaves that calls for `bytes`.
    pub(crate) fn sent(&mut self, now: Duration, key: Key, copied: bool, bytes: u64) {
        if self.flight.outstanding() == 0 {
            self.waiting_since = now;
        }
        let sent = self.congestion.on_sent(now, bytes, self.flight.bytes());
        self.flight.sent(sent, key, copied);
        self.pacer.spend(bytes);
        self.last_sent = now;
        self.probes = self.probes.saturating_sub(1);
        self.interests += 1;
    }

    /// The peer answered `key`: proves that it is there, and what was sent before is due.
    pub(crate) fn answered(&mut self, now: Duration, key: Key) -> Answer {
        let answer = self.flight.answered(key);
        match answer {
            Answer::Unasked => {}
            Answer::Late(late) => {
                self.heard(now);
                self.came_late(now, late);
            }
            Answer::Outstanding { sequence, sent, earlier } => {
                self.heard(now);
                let rtt = now.saturating_sub(sent.sent_at());
                if earlier.is_none() {
                    self.choose_algorithm(rtt);
                    self.rtt.sample(rtt, Duration::ZERO);
                }
                // Faster than ever, and asked twice: this answers the first asking (RFC 8985 6.2).
                match earlier.filter(|_| self.rtt.min().is_none_or(|min| rtt < min)) {
                    Some(late) => self.came_late(now, late),
                    None => self.answered_below = self.answered_below.max(sequence + 1),
                }
            }
        }
        answer
    }

    /// Segments of an object that it has, as far as is known.
    #[inline]
    pub(crate) fn runs(&self, object: u64) -> Runs<'_> {
        self.available.as_ref().map_or(Runs::All, |available| available.runs(object))
    }

    /// Bytes a second that its window lets it bring; what has not been measured is taken for fast.
    pub(crate) fn rate(&self) -> u64 {
        let Some(rtt) = self.rtt.smoothed() else { return u64::MAX };
        let rate = u128::from(self.congestion.window()) * 1_000_000 / rtt.as_micros().max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// It has said something, if not in answer to what its window counts.
    pub(crate) fn is_there(&mut self, now: Duration) {
        if self.silent {
            self.heard(now);
        }
    }

    /// Its refusals until now are no reason to leave it alone.
    pub(crate) fn forgive(&mut self, now: Duration) {
        self.refusals_in_row = 0;
        self.rest_until = self.rest_until.min(now);
    }

    fn heard(&mut self, now: Duration) {
        self.waiting_since = now;
        self.backoff = 0;
        self.probes = 0;
        self.silent = false;
    }

    fn choose_algorithm(&mut self, rtt: Duration) {
        if self.by_path && rtt < SHORT_PATH {
            self.congestion.switch_to_cubic();
            self.by_path = false;
        }
    }

    /// What counted as lost has come: it was not.
    fn came_late(&mut self, now: Duration, late: Late) {
        self.lost = self.lost.saturating_sub(1);
        match late.told {
            Told::Loss => self.congestion.on_late(now, &late.sent),
            Told::Nothing => {
                self.untold = true;
                self.congestion.on_ack(now, &late.sent, &self.rtt, self.flight.bytes());
            }
        }
        self.widen_reordering(now, late.sent.sent_at());
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
        if let Answer::Outstanding { sent, .. } = answer {
            self.congestion.on_ack(now, &sent, &self.rtt, self.flight.bytes());
            self.untold = true;
        }
    }

    /// All that arrived together has been told.
    pub(crate) fn after_answers(&mut self, now: Duration) {
        if !core::mem::take(&mut self.untold) {
            return;
        }
        self.tell_pieces();
        self.congestion.on_ack_end(now, &self.rtt, self.flight.bytes());
    }

    /// An answer came marked: the way from the peer is congested.
    pub(crate) fn marked(&mut self, now: Duration, answer: Answer) {
        match answer {
            Answer::Outstanding { sent, .. } | Answer::Late(Late { sent, .. }) => {
                self.congestion.on_mark(now, Some(&sent));
            }
            Answer::Unasked => {}
        }
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
        let (key, sent) = self.flight.lose_oldest(now, self.answered_below, sent_by, Told::Loss)?;
        self.lost += 1;
        self.congestion.on_loss(now, &sent, self.flight.bytes());
        Some(key)
    }

    fn probe_timeout(&self, backoff: u32) -> Duration {
        self.rtt.probe_timeout(Duration::ZERO, backoff).min(MAX_TIMEOUT)
    }

    fn probe_at(&self) -> Duration {
        self.waiting_since.max(self.last_sent) + self.probe_timeout(self.backoff)
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
        let silence = (self.probe_timeout(0) * SILENCE_TIMEOUTS).max(SILENCE_MIN);
        let mut keys = Vec::new();
        if now.saturating_sub(self.waiting_since) >= silence {
            if !self.silent {
                self.silent = true;
                self.congestion.on_persistent_congestion(now);
            }
            while let Some((key, _)) = self.flight.lose_oldest(now, u64::MAX, now, Told::Nothing) {
                keys.push(key);
            }
        } else if let Some((key, _)) = self.flight.lose_oldest(now, u64::MAX, now, Told::Nothing) {
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
            window: self.congestion.window(),
            in_flight: self.flight.bytes(),
            bytes: self.bytes,
            interests: self.interests,
            lost: self.lost,
            refused: self.refused,
            misbehaviour: self.misbehaviour,
        }
    }
}
