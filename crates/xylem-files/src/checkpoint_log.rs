//! [`CheckpointLog`]: records of checkpoints on disk, 64 bytes each, append-only.
//!
//! A record is written before its checkpoint is published. A publisher that is killed then continues with higher
//! versions and can serve again whatever it has signed. Each record carries its own check; a record left incomplete by
//! a crash is cut off. Layout: docs/spec/store.md, "Growing objects".

use std::path::{Path, PathBuf};

use xylem_hash::Hash;
use xylem_packet::NameRef;
use xylem_store::{FileRef, Medium, OpenHow, Store, StoreError};
use xylem_tree::{Geometry, SegmentSize};

use crate::reads::{GrowingRead, ReadKind, Reads};
use crate::trees;

/// Length of a record, bytes.
const RECORD: usize = 64;
/// Bytes that its check covers.
const CHECKED: usize = 56;
const MAGIC: &[u8; 8] = b"xygrow01";
/// Folder of these files in the store's directory.
const FOLDER: &str = "growing";

/// One checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Version component of its name, microseconds.
    pub version: u64,
    /// Size of the file then, bytes.
    pub size: u64,
    /// Root of its tree.
    pub root: Hash,
    /// Permission bits in its manifest.
    pub mode: u16,
    /// Whether it was the last checkpoint.
    pub last: bool,
}

impl CheckpointRecord {
    /// Encodes it as one record of the log, with a check at its end.
    pub fn encode(&self) -> [u8; RECORD] {
        let mut out = [0; RECORD];
        out[..8].copy_from_slice(&self.version.to_le_bytes());
        out[8..16].copy_from_slice(&self.size.to_le_bytes());
        out[16..48].copy_from_slice(self.root.as_bytes());
        out[48..50].copy_from_slice(&self.mode.to_le_bytes());
        out[50] = u8::from(self.last);
        sealed(out)
    }

    /// Decodes a record; `None` if [`Self::encode`] cannot have made it.
    pub(super) fn decode(record: &[u8; RECORD]) -> Option<Self> {
        let number =
            |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or([0; 8]));
        let mut root = [0; 32];
        root.copy_from_slice(&record[16..48]);
        let entry = Self {
            version: number(0),
            size: number(8),
            root: Hash::from_bytes(root),
            mode: u16::from_le_bytes([record[48], record[49]]),
            last: record[50] == 1,
        };
        (entry.encode() == *record).then_some(entry)
    }
}

fn sealed(mut record: [u8; RECORD]) -> [u8; RECORD] {
    let check = xylem_hash::hash(&record[..CHECKED]);
    record[CHECKED..].copy_from_slice(&check.as_bytes()[..RECORD - CHECKED]);
    record
}

/// Returns the store's folder for growing objects; creates it if needed.
///
/// # Errors
/// It cannot be created.
pub fn folder(store: &Store) -> Result<PathBuf, StoreError> {
    let folder = store.dir().join(FOLDER);
    match store.medium().create_dir(&folder, 0o700) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::from_io("create the directory", &folder, None, e))
        }
        _ => Ok(folder),
    }
}

/// Returns where the state of a growing object lies that is read from, or written to, the file at `path`.
///
/// # Errors
/// As [`folder`].
pub fn place(
    store: &Store,
    path: &[u8],
    object: NameRef<'_>,
    extension: &str,
) -> Result<PathBuf, StoreError> {
    let mut key = (path.len() as u64).to_le_bytes().to_vec();
    key.extend_from_slice(path);
    key.extend_from_slice(object.value());
    Ok(folder(store)?.join(format!("{}.{extension}", xylem_hash::hash(&key).to_hex())))
}

/// Lists the damaged logs and outboards of the growing files that a store publishes, with a description of the damage.
///
/// # Errors
/// The store's folder cannot be listed.
pub fn damaged(store: &Store) -> Result<Vec<(PathBuf, String)>, StoreError> {
    let folder = store.dir().join(FOLDER);
    let at = |e| StoreError::from_io("list", &folder, None, e);
    let names = match store.medium().list_dir(&folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(at)?,
    };
    let mut found = Vec::new();
    for name in names {
        let path = folder.join(name.name);
        if path.extension().is_some_and(|ending| ending == "log") {
            look(&**store.medium(), &path, &mut found);
        }
    }
    found.sort();
    Ok(found)
}

