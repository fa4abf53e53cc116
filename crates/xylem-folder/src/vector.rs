//! [`Vector`]: the version vector of a path.

use std::cmp::Ordering;

/// Short form of a member's key.
pub type MemberId = [u8; 8];

/// One change by one member: its number in version vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dot {
    /// The number; milliseconds since 1970 where clocks are right.
    pub number: u64,
    /// The member that made the change.
    pub by: MemberId,
}

/// Version vector: the last change of each member that a version has seen (Parker et al. 1983). Numbers are
/// milliseconds since 1970 where clocks are right, and always larger than all numbers that the vector had before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector(Vec<(MemberId, u64)>);

impl Vector {
    /// Makes a vector of these entries; `None` if the members do not ascend.
    pub(super) fn of(entries: Vec<(MemberId, u64)>) -> Option<Self> {
        entries.is_sorted_by(|a, b| a.0 < b.0).then_some(Self(entries))
    }

    /// Returns the members in order, each with its number.
    pub fn entries(&self) -> &[(MemberId, u64)] {
        &self.0
    }

    /// Returns the number of the last change by a member; 0 if there is none.
    pub fn number_of(&self, member: &MemberId) -> u64 {
        let at = self.0.binary_search_by_key(member, |(id, _)| *id);
        at.ok().and_then(|at| self.0.get(at)).map_or(0, |(_, number)| *number)
    }

    /// Returns the number of the last change.
    pub fn newest(&self) -> u64 {
        self.0.iter().map(|(_, number)| *number).max().unwrap_or(0)
    }

    /// Adds a change by `member`, and returns it.
    pub fn record_change(&mut self, member: MemberId, now_ms: u64) -> Dot {
        let number = now_ms.max(self.newest().saturating_add(1));
        match self.0.binary_search_by_key(&member, |(id, _)| *id) {
            Ok(at) => self.0.iter_mut().skip(at).take(1).for_each(|entry| entry.1 = number),
            Err(at) => self.0.insert(at, (member, number)),
        }
        Dot { number, by: member }
    }

    /// Returns whether the vector has seen this change.
    pub fn has_seen(&self, dot: Dot) -> bool {
        self.number_of(&dot.by) >= dot.number
    }

    /// Returns the vector that has seen what either has.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        for (member, number) in &other.0 {
            match all.binary_search_by_key(member, |(id, _)| *id) {
                Ok(at) => {
                    all.iter_mut()
                        .skip(at)
                        .take(1)
                        .for_each(|entry| entry.1 = entry.1.max(*number));
                }
                Err(at) => all.insert(at, (*member, *number)),
            }
        }
        Self(all)
    }

    /// Compares two vectors; `None` if they are concurrent: neither has seen all of the other.
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        let behind = |a: &Self, b: &Self| a.0.iter().any(|(id, number)| *number > b.number_of(id));
        match (behind(self, other), behind(other, self)) {
            (false, false) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Greater),
            (false, true) => Some(Ordering::Less),
            (true, true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_order_or_in_conflict() {
        let (alice, bob) = ([1; 8], [2; 8]);
        let mut first = Vector::default();
        first.record_change(alice, 10);
        let mut second = first.clone();
        let dot = second.record_change(bob, 5);
        assert_eq!(dot, Dot { number: 11, by: bob });
        assert!(second.has_seen(dot) && !first.has_seen(dot));
        assert_eq!(second.entries(), [(alice, 10), (bob, 11)], "never behind what it has seen");
        assert_eq!(second.order(&first), Some(Ordering::Greater));
        assert_eq!(first.order(&second), Some(Ordering::Less));
        let mut other = first.clone();
        other.record_change(alice, 20);
        assert_eq!(other.order(&second), None);
        let joined = other.joined(&second);
        assert_eq!(joined, second.joined(&other));
        assert_eq!(joined.entries(), [(alice, 20), (bob, 11)]);
        assert_eq!(joined.order(&other), Some(Ordering::Greater));
        assert_eq!(joined.order(&joined), Some(Ordering::Equal));
    }
}
