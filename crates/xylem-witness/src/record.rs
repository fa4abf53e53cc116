//! [`WitnessRecord`]: the newest version of a publication that a witness has seen, and its co-signature, on disk.
//!
//! The record is on the device before the co-signature leaves: [`WitnessRecord::cosign`] returns only then. Whenever
//! the process ends, the next one therefore knows of every version that was co-signed. A lock excludes a second
//! process, which could sign another history from an older record. A copy of the record in another place, if the user
//! names one, shows that the store was put back from a backup.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{FileMedium, UnixTime, disk};
use xylem_hash::Hash;
use xylem_object::witness::{
    Evidence, SignedVersion, VersionStep, Witness, WitnessStatement, WitnessSubject, cosign, step,
};
use xylem_object::{PublisherId, Ticket};
use xylem_packet::{Data, Name, NameRef};
use xylem_store::{
    Clobber, FileRef, Medium, OpenHow, StoreError, create_dirs, read_small, write_atomically,
};
use xylem_trust::{Signer, key_name_of};

use super::error::CosigningError;

/// Age at which the newest version is co-signed again: the later time shows that no newer version is withheld.
pub const COSIGN_AGAIN: std::time::Duration = std::time::Duration::from_secs(3_600);

const MAGIC: &[u8; 13] = b"xylem saw v1\n";
const DIR: &str = "witness";
const HASH_LEN: usize = 32;
/// Most bytes of a record: two packets, and the fields around them.
const MAX_FILE: u64 = 16_384;
/// Most records that are searched for a ticket.
const MAX_RECORDS: usize = 10_000;
/// A clock that was set back by at most this many milliseconds is tolerated: signed times still grow.
const MAX_BACK_MS: u64 = 60_000;

/// The newest version that was seen, and its co-signature.
#[derive(Clone, Debug)]
struct SeenVersion {
    newest: SignedVersion,
    said: WitnessStatement,
    cosignature: Vec<u8>,
}

/// A witness's record of one publication.
#[derive(Debug)]
pub struct WitnessRecord {
    medium: FileMedium,
    path: PathBuf,
    /// The copy in another place.
    copy: Option<PathBuf>,
    /// Lock that is held while the record is open.
    _lock: FileRef,
    identity: Name,
    /// Root of the ticket with which the record began.
    asked: Hash,
    seen: Option<SeenVersion>,
}

