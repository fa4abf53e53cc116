//! Stores where a relay's clients are, in `STORE/relay-clients`: a relay that was killed notifies them after its
//! restart (docs/spec/reach.md, "A relay that has lost its state").

use std::path::Path;

use xylem_base::disk;
use xylem_store::{Durability, StoreError};

use crate::node_file::{NodeFile, hashed_content};

/// Enough for two and a half million clients.
const FILE: NodeFile = NodeFile { name: "relay-clients", max: 64 << 20 };

/// Loads what was stored last; empty if there is no file.
///
/// # Errors
/// The file cannot be read or is damaged.
pub fn load(store: &Path) -> Result<Vec<u8>, StoreError> {
    let Some(file) = FILE.read(store)? else { return Ok(Vec::new()) };
    let clients = hashed_content(&file).map(<[u8]>::to_vec);
    clients.ok_or_else(|| FILE.damaged(store, "its checksum is wrong"))
}

/// Stores the clients. The file outlives the process, but not a loss of power: keep-alives recover from that, so there
/// is no wait for the disk.
///
/// # Errors
/// The file cannot be written.
pub fn keep(store: &Path, clients: &[u8]) -> Result<(), StoreError> {
    FILE.write_hashed(store, clients, Durability::Cached)
}

/// Removes the file: a relay that ends in good order has notified its clients.
pub fn forget(store: &Path) {
    // A file that stays only causes notices that clients ignore.
    let _ = disk().remove_file(&FILE.path(store));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_damaged_client_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path();
        assert!(load(store).unwrap().is_empty());
        keep(store, &[7; 52]).unwrap();
        assert_eq!(load(store).unwrap(), [7; 52]);
        let file = FILE.path(store);
        let whole = fs::read(&file).unwrap();
        for len in [0, 1, 26, 52, whole.len() - 1] {
            fs::write(&file, &whole[..len]).unwrap();
            assert!(load(store).is_err(), "cut to {len}");
        }
        let mut bad = whole.clone();
        bad[30] ^= 1;
        fs::write(&file, &bad).unwrap();
        assert!(load(store).is_err());
        keep(store, &[]).unwrap();
        assert!(load(store).unwrap().is_empty());
        forget(store);
        assert!(!file.exists() && load(store).unwrap().is_empty());
    }
}
