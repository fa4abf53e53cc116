//! [`Pacing`]: limits how often a file that keeps changing is sent.
//!
//! The first changes of a file are sent at once. A file that soon changes again is held: other members keep the version
//! before. It is sent once it has rested for some seconds, otherwise after a pause that doubles while the changes go
//! on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xylem_store::{DiskAttributes, FileKind, Meta};

/// First and longest pause after a file was sent, in milliseconds.
const FIRST_PAUSE_MS: u64 = 10_000;
const LONGEST_PAUSE_MS: u64 = 5 * 60_000;
/// Changes that are sent at once, however close together: a user saves twice, or corrects what was just written.
const AT_ONCE: u32 = 2;
/// A file rests when it has not changed for a quarter of its pause, within these bounds in milliseconds.
const REST_MS: (u64, u64) = (2_000, 5_000);
/// Most files that are tracked; further files are sent at each change.
pub(super) const MAX_FOLLOWED: usize = 2_000;

/// How a file looks: its size, and the other metadata.
pub(super) type FileLooks = (u64, DiskAttributes);

/// Returns how the file with this metadata looks; `None` if it is no file.
pub(super) fn file_looks(meta: &Meta) -> Option<FileLooks> {
    (meta.kind == FileKind::File).then(|| (meta.size, DiskAttributes::of(meta)))
}

/// A file that was sent a short while ago.
#[derive(Clone, Copy, Debug)]
struct PacedFile {
    sent_ms: u64,
    pause_ms: u64,
    /// Further changes that are sent at once.
    at_once: u32,
    /// How the file looked when it was sent.
    sent: FileLooks,
    /// How the file looked at the last check. `since_ms` is when that began, in milliseconds since 1970.
    last: FileLooks,
    since_ms: u64,
}

impl PacedFile {
    /// Returns whether another file was moved to this name, and was not written to since the last one was sent.
    fn is_another(&self) -> bool {
        let (sent, last) = (&self.sent.1, &self.last.1);
        let seconds = u64::try_from(last.mtime.secs).unwrap_or(0);
        let written =
            seconds.saturating_mul(1_000).saturating_add(u64::from(last.mtime.nanos / 1_000_000));
        sent.ino != last.ino && written < self.sent_ms
    }

    fn due_ms(&self) -> u64 {
        let rest = (self.pause_ms / 4).clamp(REST_MS.0, REST_MS.1);
        let rested = self.since_ms.saturating_add(rest);
        self.sent_ms.saturating_add(self.pause_ms).min(rested)
    }
}

/// The files that were sent a short while ago, and those that are held.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    followed: BTreeMap<Vec<u8>, PacedFile>,
    held: Arc<BTreeSet<Vec<u8>>>,
    /// When the first held file is due, in milliseconds since 1970.
    due_ms: Option<u64>,
}

impl Pacing {
    /// Records that a file was sent, and how it looked.
    pub(super) fn sent(&mut self, path: &[u8], looks: FileLooks, now_ms: u64) {
        self.follow(path, looks, AT_ONCE, now_ms);
    }

    /// Records that a file changed while it was read: it is held like one that was sent repeatedly.
    pub(super) fn unstable(&mut self, path: &[u8], looks: FileLooks, now_ms: u64) {
        self.follow(path, looks, 0, now_ms);
    }

    fn follow(&mut self, path: &[u8], looks: FileLooks, at_once: u32, now_ms: u64) {
        let before = self.followed.get(path);
        if before.is_none() && self.followed.len() >= MAX_FOLLOWED {
            return;
        }
        let (pause_ms, at_once) = match before {
            None => (FIRST_PAUSE_MS, at_once),
            Some(before) if before.at_once > 0 => {
                (before.pause_ms, at_once.min(before.at_once.saturating_sub(1)))
            }
            Some(before) => (before.pause_ms.saturating_mul(2).min(LONGEST_PAUSE_MS), 0),
        };
        let (sent_ms, since_ms) = (now_ms, now_ms);
        let (sent, last) = (looks, looks);
        let followed = PacedFile { sent_ms, pause_ms, at_once, sent, last, since_ms };
        self.followed.insert(path.to_vec(), followed);
    }

    /// Forgets a file: its content now comes from another member.
    pub(super) fn forget(&mut self, path: &[u8]) {
        self.followed.remove(path);
    }

    /// Checks all tracked files, and returns those that are not to be sent now. A path that is no file any more is not
    /// held, so that others learn of the removal.
    pub(super) fn hold(
        &mut self,
        look: &dyn Fn(&[u8]) -> Option<FileLooks>,
        now_ms: u64,
    ) -> Arc<BTreeSet<Vec<u8>>> {
        let (mut held, mut due_ms) = (BTreeSet::new(), None::<u64>);
        self.followed.retain(|path, file| {
            let Some(now) = look(path) else { return false };
            // A clock that was set back lengthens no pause.
            file.sent_ms = file.sent_ms.min(now_ms);
            file.since_ms = file.since_ms.min(now_ms);
            if now != file.last {
                (file.last, file.since_ms) = (now, now_ms);
            }
            if file.last == file.sent {
                return now_ms < file.sent_ms.saturating_add(file.pause_ms);
            }
            let due = file.due_ms();
            if now_ms < due && file.at_once == 0 && !file.is_another() {
                held.insert(path.clone());
                due_ms = Some(due_ms.map_or(due, |first| first.min(due)));
            }
            true
        });
        (self.held, self.due_ms) = (Arc::new(held), due_ms);
        self.held.clone()
    }

