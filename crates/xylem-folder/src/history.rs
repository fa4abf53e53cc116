//! [`MemberLog`]: every version that a member has ever announced, in order. [`Past`]: the end of the log, as each of
//! the member's statements holds it. By it, other members verify that the earlier entries are unchanged
//! (docs/spec/sync.md, "History").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::io;
use std::path::{Path, PathBuf};

use xylem_hash::{Hash, Hasher};
use xylem_object::PublisherId;
use xylem_store::{FileRef, OpenHow};
use xylem_tree::{Geometry, NodeValue, Outboard, SegmentSize, consistency};

use super::error::{FolderError, at};
use super::own_files::OwnFiles;

/// Bytes of an entry: a number, and the hash of a statement.
const ENTRY_LEN: u64 = 40;
/// Most entries in a statement: a member that has missed no more verifies at once that the log continues.
const MAX_RECENT: usize = 32;
/// Most entries of a log, 320 MiB: one a second for three months.
const MAX_ENTRIES: u64 = 8 << 20;
/// First bytes of a request for a proof, and of the answer.
const QUESTION: &[u8; 4] = b"xsq2";
const ANSWER: &[u8; 4] = b"xsa2";
/// First bytes of the file that holds the length and root of the log.
const END_MAGIC: &[u8; 17] = b"xylem sync end 1\n";

/// One version, as the log records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The statement's number: when it was made, in milliseconds since 1970.
    pub number: u64,
    /// Hash of the whole statement before its past.
    pub hash: Hash,
}

impl LogEntry {
    fn to_bytes(self) -> [u8; 40] {
        let mut out = [0; 40];
        let (number, said) = out.split_at_mut(8);
        number.copy_from_slice(&self.number.to_be_bytes());
        said.copy_from_slice(self.hash.as_bytes());
        out
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, said) = bytes.split_first_chunk()?;
        let said = Hash::from_bytes(said.try_into().ok()?);
        Some(Self { number: u64::from_be_bytes(*number), hash: said })
    }
}

/// The end of a member's log: its newest entries, and the state of a hasher that has taken all entries before them. It
/// gives the root of the log for each of its last lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Entries before the recent ones.
    base: u64,
    snapshot: Vec<u8>,
    recent: Vec<LogEntry>,
    root: Hash,
}

/// Relation of one past of a member to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastRelation {
    /// Both are the same.
    Same,
    /// This log continues the other.
    Continues,
    /// The other log continues this one.
    IsContinued,
    /// Neither is a prefix of the other: the log was rewritten.
    Contradicts,
    /// They are too far apart to compare here. The member that owns the log has to prove it ([`prove`]).
    TooFar,
}

impl Past {
    /// The past of a member that has announced nothing yet.
    pub fn none() -> Self {
        Self { base: 0, snapshot: Vec::new(), recent: Vec::new(), root: Hasher::new().finalize() }
    }

    /// Parses a past that takes up all of `bytes`.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (len, rest) = bytes.split_first_chunk()?;
        let (snapshot, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        let hasher = Hasher::from_snapshot(snapshot).ok()?;
        let base = hasher.count().checked_div(ENTRY_LEN)?;
        let (entries, odd) = rest.as_chunks::<40>();
        let recent: Vec<LogEntry> =
            entries.iter().filter_map(|e| LogEntry::from_bytes(e)).collect();
        let whole = odd.is_empty() && hasher.count().is_multiple_of(ENTRY_LEN);
        let ascend = recent.is_sorted_by(|a, b| a.number < b.number);
        if !whole || !ascend || recent.is_empty() || recent.len() > MAX_RECENT {
            return None;
        }
        if base > MAX_ENTRIES {
            return None;
        }
        Some(Self::of(base, hasher, recent, snapshot.to_vec()))
    }

    fn of(base: u64, mut hasher: Hasher, recent: Vec<LogEntry>, snapshot: Vec<u8>) -> Self {
        for entry in &recent {
            hasher.update(&entry.to_bytes());
        }
        Self { base, snapshot, recent, root: hasher.finalize() }
    }

