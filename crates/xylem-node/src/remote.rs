//! [`RemotePeers`]: implements the library's [`Remote`] by fetches.

use std::cell::RefCell;

use crate::shaping::LinkOptions;
use xylem_base::{Blame, Failure, Stop};
use xylem_check::{Keep, Remote, Wanted};
use xylem_object::Ticket;
use xylem_peers::reachable::PeerAddress;
use xylem_transfer::AddError;
use xylem_tree::Geometry;

use crate::event::Event;
use crate::fetch::Fetch;
use crate::look_up::resolved;
use crate::scrub::RepairOptions;

/// Why lost segments cannot be requested.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Unrequested(AddError);

impl Failure for Unrequested {
    fn blame(&self) -> Blame {
        Blame::Usage
    }
}

/// A publication and the peers that may have it.
struct RemoteSource {
    ticket: Ticket,
    /// Empty: the ticket's own addresses.
    peers: Vec<PeerAddress>,
}

/// One fetch at a time, from one source after the other.
pub(crate) struct RemotePeers<'a, 'b> {
    repair: &'a RepairOptions,
    /// Our own link key. Peers with this key are left out.
    own: Option<[u8; 32]>,
    sources: Vec<RemoteSource>,
    /// Index of the source in use. Earlier sources have failed.
    asked: usize,
    fetch: Option<(Fetch, Geometry)>,
    /// Whether a peer sent something that did not verify.
    misbehaved: bool,
    /// The library reports through it as well, but never while it waits for a call here.
    on_event: &'a RefCell<&'b mut dyn FnMut(Event)>,
}

impl<'a, 'b> RemotePeers<'a, 'b> {
    pub(crate) fn new(
        repair: &'a RepairOptions,
        own: Option<[u8; 32]>,
        on_event: &'a RefCell<&'b mut dyn FnMut(Event)>,
    ) -> Self {
        let (sources, fetch) = (Vec::new(), None);
        Self { repair, own, sources, asked: 0, fetch, misbehaved: false, on_event }
    }

    /// The sources for a target: one for each publication that a ticket names.
    fn sources_of(&self, tickets: &[Ticket], named: usize) -> Vec<RemoteSource> {
        let own = self.own;
        let first_named = tickets.len() - named;
        // Peers that the caller names replace those of the record's ticket, as for `get`.
        let instead = named > 0 || !self.repair.peers.is_empty();
        let mut sources: Vec<RemoteSource> = Vec::new();
        for (i, ticket) in tickets.iter().enumerate() {
            let ours = ticket.link_key.is_some() && ticket.link_key == own;
            let key = ticket.link_key;
            let link = |address| PeerAddress::Link { address, key };
            // Our own addresses lead back to the damaged file.
            let usable = !ours && (!instead || i >= first_named);
            let addresses = if usable { resolved(&ticket.addresses).0 } else { Vec::new() };
            let peers: Vec<PeerAddress> = addresses.into_iter().map(link).collect();
            let same = |of: &Ticket| {
                (&of.name, of.publisher, of.root) == (&ticket.name, ticket.publisher, ticket.root)
            };
            let known = sources.iter_mut().find(|s| same(&s.ticket));
            match known {
                Some(source) => {
                    // Each peer has its own key from here on. The publisher has to vouch only for the ticket's
                    // addresses.
                    source.ticket.link_key = None;
                    source.ticket.addresses.extend(ticket.addresses.iter().cloned());
                    source.peers.extend(peers);
                }
                None => {
                    let mut ticket = ticket.clone();
                    if ours {
                        ticket.link_key = None;
                    }
                    sources.push(RemoteSource { ticket, peers });
                }
            }
        }
        for source in &mut sources {
            source.peers.extend(self.repair.peers.iter().cloned());
        }
        sources.retain(|source| !source.peers.is_empty());
        sources
    }
}

impl Remote for RemotePeers<'_, '_> {
    fn target(&mut self, tickets: &[Ticket], named: usize) {
        self.sources = self.sources_of(tickets, named);
        (self.asked, self.fetch, self.misbehaved) = (0, None, false);
    }

    fn connect(
        &mut self,
        why: &mut Option<Box<dyn Failure>>,
        stop: &Stop,
    ) -> Result<Option<Geometry>, Box<dyn Failure>> {
        while self.fetch.is_none() {
            let Some(source) = self.sources.get(self.asked) else { return Ok(None) };
            let RepairOptions { give_up, limit_rate, .. } = *self.repair;
            let links = LinkOptions::default();
            let RemoteSource { ticket, peers } = source;
            let fetch = Fetch::new(ticket, peers, give_up, limit_rate, &links, false);
            let own = self.own;
            let answered = fetch.and_then(|mut fetch| {
                fetch.drop_own_key(own);
                let manifest = self.noting(|on_event| fetch.manifest(stop, on_event))?;
                Ok((fetch, manifest.geometry()))
            });
            match answered {
                Ok(fetch) => self.fetch = Some(fetch),
                Err(e) if e.blame() == Blame::Interrupted => return Err(e.into()),
                Err(e) => {
                    *why = Some(e.into());
                    self.asked += 1;
                }
            }
        }
        Ok(self.fetch.as_ref().map(|(_, published)| *published))
    }

    fn fetch(
        &mut self,
        wanted: Vec<Wanted>,
        keep: &mut Keep<'_>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Failure>>, Box<dyn Failure>> {
        let Some((mut fetch, published)) = self.fetch.take() else { return Ok(None) };
        for one in wanted {
            let Wanted { object, root, geometry, segments, verifier } = one;
            let added = fetch.transfer().add_object(object, root, geometry, segments, [], verifier);
            added.map_err(Unrequested)?;
        }
        match self.noting(|on_event| fetch.drain(stop, on_event, keep)) {
            Ok(()) => {
                self.fetch = Some((fetch, published));
                Ok(None)
            }
            Err(e) if e.blame() == Blame::Network => Ok(Some(e.into())),
            Err(e) => Err(e.into()),
        }
    }

    fn leave(&mut self) {
        self.fetch = None;
    }

    fn give_up_source(&mut self) {
        self.fetch = None;
        self.asked += 1;
    }

    fn misbehaved(&self) -> bool {
        self.misbehaved
    }
}

impl RemotePeers<'_, '_> {
    /// Runs `work`, which reports events, and records whether a peer misbehaves.
    fn noting<T>(&mut self, work: impl FnOnce(&mut dyn FnMut(Event)) -> T) -> T {
        let (misbehaved, mut on_event) = (&mut self.misbehaved, self.on_event.borrow_mut());
        work(&mut |event| {
            *misbehaved |= matches!(event, Event::PeerMisbehaved { .. });
            on_event(event);
        })
    }
}
