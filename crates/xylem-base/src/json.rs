//! Serializes values for JSON events (docs/spec/json-events.md), for `#[serde(serialize_with)]`.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Serializes a name, root, ticket or key as its text.
///
/// # Errors
/// The serializer's, here and below.
pub fn text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Serializes bytes in hexadecimal.
///
/// # Errors
/// As [`text`].
pub fn hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&crate::hex::hex(bytes))
}

/// Serializes a path; bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
/// As [`text`].
pub fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// Serializes paths as [`path`] does.
///
/// # Errors
/// As [`text`].
pub fn paths<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// Serializes a path, or null.
///
/// # Errors
/// As [`text`].
pub fn maybe_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(serializer)
}

/// Serializes a time as seconds with a fraction.
///
/// # Errors
/// As [`text`].
pub fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Like [`text`], or null.
///
/// # Errors
/// As [`text`].
pub fn some_text<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

/// Serializes the number of elements.
///
/// # Errors
/// As [`text`].
pub fn count<T, S: Serializer>(all: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(all.len() as u64)
}