    /// Appends the encoding that statements use to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let len = u16::try_from(self.snapshot.len()).unwrap_or(0);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&self.snapshot);
        self.recent.iter().for_each(|entry| out.extend_from_slice(&entry.to_bytes()));
    }

    /// Returns the number of entries of the log.
    pub fn length(&self) -> u64 {
        self.base.saturating_add(self.recent.len() as u64)
    }

    /// Returns the root of the log: the BLAKE3 hash of all its entries.
    pub fn root(&self) -> Hash {
        self.root
    }

    /// Returns the newest entries, oldest first.
    pub fn recent(&self) -> &[LogEntry] {
        &self.recent
    }

    /// Returns the root that the log had at this length; `None` if that is too long ago.
    fn root_at(&self, length: u64) -> Option<Hash> {
        let since = usize::try_from(length.checked_sub(self.base)?).ok()?;
        let mut hasher = Hasher::from_snapshot(&self.snapshot).ok()?;
        for entry in self.recent.get(..since)? {
            hasher.update(&entry.to_bytes());
        }
        Some(hasher.finalize())
    }

    fn newest(&self) -> u64 {
        self.recent.last().map_or(0, |entry| entry.number)
    }

    /// Compares this past with another one that the same member has signed.
    pub fn fits(&self, other: &Self) -> PastRelation {
        let (longer, shorter, done) = match self.length().cmp(&other.length()) {
            std::cmp::Ordering::Equal if self.root == other.root => return PastRelation::Same,
            std::cmp::Ordering::Equal => return PastRelation::Contradicts,
            std::cmp::Ordering::Greater => (self, other, PastRelation::Continues),
            std::cmp::Ordering::Less => (other, self, PastRelation::IsContinued),
        };
        if longer.newest() <= shorter.newest() {
            return PastRelation::Contradicts;
        }
        match longer.root_at(shorter.length()) {
            None => PastRelation::TooFar,
            Some(root) if root == shorter.root => done,
            Some(_) => PastRelation::Contradicts,
        }
    }
}

fn shape(entries: u64) -> Option<Geometry> {
    let entries = Some(entries).filter(|entries| *entries <= MAX_ENTRIES)?;
    Some(Geometry::new(entries.checked_mul(ENTRY_LEN)?, SegmentSize::DEFAULT))
}

/// Makes a consistency proof for the log at `path`: its first `old` entries were once the whole log, and its first
/// `new` entries were the log later. `None` if the log never had that many. `whole` is the log as it is now, against
/// which the file is checked. A proof made from a damaged log would fail, and look as if the member had rewritten its
/// history.
///
/// # Errors
/// The system's; [`FolderError::BadLog`].
pub fn prove(
    path: &Path,
    whole: &Past,
    old: u64,
    new: u64,
) -> Result<Option<Vec<u8>>, FolderError> {
    let (Some(old), Some(new), Some(all)) = (shape(old), shape(new), shape(whole.length())) else {
        return Ok(None);
    };
    if new.size() > all.size() {
        return Ok(None);
    }
    let log = OwnFiles::on_disk().bytes(path, all.size())?.unwrap_or_default();
    if xylem_hash::hash(&log) != whole.root {
        return Err(FolderError::BadLog(path.to_path_buf()));
    }
    let end = usize::try_from(new.size()).ok();
    Ok(end.and_then(|end| proof(log.get(..end)?, &old, &new)))
}

fn proof(log: &[u8], old: &Geometry, new: &Geometry) -> Option<Vec<u8>> {
    let tree = Outboard::of(log, SegmentSize::DEFAULT);
    let value = |node: xylem_tree::Node| {
        let at = usize::try_from(node.slot().checked_mul(32)?).ok()?;
        NodeValue::from_slice(tree.as_bytes().get(at..)?.get(..32)?)
    };
    let mut proof = Vec::new();
    let content = match consistency::needs(old, new) {
        Some(needs) => {
            let range = new.segment_range(needs.segment);
            log.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)?
        }
        None => &[],
    };
    consistency::prove(old, new, content, value, &mut proof).then_some(proof)
}

