//! Delivery rate samples: how fast a flow's packets arrive (draft-ietf-ccwg-bbr, section 4.1).
//!
//! Each packet records how much had been delivered when it was sent. When it arrives, the rate is what was delivered
//! since, over the longer of the time of sending and the time of arriving. Samples of a flow that had nothing to send
//! are marked: they show the demand, not the path's capacity.

use core::time::Duration;

/// The flow's state when a packet was sent. When the packet arrives or is lost, its rate and losses follow from this.
///
/// [`Controller::on_sent`] makes it; the caller keeps it and passes it back once.
///
/// [`Controller::on_sent`]: crate::Controller::on_sent
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    sent_at: Nanos,
    /// The flow when the packet was sent: bytes delivered and lost, the time of the last delivery, and the sending time
    /// of the packet delivered last.
    pub(crate) delivered: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    pub(crate) lost: u64,
    /// Bytes under way, including this packet.
    pub(crate) in_flight: u64,
    bytes: u32,
    /// Whether the flow had less to send than the window allowed.
    pub(crate) app_limited: bool,
}

const _: () =
    assert!(size_of::<SentPacket>() <= 56, "the caller keeps one for every packet under way");

impl SentPacket {
    /// Time of sending.
    pub fn sent_at(&self) -> Duration {
        self.sent_at.into()
    }

    /// Size given to [`Controller::on_sent`](crate::Controller::on_sent).
    pub fn bytes(&self) -> u64 {
        self.bytes.into()
    }
}

/// Nanoseconds since the caller's epoch: half the size of a `Duration`, for 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Nanos(u64);

impl From<Duration> for Nanos {
    fn from(at: Duration) -> Self {
        Self(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(at: Nanos) -> Self {
        Self::from_nanos(at.0)
    }
}

/// Measurements of the path by one acknowledgement of one or many packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Bytes a second; `None` if the interval is too short.
    pub rate: Option<f64>,
    pub app_limited: bool,
    /// Bytes delivered during the interval, and by this acknowledgement.
    pub delivered: u64,
    pub newly_delivered: u64,
    /// Bytes lost since the newest of the packets was sent, and in all; bytes under way when it was sent.
    pub lost: u64,
    pub lost_in_all: u64,
    pub in_flight_at_sending: u64,
    /// Bytes delivered when the newest packet was sent.
    pub prior_delivered: u64,
}

/// The counters of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryCounters {
    /// Bytes delivered and lost in all.
    pub delivered: u64,
    pub lost: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    /// Packets are marked until this many bytes are delivered; 0 if they are not.
    app_limited_until: u64,
    /// Since the last sample: the newest packet that arrived, and the bytes.
    newest: Option<SentPacket>,
    newly_delivered: u64,
}

impl DeliveryCounters {
    pub(crate) fn on_sent(
        &mut self,
        now: Duration,
        bytes: u64,
        in_flight_before: u64,
    ) -> SentPacket {
        let now = Nanos::from(now);
        if in_flight_before == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        SentPacket {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost,
            in_flight: in_flight_before.saturating_add(bytes),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            app_limited: self.app_limited_until > 0,
        }
    }

    /// Handles an arrival. `counted`: the packet's bytes count here, as [`Self::on_path`] does not report them.
    pub(crate) fn on_ack(&mut self, now: Duration, sent: &SentPacket, counted: bool) {
        if counted {
            self.deliver(now, sent.bytes());
        }
        let key = |s: &SentPacket| (s.sent_at, s.delivered);
        if self.newest.is_none_or(|newest| key(sent) >= key(&newest)) {
            self.newest = Some(*sent);
            self.first_sent_at = sent.sent_at;
        }
    }

    pub(crate) fn on_loss(&mut self, sent: &SentPacket) {
        self.lost += sent.bytes();
    }

    fn deliver(&mut self, now: Duration, bytes: u64) {
        self.delivered += bytes;
        self.newly_delivered += bytes;
        self.delivered_at = now.into();
    }

