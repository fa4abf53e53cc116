//! [`Pipeline`]: requests for numbered packets of one source, as many at once as its window allows.
//!
//! The congestion window, the pacing and the loss detection of one [`Transfer`] peer, for fetches
//! that are no transfer: segments of an object whose packets carry no tree proof. What the packets
//! are, and whether to believe them, is the caller's business.
//!
//! [`Transfer`]: crate::Transfer
//!
//! ```
//! use core::time::Duration;
//! use xylem_transfer::{Config, Pipeline};
//!
//! let (mut pipeline, mut now) = (Pipeline::new(Duration::ZERO, &Config::default()), Duration::ZERO);
//! pipeline.sent(now, 0);
//! now += Duration::from_millis(7);
//! assert!(pipeline.answered(now, 0));
//! assert!(!pipeline.answered(now, 0), "it is not waited for any more");
//! ```

use core::time::Duration;

use xylem_object::ObjectId;
use xylem_tree::SegmentIndex;

use crate::event::Config;
use crate::flight::Answer;
use crate::flow::{DATA_BYTES, Flow};
use crate::key::{Key, Wanted};

/// Requests by number, and how fast to make them. Numbers are below 2^63.
///
/// While [`Pipeline::may_ask`], send a request and tell it by [`Pipeline::sent`]; tell what came by
/// [`Pipeline::answered`]; by [`Pipeline::next_timer`] at the latest, [`Pipeline::take_lost`] until
/// it has no more, and ask for those again.
#[derive(Debug)]
pub struct Pipeline {
    flow: Flow,
    /// Given up by a timer and not taken yet, newest first.
    lost: Vec<Key>,
}

impl Pipeline {
    /// Nothing is asked yet. Of `config` the windows count.
    pub fn new(now: Duration, config: &Config) -> Self {
        Self { flow: Flow::new(now, config), lost: Vec::new() }
    }

    /// Whether a request may go out now.
    pub fn may_ask(&mut self, now: Duration) -> bool {
        self.flow.may_ask(now)
    }

    /// Request `number` went out.
    pub fn sent(&mut self, now: Duration, number: u64) {
        self.flow.on_sent(now, key(number), false, DATA_BYTES);
    }

    /// `number` came and is right: whether it had been asked for and not been answered.
    pub fn answered(&mut self, now: Duration, number: u64) -> bool {
        let answer = self.flow.answered(now, key(number));
        self.flow.on_good(now, answer);
        self.flow.end_acks(now);
        answer != Answer::Unasked
    }

    /// The source refused `number`: whether it had been asked for. After a few refusals in a row
    /// the source is left alone for a while.
    pub fn refused(&mut self, now: Duration, number: u64) -> bool {
        let asked = self.flow.answered(now, key(number)) != Answer::Unasked;
        if asked {
            self.flow.on_refusal(now);
        }
        asked
    }

    /// An answer to `number` came with a congestion mark; tell it before the answer itself.
    pub fn congested(&mut self, now: Duration, number: u64) {
        self.flow.on_mark_before(now, key(number));
    }

    /// One number that counts as lost by now; it is not waited for any more.
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

    /// When to look again although nothing came: for what is lost, or for leave to ask.
    pub fn next_timer(&self, now: Duration) -> Option<Duration> {
        let (timer, token) = (self.flow.next_timer(), self.flow.next_token(now));
        timer.into_iter().chain(token).min()
    }

    /// Requests that are unanswered.
    pub fn outstanding(&self) -> usize {
        self.flow.flight().outstanding()
    }
}

fn key(number: u64) -> Key {
    Wanted::Segment(ObjectId::Root, SegmentIndex(number)).into()
}

fn number(key: Key) -> Option<u64> {
    match key.wanted() {
        Wanted::Segment(_, index) => Some(index.0),
        Wanted::Manifest | Wanted::Tile(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A source 10 ms away that loses every `lossy`th request: everything arrives all the same,
    /// and nothing is asked for that is not missing.
    #[test]
    fn everything_comes_over_a_lossy_way() {
        for lossy in [u64::MAX, 50, 7] {
            let mut pipeline = Pipeline::new(ms(0), &Config::default());
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
    fn a_source_that_refuses_is_left_alone_for_a_while() {
        let mut pipeline = Pipeline::new(ms(0), &Config::default());
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
