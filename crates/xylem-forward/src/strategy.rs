//! Where an Interest goes: route look-up and the best-route strategy.

use xylem_packet::{Interest, NackReason};

use crate::FaceId;
use crate::fib::{Fib, NextHop};
use crate::name_hash::NameHasher;
use crate::pit::Entry;

/// The ways that an Interest may go: those of its name; failing that (or if only the default route
/// fits), those of its forwarding hint's first delegation that has any.
pub(crate) fn next_hops<'f>(
    fib: &'f Fib,
    hasher: &NameHasher,
    interest: &Interest<'_>,
    hashes: &[u64],
) -> &'f [NextHop] {
    let by_name = fib.lookup(interest.name(), hashes);
    if let Some((1.., hops)) = by_name {
        return hops;
    }
    let mut of_hint = Vec::new();
    for delegation in interest.forwarding_hint() {
        hasher.hash_prefixes(delegation, &mut of_hint);
        if let Some((1.., hops)) = fib.lookup(delegation, &of_hint) {
            return hops;
        }
    }
    by_name.map_or(&[], |(_, hops)| hops)
}

/// The best-route strategy: the cheapest way not tried yet; when all have been, the one tried
/// longest ago.
pub(crate) fn best_route(
    hops: &[NextHop],
    entry: &Entry,
    may_go: impl Fn(FaceId) -> bool,
) -> Option<FaceId> {
    let sent = |hop: &&NextHop| {
        entry.out_records.iter().find(|record| record.face == hop.face).map(|record| record.sent)
    };
    // `None`, not tried, sorts before every time; of equals the first, which is the cheapest.
    hops.iter().filter(|hop| may_go(hop.face)).min_by_key(sent).map(|hop| hop.face)
}

/// Nack reasons from mild to severe; unknown ones are severe.
pub(crate) fn severity(reason: &NackReason) -> u8 {
    match *reason {
        NackReason::CONGESTION => 0,
        NackReason::DUPLICATE => 1,
        NackReason::NO_ROUTE => 2,
        _ => 3,
    }
}
