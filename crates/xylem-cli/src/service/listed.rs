//! [`BackgroundFolder`]: the folders that the background node keeps in step, in one file of the store.

use crate::exit::{CommandFailure, Exit};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use xylem_base::disk;
use xylem_publish::registry::{Registry, path_text};
use xylem_store::{Clobber, write_atomically};

const FILE: &str = "folders.json";

/// How a folder is kept in step: the flags of `xylem sync` that are not stored with the folder itself. A field that a
/// program does not know is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FolderTerms {
    /// As `--announce` and `--relay` take them.
    pub(crate) announce: Vec<String>,
    pub(crate) relays: Vec<String>,
    /// Whether to announce it on the LAN, and to ask the router to forward a port.
    pub(crate) lan: bool,
    pub(crate) map: bool,
    /// Bytes per second to fetch at most.
    pub(crate) limit: Option<u64>,
    /// As `--shape` and `--post-quantum` take them.
    pub(crate) shape: Option<String>,
    pub(crate) post_quantum: Option<String>,
}

impl FolderTerms {
    /// The terms as flags of `xylem sync`, without its relays: a relay may have a token, and all users of this machine can read
    /// a command line.
    pub(crate) fn flags(&self) -> Vec<String> {
        let Self { announce, relays: _, lan, map, limit, shape, post_quantum } = self;
        let mut flags = Vec::new();
        let mut with = |flag: &str, value: &str| flags.push(format!("{flag}={value}"));
        announce.iter().for_each(|at| with("--announce", at));
        limit.iter().for_each(|limit| with("--limit", &limit.to_string()));
        shape.iter().for_each(|level| with("--shape", level));
        post_quantum.iter().for_each(|when| with("--post-quantum", when));
        flags.extend((!lan).then(|| "--no-lan".to_owned()));
        flags.extend((!map).then(|| "--no-map".to_owned()));
        flags
    }

    /// The value of XYLEM_RELAY for `xylem sync`; `None` if no relay is named.
    pub(crate) fn relays(&self) -> Option<String> {
        (!self.relays.is_empty()).then(|| self.relays.join(","))
    }
}

/// A folder and its terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackgroundFolder {
    /// Absolute path.
    #[serde(with = "path_text")]
    pub(crate) path: PathBuf,
    pub(crate) terms: FolderTerms,
}

/// Reads the list; it is empty if there never was one.
///
/// An error if the file cannot be read, or is no list.
pub(crate) fn load(store: &Path) -> Result<Vec<BackgroundFolder>, CommandFailure> {
    let path = Registry::folder_of(store).join(FILE);
    let wrong = |why: String| {
        CommandFailure::new(Exit::Local, format!("the list of folders {}: {why}", path.display()))
    };
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|e| wrong(e.to_string())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(wrong(e.to_string())),
    }
}

/// Replaces the list atomically.
pub(crate) fn save(store: &Path, folders: &[BackgroundFolder]) -> Result<(), CommandFailure> {
    let path = Registry::folder(store)?.join(FILE);
    let mut text = serde_json::to_vec_pretty(folders).expect("plain fields");
    text.push(b'\n');
    Ok(write_atomically(&*disk(), &path, &text, 0o600, Clobber::Replace)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_restored_and_unknown_fields_refused() {
        let store = tempfile::tempdir().unwrap();
        assert_eq!(load(store.path()).unwrap(), []);
        let terms = FolderTerms {
            announce: vec!["h.example:7".into()],
            relays: vec!["a".into(), "b?token=secret".into()],
            lan: false,
            map: true,
            limit: Some(1_000),
            shape: Some("low".into()),
            post_quantum: None,
        };
        let flags = ["--announce=h.example:7", "--limit=1000", "--shape=low", "--no-lan"];
        assert_eq!(terms.flags(), flags);
        assert_eq!(terms.relays().as_deref(), Some("a,b?token=secret"));
        let folder = BackgroundFolder { path: xylem_base::os_path(b"/a/\xff"), terms };
        save(store.path(), std::slice::from_ref(&folder)).unwrap();
        assert_eq!(load(store.path()).unwrap(), [folder]);
        let path = Registry::folder_of(store.path()).join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        let newer = text.replace(r#""map": true"#, r#""map": true, "by_night": true"#);
        assert!(newer != text, "{text}");
        fs::write(&path, newer).unwrap();
        assert!(load(store.path()).is_err());
    }
}
