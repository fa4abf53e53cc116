//! [`ShareMeter`] and [`SeedMeter`]: counts of what this process serves, and the page that shows them, which is the same
//! for `share`, `get --seed` and the background node.

use crate::output::text::clean;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xylem_node::{Event, GetterReport, GetterState};
use xylem_packet::Name;
use xylem_publish::registry::share_id;
use xylem_publish::served::{ServedCounts, ServedMeter};

/// Most getters that are known at once; what more of them are sent is not counted. A share has fewer faces.
const MAX_GETTERS: usize = 65_536;

/// One share on the page.
#[derive(Clone, Debug)]
pub(crate) struct MeteredShare {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    /// Whether it can be fetched now.
    pub(crate) is_served: bool,
    pub(crate) counts: ServedCounts,
}

impl MeteredShare {
    fn new(path: &Path, name: Option<&str>) -> Self {
        let path = xylem_base::canonical(path).unwrap_or_else(|_| path.to_path_buf());
        let (id, counts) = (share_id(&path, name), ServedCounts::default());
        Self { id, path, is_served: true, counts }
    }
}

/// The page, in the text format of Prometheus. `peers`: links that are up.
pub(crate) fn page(shares: &[MeteredShare], peers: usize) -> String {
    let served = shares.iter().filter(|share| share.is_served).count();
    let mut page = String::new();
    let mut gauge = |name: &str, help: &str, value: usize| {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    };
    gauge("xylem_shares", "Shares that are registered.", shares.len());
    gauge("xylem_shares_served", "Shares that can be fetched now.", served);
    gauge("xylem_peers", "Links that are up.", peers);
    type Value = fn(&ServedCounts) -> u64;
    let counters: [(&str, &str, Value); 3] = [
        ("xylem_share_sent_bytes_total", "Bytes of packets sent for the share.", |it| it.bytes),
        ("xylem_share_peers_total", "Links over which the share was requested.", |it| it.peers),
        ("xylem_share_fetched_total", "Complete fetches of the share.", |it| it.fetched),
    ];
    for (name, help, value) in counters {
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
        for MeteredShare { id, path, counts, .. } in shares {
            let (path, value) = (escaped(&path.to_string_lossy()), value(counts));
            let _ = writeln!(page, "{name}{{id=\"{id}\",path=\"{path}\"}} {value}");
        }
    }
    page
}

/// Escapes a label's value for the text format.
fn escaped(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(clean).collect();
    lines.join("\n").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The counts of `share`, made of its events.
#[derive(Clone, Default)]
pub(crate) struct ShareMeter(Arc<Mutex<MeterState>>);

#[derive(Default)]
struct MeterState {
    /// The versioned name of each publication, and the share.
    shares: Vec<(Name, MeteredShare)>,
    /// For each getter by its number the place in `shares`, and what it was sent.
    getters: HashMap<u64, (usize, u64)>,
    peers: usize,
}

impl ShareMeter {
    fn state(&self) -> MutexGuard<'_, MeterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a share: the publication `publication` of `path`. `name`: the name that was asked for.
    pub(crate) fn shared(&self, path: &Path, name: Option<&str>, publication: &Name) {
        self.state().shares.push((publication.clone(), MeteredShare::new(path, name)));
    }

    /// Counts what an event of the share reports.
    pub(crate) fn see(&self, event: &Event) {
        match event {
            Event::Getter(told) => self.state().getter(told),
            Event::Fetched(told) => {
                let mut state = self.state();
                if let Some(at) = state.place(&told.name) {
                    let counts = &mut state.shares[at].1.counts;
                    counts.fetched = counts.fetched.saturating_add(1);
                }
            }
            Event::PeerConnected { .. } => {
                let mut state = self.state();
                state.peers = state.peers.saturating_add(1);
            }
            Event::PeerGone { .. } => {
                let mut state = self.state();
                state.peers = state.peers.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// The page of now; what was sent in the last second may be missing.
    pub(crate) fn page(&self) -> String {
        let state = self.state();
        let shares: Vec<_> = state.shares.iter().map(|(_, share)| share.clone()).collect();
        page(&shares, state.peers)
    }
}

impl MeterState {
    /// The place of a publication. A file that grows has another version meanwhile.
    fn place(&self, name: &Name) -> Option<usize> {
        let all = || self.shares.iter().map(|(known, _)| known);
        let exact = all().position(|known| known == name);
        exact.or_else(|| all().position(|known| known.as_ref().parent() == name.as_ref().parent()))
    }

    fn getter(&mut self, told: &GetterReport) {
        let Some(at) = self.place(&told.name) else { return };
        let known = self.getters.get(&told.number).copied();
        if known.is_none() && self.getters.len() >= MAX_GETTERS {
            return;
        }
        let (at, before) = known.unwrap_or((at, 0));
        let counts = &mut self.shares[at].1.counts;
        counts.bytes = counts.bytes.saturating_add(told.sent.saturating_sub(before));
        counts.peers = counts.peers.saturating_add(u64::from(known.is_none()));
        match told.state {
            GetterState::Ended => self.getters.remove(&told.number),
            _ => self.getters.insert(told.number, (at, told.sent)),
        };
    }
}

/// The counts of `get --seed`.
#[derive(Clone, Default)]
pub(crate) struct SeedMeter {
    /// The result, once it is complete.
    seeded: Arc<Mutex<Option<MeteredShare>>>,
    served: ServedMeter,
}

impl SeedMeter {
    /// What the fetch keeps up to date.
    pub(crate) fn served(&self) -> ServedMeter {
        self.served.clone()
    }

    /// Sees an event of the fetch.
    pub(crate) fn see(&self, event: &Event) {
        if let Event::Seeding(summary) = event
            && let Some(path) = &summary.path
        {
            let share = MeteredShare::new(path, None);
            *self.seeded.lock().unwrap_or_else(PoisonError::into_inner) = Some(share);
        }
    }

    /// The page of now. It has no share before the fetch is complete.
    pub(crate) fn page(&self) -> String {
        let (counts, links) = self.served.read();
        let seeded = self.seeded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shares: Vec<_> =
            seeded.into_iter().map(|share| MeteredShare { counts, ..share }).collect();
        page(&shares, links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_labels_stay_on_one_line() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!(escaped("a\u{1b}\u{202e}"), "a\\\\u{1b}\\\\u{202e}");
    }
}