/// Verifies a proof that one log continues the other; see [`prove`].
pub fn is_proven(older: &Past, newer: &Past, proof: &[u8]) -> bool {
    let shapes = shape(older.length()).zip(shape(newer.length()));
    shapes.is_some_and(|(old, new)| {
        consistency::verify((&old, older.root), (&new, newer.root), proof).is_ok()
    })
}

/// Request to a member: prove that its log of an earlier length is a prefix of its log of a later length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofRequest {
    /// The member that owns the log.
    pub member: PublisherId,
    /// Entries that the log had earlier.
    pub older: u64,
    /// Entries that the log had later.
    pub newer: u64,
}

impl ProofRequest {
    /// Encodes the request.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.after(QUESTION)
    }

    /// Encodes the answer.
    pub fn answer(&self, proof: &[u8]) -> Vec<u8> {
        [&self.after(ANSWER)[..], proof].concat()
    }

    fn after(&self, begins: &[u8; 4]) -> Vec<u8> {
        let (older, newer) = (self.older.to_be_bytes(), self.newer.to_be_bytes());
        [&begins[..], &self.member.0, &older, &newer].concat()
    }

    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (member, rest) = bytes.split_first_chunk()?;
        let (older, rest) = rest.split_first_chunk()?;
        let (newer, rest) = rest.split_first_chunk()?;
        let (older, newer) = (u64::from_be_bytes(*older), u64::from_be_bytes(*newer));
        Some((Self { member: PublisherId(*member), older, newer }, rest))
    }

    /// Parses a request.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (question, rest) = Self::parse(bytes.strip_prefix(QUESTION)?)?;
        rest.is_empty().then_some(question)
    }

    /// Parses an answer: the request, and the proof.
    pub fn read_answer(bytes: &[u8]) -> Option<(Self, &[u8])> {
        Self::parse(bytes.strip_prefix(ANSWER)?)
    }
}

/// Returns the path of the file that holds the length and root of the log at `path`.
fn end_of(path: &Path) -> PathBuf {
    path.with_extension("end")
}

/// Reads the length and root of the log at the last announcement; `None` if there is no such file.
fn read_end(files: &OwnFiles, path: &Path) -> Result<Option<(u64, Hash)>, FolderError> {
    // Longer than a valid file, so that a longer file is refused.
    let Some(bytes) = files.bytes(path, 64)? else { return Ok(None) };
    let end = bytes.strip_prefix(END_MAGIC).and_then(|end| end.split_first_chunk());
    let end = end.and_then(|(length, root)| {
        Some((u64::from_be_bytes(*length), Hash::from_bytes(root.try_into().ok()?)))
    });
    end.map(Some).ok_or_else(|| FolderError::BadLog(path.to_path_buf()))
}

/// This member's own log, in a file. A second file beside it decides which entries were announced. It is written once
/// an entry is on the disk, and before anything is signed. Entries in the log beyond it were never announced, and the
/// next entry overwrites them.
#[derive(Debug)]
pub struct MemberLog {
    files: OwnFiles,
    path: PathBuf,
    base: Hasher,
    recent: Vec<LogEntry>,
}

