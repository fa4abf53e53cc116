//! Route lookup and the forwarding strategies.
//!
//! Each strategy suppresses an Interest if the same one was sent shortly before: within 10 ms, twice as long after each
//! repeated sending, up to 250 ms, unless its parameters differ ([`RetxSuppression`]). Best-route, random and ASF apply
//! this per entry; multicast, access and self-learning per next hop.

use xylem_packet::{Interest, NackReason};

use crate::faces::Ingress;
use crate::fib::NextHop;
use crate::forwarder::Forwarder;
use crate::measurements::{NextHopMeasurement, NextHopRank};
use crate::memory::Flat;
use crate::name_hash::spread;
use crate::pit::entry::OutRecord;
use crate::storage::Storage;
use crate::strategy_choice::{AsfParameters, ForwardingStrategy, RetxSuppression};
use crate::{DropReason, FaceScope, IncomingPacket, OutgoingPacket, Outlet};

/// Number of unanswered Interests in a row that makes ASF try a next hop last, unless its parameters differ (NFD).
const MAX_SILENT: u8 = 3;
/// The first probe of a prefix is sent within this time, at random (NFD), in microseconds.
const FIRST_PROBE_WITHIN: u64 = 5_000_000;

/// An outgoing Interest.
pub(crate) struct OutgoingInterest<'a> {
    /// The packet as it arrived; `None` if it was changed and lies in `scratch`.
    pub(crate) packet: Option<&'a [u8]>,
    pub(crate) nonce: [u8; 4],
    pub(crate) congestion_mark: Option<u64>,
    pub(crate) from: Ingress,
    /// May go to local faces only.
    pub(crate) only_local: bool,
    /// Its forwarding hint has led to this region and is not used any more.
    pub(crate) has_arrived: bool,
    /// Must not be flooded.
    pub(crate) non_discovery: bool,
}

/// A strategy's decision for an Interest.
pub(crate) enum ForwardChoice {
    /// Send it to this face. For this many milliseconds the same one is not sent again.
    Send(u32, u16),
    /// Do not send it: the same one was sent shortly before, or no other face can be asked.
    Wait,
    /// No face can be asked.
    NoRoute,
}

