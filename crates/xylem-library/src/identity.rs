//! Secrets of this node on disk: the publisher's Ed25519 key and the link's X25519 key.
//!
//! Each is a file of 32 raw bytes, mode 0600, made on first use. They never travel.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use xylem_store::{Clobber, DiskMedium, StoreError, create_dirs, write_atomically};

use crate::{Blame, Error};

/// Length of either secret in bytes.
const SECRET_LEN: usize = 32;

/// Reads the secret at `path`, or makes it there from the operating system's randomness.
pub fn load_or_create(path: &Path) -> Result<[u8; SECRET_LEN], Error> {
    match load(path) {
        Err(LoadError::Io(e)) if e.kind() == io::ErrorKind::NotFound => create(path),
        other => other.map_err(|e| e.at(path)),
    }
}

/// Reads the secret at `path`; it must be there.
pub fn load_existing(path: &Path) -> Result<[u8; SECRET_LEN], Error> {
    load(path).map_err(|e| e.at(path))
}

/// Fresh random bytes from the operating system.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error {
        blame: Blame::Local,
        message: format!("the operating system gives no randomness: {e}"),
    })?;
    Ok(bytes)
}

enum LoadError {
    Io(io::Error),
    Length,
}

impl LoadError {
    fn at(self, path: &Path) -> Error {
        let path = path.display();
        match self {
            Self::Io(e) if e.kind() == io::ErrorKind::NotFound => Error {
                blame: Blame::Usage,
                message: format!("{path}: no such key file; leave --key away to use your own"),
            },
            Self::Io(e) => {
                Error { blame: Blame::Local, message: format!("{path}: cannot read key: {e}") }
            }
            Self::Length => Error {
                blame: Blame::Usage,
                message: format!("{path}: a key file holds exactly {SECRET_LEN} bytes"),
            },
        }
    }
}

fn load(path: &Path) -> Result<[u8; SECRET_LEN], LoadError> {
    let mut bytes = Vec::with_capacity(SECRET_LEN);
    fs::File::open(path)
        .and_then(|f| f.take(SECRET_LEN as u64 + 1).read_to_end(&mut bytes))
        .map_err(LoadError::Io)?;
    bytes.try_into().map_err(|_| LoadError::Length)
}

/// Makes the secret. Two first runs at the same time agree on one key, and a crash never leaves half
/// of one.
fn create(path: &Path) -> Result<[u8; SECRET_LEN], Error> {
    let secret = random::<SECRET_LEN>()?;
    match write_private(path, &secret) {
        Ok(()) => Ok(secret),
        Err(StoreError::Exists { .. }) => load_existing(path),
        Err(e) => {
            Err(Error { blame: Blame::Local, message: format!("{e}; it was to hold a new key") })
        }
    }
}

/// Writes a new file that only its owner reads, and those directories above it that are missing. It
/// is there as a whole or not at all, and survives a loss of power.
///
/// # Errors
/// [`StoreError::Exists`]; the disk's.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let disk = DiskMedium::new();
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        create_dirs(&disk, above)?;
    }
    write_atomically(&disk, path, bytes, 0o600, Clobber::Never)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_use_makes_a_private_key_that_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys/publisher");
        let made = load_or_create(&path).unwrap();
        assert_eq!(load_or_create(&path).unwrap(), made);
        assert_ne!(made, [0; 32]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_key_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("publisher");
        fs::write(&path, [7; 31]).unwrap();
        assert_eq!(load_or_create(&path).unwrap_err().blame, Blame::Usage);
        assert_eq!(fs::read(&path).unwrap().len(), 31);
    }
}
