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

/// How one path is to be shared: all that a user can ask of the background node for it. It travels whole to that node
/// and is kept whole between its runs. A field that a program does not know is an error there: what it says may be that
/// the path is not for everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareTerms {
    /// The object name that was asked for; `None`: the usual one.
    pub name: Option<String>,
    /// Whether names that some system cannot keep are an error.
    pub portable: bool,
    /// Whether what can't be read is an error, instead of being left out.
    pub strict: bool,
    /// Lines of a `.gitignore` that say what of a directory is left out; `None`: what was when it was shared last.
    pub exclude: Option<Vec<String>>,
    /// Who alone may read it, by the keys of their links (hexadecimal); `None`: everybody who can fetch it.
    pub recipients: Option<Vec<String>>,
    /// With `recipients`: whether files are padded, so that their sizes tell less.
    pub padded: bool,
    /// Whether the LAN may be told of it.
    pub lan: bool,
    /// Whether the router may be asked to forward the port where it is served.
    pub map: bool,
}

impl Default for ShareTerms {
    /// What `xylem share PATH` says without a flag.
    fn default() -> Self {
        Self {
            name: None,
            portable: false,
            strict: false,
            exclude: None,
            recipients: None,
            padded: false,
            lan: true,
            map: true,
        }
    }
}

/// One share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Registered {
    /// The absolute path that is shared.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// How.
    pub terms: ShareTerms,
    /// When it was shared first, seconds since 1970.
    pub since_s: u64,
    /// The ticket that was given for it last.
    pub ticket: String,
    /// Bytes of content then.
    pub bytes: u64,
    /// Files then.
    pub files: u64,
    /// What was served of it by all runs that have ended.
    pub counts: Counts,
}

/// A share as a file has it: before there were terms, two of them stood beside the path.
#[derive(Deserialize)]
struct Written {
    #[serde(with = "path_text")]
    path: PathBuf,
    terms: Option<ShareTerms>,
    name: Option<String>,
    #[serde(default)]
    portable: bool,
    since_s: u64,
    ticket: String,
    bytes: u64,
    files: u64,
    #[serde(default)]
    counts: Counts,
}

impl From<Written> for Registered {
    fn from(written: Written) -> Self {
        let Written { path, terms, name, portable, since_s, ticket, bytes, files, counts } =
            written;
        let terms = terms.unwrap_or(ShareTerms { name, portable, ..ShareTerms::default() });
        Self { path, terms, since_s, ticket, bytes, files, counts }
    }
}

impl Registered {
    /// What people call it by, beside its path: eight digits that stay as long as it is shared.
    pub fn id(&self) -> String {
        let mut whole = os_bytes(self.path.as_os_str());
        whole.push(0);
        whole.extend_from_slice(self.terms.name.as_deref().unwrap_or_default().as_bytes());
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
    /// Where it was asked to listen last, as `service run --listen` takes it; empty: on all interfaces. It holds until
    /// another place is asked for, so that what was served to this machine alone is not served to all by the next run.
    pub listen: Vec<String>,
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

    /// The shares that are meant by a path or an id: all of that path, or else the one with that id.
    #[must_use]
    pub fn meant(&self, path: &Path, id: &str) -> Vec<&Registered> {
        meant(&self.shares, path, id)
    }

    /// The shares by which what lies at `path` is served: of itself, and of directories that it lies in.
    pub fn covering<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Registered> {
        self.shares.iter().filter(|share| path.starts_with(&share.path))
    }
}

/// Of `shares` those that are meant by a path or an id: all of that path, or else the one with that id.
#[must_use]
pub fn meant<'a>(
    shares: impl IntoIterator<Item = &'a Registered, IntoIter: Clone>,
    path: &Path,
    id: &str,
) -> Vec<&'a Registered> {
    let shares = shares.into_iter();
    let at_path: Vec<_> = shares.clone().filter(|share| share.path == path).collect();
    if at_path.is_empty() { shares.filter(|share| share.id() == id).collect() } else { at_path }
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
            terms: ShareTerms::default(),
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
        let shares = vec![share(Path::new("/data/é")), share(&odd)];
        let listen = vec!["127.0.0.1:7348".to_owned()];
        let registry = Registry { port: Some(7348), listen, shares };
        registry.save(dir.path()).unwrap();
        assert_eq!(Registry::load(dir.path()).unwrap(), registry);
        assert_eq!(registry.meant(&odd, ""), [&registry.shares[1]]);
        assert_eq!(registry.meant(Path::new(""), &registry.shares[0].id()), [&registry.shares[0]]);
        assert_eq!(registry.meant(Path::new("/data"), "00000000"), [] as [&Registered; 0]);
        let within = odd.join("below");
        assert_eq!(registry.covering(&within).collect::<Vec<_>>(), [&registry.shares[1]]);
    }

    #[test]
    fn several_shares_of_one_path_are_told_apart_by_id_and_meant_by_path() {
        let path = Path::new("/data");
        let terms = ShareTerms { name: Some("/a".to_owned()), ..ShareTerms::default() };
        let named = Registered { terms, ..share(path) };
        assert_ne!(named.id(), share(path).id());
        let shares = vec![share(path), named];
        let registry = Registry { shares, ..Registry::default() };
        assert_eq!(registry.meant(path, "").len(), 2);
        assert_eq!(registry.meant(Path::new("/x"), &registry.shares[1].id()).len(), 1);
    }

    #[test]
    fn a_share_of_a_version_without_terms_comes_back() {
        let old = r#"{"port":7,"shares":[{"path":"/a","name":"/n","portable":true,"since_s":1,
            "ticket":"t","bytes":1,"files":1}]}"#;
        let registry = Registry::read(old.as_bytes()).unwrap();
        let terms = &registry.shares[0].terms;
        assert_eq!((terms.name.as_deref(), terms.portable), (Some("/n"), true));
        assert!(terms.lan && terms.map && terms.recipients.is_none());
        // What a newer version says of who may have it is not passed over.
        let newer =
            old.replace(r#""name":"/n","portable":true"#, r#""terms":{"only_by_day":true}"#);
        assert!(Registry::read(newer.as_bytes()).is_err());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_not_an_empty_list() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry { shares: vec![share(Path::new("/a"))], ..Registry::default() };
        registry.save(dir.path()).unwrap();
        let file = Registry::folder_of(dir.path()).join(FILE);
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(Registry::load(dir.path()).is_err());
    }
}
