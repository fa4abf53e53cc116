//! Secrets of this node on disk: the publisher's Ed25519 key and the link's X25519 key.
//!
//! Each is a file of 32 raw bytes, mode 0600 in a directory of mode 0700, made on first use. The publisher's is a
//! SafeBag if the user gave it a passphrase. The secrets never leave the machine. A secret that other users could open
//! is refused; a directory that they could read is made private.

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{UnixTime, random};
use xylem_store::{
    Clobber, DiskMedium, Medium, StoreError, create_dirs, keep_private, read_stream,
    require_private, write_atomically,
};

use xylem_packet::Name;
use xylem_trust::{Armor, PrivateKey, PublicKey, SafeBag};

use super::error::KeyFileError;
use super::held::{StoredKey, seal};
use super::limits::SECRET_LEN;

/// Reads the secret at `path`, or makes it from the operating system's randomness.
///
/// # Errors
/// The file cannot be read, is no secret, or is open to other users; no secret can be made.
pub fn load_or_create(path: &Path) -> Result<[u8; SECRET_LEN], KeyFileError> {
    if let Some(above) = path.parent() {
        close_directory(above)?;
    }
    match load_existing(path) {
        Err(KeyFileError::NoSecret(_)) => create(path),
        other => other,
    }
}

/// Most bytes of a secret's file: a SafeBag in base64.
const MAX_FILE: u64 = 4_096;

/// Reads the secret at `path`, which must exist. Requests its passphrase if it has one.
///
/// # Errors
/// It does not exist, cannot be read, is no secret, is open to other users, or its passphrase is missing.
pub fn load_existing(path: &Path) -> Result<[u8; SECRET_LEN], KeyFileError> {
    match read(path)? {
        SecretFile::Bare(secret) => Ok(secret),
        SecretFile::Sealed(bag) => {
            let (_, held) = StoredKey::read(bag, path)?;
            let key = held.open(&path.display().to_string())?;
            key.seed().copied().ok_or_else(|| KeyFileError::Length(path.to_path_buf()))
        }
    }
}

/// Returns the public half of the Ed25519 secret at `path`; no passphrase is needed.
///
/// # Errors
/// It does not exist, cannot be read, is no secret, or is open to other users.
pub fn public_half(path: &Path) -> Result<[u8; SECRET_LEN], KeyFileError> {
    let public = match read(path)? {
        SecretFile::Bare(secret) => PrivateKey::ed25519(secret).public(),
        SecretFile::Sealed(bag) => StoredKey::read(bag, path)?.1.public(),
    };
    match public {
        PublicKey::Ed25519(key) => Ok(key),
        _ => Err(KeyFileError::Length(path.to_path_buf())),
    }
}

/// Puts the Ed25519 secret at `path`, which must exist, under another passphrase, or under none.
///
/// # Errors
/// It cannot be read or written, or its passphrase is missing.
pub fn reseal(path: &Path, passphrase: Option<&[u8]>, now: UnixTime) -> Result<(), KeyFileError> {
    let secret = load_existing(path)?;
    let Some(passphrase) = passphrase else { return Ok(replace_private(path, &secret)?) };
    let key = PrivateKey::ed25519(secret);
    let id: String = key.public().digest()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let what = path.display();
    let name = Name::from_uri(&format!("/xylem/publisher/KEY/{id}"))
        .map_err(|source| KeyFileError::Name { text: what.to_string(), source })?;
    let bag = seal(&key, &name, None, passphrase, now)?;
    Ok(replace_private(path, Armor::SafeBag.encode(&name.to_string(), &bag).as_bytes())?)
}

enum SecretFile {
    Bare([u8; SECRET_LEN]),
    Sealed(Vec<u8>),
}

fn read(path: &Path) -> Result<SecretFile, KeyFileError> {
    require_closed(path)?;
    let mut bytes = Vec::with_capacity(SECRET_LEN);
    let read = read_stream(path, MAX_FILE, &mut bytes);
    let path = || path.to_path_buf();
    match read {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(KeyFileError::NoSecret(path()));
        }
        Err(source) => return Err(KeyFileError::Read { path: path(), source }),
        Ok(()) => {}
    }
    if let Ok(secret) = bytes.as_slice().try_into() {
        return Ok(SecretFile::Bare(secret));
    }
    let bag = Armor::decode(&bytes).filter(|bag| SafeBag::begins(bag));
    bag.map(SecretFile::Sealed).ok_or_else(|| KeyFileError::Length(path()))
}

/// Makes a secret. Two concurrent first runs agree on one: the second finds that the file exists.
fn create(path: &Path) -> Result<[u8; SECRET_LEN], KeyFileError> {
    let secret = random::<SECRET_LEN>()?;
    match write_private(path, &secret) {
        Ok(()) => Ok(secret),
        Err(StoreError::Exists { .. }) => load_existing(path),
        Err(e) => Err(KeyFileError::Write(e)),
    }
}

/// Makes a directory of keys accessible to its owner alone; symbolic links are followed.
pub(super) fn close_directory(path: &Path) -> Result<(), StoreError> {
    // A missing directory is made, or reported missing, by a later call.
    path.canonicalize().map_or(Ok(()), |path| keep_private(&DiskMedium::new(), &path))
}

/// Refuses a key file that other users can open; symbolic links are followed.
pub(super) fn require_closed(path: &Path) -> Result<(), StoreError> {
    path.canonicalize().map_or(Ok(()), |path| require_private(&DiskMedium::new(), &path))
}

/// Writes a new file that only its owner can read, and makes its directory; [`StoreError::Exists`] if the file exists.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let disk = DiskMedium::new();
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        create_dirs(&disk, above)?;
    }
    write_atomically(&disk, path, bytes, 0o600, Clobber::Never)
}

/// Replaces a file by one that only its owner can read.
pub(super) fn replace_private(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_atomically(&DiskMedium::new(), path, bytes, 0o600, Clobber::Replace)
}

/// Lists the files of a directory with this extension, as far as `most` names go; none if there is no such directory.
pub(super) fn files_in(
    dir: &Path,
    extension: &str,
    most: usize,
) -> Result<Vec<PathBuf>, StoreError> {
    let names = match DiskMedium::new().list_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|e| StoreError::from_io("list", dir, None, e))?,
    };
    let paths = names.into_iter().take(most).map(|item| dir.join(item.name));
    Ok(paths.filter(|path| path.extension().is_some_and(|end| end == extension)).collect())
}

/// Removes a file, which need not exist.
pub(super) fn remove_file(path: &Path) -> Result<(), StoreError> {
    match DiskMedium::new().remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::from_io("remove", path, None, e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        write_private(&path, &[7; 31]).unwrap();
        assert!(matches!(load_or_create(&path), Err(KeyFileError::Length(_))));
        assert_eq!(fs::read(&path).unwrap().len(), 31);
    }
}
