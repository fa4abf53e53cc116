//! [`ShareGetters`]: the faces that are up, and what was served over each of them.

use std::collections::HashMap;
use std::time::Duration;

use xylem_engine::Engine;
use xylem_forward::FaceId;
use xylem_peers::reachable::{FaceAddress, WayTaken};
use xylem_publish::publications::{PublicationId, Publications, ServedContent};
use xylem_publish::served::{GetterTraffic, ServedStats};

use super::ServiceSnapshot;
use crate::event::{Event, FetchReport, GetterReport, GetterState};

/// Interval of link statistics. [`MOST_LOOKED_AT`]: most links included.
const LINK_STATISTICS_EVERY: Duration = Duration::from_secs(1);
const MOST_LOOKED_AT: usize = 256;

/// See the module's documentation. Getters are reported while their face is up and their publication is shared.
#[derive(Default)]
pub(super) struct ShareGetters {
    served: ServedStats,
    up: HashMap<FaceId, FaceAddress>,
    /// When the next link statistics are due.
    look: Duration,
}

impl ShareGetters {
    /// Number of faces that are up.
    pub(super) fn count(&self) -> usize {
        self.up.len()
    }

    /// Whether one of them comes through a relay.
    pub(super) fn is_relayed(&self) -> bool {
        self.up.values().any(|at| matches!(at, FaceAddress::Relayed(_)))
    }

    /// Counts of what was served so far.
    pub(super) fn snapshot(&mut self) -> ServiceSnapshot {
        ServiceSnapshot { counts: self.served.counts().clone(), peers: self.up.len() }
    }

    pub(super) fn face_up(&mut self, face: FaceId, peer: FaceAddress) {
        self.up.insert(face, peer);
    }

    /// Records that a face leads elsewhere now. Returns where it led before.
    pub(super) fn moved(&mut self, face: FaceId, to: FaceAddress) -> Option<FaceAddress> {
        self.up.get_mut(&face).map(|known| std::mem::replace(known, to))
    }

    /// Removes a face, and reports the end of each getter on it.
    pub(super) fn face_down(
        &mut self,
        now: Duration,
        face: FaceId,
        of: &Publications,
        on_event: &mut dyn FnMut(Event),
    ) {
        let ended = self.served.face_down(now, face);
        self.report_all(GetterState::Ended, ended, of, on_event);
        self.up.remove(&face);
    }

    /// Reports the end of each getter: the share ends.
    pub(super) fn end(
        &mut self,
        now: Duration,
        of: &Publications,
        on_event: &mut dyn FnMut(Event),
    ) {
        let ended = self.served.all_down(now);
        self.report_all(GetterState::Ended, ended, of, on_event);
    }

    /// Reports the end of each getter of a publication. Call it before the publication is removed.
    pub(super) fn withdraw(
        &mut self,
        now: Duration,
        id: PublicationId,
        of: &Publications,
        on_event: &mut dyn FnMut(Event),
    ) {
        let ended = self.served.withdrawn(now, id);
        self.report_all(GetterState::Ended, ended, of, on_event);
    }

    /// Counts bytes sent, and reports a getter's first.
    pub(super) fn sent(
        &mut self,
        now: Duration,
        id: PublicationId,
        face: FaceId,
        bytes: usize,
        of: &Publications,
        on_event: &mut dyn FnMut(Event),
    ) {
        let began = self.served.sent(now, id, face, bytes);
        self.report_all(GetterState::Began, began, of, on_event);
    }

    /// Takes a getter's notice that it has `fetched` bytes, all that it wants. Returns its report: one for each getter.
    pub(super) fn fetched(
        &mut self,
        now: Duration,
        id: PublicationId,
        face: FaceId,
        content: &ServedContent,
        fetched: u64,
    ) -> Option<Event> {
        let (sent, elapsed) = self.served.fetched(now, id, face)?;
        let peer = self.up.get(&face)?.clone();
        let (name, manifest) = content.newest();
        let bytes = manifest.total_size;
        Some(Event::Fetched(FetchReport { peer, name, bytes, fetched, sent, elapsed }))
    }

    /// Reports the getters that were sent something, when that is due.
    pub(super) fn handle_timeout(
        &mut self,
        now: Duration,
        of: &Publications,
        on_event: &mut dyn FnMut(Event),
    ) {
        let changed = self.served.report(now);
        self.report_all(GetterState::Continues, changed, of, on_event);
    }

    /// When [`Self::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.served.poll_timeout()
    }

    /// Statistics of links, when they are due.
    pub(super) fn statistics(&mut self, engine: &Engine, now: Duration) -> Option<Event> {
        self.next_statistics().filter(|next| now >= *next)?;
        self.look = now + LINK_STATISTICS_EVERY;
        let links = self.up.iter().take(MOST_LOOKED_AT);
        let links = links.filter_map(|(face, p)| Some((p.clone(), engine.link_stats(*face)?)));
        Some(Event::Serving { links: links.collect() })
    }

    /// When [`Self::statistics`] are due.
    pub(super) fn next_statistics(&self) -> Option<Duration> {
        (!self.up.is_empty()).then_some(self.look)
    }

    fn report_all(
        &self,
        state: GetterState,
        all: impl IntoIterator<Item = GetterTraffic>,
        of: &Publications,
        on_event: &mut dyn FnMut(Event),
    ) {
        for getter in all {
            let GetterTraffic { publication, face, number, sent, complete, elapsed } = getter;
            let content = of.get(publication);
            let Some((peer, content)) = self.up.get(&face).zip(content) else { continue };
            let (name, manifest) = content.newest();
            let (peer, way, bytes) = (peer.clone(), WayTaken::to(peer), manifest.total_size);
            let told =
                GetterReport { number, state, peer, way, name, bytes, sent, complete, elapsed };
            on_event(Event::Getter(told));
        }
    }
}
