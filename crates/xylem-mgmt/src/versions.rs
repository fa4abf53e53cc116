//! Published datasets: divided into segments, signed, and kept for a while, because clients discover the version with
//! one Interest and fetch the segments with others.

use core::time::Duration;
use std::collections::VecDeque;

use xylem_packet::{Component, DataBuilder, Name, NameRef, tlv::types};
use xylem_trust::Signer;

/// Content bytes of a segment; well below the packet limit with any possible name of a query.
const SEGMENT_LEN: usize = 6000;
/// FreshnessPeriod of a segment in milliseconds: the shortest, as in NDNd. A client that lists after a command then
/// gets the new state and not a cached one. Versions are asked for without MustBeFresh.
const FRESHNESS_MS: u64 = 1;
/// How long a version is kept.
const VERSION_LIFETIME: Duration = Duration::from_secs(10);
/// Maximum number of versions.
const MAX_VERSIONS: usize = 32;
/// Maximum bytes of all versions; the newest is kept whatever its size.
const MAX_BYTES: usize = 16 << 20;

struct DatasetVersion {
    name: Name,
    segments: Vec<Vec<u8>>,
    bytes: usize,
    made: Duration,
}

/// The last few versions of datasets.
#[derive(Default)]
pub(crate) struct DatasetVersions {
    kept: VecDeque<DatasetVersion>,
    bytes: usize,
    last_number: u64,
}

impl DatasetVersions {
    /// Makes the newest version of a dataset and returns its first segment; `None` if the name is too long for a
    /// packet.
    pub(crate) fn publish(
        &mut self,
        now: Duration,
        now_ms: u64,
        dataset: NameRef<'_>,
        content: &[u8],
        signer: &Signer,
    ) -> Option<Vec<u8>> {
        self.last_number = now_ms.max(self.last_number + 1);
        let name = dataset.child(Component::version(self.last_number));
        // An empty dataset is one empty segment.
        let pieces: Vec<&[u8]> = match content {
            [] => vec![&[]],
            content => content.chunks(SEGMENT_LEN).collect(),
        };
        let last = Component::segment(pieces.len() as u64 - 1);
        let mut segments = Vec::with_capacity(pieces.len());
        for (i, piece) in pieces.iter().enumerate() {
            let segment = name.child(Component::segment(i as u64));
            let builder =
                DataBuilder::new(segment.as_ref()).freshness_ms(FRESHNESS_MS).final_block_id(last);
            let mut wire = Vec::new();
            signer.data(builder, piece, &mut wire).ok()?;
            segments.push(wire);
        }
        let first = segments.first().cloned();
        let bytes = segments.iter().map(Vec::len).sum();
        self.bytes += bytes;
        self.kept.push_back(DatasetVersion { name, segments, bytes, made: now });
        while self.kept.len() > 1
            && (self.kept.len() > MAX_VERSIONS
                || self.bytes > MAX_BYTES
                || self.kept.front().is_some_and(|oldest| oldest.made + VERSION_LIFETIME < now))
        {
            self.bytes -= self.kept.pop_front().map_or(0, |oldest| oldest.bytes);
        }
        first
    }

    /// A segment that is still kept; the first one if the name ends with the version.
    pub(crate) fn find(&self, now: Duration, name: NameRef<'_>) -> Option<&[u8]> {
        let (version, number) = match name.last()? {
            last if last.typ() == types::SEGMENT_COMPONENT => (name.parent(), last.as_number()?),
            _ => (name, 0),
        };
        let kept = self.kept.iter().find(|kept| kept.name.as_ref() == version)?;
        if kept.made + VERSION_LIFETIME < now {
            return None;
        }
        kept.segments.get(usize::try_from(number).ok()?).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::Data;

    fn publish(versions: &mut DatasetVersions, now: u64, content: &[u8]) -> Vec<u8> {
        let name = Name::from_uri("/localhost/nfd/faces/list").unwrap();
        let signer = Signer::digest_sha256();
        versions.publish(Duration::from_secs(now), 1000, name.as_ref(), content, &signer).unwrap()
    }

    #[test]
    fn content_of_any_length_comes_back() {
        for len in [0, 1, SEGMENT_LEN, SEGMENT_LEN + 1, 5 * SEGMENT_LEN - 1] {
            let mut versions = DatasetVersions::default();
            let content: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let first = publish(&mut versions, 0, &content);
            let first = Data::decode(&first).unwrap();
            let last = first.meta().final_block_id.unwrap().as_number().unwrap();
            let mut found = Vec::new();
            for number in 0..=last {
                let name = first.name().parent().child(Component::segment(number));
                let wire = versions.find(Duration::ZERO, name.as_ref()).unwrap();
                let data = Data::decode(wire).unwrap();
                assert_eq!(data.meta().final_block_id, first.meta().final_block_id);
                found.extend_from_slice(data.content());
            }
            assert_eq!(found, content);
            let beyond = first.name().parent().child(Component::segment(last + 1));
            assert_eq!(versions.find(Duration::ZERO, beyond.as_ref()), None);
        }
    }

    #[test]
    fn versions_grow_and_end() {
        let mut versions = DatasetVersions::default();
        let first = publish(&mut versions, 0, b"1");
        let second = publish(&mut versions, 0, b"2");
        let (first, second) = (Data::decode(&first).unwrap(), Data::decode(&second).unwrap());
        assert!(first.name() < second.name());
        assert!(versions.find(VERSION_LIFETIME, first.name()).is_some());
        assert!(versions.find(VERSION_LIFETIME + Duration::from_secs(1), first.name()).is_none());
        for i in 0..100 {
            publish(&mut versions, i, &[0; 100_000]);
            assert!(versions.kept.len() <= MAX_VERSIONS);
        }
        for _ in 0..5 {
            publish(&mut versions, 200, &vec![0; MAX_BYTES]);
            assert_eq!(versions.kept.len(), 1);
        }
        assert_eq!(versions.bytes, versions.kept[0].bytes);
    }
}
