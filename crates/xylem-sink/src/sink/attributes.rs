//! Modes and times of fetched files, and warnings about those that cannot be set.

use xylem_files::LibraryEvent;
use xylem_object::Manifest;
use xylem_store::{Attributes, FileTime, RefusedAttributes};

/// Makes the store's attributes of mode and modification time.
pub(super) fn attributes(mode: u32, mtime_s: i64, mtime_ns: u32) -> Attributes {
    Attributes { mode: Some(mode), mtime: Some(FileTime { secs: mtime_s, nanos: mtime_ns }) }
}

/// Most attributes that are warned of one by one in a run.
const MAX_WARNINGS: u64 = 10;

/// Warns of attributes that the file system refused. They fail no fetch, as the content is right.
pub(super) fn warn_of_unset(
    unset: RefusedAttributes,
    warned: &mut u64,
    on_event: &mut dyn FnMut(LibraryEvent),
) {
    for e in unset.errors {
        *warned += 1;
        if *warned <= MAX_WARNINGS {
            on_event(LibraryEvent::Warning { what: format!("{e}; the content is right") });
        } else if *warned == MAX_WARNINGS + 1 {
            let what = "modes or times of more files could not be set".to_owned();
            on_event(LibraryEvent::Warning { what });
        }
    }
}

/// Returns mode and modification time of a manifest. For a directory they are part of its meaning.
pub(crate) fn attributes_of(manifest: &Manifest) -> Attributes {
    attributes(manifest.mode, manifest.mtime_s, manifest.mtime_ns)
}

/// Returns a warning for each attribute that could not be set at the end.
pub(super) fn warnings(unset: &RefusedAttributes) -> Vec<String> {
    unset.errors.iter().map(|e| format!("{e}; the content is right")).collect()
}
