//! [`FaultMedium`]: a small file system in memory that fails where a test says.
//!
//! It is for tests alone: no crate depends on it but under `[dev-dependencies]`. It implements
//! [`xylem_store::Medium`] and keeps what a crash would keep: [`FaultMedium::image`] is the disk
//! after the process was killed (every completed call counts), [`FaultMedium::power_loss`] the disk
//! after the power went (pages that were not synced are there or not, by a seed), and
//! [`FaultMedium::power_cut`] the same with the names: each creation, rename and removal since its
//! directory was synced has happened or not. Permission bits are kept and not enforced.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use xylem_faults::{Fault, FaultMedium};
//! use xylem_store::{Store, StoreError};
//!
//! let medium = FaultMedium::new();
//! let store = Store::open(Arc::new(medium.clone()), Path::new("/store"))?;
//! medium.fail_after(0, Fault::Full);
//! assert!(matches!(store.new_file(), Err(StoreError::NoSpace { .. })));
//! # Ok::<(), StoreError>(())
//! ```

mod disk;
mod file;
mod medium;
mod power;

pub use disk::Fault;
pub use medium::FaultMedium;
