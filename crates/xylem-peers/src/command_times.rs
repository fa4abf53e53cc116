//! Keeps a node's memory of signed commands across a restart, in `STORE/command-times`: how far the signers' clocks
//! were ahead of its own (`xylem_trust::ReplayGuard`).

use std::path::Path;

use xylem_store::{Durability, StoreError};

use crate::node_file::{NodeFile, hashed_content};

/// Enough for a thousand keys.
const FILE: NodeFile = NodeFile { name: "command-times", max: 1 << 16 };

/// Loads what was stored last; empty if there is no file.
///
/// # Errors
/// The file cannot be read or is damaged: a replay guard must know that data was lost.
pub fn load(store: &Path) -> Result<Vec<u8>, StoreError> {
    let Some(file) = FILE.read(store)? else { return Ok(Vec::new()) };
    match hashed_content(&file) {
        Some(times) => Ok(times.to_vec()),
        // Earlier versions wrote no hash.
        None if file.len() % 40 == 9 => Ok(file),
        None => Err(FILE.damaged(store, "its checksum is wrong")),
    }
}

/// Stores the times durably.
///
/// # Errors
/// The file cannot be written.
pub fn keep(store: &Path, times: &[u8]) -> Result<(), StoreError> {
    FILE.write_hashed(store, times, Durability::Device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_damaged_file_is_not_treated_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path();
        assert!(load(store).unwrap().is_empty());
        let times = [&[1_u8; 9][..], &[7; 80]].concat();
        keep(store, &times).unwrap();
        assert_eq!(load(store).unwrap(), times);
        let file = FILE.path(store);
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
