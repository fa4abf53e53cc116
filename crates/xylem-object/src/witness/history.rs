//! [`step`]: may this version follow that one? It uses only what the publisher signed in the two.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Data, Name};
use xylem_tree::consistency::{self, ConsistencyError};

use super::statement::WitnessSubject;
use crate::keys::PublisherId;
use crate::manifest::{Manifest, ManifestError, PublicationKind, verify_manifest};
use crate::naming;

/// A version of a publication as the publisher signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedVersion {
    /// The publisher that signed it.
    pub publisher: PublisherId,
    /// O, the name of the publication in all versions.
    pub object: Name,
    /// The version.
    pub version: u64,
    /// The manifest.
    pub manifest: Manifest,
    packet: Vec<u8>,
}

impl SignedVersion {
    /// Reads a manifest's packet and verifies its signature.
    ///
    /// # Errors
    /// It is not signed by this publisher, or is no manifest of a version.
    pub fn open(packet: &[u8], publisher: PublisherId) -> Result<Self, ManifestError> {
        let data = Data::decode(packet).map_err(|_| ManifestError::BadTlv)?;
        let prefix = data.name().parent();
        let manifest = verify_manifest(&data, prefix, &publisher)?;
        let version = naming::version(prefix).ok_or(ManifestError::WrongName)?;
        let object = prefix.parent().to_name();
        // Bytes after the Data packet are not signed, so they are dropped.
        let packet = data.wire().to_vec();
        Ok(Self { publisher, object, version, manifest, packet })
    }

    /// The publication of this version.
    pub fn subject(&self) -> WitnessSubject {
        WitnessSubject::new(self.publisher, self.object.as_ref())
    }

    /// The signed packet.
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }
}

/// Relation of a version to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionStep {
    /// The same version with the same content.
    Same,
    /// A later version.
    Next {
        /// Whether it was proven to begin with the earlier version.
        proven: bool,
    },
}

/// Two histories: an honest publisher never signs both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistorySplit {
    /// One version with two contents.
    #[error("the publisher signed two contents as one version")]
    TwoContents,
    /// A growing file became shorter.
    #[error(
        "the later version has {new} bytes, fewer than the {old} of the earlier one, though the file only grows"
    )]
    Shorter {
        /// Bytes of the earlier one.
        old: u64,
        /// Bytes of the later one.
        new: u64,
    },
    /// The beginning of a growing file changed.
    #[error("the later version does not begin with the earlier one, though the file only grows")]
    Rewritten,
}

/// Why a version cannot follow another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// They have different publishers or names.
    #[error("the two versions are not of one publication")]
    OtherPublication,
    /// Older than the version that it should follow.
    #[error("the version is older than the one seen before")]
    Older,
    /// The earlier version is a growing file and this one is not.
    #[error("the earlier version is a growing file and this one is not")]
    NotGrowing,
    /// The consistency proof does not hold and proves no contradiction either.
    #[error("the proof that the later version begins with the earlier one is wrong")]
    NoProof,
    /// The publisher has signed two histories.
    #[error(transparent)]
    Split(#[from] HistorySplit),
}

/// Returns whether two are the same version with the same content.
pub fn is_same(a: &SignedVersion, b: &SignedVersion) -> bool {
    let content = |of: &SignedVersion| {
        let Manifest { kind, tree, root, size, .. } = of.manifest;
        (kind, tree, root, size)
    };
    (a.subject(), a.version) == (b.subject(), b.version) && content(a) == content(b)
}

