//! [`scrub`]: the library's, with peers who bring what is damaged.

use std::cell::RefCell;
use std::time::Duration;

use xylem_library::scrub::{Remote, ScrubOptions, ScrubSummary, Wanted};
use xylem_library::{Blame, Error, Stop, failure, identity};
use xylem_link::{Shaping, StaticKey};
use xylem_object::Ticket;
use xylem_transfer::Event as TransferEvent;
use xylem_tree::SegmentSize;

use crate::event::Event;
use crate::fetch::Fetch;
use crate::peer::Peer;

/// Whom to ask for damaged pieces.
#[derive(Clone, Debug)]
pub struct RepairOptions {
    /// Peers instead of those of the record's ticket.
    pub peers: Vec<Peer>,
    /// Give up on them after this long without progress.
    pub give_up: Duration,
    /// Bytes to fetch a second at most.
    pub limit_rate: Option<u64>,
}

/// Re-reads what `options` name and, where they ask for it, puts right what is damaged.
///
/// # Errors
/// As [`xylem_library::scrub::scrub`].
pub fn scrub(
    options: &ScrubOptions,
    repair: &RepairOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<ScrubSummary, Error> {
    let own = identity::load_existing(&options.store.join("keys").join("link")).ok();
    let on_event = RefCell::new(on_event);
    let mut peers = Peers {
        repair,
        own: own.map(|secret| StaticKey::from_bytes(secret).public().0),
        sources: Vec::new(),
        asked: 0,
        fetch: None,
        misbehaved: false,
        on_event: &on_event,
    };
    let mut tell = |event| (on_event.borrow_mut())(Event::Library(event));
    xylem_library::scrub::scrub(options, &mut peers, stop, &mut tell)
}

/// One publication and who may have it.
struct Source {
    ticket: Ticket,
    /// Empty: the ticket's own addresses.
    peers: Vec<Peer>,
}

/// The library's [`Remote`]: one fetch, of one source after the other.
struct Peers<'a, 'b> {
    repair: &'a RepairOptions,
    /// Our own link key.
    own: Option<[u8; 32]>,
    sources: Vec<Source>,
    /// The source that is asked; those before it are of no use.
    asked: usize,
    fetch: Option<(Fetch, SegmentSize)>,
    /// Whether somebody answered, though with something else.
    misbehaved: bool,
    /// The library tells through it, too, never while it waits for us.
    on_event: &'a RefCell<&'b mut dyn FnMut(Event)>,
}

impl Peers<'_, '_> {
    /// Who may have a target: one source for each publication that a ticket names.
    fn sources_of(&self, tickets: &[Ticket], named: usize) -> Vec<Source> {
        let own = self.own;
        let first_named = tickets.len() - named;
        // Peers that somebody names are asked instead of those of the record's ticket, as with get.
        let instead = named > 0 || !self.repair.peers.is_empty();
        let mut sources: Vec<Source> = Vec::new();
        for (i, ticket) in tickets.iter().enumerate() {
            let ours = ticket.link_key.is_some() && ticket.link_key == own;
            let key = ticket.link_key;
            let link = |address: &_| Peer::Link { address: *address, key };
            // Our own addresses lead back to the damaged file.
            let usable = !ours && (!instead || i >= first_named);
            let peers: Vec<Peer> = ticket.addresses.iter().map(link).filter(|_| usable).collect();
            let known = sources
                .iter_mut()
                .find(|s| s.ticket.name == ticket.name && s.ticket.publisher == ticket.publisher);
            match known {
                Some(source) => source.peers.extend(peers),
                None => {
                    let mut ticket = ticket.clone();
                    if ours {
                        ticket.link_key = None;
                    }
                    sources.push(Source { ticket, peers });
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

impl Remote for Peers<'_, '_> {
    fn target(&mut self, tickets: &[Ticket], named: usize) {
        self.sources = self.sources_of(tickets, named);
        (self.asked, self.fetch, self.misbehaved) = (0, None, false);
    }

    fn connect(
        &mut self,
        trouble: &mut Option<Error>,
        stop: &Stop,
    ) -> Result<Option<SegmentSize>, Error> {
        while self.fetch.is_none() {
            let Some(source) = self.sources.get(self.asked) else { return Ok(None) };
            let RepairOptions { give_up, limit_rate, .. } = *self.repair;
            let shaping = Shaping::default();
            let fetch = Fetch::new(&source.ticket, &source.peers, give_up, limit_rate, shaping);
            let answered = fetch.and_then(|mut fetch| {
                let manifest = self.noting(|on_event| fetch.manifest(stop, on_event))?;
                Ok((fetch, manifest.segment))
            });
            match answered.map_err(Error::from) {
                Ok(fetch) => self.fetch = Some(fetch),
                Err(e) if e.blame == Blame::Interrupted => return Err(e),
                Err(e) => {
                    *trouble = Some(e);
                    self.asked += 1;
                }
            }
        }
        Ok(self.fetch.as_ref().map(|(_, segment)| *segment))
    }

    fn fetch(
        &mut self,
        wanted: Vec<Wanted>,
        keep: &mut dyn FnMut(TransferEvent) -> Result<(), Error>,
        stop: &Stop,
    ) -> Result<Option<Error>, Error> {
        let Some((mut fetch, segment)) = self.fetch.take() else { return Ok(None) };
        for one in wanted {
            let Wanted { object, root, geometry, segments, verifier } = one;
            let added = fetch.transfer().add_object(object, root, geometry, segments, [], verifier);
            added.map_err(|e| failure::usage(e.to_string()))?;
        }
        match self.noting(|on_event| fetch.drain(stop, on_event, keep)).map_err(Error::from) {
            Ok(()) => {
                self.fetch = Some((fetch, segment));
                Ok(None)
            }
            Err(e) if e.blame == Blame::Network => Ok(Some(e)),
            Err(e) => Err(e),
        }
    }

    fn leave(&mut self, next: bool) {
        self.fetch = None;
        self.asked += usize::from(next);
    }

    fn misbehaved(&self) -> bool {
        self.misbehaved
    }
}

impl Peers<'_, '_> {
    /// Runs something that reports events, noting who misbehaves.
    fn noting<T>(&mut self, work: impl FnOnce(&mut dyn FnMut(Event)) -> T) -> T {
        let (misbehaved, mut on_event) = (&mut self.misbehaved, self.on_event.borrow_mut());
        work(&mut |event| {
            *misbehaved |= matches!(event, Event::PeerMisbehaved { .. });
            on_event(event);
        })
    }
}
