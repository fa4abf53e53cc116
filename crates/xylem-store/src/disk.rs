//! [`DiskMedium`]: the operating system's files.
//!
//! On Unix every call is relative to a held directory and refuses links where [`Medium`] says so
//! (`openat`, `O_NOFOLLOW`); std has no handle-relative calls, so `rustix` provides them without
//! unsafe code here. Elsewhere std's path calls serve, and links are refused by looking first.
//!
//! [`Medium`]: crate::Medium

mod in_order;
#[cfg(target_os = "linux")]
mod opened;
#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

pub use in_order::in_order;
#[cfg(not(unix))]
pub use portable::DiskMedium;
#[cfg(unix)]
pub use unix::DiskMedium;
