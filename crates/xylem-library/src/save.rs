//! [`SaveOptions`]: what becomes of what is fetched.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
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
    /// At this path, or into it: a directory is meant where one is there or the path says so.
    pub fn to(path: PathBuf) -> Self {
        let ends_in_slash = path.as_os_str().as_encoded_bytes().last() == Some(&b'/');
        if ends_in_slash || path.is_dir() { Self::Into(path) } else { Self::At(path) }
    }
}

/// What to do when the final name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Refuse, unless what is there already verifies.
    #[default]
    Refuse,
    /// Replace a file, once the new one is whole; merge into a directory, where what was not
    /// published stays (but see [`SaveOptions::delete`]).
    Overwrite,
    /// Choose `NAME.1`, `NAME.2`, … instead.
    Rename,
}

/// Whether the disk has to have room for what is fetched before it is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// For all of it, as if nothing of it were zeros.
    #[default]
    ForAll,
    /// It is fetched as far as it goes: zeros may take no room.
    AsFarAsItGoes,
}

/// What a fetch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// It fetches.
    #[default]
    Fetch,
    /// It tells what it would fetch, replace and remove, and changes nothing but the store.
    DryRun,
}

/// What becomes of what is fetched.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// Where the result goes.
    pub output: Output,
    /// Byte range of the file to fetch: start and, if bounded, end (exclusive).
    pub range: Option<(u64, Option<u64>)>,
    /// What to do when the final name is taken.
    pub existing: Existing,
    /// Glob patterns of listed paths to leave out (directories only).
    pub exclude: Vec<String>,
    /// Old copies that are searched before anything is fetched. What is replaced is one by itself.
    pub like: Vec<PathBuf>,
    /// With [`Existing::Overwrite`]: remove from a directory what was not published.
    pub delete: bool,
    /// Whether there has to be room for it.
    pub room: Room,
    /// Whether it is fetched, or only told what a fetch would do.
    pub doing: Doing,
    /// Nothing but these paths of a directory, for a short time: what was fetched is not noted in the store.
    pub only: Option<Only>,
}

/// What alone is fetched of a directory.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// These paths,
    pub paths: Arc<BTreeSet<Vec<u8>>>,
    /// and what those of them that are in here have to hold, or nothing is fetched.
    pub roots: Arc<HashMap<Vec<u8>, Hash>>,
    /// Where files with these contents are believed to lie. No others are searched for below old copies, which are only looked
    /// into for an older version of a file.
    pub copies: Arc<HashMap<Hash, PathBuf>>,
    /// Where an earlier fetch left parts of files with these contents.
    pub parts: Arc<HashMap<Hash, PathBuf>>,
}

impl SaveOptions {
    /// All of it goes there.
    pub fn to(output: Output, existing: Existing) -> Self {
        Self {
            output,
            range: None,
            existing,
            exclude: Vec::new(),
            like: Vec::new(),
            delete: false,
            room: Room::default(),
            doing: Doing::default(),
            only: None,
        }
    }
}
