//! Where a relay's clients are, in `STORE/relay-clients`: one that was killed tells them when it is started anew
//! (docs/spec/reach.md, "A relay that has lost its state").

use std::fs;
use std::io;
use std::path::Path;

use xylem_hash::hash;
use xylem_store::{Clobber, Durability, StoreError, write_whole};

use crate::disk::disk;

const NAME: &str = "relay-clients";
/// A hundred thousand clients.
const MAX_FILE: u64 = 4 << 20;
/// Bytes of the hash at the end of the file.
const HASH_LEN: usize = 32;

/// What was kept last; nothing if there is none.
///
/// # Errors
/// It is there and can't be read, or is not what was kept.
pub fn load(store: &Path) -> Result<Vec<u8>, StoreError> {
    let path = store.join(NAME);
    let damaged = |what| StoreError::Corrupt { path: path.clone(), offset: 0, what };
    let failed = |e| StoreError::from_io("read", &path, None, e);
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
        Ok(meta) if meta.is_file() && meta.len() <= MAX_FILE => {}
        Ok(_) => return Err(damaged("it is none of this program's files")),
    }
    let mut bytes = fs::read(&path).map_err(failed)?;
    let is_whole = bytes
        .split_last_chunk::<HASH_LEN>()
        .is_some_and(|(clients, kept)| hash(clients).as_bytes() == kept);
    if !is_whole {
        return Err(damaged("it is not what was written"));
    }
    bytes.truncate(bytes.len() - HASH_LEN);
    Ok(bytes)
}

/// Keeps it. It outlives the process, and waits for no disk: what a loss of power takes is learnt by keep-alives.
///
/// # Errors
/// It can't be written.
pub fn keep(store: &Path, clients: &[u8]) -> Result<(), StoreError> {
    let whole = [clients, hash(clients).as_bytes()].concat();
    let path = store.join(NAME);
    write_whole(&*disk(), &path, &whole, 0o600, Clobber::Replace, Durability::Cached)
}

/// Removes it: who ends in good order has told all of them.
pub fn forget(store: &Path) {
    // What stays is told to clients that know better.
    let _ = fs::remove_file(store.join(NAME));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_wakes_nobody() {
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
