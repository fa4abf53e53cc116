//! [`Registry`]: the shares of a user's background node, in one file of the store.
//!
//! The file is JSON, replaced atomically, so that a killed process leaves the older or the newer one. Only the process
//! that holds the service's lock writes it.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xylem_base::{disk, os_bytes, os_path};
use xylem_store::{Clobber, Store, StoreError, keep_private, read_stream, write_atomically};

use crate::served::ServedCounts;

/// Folder of the service in the store, private to its user.
const FOLDER: &str = "service";
const FILE: &str = "shares.json";

/// Terms of one share: all that a user can request of the background node. They travel whole to that node and are
/// stored between its runs. A node refuses terms with an unknown field, because that field may restrict the recipients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareTerms {
    /// The requested object name; `None`: the default.
    pub name: Option<String>,
    /// Whether names that some system cannot store are an error.
    pub portable: bool,
    /// Whether unreadable files are an error, instead of being left out.
    pub strict: bool,
    /// Excluded patterns of a directory, as lines of a `.gitignore`; `None`: those of the last share.
    pub exclude: Option<Vec<String>>,
    /// The only recipients, as link keys (hexadecimal); `None`: every peer that can fetch it.
    pub recipients: Option<Vec<String>>,
    /// With `recipients`: whether files are padded, so that their sizes reveal less.
    pub padded: bool,
    /// Whether it may be announced on the LAN.
    pub lan: bool,
    /// Whether the router may be asked to forward its port.
    pub map: bool,
}

impl Default for ShareTerms {
    /// The terms of `xylem share PATH` without flags.
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
    /// Its terms.
    pub terms: ShareTerms,
    /// When it was shared first, seconds since 1970.
    pub since_s: u64,
    /// Its latest ticket.
    pub ticket: String,
    /// Bytes of content then.
    pub bytes: u64,
    /// Files then.
    pub files: u64,
    /// Counts of all ended runs.
    pub counts: ServedCounts,
}

/// A share as stored; old versions have two terms beside the path instead of `terms`.
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
    counts: ServedCounts,
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
    /// Returns the id by which users name it, besides its path: eight digits that stay as long as it is shared.
    pub fn id(&self) -> String {
        share_id(&self.path, self.terms.name.as_deref())
    }
}

/// Returns the id of a share of the canonical `path` under the name that was asked for.
#[must_use]
pub fn share_id(path: &Path, name: Option<&str>) -> String {
    let mut whole = os_bytes(path.as_os_str());
    whole.push(0);
    whole.extend_from_slice(name.unwrap_or_default().as_bytes());
    let mut id = xylem_hash::hash(&whole).to_hex().to_string();
    id.truncate(8);
    id
}

/// All shares in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Registry {
    /// The service's last port.
    pub port: Option<u16>,
    /// The last requested places to listen, as `service run --listen` takes them; empty: all interfaces. They stay
    /// until others are requested: a share for this machine alone must not become public in the next run.
    pub listen: Vec<String>,
    /// In the order in which they were shared.
    pub shares: Vec<Registered>,
}

impl Registry {
    /// Returns the folder of the service in a store; creates both if needed.
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

    /// Returns the folder of the service in a store, whether or not it exists.
    pub fn folder_of(store: &Path) -> PathBuf {
        store.join(FOLDER)
    }

