//! Files that are read from their beginning to their end.

use std::fs::File;

/// A handle of its own for a thread that reads `file` in order, some of it while others read other places; `None`
/// where there is none to be had, and then `file` serves. The system looks further ahead of it, so that what
/// is asked for while other things are hashed does not have to be waited for.
///
/// It looks ahead by what was last read through a handle: threads that share one are at several places, and none
/// of them goes on where the last read was. And those who read should ask for 128 KiB at a time: of a larger piece
/// many systems bring what was asked for, all of it at once, and begin with nothing else before it is there
/// (docs/benchmarks.md, "Cold files").
#[cfg(target_os = "linux")]
pub fn in_order(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    // By the handle and not by a path, which may lead to another file by now.
    let own = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
    // It is advice: what is wrong with the file, reading it will say.
    let _ =
        rustix::fs::fadvise(own.as_ref().unwrap_or(file), 0, None, rustix::fs::Advice::Sequential);
    own
}

/// None: this system is not asked.
#[cfg(not(target_os = "linux"))]
pub fn in_order(_: &File) -> Option<File> {
    None
}
