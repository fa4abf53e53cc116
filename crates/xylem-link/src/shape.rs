//! Shaping: hides a link's own sizes and times from an observer.
//!
//! A [`ShapingProfile`] defines how datagrams are padded ([`Padding`]), when they may leave ([`SendTiming`]) and what leaves when
//! there is nothing to send ([`Cover`]). A [`Level`] is a named profile; the two sides agree on one in the handshake.
//! Each side shapes what it sends. It adds padding frames inside the seal, which the receiver skips whether it shapes
//! or not.
//!
//! A [`Shaper`] is the state of all that for one link. It pulls: a datagram is made when one may leave, so nothing is
//! sealed, numbered or timed before it goes. Waiting packets stay in the link's send queue and count against its limit.
//! docs/spec/link.md, "Shaping", specifies it; docs/shaping.md states its cost and what it does not hide.

use core::time::Duration;

use crate::kdf::LinkRng;
use crate::message::LinkParameters;
use crate::seal::OVERHEAD;

pub(crate) mod cover;
pub(crate) mod padding;
pub(crate) mod profile;
pub(crate) mod timing;

pub use cover::Cover;
pub use padding::Padding;
pub use profile::{Level, NoSuchLevel, Shaping, ShapingProfile};
pub use timing::SendTiming;

use cover::Moments;
use padding::Padder;
use timing::TimingGate;

/// Longest time, roughly, that queued packets wait to be sent; packets beyond it are refused.
const MAX_QUEUED: Duration = Duration::from_millis(250);
/// Bytes that are always accepted.
const MIN_QUEUE: usize = 1 << 16;

/// Shaping of the datagrams that one link sends.
pub(crate) struct Shaper {
    level: Level,
    padder: Padder,
    rng: LinkRng,
    /// Holds datagrams until their moment; `None`: they leave at once.
    gate: Option<TimingGate>,
    /// Constant cover: a moment without a real datagram is filled, until this rest begins.
    constant_cover: Option<CoverRest>,
    /// Poisson cover beside the real datagrams.
    moments: Option<Moments>,
    rest: CoverRest,
    /// Amount sent and received at the last check.
    seen: u64,
}

/// How long after a packet cover stops, and when the last packet was.
#[derive(Clone, Copy, Debug)]
struct CoverRest {
    after: Option<Duration>,
    active: Duration,
}

impl CoverRest {
    fn is_over(self, now: Duration) -> bool {
        self.after.is_some_and(|after| now >= self.active + after)
    }
}

impl Shaper {
    /// The shaper that both sides agreed on in the handshake; `None` for a link that is not shaped.
    pub(crate) fn of_link(
        ours: &Shaping,
        theirs: &LinkParameters,
        rng: &mut LinkRng,
        now: Duration,
    ) -> Option<Box<Self>> {
        let level = Level::agreed(ours, theirs.shaping, theirs.shaping_limit);
        if level == Level::Off {
            return None;
        }
        let custom = ours.custom.as_ref().filter(|_| level == ours.level);
        let profile = custom.map_or_else(|| level.profile(), ShapingProfile::clone);
        Self::new(level, &profile, LinkRng::new(&rng.array()), now)
    }

    /// `None` if the profile changes nothing.
    pub(crate) fn new(
        level: Level,
        profile: &ShapingProfile,
        mut rng: LinkRng,
        now: Duration,
    ) -> Option<Box<Self>> {
        let profile = profile.bounded();
        if profile.is_nothing() {
            return None;
        }
        let (timing, after) = match &profile.cover {
            Cover::None => (profile.timing, None),
            Cover::Constant { interval, rest } => (SendTiming::Fixed(*interval), *rest),
            Cover::Poisson { rest, .. } => (profile.timing, *rest),
        };
        let rest = CoverRest { after, active: now };
        let moments = match profile.cover {
            Cover::Poisson { mean, .. } => Some(Moments::new(mean, now, &mut rng)),
            _ => None,
        };
        Some(Box::new(Self {
            level,
            padder: Padder::new(profile.padding, LinkRng::new(&rng.array())),
            gate: TimingGate::new(timing, profile.burst, now, &mut rng),
            rng,
            constant_cover: matches!(profile.cover, Cover::Constant { .. }).then_some(rest),
            moments,
            rest,
            seen: 0,
        }))
    }

    /// The level in force.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Sizes for datagrams that are filled as packets come, drawn separately from the others.
    pub(crate) fn queue_padder(&mut self) -> Padder {
        self.padder.another(LinkRng::new(&self.rng.array()))
    }

    /// The largest datagram worth making, where the profile limits it.
    pub(crate) fn largest(&self) -> Option<usize> {
        self.padder.padding().largest()
    }

