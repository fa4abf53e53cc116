//! [`disk`]: the medium of programs; tests have one that fails.

use std::sync::Arc;

use xylem_store::{DiskMedium, Medium};

/// This machine's file system, as the store wants it.
pub fn disk() -> Arc<dyn Medium> {
    Arc::new(DiskMedium::new())
}
