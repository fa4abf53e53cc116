//! Modes and times of what is fetched, and what becomes of those that can't be set.

use xylem_object::Manifest;
use xylem_store::{Attributes, FileTime, Unset};

use crate::event::LibraryEvent;

/// Mode and mtime as the store sets them.
pub(super) fn attributes(mode: u32, mtime_s: i64, mtime_ns: u32) -> Attributes {
    Attributes { mode: Some(mode), mtime: Some(FileTime { secs: mtime_s, nanos: mtime_ns }) }
}

/// Attributes that could not be set and are warned of one by one in a run.
const MAX_WARNINGS: u64 = 10;

/// Warns of attributes that the file system would not take. As with `cp` onto a memory stick, the
/// content is there and right, so that this fails no fetch.
pub(super) fn warn_of_unset(
    unset: Unset,
    warned: &mut u64,
    on_event: &mut dyn FnMut(LibraryEvent),
) {
    for e in unset.told {
        *warned += 1;
        if *warned <= MAX_WARNINGS {
            on_event(LibraryEvent::Warning { what: format!("{e}; the content is right") });
        } else if *warned == MAX_WARNINGS + 1 {
            let what = "modes or times of more files could not be set".to_owned();
            on_event(LibraryEvent::Warning { what });
        }
    }
}

/// Mode and mtime that a manifest says, as they are part of what a directory's root stands for.
pub(crate) fn attributes_of(manifest: &Manifest) -> Attributes {
    attributes(manifest.mode, manifest.mtime_s, manifest.mtime_ns)
}

/// A line for each attribute that could not be set at the very end.
pub(super) fn warnings(unset: &Unset) -> Vec<String> {
    unset.told.iter().map(|e| format!("{e}; the content is right")).collect()
}
