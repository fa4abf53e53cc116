//! [`VersionPolicy`]: which versions of replaced and removed files stay in the trash, and for how long.
//!
//! It depends on paths, times and sizes alone, so that tests can try any history.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const HOUR_MS: u64 = 3_600_000;
/// Milliseconds of a day.
pub(super) const DAY_MS: u64 = 24 * HOUR_MS;
/// Least time between kept versions of one path, apart from the newest: a growing file does not fill the trash alone.
pub(super) const APART_MS: u64 = 30_000;
/// When the room is short, a path with several versions has at most one part in so many of it.
const SHARE: u64 = 10;
/// A trash that is too large is cut to this fraction of its limit, so that not every new file causes a scan.
const LEAVES: (u64, u64) = (9, 10);
/// Default days before a removed file is deleted. Syncthing keeps staggered versions for a year.
const DAYS: u64 = 7;
const STAGGERED_DAYS: u64 = 365;
const MAX_DAYS: u64 = 36_500;
const MAX_NEWEST: u64 = 10_000;
/// Ages, and the least time between versions up to that age: Syncthing's intervals.
const STAGGERED: [(u64, u64); 3] = [(HOUR_MS, APART_MS), (DAY_MS, HOUR_MS), (30 * DAY_MS, DAY_MS)];
/// Least time between versions above the last of these ages.
const WEEK_MS: u64 = 7 * DAY_MS;

/// Which versions are kept, in Syncthing's terms. As text: `none`, `trash:DAYS`, `simple:N` and `staggered:DAYS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum VersionPolicy {
    /// No version.
    None,
    /// All versions, for this many days.
    Trash {
        /// 1 to 36,500.
        days: u64,
    },
    /// The newest versions of each path, however old.
    Simple {
        /// Versions of each path: 1 to 10,000.
        newest: u64,
    },
    /// One per 30 s of the last hour, one per hour of the last day, one per day of the last 30 days, and one per week
    /// before that.
    Staggered {
        /// Days for which versions are kept, 1 to 36,500.
        days: u64,
    },
}

impl Default for VersionPolicy {
    fn default() -> Self {
        Self::Trash { days: DAYS }
    }
}

/// A text that is no [`VersionPolicy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?}: expected trash[:DAYS], simple:N, staggered[:DAYS] (1 to 36500 days, 1 to 10000 versions) or none"
)]
pub struct NoVersionPolicy(String);

impl FromStr for VersionPolicy {
    type Err = NoVersionPolicy;

    fn from_str(text: &str) -> Result<Self, NoVersionPolicy> {
        let (word, number) = text.split_once(':').map_or((text, None), |(w, n)| (w, Some(n)));
        let number = number.map(|number| number.parse::<u64>().ok().unwrap_or(0));
        let within = |number: u64, most| (1..=most).contains(&number).then_some(number);
        let policy = match (word, number) {
            ("none", None) => Some(Self::None),
            ("trash", days) => {
                within(days.unwrap_or(DAYS), MAX_DAYS).map(|days| Self::Trash { days })
            }
            ("simple", Some(newest)) => {
                within(newest, MAX_NEWEST).map(|newest| Self::Simple { newest })
            }
            ("staggered", days) => within(days.unwrap_or(STAGGERED_DAYS), MAX_DAYS)
                .map(|days| Self::Staggered { days }),
            _ => None,
        };
        policy.ok_or_else(|| NoVersionPolicy(text.to_owned()))
    }
}

impl TryFrom<String> for VersionPolicy {
    type Error = NoVersionPolicy;

    fn try_from(text: String) -> Result<Self, NoVersionPolicy> {
        text.parse()
    }
}

impl From<VersionPolicy> for String {
    fn from(policy: VersionPolicy) -> Self {
        policy.to_string()
    }
}

impl fmt::Display for VersionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::Trash { days } => write!(f, "trash:{days}"),
            Self::Simple { newest } => write!(f, "simple:{newest}"),
            Self::Staggered { days } => write!(f, "staggered:{days}"),
        }
    }
}

