//! Keeps a node's memory of signed commands across a restart, in `STORE/command-times`: how far the signers' clocks
//! were ahead of its own (`xylem_trust::ReplayGuard`).

use std::fs;
use std::io;
use std::path::Path;

use xylem_base::disk;
use xylem_hash::hash;
use xylem_store::{Clobber, StoreError, write_atomically};

const NAME: &str = "command-times";
/// Largest file, bytes; enough for a thousand keys.
const MAX_FILE: u64 = 1 << 16;

/// Length of the hash at the end of the file, bytes.
const HASH_LEN: usize = 32;

/// Loads what was stored last; empty if there is no file.
///
/// # Errors
/// The file cannot be read or is damaged: a replay guard must know that data was lost.
pub fn load(store: &Path) -> Result<Vec<u8>, StoreError> {
    let path = store.join(NAME);
    let damaged = |what| StoreError::Corrupt { path: path.clone(), offset: 0, what };
    let failed = |e| StoreError::from_io("read", &path, None, e);
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
        Ok(meta) if meta.is_file() && meta.len() <= MAX_FILE => {}
        Ok(_) => return Err(damaged("it is not a file that xylem writes")),
    }
    let mut bytes = fs::read(&path).map_err(failed)?;
    let is_whole = bytes
        .split_last_chunk::<HASH_LEN>()
        .is_some_and(|(times, kept)| hash(times).as_bytes() == kept);
    if is_whole {
        bytes.truncate(bytes.len() - HASH_LEN);
        return Ok(bytes);
    }
    // Earlier versions wrote no hash.
    match bytes.len() % 40 == 9 {
        true => Ok(bytes),
        false => Err(damaged("its checksum is wrong")),
    }
}

/// Stores the times durably.
///
/// # Errors
/// The file cannot be written.
pub fn keep(store: &Path, times: &[u8]) -> Result<(), StoreError> {
    let whole = [times, hash(times).as_bytes()].concat();
    write_atomically(&*disk(), &store.join(NAME), &whole, 0o600, Clobber::Replace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_not_treated_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path();
        assert!(load(store).unwrap().is_empty());
        let times = [&[1_u8; 9][..], &[7; 80]].concat();
        keep(store, &times).unwrap();
        assert_eq!(load(store).unwrap(), times);
        let file = store.join(NAME);
        let whole = fs::read(&file).unwrap();
        for at in [0, 8, 30, whole.len() - 1] {
            let mut bad = whole.clone();
            bad[at] ^= 1;
            fs::write(&file, &bad).unwrap();
            assert!(load(store).is_err(), "byte {at}");
        }
        for len in [0, 1, 8, 10, 60, whole.len() - 1] {
            fs::write(&file, &whole[..len]).unwrap();
            assert!(load(store).is_err(), "cut to {len}");
        }
        fs::write(&file, &times).unwrap();
        assert_eq!(load(store).unwrap(), times, "as it was written once");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(load(store).is_err());
    }
}
