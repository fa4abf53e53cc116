//! The names in a store's directory (docs/spec/store.md), and the number of that layout.

use std::ffi::OsStr;

/// The format that this program writes.
pub const FORMAT: u32 = 1;
/// Finished parts.
pub(crate) const OBJECTS: &str = "objects";
/// Parts of fetches under way.
pub(crate) const PARTIAL: &str = "partial";
/// Files under construction.
pub(crate) const NEW: &str = "new";
/// Directory of the records.
pub(crate) const KNOWN: &str = "known";
/// Directory of the pins.
pub(crate) const PINS: &str = "pins";
/// Directory of the records.
pub(crate) const REPAIRS: &str = "repairs";
/// Notes of where the data of unfinished fetches lie.
pub(crate) const UNFINISHED: &str = "unfinished";
/// How the files of each record looked.
pub(crate) const SEEN: &str = "seen";
/// What else is in a store: other crates', and those of earlier formats.
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

/// The folders that every store has.
pub(crate) const FOLDERS: [&str; 7] = [OBJECTS, PARTIAL, KNOWN, PINS, NEW, REPAIRS, SEEN];

/// Whether a store has such a name in it.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    is_own_folder(name) || OTHERS.contains(&name.to_str().unwrap_or_default())
}

/// Whether it is one of [`FOLDERS`].
pub(crate) fn is_own_folder(name: &OsStr) -> bool {
    FOLDERS.contains(&name.to_str().unwrap_or_default())
}