    /// Adds bytes that the path delivered, of any packets, and the change of the bytes lost.
    pub(crate) fn on_path(&mut self, now: Duration, brought: u64, lost: i64) {
        if brought > 0 {
            self.deliver(now, brought);
        }
        self.lost = self.lost.saturating_add_signed(lost);
    }

    /// Handles the late arrival of a packet that counted as lost.
    pub(crate) fn on_late(&mut self, sent: &SentPacket) {
        self.lost = self.lost.saturating_sub(sent.bytes());
        self.delivered += sent.bytes();
        self.newly_delivered += sent.bytes();
    }

    pub(crate) fn app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// The measurements since the last call; `None` if there was no acknowledgement. An interval shorter than `min_rtt`
    /// is one of packets that arrived together, and gives no rate.
    pub(crate) fn sample(&mut self, min_rtt: Duration) -> Option<Sample> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let newest = self.newest.take()?;
        let newly_delivered = core::mem::take(&mut self.newly_delivered);
        let delivered = self.delivered - newest.delivered;
        let sending = newest.sent_at.0.saturating_sub(newest.first_sent_at.0);
        let arriving = self.delivered_at.0.saturating_sub(newest.delivered_at.0);
        let interval = Duration::from_nanos(sending.max(arriving));
        let rate = (interval >= min_rtt && !interval.is_zero())
            .then(|| delivered as f64 / interval.as_secs_f64());
        Some(Sample {
            rate,
            app_limited: newest.app_limited,
            delivered,
            newly_delivered,
            lost: self.lost.saturating_sub(newest.lost),
            lost_in_all: self.lost,
            in_flight_at_sending: newest.in_flight,
            prior_delivered: newest.delivered,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_rate_is_that_of_the_bottleneck() {
        // Sent at once, packets of 1,000 bytes arrive one a millisecond after a round trip of 10 ms.
        let mut d = DeliveryCounters::default();
        let mut window: std::collections::VecDeque<SentPacket> =
            (0..20).map(|i| d.on_sent(ms(0), 1_000, i * 1_000)).collect();
        let mut rates = Vec::new();
        for i in 0..200 {
            let now = ms(10 + i);
            let sent = window.pop_front().unwrap();
            d.on_ack(now, &sent, true);
            rates.extend(d.sample(ms(10)).and_then(|s| s.rate));
            window.push_back(d.on_sent(now, 1_000, 19_000));
        }
        let last = rates[rates.len() - 1];
        assert!((last - 1e6).abs() < 1e4, "{last}");
        assert!(rates.iter().all(|r| *r < 1.01e6 * 2.0), "never faster than it left");
    }

    #[test]
    fn packets_of_an_idle_flow_are_marked_until_delivered() {
        let mut d = DeliveryCounters::default();
        let a = d.on_sent(ms(0), 500, 0);
        d.app_limited(500);
        let b = d.on_sent(ms(1), 500, 500);
        let c = d.on_sent(ms(1), 500, 1_000);
        assert_eq!([a.app_limited, b.app_limited, c.app_limited], [false, true, true]);
        d.on_ack(ms(10), &a, true);
        assert!(d.sample(ms(1)).is_some_and(|s| !s.app_limited));
        assert!(d.on_sent(ms(10), 500, 1_000).app_limited, "500 of 500: not past it");
        d.on_ack(ms(11), &b, true);
        assert!(d.sample(ms(1)).is_some_and(|s| s.app_limited && s.newly_delivered == 500));
        assert!(!d.on_sent(ms(11), 500, 1_000).app_limited);
    }

    #[test]
    fn simultaneous_arrivals_and_silence_give_no_rate() {
        let mut d = DeliveryCounters::default();
        assert_eq!(d.sample(ms(0)), None);
        let a = d.on_sent(ms(5), 500, 0);
        d.on_ack(ms(5), &a, true);
        assert!(d.sample(ms(0)).is_some_and(|s| s.rate.is_none()));
        let lost = d.on_sent(ms(6), 500, 0);
        d.on_loss(&lost);
        assert_eq!((d.lost, d.delivered), (500, 500));
        d.on_late(&lost);
        assert_eq!((d.lost, d.delivered), (0, 1_000));
        assert_eq!(d.sample(ms(0)), None, "no packet arrived in time");
    }
}
