//! [`begin`]: makes free memory go back to the system, since a folder is in step for days and at work for seconds.
//!
//! glibc's malloc keeps freed memory in arenas, a few for each processor. It keeps more of it the larger the pieces
//! were that it has mapped separately: after a scan of 100,000 files that is twice what the program needs at rest.
//! malloc reads its limits from the environment when a process starts, so the process starts once more. If the limits
//! are set already, nothing is done.

/// Pieces of more than 128 KiB are mapped separately, and at most that much stays free at an arena's end.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LIMITS: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_TRIM_THRESHOLD_", "131072")];

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn begin() {
    use std::env;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    if LIMITS.iter().any(|(name, _)| env::var_os(name).is_some()) {
        return;
    }
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| "xylem".into());
    let program = env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let why = Command::new(program).arg0(name).args(arguments).envs(LIMITS).exec();
    tracing::debug!(%why, "cannot restart with limits for malloc: freed memory stays with this process");
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn begin() {}
