//! [`GrowError`]: why publication of a growing file stopped.

use std::io;
use std::path::PathBuf;

use xylem_base::{Blame, Failure, advised, blame_of};
use xylem_files::ours::OwnError;
use xylem_object::naming::PrefixError;
use xylem_packet::Name;
use xylem_store::StoreError;

/// Why publication of a growing file stopped. Earlier checkpoints stay valid.
#[derive(Debug, thiserror::Error)]
pub enum GrowError {
    /// The file cannot be read, or the store not written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// The file lies in a store.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// It is a directory or a device.
    #[error("{}: only a file can be followed", .0.display())]
    NotAFile(PathBuf),
    /// Nothing can be published under the object name.
    #[error("{name}: {source}")]
    Name {
        /// The object name.
        name: Name,
        /// Why it is not valid.
        source: PrefixError,
    },
    /// A checkpoint cannot be signed under this name.
    #[error("{0}: nothing can be published under this name")]
    Unpublishable(Name),
    /// The file changed other than by appending.
    #[error(
        "{} {how}: it was changed, not only appended to; earlier checkpoints stay valid; share it \
         again under another name (--as)",
        path.display()
    )]
    Rewritten {
        /// The file.
        path: PathBuf,
        /// How that was noticed.
        how: Rewritten,
    },
    /// Standard input cannot be read or stored.
    #[error("standard input: {0}")]
    Input(io::Error),
    /// Asked to stop before the first checkpoint.
    #[error("interrupted while hashing; nothing was published")]
    Interrupted,
}

/// How a change other than appending was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rewritten {
    /// The file has fewer bytes than the newest checkpoint.
    #[error("is shorter than what was published of it")]
    Shorter,
    /// Its beginning has another root.
    #[error("differs from what was published of it")]
    Other,
    /// The last hashed bytes have changed.
    #[error("was rewritten at its end")]
    End,
    /// It became shorter while it was followed.
    #[error("has shrunk")]
    Shrunk,
    /// No file has its name any more.
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
