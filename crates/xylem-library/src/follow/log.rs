//! [`Log`]: what is remembered of checkpoints on disk, 64 bytes each, appended and never changed.
//!
//! A record is written before anybody is given its checkpoint, so that a publisher that is killed
//! goes on with higher versions and can serve again whatever it has signed. Each record carries a
//! check of its own; what a crash left half-written at the end is cut off. Layout: docs/spec/store.md,
//! "Growing objects".

use std::path::{Path, PathBuf};

use xylem_hash::Hash;
use xylem_packet::NameRef;
use xylem_store::{FileRef, Medium, OpenHow, Store, StoreError};

/// Bytes of a record.
const RECORD: usize = 64;
/// Bytes that its check covers.
const CHECKED: usize = 56;
const MAGIC: &[u8; 8] = b"xygrow01";
/// Where all this lies, in the store's directory.
const FOLDER: &str = "growing";

/// One checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Version component of its name, microseconds.
    pub(super) version: u64,
    /// Bytes of the file then.
    pub(super) size: u64,
    /// Root of its tree.
    pub(super) root: Hash,
    /// Permission bits, which its manifest says.
    pub(super) mode: u16,
    /// Whether nothing was to come after it.
    pub(super) last: bool,
}

impl Entry {
    pub(super) fn encode(&self) -> [u8; RECORD] {
        let mut out = [0; RECORD];
        out[..8].copy_from_slice(&self.version.to_le_bytes());
        out[8..16].copy_from_slice(&self.size.to_le_bytes());
        out[16..48].copy_from_slice(self.root.as_bytes());
        out[48..50].copy_from_slice(&self.mode.to_le_bytes());
        out[50] = u8::from(self.last);
        sealed(out)
    }

    /// `None` for anything but what [`Self::encode`] gives.
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

/// The store's folder for growing objects, made where it is not there.
pub(super) fn folder(store: &Store) -> Result<PathBuf, StoreError> {
    let folder = store.dir().join(FOLDER);
    match store.medium().create_dir(&folder, 0o700) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::from_io("create the directory", &folder, None, e))
        }
        _ => Ok(folder),
    }
}

/// Where the state of a growing object lies that is read from, or written to, the file at `path`.
pub(super) fn place(
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

/// Opens a file of this folder, a new one if there is none.
pub(super) fn open(medium: &dyn Medium, path: &Path) -> Result<FileRef, StoreError> {
    FileRef::open(medium, path, OpenHow::Create { mode: 0o600 })
}

/// The one record of a small file; `None` if it holds none.
pub(super) fn read_one(file: &FileRef) -> Result<Option<Entry>, StoreError> {
    read_record(file, 0)
}

fn read_record(file: &FileRef, at: u64) -> Result<Option<Entry>, StoreError> {
    let mut record = [0; RECORD];
    let got = file.read_full(&mut record, at * RECORD as u64)?;
    Ok((got == RECORD).then(|| Entry::decode(&record)).flatten())
}

/// All checkpoints of one growing object, by number; one publisher at a time.
#[derive(Debug)]
pub(super) struct Log {
    file: FileRef,
    count: u64,
    newest: Option<Entry>,
}

impl Log {
    /// Opens and locks the log at `path`, which is to be that of `object`. One of something else, or
    /// damaged at its beginning, is begun anew.
    pub(super) fn open(
        medium: &dyn Medium,
        path: &Path,
        object: NameRef<'_>,
    ) -> Result<Self, StoreError> {
        let file = open(medium, path)?;
        file.lock()?;
        let mut head = [0; RECORD];
        head[..8].copy_from_slice(MAGIC);
        head[8..40].copy_from_slice(xylem_hash::hash(object.value()).as_bytes());
        let head = sealed(head);
        let mut found = [0; RECORD];
        let got = file.read_full(&mut found, 0)?;
        let mut count = (file.metadata()?.size / RECORD as u64).saturating_sub(1);
        if got < RECORD || found != head {
            file.set_len(0)?;
            file.write_all(&head, 0)?;
            count = 0;
        }
        let mut newest = None;
        while count > 0 {
            newest = read_record(&file, count)?;
            if newest.is_some() {
                break;
            }
            count -= 1;
        }
        file.set_len((count + 1) * RECORD as u64)?;
        Ok(Self { file, count, newest })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The newest one.
    pub(super) fn newest(&self) -> Option<Entry> {
        self.newest
    }

    /// Adds one, of a higher version than all before it.
    pub(super) fn append(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.file.write_all(&entry.encode(), (self.count + 1) * RECORD as u64)?;
        self.count += 1;
        self.newest = Some(entry);
        Ok(())
    }

    /// Checkpoint `number`, counted from 0.
    pub(super) fn entry(&self, number: u64) -> Result<Option<Entry>, StoreError> {
        if number >= self.count { Ok(None) } else { read_record(&self.file, number + 1) }
    }

    /// The checkpoint of this version, and its number: a search by halves in the file.
    pub(super) fn find(&self, version: u64) -> Result<Option<(u64, Entry)>, StoreError> {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.entry(middle)? {
                Some(entry) if entry.version == version => return Ok(Some((middle, entry))),
                Some(entry) if entry.version < version => from = middle + 1,
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

    fn entry(n: u64) -> Entry {
        let root = xylem_hash::hash(&n.to_le_bytes());
        Entry { version: 1_000 + 10 * n, size: n * n, root, mode: 0o640, last: n.is_multiple_of(2) }
    }

    fn open(path: &Path) -> Log {
        let name = Name::from_uri("/alice/log").unwrap();
        Log::open(&DiskMedium::new(), path, name.as_ref()).unwrap()
    }

    #[test]
    fn what_was_appended_is_found_again_and_a_torn_end_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = open(&path);
        assert_eq!((log.count(), log.newest(), log.find(5).unwrap()), (0, None, None));
        for n in 0..100 {
            log.append(entry(n)).unwrap();
        }
        for n in 0..100 {
            assert_eq!(log.entry(n).unwrap(), Some(entry(n)));
            assert_eq!(log.find(1_000 + 10 * n).unwrap(), Some((n, entry(n))));
            assert_eq!(log.find(1_001 + 10 * n).unwrap(), None);
        }
        assert_eq!(log.entry(100).unwrap(), None);
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        for cut in [1, 63, 64, 65, 128] {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let left = 100 - (cut as u64).div_ceil(64);
            let mut log = open(&path);
            assert_eq!((log.count(), log.newest()), (left, Some(entry(left - 1))));
            log.append(entry(left)).unwrap();
            assert_eq!(log.entry(left).unwrap(), Some(entry(left)));
        }
    }

    #[test]
    fn a_flipped_bit_is_no_record() {
        let good = entry(3).encode();
        assert_eq!(Entry::decode(&good), Some(entry(3)));
        for bit in 0..8 * RECORD {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Entry::decode(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn one_publisher_at_a_time_and_one_object() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = open(&path);
        log.append(entry(1)).unwrap();
        let name = Name::from_uri("/alice/log").unwrap();
        let second = Log::open(&DiskMedium::new(), &path, name.as_ref());
        assert!(matches!(second, Err(StoreError::Busy { .. })));
        drop(log);
        let other = Name::from_uri("/bob/log").unwrap();
        assert_eq!(Log::open(&DiskMedium::new(), &path, other.as_ref()).unwrap().count(), 0);
    }
}
