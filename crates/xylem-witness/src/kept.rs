//! [`Cosigned`]: the newest co-signature of each named witness, as a share stores and serves them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_base::{UnixTime, disk};
use xylem_files::Testimony;
use xylem_forward::FaceId;
use xylem_object::Manifest;
use xylem_object::witness::{
    MAX_COSIGNATURE, MAX_COSIGNATURES, SubmissionReply, Witness, WitnessStatement, WitnessSubject,
    decode_list, encode_list,
};
use xylem_store::{Clobber, Durability, OpenHow, create_dirs, read_small, write_whole};

use super::MAX_AHEAD_MS;
use super::demand::named;
use super::error::CosigningError;

const DIR: &str = "witnessed";
/// Co-signatures are public.
const FILE_MODE: u32 = 0o644;
const MAX_FILE: u64 = (MAX_COSIGNATURES * (MAX_COSIGNATURE + 2) + 2) as u64;
/// Most signatures that are verified for one face in a second: enough for a few witnesses with a few publications.
const PER_SECOND: u32 = 16;
/// Most faces that are tracked for that limit.
const MAX_FACES: usize = 4_096;
/// Most publications with co-signatures in memory.
const MAX_SUBJECTS: usize = 4_096;

/// The newest version of a publication in a share.
#[derive(Clone, Copy, Debug)]
pub struct SharedVersion<'a> {
    /// The publication.
    pub subject: WitnessSubject,
    /// The version number.
    pub version: u64,
    /// Its manifest.
    pub manifest: &'a Manifest,
}

/// Result of a co-signature that a witness submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionResult {
    /// Answer to the witness.
    pub answer: SubmissionReply,
    /// The co-signature, if it was stored.
    pub kept: Option<Testimony>,
    /// Warning to the sharer.
    pub warning: Option<String>,
}

impl SubmissionResult {
    fn only(answer: SubmissionReply) -> Self {
        Self { answer, kept: None, warning: None }
    }
}

struct StoredCosignature {
    said: WitnessStatement,
    packet: Vec<u8>,
}

/// The co-signatures that a share stores.
pub struct Cosigned {
    dir: PathBuf,
    witnesses: Vec<Witness>,
    /// Co-signatures by publication, in the order of the witnesses.
    kept: HashMap<WitnessSubject, Vec<Option<StoredCosignature>>>,
    /// Per face: start of the current second, and signatures verified in it.
    verified: HashMap<FaceId, (Duration, u32)>,
}

impl Cosigned {
    /// Accepts co-signatures by the witnesses with certificates in these files.
    ///
    /// # Errors
    /// Files without a certificate, a witness named twice, too many witnesses.
    pub fn by(store: &Path, files: &[PathBuf]) -> Result<Self, CosigningError> {
        let witnesses = named(files)?;
        let dir = store.join(DIR);
        Ok(Self { dir, witnesses, kept: HashMap::new(), verified: HashMap::new() })
    }

    /// Returns the content of the answer to an Interest for the co-signatures of this publication.
    pub fn list(&mut self, subject: &WitnessSubject) -> Vec<u8> {
        let kept = self.of(subject).iter().flatten();
        encode_list(kept.map(|kept| &kept.packet[..]))
    }

    /// Judges a co-signature that a witness submitted; `from` is the face of the submission.
    pub fn take(
        &mut self,
        now: Duration,
        clock: UnixTime,
        from: FaceId,
        newest: SharedVersion<'_>,
        packet: &[u8],
    ) -> SubmissionResult {
        let Some(at) = self.witnesses.iter().position(|by| by.is_named_by(packet)) else {
            return SubmissionResult::only(SubmissionReply::WitnessNotNamed);
        };
        if let Some(kept) = &self.of(&newest.subject)[at]
            && kept.packet == packet
        {
            return SubmissionResult::only(SubmissionReply::Kept);
        }
        if !self.may_verify(now, from) {
            return SubmissionResult::only(SubmissionReply::TooMany);
        }
        // Several keys of one identity may be named.
        let by = self.witnesses.iter().enumerate();
        let said = by.filter_map(|(at, by)| Some((at, by.verify_cosignature(packet).ok()?))).next();
        let Some((at, said)) = said else {
            return SubmissionResult::only(SubmissionReply::WitnessNotNamed);
        };
        self.judge(at, said, clock, newest, packet)
    }

