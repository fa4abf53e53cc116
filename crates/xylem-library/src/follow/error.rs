//! [`GrowError`]: why a growing file was not published any further.

use std::io;
use std::path::PathBuf;

use xylem_object::naming::PrefixError;
use xylem_packet::Name;
use xylem_store::StoreError;

use crate::error::{Blame, Failure, advised, blame_of};
use crate::ours::OwnError;

/// Why a growing file was not published any further. Earlier checkpoints stay good.
#[derive(Debug, thiserror::Error)]
pub enum GrowError {
    /// The file can't be read, or the store not written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// It lies in a store.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// A directory or a device.
    #[error("{}: only a file can be followed", .0.display())]
    NotAFile(PathBuf),
    /// The object name is none under which something can be published.
    #[error("{name}: {source}")]
    Name {
        /// The object name.
        name: Name,
        /// What is wrong with it.
        source: PrefixError,
    },
    /// A checkpoint can't be signed under this name.
    #[error("{0}: cannot be published under this name")]
    Unpublishable(Name),
    /// The file is not what was published with something appended.
    #[error(
        "{} {how}: it was changed, not only appended to; earlier checkpoints stay good, share it \
         anew under another name (--as)",
        path.display()
    )]
    Rewritten {
        /// The file.
        path: PathBuf,
        /// How it was noticed.
        how: Rewritten,
    },
    /// Standard input can't be read, or not be kept.
    #[error("standard input: {0}")]
    Input(io::Error),
    /// Asked to stop before there was a checkpoint.
    #[error("interrupted while hashing; nothing was published")]
    Interrupted,
}

/// How it was noticed that a file was not only appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rewritten {
    /// It has fewer bytes than the newest checkpoint.
    #[error("is shorter than what was published of it")]
    Shorter,
    /// Its beginning has another root.
    #[error("is not what was published of it")]
    Other,
    /// The last bytes that were hashed are others now.
    #[error("was rewritten at its end")]
    End,
    /// It became shorter while it was followed.
    #[error("has shrunk")]
    Shrunk,
    /// There is no file of its name any more.
    #[error("is gone")]
    Gone,
    /// Another file has its name.
    #[error("was replaced by another file")]
    Replaced,
}

impl Failure for GrowError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Own(e) => e.blame(),
            Self::NotAFile(_) | Self::Name { .. } | Self::Unpublishable(_) => Blame::Usage,
            Self::Rewritten { .. } | Self::Input(_) => Blame::Local,
            Self::Interrupted => Blame::Interrupted,
        }
    }
}
