//! [`VersionDialer`]: fetches versions of publications from peers, for [`xylem_witness`].

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use bytes::Bytes;
use xylem_base::{Stop, UnixTime};
use xylem_files::LibraryEvent;
use xylem_object::witness::SignedVersion;
use xylem_object::{Manifest, ObjectId, PublisherId, Ticket, naming};
use xylem_packet::Name;
use xylem_peers::reachable::{PeerAddress, Relay};
use xylem_transfer::{TransferEvent, TransferSpec};
use xylem_tree::{Geometry, Node, NodeValue, SegmentIndex, consistency};

use crate::event::Event;
use crate::fetch::{Fetch, FetchError, FetchNext};
use crate::shaping::LinkOptions;
use xylem_engine::wall_clock;
use xylem_witness::{DialVersions, QuestionError, VersionSource};

/// How to reach the peers of tickets. The fields have the meaning of those of [`crate::GetOptions`].
pub struct VersionDialer<'a> {
    /// Peers to ask instead of the ticket's.
    pub from: &'a [PeerAddress],
    /// Further relays, besides the ticket's, at which to look for a sharer.
    pub relays: &'a [Relay],
    /// Options of encrypted links.
    pub links: &'a LinkOptions,
    /// Whether to query in the clear which peer answers.
    pub ask_who_answers: bool,
    /// Whether to search the LAN while no peer answers at the ticket's addresses.
    pub lan: bool,
    /// Whether to wait for a sharer that its relays report absent.
    pub wait: bool,
    /// Ends the search.
    pub stop: &'a Stop,
    /// Called for each event.
    pub on_event: &'a mut dyn FnMut(Event),
}

impl DialVersions for VersionDialer<'_> {
    type Error = FetchError;

    type VersionFetch<'s>
        = Asked<'s>
    where
        Self: 's;

    fn dial(&mut self, ticket: &Ticket, give_up: Duration) -> Result<Asked<'_>, FetchError> {
        let Self { from, relays, links, stop, .. } = *self;
        let asks = self.ask_who_answers;
        let fetch = Fetch::through(ticket, from, relays, give_up, None, links, asks)?;
        let fetch = fetch.waiting(self.wait);
        let fetch = if self.lan { fetch.asking_the_lan(ticket) } else { fetch };
        Ok(Asked::of(
            VersionPeers::Own(Box::new(fetch)),
            ticket.publisher,
            stop,
            &mut *self.on_event,
        ))
    }
}

/// The peers to ask: those of a fetch of our own, or those of a follower's fetch.
pub(super) enum VersionPeers<'a> {
    Own(Box<Fetch>),
    Of(&'a mut Fetch),
}

impl Deref for VersionPeers<'_> {
    type Target = Fetch;

    fn deref(&self) -> &Fetch {
        match self {
            Self::Own(fetch) => fetch,
            Self::Of(fetch) => fetch,
        }
    }
}

impl DerefMut for VersionPeers<'_> {
    fn deref_mut(&mut self) -> &mut Fetch {
        match self {
            Self::Own(fetch) => fetch,
            Self::Of(fetch) => fetch,
        }
    }
}

/// The peers of one ticket.
pub struct Asked<'a> {
    fetch: VersionPeers<'a>,
    publisher: PublisherId,
    /// The manifest that was fetched last.
    at: Option<Manifest>,
    connected: bool,
    stop: &'a Stop,
    on_event: &'a mut dyn FnMut(Event),
}

impl<'a> Asked<'a> {
    pub(super) fn of(
        fetch: VersionPeers<'a>,
        publisher: PublisherId,
        stop: &'a Stop,
        on_event: &'a mut dyn FnMut(Event),
    ) -> Self {
        Self { fetch, publisher, at: None, connected: false, stop, on_event }
    }

    fn run<T>(
        &mut self,
        run: impl FnOnce(&mut Fetch, &Stop, &mut dyn FnMut(Event)) -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        let Self { fetch, connected, stop, on_event, .. } = self;
        let mut tell = |event| {
            *connected |= matches!(event, Event::PeerConnected { .. });
            on_event(event);
        };
        run(fetch, stop, &mut tell)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let VersionPeers::Own(fetch) = &mut self.fetch {
            fetch.leave(self.stop, self.on_event);
        }
    }
}