    fn judge(
        &mut self,
        at: usize,
        said: WitnessStatement,
        clock: UnixTime,
        newest: SharedVersion<'_>,
        packet: &[u8],
    ) -> SubmissionResult {
        let witness = self.witnesses[at].identity().to_name();
        let ahead = said.time_ms > clock.milliseconds().saturating_add(MAX_AHEAD_MS);
        if said.subject != newest.subject || ahead {
            return SubmissionResult::only(SubmissionReply::NotNewer);
        }
        let same = said.version == newest.version;
        if said.version > newest.version || same && !said.has_content_of(newest.manifest) {
            let warning = format!(
                "{witness} has seen v={}, which this share has not published: another share signs with this key, or \
                 this store is an older copy",
                said.version
            );
            return SubmissionResult {
                answer: SubmissionReply::NotPublishedHere,
                kept: None,
                warning: Some(warning),
            };
        }
        let old = &mut self.kept.entry(newest.subject).or_default()[at];
        let order = |said: &WitnessStatement| (said.version, said.time_ms);
        if old.as_ref().is_some_and(|old| order(&old.said) >= order(&said)) {
            return SubmissionResult::only(SubmissionReply::NotNewer);
        }
        let anew = old.as_ref().is_some_and(|old| said.first > old.said.first);
        let warning = anew.then(|| {
            format!("{witness} has lost its record, and begins a new one with v={}", said.first)
        });
        let kept = Some(Testimony::new(witness, &said));
        *old = Some(StoredCosignature { said, packet: packet.to_vec() });
        self.write(&newest.subject);
        SubmissionResult { answer: SubmissionReply::Kept, kept, warning }
    }

    /// Forgets a face that went down.
    pub fn face_went_down(&mut self, face: FaceId) {
        self.verified.remove(&face);
    }

    fn may_verify(&mut self, now: Duration, from: FaceId) -> bool {
        if self.verified.len() >= MAX_FACES && !self.verified.contains_key(&from) {
            return false;
        }
        let (since, count) = self.verified.entry(from).or_insert((now, 0));
        if now >= *since + Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= PER_SECOND
    }

    /// Returns the co-signatures of a publication; those that an earlier run stored are read first.
    fn of(&mut self, subject: &WitnessSubject) -> &[Option<StoredCosignature>] {
        if !self.kept.contains_key(subject) {
            if self.kept.len() >= MAX_SUBJECTS {
                self.kept.clear();
            }
            let read = self.read(subject);
            self.kept.insert(*subject, read);
        }
        &self.kept[subject]
    }

    fn path(&self, subject: &WitnessSubject) -> PathBuf {
        let name: String = subject.id().iter().map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(name)
    }

    /// Reads a stored file. Each co-signature is verified as if it were new, so damaged ones are ignored. Co-signatures
    /// of witnesses that are no longer named are not served.
    fn read(&self, subject: &WitnessSubject) -> Vec<Option<StoredCosignature>> {
        let path = self.path(subject);
        let file = read_small(&*disk(), &path, OpenHow::ReadNoFollow, MAX_FILE);
        let file = file.ok().flatten().unwrap_or_default();
        let packets = decode_list(&file).unwrap_or_default();
        let of = |by: &Witness| {
            let own = packets.iter().filter(|packet| by.is_named_by(packet));
            own.filter_map(|packet| Some((by.verify_cosignature(packet).ok()?, packet)))
                .find(|(said, _)| said.subject == *subject)
                .map(|(said, packet)| StoredCosignature { said, packet: packet.to_vec() })
        };
        self.witnesses.iter().map(of).collect()
    }

