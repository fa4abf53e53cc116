//! status/general.

use crate::{GeneralStatus, Host};

/// Sums over the faces that are there; what faces that have gone had carried is not in them.
pub(super) fn general(host: &impl Host) -> Vec<u8> {
    let forwarder = host.forwarder_ref();
    let totals = forwarder.totals();
    let mut status = GeneralStatus {
        version: host.version(),
        start_ms: host.started_ms(),
        current_ms: host.now_ms(),
        fib_entries: forwarder.fib_len() as u64,
        pit_entries: forwarder.pit_len() as u64,
        cs_entries: forwarder.cs().packets as u64,
        satisfied: totals.satisfied,
        unsatisfied: totals.expired,
        ..GeneralStatus::default()
    };
    for counters in forwarder.faces().filter_map(|face| forwarder.counters(face)) {
        status.in_interests += counters.in_interests;
        status.in_data += counters.in_data;
        status.in_nacks += counters.in_nacks;
        status.out_interests += counters.out_interests;
        status.out_data += counters.out_data;
        status.out_nacks += counters.out_nacks;
    }
    let mut content = Vec::new();
    status.write_value(&mut content);
    content
}
