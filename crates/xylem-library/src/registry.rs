//! [`Registry`]: what a user's background node shares, in one file of the store.
//!
//! The file is JSON and written whole by the store's atomic routine, so that a killed process leaves
//! the older or the newer one. One process at a time writes it: the one that holds the service's lock.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xylem_store::{Clobber, Store, StoreError, keep_private, write_atomically};

use crate::disk::disk;
use crate::path::{os_bytes, os_path};
use crate::served::Counts;

/// The folder of the store where all of the service lies, for its user alone.
const FOLDER: &str = "service";
const FILE: &str = "shares.json";

/// One share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The absolute path that is shared.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// The object name that was asked for; `None`: the usual one.
    pub name: Option<String>,
    /// Whether names that some system cannot keep are an error.
    #[serde(default)]
    pub portable: bool,
    /// When it was shared first, seconds since 1970.
    pub since_s: u64,
    /// The ticket that was given for it last.
    pub ticket: String,
    /// Bytes of content then.
    pub bytes: u64,
    /// Files then.
    pub files: u64,
    /// What was served of it by all runs that have ended.
    #[serde(default)]
    pub counts: Counts,
}

impl Registered {
    /// What people call it by, beside its path: eight digits that stay as long as it is shared.
    pub fn id(&self) -> String {
        let mut whole = os_bytes(self.path.as_os_str());
        whole.push(0);
        whole.extend_from_slice(self.name.as_deref().unwrap_or_default().as_bytes());
        let mut id = xylem_hash::hash(&whole).to_hex().to_string();
        id.truncate(8);
        id
    }
}

/// All that is shared in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Registry {
    /// The port where the service was last.
    pub port: Option<u16>,
    /// In the order in which they were shared.
    pub shares: Vec<Registered>,
}

impl Registry {
    /// The folder of the service in a store; both are made if need be.
    ///
    /// # Errors
    /// The store's.
    pub fn folder(store: &Path) -> Result<PathBuf, StoreError> {
        drop(Store::open(disk(), store)?);
        let folder = store.join(FOLDER);
        match disk().create_dir(&folder, 0o700) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                Err(StoreError::from_io("create the directory", &folder, None, e))
            }
            _ => keep_private(&*disk(), &folder).map(|()| folder),
        }
    }

    /// The folder of the service in a store, whether or not it is there.
    pub fn folder_of(store: &Path) -> PathBuf {
        store.join(FOLDER)
    }

    /// What is registered in a store; nothing where there never was a service.
    ///
    /// # Errors
    /// The system's, and kind `InvalidData` for a file that is no registry.
    pub fn load(store: &Path) -> Result<Self, StoreError> {
        let path = Self::folder_of(store).join(FILE);
        match std::fs::read(&path) {
            Ok(bytes) => Self::read(&bytes)
                .map_err(|e| StoreError::from_io("read the list of shares", &path, None, e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(StoreError::from_io("read the list of shares", &path, None, e)),
        }
    }

    fn read(bytes: &[u8]) -> io::Result<Self> {
        serde_json::from_slice(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The medium's.
    pub fn save(&self, store: &Path) -> Result<(), StoreError> {
        let path = Self::folder(store)?.join(FILE);
        let mut text = serde_json::to_vec_pretty(self).expect("plain fields");
        text.push(b'\n');
        write_atomically(&*disk(), &path, &text, 0o600, Clobber::Replace)
    }

    /// The share that somebody means by its path or id.
    pub fn find(&self, path: &Path, id: &str) -> Option<usize> {
        self.shares.iter().position(|share| share.path == path || share.id() == id)
    }
}

/// A path as text, or as its bytes where it is none.
pub mod path_text {
    use super::*;
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Bytes(Vec<u8>),
    }

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let form = match path.to_str() {
            Some(text) => Form::Text(text.to_owned()),
            None => Form::Bytes(os_bytes(path.as_os_str())),
        };
        form.serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match Form::deserialize(from)? {
            Form::Text(text) => PathBuf::from(text),
            Form::Bytes(bytes) => os_path(&bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(path: &Path) -> Registered {
        Registered {
            path: path.to_path_buf(),
            name: None,
            portable: false,
            since_s: 7,
            ticket: "xylem:abc".to_owned(),
            bytes: 1,
            files: 1,
            counts: Counts { bytes: 3, peers: 2, fetched: 1 },
        }
    }

    #[test]
    fn it_comes_back_and_is_found_by_path_or_id() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Registry::load(dir.path()).unwrap(), Registry::default());
        let odd = os_path(b"/data/\xff");
        let registry =
            Registry { port: Some(7348), shares: vec![share(Path::new("/data/é")), share(&odd)] };
        registry.save(dir.path()).unwrap();
        assert_eq!(Registry::load(dir.path()).unwrap(), registry);
        assert_eq!(registry.find(&odd, ""), Some(1));
        assert_eq!(registry.find(Path::new(""), &registry.shares[0].id()), Some(0));
        assert_eq!(registry.find(Path::new("/data"), "00000000"), None);
        let named = Registered { name: Some("/a".to_owned()), ..share(&odd) };
        assert_ne!(named.id(), share(&odd).id());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_not_an_empty_list() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry { port: None, shares: vec![share(Path::new("/a"))] };
        registry.save(dir.path()).unwrap();
        let file = Registry::folder_of(dir.path()).join(FILE);
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(Registry::load(dir.path()).is_err());
    }
}
