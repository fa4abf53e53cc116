//! One peer that is dialled by name: what is expected of it, and how its dials have gone.

use std::time::Duration;

use xylem_engine::FaceEnd;
use xylem_link::CloseReason;
use xylem_peers::reachable::PeerAddress;
use xylem_reach::relay::RelayRefusal;

/// Time after which a missing sharer counts as absent: relays have reported it absent and other addresses have been
/// silent for this long. A restarted relay has its clients back by then. Callers that want to wait longer say so
/// (`--wait`).
pub(super) const ABSENT_AFTER: Duration = Duration::from_secs(3);

/// A named peer at one address. A peer with several addresses has one of these for each.
pub(super) struct NamedPeer {
    address: PeerAddress,
    /// Whether the publisher has to vouch for its key.
    must_vouch: bool,
    /// Whether it is dialled through a volunteer relay, at which the sharer may not be registered yet.
    by_volunteer: bool,
    /// When it was dialled first.
    begun: Option<Duration>,
    /// Since when its relay has reported it absent. `None`: its latest failure was another.
    absent_since: Option<Duration>,
    /// The latest failure.
    failure: Option<FaceEnd>,
}

impl NamedPeer {
    pub(super) fn new(address: PeerAddress, must_vouch: bool) -> Self {
        let (begun, absent_since, failure) = (None, None, None);
        Self { address, must_vouch, by_volunteer: false, begun, absent_since, failure }
    }

    /// The peer of a ticket, dialled through a volunteer relay.
    pub(super) fn by_volunteer(address: PeerAddress) -> Self {
        let must_vouch = address.link_key().is_none();
        Self { by_volunteer: true, ..Self::new(address, must_vouch) }
    }

    pub(super) fn address(&self) -> &PeerAddress {
        &self.address
    }

    /// Whether it is dialled through a relay.
    pub(super) fn is_relayed(&self) -> bool {
        matches!(self.address, PeerAddress::Relayed { .. })
    }

    /// Whether it is dialled through a relay that the ticket or the user names.
    pub(super) fn is_by_named_relay(&self) -> bool {
        self.is_relayed() && !self.by_volunteer
    }

    /// Whether it has to show that the publisher vouches for its key.
    pub(super) fn must_vouch(&self) -> bool {
        self.must_vouch
    }

    /// Whether it may have any key.
    pub(super) fn is_anybody(&self) -> bool {
        self.address.is_keyless() && !self.must_vouch
    }

    /// Records a dial.
    pub(super) fn begin(&mut self, now: Duration) {
        self.begun.get_or_insert(now);
    }

    /// Records why a dial, or a face that was up, has ended.
    pub(super) fn failed(&mut self, now: Duration, why: FaceEnd) {
        let absent = matches!(why, FaceEnd::Relay(RelayRefusal::NotHere));
        self.absent_since = absent.then(|| self.absent_since.unwrap_or(now));
        self.failure = Some(why);
    }

    /// Records that a peer with another key answers there. Returns whether that is new.
    pub(super) fn other_key(&mut self) -> bool {
        let before = self.failure.replace(CloseReason::WrongPeer.into());
        !matches!(before, Some(FaceEnd::Link(CloseReason::WrongPeer)))
    }

    /// Whether its relay reports it absent.
    pub(super) fn is_absent(&self) -> bool {
        self.absent_since.is_some()
    }

    /// Whether it was dialled so long ago that it would have answered, and has not been absent for a shorter time.
    pub(super) fn is_hopeless(&self, now: Duration) -> bool {
        let lasts = |since: Duration| now >= since + ABSENT_AFTER;
        self.begun.is_some_and(lasts) && self.absent_since.is_none_or(lasts)
    }

    /// The latest failure.
    pub(super) fn failure(&self) -> Option<&FaceEnd> {
        self.failure.as_ref()
    }

    /// The text for a failure that the peer had, or may have: nothing but silence tells that a peer expects a key.
    pub(super) fn warning(&self) -> Option<String> {
        match &self.failure {
            None | Some(FaceEnd::Link(CloseReason::HandshakeTimeout)) if self.is_anybody() => {
                Some(FaceEnd::Keyless.to_string())
            }
            known => known.as_ref().map(FaceEnd::to_string),
        }
    }
}