impl MemberLog {
    /// Opens the log at `path`; a missing file is an empty log. Nothing is written, since another process may be using
    /// it. A log that differs from the last announcement is refused: others would take it for another history.
    ///
    /// # Errors
    /// The system's; [`FolderError::BadLog`].
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        Self::open_in(OwnFiles::on_disk(), path)
    }

    fn open_in(files: OwnFiles, path: &Path) -> Result<Self, FolderError> {
        let mut log =
            Self { files, path: path.to_path_buf(), base: Hasher::new(), recent: Vec::new() };
        let bad = || FolderError::BadLog(path.to_path_buf());
        // The end is read first, because an append writes the log first.
        let end = read_end(&log.files, &end_of(path))?;
        let Some(file) = log.files.open(path)? else {
            return if end.is_none_or(|(told, _)| told == 0) { Ok(log) } else { Err(bad()) };
        };
        let size = file.metadata()?.size;
        let Some((told, root)) = end else {
            // The end is written before the first entry is.
            return if size == 0 { Ok(log) } else { Err(bad()) };
        };
        if told.checked_mul(ENTRY_LEN).is_none_or(|told| told > size) {
            return Err(bad());
        }
        log.read(&file, told)?;
        if log.root() == root { Ok(log) } else { Err(bad()) }
    }

    /// Reads the first entries of a file.
    fn read(&mut self, file: &FileRef, entries: u64) -> Result<(), FolderError> {
        let (mut offset, end) = (0, entries.saturating_mul(ENTRY_LEN));
        let mut piece = vec![0; 1024 * 40];
        while offset < end {
            let wanted = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let wanted = wanted.min(piece.len());
            let into = piece.get_mut(..wanted).unwrap_or_default();
            if file.read_full(into, offset)? < wanted {
                return Err(FolderError::BadLog(self.path.clone()));
            }
            into.as_chunks::<40>()
                .0
                .iter()
                .filter_map(|e| LogEntry::from_bytes(e))
                .for_each(|e| self.push(e));
            offset = offset.saturating_add(wanted as u64);
        }
        Ok(())
    }

    fn push(&mut self, entry: LogEntry) {
        if self.recent.len() >= MAX_RECENT {
            let oldest = self.recent.remove(0);
            self.base.update(&oldest.to_bytes());
        }
        self.recent.push(entry);
    }

    fn length(&self) -> u64 {
        let before = self.base.count().checked_div(ENTRY_LEN).unwrap_or(0);
        before.saturating_add(self.recent.len() as u64)
    }

    fn root(&self) -> Hash {
        let mut hasher = self.base.clone();
        for entry in &self.recent {
            hasher.update(&entry.to_bytes());
        }
        hasher.finalize()
    }

    /// Returns the number of the last entry.
    pub fn newest(&self) -> u64 {
        self.recent.last().map_or(0, |entry| entry.number)
    }

    /// Returns the end of the log, as statements hold it; `None` for an empty log.
    pub fn past(&self) -> Option<Past> {
        let snapshot = self.base.snapshot().filter(|_| !self.recent.is_empty())?;
        let base = self.base.count().checked_div(ENTRY_LEN)?;
        let snapshot = snapshot.as_bytes().to_vec();
        Some(Past::of(base, self.base.clone(), self.recent.clone(), snapshot))
    }

    /// Returns what [`Self::past`] will be once `entry` is appended.
    pub(super) fn past_with(&self, entry: LogEntry) -> Option<Past> {
        let (files, path) = (self.files.clone(), self.path.clone());
        let mut next = Self { files, path, base: self.base.clone(), recent: self.recent.clone() };
        next.push(entry);
        next.past()
    }

    /// Appends the entry of a statement that is about to be announced; it is on the disk when this returns. After an
    /// error the statement must not be announced. The next entry takes its place, or follows it if it is on the disk
    /// already.
    ///
    /// # Errors
    /// The system's; [`FolderError::BadLog`] if another program has truncated the file.
    pub fn append(&mut self, entry: LogEntry) -> Result<(), FolderError> {
        if self.base.count() >= MAX_ENTRIES.saturating_mul(ENTRY_LEN) {
            // Other members do not accept a longer log.
            return Err(at(&self.path)(io::ErrorKind::FileTooLarge.into()));
        }
        let create = OpenHow::Create { mode: 0o600 };
        let file = FileRef::open(self.files.medium(), &self.path, create)?;
        if self.length() == 0 {
            // This also puts the directory on the disk.
            self.write_end()?;
        }
        let (size, length) = (file.metadata()?.size, self.length().saturating_mul(ENTRY_LEN));
        if size < length {
            return Err(FolderError::BadLog(self.path.clone()));
        }
        if size > length {
            // The rest of a failed write: it was never announced.
            file.set_len(length)?;
        }
        file.write_all(&entry.to_bytes(), length)?;
        file.sync()?;
        self.push(entry);
        self.write_end()
    }

    fn write_end(&self) -> Result<(), FolderError> {
        let (length, root) = (self.length().to_be_bytes(), self.root());
        let end = [&END_MAGIC[..], &length, root.as_bytes()].concat();
        self.files.replace(&end_of(&self.path), &end)
    }

    /// A log without a file, for tests.
    #[cfg(test)]
    pub(super) fn in_memory(entries: &[LogEntry]) -> Self {
        let (files, path) = (OwnFiles::on_disk(), PathBuf::new());
        let mut log = Self { files, path, base: Hasher::new(), recent: Vec::new() };
        entries.iter().for_each(|entry| log.push(*entry));
        log
    }
}

