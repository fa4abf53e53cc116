//! The entry type: one flow's counters, and the algorithm that judges by them.

use core::fmt;
use core::time::Duration;

use crate::bbr::Bbr;
use crate::cubic::Cubic;
use crate::delivery::{Delivery, Sent};
use crate::ledbat::Ledbat;
use crate::rtt::Rtt;

/// Timers of the caller may be this coarse without slowing anything down: bursts of 2 ms.
const BURSTS_PER_SECOND: u64 = 500;

/// How a flow finds its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RFC 9438: fills the buffer at the bottleneck until packets are lost.
    Cubic,
    /// draft-ietf-ccwg-bbr (version 3): measures the bottleneck's rate and the round trip, and sends at
    /// that rate; takes no notice of losses below 2 %.
    Bbr,
    /// draft-irtf-iccrg-ledbat-plus-plus: yields to everybody else, by delay before packets are lost.
    Ledbat,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Ledbat => "ledbat++",
        })
    }
}

// No box: programs without an allocator have flows too, and most flows are BBR's.
#[expect(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub(crate) enum State {
    Cubic(Cubic),
    Bbr(Bbr),
    Ledbat(Ledbat),
}

/// The losses of one round trip, which one reduction is made for.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    /// When the first was noticed: what left later and is lost begins another.
    at: Duration,
    /// Packets that count as lost and have not come late.
    lost: u32,
}

/// Congestion control of one flow. Sizes in bytes, as the caller weighs its packets.
///
/// Order of calls: [`on_sent`](Self::on_sent) for each packet; for each acknowledgement,
/// [`on_ack`](Self::on_ack) for every packet in it and [`on_loss`](Self::on_loss) for every one that it
/// proves lost, then once [`on_ack_end`](Self::on_ack_end). All `now` count from one epoch and do not
/// go back.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(crate) state: State,
    delivery: Delivery,
    /// The mean round trip, once known.
    smoothed: Option<Duration>,
    reduction: Option<Reduction>,
    /// What arrives and is lost is told by [`Controller::on_path`].
    path_tells: bool,
}

impl Controller {
    /// A flow that has sent nothing. `packet_bytes`, the size of a usual packet, is the unit of the
    /// smallest windows and of their growth.
    pub fn new(algorithm: Algorithm, now: Duration, packet_bytes: u64) -> Self {
        let packet = packet_bytes.max(1);
        let state = match algorithm {
            Algorithm::Cubic => State::Cubic(Cubic::new(packet)),
            Algorithm::Bbr => State::Bbr(Bbr::new(now, packet)),
            Algorithm::Ledbat => State::Ledbat(Ledbat::new(packet)),
        };
        Self {
            state,
            delivery: Delivery::default(),
            smoothed: None,
            reduction: None,
            path_tells: false,
        }
    }

    /// CUBIC from here on, in slow start from the window that there is. What is under way counts on.
    pub fn switch_to_cubic(&mut self) {
        if let State::Bbr(bbr) = &self.state {
            self.state = State::Cubic(bbr.as_cubic());
        }
    }

    /// A packet of `bytes` leaves. Keep what comes back until the packet arrives or is lost.
    pub fn on_sent(&mut self, now: Duration, bytes: u64, in_flight_before: u64) -> Sent {
        let sent = self.delivery.on_sent(now, bytes, in_flight_before);
        match &mut self.state {
            State::Cubic(cubic) => cubic.on_sent(sent.in_flight),
            State::Bbr(bbr) => bbr.on_sent(now, in_flight_before, bytes, sent.app_limited),
            State::Ledbat(ledbat) => ledbat.on_sent(sent.in_flight),
        }
        sent
    }

    /// A packet arrived that had not counted as lost.
    pub fn on_ack(&mut self, now: Duration, sent: &Sent, rtt: &Rtt) {
        self.delivery.on_ack(now, sent, !self.is_told_by_path());
        match &mut self.state {
            State::Cubic(cubic) => {
                cubic.on_ack(now, sent, self.delivery.delivered, rtt);
            }
            State::Bbr(_) => {} // it looks at acknowledgements, not at packets
            State::Ledbat(ledbat) => {
                ledbat.on_ack(now, sent, self.delivery.delivered, rtt.latest());
            }
        }
    }

