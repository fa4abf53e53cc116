//! [`ServedStats`]: counts how much of each publication was sent, and to how many peers; reports what each getter was
//! sent as [`GetterTraffic`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xylem_forward::FaceId;
use xylem_packet::{InterestBuilder, NameRef};

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

/// Counts of one publication and the number of links, which another thread reads while it is served.
#[derive(Clone, Debug, Default)]
pub struct ServedMeter(Arc<MeterCells>);

#[derive(Debug, Default)]
struct MeterCells {
    bytes: AtomicU64,
    peers: AtomicU64,
    fetched: AtomicU64,
    links: AtomicUsize,
}

impl ServedMeter {
    /// Sets what [`Self::read`] returns from now on.
    pub fn set(&self, counts: ServedCounts, links: usize) {
        let ServedCounts { bytes, peers, fetched } = counts;
        self.0.bytes.store(bytes, Ordering::Relaxed);
        self.0.peers.store(peers, Ordering::Relaxed);
        self.0.fetched.store(fetched, Ordering::Relaxed);
        self.0.links.store(links, Ordering::Relaxed);
    }

    /// Returns the counts, and how many links are up.
    #[must_use]
    pub fn read(&self) -> (ServedCounts, usize) {
        let counts = ServedCounts {
            bytes: self.0.bytes.load(Ordering::Relaxed),
            peers: self.0.peers.load(Ordering::Relaxed),
            fetched: self.0.fetched.load(Ordering::Relaxed),
        };
        (counts, self.0.links.load(Ordering::Relaxed))
    }
}

/// Returns the Interest by which a getter reports that it has fetched all of the publication at `prefix`, `bytes` of it
/// in this run; `None` if the system has no randomness.
pub fn fetched_interest(prefix: NameRef<'_>, bytes: u64) -> Option<Vec<u8>> {
    let (nonce, once) = (xylem_base::random::<4>().ok()?, xylem_base::random::<8>().ok()?);
    let mut interest = Vec::new();
    let name = xylem_object::fetched::notice(prefix, once, bytes);
    let written = InterestBuilder::new(name.as_ref()).nonce(nonce).encode(&mut interest);
    written.ok().map(|()| interest)
}

/// What was sent of one publication to one face, its getter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetterTraffic {
    /// The publication.
    pub publication: PublicationId,
    /// The getter's face.
    pub face: FaceId,
    /// Number of the getter: 1 for the first one of this server. A face is a getter of each publication.
    pub number: u64,
    /// Bytes of packets, proofs included.
    pub sent: u64,
    /// Whether the getter has reported that it has all of it.
    pub complete: bool,
    /// Time since its first answer.
    pub elapsed: Duration,
}

/// Shortest time between two reports of the same getter's traffic.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Getters in one report at most; later reports have the others.
const MAX_REPORTED: usize = 256;

/// Traffic of one publication to one face.
#[derive(Clone, Copy, Debug, Default)]
struct SentToFace {
    number: u64,
    bytes: u64,
    /// The part of `bytes` that was reported, and when.
    reported: u64,
    reported_at: Option<Duration>,
    since: Duration,
    /// The peer has reported that it has all of it.
    fetched: bool,
}

impl SentToFace {
    fn traffic(&self, of: (PublicationId, FaceId), now: Duration) -> GetterTraffic {
        GetterTraffic {
            publication: of.0,
            face: of.1,
            number: self.number,
            sent: self.bytes,
            complete: self.fetched,
            elapsed: now.saturating_sub(self.since),
        }
    }
}

/// Counts of all publications; see the module's documentation. Counting an answer costs one addition while the same
/// face requests the same publication.
#[derive(Debug, Default)]
pub struct ServedStats {
    counts: HashMap<PublicationId, ServedCounts>,
    sent: HashMap<(PublicationId, FaceId), SentToFace>,
    /// Bytes sent last, with publication and face, not added to the counts yet.
    run: Option<((PublicationId, FaceId), u64)>,
    /// Getters so far.
    getters: u64,
    /// Whether bytes were settled that no report has.
    unreported: bool,
    /// When the next report is due at the earliest.
    report_at: Duration,
}

impl ServedStats {
    /// Counts bytes of a publication sent to a face. Returns the getter if these are its first.
    pub fn sent(
        &mut self,
        now: Duration,
        publication: PublicationId,
        face: FaceId,
        bytes: usize,
    ) -> Option<GetterTraffic> {
        let key = (publication, face);
        if let Some((_, run)) = self.run.as_mut().filter(|(of, _)| *of == key) {
            *run = run.saturating_add(bytes as u64);
            return None;
        }
        self.settle();
        self.run = Some((key, bytes as u64));
        if self.sent.contains_key(&key) {
            return None;
        }
        self.counts.entry(publication).or_default().peers += 1;
        self.getters = self.getters.saturating_add(1);
        let new = SentToFace { number: self.getters, since: now, ..SentToFace::default() };
        self.sent.insert(key, new);
        Some(GetterTraffic { sent: bytes as u64, ..new.traffic(key, now) })
    }

    fn settle(&mut self) {
        let Some((key, bytes)) = self.run.take() else { return };
        let counts = self.counts.entry(key.0).or_default();
        counts.bytes = counts.bytes.saturating_add(bytes);
        if let Some(sent) = self.sent.get_mut(&key) {
            sent.bytes = sent.bytes.saturating_add(bytes);
            self.unreported = true;
        }
    }

