//! [`Evidence`]: two contradictory versions of one publisher, in a form that any program can check.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use super::history::{HistorySplit, SignedVersion, StepError, step};
use crate::keys::PublisherId;

const MAGIC: &[u8; 17] = b"xylem evidence 1\n";
/// Most bytes of a manifest's packet, with its name and signature.
const MAX_PACKET: usize = 4_096;
/// Most bytes of a proof: a segment, and a node for each level.
const MAX_PROOF: usize = 16_384;

/// Two signed versions that cannot be of one history, and the proof of it. The reader must check it by
/// [`Evidence::split`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The earlier version.
    pub earlier: SignedVersion,
    /// The later version, or another of the same number.
    pub later: SignedVersion,
    /// Consistency proof for the beginning of the later version; empty if none is needed.
    pub proof: Vec<u8>,
}

/// Why bytes are no evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// Not in the form of an evidence file.
    #[error("it is not a file of evidence")]
    Malformed,
    /// A manifest is not signed by the publisher that the file names.
    #[error("it has a manifest that the accused publisher did not sign")]
    NotSigned,
    /// Both versions may be of one history.
    #[error("it does not prove two histories: {0}")]
    ProvesNothing(OneHistory),
}

/// Why two versions may be of one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OneHistory {
    /// The one continues the other.
    #[error("the later version continues the earlier one")]
    Continued,
    /// They have different publishers or names.
    #[error("the two versions are not of one publication")]
    OtherPublication,
    /// The later version is given as the earlier one.
    #[error("the two versions are in the wrong order")]
    WrongOrder,
    /// The earlier version is a growing file, and the later one is not.
    #[error("a growing file may be replaced by another")]
    Replaced,
    /// The consistency proof does not hold.
    #[error("the proof in it is wrong")]
    NoProof,
}

impl Evidence {
    /// Checks the evidence and returns the contradiction that it proves.
    ///
    /// # Errors
    /// [`EvidenceError::ProvesNothing`].
    pub fn split(&self) -> Result<HistorySplit, EvidenceError> {
        let why = match step(&self.earlier, &self.later, &self.proof) {
            Err(StepError::Split(split)) => return Ok(split),
            Ok(_) => OneHistory::Continued,
            Err(StepError::OtherPublication) => OneHistory::OtherPublication,
            Err(StepError::Older) => OneHistory::WrongOrder,
            Err(StepError::NotGrowing) => OneHistory::Replaced,
            Err(StepError::NoProof) => OneHistory::NoProof,
        };
        Err(EvidenceError::ProvesNothing(why))
    }

    /// Encodes the evidence as a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.earlier.publisher.0);
        for part in [self.earlier.packet(), self.later.packet(), &self.proof] {
            let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(part);
        }
        out
    }

    /// Reads a file and checks that the publisher signed both manifests. [`Evidence::split`] checks what they prove.
    ///
    /// # Errors
    /// [`EvidenceError`].
    pub fn decode(file: &[u8]) -> Result<Self, EvidenceError> {
        let rest = file.strip_prefix(MAGIC).ok_or(EvidenceError::Malformed)?;
        let (publisher, mut rest) = rest.split_first_chunk().ok_or(EvidenceError::Malformed)?;
        let publisher = PublisherId(*publisher);
        let mut part = |most: usize| {
            let (len, after) = rest.split_first_chunk()?;
            let len = usize::try_from(u32::from_be_bytes(*len)).ok().filter(|len| *len <= most)?;
            let (part, after) = after.split_at_checked(len)?;
            rest = after;
            Some(part)
        };
        let (earlier, later, proof) = (part(MAX_PACKET), part(MAX_PACKET), part(MAX_PROOF));
        let (Some(earlier), Some(later), Some(proof), []) = (earlier, later, proof, rest) else {
            return Err(EvidenceError::Malformed);
        };
        let open = |packet: &[u8]| {
            let version = SignedVersion::open(packet, publisher);
            let version = version.map_err(|_| EvidenceError::NotSigned)?;
            let whole = version.packet() == packet;
            if whole { Ok(version) } else { Err(EvidenceError::Malformed) }
        };
        Ok(Self { earlier: open(earlier)?, later: open(later)?, proof: proof.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::{log, proof, version};
    use super::*;

    #[test]
    fn evidence_of_a_rewritten_history_is_verifiable() {
        let (log, mut other) = (log(), log());
        other[100] ^= 1;
        let earlier = version(b"log", 1, &log[..16_384], true);
        let later = version(b"log", 2, &other, true);
        let evidence = Evidence { earlier, later, proof: proof(16_384, &other) };
        assert_eq!(evidence.split(), Ok(HistorySplit::Rewritten));
        let file = evidence.encode();
        assert_eq!(Evidence::decode(&file), Ok(evidence.clone()));
        for cut in 0..file.len() {
            assert!(Evidence::decode(&file[..cut]).is_err(), "{cut}");
        }
        assert!(Evidence::decode(&[&file[..], &[0]].concat()).is_err());
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let shown = Evidence::decode(&flipped).and_then(|evidence| evidence.split());
            assert!(shown.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn honest_versions_are_no_evidence() {
        let log = log();
        let of = |at, len: usize, grows| version(b"log", at, &log[..len], grows);
        let (small, large) = (16_384, 60_000);
        let honest = [
            (of(1, small, true), of(2, large, true), proof(small, &log)),
            (of(1, small, true), of(2, large, true), Vec::new()),
            (of(1, small, true), of(1, small, true), Vec::new()),
            (of(2, large, true), of(1, small, true), Vec::new()),
            (of(1, large, false), of(2, small, false), Vec::new()),
            (of(1, large, true), of(2, small, false), Vec::new()),
            (of(1, large, true), version(b"other", 2, &log[..small], true), Vec::new()),
        ];
        for (n, (earlier, later, proof)) in honest.into_iter().enumerate() {
            let evidence = Evidence { earlier, later, proof };
            assert!(evidence.split().is_err(), "{n}");
        }
    }
}