/// Checks one log and the outboard beside it.
fn look(medium: &dyn Medium, path: &Path, found: &mut Vec<(PathBuf, String)>) {
    let outboard = path.with_extension("outboard");
    let newest = match read_all(medium, path) {
        Ok((newest, damaged)) => {
            if damaged > 0 {
                let what = format!(
                    "{damaged} of its records are damaged; `xylem share --follow` of its file goes on with the others"
                );
                found.push((path.to_path_buf(), what));
            }
            newest
        }
        Err(e) => return found.push((path.to_path_buf(), e.to_string())),
    };
    let segments =
        newest.map_or(0, |newest| Geometry::new(newest.size, SegmentSize::DEFAULT).segments());
    let flaw = match FileRef::open(medium, &outboard, OpenHow::Read) {
        Ok(file) => trees::flaw_of_growing(&file, segments),
        Err(StoreError::NotFound { .. }) if segments <= 1 => Ok(None),
        Err(e) => Err(e),
    };
    if let Some(what) = flaw.unwrap_or_else(|e| Some(e.to_string())) {
        let what = format!("{what}; `xylem share --follow` of its file rebuilds it");
        found.push((outboard, what));
    }
}

/// Returns the newest checkpoint of a log, and the number of invalid records.
fn read_all(
    medium: &dyn Medium,
    path: &Path,
) -> Result<(Option<CheckpointRecord>, u64), StoreError> {
    let file = FileRef::open(medium, path, OpenHow::Read)?;
    let (mut newest, mut damaged, mut at) = (None, 0, RECORD as u64);
    let mut head = [0; RECORD];
    let got = file.read_full(&mut head, 0)?;
    damaged += u64::from(got < RECORD || &head[..8] != MAGIC || sealed(head) != head);
    let mut buffer = vec![0; RECORD * 1_024];
    loop {
        let got = file.read_full(&mut buffer, at)?;
        for record in buffer[..got].as_chunks::<RECORD>().0 {
            match CheckpointRecord::decode(record) {
                Some(entry) => newest = Some(entry),
                None => damaged += 1,
            }
        }
        at += got as u64;
        // A record torn at the end does not count: its checkpoint was never published.
        if got < buffer.len() {
            return Ok((newest, damaged));
        }
    }
}

/// Opens a file of this folder; creates it if needed.
///
/// # Errors
/// The medium's.
pub fn open(medium: &dyn Medium, path: &Path) -> Result<FileRef, StoreError> {
    FileRef::open(medium, path, OpenHow::Create { mode: 0o600 })
}

/// Reads the one record of a small file; `None` if there is none.
///
/// # Errors
/// The disk's.
pub fn read_one(file: &FileRef) -> Result<Option<CheckpointRecord>, StoreError> {
    read_record(file, 0)
}

fn read_record(file: &FileRef, at: u64) -> Result<Option<CheckpointRecord>, StoreError> {
    let mut record = [0; RECORD];
    let got = file.read_full(&mut record, at * RECORD as u64)?;
    Ok((got == RECORD).then(|| CheckpointRecord::decode(&record)).flatten())
}

/// All checkpoints of one growing object, by number. Only one publisher at a time can open it.
#[derive(Debug)]
pub struct CheckpointLog {
    file: FileRef,
    count: u64,
    newest: Option<CheckpointRecord>,
    /// Whether the log was damaged when it was opened: checkpoints are missing.
    lost: bool,
}

