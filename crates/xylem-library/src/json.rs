//! How values look in JSON events (docs/spec/json-events.md) whose own crates know no JSON.

use std::fmt::Display;
use std::path::Path;

use serde::Serializer;

/// As its `Display` has it: names, hashes, tickets.
pub(crate) fn text<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// As [`text`], or null.
pub(crate) fn some_text<T: Display, S: Serializer>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

/// A path; bytes that are not UTF-8 become U+FFFD.
pub(crate) fn path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// How many there are.
pub(crate) fn count<T, S: Serializer>(all: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(all.len() as u64)
}
