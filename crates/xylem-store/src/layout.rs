//! The names in a store's directory (docs/spec/store.md), and the version of that layout.

use std::ffi::OsStr;

/// The format that this program writes.
pub const FORMAT: u32 = 1;
/// Directory of finished parts.
pub(crate) const OBJECTS: &str = "objects";
/// Directory of parts of unfinished fetches.
pub(crate) const PARTIAL: &str = "partial";
/// Directory of files under construction.
pub(crate) const NEW: &str = "new";
/// Directory of the records of paths.
pub(crate) const KNOWN: &str = "known";
/// Directory of the pins.
pub(crate) const PINS: &str = "pins";
/// Directory of the records of repairs.
pub(crate) const REPAIRS: &str = "repairs";
/// Directory of notes on the places of unfinished data.
pub(crate) const UNFINISHED: &str = "unfinished";
/// Directory of the recorded attributes of each record's files.
pub(crate) const SEEN: &str = "seen";
/// Other names in a store: those of other crates, and of earlier formats.
const OTHERS: [&str; 16] = [
    "format",
    UNFINISHED,
    "keys",
    "mail",
    "mailbox",
    "growing",
    "shares",
    "service",
    "sync",
    "run",
    "ca",
    "uploads",
    "command-times",
    "relay-clients",
    "witness",
    "witnessed",
];

/// Directories that every store has.
pub(crate) const FOLDERS: [&str; 7] = [OBJECTS, PARTIAL, KNOWN, PINS, NEW, REPAIRS, SEEN];

/// Whether a name belongs to a store.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    is_own_folder(name) || OTHERS.contains(&name.to_str().unwrap_or_default())
}

/// Whether a name is one of [`FOLDERS`].
pub(crate) fn is_own_folder(name: &OsStr) -> bool {
    FOLDERS.contains(&name.to_str().unwrap_or_default())
}