impl WitnessRecord {
    /// Returns the object's name that an earlier run found for this ticket, even if the ticket's version is gone.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn object_of(
        medium: &FileMedium,
        store: &Path,
        ticket: &Ticket,
    ) -> Result<Option<Name>, CosigningError> {
        let dir = store.join(DIR);
        let entries = match medium.list_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries.map_err(at(&dir, "read"))?,
        };
        for entry in entries.into_iter().take(MAX_RECORDS) {
            let read = read(&**medium, &dir.join(entry.name));
            let Ok(Some((asked, seen))) = read else { continue };
            if asked == ticket.root && seen.newest.publisher == ticket.publisher {
                return Ok(Some(seen.newest.object));
            }
        }
        Ok(None)
    }

    /// Opens the record of a publication for this key; it need not exist yet. A copy of it is kept in the directory
    /// `copies`, which has to exist: an absent one may be a disk that is not mounted.
    ///
    /// # Errors
    /// [`CosigningError::Busy`], [`CosigningError::Damaged`], [`CosigningError::OlderThanCopy`], the file system's.
    pub fn open(
        medium: &FileMedium,
        store: &Path,
        copies: Option<&Path>,
        publisher: PublisherId,
        object: NameRef<'_>,
        ticket: &Ticket,
        signer: &Signer,
    ) -> Result<Self, CosigningError> {
        let locator = signer.key_locator().unwrap_or_default();
        let key_name = key_name_of(locator);
        let key_name = key_name.ok_or_else(|| CosigningError::KeyName(locator.to_name()))?;
        let identity = key_name.prefix(key_name.len().saturating_sub(2)).to_name();
        let subject = WitnessSubject::new(publisher, object);
        let key = signer.public().map(|key| key.digest()).unwrap_or_default();
        let which = xylem_hash::hash(&[&subject.id()[..], &key].concat());
        let dir = store.join(DIR);
        create_dirs(&**medium, &dir)?;
        let path = dir.join(format!("{which}.seen"));
        let lock = lock(&**medium, &path)?;
        let read = read(&**medium, &path)?;
        let other = |seen: &SeenVersion| seen.newest.subject() != subject;
        if read.as_ref().is_some_and(|(_, seen)| other(seen)) {
            return Err(CosigningError::Damaged(path));
        }
        let (asked, seen) = read.map_or((ticket.root, None), |(asked, seen)| (asked, Some(seen)));
        let copy = copies.map(|copies| copies.join(format!("{which}.seen")));
        let medium = medium.clone();
        let record = Self { medium, path, copy, _lock: lock, identity, asked, seen };
        record.check_copy()?;
        Ok(record)
    }

    /// Compares the record with its copy, and makes the copy if it is missing or older.
    fn check_copy(&self) -> Result<(), CosigningError> {
        let Some(copy) = &self.copy else { return Ok(()) };
        let copies = copy.parent().unwrap_or(copy);
        // The directory may be a link.
        self.medium.list_dir(copies).map_err(at(copies, "look at"))?;
        let said_ms = |seen: &SeenVersion| seen.said.time_ms;
        let (here, there) = (self.seen.as_ref().map(said_ms), read(&*self.medium, copy)?);
        let there = there.as_ref().map(|(_, seen)| said_ms(seen));
        if there > here {
            let (record, copy) = (self.path.clone(), copy.clone());
            return Err(CosigningError::OlderThanCopy { record, copy });
        }
        match &self.seen {
            Some(seen) if there < here => self.write_copy(&write(&self.asked, seen)),
            _ => Ok(()),
        }
    }

    fn write_copy(&self, file: &[u8]) -> Result<(), CosigningError> {
        if let Some(copy) = &self.copy {
            write_atomically(&*self.medium, copy, file, 0o600, Clobber::Replace)?;
        }
        Ok(())
    }

    /// Returns the witness's name.
    pub fn identity(&self) -> &Name {
        &self.identity
    }

    /// Returns the newest version that was seen.
    pub fn newest(&self) -> Option<&SignedVersion> {
        self.seen.as_ref().map(|seen| &seen.newest)
    }

    /// Returns the last statement, and its packet.
    pub fn said(&self) -> Option<(&WitnessStatement, &[u8])> {
        self.seen.as_ref().map(|seen| (&seen.said, &seen.cosignature[..]))
    }

    /// Compares the record with co-signatures of this witness that other peers have. Without a record nothing can be
    /// outdated; the next co-signature states that the record begins anew.
    ///
    /// # Errors
    /// [`CosigningError::SetBack`]: one of these `packets` was signed with this key after the last one in the record.
    pub fn compare(&self, packets: &[&[u8]], signer: &Signer) -> Result<(), CosigningError> {
        let Some((SeenVersion { newest, said, .. }, key)) = self.seen.as_ref().zip(signer.public())
        else {
            return Ok(());
        };
        let own = Witness::with_key(self.identity.clone(), &key).ok();
        let cosigned = |packet: &&[u8]| {
            let own = own.as_ref().filter(|own| own.is_named_by(packet))?;
            own.verify_cosignature(packet).ok().filter(|other| other.subject == newest.subject())
        };
        let newer = packets.iter().filter_map(cosigned).find(|other| other.time_ms > said.time_ms);
        newer.map_or(Ok(()), |other| {
            let seconds = other.time_ms.saturating_sub(said.time_ms).div_ceil(1_000);
            Err(CosigningError::SetBack { version: other.version, seconds })
        })
    }

    /// Co-signs a version that continues what was seen, as `proof` shows, or the same version again. It is on the
    /// device when this returns.
    ///
    /// # Errors
    /// The version does not continue what was seen; [`CosigningError::ClockBack`]; the record cannot be written.
    pub fn cosign(
        &mut self,
        newest: SignedVersion,
        proof: &[u8],
        signer: &Signer,
        now: UnixTime,
    ) -> Result<(), CosigningError> {
        let now_ms = now.milliseconds();
        let (time_ms, proven, since_ms, first) = match &self.seen {
            None => (now_ms, false, now_ms, newest.version),
            Some(SeenVersion { newest: old, said, .. }) => {
                let proven = match step(old, &newest, proof)? {
                    VersionStep::Same => said.proven,
                    VersionStep::Next { proven } => proven,
                };
                let back = said.time_ms.saturating_sub(now_ms);
                if back > MAX_BACK_MS {
                    return Err(CosigningError::ClockBack(back / 1_000));
                }
                let time_ms = now_ms.max(said.time_ms.saturating_add(1));
                (time_ms, proven, said.since_ms, said.first)
            }
        };
        let manifest = &newest.manifest;
        let said = WitnessStatement {
            subject: newest.subject(),
            version: newest.version,
            kind: manifest.kind,
            size: manifest.size,
            root: manifest.root,
            proven,
            time_ms,
            since_ms,
            first,
        };
        let cosignature = cosign(&said, self.identity.as_ref(), signer)?;
        let seen = SeenVersion { newest, said, cosignature };
        let file = write(&self.asked, &seen);
        write_atomically(&*self.medium, &self.path, &file, 0o600, Clobber::Replace)?;
        self.seen = Some(seen);
        // A process that ends here leaves an older copy, which the next one replaces.
        self.write_copy(&file)
    }

    /// Returns the evidence that `other` and what was seen are two histories, if they are.
    pub fn evidence(&self, other: &SignedVersion, proof: &[u8]) -> Option<Evidence> {
        let (earlier, later) = (self.newest()?.clone(), other.clone());
        let evidence = Evidence { earlier, later, proof: proof.to_vec() };
        evidence.split().is_ok().then_some(evidence)
    }
}

