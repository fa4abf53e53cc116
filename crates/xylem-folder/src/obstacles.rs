//! [`Obstacles`]: which paths cannot be brought in step now, and why. Everything else goes on meanwhile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Pause before the first retry, in milliseconds. The pause doubles each time, up to [`LONGEST_PAUSE_MS`].
const FIRST_PAUSE_MS: u64 = 1_000;
const LONGEST_PAUSE_MS: u64 = 5 * 60_000;
/// Most paths that are kept; further ones are only counted.
const MAX_NAMED: usize = 10_000;

/// Kind of obstacle at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObstacleKind {
    /// The file cannot be read here, so other members do not get it.
    Unreadable,
    /// The file keeps changing: it is sent from time to time.
    Busy,
    /// Its name or its depth is not allowed, on this disk or by the format.
    Name,
    /// No member delivered its content.
    NotFetched,
    /// There is no room for it on this disk.
    NoRoom,
    /// It was fetched, and cannot be put in place.
    NotPlaced,
    /// Its extended attributes cannot be read or set here; its content is not concerned.
    Attributes,
    /// Another member's entry for it was refused.
    Refused,
    /// Another member removed it together with many others: this member has to confirm that.
    Removal,
}

/// Why one path is not in step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// Kind of obstacle.
    pub kind: ObstacleKind,
    /// The error of the system, or of the check that failed.
    pub why: String,
    /// When the obstacle was first noted, in milliseconds since 1970.
    pub since_ms: u64,
    /// Number of attempts.
    pub tried: u32,
    /// The last attempt, in milliseconds since 1970.
    pub tried_ms: u64,
    /// The next attempt, in milliseconds since 1970.
    pub again_ms: u64,
}

impl Obstacle {
    fn waits(&self, now_ms: u64) -> bool {
        (self.tried_ms..self.again_ms).contains(&now_ms)
    }
}

/// Obstacles by path (`/` between components).
#[derive(Clone, Debug, Default)]
pub struct Obstacles {
    named: BTreeMap<Vec<u8>, Obstacle>,
    /// Obstacles that found no place in `named` since it was last empty.
    more: u64,
}

impl Obstacles {
    /// Notes that an attempt at a path failed at `now_ms`; the pause grows while the kind stays the same. Returns
    /// whether that is news: the path had no obstacle, or one of another kind.
    pub fn note(&mut self, path: &[u8], kind: ObstacleKind, why: String, now_ms: u64) -> bool {
        if !self.named.contains_key(path) && self.named.len() >= MAX_NAMED {
            self.more = self.more.saturating_add(1);
            return false;
        }
        let before = self.named.get(path).filter(|before| before.kind == kind);
        let (since_ms, tried) =
            before.map_or((now_ms, 0), |before| (before.since_ms, before.tried));
        let is_new = before.is_none();
        let pause = FIRST_PAUSE_MS.saturating_mul(1 << tried.min(20)).min(LONGEST_PAUSE_MS);
        let again_ms = now_ms.saturating_add(pause);
        let tried = tried.saturating_add(1);
        let obstacle = Obstacle { kind, why, since_ms, tried, tried_ms: now_ms, again_ms };
        self.named.insert(path.to_vec(), obstacle);
        is_new
    }

    /// Clears the obstacle of a path; returns whether there was one.
    pub fn clear(&mut self, path: &[u8]) -> bool {
        let cleared = self.named.remove(path).is_some();
        if self.named.is_empty() {
            self.more = 0;
        }
        cleared
    }

    /// Clears all obstacles of these kinds, except at paths that `still` confirms.
    pub fn retain(&mut self, kinds: &[ObstacleKind], still: impl Fn(&[u8]) -> bool) {
        self.named.retain(|path, obstacle| !kinds.contains(&obstacle.kind) || still(path));
        if self.named.is_empty() {
            self.more = 0;
        }
    }

    /// Returns the obstacle of a path.
    pub fn get(&self, path: &[u8]) -> Option<&Obstacle> {
        self.named.get(path)
    }

    /// Returns whether an attempt at the path failed and the next one is not due. A clock that was set back lengthens
    /// no pause. Extended attributes hold up no content.
    pub fn waits(&self, path: &[u8], now_ms: u64) -> bool {
        let of_content = |one: &&Obstacle| one.kind != ObstacleKind::Attributes;
        self.get(path).filter(of_content).is_some_and(|one| one.waits(now_ms))
    }

    /// Returns whether the path's extended attributes could not be read or set, and are not to be tried again yet.
    pub fn attributes_wait(&self, path: &[u8], now_ms: u64) -> bool {
        let of_attributes = |one: &&Obstacle| one.kind == ObstacleKind::Attributes;
        self.get(path).filter(of_attributes).is_some_and(|one| one.waits(now_ms))
    }

    /// Returns all named obstacles in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Obstacle)> {
        self.named.iter().map(|(path, obstacle)| (path.as_slice(), obstacle))
    }

    /// Returns the number of obstacles, those without a name included.
    pub fn count(&self) -> u64 {
        self.more.saturating_add(self.named.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_tried_again_after_growing_pauses_until_it_is_cleared() {
        let mut obstacles = Obstacles::default();
        assert!(obstacles.note(b"a", ObstacleKind::NoRoom, "full".into(), 1_000));
        assert!(obstacles.waits(b"a", 1_999) && !obstacles.waits(b"a", 2_000));
        assert!(!obstacles.note(b"a", ObstacleKind::NoRoom, "full".into(), 2_000));
        assert_eq!(
            obstacles.get(b"a").map(|o| (o.since_ms, o.tried, o.again_ms)),
            Some((1_000, 2, 4_000))
        );
        for _ in 0..100 {
            obstacles.note(b"a", ObstacleKind::NoRoom, "full".into(), 5_000);
        }
        assert_eq!(obstacles.get(b"a").map(|o| o.again_ms), Some(5_000 + LONGEST_PAUSE_MS));
        assert!(obstacles.note(b"a", ObstacleKind::NotPlaced, "no".into(), 6_000), "another kind");
        assert!(obstacles.waits(b"a", 6_500) && !obstacles.waits(b"a", 5_999), "a clock set back");
        assert!(obstacles.clear(b"a") && !obstacles.clear(b"a"));
        assert_eq!(obstacles.count(), 0);
    }

    #[test]
    fn attributes_hold_up_no_content() {
        let mut obstacles = Obstacles::default();
        obstacles.note(b"a", ObstacleKind::Attributes, "full".into(), 1_000);
        obstacles.note(b"b", ObstacleKind::NoRoom, "full".into(), 1_000);
        assert!(!obstacles.waits(b"a", 1_500) && obstacles.attributes_wait(b"a", 1_500));
        assert!(obstacles.waits(b"b", 1_500) && !obstacles.attributes_wait(b"b", 1_500));
        assert!(!obstacles.attributes_wait(b"a", 2_000));
    }

    #[test]
    fn obstacles_beyond_the_limit_are_counted() {
        let mut obstacles = Obstacles::default();
        for n in 0..MAX_NAMED + 5 {
            obstacles.note(n.to_string().as_bytes(), ObstacleKind::Name, String::new(), 0);
        }
        assert_eq!(obstacles.count(), MAX_NAMED as u64 + 5);
        obstacles.retain(&[ObstacleKind::Name], |_| false);
        assert_eq!(obstacles.count(), 0);
    }
}