impl CheckpointLog {
    /// Opens and locks the log at `path` for `object`. A log of another object is begun anew. In a damaged log the
    /// records with a valid check are kept.
    ///
    /// # Errors
    /// The disk's; [`StoreError::Busy`] while another publisher has it open.
    pub fn open(medium: &dyn Medium, path: &Path, object: NameRef<'_>) -> Result<Self, StoreError> {
        let file = open(medium, path)?;
        file.lock()?;
        let mut head = [0; RECORD];
        head[..8].copy_from_slice(MAGIC);
        head[8..40].copy_from_slice(xylem_hash::hash(object.value()).as_bytes());
        let head = sealed(head);
        let mut found = [0; RECORD];
        let got = file.read_full(&mut found, 0)?;
        let size = file.metadata()?.size;
        let written = (size / RECORD as u64).saturating_sub(1);
        let of_another = got == RECORD && found != head && sealed(found) == found;
        let mut count = if of_another { 0 } else { written };
        let mut newest = None;
        while count > 0 {
            newest = read_record(&file, count)?;
            if newest.is_some() {
                break;
            }
            count -= 1;
        }
        file.set_len((count + 1) * RECORD as u64)?;
        if found != head {
            file.write_all(&head, 0)?;
        }
        let lost = !of_another && size > 0 && (found != head || count < written);
        Ok(Self { file, count, newest, lost })
    }

    /// Returns the log as the serving loop reads it; checkpoints that are appended later are to be noted there.
    pub fn seen_by(&self, reads: &Reads) -> SeenLog {
        SeenLog {
            file: reads.growing(&self.file, ReadKind::Fixed),
            count: self.count,
            newest: self.newest,
        }
    }

    #[cfg(test)]
    fn records(&self) -> CheckpointRecords<'_> {
        CheckpointRecords { file: &self.file, count: self.count, newest: self.newest }
    }

    /// Returns whether the log was damaged, so that checkpoints may be missing.
    pub fn lost(&self) -> bool {
        self.lost
    }

    /// Returns the number of checkpoints.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the newest checkpoint.
    pub fn newest(&self) -> Option<CheckpointRecord> {
        self.newest
    }

    /// Appends a checkpoint; its version must be higher than all before it.
    ///
    /// # Errors
    /// The disk's.
    pub fn append(&mut self, entry: CheckpointRecord) -> Result<(), StoreError> {
        self.file.write_all(&entry.encode(), (self.count + 1) * RECORD as u64)?;
        self.count += 1;
        self.newest = Some(entry);
        Ok(())
    }
}

/// A log that another thread appends to; see [`CheckpointLog::seen_by`].
pub struct SeenLog {
    file: GrowingRead,
    count: u64,
    newest: Option<CheckpointRecord>,
}

impl SeenLog {
    /// Returns the number of checkpoints.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the newest checkpoint.
    pub fn newest(&self) -> Option<CheckpointRecord> {
        self.newest
    }

    /// Takes note of a checkpoint that was appended.
    pub fn note(&mut self, entry: CheckpointRecord) {
        self.file.grew();
        self.count += 1;
        self.newest = Some(entry);
    }

    /// Returns all records.
    pub fn records(&self) -> CheckpointRecords<'_> {
        CheckpointRecords { file: &self.file.file, count: self.count, newest: self.newest }
    }
}

/// The records of a log, in its file.
pub struct CheckpointRecords<'a> {
    file: &'a FileRef,
    count: u64,
    newest: Option<CheckpointRecord>,
}

