//! A link's moves between addresses of its peer. The parts are [`PathValidation`] (moves that the peer causes),
//! [`PathProber`] (addresses that this side probes) and [`CandidateExchange`] (addresses that both announce).
//!
//! [`PathValidation`]: super::path::PathValidation
//! [`PathProber`]: super::probe::PathProber
//! [`CandidateExchange`]: super::candidates::CandidateExchange

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use super::path::CHALLENGE_LEN;
use super::probe::{MAX_CHALLENGE_LEN, ProbeDatagram};
use super::{Link, ProbePace};
use crate::cookie::address;
use crate::event::{LinkEvent, Transmit};
use crate::frame::{Frame, to_address};
use crate::way::{NatMapping, PathKind, SyntheticPrefixes};

/// Shortest time between two changes of our observed address that are accepted from a peer.
const OBSERVED_APART: Duration = Duration::from_millis(250);

/// What a peer's report of our address means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressChange {
    /// It is the first.
    First,
    /// Our address has changed: another network, or a NAT that dropped its mapping.
    Moved,
}

/// The address at which the peer sees us.
#[derive(Default, Debug)]
pub(super) struct ReportedAddress {
    address: Option<SocketAddr>,
    /// Until when further reports of a change are ignored: a lying peer may send any number of them.
    rest: Duration,
}

impl ReportedAddress {
    /// Takes a report, if it is news.
    fn on_frame(&mut self, now: Duration, address: SocketAddr) -> Option<AddressChange> {
        if self.address == Some(address) || now < self.rest {
            return None;
        }
        self.rest = now + OBSERVED_APART;
        let before = self.address.replace(address);
        Some(if before.is_some() { AddressChange::Moved } else { AddressChange::First })
    }
}

impl Link {
    /// Handles a datagram of `len` bytes `from` another address than the link's.
    pub(super) fn on_other_address(
        &mut self,
        now: Duration,
        from: SocketAddr,
        len: usize,
        newest: bool,
    ) {
        let wait = self.liveness.wait();
        self.paths.on_datagram(now, from, len, newest, wait, &mut self.rng);
    }

    pub(super) fn on_path_response(&mut self, now: Duration, token: u64) {
        if let Some(back) = self.paths.on_response(now, token) {
            self.move_to(now, back, false);
        }
        if let Some(reached) = self.reach.on_response(token) {
            self.on_probe_answered(now, reached);
        }
        self.on_path_timeout(now);
    }

    /// Handles an answer from an address that this side has probed.
    fn on_probe_answered(&mut self, now: Duration, at: SocketAddr) {
        let ways = &self.paths.ways;
        let better = ways.way(at) < ways.way(self.remote);
        if at != self.remote && (better || self.paths.is_peer_silent()) {
            self.move_to(now, at, true);
        } else if at != self.remote {
            self.paths.keep(at);
        }
    }

    pub(super) fn on_path_timeout(&mut self, now: Duration) {
        if let Some(other) = self.paths.verdict(now) {
            self.move_to(now, other, false);
        }
        if self.silent_at().is_some_and(|at| now >= at) {
            let wait = self.liveness.wait();
            self.paths.on_silence(now, wait, &mut self.rng);
            self.reach.probe_again(now, &mut self.rng);
        }
    }

    pub(super) fn next_path_timeout(&self) -> Option<Duration> {
        let due = [self.paths.next_timeout(), self.silent_at(), self.reach.next_timeout()];
        due.into_iter().flatten().min()
    }

    /// When the peer counts as silent and is searched at other known addresses, if there are any.
    fn silent_at(&self) -> Option<Duration> {
        if self.paths.known.is_empty() && !self.reach.can_probe_again() {
            return None;
        }
        Some(self.liveness.search_at().max(self.paths.quiet_until))
    }

    fn move_to(&mut self, now: Duration, to: SocketAddr, chosen: bool) {
        let worse = self.paths.ways.way(to) > self.paths.ways.way(self.remote);
        self.paths.on_move(now, self.remote, to, chosen);
        self.remote = to;
        self.keys.on_peer_moved();
        self.mtu.reset(now);
        self.queue.refit(self.mtu.current());
        self.on_new_path(now);
        // Nothing is known of the new path; a ping measures it, and shows which address the peer sees there.
        self.liveness.on_new_path();
        self.owed.ping = true;
        self.owed.observed = true;
        if worse {
            self.reach.probe_again(now, &mut self.rng);
        } else {
            self.reach.end_search();
        }
    }

    /// Takes the address that the link has moved to, if that has not been reported yet.
    pub(crate) fn take_new_address(&mut self) -> Option<SocketAddr> {
        self.paths.unreported_move.take()
    }