    /// The packets of one acknowledgement have all been told.
    pub fn on_ack_end(&mut self, now: Duration, rtt: &Rtt, in_flight: u64) {
        self.smoothed = rtt.smoothed();
        let Some(sample) = self.delivery.sample(rtt.min().unwrap_or_default()) else { return };
        if let State::Bbr(bbr) = &mut self.state {
            bbr.on_ack(now, &sample, self.delivery.delivered, rtt, in_flight);
            if bbr.is_holding_back() {
                self.delivery.app_limited(in_flight);
            }
        }
    }

    /// A packet took so long, which `rtt` knows: to be told at once where packets are told of later and together, and
    /// needed by CUBIC alone, beside [`Self::on_path`].
    pub fn on_round_trip(&mut self, took: Duration, rtt: &Rtt) {
        if let State::Cubic(cubic) = &mut self.state {
            cubic.on_round_trip(took, rtt);
        }
    }

    /// Whether packets tell round trips alone ([`Self::on_path`]).
    fn is_told_by_path(&self) -> bool {
        self.path_tells && matches!(self.state, State::Bbr(_))
    }

    /// What carries the packets here does so in pieces, and repairs them: since the last call so many bytes came of
    /// them, and so many pieces of `piece` bytes were missed more than before; fewer, where some came after all. From
    /// the first call on BBR takes rates and losses from this: a packet comes when its last piece does, some at
    /// once and some late, which says as much of repairs as of the path. CUBIC goes by packets, and
    /// hears of what a queue has lost. LEDBAT++ goes by packets, and takes what is missed for lost.
    ///
    /// Returns the bytes that the repairs of it add to what the rate lets out, for [`Pacer::charge`]: what is lost
    /// by chance passes the bottleneck once, what its queue has dropped comes to it again.
    ///
    /// [`Pacer::charge`]: crate::Pacer::charge
    pub fn on_path(&mut self, now: Duration, brought: u64, missed: i64, piece: u64) -> i64 {
        self.path_tells = true;
        let lost = missed.saturating_mul(piece.min(1 << 20) as i64);
        match &mut self.state {
            State::Bbr(bbr) => {
                self.delivery.on_path(now, brought, lost);
                bbr.on_path_loss(missed);
                bbr.beyond_chance(brought, lost)
            }
            State::Ledbat(ledbat) => {
                ledbat.on_path_loss(now, missed, self.smoothed.unwrap_or_default());
                0
            }
            State::Cubic(cubic) => {
                cubic.on_path(brought, lost, piece);
                0
            }
        }
    }

    /// A packet is lost.
    pub fn on_loss(&mut self, now: Duration, sent: &Sent) {
        if self.is_told_by_path() {
            return;
        }
        self.delivery.on_loss(sent);
        match &mut self.reduction {
            Some(reduction) if sent.sent_at() <= reduction.at => reduction.lost += 1,
            _ => {
                self.reduction = Some(Reduction { at: now, lost: 1 });
                if let State::Bbr(bbr) = &mut self.state {
                    bbr.save();
                }
            }
        }
        match &mut self.state {
            State::Cubic(cubic) => cubic.on_loss(now, sent.sent_at()),
            State::Bbr(bbr) => bbr.on_loss(now, sent, self.delivery.lost),
            State::Ledbat(ledbat) => ledbat.on_loss(now, sent.sent_at()),
        }
    }

    /// A packet that [`Self::on_loss`] was told of arrived after all. Once all that the last reduction
    /// was made for did, it is taken back.
    pub fn on_late(&mut self, now: Duration, sent: &Sent) {
        if self.is_told_by_path() {
            return;
        }
        self.delivery.on_late(sent);
        if let State::Bbr(bbr) = &mut self.state {
            bbr.on_late();
        }
        let Some(reduction) = &mut self.reduction else { return };
        if sent.sent_at() > reduction.at || reduction.lost == 0 {
            return;
        }
        reduction.lost -= 1;
        if reduction.lost > 0 {
            return;
        }
        match &mut self.state {
            State::Cubic(cubic) => cubic.on_spurious(),
            State::Bbr(bbr) => bbr.on_spurious(now),
            State::Ledbat(_) => {} // it has no hurry
        }
    }