/// The relation of `new` to `old`. For growing files, `proof` must show that the older file is the beginning of the
/// newer one (`xylem_tree::consistency`).
///
/// # Errors
/// [`StepError`].
pub fn step(
    old: &SignedVersion,
    new: &SignedVersion,
    proof: &[u8],
) -> Result<VersionStep, StepError> {
    if old.subject() != new.subject() {
        return Err(StepError::OtherPublication);
    }
    if new.version < old.version {
        return Err(StepError::Older);
    }
    if new.version == old.version {
        return if is_same(old, new) {
            Ok(VersionStep::Same)
        } else {
            Err(HistorySplit::TwoContents.into())
        };
    }
    if old.manifest.growing.is_none() {
        return Ok(VersionStep::Next { proven: false });
    }
    if new.manifest.growing.is_none() || new.manifest.kind != PublicationKind::File {
        return Err(StepError::NotGrowing);
    }
    let (earlier, later) = (old.manifest.geometry(), new.manifest.geometry());
    let (earlier, later) = ((&earlier, old.manifest.root), (&later, new.manifest.root));
    match consistency::verify(earlier, later, proof) {
        Ok(_) => Ok(VersionStep::Next { proven: true }),
        Err(ConsistencyError::Shorter { old, new }) => {
            Err(HistorySplit::Shorter { old, new }.into())
        }
        Err(_) if consistency::contradicts(earlier, later, proof) == Ok(true) => {
            Err(HistorySplit::Rewritten.into())
        }
        Err(_) => Err(StepError::NoProof),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Growing, PublisherKey, sign_manifest};
    use xylem_packet::Component;
    use xylem_tree::{Node, Outboard, SegmentSize};

    /// A signed version of a file.
    pub(crate) fn version(name: &[u8], at: u64, content: &[u8], grows: bool) -> SignedVersion {
        let key = PublisherKey::from_bytes(&[7; 32]);
        let object = Name::new().child(Component::generic(name));
        let prefix = naming::versioned(object.as_ref(), at).unwrap();
        let mut manifest = Manifest::file(xylem_hash::hash(content), content.len() as u64, b"log");
        manifest.growing = grows.then_some(Growing { number: at, last: false });
        let packet = sign_manifest(&manifest, prefix.as_ref(), &key).unwrap();
        SignedVersion::open(&packet, key.public()).unwrap()
    }

    /// The proof that the first `old` bytes of `content` are its beginning.
    pub(crate) fn proof(old: usize, content: &[u8]) -> Vec<u8> {
        let outboard = Outboard::of(content, SegmentSize::DEFAULT);
        let geometry = xylem_tree::Geometry::new(old as u64, SegmentSize::DEFAULT);
        let needs = consistency::needs(&geometry, outboard.geometry());
        let range = needs.map_or(0..0, |needs| outboard.geometry().segment_range(needs.segment));
        let bytes = &content[range.start as usize..range.end as usize];
        let node = |node: Node| outboard.node(node);
        let mut out = Vec::new();
        assert!(consistency::prove(&geometry, outboard.geometry(), bytes, node, &mut out));
        out
    }

    pub(crate) fn log() -> Vec<u8> {
        (0..60_000_u32).map(|n| ((n * n) >> 7) as u8).collect()
    }

    #[test]
    fn a_growing_file_is_followed_only_by_appended_versions() {
        let (log, mut other) = (log(), log());
        other[5_000] ^= 1;
        let old = version(b"log", 1, &log[..16_384], true);
        let new = version(b"log", 2, &log, true);
        let good = proof(16_384, &log);
        assert_eq!(step(&old, &new, &good), Ok(VersionStep::Next { proven: true }));
        assert_eq!(step(&old, &old, &[]), Ok(VersionStep::Same));
        assert_eq!(step(&new, &old, &good), Err(StepError::Older));
        // Rewritten before its end: each proof either reveals that or proves nothing.
        let forked = version(b"log", 2, &other, true);
        assert_eq!(
            step(&old, &forked, &proof(16_384, &other)),
            Err(HistorySplit::Rewritten.into())
        );
        assert_eq!(step(&old, &forked, &good), Err(StepError::NoProof));
        assert_eq!(step(&old, &new, &[]), Err(StepError::NoProof));
        for bit in 0..good.len() * 8 {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(step(&old, &new, &flipped), Err(StepError::NoProof), "bit {bit}");
        }
        // Shorter, or of the same length with other content.
        let shorter = version(b"log", 2, &log[..10_000], true);
        let found = step(&old, &shorter, &[]);
        assert_eq!(found, Err(HistorySplit::Shorter { old: 16_384, new: 10_000 }.into()));
        let same_length = version(b"log", 2, &other[..16_384], true);
        assert_eq!(step(&old, &same_length, &[]), Err(HistorySplit::Rewritten.into()));
        let again = version(b"log", 2, &log[..16_384], true);
        assert_eq!(step(&old, &again, &[]), Ok(VersionStep::Next { proven: true }));
        assert_eq!(step(&old, &version(b"log", 2, &log, false), &good), Err(StepError::NotGrowing));
    }

    #[test]
    fn one_version_has_one_content() {
        for grows in [false, true] {
            let (a, b) = (version(b"a", 1, b"one", grows), version(b"a", 1, b"two", grows));
            assert_eq!(step(&a, &b, &[]), Err(HistorySplit::TwoContents.into()));
            assert_eq!(step(&b, &a, &[]), Err(HistorySplit::TwoContents.into()));
        }
        // A file that does not grow may change as a whole. A file under another name is another publication.
        let (a, b) = (version(b"a", 1, b"one", false), version(b"a", 2, b"two", false));
        assert_eq!(step(&a, &b, &[]), Ok(VersionStep::Next { proven: false }));
        let other = version(b"b", 2, b"two", false);
        assert_eq!(step(&a, &other, &[]), Err(StepError::OtherPublication));
    }

    #[test]
    fn only_what_the_publisher_signed_is_a_version() {
        let signed = version(b"a", 1, b"one", false);
        let other = PublisherKey::from_bytes(&[8; 32]).public();
        assert!(SignedVersion::open(signed.packet(), other).is_err());
        let publisher = signed.publisher;
        for bit in 0..signed.packet().len() * 8 {
            let mut flipped = signed.packet().to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(SignedVersion::open(&flipped, publisher).is_err(), "bit {bit}");
        }
    }
}
