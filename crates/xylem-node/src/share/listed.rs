//! [`ListedShares`]: the publications of a public share that the DHT lists, each by its ticket.

use std::collections::HashSet;
use std::time::Duration;

use xylem_engine::{Engine, RelayNotice};
use xylem_hash::Hash;
use xylem_publish::publications::PublicationId;
use xylem_reach::relay::VouchedName;

use crate::event::Event;
use crate::ticket_meeting::TicketListings;
use crate::volunteers::as_relay;

/// See the module's documentation. Without listings it has no publications.
pub(super) struct ListedShares {
    listings: Option<TicketListings>,
    /// Publications in the listings, also those that wait for room.
    by_ticket: HashSet<PublicationId>,
    /// Whether it was reported that a ticket is not listed.
    told_unlisted: bool,
}

impl ListedShares {
    /// `listings`: `None` if the share is not public, or the DHT would lead no peer here.
    pub(super) fn new(listings: Option<TicketListings>) -> Self {
        Self { listings, by_ticket: HashSet::new(), told_unlisted: false }
    }

    /// Whether tickets are listed, now or later.
    pub(super) fn may_list(&self) -> bool {
        self.listings.is_some()
    }

    /// Whether the DHT lists a ticket.
    pub(super) fn is_listed(&self) -> bool {
        self.listings.as_ref().is_some_and(TicketListings::is_listed)
    }

    /// Lists a publication. Returns whether to report that there is no room for it: once.
    pub(super) fn add(&mut self, engine: &mut Engine, id: PublicationId, root: &Hash) -> bool {
        let Some(listings) = &mut self.listings else { return false };
        let is_listed = listings.add(engine, root);
        self.by_ticket.insert(id);
        !is_listed && !std::mem::replace(&mut self.told_unlisted, true)
    }

    /// Removes a publication, if it is listed.
    pub(super) fn remove(&mut self, engine: &mut Engine, id: PublicationId, root: &Hash) {
        if self.by_ticket.remove(&id)
            && let Some(listings) = &mut self.listings
        {
            listings.remove(engine, root);
        }
    }

    /// Handles a relay's report. Returns whether it is that of a volunteer in use for getters, which concerns nothing else.
    pub(super) fn handle_relay(
        &mut self,
        engine: &mut Engine,
        relay: &[u8; 32],
        what: &RelayNotice,
    ) -> bool {
        self.listings.as_mut().is_some_and(|listings| listings.handle_relay(engine, relay, what))
    }

    /// `names`: those under which getters ask relays for this share. `is_relayed`: whether a peer comes through one.
    pub(super) fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        names: &[VouchedName],
        is_relayed: bool,
        on_event: &mut dyn FnMut(Event),
    ) {
        let Some(listings) = &mut self.listings else { return };
        listings.handle_timeout(engine);
        let volunteers = listings.ask_volunteers(engine, names, is_relayed);
        if !volunteers.is_empty() {
            on_event(Event::Volunteers { relays: volunteers.iter().map(as_relay).collect() });
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.listings.as_ref().and_then(TicketListings::poll_timeout)
    }
}