impl CheckpointRecords<'_> {
    /// Returns checkpoint `number`, counted from 0.
    ///
    /// # Errors
    /// The disk's.
    pub fn entry(&self, number: u64) -> Result<Option<CheckpointRecord>, StoreError> {
        match number.checked_add(1) {
            Some(count) if count == self.count => Ok(self.newest),
            Some(count) if count < self.count => read_record(self.file, count),
            _ => Ok(None),
        }
    }

    /// Returns the checkpoint of this version and its number, by a binary search in the file that skips damaged
    /// records.
    ///
    /// # Errors
    /// As [`Self::entry`].
    pub fn find(&self, version: u64) -> Result<Option<(u64, CheckpointRecord)>, StoreError> {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = from + (to - from) / 2;
            let mut at = middle;
            let entry = loop {
                match self.entry(at)? {
                    None if at + 1 < to => at += 1,
                    entry => break entry,
                }
            };
            match entry {
                Some(entry) if entry.version == version => return Ok(Some((at, entry))),
                Some(entry) if entry.version < version => from = at + 1,
                _ => to = middle,
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::Name;
    use xylem_store::DiskMedium;

    fn entry(n: u64) -> CheckpointRecord {
        let root = xylem_hash::hash(&n.to_le_bytes());
        CheckpointRecord {
            version: 1_000 + 10 * n,
            size: n * n,
            root,
            mode: 0o640,
            last: n.is_multiple_of(2),
        }
    }

    fn open(path: &Path) -> CheckpointLog {
        open_as(path, "/alice/log").unwrap()
    }

    /// A neighbouring test that starts a program holds copies of all open files for a moment, and so their locks.
    fn open_as(path: &Path, name: &str) -> Result<CheckpointLog, StoreError> {
        let name = Name::from_uri(name).unwrap();
        let open = || CheckpointLog::open(&DiskMedium::new(), path, name.as_ref());
        for _ in 0..1_000 {
            match open() {
                Err(StoreError::Busy { .. }) => {
                    std::thread::sleep(std::time::Duration::from_millis(10))
                }
                opened => return opened,
            }
        }
        open()
    }

    #[test]
    fn appended_records_are_found_and_a_torn_end_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = open(&path);
        assert_eq!((log.count(), log.newest(), log.records().find(5).unwrap()), (0, None, None));
        for n in 0..100 {
            log.append(entry(n)).unwrap();
        }
        for n in 0..100 {
            assert_eq!(log.records().entry(n).unwrap(), Some(entry(n)));
            assert_eq!(log.records().find(1_000 + 10 * n).unwrap(), Some((n, entry(n))));
            assert_eq!(log.records().find(1_001 + 10 * n).unwrap(), None);
        }
        assert_eq!(log.records().entry(100).unwrap(), None);
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        for cut in [1, 63, 64, 65, 128] {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let left = 100 - (cut as u64).div_ceil(64);
            let mut log = open(&path);
            assert_eq!((log.count(), log.newest()), (left, Some(entry(left - 1))));
            log.append(entry(left)).unwrap();
            assert_eq!(log.records().entry(left).unwrap(), Some(entry(left)));
        }
    }

    #[test]
    fn damage_to_a_log_is_reported_and_the_rest_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = open(&path);
        (0..10).for_each(|n| log.append(entry(n)).unwrap());
        assert!(!log.lost());
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        // The bytes damaged, and the number of records left.
        for (zeros, left) in [(0..64, 10), (10..11, 10), (320..384, 10), (640..704, 9), (0..704, 0)]
        {
            let mut bytes = whole.clone();
            bytes[zeros.clone()].fill(0);
            std::fs::write(&path, &bytes).unwrap();
            let mut log = open(&path);
            assert_eq!(log.count(), left, "{zeros:?}");
            for n in (0..left).filter(|n| !zeros.contains(&(64 + 64 * *n as usize))) {
                assert_eq!(
                    log.records().find(1_000 + 10 * n).unwrap(),
                    Some((n, entry(n))),
                    "{zeros:?}"
                );
            }
            log.append(entry(20)).unwrap();
            drop(log);
            let again = open(&path);
            assert_eq!((again.count(), again.newest()), (left + 1, Some(entry(20))));
            assert!(!again.lost());
        }
    }

    #[test]
    fn a_flipped_bit_invalidates_a_record() {
        let good = entry(3).encode();
        assert_eq!(CheckpointRecord::decode(&good), Some(entry(3)));
        for bit in 0..8 * RECORD {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(CheckpointRecord::decode(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn a_log_admits_one_publisher_and_one_object() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = open(&path);
        log.append(entry(1)).unwrap();
        let name = Name::from_uri("/alice/log").unwrap();
        let second = CheckpointLog::open(&DiskMedium::new(), &path, name.as_ref());
        assert!(matches!(second, Err(StoreError::Busy { .. })));
        drop(log);
        assert_eq!(open_as(&path, "/bob/log").unwrap().count(), 0);
    }
}
