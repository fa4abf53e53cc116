//! [`look`] and [`list`]: ask peers about what a ticket names, before any content is fetched.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use crate::shaping::LinkOptions;
use xylem_base::{Stop, disk};
use xylem_check::verify::VerificationError;
use xylem_object::listing::Entry;
use xylem_object::{Manifest, Ticket};
use xylem_peers::reachable::PeerAddress;
use xylem_store::Store;

use crate::event::Event;
use crate::fetch::{Fetch, FetchError};
use crate::remote::RemotePeers;
use crate::scrub::RepairOptions;

/// Returns the ticket, completed by the first exchange with a peer, and the signed manifest. Peers in `from` are asked
/// instead of the ticket's own.
///
/// # Errors
/// See [`FetchError`].
pub fn look(
    ticket: &Ticket,
    from: &[PeerAddress],
    give_up: Duration,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(Ticket, Manifest), FetchError> {
    let mut fetch = Fetch::new(ticket, from, give_up, None, &LinkOptions::default(), false)?;
    let manifest = fetch.manifest(stop, on_event)?;
    let ticket = fetch.completed(ticket, &manifest);
    fetch.close();
    Ok((ticket, manifest))
}

/// Passes each entry of the directory that a ticket names to `each`, in listing order. The listing comes from the store
/// in `store` or from peers. It is proven before the first entry is passed on.
///
/// # Errors
/// See [`VerificationError`].
pub fn list(
    store: &Path,
    ticket: &Ticket,
    asked: &RepairOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
    each: &mut dyn FnMut(&Entry),
) -> Result<(), VerificationError> {
    let store = Store::open(disk(), store)?;
    let on_event = RefCell::new(on_event);
    let mut peers = RemotePeers::new(asked, None, &on_event);
    xylem_check::verify::list(&store, ticket, &mut peers, stop, each)
}
