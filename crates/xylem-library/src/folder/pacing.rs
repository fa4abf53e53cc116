//! [`Pacing`]: files that keep changing are sent from time to time, and not at each change.
//!
//! The first changes of a file are sent at once. One that changes again soon after that is held: others keep the version before. It
//! is sent when it has rested for some seconds, and otherwise after a pause that doubles while it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xylem_store::{FileKind, Meta, Seen};

/// The first pause after a file was sent, and the longest.
const FIRST_PAUSE_MS: u64 = 10_000;
const LONGEST_PAUSE_MS: u64 = 5 * 60_000;
/// Changes that are sent at once, however soon after each other they come: somebody saves twice, or mends what was just written.
const AT_ONCE: u32 = 2;
/// A file that has not changed for a quarter of its pause rests; it need not for longer than this, nor for less.
const REST_MS: (u64, u64) = (2_000, 5_000);
/// Files that are followed at most: what comes beyond is sent at each change.
pub(super) const MAX_FOLLOWED: usize = 2_000;

/// How a file looks: its size and the rest.
pub(super) type Looks = (u64, Seen);

/// How the file with this metadata looks; `None`: it is none.
pub(super) fn looks(meta: &Meta) -> Option<Looks> {
    (meta.kind == FileKind::File).then(|| (meta.size, Seen::of(meta)))
}

/// A file that was sent a short while ago.
#[derive(Clone, Copy, Debug)]
struct Followed {
    sent_ms: u64,
    pause_ms: u64,
    /// Further changes that are sent at once.
    at_once: u32,
    /// How it looked when it was sent,
    sent: Looks,
    /// and last, and since when.
    last: Looks,
    since_ms: u64,
}

impl Followed {
    /// Another file has been moved to its name, which nobody has written to since the one before was sent.
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

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    followed: BTreeMap<Vec<u8>, Followed>,
    held: Arc<BTreeSet<Vec<u8>>>,
    /// When the first of them is to be sent.
    due_ms: Option<u64>,
}

impl Pacing {
    /// A file was sent as it looks.
    pub(super) fn sent(&mut self, path: &[u8], looks: Looks, now_ms: u64) {
        self.follow(path, looks, AT_ONCE, now_ms);
    }

    /// A file could not be read without a change: it is held as one that was sent again and again.
    pub(super) fn unstable(&mut self, path: &[u8], looks: Looks, now_ms: u64) {
        self.follow(path, looks, 0, now_ms);
    }

    fn follow(&mut self, path: &[u8], looks: Looks, at_once: u32, now_ms: u64) {
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
        let followed = Followed { sent_ms, pause_ms, at_once, sent, last, since_ms };
        self.followed.insert(path.to_vec(), followed);
    }

    /// It is another's now.
    pub(super) fn forget(&mut self, path: &[u8]) {
        self.followed.remove(path);
    }

    /// Looks at all that are followed: which of them are not to be sent now. What is no file any more is not held, so that others
    /// hear that it has gone.
    pub(super) fn hold(
        &mut self,
        look: &dyn Fn(&[u8]) -> Option<Looks>,
        now_ms: u64,
    ) -> Arc<BTreeSet<Vec<u8>>> {
        let (mut held, mut due_ms) = (BTreeSet::new(), None::<u64>);
        self.followed.retain(|path, file| {
            let Some(now) = look(path) else { return false };
            // A clock that was set back makes no longer pauses.
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

    /// What was held when it was looked at last.
    pub(super) fn held(&self) -> &BTreeSet<Vec<u8>> {
        &self.held
    }

    /// When the first that is held is to be looked at again, in milliseconds since 1970.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    /// Whether this path is known to change again and again.
    pub(super) fn is_held(&self, path: &[u8]) -> bool {
        self.held.contains(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xylem_store::FileTime;

    fn at(size: u64) -> Looks {
        let time = FileTime { secs: 1, nanos: 1 };
        (size, Seen { mode: 0o644, mtime: time, ctime: time, ino: 1 })
    }

    /// One file, looked at each second; it has this size then. Returns the seconds in which it is sent.
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
    fn what_keeps_changing_is_sent_after_growing_pauses() {
        assert_eq!(sent(1_000, |second| second), [0, 1, 2, 12, 32, 72, 152, 312, 612, 912]);
    }

    #[test]
    fn what_rests_is_sent_soon() {
        // Two changes soon after it was sent, and a third.
        let changes = |second: u64| [1, 3, 5].iter().filter(|at| **at <= second).count() as u64;
        assert_eq!(sent(100, changes), [0, 1, 3, 8]);
        // Saved each eight seconds.
        assert!(sent(100, |second| second / 8).windows(2).all(|two| two[1] - two[0] <= 13));
        // Each minute: always at once, as nothing is known of it any more.
        assert_eq!(sent(200, |second| second / 60), [0, 60, 120, 180]);
    }

    /// Nobody is writing to it.
    #[test]
    fn another_file_that_is_moved_to_the_name_is_sent_at_once() {
        let mut pacing = Pacing::default();
        pacing.unstable(b"a", at(1), 5_000);
        let (size, moved) = at(2);
        let moved = Seen { ino: 2, ..moved };
        assert!(pacing.hold(&|_| Some((size, moved)), 6_000).is_empty());
        // One that was written since is as good as a file that is saved again and again.
        let written = Seen { mtime: FileTime { secs: 5, nanos: 500_000_000 }, ..moved };
        assert_eq!(pacing.hold(&|_| Some((size, written)), 6_000).len(), 1);
    }

    #[test]
    fn what_is_gone_is_not_held_and_memory_is_bounded() {
        let mut pacing = Pacing::default();
        for n in 0..MAX_FOLLOWED + 5 {
            pacing.unstable(n.to_string().as_bytes(), at(1), 0);
        }
        assert_eq!(pacing.followed.len(), MAX_FOLLOWED);
        assert_eq!(pacing.hold(&|_| Some(at(2)), 1).len(), MAX_FOLLOWED);
        assert!(pacing.is_held(b"7"));
        assert!(pacing.hold(&|_| None, 2).is_empty() && pacing.followed.is_empty());
        // A clock of a year ahead that is put right holds nothing for a year.
        pacing.unstable(b"a", at(1), 31_536_000_000);
        assert_eq!(pacing.hold(&|_| Some(at(2)), 1_000).len(), 1);
        assert!(pacing.hold(&|_| Some(at(2)), 1_000 + FIRST_PAUSE_MS).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever is written when: what is newest is sent within six seconds of the last change, nothing waits for longer than
        /// five minutes, and a file that never rests is sent ever more rarely.
        #[test]
        fn what_is_newest_is_sent_in_time_and_not_too_often(
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
                // What was changed since it was sent has not waited for longer than the longest pause.
                let waited = changes.iter().find(|at| *at > then).copied().unwrap_or(*next);
                prop_assert!(*next <= longest(&waited));
            }
        }
    }
}
