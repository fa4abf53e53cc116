//! Why a fetch gets nowhere, as far as is known.

use xylem_transfer::FailReason;

use super::FetchError;
use super::waiting::Tried;
use super::work::Work;

impl Work {
    /// Those that were to be reached, and what is known of them.
    pub(super) fn tried(&self) -> Vec<Tried> {
        let tried = |(i, (peer, connected))| {
            let why = self.waiting.why(peer).or(self.dialler.warning(i)).map(str::to_owned);
            Tried { peer: peer.into(), connected, why: why.filter(|_| !connected) }
        };
        self.dialler.tried().enumerate().map(tried).collect()
    }

    /// Why nothing more comes.
    pub(super) fn failed(&self, reason: FailReason) -> FetchError {
        if let Some(sentence) = self.gone.sentence() {
            return FetchError::Gone(sentence);
        }
        if self.manifest.is_empty() && !self.dialler.was_up() {
            let tried = self.tried().iter().map(Tried::to_string).collect::<Vec<_>>().join(", ");
            return FetchError::Unreachable { after: self.config.give_up, tried };
        }
        let warnings = self.dialler.warnings();
        let warnings = if warnings.is_empty() { warnings } else { format!(" ({warnings})") };
        let fetched = self.transfer.progress().verified_bytes > 0;
        FetchError::Failed { reason, warnings, fetched }
    }
}
