//! The names in a store's directory (docs/spec/store.md), and the number of that layout.

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
