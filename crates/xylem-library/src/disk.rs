//! [`disk`]: the medium of programs; tests have one that fails.

use std::sync::{Arc, OnceLock};

use xylem_store::{DiskMedium, Medium};

/// What [`disk`] gives instead, if a program has said so.
static INSTEAD: OnceLock<Arc<dyn Medium>> = OnceLock::new();

/// This machine's file system, as the store wants it; or what [`use_medium`] has put there.
pub fn disk() -> Arc<dyn Medium> {
    INSTEAD.get().cloned().unwrap_or_else(|| Arc::new(DiskMedium::new()))
}

/// Has [`disk`] give `medium` from now on, in all of this process: one that has the disk's files and others beside them.
/// The first call counts.
pub fn use_medium(medium: Arc<dyn Medium>) {
    drop(INSTEAD.set(medium));
}
