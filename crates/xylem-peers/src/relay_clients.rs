//! Stores where a relay's clients are, in `STORE/relay-clients`: a relay that was killed notifies them after its
//! restart (docs/spec/reach.md, "A relay that has lost its state").

use std::fs;
use std::io;
use std::path::Path;

use xylem_base::disk;
use xylem_hash::hash;
use xylem_store::{Clobber, Durability, StoreError, write_whole};

const NAME: &str = "relay-clients";
/// Largest file, bytes; enough for two and a half million clients.
const MAX_FILE: u64 = 64 << 20;
/// Length of the hash at the end of the file, bytes.
const HASH_LEN: usize = 32;

/// Loads what was stored last; empty if there is no file.
///
/// # Errors
/// The file cannot be read or is damaged.
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
        .is_some_and(|(clients, kept)| hash(clients).as_bytes() == kept);
    if !is_whole {
        return Err(damaged("its checksum is wrong"));
    }
    bytes.truncate(bytes.len() - HASH_LEN);
    Ok(bytes)
}

/// Stores the clients. The file outlives the process, but not a loss of power: keep-alives recover from that, so there
/// is no wait for the disk.
///
/// # Errors
/// The file cannot be written.
pub fn keep(store: &Path, clients: &[u8]) -> Result<(), StoreError> {
    let whole = [clients, hash(clients).as_bytes()].concat();
    let path = store.join(NAME);
    write_whole(&*disk(), &path, &whole, 0o600, Clobber::Replace, Durability::Cached)
}

/// Removes the file: a relay that ends in good order has notified its clients.
pub fn forget(store: &Path) {
    // A file that stays only causes notices that clients ignore.
    let _ = fs::remove_file(store.join(NAME));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_client_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path();
        assert!(load(store).unwrap().is_empty());
        keep(store, &[7; 52]).unwrap();
        assert_eq!(load(store).unwrap(), [7; 52]);
        let file = store.join(NAME);
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
