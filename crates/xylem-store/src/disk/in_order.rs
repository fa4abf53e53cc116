//! Files that are read sequentially.

use std::fs::File;

/// A separate handle for a thread that reads `file` sequentially while other threads read other places. `None` if there
/// is none to be had; then use `file`. The system reads further ahead on it, so that data requested during hashing need
/// not be waited for.
///
/// The system predicts from the last read through a handle. Threads that share one are at several places, and none of
/// them continues the last read. Readers should request 128 KiB at a time: many systems transfer a larger piece at
/// once, and start nothing else before it has arrived (docs/benchmarks.md, "Cold files").
#[cfg(target_os = "linux")]
pub fn in_order(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    // Opened through the handle, as the path may lead to another file by now.
    let own = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
    // This is only advice. A problem with the file shows when it is read.
    let _ =
        rustix::fs::fadvise(own.as_ref().unwrap_or(file), 0, None, rustix::fs::Advice::Sequential);
    own
}

/// Always `None` on this system.
#[cfg(not(target_os = "linux"))]
pub fn in_order(_: &File) -> Option<File> {
    None
}