    /// When [`Self::report`] is due; `None` if nothing was sent since the last one.
    pub fn poll_timeout(&self) -> Option<Duration> {
        (self.unreported || self.run.is_some()).then_some(self.report_at)
    }

    /// Returns the getters that were sent something since the last report; none if it is not due.
    pub fn report(&mut self, now: Duration) -> Vec<GetterTraffic> {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.settle();
        self.report_at = now.saturating_add(REPORT_EVERY);
        let mut changed: Vec<_> =
            self.sent.iter_mut().filter(|(_, sent)| sent.bytes != sent.reported).collect();
        // The one whose report is oldest comes first, so that each has its turn.
        changed.sort_unstable_by_key(|(_, sent)| (sent.reported_at, sent.number));
        self.unreported = changed.len() > MAX_REPORTED;
        let reported = changed.into_iter().take(MAX_REPORTED).map(|(of, sent)| {
            (sent.reported, sent.reported_at) = (sent.bytes, Some(now));
            sent.traffic(*of, now)
        });
        reported.collect()
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

    /// Removes a face that ended. Returns its traffic, for each publication.
    pub fn face_down(&mut self, now: Duration, face: FaceId) -> Vec<GetterTraffic> {
        self.end(now, |of| of.1 == face)
    }

    /// Removes all getters at the end of the server. Returns their traffic.
    pub fn all_down(&mut self, now: Duration) -> Vec<GetterTraffic> {
        self.end(now, |_| true)
    }

    /// Removes the getters of a publication that is shared no more. Returns their traffic.
    pub fn withdrawn(&mut self, now: Duration, publication: PublicationId) -> Vec<GetterTraffic> {
        self.end(now, |of| of.0 == publication)
    }

    fn end(
        &mut self,
        now: Duration,
        ends: impl Fn(&(PublicationId, FaceId)) -> bool,
    ) -> Vec<GetterTraffic> {
        self.settle();
        let ended = self.sent.extract_if(|of, _| ends(of));
        ended.map(|(of, sent)| sent.traffic(of, now)).collect()
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
        served.face_down(at(6), x);
        served.sent(at(6), a, x, 1);
        assert_eq!(served.counts()[&a], ServedCounts { bytes: 401, peers: 3, fetched: 1 });
    }

    #[test]
    fn each_getter_is_reported_first_on_change_and_at_its_end() {
        let (a, b) = (PublicationId::numbered(1), PublicationId::numbered(2));
        let (x, y) = (FaceId(1), FaceId(2));
        let mut served = ServedStats::default();
        let at = Duration::from_secs;
        assert_eq!(served.poll_timeout(), None, "an idle server does not wake up");
        let first = served.sent(at(1), a, x, 100).expect("the first answer");
        assert_eq!((first.number, first.sent, first.complete), (1, 100, false));
        assert_eq!(served.sent(at(1), a, x, 100), None);
        assert_eq!(served.sent(at(1), a, y, 5).map(|getter| getter.number), Some(2));
        assert_eq!(served.sent(at(1), a, x, 1), None, "it is known");
        let sent = |mut report: Vec<GetterTraffic>| {
            report.sort_by_key(|getter| getter.number);
            report.iter().map(|getter| (getter.number, getter.sent)).collect::<Vec<_>>()
        };
        assert_eq!(sent(served.report(at(1))), [(1, 201), (2, 5)]);
        assert_eq!(served.poll_timeout(), None);
        served.sent(at(1), a, y, 5);
        assert_eq!(served.poll_timeout(), Some(at(2)), "once a second");
        assert_eq!(sent(served.report(at(1))), []);
        assert_eq!(sent(served.report(at(2))), [(2, 10)]);
        served.sent(at(3), b, x, 7);
        served.fetched(at(4), a, x);
        let mut ended = served.face_down(at(5), x);
        ended.sort_by_key(|getter| getter.number);
        let [whole, part] = &ended[..] else { panic!("two publications: {ended:?}") };
        assert_eq!((whole.sent, whole.complete, whole.elapsed), (201, true, at(4)));
        assert_eq!((part.sent, part.complete, part.elapsed), (7, false, at(2)));
        assert_eq!(sent(served.withdrawn(at(6), a)), [(2, 10)]);
        assert_eq!(sent(served.report(at(9))), []);
    }

    #[test]
    fn each_of_many_busy_getters_is_reported_in_its_turn() {
        let a = PublicationId::numbered(1);
        let mut served = ServedStats::default();
        let mut seen = std::collections::HashSet::new();
        for second in 0..3 {
            for face in 0..600 {
                served.sent(Duration::from_secs(second), a, FaceId(face), 1);
            }
            let report = served.report(Duration::from_secs(second));
            assert_eq!(report.len(), MAX_REPORTED);
            seen.extend(report.iter().map(|getter| getter.number));
        }
        assert_eq!(seen.len(), 600);
        assert_eq!(served.all_down(Duration::from_secs(4)).len(), 600);
        assert_eq!(served.all_down(Duration::from_secs(4)).len(), 0);
    }

    #[test]
    fn a_report_is_bounded_and_the_next_has_the_rest() {
        let a = PublicationId::numbered(1);
        let mut served = ServedStats::default();
        for face in 0..300 {
            served.sent(Duration::ZERO, a, FaceId(face), 1);
        }
        assert_eq!(served.report(Duration::ZERO).len(), MAX_REPORTED);
        assert_eq!(served.poll_timeout(), Some(REPORT_EVERY));
        assert_eq!(served.report(REPORT_EVERY).len(), 300 - MAX_REPORTED);
        assert_eq!(served.poll_timeout(), None);
    }
}
