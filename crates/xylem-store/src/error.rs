//! Errors with files, each with the file's path.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Any error of the store. `Display` is one line that a person can act on.
///
/// No variant means that a peer misbehaved: bytes of peers are verified before they reach the store.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The medium or the quota is full. All verified content stays usable for the next run.
    NoSpace {
        /// The file that was being written.
        path: PathBuf,
        /// Byte offset of the write, if there was one.
        offset: Option<u64>,
    },
    /// The file exceeds a size limit of the process or the file system.
    TooLarge {
        /// The file that was being written.
        path: PathBuf,
        /// Byte offset of the write, if there was one.
        offset: Option<u64>,
    },
    /// The operating system refused access (also: read-only file system).
    Permission {
        /// The file or directory.
        path: PathBuf,
        /// The attempted step, as a verb phrase ("open", "create the directory").
        doing: &'static str,
    },
    /// Other users can open a file that must be its owner's alone, and that could not be changed.
    Exposed {
        /// The file or directory.
        path: PathBuf,
        /// Permission bits that it should have.
        mode: u32,
    },
    /// Other users can write to a directory that only its owner may change.
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Other users can read or change a secret.
    Revealed {
        /// The secret's file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user owns a file that must be ours.
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// Number of the owning user.
        owner: u32,
    },
    /// Another process, or another fetch of this process, is working on the same object.
    Busy {
        /// The locked file.
        path: PathBuf,
    },
    /// The file is not the one that was hashed: it changed since, or while it was read.
    Changed {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: Difference,
    },
    /// There is no such file or object.
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The final name is taken and the policy forbids replacing it.
    Exists {
        /// The name that is taken.
        path: PathBuf,
    },
    /// Two names of one directory are a single name here, as the file system does not distinguish case or Unicode
    /// forms. Nothing was replaced.
    Collision {
        /// The second of the names.
        path: PathBuf,
    },
    /// Bytes of the store itself contradict their checksum or their root.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Byte offset of the first damage.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// A path that the store does not use: a symbolic link instead of a directory, a device, a component such as `..`.
    Unsafe {
        /// The path.
        path: PathBuf,
        /// Description of the problem.
        what: &'static str,
    },
    /// `finish` was called before all segments arrived.
    Incomplete {
        /// The partial file.
        path: PathBuf,
        /// Number of missing segments.
        missing: u64,
    },
    /// A request outside the object (a slot, a segment, an offset beyond its end).
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// The requested offset.
        offset: u64,
    },
    /// A newer program made the store.
    Format {
        /// The store's directory.
        path: PathBuf,
        /// Its format.
        version: u32,
    },
    /// Any other error of the operating system.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The attempted step, as a verb phrase.
        doing: &'static str,
        /// Byte offset, if there was one.
        offset: Option<u64>,
        /// The system's own error.
        source: io::Error,
    },
}

/// How a file differs from the one that was hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// Its size.
    Size {
        /// Bytes when it was hashed.
        was: u64,
        /// Bytes now.
        is: u64,
    },
    /// Its modification time.
    Mtime,
    /// Another file has the same name.
    Identity,
    /// Another program has opened it since, and may have written to it.
    Opened,
}

