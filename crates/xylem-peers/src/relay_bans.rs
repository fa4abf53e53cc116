//! Stores whom a relay's operator keeps away, in `STORE/relay-bans`: a link key, an address or a network in a line.

use std::fs;
use std::io;
use std::path::Path;

use xylem_base::disk;
use xylem_reach::relay::{MAX_BANS, RelayBan};
use xylem_store::{Clobber, StoreError, write_atomically};

const NAME: &str = "relay-bans";
/// Largest file, bytes.
const MAX_FILE: u64 = 1 << 20;

/// Loads the bans; none if there is no file.
///
/// # Errors
/// The file cannot be read, or has a line that is no ban.
pub fn load(store: &Path) -> Result<Vec<RelayBan>, StoreError> {
    let path = store.join(NAME);
    let damaged = |what| StoreError::Corrupt { path: path.clone(), offset: 0, what };
    let failed = |e| StoreError::from_io("read", &path, None, e);
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
        Ok(meta) if meta.is_file() && meta.len() <= MAX_FILE => {}
        Ok(_) => return Err(damaged("it is not a file that xylem writes")),
    }
    let text = fs::read_to_string(&path).map_err(failed)?;
    let bans: Result<Vec<RelayBan>, _> = text.lines().take(MAX_BANS).map(str::parse).collect();
    bans.map_err(|_| damaged("a line is no link key, address or network"))
}

/// Stores the bans.
///
/// # Errors
/// The file cannot be written.
pub fn keep(store: &Path, bans: &[RelayBan]) -> Result<(), StoreError> {
    let text: String = bans.iter().map(|ban| format!("{ban}\n")).collect();
    write_atomically(&*disk(), &store.join(NAME), text.as_bytes(), 0o600, Clobber::Replace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_are_loaded_as_they_were_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), []);
        let bans = ["192.0.2.0/24", "2001:db8::1", &"a5".repeat(32)];
        let bans: Vec<RelayBan> = bans.iter().map(|text| text.parse().unwrap()).collect();
        keep(dir.path(), &bans).unwrap();
        assert_eq!(load(dir.path()).unwrap(), bans);
        fs::write(dir.path().join(NAME), "192.0.2.0/24\nnobody\n").unwrap();
        assert!(load(dir.path()).is_err());
    }
}
