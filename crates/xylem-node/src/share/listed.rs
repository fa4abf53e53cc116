//! [`ListedShares`]: the publications of a public share by whose tickets the DHT lists this machine.

use std::collections::HashSet;
use std::time::Duration;

use xylem_engine::Engine;
use xylem_hash::Hash;
use xylem_publish::publications::PublicationId;

use crate::ticket_meeting::TicketListings;

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

    /// Whether the DHT lists all tickets that have room.
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

    pub(super) fn handle_timeout(&mut self, engine: &mut Engine) {
        self.listings.iter_mut().for_each(|listings| listings.handle_timeout(engine));
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.listings.as_ref().and_then(TicketListings::poll_timeout)
    }
}