    /// The path says that it is congested: by a mark (ECN CE, or an NDN congestion mark) on this
    /// packet, or on one that is not known.
    pub fn on_mark(&mut self, now: Duration, sent: Option<&Sent>) {
        let sent_at = sent.map_or(now, Sent::sent_at);
        match &mut self.state {
            State::Cubic(cubic) => cubic.on_mark(now, sent_at),
            State::Bbr(bbr) => bbr.on_mark(now, sent),
            State::Ledbat(ledbat) => ledbat.on_loss(now, sent_at),
        }
    }

    /// Nothing arrived for so long that what was known of the path no longer holds (RFC 9002 section
    /// 7.6.2, or silence).
    pub fn on_persistent_congestion(&mut self, now: Duration) {
        match &mut self.state {
            State::Cubic(cubic) => cubic.on_persistent_congestion(now),
            State::Bbr(bbr) => bbr.on_persistent_congestion(),
            State::Ledbat(ledbat) => ledbat.on_persistent_congestion(now),
        }
    }

    /// There is nothing to send though the window and the rate have room: what arrives next says
    /// nothing of what the path can carry.
    pub fn app_limited(&mut self, in_flight: u64) {
        self.delivery.app_limited(in_flight);
    }

    /// The usual packet has this size now, say because the path's MTU is better known.
    pub fn set_packet_bytes(&mut self, bytes: u64) {
        match &mut self.state {
            State::Cubic(cubic) => cubic.set_packet_bytes(bytes.max(1)),
            State::Bbr(bbr) => bbr.set_packet_bytes(bytes.max(1)),
            State::Ledbat(ledbat) => ledbat.set_packet_bytes(bytes.max(1)),
        }
    }

    /// What is a packet here travels in so many of the path's, and arrives only if all of them do:
    /// one that is lost tells of a loss among them. BBR's loss threshold holds for those; the others make
    /// no difference. 1 at first; more than 16 count as 16.
    pub fn set_packets_per_unit(&mut self, packets: u32) {
        match &mut self.state {
            State::Cubic(_) | State::Ledbat(_) => {}
            State::Bbr(bbr) => bbr.set_packets_per_unit(packets),
        }
    }

    /// Bytes that may be under way at most.
    pub fn window(&self) -> u64 {
        match &self.state {
            State::Cubic(cubic) => cubic.window(),
            State::Bbr(bbr) => bbr.window(),
            State::Ledbat(ledbat) => ledbat.window(),
        }
    }

    /// Bytes a second to send at most; `u64::MAX` before there is a round trip to spread them over.
    pub fn pacing_rate(&self) -> u64 {
        match &self.state {
            State::Cubic(cubic) => self.smoothed.map_or(u64::MAX, |s| cubic.pacing_rate(s)),
            State::Bbr(bbr) => bbr.pacing_rate(),
            State::Ledbat(ledbat) => self.smoothed.map_or(u64::MAX, |s| ledbat.pacing_rate(s)),
        }
    }

    /// Bytes that may leave at once: what [`Pacer`] takes beside the rate.
    ///
    /// [`Pacer`]: crate::Pacer
    pub fn burst(&self) -> u64 {
        let least = match &self.state {
            State::Cubic(cubic) => cubic.least_burst(),
            State::Bbr(bbr) => bbr.least_burst(),
            State::Ledbat(ledbat) => ledbat.least_burst(),
        };
        (self.pacing_rate() / BURSTS_PER_SECOND).max(least)
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        match &self.state {
            State::Cubic(_) => Algorithm::Cubic,
            State::Bbr(_) => Algorithm::Bbr,
            State::Ledbat(_) => Algorithm::Ledbat,
        }
    }
}