    pub(super) fn transmit_challenge(
        &mut self,
        now: Duration,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (other, token, paid) = self.paths.poll(now)?;
        let challenge = Frame::PathChallenge(token);
        let Some(other) = other else {
            return Some(self.datagram(buf, self.remote, 0, |out| challenge.write(out)));
        };
        // Padding must not exceed the bytes received from that address.
        let size = self.padded(CHALLENGE_LEN).min(paid);
        self.paths.on_sent(other, size);
        Some(self.datagram(buf, other, size, |out| challenge.write(out)))
    }
}

impl Link {
    /// Probes these addresses for the peer; returns how many of them it probes.
    pub(crate) fn probe(&mut self, now: Duration, to: &[SocketAddr], pace: ProbePace) -> usize {
        let elsewhere = to.iter().copied().filter(|to| *to != self.remote);
        match pace {
            ProbePace::Each => {
                let addresses = elsewhere.collect();
                self.reach.ask(now, addresses, &mut self.rng)
            }
            ProbePace::Search => {
                let addresses: Vec<_> = elsewhere.filter(|to| self.may_be_searched(*to)).collect();
                self.reach.search(now, &addresses, &mut self.rng)
            }
        }
    }

    /// Returns whether a search may probe `to`: a port at a host that the peer has named, if only the peer's NAT is
    /// symmetric, or a socket of ours, if only our NAT is.
    fn may_be_searched(&self, to: SocketAddr) -> bool {
        let [ours, theirs] = self.candidates.symmetric();
        match (ours, theirs) {
            (Some(true), Some(false)) => {
                self.paths.ways.is_synthetic(to) && self.paths.ways.way(to) == PathKind::Direct
            }
            (Some(false), Some(true)) => {
                self.paths.ways.is_announceable(to) && self.candidates.has_host(to.ip())
            }
            _ => false,
        }
    }

    /// Handles a challenge from another address than the link's. If the address is trusted to be the peer's, it is
    /// answered there too, and challenged in turn. An answer over the link's own path alone would not arrive if that
    /// path has failed.
    pub(super) fn on_challenge_from(&mut self, now: Duration, from: SocketAddr, token: u64) {
        let ways = self.paths.ways;
        let named = ways.is_announceable(from) && self.candidates.has_host(from.ip());
        if !(named || self.paths.is_proven(from) || self.reach.is_asked(from)) {
            return;
        }
        let better = ways.way(from) < ways.way(self.remote) || self.paths.is_peer_silent();
        let free = self.paths.is_proven(from) || ways.way(from) != PathKind::Direct;
        if self.reach.answer(now, (from, token), free) && better {
            self.reach.probe_source(now, from, &mut self.rng);
        }
    }

    pub(super) fn transmit_elsewhere(
        &mut self,
        now: Duration,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let ProbeDatagram { to, answer, token } = self.reach.poll(now, &self.paths.ways)?;
        let size = self.padded(CHALLENGE_LEN).min(MAX_CHALLENGE_LEN);
        Some(self.datagram(buf, to, size, |out| {
            answer.into_iter().for_each(|token| Frame::PathResponse(token).write(out));
            token.into_iter().for_each(|token| Frame::PathChallenge(token).write(out));
        }))
    }
}

impl Link {
    pub(crate) fn tell_candidates(&mut self, addresses: &[SocketAddr], mapping: NatMapping) {
        self.candidates.announce(addresses, mapping, &self.paths.ways);
    }

    /// Sets which addresses are synthetic.
    pub(crate) fn set_ways(&mut self, ways: SyntheticPrefixes) {
        self.paths.ways = ways;
    }

    pub(super) fn on_reach_frame(
        &mut self,
        now: Duration,
        frame: Frame<'_>,
        events: &mut VecDeque<LinkEvent>,
    ) {
        let link = self.id;
        match frame {
            Frame::Observed(octets) => {
                let address = to_address(octets);
                let Some(change) = self.observed.on_frame(now, address) else { return };
                if change == AddressChange::Moved {
                    self.keys.on_own_move();
                }
                events.push_back(LinkEvent::Observed { link, address });
            }
            Frame::Candidates(of) => {
                let told = self.candidates.on_frame(now, &of, &self.paths.ways);
                events.extend(told.map(|(addresses, mapping)| LinkEvent::Candidates {
                    link,
                    addresses,
                    mapping,
                }));
            }
            Frame::CandidatesAck(number) => self.candidates.on_ack(number),
            _ => {}
        }
    }

    pub(super) fn write_candidates(&mut self, now: Duration, out: &mut Vec<u8>) {
        if core::mem::take(&mut self.owed.observed) && !self.paths.ways.is_synthetic(self.remote) {
            Frame::Observed(&address(self.remote)).write(out);
        }
        let wait = self.liveness.wait();
        self.candidates.poll(now, wait, out);
    }
}