    /// Bytes that may wait, at most `most`, so that they do not wait too long.
    pub(crate) fn queue_bytes(&self, most: usize) -> usize {
        let rate = self.gate.as_ref().map(|gate| gate.rate(self.padder.padding().mean()));
        rate.map_or(most, |bytes_per_second| {
            let queued = bytes_per_second.saturating_mul(MAX_QUEUED.as_millis() as u64) / 1_000;
            usize::try_from(queued).unwrap_or(most).max(MIN_QUEUE).min(most)
        })
    }

    /// Returns whether datagrams leave one by one at moments that the profile chooses.
    pub(crate) fn is_gated(&self) -> bool {
        self.gate.is_some()
    }

    /// Returns whether only sizes are shaped.
    pub(crate) fn is_only_padding(&self) -> bool {
        self.gate.is_none() && self.moments.is_none()
    }

    /// Notes the amount sent and received so far, in packets and in bytes of streams: any change puts off cover's rest.
    pub(crate) fn note_use(&mut self, now: Duration, used: u64) {
        if used != self.seen {
            self.seen = used;
            self.rest.active = now;
            if let Some(fills) = &mut self.constant_cover {
                fills.active = now;
            }
            if let Some(moments) = &mut self.moments {
                moments.wake(now, &mut self.rng);
            }
        }
    }

    /// Returns whether a datagram may leave now. Called again for each; [`Shaper::spent`] reports that one left,
    /// [`Shaper::unused`] that there was none.
    pub(crate) fn may_send(&mut self, now: Duration) -> bool {
        let filling = self.is_filling(now);
        self.gate.as_mut().is_none_or(|gate| gate.is_open(now, filling, &mut self.rng))
    }

    /// Records that a datagram left at the gate's moment.
    pub(crate) fn on_sent(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.spend();
        }
    }

    /// Records that there is nothing real to send at this moment. Returns whether a cover datagram takes its place.
    pub(crate) fn on_nothing_to_send(&mut self, now: Duration) -> bool {
        let fill = self.is_filling(now);
        if let Some(gate) = self.gate.as_mut().filter(|_| !fill) {
            gate.close_moment();
        }
        fill
    }

    /// Returns whether a cover datagram is due beside the real ones.
    pub(crate) fn cover_due(&mut self, now: Duration) -> bool {
        let over = self.rest.is_over(now);
        self.moments.as_mut().is_some_and(|moments| moments.is_due(now, over, &mut self.rng))
    }

    fn is_filling(&self, now: Duration) -> bool {
        self.constant_cover.is_some_and(|rest| !rest.is_over(now))
    }

    /// The size of a datagram that needs `len` bytes, on a path that carries `most`.
    pub(crate) fn size(&mut self, len: usize, most: usize) -> usize {
        self.padder.size(len, most)
    }

    /// The size of a cover datagram.
    pub(crate) fn cover_size(&mut self, most: usize) -> usize {
        // Where sizes follow the content, a content of random length is assumed.
        let len = OVERHEAD + self.rng.below(most.saturating_sub(OVERHEAD) + 1);
        let chosen = self.padder.padding().is_chosen();
        self.padder.size(if chosen { OVERHEAD } else { len }, most)
    }

    /// When the link is due, given that it is `due` then apart from shaping. If the gate is shut at that time, it waits
    /// for the gate's moment.
    pub(crate) fn timeout(&self, due: Option<Duration>) -> Option<Duration> {
        let gate = match &self.gate {
            None => due,
            Some(gate) => gate.timeout(due),
        };
        let cover = self.moments.as_ref().and_then(Moments::next);
        [gate, cover].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn shaper(profile: &ShapingProfile) -> Box<Shaper> {
        Shaper::new(Level::Low, profile, LinkRng::new(&[1; 32]), Duration::ZERO).unwrap()
    }

    #[test]
    fn a_profile_without_shaping_makes_no_shaper() {
        let rng = LinkRng::new(&[1; 32]);
        assert!(Shaper::new(Level::Low, &ShapingProfile::default(), rng, Duration::ZERO).is_none());
    }

    #[test]
    fn cover_stops_when_idle_and_resumes() {
        let cover = Cover::Poisson { mean: 10 * MS, rest: Some(100 * MS) };
        let mut shaper = shaper(&ShapingProfile { cover, ..ShapingProfile::default() });
        let mut sent = Vec::new();
        let mut run = |shaper: &mut Shaper, from: u32, to: u32| {
            sent.clear();
            for t in (from..to).map(|ms| ms * MS) {
                if shaper.cover_due(t) {
                    sent.push(t);
                }
            }
            sent.len()
        };
        assert!(run(&mut shaper, 0, 100) > 0, "the link has just come up");
        assert_eq!(run(&mut shaper, 110, 1_000), 0);
        assert_eq!(shaper.timeout(None), None, "nothing keeps it awake");
        shaper.note_use(1_000 * MS, 1);
        assert!(run(&mut shaper, 1_000, 1_100) > 0);
        shaper.note_use(1_100 * MS, 1);
        assert_eq!(run(&mut shaper, 1_110, 2_000), 0, "no new packet");
    }
}
