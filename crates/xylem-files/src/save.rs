//! [`SaveOptions`]: how fetched content is saved.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_hash::Hash;

/// Where fetched bytes go.
#[derive(Clone, Debug)]
pub enum Output {
    /// Under the publisher's suggested name in this directory.
    Into(PathBuf),
    /// At exactly this path.
    At(PathBuf),
    /// In order to standard output.
    Stdout,
}

impl Output {
    /// Chooses between a path and a directory: a directory if there is one or the path ends with a slash.
    pub fn to(path: PathBuf) -> Self {
        let ends_in_slash = path.as_os_str().as_encoded_bytes().last() == Some(&b'/');
        if ends_in_slash || path.is_dir() { Self::Into(path) } else { Self::At(path) }
    }

    /// Returns the directory in which the result will lie; `None` for standard output.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Into(directory) => Some(directory),
            Self::At(path) => path.parent().map(|parent| match parent.as_os_str().is_empty() {
                true => Path::new("."),
                false => parent,
            }),
            Self::Stdout => None,
        }
    }
}

/// How to treat existing content under the final name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Refuse, unless the existing content already verifies.
    #[default]
    Refuse,
    /// Replace a file once the new one is complete; merge into a directory, where unpublished files stay (but see
    /// [`SaveOptions::delete`]).
    Overwrite,
    /// Choose `NAME.1`, `NAME.2`, … instead.
    Rename,
}

/// Whether the disk must have room for the content before it is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpaceCheck {
    /// Room for all of it, as if none of it were zeros.
    #[default]
    ForAll,
    /// Fetch as much as fits: zeros may take no room.
    AsFarAsItGoes,
}

/// Whether to fetch or only to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchMode {
    /// Fetch.
    #[default]
    Fetch,
    /// Report what a fetch would write, replace and remove; change nothing but the store.
    DryRun,
}

/// How fetched content is saved.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// Where the result goes.
    pub output: Output,
    /// Byte range of the file to fetch: start and, if bounded, end (exclusive).
    pub range: Option<(u64, Option<u64>)>,
    /// How to treat existing content under the final name.
    pub existing: Existing,
    /// Glob patterns of listed paths to leave out (directories only).
    pub exclude: Vec<String>,
    /// Old copies searched before anything is fetched. Content that is replaced is searched in any case.
    pub like: Vec<PathBuf>,
    /// With [`Existing::Overwrite`]: remove unpublished files from a directory.
    pub delete: bool,
    /// Whether there must be room for it.
    pub room: SpaceCheck,
    /// Whether to fetch or only to report.
    pub doing: FetchMode,
    /// Fetch only these paths of a directory, for temporary use: the store gets no record of the fetch.
    pub only: Option<Only>,
}

/// The only paths fetched of a directory.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// These paths.
    pub paths: Arc<BTreeSet<Vec<u8>>>,
    /// Roots that those of the paths that are in this map must have; otherwise nothing is fetched.
    pub roots: Arc<HashMap<Vec<u8>, Hash>>,
    /// Where files with these roots are believed to lie. Old copies are then not searched for other files; they serve
    /// only as older versions of a file.
    pub copies: Arc<HashMap<Hash, PathBuf>>,
    /// Where an earlier fetch left parts of files with these roots.
    pub parts: Arc<HashMap<Hash, PathBuf>>,
}

impl SaveOptions {
    /// Options to save all of it to `output`.
    pub fn to(output: Output, existing: Existing) -> Self {
        Self {
            output,
            range: None,
            existing,
            exclude: Vec::new(),
            like: Vec::new(),
            delete: false,
            room: SpaceCheck::default(),
            doing: FetchMode::default(),
            only: None,
        }
    }
}
