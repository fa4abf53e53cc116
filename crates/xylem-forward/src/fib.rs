//! The forwarding information base (FIB): which faces lead to which names.

use crate::FaceId;
use crate::memory::Flat;

/// A next hop of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The face.
    pub face: FaceId,
    /// Among next hops of one name, the cheapest is tried first.
    pub cost: u32,
    /// The number of components by which the name that it was inherited from is shorter; 0 for the entry's own. Lower
    /// values are tried first, as the longest prefix of a name is.
    pub above: u8,
}

impl Default for NextHop {
    fn default() -> Self {
        NextHop { face: FaceId(0), cost: 0, above: 0 }
    }
}

/// Removes the next hop over `face`. Returns whether there was one.
pub(crate) fn remove_hop(hops: &mut impl Flat<NextHop>, face: FaceId) -> bool {
    let at = hops.as_slice().iter().position(|hop| hop.face == face);
    if let Some(at) = at {
        hops.remove(at);
    }
    at.is_some()
}

/// Inserts a next hop in order: nearest first, then cheapest, then the lowest face number. Returns false if there is no
/// room.
pub(crate) fn insert_hop(hops: &mut impl Flat<NextHop>, hop: NextHop) -> bool {
    let rank = |hop: &NextHop| (hop.above, hop.cost, hop.face);
    let at = hops.as_slice().partition_point(|other| rank(other) < rank(&hop));
    if !hops.push(hop) {
        return false;
    }
    hops.as_mut_slice()[at..].rotate_right(1);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Array;

    #[test]
    fn the_cheapest_hop_is_first() {
        let mut hops: Array<NextHop, 3> = Array::default();
        let hop = |face, cost| NextHop { face: FaceId(face), cost, above: 0 };
        for (face, cost) in [(1, 9), (2, 1), (3, 1)] {
            assert!(insert_hop(&mut hops, hop(face, cost)));
        }
        assert!(!insert_hop(&mut hops, hop(4, 0)), "full");
        assert_eq!(hops.as_slice(), [hop(2, 1), hop(3, 1), hop(1, 9)]);
        assert!(remove_hop(&mut hops, FaceId(2)) && !remove_hop(&mut hops, FaceId(2)));
        assert_eq!(hops.as_slice(), [hop(3, 1), hop(1, 9)]);
    }

    #[test]
    fn the_hop_of_the_longest_prefix_is_first() {
        let mut hops: Array<NextHop, 3> = Array::default();
        let hop = |face, cost, above| NextHop { face: FaceId(face), cost, above };
        for hop in [hop(1, 0, 2), hop(2, 0, 1), hop(3, 9, 0)] {
            assert!(insert_hop(&mut hops, hop));
        }
        assert_eq!(hops.as_slice(), [hop(3, 9, 0), hop(2, 0, 1), hop(1, 0, 2)]);
    }
}
