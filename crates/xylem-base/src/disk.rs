//! [`disk`]: the medium that programs use; tests pass a failing one instead.

use std::sync::{Arc, OnceLock};

use xylem_store::{DiskMedium, Medium};

/// The replacement medium, if [`use_medium`] set one.
static REPLACEMENT_MEDIUM: OnceLock<Arc<dyn Medium>> = OnceLock::new();

/// Returns this machine's file system as a medium, or the one that [`use_medium`] set.
pub fn disk() -> Arc<dyn Medium> {
    REPLACEMENT_MEDIUM.get().cloned().unwrap_or_else(|| Arc::new(DiskMedium::new()))
}

/// Makes [`disk`] return `medium` in all of this process: one that adds files to the disk's. Only the first call has an
/// effect.
pub fn use_medium(medium: Arc<dyn Medium>) {
    drop(REPLACEMENT_MEDIUM.set(medium));
}