impl VersionSource for Asked<'_> {
    type Error = FetchError;

    fn now(&self) -> Duration {
        self.fetch.now()
    }

    fn clock(&self) -> UnixTime {
        wall_clock()
    }

    fn of_ticket(&mut self) -> Result<SignedVersion, FetchError> {
        self.at = Some(self.run(Fetch::manifest)?);
        SignedVersion::open(self.fetch.manifest_packet(), self.publisher)
            .map_err(FetchError::Version)
    }

    fn version(&mut self, object: &Name, version: u64) -> Result<SignedVersion, FetchError> {
        let prefix = naming::versioned(object.as_ref(), version).map_err(FetchError::Name)?;
        let publisher = self.publisher;
        self.fetch.change_publication(TransferSpec {
            prefix,
            publisher,
            root: None,
            size: None,
        })?;
        self.of_ticket()
    }

    fn proof(&mut self, old_bytes: u64) -> Result<Vec<u8>, FetchError> {
        let Some(manifest) = self.at.clone() else { return Ok(Vec::new()) };
        self.run(|fetch, stop, on_event| proof(fetch, old_bytes, &manifest, stop, on_event))
    }

    fn watch(&mut self, object: Name) {
        self.fetch.watch(object);
    }

    fn ask(&mut self, interest: &[u8]) {
        self.fetch.ask_all(interest);
    }

    fn ask_each(
        &mut self,
        make: &mut dyn FnMut() -> Result<Vec<u8>, QuestionError>,
    ) -> Result<(), QuestionError> {
        self.fetch.ask_each(make)
    }

    fn next_answer(&mut self) -> Option<Bytes> {
        self.fetch.next_pointer()
    }

    fn wait(&mut self, until: Duration) -> Result<(), FetchError> {
        self.run(|fetch, stop, on_event| fetch.run_once(Some(until), stop, on_event))
    }

    fn has_connected(&mut self) -> bool {
        std::mem::take(&mut self.connected)
    }

    fn tell(&mut self, event: LibraryEvent) {
        (self.on_event)(Event::Library(event));
    }
}

/// The consistency proof of a checkpoint with an earlier one of `old_bytes`. `manifest` is the checkpoint's and arrived
/// last.
pub(super) fn proof(
    fetch: &mut Fetch,
    old_bytes: u64,
    manifest: &Manifest,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Vec<u8>, FetchError> {
    let (geometry, mut proof) = (manifest.geometry(), Vec::new());
    let older = Geometry::new(old_bytes, manifest.segment).with_kind(manifest.tree);
    if let Some(needs) = consistency::needs(&older, &geometry) {
        let (content, nodes) = segment(fetch, needs.segment, manifest, stop, on_event)?;
        let value = |node: Node| nodes.get(&node).copied();
        if !consistency::prove(&older, &geometry, &content, value, &mut proof) {
            return Err(FetchError::Unproven);
        }
    }
    Ok(proof)
}

/// Fetches one segment, and returns it with all nodes that were proven on the way.
fn segment(
    fetch: &mut Fetch,
    i: SegmentIndex,
    manifest: &Manifest,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(Bytes, HashMap<Node, NodeValue>), FetchError> {
    let wanted = std::iter::once(i.0..i.0 + 1);
    fetch
        .transfer()
        .add_object(ObjectId::Root, manifest.root, manifest.geometry(), wanted, [], None)
        .map_err(FetchError::Object)?;
    let (mut content, mut nodes) = (Bytes::new(), HashMap::new());
    fetch.run_until(stop, on_event, |look| {
        while let Some(event) = look.next_event()? {
            match event {
                TransferEvent::Segment { segment, .. } => content = segment.content.clone(),
                TransferEvent::Nodes { nodes: proven, .. } => nodes.extend(proven.iter().copied()),
                TransferEvent::ObjectComplete(_) => return Ok(FetchNext::Done),
                _ => {}
            }
        }
        Ok(FetchNext::Wait(None))
    })?;
    Ok((content, nodes))
}