impl<S: Storage> Forwarder<S> {
    /// Forwards the Interest as its strategy decides.
    #[inline]
    pub(crate) fn forward(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        interest: &Interest<'_>,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        let choice = if let Some(next_hop) = incoming.next_hop {
            // The application's choice overrides any strategy.
            let face = self.faces.number(next_hop).filter(|face| self.may_go(leaving, *face));
            face.map_or(ForwardChoice::NoRoute, |face| {
                ForwardChoice::Send(face, RetxSuppression::USUAL.first())
            })
        } else {
            let route = self.route(interest, leaving.has_arrived);
            let strategy = self.chosen_strategy(interest);
            match (route, strategy) {
                (route, ForwardingStrategy::SelfLearning) => {
                    let non_discovery = leaving.non_discovery || route.is_some();
                    let leaving = &OutgoingInterest { non_discovery, ..*leaving };
                    let choice = self.self_learning(now, id, leaving, route, incoming, out);
                    return self.settle_choice(now, id, leaving, choice, incoming, out);
                }
                (None, _) => self.none_eligible(id, leaving),
                (Some(route), ForwardingStrategy::BestRoute(how)) => {
                    self.best_route(now, id, leaving, route, how)
                }
                (Some(route), ForwardingStrategy::Random(how)) => {
                    self.random_route(now, id, leaving, route, how)
                }
                (Some(route), ForwardingStrategy::Access) => {
                    self.access(now, id, leaving, route, out)
                }
                (Some(route), ForwardingStrategy::Asf(parameters)) => {
                    let choice = self.asf(now, id, leaving, route, parameters);
                    let ForwardChoice::Send(face, suppression) = choice else {
                        return self.settle_choice(now, id, leaving, choice, incoming, out);
                    };
                    self.send_interest(now, id, leaving, face, suppression, out);
                    if let Some(other) = self.due_probe(now, id, leaving, route, face, parameters)
                        && let Some(probe) = self.make_probe(leaving, interest)
                    {
                        let suppression = parameters.suppression.first();
                        self.send_interest(now, id, &probe, other, suppression, out);
                    }
                    return Ok(());
                }
                (Some(route), ForwardingStrategy::Multicast(how)) => {
                    self.multicast(now, id, leaving, route, how, out)
                }
            }
        };
        self.settle_choice(now, id, leaving, choice, incoming, out)
    }

    /// Carries out a strategy's decision.
    #[inline]
    fn settle_choice(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        choice: ForwardChoice,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), DropReason> {
        match choice {
            ForwardChoice::Send(face, suppression) => {
                self.send_interest(now, id, leaving, face, suppression, out);
                Ok(())
            }
            ForwardChoice::Wait => {
                let first = self.pit.in_records(id).next().map(|record| record.face);
                match first == Some(leaving.from.face) {
                    true => self.counters.suppressed += 1,
                    false => self.counters.aggregated += 1,
                }
                Ok(())
            }
            ForwardChoice::NoRoute => {
                if !self.pit.release_in_record(&mut self.faces, id, leaving.from.face) {
                    self.end_entry(now, id);
                }
                let reason = NackReason::NO_ROUTE;
                let (packet, token) = (incoming.packet, incoming.pit_token);
                self.faces.send_nack(leaving.from.face, packet, token, reason, out);
                Err(DropReason::NoRoute)
            }
        }
    }

    fn chosen_strategy(&self, interest: &Interest<'_>) -> ForwardingStrategy {
        if self.strategies.len() == 0 {
            return ForwardingStrategy::default();
        }
        let found = self.strategies.lookup(interest.name(), &self.hashes);
        found.map_or(ForwardingStrategy::default(), |(_, id)| *self.strategies.get(id))
    }

    /// The FIB entry for an Interest: that of the longest prefix of its name. If it has a forwarding hint that has not
    /// led here, it is that of the first delegation with more than the default route, or else the default route.
    #[inline]
    fn route(&mut self, interest: &Interest<'_>, has_arrived: bool) -> Option<u32> {
        let mut delegations = interest.forwarding_hint().peekable();
        if has_arrived || delegations.peek().is_none() {
            return self.fib.lookup(interest.name(), &self.hashes).map(|(_, id)| id);
        }
        let mut default = None;
        for delegation in delegations {
            self.hasher.hash_prefixes(delegation, &mut self.other_hashes);
            match self.fib.lookup(delegation, &self.other_hashes) {
                Some((1.., id)) => return Some(id),
                Some((0, id)) => default = Some(id),
                None => {}
            }
        }
        default
    }

    /// Whether the Interest may go to this face.
    #[inline]
    pub(crate) fn may_go(&self, leaving: &OutgoingInterest<'_>, face: u32) -> bool {
        (face != leaving.from.face || leaving.from.may_return())
            && self
                .faces
                .get(face)
                .is_some_and(|face| !leaving.only_local || face.settings.scope == FaceScope::Local)
    }

    fn next_hop_at(&self, route: u32, i: usize) -> Option<NextHop> {
        self.fib.get(route).as_slice().get(i).copied()
    }

    /// The next hops of a route that the Interest may go to, cheapest first.
    #[inline]
    fn eligible<'a>(
        &'a self,
        route: u32,
        leaving: &'a OutgoingInterest<'_>,
    ) -> impl Iterator<Item = u32> + 'a {
        // The numbers of known faces fit into 32 bits.
        let faces = self.fib.get(route).as_slice().iter().map(|hop| hop.face.0 as u32);
        faces.filter(|face| self.may_go(leaving, *face))
    }

    /// The face, other than the asking one, that was asked last and has not answered.
    #[inline]
    fn last_open(&self, id: u32, leaving: &OutgoingInterest<'_>) -> Option<&OutRecord> {
        let open = |record: &&OutRecord| !record.is_refused() && record.face != leaving.from.face;
        self.pit.out_records(id).filter(open).max_by_key(|record| record.sent)
    }

    pub(crate) fn none_eligible(&self, id: u32, leaving: &OutgoingInterest<'_>) -> ForwardChoice {
        match self.last_open(id, leaving) {
            Some(_) => ForwardChoice::Wait,
            None => ForwardChoice::NoRoute,
        }
    }

    /// How long to suppress the next Interest like this; `None` if this one is suppressed.
    pub(crate) fn suppression(
        now: u64,
        last: Option<&OutRecord>,
        how: RetxSuppression,
    ) -> Option<u16> {
        let Some(last) = last else { return Some(how.first()) };
        let is_soon = now.saturating_sub(last.sent) < u64::from(last.suppression) * 1000;
        (!is_soon).then(|| how.next(last.suppression))
    }

    /// The cheapest next hop not tried yet; if all were tried, the one tried longest ago.
    #[inline]
    fn best_route(
        &self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        route: u32,
        how: RetxSuppression,
    ) -> ForwardChoice {
        let Some(suppression) = Self::suppression(now, self.last_open(id, leaving), how) else {
            return ForwardChoice::Wait;
        };
        let sent = |face: &u32| self.pit.out_records(id).find(|r| r.face == *face).map(|r| r.sent);
        // `None`, not tried, sorts before every time. Among equals the first wins, which is the cheapest.
        match self.eligible(route, leaving).min_by_key(sent) {
            Some(face) => ForwardChoice::Send(face, suppression),
            None => self.none_eligible(id, leaving),
        }
    }

    /// A random next hop; all are equally likely.
    fn random_route(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        route: u32,
        how: RetxSuppression,
    ) -> ForwardChoice {
        let Some(suppression) = Self::suppression(now, self.last_open(id, leaving), how) else {
            return ForwardChoice::Wait;
        };
        let random = self.random.next_u64();
        let ways = self.eligible(route, leaving).count() as u64;
        let chosen = random.checked_rem(ways).and_then(|n| usize::try_from(n).ok());
        match chosen.and_then(|n| self.eligible(route, leaving).nth(n)) {
            Some(face) => ForwardChoice::Send(face, suppression),
            None => self.none_eligible(id, leaving),
        }
    }

    /// The next hop that answers. All next hops if none does, and for a retransmission.
    fn access(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        route: u32,
        out: &mut impl Outlet,
    ) -> ForwardChoice {
        let under = self.measure(id, route);
        if self.pit.out_records(id).next().is_none() {
            // One unanswered Interest is enough: all next hops are asked then, and one of them answers.
            let rank = |face: u32| (self.measured(now, under, face).rank(1), face);
            let best = self.eligible(route, leaving).map(rank).min();
            if let Some((NextHopRank::Measured(_), face)) = best {
                return ForwardChoice::Send(face, RetxSuppression::USUAL.first());
            }
        }
        self.multicast(now, id, leaving, route, RetxSuppression::USUAL, out)
    }

    /// All next hops, with suppression for each by itself.
    pub(crate) fn multicast(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        route: u32,
        how: RetxSuppression,
        out: &mut impl Outlet,
    ) -> ForwardChoice {
        let mut any = false;
        // The caller sends the last one.
        let mut waits = ForwardChoice::NoRoute;
        let mut i = 0;
        while let Some(hop) = self.next_hop_at(route, i) {
            i += 1;
            let face = hop.face.0 as u32;
            if !self.may_go(leaving, face) {
                continue;
            }
            any = true;
            let before = self.pit.out_records(id).find(|record| record.face == face);
            let Some(suppression) = Self::suppression(now, before, how) else { continue };
            if let ForwardChoice::Send(face, suppression) = waits {
                self.send_interest(now, id, leaving, face, suppression, out);
            }
            waits = ForwardChoice::Send(face, suppression);
        }
        match waits {
            ForwardChoice::NoRoute if any => ForwardChoice::Wait,
            ForwardChoice::NoRoute => self.none_eligible(id, leaving),
            waits => waits,
        }
    }

    #[inline]
    pub(crate) fn send_interest(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        face: u32,
        suppression: u16,
        out: &mut impl Outlet,
    ) {
        let nonce = leaving.nonce;
        if let Some(earlier) =
            self.pit.set_out_record(id, OutRecord::new(face, nonce, now, suppression))
            && earlier != nonce
        {
            // The entry will not remember the nonce, and the Interest may still come back.
            let key = self.hasher.with_nonce(self.pit.hash_of(id), earlier);
            self.dead_nonces.set(now, key, ());
        }
        let packet = match leaving.packet {
            Some(packet) => packet,
            None => self.scratch.as_slice(),
        };
        let leaving = OutgoingPacket {
            packet,
            congestion_mark: leaving.congestion_mark,
            incoming_face: Some(leaving.from.id()),
            non_discovery: leaving.non_discovery,
            ..OutgoingPacket::default()
        };
        self.faces.send_interest(face, leaving, out);
    }
}

