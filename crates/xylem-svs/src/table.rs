//! The known numbers of all members, within limits.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use xylem_packet::Name;

use crate::{GroupMember, StateVector};

/// Limits on state that others make this member store and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorLimits {
    /// Maximum number of members (names with a bootstrap time).
    pub members: usize,
    /// Maximum number of bootstrap times of one name; the newest are kept.
    pub boots: usize,
    /// Maximum bytes of a sent vector; a larger one is sent in parts. A member with a name of more than a quarter of it
    /// is left out.
    pub vector_bytes: usize,
}

impl Default for VectorLimits {
    /// 10,000 members, 32 bootstrap times, 7,000 bytes: with names, key and signature a packet stays
    /// within 8,800.
    fn default() -> Self {
        VectorLimits { members: 10_000, boots: 32, vector_bytes: 7000 }
    }
}

/// The state of one member.
#[derive(Debug, Clone, Copy)]
struct KnownNumber {
    sequence: u64,
    /// When that number was learned; never, if it was known from the beginning.
    learned_at: Option<Duration>,
}

/// Number of members that changed last, which are sent first if not all fit.
const RECENT: usize = 64;

#[derive(Debug)]
pub(crate) struct MemberTable {
    limits: VectorLimits,
    known: BTreeMap<GroupMember, KnownNumber>,
    /// Bytes of a vector of all members.
    bytes: usize,
    /// Recently changed members, newest last.
    recent: VecDeque<GroupMember>,
    /// The last member of the last part.
    cursor: Option<GroupMember>,
}

impl MemberTable {
    pub(crate) fn new(limits: VectorLimits) -> Self {
        let recent = VecDeque::new();
        MemberTable { limits, known: BTreeMap::new(), bytes: 0, recent, cursor: None }
    }

    /// The latest number of `member`; 0 if there is none.
    pub(crate) fn get(&self, member: &GroupMember) -> u64 {
        self.known.get(member).map_or(0, |known| known.sequence)
    }

    /// Whether the number of `member` was learned after `time`.
    pub(crate) fn learned_after(&self, member: &GroupMember, time: Duration) -> bool {
        self.known.get(member).and_then(|known| known.learned_at).is_some_and(|at| at > time)
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&GroupMember, u64)> {
        self.known.iter().map(|(member, known)| (member, known.sequence))
    }

    /// Whether all members fit into one packet.
    pub(crate) fn fits(&self) -> bool {
        self.bytes <= self.limits.vector_bytes
    }

    /// Stores a number that is larger than the known one. False if the table is full, if the member takes more than a
    /// quarter of a vector, or if its bootstrap time is older than all that are kept of its name.
    pub(crate) fn raise(
        &mut self,
        now: Option<Duration>,
        member: &GroupMember,
        sequence: u64,
    ) -> bool {
        let known = KnownNumber { sequence, learned_at: now };
        if let Some(place) = self.known.get_mut(member) {
            *place = known;
        } else {
            let bytes = StateVector::entry_len(member);
            if bytes > self.limits.vector_bytes / 4 {
                return false;
            }
            let boots = self.boots(&member.name);
            if boots.len() >= self.limits.boots {
                match boots.first() {
                    Some(oldest) if *oldest < member.boot => {
                        self.forget(&GroupMember::new(member.name.clone(), *oldest));
                    }
                    _ => return false,
                }
            }
            if self.known.len() >= self.limits.members {
                return false;
            }
            self.bytes = self.bytes.saturating_add(bytes);
            self.known.insert(member.clone(), known);
        }
        self.recent.retain(|recent| recent != member);
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(member.clone());
        true
    }

    /// The bootstrap times of a name, oldest first.
    fn boots(&self, name: &Name) -> Vec<u64> {
        let (first, last) =
            (GroupMember::new(name.clone(), 0), GroupMember::new(name.clone(), u64::MAX));
        self.known.range(first..=last).map(|(member, _)| member.boot).collect()
    }

    fn forget(&mut self, member: &GroupMember) {
        if self.known.remove(member).is_some() {
            self.bytes = self.bytes.saturating_sub(StateVector::entry_len(member));
            self.recent.retain(|recent| recent != member);
        }
    }

    /// All known numbers.
    pub(crate) fn vector(&self) -> StateVector {
        self.iter().map(|(member, sequence)| (member.clone(), sequence)).collect()
    }

    /// The vector to send: all numbers if they fit. Otherwise as many as fit, in this order: members in `first`, those
    /// that changed last, and of all others those in turn.
    pub(crate) fn vector_to_send<'a>(
        &mut self,
        first: impl Iterator<Item = &'a GroupMember>,
    ) -> StateVector {
        if self.fits() {
            return self.vector();
        }
        let mut part = PartialVector { vector: StateVector::new(), left: self.limits.vector_bytes };
        for member in first {
            if !part.add_member(member, self.get(member)) {
                break;
            }
        }
        for member in self.recent.iter().rev() {
            // Half of the vector is for members in turn.
            if part.left < self.limits.vector_bytes / 2
                || !part.add_member(member, self.get(member))
            {
                break;
            }
        }
        let turn = match &self.cursor {
            Some(cursor) => {
                self.known.range((std::ops::Bound::Excluded(cursor), std::ops::Bound::Unbounded))
            }
            None => self.known.range::<GroupMember, _>(..),
        };
        let mut last = None;
        for (member, known) in turn.chain(self.known.iter()).take(self.known.len()) {
            if !part.add_member(member, known.sequence) {
                break;
            }
            last = Some(member.clone());
        }
        self.cursor = last.or(self.cursor.take());
        part.vector
    }
}

/// A vector that is being filled.
struct PartialVector {
    vector: StateVector,
    left: usize,
}

impl PartialVector {
    /// Adds a member; false if there is no room.
    fn add_member(&mut self, member: &GroupMember, sequence: u64) -> bool {
        if self.vector.get(member) != 0 {
            return true;
        }
        let Some(left) = self.left.checked_sub(StateVector::entry_len(member)) else {
            return false;
        };
        self.left = left;
        self.vector.raise(member.clone(), sequence);
        true
    }
}