    /// Loads the registry of a store; empty if there was never a service.
    ///
    /// # Errors
    /// The system's; kind `InvalidData` for a file that is not a registry.
    pub fn load(store: &Path) -> Result<Self, StoreError> {
        let path = Self::folder_of(store).join(FILE);
        let mut bytes = Vec::new();
        match read_stream(&path, u64::MAX, &mut bytes) {
            Ok(()) => Self::read(&bytes)
                .map_err(|e| StoreError::from_io("read the list of shares", &path, None, e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(StoreError::from_io("read the list of shares", &path, None, e)),
        }
    }

    fn read(bytes: &[u8]) -> io::Result<Self> {
        serde_json::from_slice(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// Stores the registry.
    ///
    /// # Errors
    /// The medium's.
    pub fn save(&self, store: &Path) -> Result<(), StoreError> {
        let path = Self::folder(store)?.join(FILE);
        let mut text = serde_json::to_vec_pretty(self).expect("plain fields");
        text.push(b'\n');
        write_atomically(&*disk(), &path, &text, 0o600, Clobber::Replace)
    }

    /// Returns the shares that a path or an id refers to: all of that path, or else the one with that id.
    #[must_use]
    pub fn matching(&self, path: &Path, id: &str) -> Vec<&Registered> {
        meant(&self.shares, path, id)
    }

    /// Returns the shares that serve `path`: of the path itself and of directories above it.
    pub fn covering<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Registered> {
        self.shares.iter().filter(|share| path.starts_with(&share.path))
    }
}

/// Selects from `shares` those that a path or an id refers to: all of that path, or else the one with that id.
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

/// Serializes a path as text, or as its bytes if it is not text.
pub mod path_text {
    use super::*;
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum PathForm {
        Text(String),
        Bytes(Vec<u8>),
    }

    /// Serializes a path.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let form = match path.to_str() {
            Some(text) => PathForm::Text(text.to_owned()),
            None => PathForm::Bytes(os_bytes(path.as_os_str())),
        };
        form.serialize(to)
    }

    /// Deserializes a path.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match PathForm::deserialize(from)? {
            PathForm::Text(text) => PathBuf::from(text),
            PathForm::Bytes(bytes) => os_path(&bytes),
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
            counts: ServedCounts { bytes: 3, peers: 2, fetched: 1 },
        }
    }

    #[test]
    fn the_registry_round_trips_and_finds_shares_by_path_or_id() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Registry::load(dir.path()).unwrap(), Registry::default());
        let odd = os_path(b"/data/\xff");
        let shares = vec![share(Path::new("/data/é")), share(&odd)];
        let listen = vec!["127.0.0.1:7348".to_owned()];
        let registry = Registry { port: Some(7348), listen, shares };
        registry.save(dir.path()).unwrap();
        assert_eq!(Registry::load(dir.path()).unwrap(), registry);
        assert_eq!(registry.matching(&odd, ""), [&registry.shares[1]]);
        assert_eq!(
            registry.matching(Path::new(""), &registry.shares[0].id()),
            [&registry.shares[0]]
        );
        assert_eq!(registry.matching(Path::new("/data"), "00000000"), [] as [&Registered; 0]);
        let within = odd.join("below");
        assert_eq!(registry.covering(&within).collect::<Vec<_>>(), [&registry.shares[1]]);
    }

    #[test]
    fn shares_of_one_path_differ_by_id() {
        let path = Path::new("/data");
        let terms = ShareTerms { name: Some("/a".to_owned()), ..ShareTerms::default() };
        let named = Registered { terms, ..share(path) };
        assert_ne!(named.id(), share(path).id());
        let shares = vec![share(path), named];
        let registry = Registry { shares, ..Registry::default() };
        assert_eq!(registry.matching(path, "").len(), 2);
        assert_eq!(registry.matching(Path::new("/x"), &registry.shares[1].id()).len(), 1);
    }

    #[test]
    fn a_share_stored_without_terms_loads() {
        let old = r#"{"port":7,"shares":[{"path":"/a","name":"/n","portable":true,"since_s":1,
            "ticket":"t","bytes":1,"files":1}]}"#;
        let registry = Registry::read(old.as_bytes()).unwrap();
        let terms = &registry.shares[0].terms;
        assert_eq!((terms.name.as_deref(), terms.portable), (Some("/n"), true));
        assert!(terms.lan && terms.map && terms.recipients.is_none());
        // Restrictions from a newer version are not ignored.
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
