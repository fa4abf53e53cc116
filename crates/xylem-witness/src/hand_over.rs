//! [`hand_over`]: submits a co-signature to the peers that serve the publication.

use bytes::Bytes;
use xylem_object::witness::{SubmissionReply, submission};
use xylem_packet::{Data, Interest, NameRef};

use super::newest::{ASK_EVERY, QuestionError};
use super::versions::VersionSource;
use super::watch::WatchError;

/// Attempts while no peer answers.
const TRIES: usize = 3;

/// Submits a co-signature to all connected peers, and returns the first answer; `None` if there is none. A peer that is
/// too busy does not count. Other packets are passed to `other`.
pub(super) fn hand_over<V: VersionSource>(
    peers: &mut V,
    object: NameRef<'_>,
    cosignature: &[u8],
    other: &mut dyn FnMut(&Bytes),
) -> Result<Option<SubmissionReply>, WatchError<V::Error>> {
    for _ in 0..TRIES {
        let lifetime = ASK_EVERY.as_millis() as u64;
        let nonce = xylem_base::random().map_err(QuestionError::from)?;
        let interest =
            submission(object, cosignature, nonce, lifetime).map_err(QuestionError::from)?;
        let asked = Interest::decode(&interest).map_err(QuestionError::from)?;
        peers.ask(&interest);
        let until = peers.now() + ASK_EVERY;
        while peers.now() < until {
            while let Some(packet) = peers.next_answer() {
                let data = Data::decode(&packet).ok().filter(|data| data.name() == asked.name());
                match data.and_then(|data| SubmissionReply::decode(data.content())) {
                    Some(SubmissionReply::TooMany) => {}
                    Some(answer) => return Ok(Some(answer)),
                    None => other(&packet),
                }
            }
            peers.wait(until).map_err(WatchError::Peers)?;
        }
    }
    Ok(None)
}