/// Stores evidence, and returns its path.
///
/// # Errors
/// It cannot be written.
pub fn keep_evidence(store: &Path, evidence: &Evidence) -> Result<PathBuf, StoreError> {
    let file = evidence.encode();
    let dir = store.join(DIR);
    create_dirs(&*disk(), &dir)?;
    let name = xylem_hash::hash(&file).to_string();
    let path = dir.join(format!("{}.evidence", name.get(..16).unwrap_or_default()));
    write_atomically(&*disk(), &path, &file, 0o600, Clobber::Replace)?;
    Ok(path)
}

fn at(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> StoreError {
    move |e| StoreError::from_io(doing, path, None, e)
}

fn lock(medium: &dyn Medium, path: &Path) -> Result<FileRef, CosigningError> {
    let path = path.with_extension("lock");
    let file = medium.open(&path, OpenHow::Create { mode: 0o666 }).map_err(at(&path, "open"))?;
    match file.try_lock() {
        Ok(true) => Ok(FileRef::new(file, path)),
        Ok(false) => Err(CosigningError::Busy(path)),
        Err(e) => Err(at(&path, "lock")(e).into()),
    }
}

/// Reads a record; `None` if there is none.
fn read(medium: &dyn Medium, path: &Path) -> Result<Option<(Hash, SeenVersion)>, CosigningError> {
    let damaged = || CosigningError::Damaged(path.to_path_buf());
    match read_small(medium, path, OpenHow::Read, MAX_FILE) {
        Err(StoreError::Corrupt { .. }) => Err(damaged()),
        Err(e) => Err(e.into()),
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => parse(&bytes).map(Some).ok_or_else(damaged),
    }
}

/// Encodes a record: magic | root of the ticket 32 | publisher 32 | (length u32, packet) of manifest and co-signature |
/// BLAKE3 hash of all before.
fn write(asked: &Hash, seen: &SeenVersion) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(asked.as_bytes());
    out.extend_from_slice(&seen.newest.publisher.0);
    for packet in [seen.newest.packet(), &seen.cosignature] {
        out.extend_from_slice(&u32::try_from(packet.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(packet);
    }
    let hash = xylem_hash::hash(&out);
    out.extend_from_slice(hash.as_bytes());
    out
}

fn parse(file: &[u8]) -> Option<(Hash, SeenVersion)> {
    let (body, hash) = file.split_last_chunk::<HASH_LEN>()?;
    if xylem_hash::hash(body).as_bytes() != hash {
        return None;
    }
    let (asked, rest) = body.strip_prefix(MAGIC)?.split_first_chunk::<HASH_LEN>()?;
    let (publisher, rest) = rest.split_first_chunk::<HASH_LEN>()?;
    let (manifest, rest) = part(rest)?;
    let (cosignature, rest) = part(rest)?;
    let newest = SignedVersion::open(manifest, PublisherId(*publisher)).ok()?;
    let said = WitnessStatement::decode(Data::decode(cosignature).ok()?.content())?;
    let is_of = (said.subject, said.version) == (newest.subject(), newest.version);
    let sound = rest.is_empty() && is_of && said.has_content_of(&newest.manifest);
    let seen = SeenVersion { newest, said, cosignature: cosignature.to_vec() };
    sound.then(|| (Hash::from(*asked), seen))
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use std::fs;
    use std::sync::Arc;
    use xylem_faults::{DiskFault, FaultMedium};
    use xylem_keys::{KeyKind, Keyring};
    use xylem_object::witness::{HistorySplit, StepError};
    use xylem_object::{Growing, Manifest, PublisherKey, naming, sign_manifest};
    use xylem_tree::{Geometry, Outboard, SegmentSize, consistency};
    use xylem_trust::Armor;

    pub(crate) const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_800_000_000));

    pub(crate) fn later(seconds: u64) -> UnixTime {
        UnixTime::new(Duration::from_secs(1_800_000_000 + seconds))
    }

    pub(crate) fn version(at: u64, content: &[u8], grows: bool) -> SignedVersion {
        let key = PublisherKey::from_bytes(&[7; 32]);
        let object = Name::from_uri("/alice/log").unwrap();
        let prefix = naming::versioned(object.as_ref(), at).unwrap();
        let mut manifest = Manifest::file(xylem_hash::hash(content), content.len() as u64, b"log");
        manifest.growing = grows.then_some(Growing { number: at, last: false });
        let packet = sign_manifest(&manifest, prefix.as_ref(), &key).unwrap();
        SignedVersion::open(&packet, key.public()).unwrap()
    }

    /// Keys of three witnesses, /a, /b and /x.
    pub(crate) struct Witnesses {
        pub(crate) dir: tempfile::TempDir,
        keyring: Keyring,
    }

    impl Witnesses {
        pub(crate) fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let keyring = Keyring::at(dir.path());
            let all = Self { dir, keyring };
            for who in ["/a", "/b", "/x"] {
                all.keyring.create(who, KeyKind::Ed25519, NOW).unwrap();
                let certificate = Armor::bare(&all.keyring.certificate(who).unwrap());
                fs::write(all.file(who), certificate).unwrap();
            }
            all
        }

        /// The file with the certificate.
        pub(crate) fn file(&self, who: &str) -> PathBuf {
            self.dir.path().join(&who[1..])
        }

        /// A co-signature by one of them.
        pub(crate) fn by(
            &self,
            who: &str,
            seen: &SignedVersion,
            time: UnixTime,
            first: u64,
        ) -> Vec<u8> {
            let said = WitnessStatement {
                subject: seen.subject(),
                version: seen.version,
                kind: seen.manifest.kind,
                size: seen.manifest.size,
                root: seen.manifest.root,
                proven: false,
                time_ms: time.milliseconds(),
                since_ms: NOW.milliseconds(),
                first,
            };
            let identity = Name::from_uri(who).unwrap();
            cosign(&said, identity.as_ref(), &self.keyring.signer(who).unwrap()).unwrap()
        }
    }

    pub(crate) fn signer() -> Signer {
        Signer::ed25519(&[5; 32], Name::from_uri("/w/KEY/1").unwrap())
    }

    fn ticket(of: &SignedVersion) -> Ticket {
        Ticket {
            publisher: of.publisher,
            root: of.manifest.root,
            name: None,
            link_key: None,
            size: None,
            kind: None,
            addresses: Vec::new(),
            relays: Vec::new(),
        }
    }

    fn open(store: &Path, first: &SignedVersion) -> Result<WitnessRecord, CosigningError> {
        let object = Name::from_uri("/alice/log").unwrap();
        open_with_copies(store, None, object.as_ref(), first)
    }

    fn open_with_copies(
        store: &Path,
        copies: Option<&Path>,
        object: NameRef<'_>,
        first: &SignedVersion,
    ) -> Result<WitnessRecord, CosigningError> {
        WitnessRecord::open(
            &FileMedium::default(),
            store,
            copies,
            first.publisher,
            object,
            &ticket(first),
            &signer(),
        )
    }

    /// What left as a co-signature is in the record, whatever the disk does, and the next attempt succeeds.
    #[test]
    fn a_failing_disk_forgets_no_cosignature() {
        let (one, two) = (version(1, b"one", false), version(2, b"two", false));
        let object = one.object.clone();
        let opened = |medium: &FaultMedium| {
            let medium = FileMedium::from(Arc::new(medium.clone()));
            let (store, copies) = (Path::new("/store"), Some(Path::new("/copies")));
            let ticket = ticket(&one);
            WitnessRecord::open(
                &medium,
                store,
                copies,
                one.publisher,
                object.as_ref(),
                &ticket,
                &signer(),
            )
        };
        // The faults of the disk's steps, of looks and of reads.
        let faults = [DiskFault::Once, DiskFault::Full, DiskFault::Torn, DiskFault::Dead];
        let faults = faults.map(Some).into_iter().chain([None]);
        for (which, fault) in faults.enumerate() {
            for n in 0.. {
                let medium = FaultMedium::new();
                medium.create_dir(Path::new("/copies"), 0o700).unwrap();
                medium.sync_dir(Path::new("/")).unwrap();
                match fault {
                    Some(fault) => medium.fail_after(n, fault),
                    None if n % 2 == 0 => medium.fail_look_after(n / 2),
                    None => medium.fail_read_after(n / 2),
                }
                let mut said_ms = 0;
                let mut run = || -> Result<(), CosigningError> {
                    for (at, seen) in [(0, &one), (1, &two), (2, &two)] {
                        let mut record = opened(&medium)?;
                        record.cosign(seen.clone(), &[], &signer(), later(at))?;
                        said_ms = record.said().map_or(0, |(said, _)| said.time_ms);
                    }
                    Ok(())
                };
                let (done, what) = (run(), format!("fault {which} at {n}"));
                let has_failed = medium.has_failed();
                assert!(done.is_ok() || has_failed, "{what}: {done:?}");
                medium.heal();
                let mut disks = vec![medium.image()];
                disks.extend((0..4).map(|seed| medium.power_cut(4 * n + seed)));
                for disk in disks {
                    let mut next = opened(&disk).unwrap_or_else(|e| panic!("{what}: {e}"));
                    let known_ms = next.said().map_or(0, |(said, _)| said.time_ms);
                    assert!(known_ms >= said_ms, "{what}: a co-signature was forgotten");
                    next.cosign(two.clone(), &[], &signer(), later(9)).unwrap();
                    drop(next);
                    assert_eq!(opened(&disk).unwrap().newest(), Some(&two), "{what}");
                }
                if !has_failed && (fault.is_some() || n % 2 == 0) {
                    break;
                }
            }
        }
    }

    #[test]
    fn an_older_record_than_its_copy_signs_nothing() {
        let (store, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (one, two) = (version(1, b"one", false), version(2, b"two", false));
        let object = one.object.clone();
        let with_copy =
            || open_with_copies(store.path(), Some(copies.path()), object.as_ref(), &one);
        let mut record = with_copy().unwrap();
        record.cosign(one.clone(), &[], &signer(), NOW).unwrap();
        let (path, copy) = (record.path.clone(), record.copy.clone().unwrap());
        let backup = fs::read(&path).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), backup);
        record.cosign(two.clone(), &[], &signer(), later(9)).unwrap();
        drop(record);
        let newest = fs::read(&path).unwrap();
        fs::write(&path, &backup).unwrap();
        assert!(matches!(with_copy(), Err(CosigningError::OlderThanCopy { .. })));
        // A lost record is older than any copy.
        fs::remove_file(&path).unwrap();
        assert!(matches!(with_copy(), Err(CosigningError::OlderThanCopy { .. })));
        // The copy is a record.
        fs::copy(&copy, &path).unwrap();
        assert_eq!(with_copy().unwrap().newest(), Some(&two));
        // An older or a lost copy is made again.
        fs::write(&copy, &backup).unwrap();
        with_copy().unwrap();
        assert_eq!(fs::read(&copy).unwrap(), newest);
        fs::remove_file(&copy).unwrap();
        with_copy().unwrap();
        assert_eq!(fs::read(&copy).unwrap(), newest);
        fs::write(&copy, b"damaged").unwrap();
        assert!(matches!(with_copy(), Err(CosigningError::Damaged(at)) if at == copy));
        // A disk that is not mounted is not an empty place.
        let absent = copies.path().join("absent");
        open_with_copies(store.path(), Some(&*absent), object.as_ref(), &one).unwrap_err();
        assert!(!absent.exists());
    }

    #[test]
    fn a_record_is_known_to_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (version(1, b"one", false), version(2, b"two", false));
        let mut record = open(dir.path(), &one).unwrap();
        assert!(record.newest().is_none() && record.said().is_none());
        record.cosign(one.clone(), &[], &signer(), NOW).unwrap();
        assert!(record.said().unwrap().0.is_first());
        // No second process can open it meanwhile.
        assert!(matches!(open(dir.path(), &one), Err(CosigningError::Busy(_))));
        drop(record);

        let mut record = open(dir.path(), &one).unwrap();
        assert_eq!(record.newest(), Some(&one));
        record.cosign(two.clone(), &[], &signer(), later(9)).unwrap();
        let said = *record.said().unwrap().0;
        assert_eq!((said.version, said.first), (2, 1));
        assert_eq!((said.time_ms, said.since_ms), (later(9).milliseconds(), NOW.milliseconds()));
        assert_eq!(
            WitnessRecord::object_of(&FileMedium::default(), dir.path(), &ticket(&one)).unwrap(),
            Some(two.object.clone())
        );
        assert_eq!(
            WitnessRecord::object_of(&FileMedium::default(), dir.path(), &ticket(&two)).unwrap(),
            None
        );
        // An older version, or another content of the same version: nothing is signed, and the record stays.
        let back = record.cosign(one, &[], &signer(), later(10));
        assert!(matches!(back, Err(CosigningError::NotNext(StepError::Older))));
        let fork = version(2, b"2", false);
        let split = record.cosign(fork.clone(), &[], &signer(), later(10));
        assert!(matches!(split, Err(CosigningError::Split(HistorySplit::TwoContents))));
        let evidence = record.evidence(&fork, &[]).unwrap();
        let kept = keep_evidence(dir.path(), &evidence).unwrap();
        assert_eq!(Evidence::decode(&fs::read(kept).unwrap()), Ok(evidence));
        assert_eq!(record.said().unwrap().0, &said);
        assert!(record.evidence(&two, &[]).is_none());
    }

    #[test]
    fn signed_times_grow_and_a_clock_set_back_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let one = version(1, b"one", false);
        let mut record = open(dir.path(), &one).unwrap();
        let mut at = |time: UnixTime| {
            record
                .cosign(one.clone(), &[], &signer(), time)
                .map(|()| record.said().unwrap().0.time_ms)
        };
        assert_eq!(at(later(100)).unwrap(), later(100).milliseconds());
        assert_eq!(at(later(99)).unwrap(), later(100).milliseconds() + 1);
        assert!(matches!(at(later(1)), Err(CosigningError::ClockBack(99))));
        assert_eq!(at(later(200)).unwrap(), later(200).milliseconds());
    }

    #[test]
    fn a_damaged_record_is_refused_and_a_lost_one_shows() {
        let dir = tempfile::tempdir().unwrap();
        let one = version(1, b"one", false);
        let mut record = open(dir.path(), &one).unwrap();
        record.cosign(one.clone(), &[], &signer(), NOW).unwrap();
        let path = record.path.clone();
        drop(record);
        let good = fs::read(&path).unwrap();
        for cut in (0..good.len()).step_by(7) {
            fs::write(&path, &good[..cut]).unwrap();
            assert!(matches!(open(dir.path(), &one), Err(CosigningError::Damaged(_))), "{cut}");
        }
        for bit in (0..good.len() * 8).step_by(5) {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &flipped).unwrap();
            assert!(matches!(open(dir.path(), &one), Err(CosigningError::Damaged(_))), "bit {bit}");
        }
        fs::remove_file(&path).unwrap();
        let mut record = open(dir.path(), &one).unwrap();
        record.cosign(version(3, b"three", false), &[], &signer(), later(5)).unwrap();
        let said = record.said().unwrap().0;
        assert_eq!((said.first, said.since_ms), (3, later(5).milliseconds()));
    }

    /// Proof that the first `old` bytes of `content` are its beginning.
    fn proof(old: usize, content: &[u8]) -> Vec<u8> {
        let outboard = Outboard::of(content, SegmentSize::DEFAULT);
        let geometry = Geometry::new(old as u64, SegmentSize::DEFAULT);
        let Some(needs) = consistency::needs(&geometry, outboard.geometry()) else {
            return Vec::new();
        };
        let range = outboard.geometry().segment_range(needs.segment);
        let bytes = &content[range.start as usize..range.end as usize];
        let mut out = Vec::new();
        consistency::prove(&geometry, outboard.geometry(), bytes, |n| outboard.node(n), &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// For any versions in any order, and any restarts of the witness: all that it signs is one history, and each
        /// refusal of a rewritten history yields evidence.
        #[test]
        fn all_that_one_witness_signs_is_one_history(
            shown in prop::collection::vec((0..3_usize, 1..30_000_usize, 1..40_u64, any::<bool>()), 1..14),
        ) {
            let dir = tempfile::tempdir().unwrap();
            // Three histories: the second leaves the first early, the third late.
            let all: Vec<Vec<u8>> = [usize::MAX, 5_000, 20_000].into_iter().map(|fork| {
                (0..30_000).map(|at| if at < fork { (at % 251) as u8 } else { 255 }).collect()
            }).collect();
            let any = version(1, b"", true);
            let mut record = Some(open(dir.path(), &any).unwrap());
            let mut signed: Vec<(u64, &[u8])> = Vec::new();
            for (n, (history, len, at, killed)) in shown.into_iter().enumerate() {
                if killed {
                    record = None;
                }
                let record = record.get_or_insert_with(|| open(dir.path(), &any).unwrap());
                let content = &all[history][..len];
                let new = version(at, content, true);
                let old = record.newest().map_or(0, |seen| seen.manifest.size as usize);
                let proof = proof(old, content);
                let outcome = record.cosign(new.clone(), &proof, &signer(), later(n as u64));
                match (signed.last(), outcome) {
                    (_, Ok(())) => signed.push((at, content)),
                    (Some((before, seen)), Err(CosigningError::Split(_))) => {
                        prop_assert!(at > *before && !content.starts_with(seen) || at == *before);
                        prop_assert!(record.evidence(&new, &proof).is_some());
                    }
                    (Some((before, _)), Err(e)) => {
                        prop_assert!(at < *before, "{e}");
                        prop_assert!(record.evidence(&new, &proof).is_none());
                    }
                    (None, Err(e)) => return Err(TestCaseError::fail(e.to_string())),
                }
            }
            for (a, b) in signed.iter().zip(&signed[1..]) {
                prop_assert!(a.0 < b.0 && b.1.starts_with(a.1) || a == b);
            }
        }
    }
}
