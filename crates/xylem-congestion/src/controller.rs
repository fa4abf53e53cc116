//! [`Controller`], the entry type: one flow's counters and its algorithm.

use core::fmt;
use core::time::Duration;

use crate::bbr::Bbr;
use crate::cubic::Cubic;
use crate::delivery::{DeliveryCounters, SentPacket};
use crate::ledbat::Ledbat;
use crate::rtt::Rtt;

/// Bursts of 2 ms, so that timers as coarse as this do not slow a flow down.
const BURSTS_PER_SECOND: u64 = 500;

/// The congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CongestionAlgorithm {
    /// RFC 9438: fills the buffer at the bottleneck until packets are lost.
    Cubic,
    /// draft-ietf-ccwg-bbr (version 3): measures the bottleneck's rate and the round trip, and sends at that rate. It
    /// ignores losses below 2 %.
    Bbr,
    /// draft-irtf-iccrg-ledbat-plus-plus: yields to all other flows, by delay, before packets are lost.
    Ledbat,
}

impl fmt::Display for CongestionAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Ledbat => "ledbat++",
        })
    }
}

// Not boxed: programs without an allocator have flows too, and most flows use BBR.
#[expect(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub(crate) enum AlgorithmState {
    Cubic(Cubic),
    Bbr(Bbr),
    Ledbat(Ledbat),
}

/// The losses of one round trip, which cause a single reduction.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    /// Time at which the first was noticed. A lost packet that was sent later begins another reduction.
    at: Duration,
    /// Packets that count as lost and have not arrived late.
    lost: u32,
}

/// Congestion control of one flow. Sizes are in bytes, as the caller counts its packets.
///
/// Order of calls: [`on_sent`](Self::on_sent) for each packet; for each acknowledgement [`on_ack`](Self::on_ack) for
/// every packet in it and [`on_loss`](Self::on_loss) for every packet that it proves lost, then
/// [`on_ack_end`](Self::on_ack_end) once. All `now` count from one epoch and do not go back.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(crate) state: AlgorithmState,
    delivery: DeliveryCounters,
    /// The smoothed round trip, once known.
    smoothed: Option<Duration>,
    reduction: Option<Reduction>,
    /// Whether [`Controller::on_path`] reports arrivals and losses.
    path_reports: bool,
}

impl Controller {
    /// A flow that has sent nothing. `packet_bytes`, the usual size of a packet, is the unit of the smallest windows
    /// and of their growth.
    pub fn new(algorithm: CongestionAlgorithm, now: Duration, packet_bytes: u64) -> Self {
        let packet = packet_bytes.max(1);
        let state = match algorithm {
            CongestionAlgorithm::Cubic => AlgorithmState::Cubic(Cubic::new(packet)),
            CongestionAlgorithm::Bbr => AlgorithmState::Bbr(Bbr::new(now, packet)),
            CongestionAlgorithm::Ledbat => AlgorithmState::Ledbat(Ledbat::new(packet)),
        };
        Self {
            state,
            delivery: DeliveryCounters::default(),
            smoothed: None,
            reduction: None,
            path_reports: false,
        }
    }

    /// Switches from BBR to CUBIC, in slow start from the current window. Packets under way stay counted.
    pub fn switch_to_cubic(&mut self) {
        if let AlgorithmState::Bbr(bbr) = &self.state {
            self.state = AlgorithmState::Cubic(bbr.as_cubic());
        }
    }

    /// Handles a sent packet of `bytes`. Keep the result until the packet arrives or is lost.
    pub fn on_sent(&mut self, now: Duration, bytes: u64, in_flight_before: u64) -> SentPacket {
        let sent = self.delivery.on_sent(now, bytes, in_flight_before);
        match &mut self.state {
            AlgorithmState::Cubic(cubic) => cubic.on_sent(sent.in_flight),
            AlgorithmState::Bbr(bbr) => bbr.on_sent(now, in_flight_before, bytes, sent.app_limited),
            AlgorithmState::Ledbat(ledbat) => ledbat.on_sent(sent.in_flight),
        }
        sent
    }

    /// Handles the arrival of a packet that had not counted as lost.
    pub fn on_ack(&mut self, now: Duration, sent: &SentPacket, rtt: &Rtt) {
        self.delivery.on_ack(now, sent, !self.uses_path_reports());
        match &mut self.state {
            AlgorithmState::Cubic(cubic) => {
                cubic.on_ack(now, sent, self.delivery.delivered, rtt);
            }
            AlgorithmState::Bbr(_) => {} // handles acknowledgements, not packets
            AlgorithmState::Ledbat(ledbat) => {
                ledbat.on_ack(now, sent, self.delivery.delivered, rtt.latest());
            }
        }
    }