impl VersionPolicy {
    /// Makes the policy that keeps all versions for `days`; 0 keeps none.
    pub fn for_days(days: u64) -> Self {
        match days {
            0 => Self::None,
            days => Self::Trash { days: days.min(MAX_DAYS) },
        }
    }

    /// Returns which versions of one path the policy removes, by their ages, the oldest first.
    fn surplus(self, ages: &[u64]) -> Vec<bool> {
        let count = ages.len();
        match self {
            // Without a policy, existing versions stay.
            Self::None => vec![false; count],
            Self::Trash { days } => {
                ages.iter().map(|age| *age > days.saturating_mul(DAY_MS)).collect()
            }
            Self::Simple { newest } => {
                let more = count.saturating_sub(usize::try_from(newest).unwrap_or(usize::MAX));
                (0..count).map(|n| n < more).collect()
            }
            Self::Staggered { days } => {
                let mut before = None;
                let apart = |(n, age): (usize, &u64)| {
                    let is_old = *age > days.saturating_mul(DAY_MS);
                    let is_close = before.is_some_and(|before: u64| {
                        before.saturating_sub(*age) < interval(*age) && n.saturating_add(1) < count
                    });
                    if !is_old && !is_close {
                        before = Some(*age);
                    }
                    is_old || is_close
                };
                ages.iter().enumerate().map(apart).collect()
            }
        }
    }
}

/// Returns the least time between versions of this age.
fn interval(age: u64) -> u64 {
    STAGGERED.iter().find(|(up_to, _)| age < *up_to).map_or(WEEK_MS, |(_, apart)| *apart)
}

/// One version: its path, when it arrived, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathVersion<'a> {
    pub(super) of: &'a Path,
    pub(super) since_ms: u64,
    pub(super) bytes: u64,
}

/// Returns which versions to remove: those that `policy` does not keep, and more if the rest exceeds `limit` bytes.
pub(super) fn leaving(
    versions: &[PathVersion<'_>],
    policy: VersionPolicy,
    now_ms: u64,
    limit: u64,
) -> Vec<bool> {
    let mut paths: HashMap<&Path, Vec<usize>> = HashMap::new();
    for (n, version) in versions.iter().enumerate() {
        paths.entry(version.of).or_default().push(n);
    }
    let mut goes = vec![false; versions.len()];
    for of_one in paths.values_mut() {
        of_one.sort_by_key(|n| versions[*n].since_ms);
        let ages: Vec<u64> =
            of_one.iter().map(|n| now_ms.saturating_sub(versions[*n].since_ms)).collect();
        for (n, surplus) in of_one.iter().zip(policy.surplus(&ages)) {
            goes[*n] = surplus;
        }
        of_one.retain(|n| !goes[*n]);
    }
    let mut bytes =
        paths.values().flatten().fold(0, |sum: u64, n| sum.saturating_add(versions[*n].bytes));
    if bytes <= limit {
        return goes;
    }
    let most = limit / LEAVES.1 * LEAVES.0;
    let rank = |of_one: &[usize]| TrashRank::of(of_one.iter().map(|n| versions[*n]), limit / SHARE);
    // The next to go is the oldest version of the path that ranks highest.
    let mut queue: BinaryHeap<(TrashRank, Reverse<usize>, Vec<usize>)> = paths
        .into_values()
        .filter_map(|of_one| Some((rank(&of_one), Reverse(*of_one.first()?), of_one)))
        .collect();
    while bytes > most {
        let Some((_, _, mut of_one)) = queue.pop() else { break };
        let gone = of_one.remove(0);
        goes[gone] = true;
        bytes = bytes.saturating_sub(versions[gone].bytes);
        if let Some(first) = of_one.first() {
            queue.push((rank(&of_one), Reverse(*first), of_one));
        }
    }
    goes
}

/// Order in which paths lose versions; the greatest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TrashRank {
    /// The path has one version. The oldest version among these paths goes first.
    Last(Reverse<u64>),
    /// Number of versions of the path.
    Several(usize),
    /// Bytes of the path's versions, which exceed one path's share.
    Large(u64),
}

