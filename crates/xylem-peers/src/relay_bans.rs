//! Stores which clients a relay's operator keeps away, in `STORE/relay-bans`: a link key, an address or a network in a
//! line.

use std::path::Path;

use xylem_reach::relay::{MAX_BANS, RelayBan};
use xylem_store::{Durability, StoreError};

use crate::node_file::NodeFile;

const FILE: NodeFile = NodeFile { name: "relay-bans", max: 1 << 20 };

/// Loads the bans; none if there is no file.
///
/// # Errors
/// The file cannot be read, has a line that is no ban, or more lines than there may be bans. A part of it is never
/// returned: the rest would be lost with the next [`keep`].
pub fn load(store: &Path) -> Result<Vec<RelayBan>, StoreError> {
    let Some(file) = FILE.read(store)? else { return Ok(Vec::new()) };
    let damaged = |what| FILE.damaged(store, what);
    let text = String::from_utf8_lossy(&file);
    if text.lines().count() > MAX_BANS {
        return Err(damaged("it has more lines than a relay may have bans"));
    }
    let bans: Result<Vec<RelayBan>, _> = text.lines().map(str::parse).collect();
    bans.map_err(|_| damaged("a line is no link key, address or network"))
}

/// Stores the bans.
///
/// # Errors
/// The file cannot be written.
pub fn keep(store: &Path, bans: &[RelayBan]) -> Result<(), StoreError> {
    let text: String = bans.iter().map(|ban| format!("{ban}\n")).collect();
    FILE.write(store, text.as_bytes(), Durability::Device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn bans_are_loaded_as_they_were_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), []);
        let bans = ["192.0.2.0/24", "2001:db8::1", &"a5".repeat(32)];
        let bans: Vec<RelayBan> = bans.iter().map(|text| text.parse().unwrap()).collect();
        keep(dir.path(), &bans).unwrap();
        assert_eq!(load(dir.path()).unwrap(), bans);
        fs::write(FILE.path(dir.path()), "192.0.2.0/24\nnobody\n").unwrap();
        assert!(load(dir.path()).is_err());
        let many: String = (0..=MAX_BANS).map(|i| format!("2001:db8::{i:x}\n")).collect();
        fs::write(FILE.path(dir.path()), many).unwrap();
        assert!(load(dir.path()).is_err());
    }
}
