//! [`CountReport`]: what a node has forwarded, at intervals, for its page of metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use xylem_engine::Engine;

use crate::event::Event;

/// The time of the next report, and the counts of the last.
pub(super) struct CountReport {
    every: Duration,
    due: Duration,
    told: BTreeMap<&'static str, u64>,
}

impl CountReport {
    pub(super) fn every(every: Duration) -> Self {
        Self { every, due: Duration::ZERO, told: BTreeMap::new() }
    }

    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// Reports counts that have changed.
    pub(super) fn report(
        &mut self,
        engine: &Engine,
        now: Duration,
        on_event: &mut dyn FnMut(Event),
    ) {
        if now < self.due {
            return;
        }
        self.due = now.saturating_add(self.every);
        let counts = counts(engine);
        if counts != self.told {
            self.told.clone_from(&counts);
            on_event(Event::Forwarded { counts });
        }
    }
}

/// The numbers of status/general, and bytes, drops and the content store's.
fn counts(engine: &Engine) -> BTreeMap<&'static str, u64> {
    let forwarder = &engine.forwarder;
    let (carried, totals, cs) = (forwarder.carried(), forwarder.totals(), forwarder.cs());
    BTreeMap::from([
        ("faces", engine.faces().count() as u64),
        ("fib_entries", forwarder.fib_len() as u64),
        ("pit_entries", forwarder.pit_len() as u64),
        ("cs_packets", cs.packets as u64),
        ("cs_bytes", cs.bytes as u64),
        ("cs_hits", cs.hits),
        ("cs_misses", cs.misses),
        ("in_interests", carried.in_interests),
        ("in_data", carried.in_data),
        ("in_nacks", carried.in_nacks),
        ("in_bytes", carried.in_bytes),
        ("in_dropped", carried.in_dropped),
        ("out_interests", carried.out_interests),
        ("out_data", carried.out_data),
        ("out_nacks", carried.out_nacks),
        ("out_bytes", carried.out_bytes),
        ("satisfied", totals.satisfied),
        ("expired", totals.expired),
        ("no_route", totals.no_route),
        ("limited", totals.limited),
    ])
}
