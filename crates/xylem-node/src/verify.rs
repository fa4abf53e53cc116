//! [`verify`]: the library's, with peers who bring tree nodes and listings.

use std::cell::RefCell;

use xylem_library::verify::VerifySummary;
use xylem_library::{Error, Stop, disk};
use xylem_store::Store;

use crate::api::{Event, VerifyOptions};
use crate::failure::parse_ticket;
use crate::remote::Peers;
use crate::scrub::RepairOptions;

/// Compares what is on disk with a ticket.
///
/// # Errors
/// [`xylem_library::Blame::Usage`] for a ticket that is none; those of
/// [`xylem_library::verify::verify`]. Damage is no error: see [`VerifySummary::damage`].
pub fn verify(
    options: &VerifyOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<VerifySummary, Error> {
    let ticket = parse_ticket(&options.ticket)?;
    let store = Store::open(disk(), &options.store)?;
    let asked =
        RepairOptions { peers: options.from.clone(), give_up: options.give_up, limit_rate: None };
    let on_event = RefCell::new(on_event);
    // A file beside the one that is served from here may be compared with it: we are asked, too.
    let mut peers = Peers::new(&asked, None, &on_event);
    let mut report = |event| (on_event.borrow_mut())(Event::Library(event));
    let (path, stop) = (&options.path, stop);
    Ok(xylem_library::verify::verify(&store, path, &ticket, &mut peers, stop, &mut report)?)
}
