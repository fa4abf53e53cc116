//! [`InotifyWatch`]: detects by Linux's inotify whether another program has opened a file.
//!
//! Closing an inotify instance blocks until no processor can still be using its watches: some ten milliseconds, as long
//! as reading back 16 MiB takes. Ending a watch does not block. So an instance is reused for the next file once its
//! file is finished.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init, remove_watch};
use rustix::io::{ioctl_fionread, read};

use crate::medium::FileWatch;

/// Unused instances; each has no watch and no event.
static IDLE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
/// Most unused instances that are kept. A user has 128 by default.
const MAX_IDLE: usize = 4;

/// The events of one file. Only whether there are any matters.
#[derive(Debug)]
pub(super) struct InotifyWatch {
    /// `Some` until it is dropped.
    events: Option<OwnedFd>,
    watch: i32,
}

impl InotifyWatch {
    /// Watches an open file from now on; `None` if the system refuses.
    pub(super) fn of(file: &File) -> Option<Self> {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let events = match idle {
            Some(events) => events,
            None => init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?,
        };
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        let watch = add_watch(&events, itself, WatchFlags::OPEN | WatchFlags::CLOSE_WRITE).ok()?;
        Some(Self { events: Some(events), watch })
    }
}

impl FileWatch for InotifyWatch {
    fn was_accessed(&self) -> bool {
        // If the query fails, assume that there were events.
        self.events.as_ref().and_then(|events| ioctl_fionread(events).ok()) != Some(0)
    }
}

impl Drop for InotifyWatch {
    fn drop(&mut self) {
        let Some(events) = self.events.take() else { return };
        // It fails if the file is gone, and the watch with it.
        let _ = remove_watch(&events, self.watch);
        // From here on events come only of calls in progress on another processor. Such an event would be attributed to
        // the next file: that costs one read-back, and no wrong content passes.
        let mut bytes = [0; 4096];
        while read(&events, &mut bytes).is_ok_and(|len| len > 0) {}
        if ioctl_fionread(&events).is_ok_and(|left| left == 0) {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MAX_IDLE {
                idle.push(events);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn new(path: &Path) -> File {
        File::options().read(true).write(true).create_new(true).open(path).unwrap()
    }

    #[test]
    fn an_inotify_instance_is_reused_without_events_of_the_last_file() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..20).map(|n| dir.path().join(n.to_string())).collect();
        let mut before: Option<&Path> = None;
        for (n, path) in paths.iter().enumerate() {
            let file = new(path);
            let watch = InotifyWatch::of(&file).unwrap();
            assert!(!watch.was_accessed());
            // Events of an earlier file do not affect this one.
            if let Some(before) = before {
                drop(File::open(before).unwrap());
                assert!(!watch.was_accessed());
            }
            if n % 3 > 0 {
                drop(File::open(path).unwrap());
                assert!(watch.was_accessed());
            }
            if n % 4 == 3 {
                std::fs::remove_file(path).unwrap();
                drop(file);
                assert!(watch.was_accessed());
                before = None;
            } else {
                before = Some(path);
            }
        }
        assert!(IDLE.lock().unwrap().len() <= MAX_IDLE);
    }

    #[test]
    fn files_watched_at_once_have_separate_events() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..10).map(|n| dir.path().join(n.to_string())).collect();
        for _ in 0..3 {
            let files: Vec<File> = paths.iter().map(|path| new(path)).collect();
            let watches: Vec<_> =
                files.iter().map(|file| InotifyWatch::of(file).unwrap()).collect();
            drop(File::open(&paths[4]).unwrap());
            for (n, watch) in watches.iter().enumerate() {
                assert_eq!(watch.was_accessed(), n == 4);
            }
            paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        }
    }
}