/// Reads all entries of the log at `path`, the oldest first.
///
/// # Errors
/// The system's.
pub fn entries(path: &Path) -> Result<Vec<LogEntry>, FolderError> {
    let most = MAX_ENTRIES.saturating_add(MAX_RECENT as u64).saturating_mul(ENTRY_LEN);
    let bytes = OwnFiles::on_disk().bytes(path, most)?.unwrap_or_default();
    Ok(bytes.as_chunks::<40>().0.iter().filter_map(|entry| LogEntry::from_bytes(entry)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::{self, File};
    use std::io::Write;
    use xylem_faults::{DiskFault, FaultMedium};

    fn entries_of(fork: u8, range: std::ops::Range<u64>) -> Vec<LogEntry> {
        let entry = |number: u64| {
            let said = xylem_hash::hash(&[&[fork][..], &number.to_be_bytes()].concat());
            LogEntry { number: number + 1, hash: said }
        };
        range.map(entry).collect()
    }

    fn past(entries: &[LogEntry]) -> Past {
        MemberLog::in_memory(entries).past().unwrap()
    }

    /// A log that has its first `same` entries in common with the one that never forked, and `more` after them.
    fn forked(same: u64, more: u64) -> Past {
        past(&[entries_of(0, 0..same), entries_of(1, same..same + more)].concat())
    }

    #[test]
    fn a_log_continues_another_or_contradicts_it() {
        let of = |len| past(&entries_of(0, 0..len));
        for (older, newer) in [(1, 2), (5, 37), (100, 101), (100, 132), (4000, 4031)] {
            assert_eq!(of(newer).fits(&of(older)), PastRelation::Continues, "{older} {newer}");
            assert_eq!(of(older).fits(&of(newer)), PastRelation::IsContinued);
            // One known entry is different now: the last or the first.
            let last = forked(older - 1, newer - older + 1);
            assert_eq!(last.fits(&of(older)), PastRelation::Contradicts, "{older} {newer}");
            assert_eq!(forked(0, newer).fits(&of(older)), PastRelation::Contradicts);
            assert_eq!(of(older).fits(&last), PastRelation::Contradicts);
        }
        assert_eq!(of(50).fits(&of(50)), PastRelation::Same);
        assert_eq!(forked(49, 1).fits(&of(50)), PastRelation::Contradicts);
        assert_eq!(of(200).fits(&of(100)), PastRelation::TooFar);
        let odd = |number| LogEntry { number, hash: xylem_hash::hash(b"x") };
        let twice = past(&[entries_of(0, 0..40), vec![odd(40)]].concat());
        assert_eq!(twice.fits(&of(40)), PastRelation::Contradicts, "a number is said once");
    }

    #[test]
    fn distant_log_lengths_are_proven_consistent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut log = MemberLog::open(&path).unwrap();
        assert!(log.past().is_none());
        for entry in entries_of(0, 0..1000) {
            log.append(entry).unwrap();
        }
        let of = |len| past(&entries_of(0, 0..len));
        assert_eq!(MemberLog::open(&path).unwrap().past(), Some(of(1000)));
        let whole = of(1000);
        for (old, new) in [(1, 1000), (204, 205), (205, 900), (512, 1000), (1000, 1000)] {
            let proof = prove(&path, &whole, old, new).unwrap().unwrap();
            assert!(proof.len() <= 10_000, "it fits where statements do");
            assert!(is_proven(&of(old), &of(new), &proof), "{old} {new}");
            assert!(!is_proven(&forked(old - 1, 1), &of(new), &proof), "{old} {new}");
            if old < new {
                assert!(!is_proven(&of(old), &forked(old - 1, new - old + 1), &proof));
            }
        }
        assert_eq!(prove(&path, &whole, 5, 1001).unwrap(), None);
        assert_eq!(prove(&path, &whole, 6, 5).unwrap(), None);
        // A partly written entry was never announced.
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(&[7; 39]).unwrap();
        assert_eq!(MemberLog::open(&path).unwrap().past(), Some(of(1000)));
        assert_eq!(entries(&path).unwrap(), entries_of(0, 0..1000));
    }

    /// Others would take its statements for another history.
    #[test]
    fn a_damaged_log_makes_no_statement() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut log = MemberLog::open(&path).unwrap();
        for entry in entries_of(0, 0..200) {
            log.append(entry).unwrap();
        }
        let (good, whole) = (fs::read(&path).unwrap(), log.past().unwrap());
        let is_bad = |path: &Path| matches!(MemberLog::open(path), Err(FolderError::BadLog(_)));
        for at in [0, 4_000, 7_999] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert!(is_bad(&path), "byte {at}");
            let refused = prove(&path, &whole, 150, 160);
            assert!(matches!(refused, Err(FolderError::BadLog(_))), "byte {at}");
        }
        fs::write(&path, &good[..7_960]).unwrap();
        assert!(is_bad(&path), "its last entry is gone");
        fs::remove_file(&path).unwrap();
        assert!(is_bad(&path), "all are");
        // The process ended between the two writes: the entry was never announced.
        fs::write(&path, [&good[..], &good[..40]].concat()).unwrap();
        assert_eq!(MemberLog::open(&path).unwrap().past(), Some(whole));
        // Without the end file, it is unknown what was announced.
        fs::remove_file(end_of(&path)).unwrap();
        fs::write(&path, &good).unwrap();
        assert!(is_bad(&path), "its end is gone");
    }

    /// A log on a simulated disk, and what was announced from it.
    struct AnnouncedLog {
        medium: FaultMedium,
        log: MemberLog,
        told: Vec<Past>,
    }

    const LOG: &str = "/home/history";

    impl AnnouncedLog {
        fn new() -> Self {
            let medium = FaultMedium::new();
            medium.create_dir(Path::new("/home"), 0o700).unwrap();
            medium.sync_dir(Path::new("/")).unwrap();
            Self::on(medium, Vec::new())
        }

        fn on(medium: FaultMedium, told: Vec<Past>) -> Self {
            let log = MemberLog::open_in(OwnFiles::on(medium.clone()), Path::new(LOG));
            let log = log.expect("what was told is there");
            Self { medium, log, told }
        }

        /// Announces a statement if the disk allows it; `what` makes each one different.
        fn tell(&mut self, number: u64, what: u64) -> bool {
            let entry = LogEntry { number, hash: xylem_hash::hash(&what.to_be_bytes()) };
            let done = self.log.append(entry).is_ok();
            if done {
                let past = self.log.past().unwrap();
                if let Some(before) = self.told.last() {
                    assert_eq!(past.fits(before), PastRelation::Continues, "{number}");
                }
                self.told.push(past);
            }
            done
        }
    }

    use xylem_store::Medium;

    /// The write fails although the entry was accepted: a network file system or btrfs reports errors this way.
    #[test]
    fn a_member_continues_its_log_after_a_failed_write() {
        for (short, fault) in
            [(false, DiskFault::Once), (true, DiskFault::Once), (false, DiskFault::Full)]
        {
            for at in 0..24 {
                let mut telling = AnnouncedLog::new();
                (1..4).for_each(|n| assert!(telling.tell(n, n)));
                telling.medium.set_short_writes(short);
                telling.medium.fail_after(at, fault);
                for n in 4..7 {
                    telling.tell(n, n + 100);
                }
                telling.medium.heal();
                assert!(telling.tell(7, 7), "{fault:?} at {at}");
                // After any restart, the log continues everything that was announced.
                let AnnouncedLog { medium, told, .. } = telling;
                let mut again = AnnouncedLog::on(medium.image(), told);
                assert!(again.tell(8, 8), "{fault:?} at {at}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// For any disk faults at any time: the next announcement continues all earlier ones.
        #[test]
        fn a_member_never_signs_two_histories_because_of_its_disk(
            faults in proptest::collection::vec((0_u64..14, 0_u8..6, any::<u64>()), 1..8),
        ) {
            let (mut telling, mut number) = (AnnouncedLog::new(), 0);
            for (at, what, seed) in faults {
                let fault = [DiskFault::Dead, DiskFault::Torn, DiskFault::Once, DiskFault::Full];
                telling.medium.set_short_writes(seed & 1 == 1);
                telling.medium.fail_after(at, fault[usize::from(what) % 4]);
                for n in 0..3 {
                    number += 1;
                    telling.tell(number, seed.wrapping_add(n));
                }
                let AnnouncedLog { medium, told, log } = telling;
                let next = match what {
                    0..=2 => medium.power_cut(seed),
                    3 | 4 => medium.image(),
                    _ => medium.power_loss(seed),
                };
                let lives = fault[usize::from(what) % 4] != DiskFault::Dead && what == 2;
                telling = if lives {
                    // The same process goes on.
                    medium.heal();
                    AnnouncedLog { medium, told, log }
                } else {
                    AnnouncedLog::on(next, told)
                };
                number += 1;
                prop_assert!(telling.tell(number, seed ^ 7));
            }
        }
    }

    #[test]
    fn proof_requests_and_answers_survive_encoding() {
        let asked = ProofRequest { member: PublisherId([3; 32]), older: 5, newer: 600 };
        assert_eq!(ProofRequest::read(&asked.to_bytes()), Some(asked));
        assert_eq!(ProofRequest::read_answer(&asked.answer(b"x")), Some((asked, &b"x"[..])));
        assert_eq!(ProofRequest::read(&asked.answer(b"")), None);
        assert_eq!(ProofRequest::read(&[&asked.to_bytes()[..], b"x"].concat()), None);
    }

    #[test]
    fn a_past_survives_encoding() {
        for len in [1, 31, 32, 33, 5000] {
            let past = past(&entries_of(0, 0..len));
            let mut bytes = Vec::new();
            past.write(&mut bytes);
            assert_eq!(Past::read(&bytes), Some(past.clone()));
            assert_eq!((past.length(), past.recent().len() as u64), (len, len.min(32)));
            for cut in 0..bytes.len() {
                assert_ne!(Past::read(&bytes[..cut]), Some(past.clone()));
            }
        }
        assert_eq!(Past::read(&[0; 2]), None, "no log is without an entry");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let snapshot = Hasher::new().snapshot().unwrap();
            let len = u16::try_from(snapshot.as_bytes().len()).unwrap().to_be_bytes();
            let whole = [&len[..], snapshot.as_bytes(), &bytes].concat();
            for bytes in [&bytes, &whole] {
                let _ = (ProofRequest::read(bytes), ProofRequest::read_answer(bytes));
                if let Some(past) = Past::read(bytes) {
                    let mut again = Vec::new();
                    past.write(&mut again);
                    prop_assert_eq!(&again, bytes);
                }
            }
        }
    }
}
