//! What a node remembers of signed commands across a restart, in `STORE/command-times`: how far the
//! signers' clocks were ahead of its own (`xylem_trust::ReplayGuard`).

use std::path::Path;

use xylem_store::{Clobber, StoreError, write_atomically};

use crate::disk::disk;

const NAME: &str = "command-times";
/// A thousand keys.
const MAX_FILE: u64 = 1 << 16;

/// What was stored last; nothing if there is none. A file that is none of ours tells a guard nothing.
#[must_use]
pub fn load(store: &Path) -> Vec<u8> {
    let path = store.join(NAME);
    let is_ours = path.symlink_metadata().is_ok_and(|m| m.is_file() && m.len() <= MAX_FILE);
    if is_ours { std::fs::read(path).unwrap_or_default() } else { Vec::new() }
}

/// Stores it; on the disk when this returns.
///
/// # Errors
/// It can't be written.
pub fn keep(store: &Path, times: &[u8]) -> Result<(), StoreError> {
    write_atomically(&*disk(), &store.join(NAME), times, 0o600, Clobber::Replace)
}