/// Adaptive smoothed-round-trip forwarding (NFD's ASF strategy): round trips measured per FIB entry and face. NFD has a
/// timer for each Interest; here a missing answer is recorded when the entry ends.
impl<S: Storage> Forwarder<S> {
    fn measured(&self, now: u64, under: u32, face: u32) -> NextHopMeasurement {
        let key = spread(u64::from(under) << 32 | u64::from(face));
        self.measurements.get(now, key).unwrap_or_default()
    }

    fn set_measured(&mut self, now: u64, under: u32, face: u32, value: NextHopMeasurement) {
        let key = spread(u64::from(under) << 32 | u64::from(face));
        self.measurements.set(now, key, value);
    }

    /// Marks an entry as measured under the prefix of this route.
    fn measure(&mut self, id: u32, route: u32) -> u32 {
        // Never 0, which means that nothing is measured.
        let under = (self.fib.hash_of(route) >> 32) as u32 | 1;
        self.pit.get_mut(id).measured_as = under;
        under
    }

    /// The next hop with the best rank; for a retransmission, among those not tried yet.
    fn asf(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        route: u32,
        parameters: AsfParameters,
    ) -> ForwardChoice {
        let last = self.last_open(id, leaving);
        let Some(suppression) = Self::suppression(now, last, parameters.suppression) else {
            return ForwardChoice::Wait;
        };
        let under = self.measure(id, route);
        let max_silent = parameters.max_timeouts.unwrap_or(MAX_SILENT);
        let rank = |face: &u32| {
            let sent = self.pit.out_records(id).find(|r| r.face == *face).map(|r| r.sent);
            (sent, self.measured(now, under, *face).rank(max_silent))
        };
        match self.eligible(route, leaving).min_by_key(rank) {
            Some(face) => ForwardChoice::Send(face, suppression),
            None => self.none_eligible(id, leaving),
        }
    }

