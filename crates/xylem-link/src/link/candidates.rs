//! The addresses that each side announces: candidates, repeated until they are acknowledged.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use crate::cookie::address;
use crate::frame::{self, ADDRESS_LEN, Frame, MAX_CANDIDATES, SYMMETRIC};
use crate::way::{NatMapping, SyntheticPrefixes};

/// Lists of a peer that are accepted in a burst.
const TAKEN_AT_ONCE: u32 = 8;
/// Time after which one more list is accepted. A refused list is not acknowledged, and comes again.
const TAKEN_APART: Duration = Duration::from_millis(250);
/// Longest time between repetitions.
const MAX_AGAIN: Duration = Duration::from_secs(2);

/// Candidates of both sides; nearly every link has none.
#[derive(Default, Debug)]
pub(super) struct CandidateExchange(Option<Box<CandidateLists>>);

#[derive(Default, Debug)]
struct CandidateLists {
    ours: Option<OurCandidates>,
    theirs: Option<PeerCandidates>,
    /// When the peer's whole burst of lists is available again.
    burst_full_at: Duration,
    /// The number of a list that is to be acknowledged.
    ack: Option<u32>,
}

#[derive(Debug)]
struct OurCandidates {
    number: u32,
    mapping: NatMapping,
    addresses: Vec<[u8; ADDRESS_LEN]>,
    /// When they are sent (again); `None` once they have been acknowledged.
    next: Option<Duration>,
    repeat_after: Duration,
}

#[derive(Debug)]
struct PeerCandidates {
    number: u32,
    mapping: NatMapping,
    addresses: Vec<SocketAddr>,
}

impl CandidateExchange {
    /// Announces these addresses from now on, except synthetic ones.
    pub(super) fn announce(
        &mut self,
        addresses: &[SocketAddr],
        mapping: NatMapping,
        ways: &SyntheticPrefixes,
    ) {
        let both = self.0.get_or_insert_default();
        let told = addresses.iter().filter(|to| ways.is_announceable(**to)).take(MAX_CANDIDATES);
        let addresses: Vec<_> = told.map(|to| address(*to)).collect();
        let before = both.ours.as_ref();
        if before.is_some_and(|ours| ours.addresses == addresses && ours.mapping == mapping) {
            return;
        }
        let number = before.map_or(0, |ours| ours.number).saturating_add(1);
        let (next, again) = (Some(Duration::ZERO), Duration::ZERO);
        both.ours = Some(OurCandidates { number, mapping, addresses, next, repeat_after: again });
    }

    /// Takes the peer's list. Returns what to report to the program.
    pub(super) fn on_frame(
        &mut self,
        now: Duration,
        of: &frame::Candidates<'_>,
        ways: &SyntheticPrefixes,
    ) -> Option<(Vec<SocketAddr>, NatMapping)> {
        let both = self.0.get_or_insert_default();
        let newest = both.theirs.as_ref().map_or(0, |theirs| theirs.number);
        if of.number <= newest {
            both.ack = both.ack.or((of.number == newest).then_some(newest));
            return None;
        }
        let paid_back = both.burst_full_at.max(now).saturating_add(TAKEN_APART);
        if paid_back.saturating_sub(now) > TAKEN_APART.saturating_mul(TAKEN_AT_ONCE) {
            return None;
        }
        both.burst_full_at = paid_back;
        let symmetric = of.flags & SYMMETRIC != 0;
        let mapping = if symmetric { NatMapping::Symmetric } else { NatMapping::Stable };
        // A synthetic address has a meaning only in the program that made it.
        let addresses: Vec<_> = of.addresses().filter(|at| ways.is_announceable(*at)).collect();
        let told = (addresses.clone(), mapping);
        both.theirs = Some(PeerCandidates { number: of.number, mapping, addresses });
        both.ack = Some(of.number);
        Some(told)
    }

    pub(super) fn on_ack(&mut self, number: u32) {
        let ours = self.0.as_mut().and_then(|both| both.ours.as_mut());
        if let Some(ours) = ours.filter(|ours| ours.number == number) {
            ours.next = None;
        }
    }

    pub(super) fn poll(&mut self, now: Duration, wait: Duration, out: &mut Vec<u8>) {
        let Some(both) = &mut self.0 else { return };
        both.ack.take().into_iter().for_each(|number| Frame::CandidatesAck(number).write(out));
        let Some(ours) = both.ours.as_mut() else { return };
        if ours.next.is_none_or(|next| now < next) {
            return;
        }
        ours.repeat_after =
            ours.repeat_after.saturating_mul(2).clamp(wait.min(MAX_AGAIN), MAX_AGAIN);
        ours.next = Some(now.saturating_add(ours.repeat_after));
        let flags = if ours.mapping == NatMapping::Symmetric { SYMMETRIC } else { 0 };
        let told = frame::Candidates::new(ours.number, flags, &ours.addresses);
        told.into_iter().for_each(|told| Frame::Candidates(told).write(out));
    }

    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.0.as_ref()?.ours.as_ref()?.next
    }

    /// Returns whether the peer has named this host, with any port.
    pub(super) fn has_host(&self, ip: IpAddr) -> bool {
        let theirs = self.0.as_ref().and_then(|both| both.theirs.as_ref());
        let ip = ip.to_canonical();
        theirs.is_some_and(|theirs| theirs.addresses.iter().any(|at| at.ip() == ip))
    }

    /// Whether our NAT is symmetric, and the peer's; `None` where that has not been announced.
    pub(super) fn symmetric(&self) -> [Option<bool>; 2] {
        let both = self.0.as_ref();
        let ours = both.and_then(|both| both.ours.as_ref()).map(|ours| ours.mapping);
        let theirs = both.and_then(|both| both.theirs.as_ref()).map(|theirs| theirs.mapping);
        [ours, theirs].map(|mapping| mapping.map(|mapping| mapping == NatMapping::Symmetric))
    }
}
