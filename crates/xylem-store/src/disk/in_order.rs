//! Files that are read from their beginning to their end.

use std::fs::File;

/// Tells the system that a file will be read in order, by whatever number of threads, so that it looks further
/// ahead: what is asked for while other things are hashed does not have to be waited for.
///
/// Those who read should ask for 128 KiB at a time: of a larger piece many systems bring what was asked for, all of
/// it at once, and begin with nothing else before it is there (docs/benchmarks.md, "Cold files").
#[cfg(target_os = "linux")]
pub fn read_in_order(file: &File) {
    // It is advice: what is wrong with the file, reading it will say.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Sequential);
}

/// Nothing: this system is not asked.
#[cfg(not(target_os = "linux"))]
pub fn read_in_order(_: &File) {}
