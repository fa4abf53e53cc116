//! [`Pipeline`]: requests for numbered packets of one source, as many at once as its congestion window allows.
//!
//! It has the congestion window, pacing and loss detection of one [`Transfer`] peer. It serves fetches that are no
//! transfer: segments of an object whose packets carry no tree proof. The caller decides what the packets are and
//! whether to accept them.
//!
//! [`Transfer`]: crate::Transfer
//!
//! ```
//! use core::time::Duration;
//! use xylem_transfer::{TransferConfig, Pipeline};
//!
//! let (mut pipeline, mut now) = (Pipeline::new(Duration::ZERO, &TransferConfig::default()), Duration::ZERO);
//! pipeline.sent(now, 0);
//! now += Duration::from_millis(7);
//! assert!(pipeline.answered(now, 0));
//! assert!(!pipeline.answered(now, 0), "it is not waited for any more");
//! ```

use core::time::Duration;

use xylem_object::ObjectId;
use xylem_tree::SegmentIndex;

use crate::event::TransferConfig;
use crate::flight::RequestAnswer;
use crate::flow::{DATA_BYTES, SourceFlow};
use crate::key::{ItemKey, RequestedItem};

/// Outstanding requests by number, and the rate at which to make them. Numbers are below 2^63.
///
/// While [`Pipeline::may_ask`] returns true, send a request and call [`Pipeline::sent`]. Call [`Pipeline::answered`]
/// for each answer. At [`Pipeline::next_timer`] at the latest, call [`Pipeline::take_lost`] until it returns `None`,
/// and request those numbers again.
#[derive(Debug)]
pub struct Pipeline {
    flow: SourceFlow,
    /// Requests that a timer gave up and the caller has not taken, newest first.
    lost: Vec<ItemKey>,
}

impl Pipeline {
    /// A pipeline without requests. It uses the window limits and the congestion algorithm of `config`.
    pub fn new(now: Duration, config: &TransferConfig) -> Self {
        Self { flow: SourceFlow::new(now, config), lost: Vec::new() }
    }

    /// Whether a request may be sent now.
    pub fn may_ask(&mut self, now: Duration) -> bool {
        self.flow.may_ask(now)
    }

    /// Records that request `number` was sent.
    pub fn sent(&mut self, now: Duration, number: u64) {
        self.flow.on_sent(now, key(number), false, DATA_BYTES);
    }

    /// Records a correct answer to `number`. Returns whether it had been requested: false if it was never requested, or
    /// was answered before.
    pub fn answered(&mut self, now: Duration, number: u64) -> bool {
        let answer = self.flow.answered(now, key(number));
        self.flow.on_good(now, answer);
        self.flow.end_acks(now);
        answer != RequestAnswer::Unasked
    }

    /// Records that the source refused `number`. Returns whether it had been requested. After a few refusals in a row
    /// the source is not asked for a while.
    pub fn refused(&mut self, now: Duration, number: u64) -> bool {
        let asked = self.flow.answered(now, key(number)) != RequestAnswer::Unasked;
        if asked {
            self.flow.on_refusal(now);
        }
        asked
    }

    /// Records that the answer to `number` carries a congestion mark. Call this before [`Pipeline::answered`].
    pub fn congested(&mut self, now: Duration, number: u64) {
        self.flow.on_mark_before(now, key(number));
    }

    /// Takes one number that counts as lost by now. It is no longer outstanding.
    pub fn take_lost(&mut self, now: Duration) -> Option<u64> {
        if self.lost.is_empty() {
            if let Some(lost) = self.flow.take_lost(now) {
                return number(lost);
            }
            self.lost = self.flow.on_probe_timer(now);
            self.lost.reverse();
        }
        self.lost.pop().and_then(number)
    }

    /// When to call [`Pipeline::take_lost`] and [`Pipeline::may_ask`] again although nothing arrived.
    pub fn next_timer(&self, now: Duration) -> Option<Duration> {
        let (timer, token) = (self.flow.next_timer(), self.flow.next_token(now));
        timer.into_iter().chain(token).min()
    }

    /// The number of unanswered requests.
    pub fn outstanding(&self) -> usize {
        self.flow.flight().outstanding()
    }
}

fn key(number: u64) -> ItemKey {
    RequestedItem::Segment(ObjectId::Root, SegmentIndex(number)).into()
}

fn number(key: ItemKey) -> Option<u64> {
    match key.wanted() {
        RequestedItem::Segment(_, index) => Some(index.0),
        RequestedItem::Manifest | RequestedItem::Tile(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A source 10 ms away that loses every `lossy`th request. Everything arrives, and only missing numbers are
    /// requested again.
    #[test]
    fn every_packet_arrives_over_a_lossy_path() {
        for lossy in [u64::MAX, 50, 7] {
            let mut pipeline = Pipeline::new(ms(0), &TransferConfig::default());
            let (mut now, mut sent, mut next) = (ms(0), 0_u64, 0);
            let mut again = Vec::new();
            let mut under_way = std::collections::VecDeque::new();
            let mut missing: std::collections::BTreeSet<u64> = (0..2000).collect();
            while !missing.is_empty() {
                assert!(now < ms(60_000), "{lossy}: {} missing", missing.len());
                while pipeline.may_ask(now) {
                    let fresh = (next < 2000).then_some(next);
                    let Some(n) = again.pop().or(fresh) else { break };
                    next += u64::from(Some(n) == fresh);
                    pipeline.sent(now, n);
                    sent += 1;
                    if sent % lossy != 0 {
                        under_way.push_back((now + ms(10), n));
                    }
                }
                now += ms(1);
                while let Some(&(at, n)) = under_way.front()
                    && at <= now
                {
                    under_way.pop_front();
                    pipeline.answered(now, n);
                    missing.remove(&n);
                }
                while let Some(lost) = pipeline.take_lost(now) {
                    assert!(missing.contains(&lost));
                    again.push(lost);
                }
            }
            assert!(sent <= 2000 + 2000 / lossy.min(2000) * 2 + 2, "{lossy}: {sent} sent");
        }
    }

    #[test]
    fn a_refusing_source_is_not_asked_for_a_while() {
        let mut pipeline = Pipeline::new(ms(0), &TransferConfig::default());
        for n in 0..4 {
            assert!(pipeline.may_ask(ms(0)));
            pipeline.sent(ms(0), n);
        }
        assert!((0..4).all(|n| pipeline.refused(ms(1), n)));
        assert!(!pipeline.refused(ms(1), 9));
        assert!(!pipeline.may_ask(ms(2)));
        let again = pipeline.next_timer(ms(2)).expect("it is asked again");
        assert!(pipeline.may_ask(again));
    }
}