    /// If a probe is due, returns the other next hop to ask too, so that it is measured.
    fn due_probe(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        route: u32,
        used: u32,
        parameters: AsfParameters,
    ) -> Option<u32> {
        let interval = parameters.probing_interval.map(|ms| u64::from(ms) * 1000);
        let interval = interval.unwrap_or(self.probing_interval).max(1);
        let under = self.pit.get(id).measured_as;
        let mut prefix = self.measured(now, under, 0);
        if prefix.next_probe == 0 {
            let wait = self.random.next_u64() % FIRST_PROBE_WITHIN.min(interval);
            prefix.next_probe = now + wait;
            self.set_measured(now, under, 0, prefix);
        }
        if now < prefix.next_probe || !self.pit.has_room_for_out(id) {
            return None;
        }
        let max_silent = parameters.max_timeouts.unwrap_or(MAX_SILENT);
        let face = self.face_to_probe(now, under, used, max_silent, leaving, route)?;
        let open =
            self.pit.out_records(id).any(|record| record.face == face && !record.is_refused());
        if open {
            return None;
        }
        prefix.next_probe = now + interval;
        self.set_measured(now, under, 0, prefix);
        Some(face)
    }

    /// A next hop that was never measured, or else a random one. Faster ones are more likely: of n, the one of rank j
    /// with probability 2(n + 1 - j) / n(n + 1).
    fn face_to_probe(
        &mut self,
        now: u64,
        under: u32,
        used: u32,
        max_silent: u8,
        leaving: &OutgoingInterest<'_>,
        route: u32,
    ) -> Option<u32> {
        let random = self.random.next_u64();
        let others = || self.eligible(route, leaving).filter(|face| *face != used);
        let rank = |face: u32| (self.measured(now, under, face).rank(max_silent), face);
        let unknown = others().find(|face| rank(*face).0 == NextHopRank::Unknown);
        if unknown.is_some() {
            return unknown;
        }
        let n = others().count() as u64;
        let mut ticket = random % (n * (n + 1) / 2).max(1);
        for j in 0..n {
            if ticket < n - j {
                // The one with exactly j better ones.
                return others()
                    .find(|face| others().filter(|o| rank(*o) < rank(*face)).count() as u64 == j);
            }
            ticket -= n - j;
        }
        None
    }

