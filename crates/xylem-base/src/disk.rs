//! [`disk`]: this machine's file system as a medium; [`FileMedium`]: the medium of one call.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use xylem_store::{DiskMedium, Medium};

/// Returns this machine's file system as a medium.
pub fn disk() -> Arc<dyn Medium> {
    Arc::new(DiskMedium::new())
}

/// The medium that a call reads and writes: by default this machine's file system. Others add files to it (buckets), or
/// fail on purpose (tests).
#[derive(Clone)]
pub struct FileMedium(Arc<dyn Medium>);

impl FileMedium {
    /// The medium itself.
    pub fn shared(&self) -> Arc<dyn Medium> {
        self.0.clone()
    }
}

impl Default for FileMedium {
    fn default() -> Self {
        Self(disk())
    }
}

impl<M: Medium + 'static> From<Arc<M>> for FileMedium {
    fn from(medium: Arc<M>) -> Self {
        Self(medium)
    }
}

impl Deref for FileMedium {
    type Target = dyn Medium;

    fn deref(&self) -> &(dyn Medium + 'static) {
        &*self.0
    }
}

impl fmt::Debug for FileMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileMedium")
    }
}