    /// Ends an acknowledgement, after all of its packets were reported.
    ///
    /// - `rtt`: the round trips, with this acknowledgement's.
    /// - `in_flight`: bytes still under way after it.
    pub fn on_ack_end(&mut self, now: Duration, rtt: &Rtt, in_flight: u64) {
        self.smoothed = rtt.smoothed();
        let Some(sample) = self.delivery.sample(rtt.min().unwrap_or_default()) else { return };
        if let AlgorithmState::Bbr(bbr) = &mut self.state {
            bbr.on_ack(now, &sample, self.delivery.delivered, rtt, in_flight);
            if bbr.is_holding_back() {
                self.delivery.app_limited(in_flight);
            }
        }
    }

    /// Reports the round trip of one packet when it arrives. Only CUBIC needs it, and only beside [`Self::on_path`].
    /// Call it at once on arrival, even if [`Self::on_ack`] reports several packets together later.
    ///
    /// - `took`: the packet's round trip.
    /// - `rtt`: the round trips, with this one.
    pub fn on_round_trip(&mut self, took: Duration, rtt: &Rtt) {
        if let AlgorithmState::Cubic(cubic) = &mut self.state {
            cubic.on_round_trip(took, rtt);
        }
    }

    /// Whether rates and losses come from [`Self::on_path`]. Packets then give only round trips.
    fn uses_path_reports(&self) -> bool {
        self.path_reports && matches!(self.state, AlgorithmState::Bbr(_))
    }

    /// Reports deliveries and losses of a lower layer that carries packets in pieces and repairs lost ones.
    ///
    /// - `brought`: bytes delivered since the last call.
    /// - `missed`: pieces lost since the last call, less those that counted as lost and have arrived.
    /// - `piece`: size of a piece in bytes.
    ///
    /// From the first call on, BBR takes rates and losses from here: a packet arrives with its last piece, at a time
    /// that depends as much on repairs as on the path. CUBIC goes by packets; it takes from here only the losses that a
    /// full queue causes. LEDBAT++ goes by packets, and also treats missed pieces as lost.
    ///
    /// Returns the bytes to charge to the pacer ([`Pacer::charge`]): repairs of losses that are not random. The queue
    /// of the bottleneck has dropped these pieces, so their repairs load the bottleneck a second time. The number is
    /// negative if such pieces have arrived after all.
    ///
    /// [`Pacer::charge`]: crate::Pacer::charge
    pub fn on_path(&mut self, now: Duration, brought: u64, missed: i64, piece: u64) -> i64 {
        self.path_reports = true;
        let lost = missed.saturating_mul(piece.min(1 << 20) as i64);
        match &mut self.state {
            AlgorithmState::Bbr(bbr) => {
                self.delivery.on_path(now, brought, lost);
                bbr.on_path_loss(missed);
                bbr.add_unexplained(brought, lost)
            }
            AlgorithmState::Ledbat(ledbat) => {
                ledbat.on_path_loss(now, missed, self.smoothed.unwrap_or_default());
                0
            }
            AlgorithmState::Cubic(cubic) => {
                cubic.on_path(brought, lost, piece);
                0
            }
        }
    }

    /// Handles a lost packet.
    pub fn on_loss(&mut self, now: Duration, sent: &SentPacket) {
        if self.uses_path_reports() {
            return;
        }
        self.delivery.on_loss(sent);
        match &mut self.reduction {
            Some(reduction) if sent.sent_at() <= reduction.at => reduction.lost += 1,
            _ => {
                self.reduction = Some(Reduction { at: now, lost: 1 });
                if let AlgorithmState::Bbr(bbr) = &mut self.state {
                    bbr.save();
                }
            }
        }
        match &mut self.state {
            AlgorithmState::Cubic(cubic) => cubic.on_loss(now, sent.sent_at()),
            AlgorithmState::Bbr(bbr) => bbr.on_loss(now, sent, self.delivery.lost),
            AlgorithmState::Ledbat(ledbat) => ledbat.on_loss(now, sent.sent_at()),
        }
    }

    /// Handles the late arrival of a packet that [`Self::on_loss`] reported. Once all packets of the last reduction
    /// have arrived, the reduction is undone.
    pub fn on_late(&mut self, now: Duration, sent: &SentPacket) {
        if self.uses_path_reports() {
            return;
        }
        self.delivery.on_late(sent);
        if let AlgorithmState::Bbr(bbr) = &mut self.state {
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
            AlgorithmState::Cubic(cubic) => cubic.on_spurious(),
            AlgorithmState::Bbr(bbr) => bbr.on_spurious(now),
            AlgorithmState::Ledbat(_) => {} // recovers at its own pace
        }
    }

