//! status/general.

use crate::{GeneralStatus, ManagementHost};

/// Counters since the start.
pub(super) fn general(host: &impl ManagementHost) -> Vec<u8> {
    let forwarder = host.forwarder_ref();
    let (totals, carried) = (forwarder.totals(), forwarder.carried());
    let status = GeneralStatus {
        version: host.version(),
        start_ms: host.started_ms(),
        current_ms: host.now_ms(),
        fib_entries: forwarder.fib_len() as u64,
        pit_entries: forwarder.pit_len() as u64,
        cs_entries: forwarder.cs().packets as u64,
        satisfied: totals.satisfied,
        unsatisfied: totals.expired,
        in_interests: carried.in_interests,
        in_data: carried.in_data,
        in_nacks: carried.in_nacks,
        out_interests: carried.out_interests,
        out_data: carried.out_data,
        out_nacks: carried.out_nacks,
        ..GeneralStatus::default()
    };
    let mut content = Vec::new();
    status.write_value(&mut content);
    content
}