impl TrashRank {
    fn of<'a>(of_one: impl ExactSizeIterator<Item = PathVersion<'a>>, share: u64) -> Self {
        let count = of_one.len();
        let (mut bytes, mut oldest) = (0_u64, u64::MAX);
        for version in of_one {
            bytes = bytes.saturating_add(version.bytes);
            oldest = oldest.min(version.since_ms);
        }
        match count {
            0 | 1 => Self::Last(Reverse(oldest)),
            _ if bytes > share => Self::Large(bytes),
            _ => Self::Several(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn version_policies_survive_formatting() {
        for (text, policy) in [
            ("none", VersionPolicy::None),
            ("trash", VersionPolicy::Trash { days: 7 }),
            ("trash:30", VersionPolicy::Trash { days: 30 }),
            ("simple:5", VersionPolicy::Simple { newest: 5 }),
            ("staggered", VersionPolicy::Staggered { days: 365 }),
            ("staggered:36500", VersionPolicy::Staggered { days: 36_500 }),
        ] {
            assert_eq!(text.parse(), Ok(policy), "{text}");
            assert_eq!(policy.to_string().parse(), Ok(policy));
            let json = serde_json::to_string(&policy).unwrap();
            assert_eq!(serde_json::from_str::<VersionPolicy>(&json).unwrap(), policy);
        }
        let wrong = ["", "Trash", "trash:", "trash:0", "trash:x", "simple", "simple:0", "none:1"];
        for text in wrong.into_iter().chain(["staggered:36501", "simple:10001", "trash:-1"]) {
            assert!(text.parse::<VersionPolicy>().is_err(), "{text}");
        }
    }

    fn kept(policy: VersionPolicy, ages: &[u64]) -> Vec<u64> {
        let surplus = policy.surplus(ages);
        ages.iter().zip(surplus).filter(|(_, goes)| !goes).map(|(age, _)| *age).collect()
    }

    #[test]
    fn staggered_versions_are_as_far_apart_as_they_are_old() {
        let policy = VersionPolicy::Staggered { days: 60 };
        let minute = 60_000;
        // One version a minute for 90 days.
        let ages: Vec<u64> = (0..90 * 24 * 60).rev().map(|n| n * minute).collect();
        let kept = kept(policy, &ages);
        let in_age =
            |from: u64, to: u64| kept.iter().filter(|age| (from..to).contains(*age)).count();
        assert_eq!(in_age(0, HOUR_MS), 60);
        assert!((22..=24).contains(&in_age(HOUR_MS, DAY_MS)), "{kept:?}");
        assert!((28..=30).contains(&in_age(DAY_MS, 30 * DAY_MS)), "{kept:?}");
        assert!((3..=6).contains(&in_age(30 * DAY_MS, 60 * DAY_MS + 1)), "{kept:?}");
        assert_eq!(in_age(60 * DAY_MS + 1, u64::MAX), 0);
    }

    #[test]
    fn a_busy_file_pushes_no_other_out() {
        // A file of 5 MB with a version every 30 s, and another file that was removed a day before.
        let (busy, gone) = (Path::new("log"), Path::new("letter"));
        let now = 10 * DAY_MS;
        let mut versions = vec![PathVersion { of: gone, since_ms: now - DAY_MS, bytes: 1_000_000 }];
        versions.extend((0..100).map(|n| PathVersion {
            of: busy,
            since_ms: now - (100 - n) * APART_MS,
            bytes: 5_000_000,
        }));
        let goes = leaving(&versions, VersionPolicy::default(), now, 20_000_000);
        assert!(!goes[0]);
        assert!(!goes[100], "the newest of the other stays, too");
        assert!(goes[1..98].iter().all(|goes| *goes));
    }

    fn policy() -> impl Strategy<Value = VersionPolicy> {
        prop_oneof![
            Just(VersionPolicy::None),
            (1..400_u64).prop_map(|days| VersionPolicy::Trash { days }),
            (1..6_u64).prop_map(|newest| VersionPolicy::Simple { newest }),
            (1..400_u64).prop_map(|days| VersionPolicy::Staggered { days }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_least_needed_versions_go_first(
            found in proptest::collection::vec((0..6_usize, 0..500 * DAY_MS, 0..2_000_u64), 0..60),
            policy in policy(),
            limit in 0..40_000_u64,
        ) {
            let names = ["a", "b", "c", "d", "e", "f"].map(Path::new);
            let now_ms = 500 * DAY_MS;
            let versions: Vec<PathVersion<'_>> = found
                .iter()
                .map(|(of, since_ms, bytes)| PathVersion { of: names[*of], since_ms: *since_ms, bytes: *bytes })
                .collect();
            let by_rule = leaving(&versions, policy, now_ms, u64::MAX);
            let goes = leaving(&versions, policy, now_ms, limit);
            let sum = |goes: &[bool]| -> u64 {
                versions.iter().zip(goes).filter(|(_, goes)| !**goes).map(|(v, _)| v.bytes).sum()
            };
            // The versions that the policy does not keep go in any case. More go only if there is no room, and then
            // enough.
            prop_assert!(by_rule.iter().zip(&goes).all(|(rule, goes)| !rule || *goes));
            if sum(&by_rule) <= limit {
                prop_assert_eq!(&by_rule, &goes);
            } else {
                prop_assert!(sum(&goes) <= limit / 10 * 9);
            }
            let left = |name: &Path, goes: &[bool]| {
                let mut left: Vec<PathVersion<'_>> = versions.iter().zip(goes)
                    .filter(|(v, goes)| v.of == name && !**goes).map(|(v, _)| *v).collect();
                left.sort_by_key(|version| version.since_ms);
                left
            };
            let most_left = names.iter().map(|name| left(name, &goes).len()).max().unwrap_or(0);
            for name in names {
                let all = left(name, &vec![false; versions.len()]);
                let (ruled, stays) = (left(name, &by_rule), left(name, &goes));
                // The newest version survives all rules but that of age.
                if let Some(newest) = all.last() {
                    let age = now_ms - newest.since_ms;
                    let too_old = match policy {
                        VersionPolicy::Trash { days } | VersionPolicy::Staggered { days } => age > days * DAY_MS,
                        _ => false,
                    };
                    prop_assert_eq!(ruled.is_empty(), too_old);
                }
                // The last version of a path goes for lack of room only when no path has two.
                if stays.is_empty() && !ruled.is_empty() {
                    prop_assert!(most_left <= 1);
                }
                // The oldest versions go first for lack of room.
                prop_assert_eq!(
                    stays.iter().map(|v| v.since_ms).collect::<Vec<_>>(),
                    ruled[ruled.len() - stays.len()..].iter().map(|v| v.since_ms).collect::<Vec<_>>()
                );
                if let VersionPolicy::Simple { newest } = policy {
                    prop_assert!(ruled.len() as u64 <= newest);
                }
                if matches!(policy, VersionPolicy::Staggered { .. }) {
                    let pairs: Vec<_> = ruled.windows(2).collect();
                    for pair in pairs.iter().rev().skip(1) {
                        let apart = pair[1].since_ms - pair[0].since_ms;
                        prop_assert!(apart >= interval(now_ms - pair[1].since_ms));
                    }
                }
            }
            // A path within its share loses nothing while another exceeds its own.
            let large = |goes: &[bool]| names.iter().any(|name| {
                let left = left(name, goes);
                left.len() > 1 && left.iter().map(|v| v.bytes).sum::<u64>() > limit / 10
            });
            if large(&goes) {
                for name in names {
                    let ruled = left(name, &by_rule);
                    if ruled.iter().map(|v| v.bytes).sum::<u64>() <= limit / 10 {
                        prop_assert_eq!(left(name, &goes).len(), ruled.len());
                    }
                }
            }
        }
    }
}
