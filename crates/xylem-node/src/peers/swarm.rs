//! [`Swarm`]: one fetch among other peers. It starts to serve, asks for further peers, and dials them.

use std::time::Duration;

use xylem_files::held::Holdings;
use xylem_forward::FaceId;
use xylem_packet::Name;
use xylem_peers::Finder;
use xylem_peers::reachable::FaceAddress;
use xylem_sink::PeerBytes;

use super::address_of;
use super::host::{HostError, HostOffer, SeedHost};
use crate::dial::Dialler;
use crate::event::Event;
use xylem_engine::Engine;

/// A fetch that is over sooner neither listens nor asks: no peer would gain from it.
const SETTLING: Duration = Duration::from_millis(200);

/// Pause before a reported peer that does not answer at its own addresses is dialled through introducers.
const INTRODUCED_AFTER: Duration = Duration::from_secs(1);

/// Most reported peers remembered for that.
const MAX_INTRODUCED: usize = 32;

/// The dealings of a fetch with other peers, apart from fetching.
pub(crate) struct Swarm {
    finder: Finder,
    offer: Option<HostOffer>,
    host: Option<SeedHost>,
    starts_at: Duration,
    /// Reported peers, and when to dial each through introducers.
    introduced: Vec<(Duration, [u8; 32])>,
    /// Bytes by peer, for links that are gone.
    bytes: Vec<PeerBytes>,
}

impl Swarm {
    /// Starts with a fetch that begins now. It serves if there is an `offer`.
    pub(crate) fn new(
        name: Name,
        linked: Vec<[u8; 32]>,
        dialler: &Dialler,
        now: Duration,
        offer: Option<HostOffer>,
    ) -> Self {
        let named: Vec<_> = dialler.named_keys().chain(linked).collect();
        let starts_at = now + SETTLING;
        let finder = Finder::new(name, named, dialler.may_find(), starts_at);
        Self { finder, offer, host: None, starts_at, introduced: Vec::new(), bytes: Vec::new() }
    }

    /// The holdings in which sinks record verified content.
    pub(crate) fn holdings(&self) -> Option<&Holdings> {
        self.offer.as_ref().map(|offer| &offer.holdings)
    }

    /// Starts to serve at once. Used when the caller requested an address, or serving in any case: then a failure ends
    /// the run.
    ///
    /// # Errors
    /// Those of [`Host::start`].
    pub(crate) fn serve_now(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), HostError> {
        let Some(offer) = &self.offer else { return Ok(()) };
        let host = SeedHost::start(offer.clone())?;
        if let Some(announcement) = host.announcement() {
            self.finder.announce(announcement);
        }
        let (listen, key, ticket) = (host.listen().to_vec(), host.key(), host.ticket());
        on_event(Event::Offering { listen, key, ticket });
        self.host = Some(host);
        Ok(())
    }

    /// When [`Swarm::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let starts = (self.offer.is_some() && self.host.is_none()).then_some(self.starts_at);
        let introduced = self.introduced.iter().map(|(at, _)| *at);
        starts.into_iter().chain(self.finder.poll_timeout()).chain(introduced).min()
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        dialler: &mut Dialler,
        on_event: &mut dyn FnMut(Event),
    ) {
        let now = engine.now();
        if now >= self.starts_at && self.host.is_none() && self.offer.is_some() {
            self.starts_at = now + SETTLING;
            // Forwarders do not get our address, so that no peer finds us through them.
            let linked = dialler.links().next().is_some();
            if linked && let Err(e) = self.serve_now(on_event) {
                self.offer = None;
                let what = format!("the fetched content is not served to other peers: {e}");
                on_event(Event::warning(what));
            }
        }
        if self.finder.poll_timeout().is_some_and(|at| now >= at) {
            // Peers that learn of us from this announcement dial through these introducers.
            let host = self.host.as_ref();
            host.iter().for_each(|host| host.introduced_by(dialler.introducers(engine)));
            self.finder.ask(now, dialler.links(), &mut |face, asked| engine.ask(face, asked));
        }
        self.dial_introduced(engine, dialler);
        while let Some(found) = self.finder.next(now) {
            tracing::debug!(addresses = ?found.addresses, "dialling a peer that other peers reported");
            let tried = dialler.dial_found(engine, &found);
            if self.introduced.len() < MAX_INTRODUCED {
                self.introduced.push((now + INTRODUCED_AFTER, found.key));
            }
            if tried < found.addresses.len() {
                self.finder.ended(now, found.key, tried);
            }
        }
    }

    /// Dials reported peers that have not come up through those that have.
    fn dial_introduced(&mut self, engine: &mut Engine, dialler: &mut Dialler) {
        let now = engine.now();
        let due: Vec<_> = self.introduced.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, key) in due {
            for introducer in dialler.introducers(engine) {
                dialler.dial_introduced(engine, key, introducer);
            }
        }
    }

    /// Handles a packet that may answer a question of this swarm. Returns whether it does.
    pub(crate) fn handle_answer(
        &mut self,
        engine: &Engine,
        now: Duration,
        from: FaceId,
        packet: &[u8],
    ) -> bool {
        let near = || address_of(engine, from).is_some_and(|ip| ip.is_loopback());
        self.finder.handle_answer(now, from, near, packet)
    }

    /// Handles a face that came up and is in use.
    pub(crate) fn came_up(&mut self, dialler: &Dialler, face: FaceId) {
        if let Some(found) = dialler.found_at(face) {
            self.finder.came_up(found.key);
        }
    }

    /// Handles a face that is gone. Call it before the dialler's.
    pub(crate) fn went_down(&mut self, now: Duration, dialler: &Dialler, face: FaceId) {
        self.finder.went_down(face);
        match dialler.found_at(face) {
            // It was a second address of a connected peer, and is not needed.
            Some(found) if found.up => self.finder.came_up(found.key),
            Some(found) => self.finder.ended(now, found.key, found.others),
            None => {}
        }
    }

    /// Counts `bytes` of content from `peer`, for a link that is gone or at the end.
    pub(crate) fn count(&mut self, peer: &FaceAddress, bytes: u64) {
        match self.bytes.iter_mut().find(|known| known.peer == *peer) {
            Some(known) => known.bytes += bytes,
            None => self.bytes.push(PeerBytes { peer: peer.clone(), bytes }),
        }
    }

    /// Bytes of content by peer.
    pub(crate) fn bytes(&self) -> Vec<PeerBytes> {
        self.bytes.clone()
    }

    /// Bytes of content sent to other peers.
    pub(crate) fn served(&self) -> u64 {
        self.host.as_ref().map_or(0, SeedHost::served)
    }

    /// The fetch is over: from now on only announces our address to peers.
    pub(crate) fn stop_finding(&mut self) {
        self.finder.stop_following();
    }
}
