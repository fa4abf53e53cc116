//! [`DiskMedium`]: the operating system's files.
//!
//! On Unix every call is relative to a held directory and refuses links where [`Medium`] requires that (`openat`,
//! `O_NOFOLLOW`). std has no handle-relative calls, so `rustix` provides them without unsafe code here. Other systems
//! use std's path calls, and check for links before opening.
//!
//! [`Medium`]: crate::Medium

mod in_order;
#[cfg(target_os = "linux")]
mod opened;
#[cfg(not(unix))]
mod portable;
mod stream;
#[cfg(unix)]
mod unix;

pub use in_order::in_order;
#[cfg(not(unix))]
pub use portable::DiskMedium;
pub use stream::read_stream;
#[cfg(unix)]
pub use unix::DiskMedium;
