//! [`ServedStats`]: counts how much of each publication was sent, and to how many peers.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xylem_forward::FaceId;
use xylem_packet::{InterestBuilder, NameRef};

use crate::keys;
use crate::publications::PublicationId;

/// Counts of one publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedCounts {
    /// Bytes of packets, proofs included.
    pub bytes: u64,
    /// Links (or plain NDN faces) over which Interests for it came.
    pub peers: u64,
    /// Complete fetches, as reported by the getters.
    pub fetched: u64,
}

impl ServedCounts {
    /// Adds both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            peers: self.peers.saturating_add(other.peers),
            fetched: self.fetched.saturating_add(other.fetched),
        }
    }
}

/// Returns the Interest by which a getter reports that it has fetched all of the publication at `prefix`, `bytes` of it
/// in this run; `None` if the system has no randomness.
pub fn fetched_interest(prefix: NameRef<'_>, bytes: u64) -> Option<Vec<u8>> {
    let (nonce, once) = (keys::random::<4>().ok()?, keys::random::<8>().ok()?);
    let mut interest = Vec::new();
    let name = xylem_object::fetched::notice(prefix, once, bytes);
    let written = InterestBuilder::new(name.as_ref()).nonce(nonce).encode(&mut interest);
    written.ok().map(|()| interest)
}

/// Traffic of one publication to one face.
#[derive(Clone, Copy, Debug, Default)]
struct SentToFace {
    bytes: u64,
    since: Duration,
    /// The peer has reported that it has all of it.
    fetched: bool,
}

/// Counts of all publications; see the module's documentation. Counting an answer costs one addition while the same
/// face requests the same publication.
#[derive(Debug, Default)]
pub struct ServedStats {
    counts: HashMap<PublicationId, ServedCounts>,
    sent: HashMap<(PublicationId, FaceId), SentToFace>,
    /// Bytes sent last, with publication and face, not added to the counts yet.
    run: Option<((PublicationId, FaceId), u64)>,
}

impl ServedStats {
    /// Counts bytes of a publication sent to a face.
    pub fn sent(&mut self, now: Duration, publication: PublicationId, face: FaceId, bytes: usize) {
        let key = (publication, face);
        match &mut self.run {
            Some((of, run)) if *of == key => *run = run.saturating_add(bytes as u64),
            _ => {
                self.settle();
                self.run = Some((key, bytes as u64));
                self.sent.entry(key).or_insert_with(|| {
                    self.counts.entry(publication).or_default().peers += 1;
                    SentToFace { since: now, ..SentToFace::default() }
                });
            }
        }
    }

    fn settle(&mut self) {
        let Some((key, bytes)) = self.run.take() else { return };
        let counts = self.counts.entry(key.0).or_default();
        counts.bytes = counts.bytes.saturating_add(bytes);
        if let Some(sent) = self.sent.get_mut(&key) {
            sent.bytes = sent.bytes.saturating_add(bytes);
        }
    }

    /// Records a face's report that it has all of a publication. Returns how many bytes it was sent from here, and over
    /// how long; `None` if it was sent nothing or has reported before.
    pub fn fetched(
        &mut self,
        now: Duration,
        publication: PublicationId,
        face: FaceId,
    ) -> Option<(u64, Duration)> {
        self.settle();
        let sent = self.sent.get_mut(&(publication, face)).filter(|sent| !sent.fetched)?;
        sent.fetched = true;
        self.counts.entry(publication).or_default().fetched += 1;
        Some((sent.bytes, now.saturating_sub(sent.since)))
    }

    /// Removes a face that ended.
    pub fn face_down(&mut self, face: FaceId) {
        self.settle();
        self.sent.retain(|(_, of), _| *of != face);
    }

    /// Returns the counts since the server began.
    pub fn counts(&mut self) -> &HashMap<PublicationId, ServedCounts> {
        self.settle();
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_face_counts_once_and_reports_completion_once() {
        let (a, b) = (PublicationId::numbered(1), PublicationId::numbered(2));
        let (x, y) = (FaceId(1), FaceId(2));
        let mut served = ServedStats::default();
        let at = Duration::from_secs;
        assert_eq!(served.fetched(at(0), a, x), None, "nothing was sent");
        for (publication, face) in [(a, x), (a, x), (a, y), (b, x), (a, x)] {
            served.sent(at(1), publication, face, 100);
        }
        assert_eq!(served.fetched(at(4), a, x), Some((300, at(3))));
        assert_eq!(served.fetched(at(5), a, x), None);
        assert_eq!(served.counts()[&a], ServedCounts { bytes: 400, peers: 2, fetched: 1 });
        assert_eq!(served.counts()[&b], ServedCounts { bytes: 100, peers: 1, fetched: 0 });
        served.face_down(x);
        served.sent(at(6), a, x, 1);
        assert_eq!(served.counts()[&a], ServedCounts { bytes: 401, peers: 3, fetched: 1 });
    }
}
