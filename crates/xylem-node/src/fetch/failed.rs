//! Why a fetch makes no progress, as far as is known.

use xylem_peers::reachable::FaceAddress;
use xylem_transfer::FailReason;

use super::FetchError;
use super::waiting::TriedPeer;
use super::work::FetchState;

impl FetchState {
    /// The peers to be reached, with the reasons why they are not.
    pub(super) fn tried(&self) -> Vec<TriedPeer> {
        let tried = |(i, (peer, connected))| {
            let of_system = self.waiting.why(peer).map(str::to_owned);
            let why = of_system.or_else(|| self.dialler.warning(i));
            TriedPeer { peer: peer.into(), connected, why: why.filter(|_| !connected) }
        };
        self.dialler.tried().enumerate().map(tried).collect()
    }

    /// The error for a transfer that has failed.
    pub(super) fn failed(&self, reason: FailReason) -> FetchError {
        let refusals = self.gone.list();
        if !refusals.is_empty() {
            return FetchError::Gone(refusals);
        }
        if self.awaits_a_peer() && !self.dialler.was_up() {
            let tried = self.tried();
            if !self.dialler.sharer_is_absent() {
                return FetchError::Unreachable { after: self.config.give_up, tried };
            }
            let of_relay = |tried: &TriedPeer| matches!(tried.peer, FaceAddress::Relayed(_));
            let (relays, others): (Vec<_>, Vec<_>) = tried.into_iter().partition(of_relay);
            let relays = relays.into_iter().map(|tried| tried.peer).collect();
            return FetchError::Away { relays, others };
        }
        let warnings = self.dialler.warnings();
        if self.dialler.count() == 0
            && self.dialler.was_up()
            && !matches!(reason, FailReason::AllPeersMisbehaved { .. })
        {
            let (done, why) = (self.transfer.progress().verified_bytes, warnings);
            return FetchError::Lost { done, why };
        }
        let warnings = if warnings.is_empty() { warnings } else { format!(" ({warnings})") };
        let fetched = self.transfer.progress().verified_bytes > 0;
        FetchError::Failed { reason, warnings, fetched }
    }
}