    /// Handles a congestion mark (ECN CE, or an NDN congestion mark) on this packet, or on an unknown one.
    pub fn on_mark(&mut self, now: Duration, sent: Option<&SentPacket>) {
        let sent_at = sent.map_or(now, SentPacket::sent_at);
        match &mut self.state {
            AlgorithmState::Cubic(cubic) => cubic.on_mark(now, sent_at),
            AlgorithmState::Bbr(bbr) => bbr.on_mark(now, sent),
            AlgorithmState::Ledbat(ledbat) => ledbat.on_loss(now, sent_at),
        }
    }

    /// Handles silence after which the model of the path no longer holds (RFC 9002 section 7.6.2).
    pub fn on_persistent_congestion(&mut self, now: Duration) {
        match &mut self.state {
            AlgorithmState::Cubic(cubic) => cubic.on_persistent_congestion(now),
            AlgorithmState::Bbr(bbr) => bbr.on_persistent_congestion(),
            AlgorithmState::Ledbat(ledbat) => ledbat.on_persistent_congestion(now),
        }
    }

    /// Reports that there is nothing to send although window and rate have room. Packets that are sent before the
    /// `in_flight` bytes under way have arrived then show the demand, not the path's capacity.
    pub fn app_limited(&mut self, in_flight: u64) {
        self.delivery.app_limited(in_flight);
    }

    /// Sets the usual size of a packet, for example when the path's MTU is better known.
    pub fn set_packet_bytes(&mut self, bytes: u64) {
        match &mut self.state {
            AlgorithmState::Cubic(cubic) => cubic.set_packet_bytes(bytes.max(1)),
            AlgorithmState::Bbr(bbr) => bbr.set_packet_bytes(bytes.max(1)),
            AlgorithmState::Ledbat(ledbat) => ledbat.set_packet_bytes(bytes.max(1)),
        }
    }

    /// Sets how many packets of the path (datagrams, say) carry one of the flow's packets. The flow's packet arrives
    /// only if all of them do, so its loss counts as the loss of one of them. BBR's loss threshold holds for packets of
    /// the path; the other algorithms ignore the number.
    ///
    /// - `packets`: 1 at first; more than 16 count as 16.
    pub fn set_packets_per_unit(&mut self, packets: u32) {
        match &mut self.state {
            AlgorithmState::Cubic(_) | AlgorithmState::Ledbat(_) => {}
            AlgorithmState::Bbr(bbr) => bbr.set_packets_per_unit(packets),
        }
    }

    /// Most bytes under way.
    pub fn window(&self) -> u64 {
        match &self.state {
            AlgorithmState::Cubic(cubic) => cubic.window(),
            AlgorithmState::Bbr(bbr) => bbr.window(),
            AlgorithmState::Ledbat(ledbat) => ledbat.window(),
        }
    }

    /// Most bytes a second to send; `u64::MAX` before the first round trip.
    pub fn pacing_rate(&self) -> u64 {
        match &self.state {
            AlgorithmState::Cubic(cubic) => {
                self.smoothed.map_or(u64::MAX, |s| cubic.pacing_rate(s))
            }
            AlgorithmState::Bbr(bbr) => bbr.pacing_rate(),
            AlgorithmState::Ledbat(ledbat) => {
                self.smoothed.map_or(u64::MAX, |s| ledbat.pacing_rate(s))
            }
        }
    }

    /// Bytes that may be sent at once: the burst of a [`Pacer`].
    ///
    /// [`Pacer`]: crate::Pacer
    pub fn burst(&self) -> u64 {
        let least = match &self.state {
            AlgorithmState::Cubic(cubic) => cubic.least_burst(),
            AlgorithmState::Bbr(bbr) => bbr.least_burst(),
            AlgorithmState::Ledbat(ledbat) => ledbat.least_burst(),
        };
        (self.pacing_rate() / BURSTS_PER_SECOND).max(least)
    }

    /// The algorithm.
    pub fn algorithm(&self) -> CongestionAlgorithm {
        match &self.state {
            AlgorithmState::Cubic(_) => CongestionAlgorithm::Cubic,
            AlgorithmState::Bbr(_) => CongestionAlgorithm::Bbr,
            AlgorithmState::Ledbat(_) => CongestionAlgorithm::Ledbat,
        }
    }
}
