//! [`verify`]: the library's, with peers who bring tree nodes and listings.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use xylem_library::verify::VerifySummary;
use xylem_library::{Error, Stop, disk};
use xylem_object::Ticket;
use xylem_store::Store;

use crate::event::Event;
use crate::remote::Peers;
use crate::scrub::RepairOptions;
use xylem_library::reachable::Peer;

/// How to compare what is on disk with a ticket.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// File or directory.
    pub path: PathBuf,
    /// What it should be.
    pub ticket: Ticket,
    /// Peers to ask for tree nodes, as in [`crate::GetOptions::from`].
    pub from: Vec<Peer>,
    /// Give up on peers after this long.
    pub give_up: Duration,
    /// Where outboards are kept.
    pub store: PathBuf,
}

/// Compares what is on disk with a ticket.
///
/// # Errors
/// Those of [`xylem_library::verify::verify`]. Damage is no error: see [`VerifySummary::damage`].
pub fn verify(
    options: &VerifyOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<VerifySummary, Error> {
    let store = Store::open(disk(), &options.store)?;
    let asked =
        RepairOptions { peers: options.from.clone(), give_up: options.give_up, limit_rate: None };
    let on_event = RefCell::new(on_event);
    // A file beside the one that is served from here may be compared with it: we are asked, too.
    let mut peers = Peers::new(&asked, None, &on_event);
    let mut report = |event| (on_event.borrow_mut())(Event::Library(event));
    let (path, stop) = (&options.path, stop);
    Ok(xylem_library::verify::verify(&store, path, &options.ticket, &mut peers, stop, &mut report)?)
}