    /// Writes the file without waiting for the device: a witness submits a lost co-signature again.
    fn write(&mut self, subject: &WitnessSubject) {
        let (path, list) = (self.path(subject), self.list(subject));
        let disk = disk();
        let write =
            || write_whole(&*disk, &path, &list, FILE_MODE, Clobber::Replace, Durability::Cached);
        if write().is_err() && create_dirs(&*disk, &self.dir).is_ok() {
            let _ = write();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{NOW, Witnesses, later, version};
    use xylem_object::witness::SignedVersion;

    fn named(all: &Witnesses, who: &[&str]) -> Cosigned {
        let files: Vec<PathBuf> = who.iter().map(|who| all.file(who)).collect();
        Cosigned::by(all.dir.path(), &files).unwrap()
    }

    fn newest(of: &SignedVersion) -> SharedVersion<'_> {
        SharedVersion { subject: of.subject(), version: of.version, manifest: &of.manifest }
    }

    fn hand(kept: &mut Cosigned, of: &SignedVersion, packet: &[u8]) -> SubmissionResult {
        kept.take(Duration::from_secs(9), later(9), FaceId(1), newest(of), packet)
    }

    #[test]
    fn only_the_newest_of_each_named_witness_is_kept() {
        let home = Witnesses::new();
        let (one, two) = (version(1, b"one", false), version(2, b"two", false));
        let mut kept = named(&home, &["/a", "/b"]);
        let first = home.by("/a", &one, NOW, 1);
        let taken = hand(&mut kept, &two, &first);
        assert_eq!((taken.answer, taken.warning), (SubmissionReply::Kept, None));
        let witness = taken.kept.unwrap().witness.to_string();
        assert_eq!(witness, "/a");
        assert_eq!(hand(&mut kept, &two, &first).kept, None, "it was there");
        let second = home.by("/a", &two, later(1), 1);
        assert_eq!(hand(&mut kept, &two, &second).answer, SubmissionReply::Kept);
        let by_b = home.by("/b", &two, later(1), 1);
        assert_eq!(hand(&mut kept, &two, &by_b).answer, SubmissionReply::Kept);
        assert_eq!(kept.list(&two.subject()), encode_list([&second[..], &by_b]));
        // Older ones again, a stranger's, and one that is invalid.
        assert_eq!(hand(&mut kept, &two, &first).answer, SubmissionReply::NotNewer);
        let stranger = home.by("/x", &two, later(1), 1);
        assert_eq!(hand(&mut kept, &two, &stranger).answer, SubmissionReply::WitnessNotNamed);
        assert_eq!(hand(&mut kept, &two, b"").answer, SubmissionReply::WitnessNotNamed);
        let future = home.by("/a", &two, later(1_000), 1);
        assert_eq!(hand(&mut kept, &two, &future).answer, SubmissionReply::NotNewer);
        assert_eq!(kept.list(&two.subject()), encode_list([&second[..], &by_b]));
        // The next run has them, except for witnesses that it no longer names.
        let mut again = named(&home, &["/b", "/x"]);
        assert_eq!(again.list(&two.subject()), encode_list([&by_b[..]]));
        assert_eq!(named(&home, &[]).list(&two.subject()), encode_list([]));
        // A damaged file counts as missing.
        std::fs::write(kept.path(&two.subject()), b"rubbish").unwrap();
        assert_eq!(named(&home, &["/a"]).list(&two.subject()), encode_list([]));
    }

    #[test]
    fn the_sharer_is_warned_of_foreign_versions_and_lost_records() {
        let home = Witnesses::new();
        let (one, two) = (version(1, b"one", false), version(2, b"two", false));
        let mut kept = named(&home, &["/a"]);
        for seen in [&two, &version(1, b"another", false)] {
            let taken = hand(&mut kept, &one, &home.by("/a", seen, NOW, 1));
            assert_eq!((taken.answer, taken.kept), (SubmissionReply::NotPublishedHere, None));
            assert!(taken.warning.unwrap().contains("another share signs with this key"));
        }
        hand(&mut kept, &two, &home.by("/a", &one, NOW, 1));
        let taken = hand(&mut kept, &two, &home.by("/a", &two, later(1), 2));
        assert!(taken.kept.is_some() && taken.warning.unwrap().contains("lost its record"));
    }

    #[test]
    fn a_flood_costs_few_verifications_a_second() {
        let home = Witnesses::new();
        let one = version(1, b"one", false);
        let mut kept = named(&home, &["/a"]);
        // The packet carries the witness's name, and is signed by another key.
        let mut forged = home.by("/a", &one, NOW, 1);
        *forged.last_mut().unwrap() ^= 1;
        let good = home.by("/a", &one, NOW, 1);
        let at = |kept: &mut Cosigned, ms: u64, face: u64, packet: &[u8]| {
            kept.take(Duration::from_millis(ms), later(1), FaceId(face), newest(&one), packet)
                .answer
        };
        for n in 0..1_000 {
            let expected = if n < PER_SECOND {
                SubmissionReply::WitnessNotNamed
            } else {
                SubmissionReply::TooMany
            };
            assert_eq!(at(&mut kept, 0, 1, &forged), expected, "{n}");
        }
        // Other faces are not affected, and the first one may try again later.
        assert_eq!(at(&mut kept, 0, 2, &good), SubmissionReply::Kept);
        assert_eq!(at(&mut kept, 1_000, 1, &forged), SubmissionReply::WitnessNotNamed);
        kept.face_went_down(FaceId(1));
        assert_eq!(kept.verified.len(), 1);
    }
}