    /// The same Interest with another nonce, written into `scratch`; `None` if it does not fit.
    fn make_probe<'a>(
        &mut self,
        leaving: &OutgoingInterest<'a>,
        interest: &Interest<'_>,
    ) -> Option<OutgoingInterest<'a>> {
        use crate::rewrite::{InterestChanges, rewrite};
        let hop_limit = self.hops_left(interest);
        let without_hint = leaving.has_arrived;
        let nonce = self.new_nonce();
        let changes = InterestChanges { hop_limit, nonce: Some(nonce), without_hint };
        rewrite(interest, changes, &mut self.scratch).then_some(OutgoingInterest {
            packet: None,
            nonce,
            ..*leaving
        })
    }

    /// Records Data from a face that was asked.
    #[inline]
    pub(crate) fn record_answer(&mut self, now: u64, face: u32, id: u32) {
        let under = self.pit.get(id).measured_as;
        if under == 0 {
            return;
        }
        let Some(record) = self.pit.out_record(id, face).filter(|r| !r.is_refused()) else {
            return;
        };
        let rtt = now.saturating_sub(record.sent);
        record.answer();
        let mut measured = self.measured(now, under, face);
        measured.answered(rtt);
        self.set_measured(now, under, face, measured);
    }

    /// Whether another face's answer would still be measured.
    #[inline]
    pub(crate) fn awaits_probe(&self, id: u32) -> bool {
        self.pit.get(id).measured_as != 0
            && self.pit.out_records(id).any(|record| !record.is_refused())
    }

    /// Records a Nack from a face that was asked.
    pub(crate) fn record_nack(&mut self, now: u64, face: u32, id: u32) {
        let under = self.pit.get(id).measured_as;
        if under != 0 {
            let mut measured = self.measured(now, under, face);
            measured.refused();
            self.set_measured(now, under, face, measured);
        }
    }

    /// Records the missing answers of an entry that ends.
    pub(crate) fn record_missing_answers(&mut self, now: u64, id: u32) {
        let under = self.pit.get(id).measured_as;
        if under == 0 {
            return;
        }
        let (pit, measurements) = (&self.pit, &mut self.measurements);
        for record in pit.out_records(id).filter(|record| !record.is_refused()) {
            let key = spread(u64::from(under) << 32 | u64::from(record.face));
            let mut measured = measurements.get(now, key).unwrap_or_default();
            if now.saturating_sub(record.sent) >= measured.timeout() {
                measured.unanswered();
                measurements.set(now, key, measured);
            }
        }
    }
}
