//! [`descriptors`]: how many files and sockets this process may have open.

/// How many files and sockets this process may have open at once. It raises the limit as far as allowed: the soft limit
/// (1,024 on many systems) is there for programs that use `select`.
#[must_use]
pub fn descriptors() -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current != maximum {
            // Where the system grants less than it reports, the limit stays as it was.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        }
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    usize::MAX
}