impl StoreError {
    /// Converts a system error to the variant that states how to act.
    pub fn from_io(
        doing: &'static str,
        path: &Path,
        offset: Option<u64>,
        source: io::Error,
    ) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path, offset }
            }
            io::ErrorKind::FileTooLarge => Self::TooLarge { path, offset },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission { path, doing }
            }
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::AlreadyExists => Self::Exists { path },
            io::ErrorKind::NotADirectory => Self::Unsafe { path, what: "is not a directory" },
            io::ErrorKind::IsADirectory => Self::Unsafe { path, what: "is a directory" },
            _ => Self::Io { path, doing, offset, source },
        }
    }

    /// The same error for the `whole` path, if only a part of it was used for the access.
    pub(crate) fn of(self, whole: &Path) -> Self {
        let path = whole.to_path_buf();
        match self {
            Self::Unsafe { what, .. } => Self::Unsafe { path, what },
            Self::Permission { doing, .. } => Self::Permission { path, doing },
            Self::NotFound { .. } => Self::NotFound { path },
            Self::Io { doing, offset, source, .. } => Self::Io { path, doing, offset, source },
            other => other,
        }
    }

    /// Whether the error only means that a read would have to wait
    /// ([`MediumFile::read_at_no_wait`](crate::MediumFile::read_at_no_wait)).
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }

    /// The file or directory that the error is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::NoSpace { path, .. }
            | Self::TooLarge { path, .. }
            | Self::Permission { path, .. }
            | Self::Exposed { path, .. }
            | Self::Writable { path, .. }
            | Self::Revealed { path, .. }
            | Self::Foreign { path, .. }
            | Self::Busy { path }
            | Self::Changed { path, .. }
            | Self::NotFound { path }
            | Self::Exists { path }
            | Self::Collision { path }
            | Self::Corrupt { path, .. }
            | Self::Unsafe { path, .. }
            | Self::Incomplete { path, .. }
            | Self::OutOfRange { path, .. }
            | Self::Format { path, .. }
            | Self::Io { path, .. } => path,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path().display();
        match self {
            Self::NoSpace { offset: Some(at), .. } => {
                write!(f, "{path}: no space left on the device (writing at byte {at})")
            }
            Self::NoSpace { offset: None, .. } => write!(f, "{path}: no space left on the device"),
            Self::TooLarge { offset, .. } => {
                write!(f, "{path}: this file system allows no file that large")?;
                match offset {
                    Some(at) => write!(f, " (writing at byte {at})"),
                    None => Ok(()),
                }
            }
            Self::Permission { doing, .. } => write!(f, "{path}: not allowed to {doing}"),
            Self::Exposed { mode, .. } => {
                write!(
                    f,
                    "{path}: other users can open it; it has to be yours, with mode {mode:04o}"
                )
            }
            Self::Writable { mode, .. } => write!(
                f,
                "{path}: other users can open it and write to it (mode {mode:04o}), so its content cannot be \
                 trusted; check the content, then run: chmod 700 {path}"
            ),
            Self::Revealed { mode, .. } => write!(
                f,
                "{path}: other users can open it (mode {mode:04o}), so this key may be known; move the file away \
                 and xylem makes a new key, or, if nobody has read it, run: chmod 600 {path}"
            ),
            Self::Foreign { owner, .. } => write!(
                f,
                "{path}: belongs to another user (uid {owner}); run as that user, or name a directory of your own"
            ),
            Self::Busy { .. } => write!(f, "{path}: in use by another fetch of the same object"),
            Self::Changed { what, .. } => write!(f, "{path}: changed since it was hashed: {what}"),
            Self::NotFound { .. } => write!(f, "{path}: no such file or directory"),
            Self::Exists { .. } => write!(f, "{path}: already exists"),
            Self::Collision { .. } => {
                write!(
                    f,
                    "{path}: this file system does not distinguish the name from an existing one"
                )
            }
            Self::Corrupt { offset, what, .. } => {
                write!(f, "{path}: damaged at byte {offset}: {what}")
            }
            Self::Unsafe { what, .. } => write!(f, "{path}: refused: {what}"),
            Self::Incomplete { missing, .. } => {
                write!(f, "{path}: incomplete, {missing} segments are missing")
            }
            Self::OutOfRange { offset, .. } => write!(f, "{path}: byte {offset} is out of range"),
            Self::Format { version, .. } => {
                let ours = crate::layout::FORMAT;
                write!(
                    f,
                    "{path}: a newer xylem made this store (format {version}, this one reads up to {ours}): update \
                     xylem"
                )
            }
            Self::Io { doing, offset: Some(at), source, .. } => {
                write!(f, "{path}: cannot {doing} at byte {at}: {source}")
            }
            Self::Io { doing, offset: None, source, .. } => {
                write!(f, "{path}: cannot {doing}: {source}")
            }
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { was, is } => write!(f, "it had {was} bytes, now {is}"),
            Self::Mtime => f.write_str("its modification time has changed"),
            Self::Identity => f.write_str("another file stands in its place"),
            Self::Opened => f.write_str("another program has opened it"),
        }
    }
}
