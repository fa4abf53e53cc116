//! [`FaultMedium`]: a small file system in memory that fails where a test chooses.
//!
//! It is for tests alone: crates depend on it only under `[dev-dependencies]`. It implements
//! [`xylem_store::Medium`] and models what a crash keeps:
//!
//! - [`FaultMedium::image`] is the disk after the process was killed: every completed call counts.
//! - [`FaultMedium::power_loss`] is the disk after a power loss: each page that was not synced is kept or lost, by a
//!   seed.
//! - [`FaultMedium::power_cut`] affects names too: each creation, rename and removal since its directory was synced has
//!   happened or not.
//!
//! Permission bits are stored and not enforced.
//!
//! [`Gate`] is the machine's own disk, which hangs while a test wants it.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use xylem_faults::{DiskFault, FaultMedium};
//! use xylem_store::{Store, StoreError};
//!
//! let medium = FaultMedium::new();
//! let store = Store::open(Arc::new(medium.clone()), Path::new("/store"))?;
//! medium.fail_after(0, DiskFault::Full);
//! assert!(matches!(store.new_file(), Err(StoreError::NoSpace { .. })));
//! # Ok::<(), StoreError>(())
//! ```

mod disk;
mod file;
mod gate;
mod medium;
mod power;

pub use disk::DiskFault;
pub use gate::Gate;
pub use medium::FaultMedium;