    /// Returns what was held at the last check.
    pub(super) fn held(&self) -> &BTreeSet<Vec<u8>> {
        &self.held
    }

    /// Returns when the first held file has to be checked again, in milliseconds since 1970.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    /// Returns whether this path is held.
    pub(super) fn is_held(&self, path: &[u8]) -> bool {
        self.held.contains(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xylem_store::FileTime;

    fn at(size: u64) -> FileLooks {
        let time = FileTime { secs: 1, nanos: 1 };
        (size, DiskAttributes { mode: 0o644, mtime: time, ctime: time, ino: 1 })
    }

    /// Checks one file each second; `size` gives its size then. Returns the seconds in which it is sent.
    fn sent(seconds: u64, size: impl Fn(u64) -> u64) -> Vec<u64> {
        let (mut pacing, mut known, mut sent) = (Pacing::default(), None, Vec::new());
        for second in 0..seconds {
            let (now_ms, looks) = (second * 1_000, at(size(second)));
            let held = pacing.hold(&|_| Some(looks), now_ms);
            assert_eq!(held.is_empty(), pacing.due_ms().is_none());
            if held.is_empty() && known != Some(looks) {
                known = Some(looks);
                pacing.sent(b"log", looks, now_ms);
                sent.push(second);
            }
        }
        sent
    }

    #[test]
    fn a_changing_file_is_sent_after_growing_pauses() {
        assert_eq!(sent(1_000, |second| second), [0, 1, 2, 12, 32, 72, 152, 312, 612, 912]);
    }

    #[test]
    fn a_resting_file_is_sent_soon() {
        // Two changes soon after it was sent, and a third.
        let changes = |second: u64| [1, 3, 5].iter().filter(|at| **at <= second).count() as u64;
        assert_eq!(sent(100, changes), [0, 1, 3, 8]);
        // The file is saved every eight seconds.
        assert!(sent(100, |second| second / 8).windows(2).all(|two| two[1] - two[0] <= 13));
        // The file is saved every minute: always sent at once, since it is no longer tracked by then.
        assert_eq!(sent(200, |second| second / 60), [0, 60, 120, 180]);
    }

    /// No program is writing to the new file.
    #[test]
    fn another_file_that_is_moved_to_the_name_is_sent_at_once() {
        let mut pacing = Pacing::default();
        pacing.unstable(b"a", at(1), 5_000);
        let (size, moved) = at(2);
        let moved = DiskAttributes { ino: 2, ..moved };
        assert!(pacing.hold(&|_| Some((size, moved)), 6_000).is_empty());
        // A file that was written since counts as one that is saved again and again.
        let written = DiskAttributes { mtime: FileTime { secs: 5, nanos: 500_000_000 }, ..moved };
        assert_eq!(pacing.hold(&|_| Some((size, written)), 6_000).len(), 1);
    }

    #[test]
    fn a_removed_file_is_not_held_and_memory_is_bounded() {
        let mut pacing = Pacing::default();
        for n in 0..MAX_FOLLOWED + 5 {
            pacing.unstable(n.to_string().as_bytes(), at(1), 0);
        }
        assert_eq!(pacing.followed.len(), MAX_FOLLOWED);
        assert_eq!(pacing.hold(&|_| Some(at(2)), 1).len(), MAX_FOLLOWED);
        assert!(pacing.is_held(b"7"));
        assert!(pacing.hold(&|_| None, 2).is_empty() && pacing.followed.is_empty());
        // A clock one year ahead that is corrected holds nothing for a year.
        pacing.unstable(b"a", at(1), 31_536_000_000);
        assert_eq!(pacing.hold(&|_| Some(at(2)), 1_000).len(), 1);
        assert!(pacing.hold(&|_| Some(at(2)), 1_000 + FIRST_PAUSE_MS).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// For any sequence of writes: the newest version is sent within six seconds of the last change, nothing waits
        /// longer than five minutes, and a file that never rests is sent ever less often.
        #[test]
        fn the_newest_version_is_sent_in_time_and_not_too_often(
            gaps in proptest::collection::vec(1_u64..30, 1..60),
        ) {
            let changes: Vec<u64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let end = changes.last().unwrap() + 6;
            let size = |second: u64| changes.iter().filter(|at| **at <= second).count() as u64;
            let sent = sent(end + 1, size);
            prop_assert!(*sent.last().unwrap() >= changes.last().copied().unwrap());
            prop_assert!(sent.len() <= changes.len() + 1);
            let longest = |at: &u64| *at + LONGEST_PAUSE_MS / 1_000 + 1;
            for (then, next) in sent.iter().zip(&sent[1..]) {
                // A change made after a version was sent waits no longer than the longest pause.
                let waited = changes.iter().find(|at| *at > then).copied().unwrap_or(*next);
                prop_assert!(*next <= longest(&waited));
            }
        }
    }
}
