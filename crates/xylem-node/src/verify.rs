//! [`verify`]: the library's verify, with peers that supply tree nodes and listings.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use xylem_base::{Blame, Failure, FileMedium, Stop, canonical_in, disk};
use xylem_check::verify::{Extras, HashedMemory, MemoryPlace, VerificationError, VerifySummary};
use xylem_object::Ticket;
use xylem_peers::reachable::PeerAddress;
use xylem_publish::root_of;
use xylem_store::Store;

use crate::event::{Event, from_library};
use crate::fetch::Fetch;
use crate::follow::{continues, newest};
use crate::remote::RemotePeers;
use crate::scrub::RepairOptions;
use crate::shaping::LinkOptions;

/// How to compare what is on disk with a ticket.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// File or directory.
    pub path: PathBuf,
    /// The ticket to compare with.
    pub ticket: Ticket,
    /// Peers to ask for tree nodes, as in [`crate::GetOptions::from`].
    pub from: Vec<PeerAddress>,
    /// Give up on peers after this long.
    pub give_up: Duration,
    /// Whether there may be more than was published.
    pub extras: Extras,
    /// Where outboards are kept.
    pub store: PathBuf,
    /// Where `path` and the store are.
    pub medium: FileMedium,
}

/// Compares what is on disk with a ticket.
///
/// # Errors
/// Those of [`xylem_check::verify::verify`]. Damage is no error: see [`VerifySummary::damage`] and
/// [`VerifySummary::extra`].
pub fn verify(
    options: &VerifyOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<VerifySummary, VerificationError> {
    let store = Store::open(options.medium.shared(), &options.store)?;
    let asked =
        RepairOptions { peers: options.from.clone(), give_up: options.give_up, limit_rate: None };
    let on_event = RefCell::new(on_event);
    // Our own address is asked as well: a file may be compared with a publication that this machine shares.
    let mut peers = RemotePeers::new(&asked, None, &on_event);
    let mut report = |event| (on_event.borrow_mut())(Event::Library(event));
    let VerifyOptions { path, ticket, extras, .. } = options;
    let compared =
        xylem_check::verify::verify(&store, path, ticket, *extras, &mut peers, stop, &mut report)?;
    drop(peers);
    let grew = !compared.damage.is_empty() && path.is_file();
    let grown = match grew {
        true => grown(&store, options, stop, on_event.into_inner())?,
        false => None,
    };
    Ok(grown.unwrap_or(compared))
}

/// How to compare bytes in memory with a ticket.
#[derive(Clone, Debug)]
pub struct VerifyMemoryOptions {
    /// The ticket to compare with.
    pub ticket: Ticket,
    /// The file that the bytes are from, and where in it they begin.
    pub place: MemoryPlace,
    /// Peers to ask for tree nodes, as in [`crate::GetOptions::from`].
    pub from: Vec<PeerAddress>,
    /// Give up on peers after this long.
    pub give_up: Duration,
    /// Where outboards are kept.
    pub store: PathBuf,
}

/// Compares bytes in some memory with those that a ticket names, where the memory hashes them itself.
///
/// # Errors
/// Those of [`xylem_check::verify::verify_memory`]. Damage is no error: [`VerifySummary::damage`] has ranges of the file.
pub fn verify_memory(
    memory: &mut dyn HashedMemory,
    options: &VerifyMemoryOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<VerifySummary, VerificationError> {
    let VerifyMemoryOptions { ticket, place, from, give_up, store } = options;
    let store = Store::open(disk(), store)?;
    let asked = RepairOptions { peers: from.clone(), give_up: *give_up, limit_rate: None };
    let on_event = RefCell::new(on_event);
    let mut peers = RemotePeers::new(&asked, None, &on_event);
    xylem_check::verify::verify_memory(&store, memory, ticket, place, &mut peers, stop)
}

/// An error of a fetch, as one of the comparison.
fn remote(error: impl Into<Box<dyn Failure>>) -> VerificationError {
    VerificationError::Remote(error.into())
}

/// Checks whether a file that is not the ticket's checkpoint is a later checkpoint's prefix, for a file that grows.
/// Returns the summary to report if so. `None` if it isn't, or if no reachable peer can prove it.
fn grown(
    store: &Store,
    options: &VerifyOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<VerifySummary>, VerificationError> {
    match shown(store, options, stop, on_event) {
        Err(e) if matches!(e.blame(), Blame::Network | Blame::Usage) => Ok(None),
        shown => shown,
    }
}

fn shown(
    store: &Store,
    options: &VerifyOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<VerifySummary>, VerificationError> {
    let VerifyOptions { path, ticket, from, give_up, .. } = options;
    let links = LinkOptions::default();
    let mut fetch = Fetch::new(ticket, from, *give_up, None, &links, false).map_err(remote)?;
    let named = fetch.manifest(stop, on_event).map_err(remote)?;
    if named.growing.is_none() {
        return Ok(None);
    }
    let size = path.metadata().map_or(0, |meta| meta.len());
    let smallest = named.size;
    let found = newest(&mut fetch, ticket.publisher, &options.store, named, stop, on_event);
    let found = found.map_err(remote)?;
    if !(smallest..=found.size).contains(&size) {
        return Ok(None);
    }
    let canonical = canonical_in(&**store.medium(), path)?;
    let root = root_of(&**store.medium(), &canonical, stop, &mut from_library(on_event))?;
    let continued = continues(&mut fetch, size, root, &found, stop, on_event);
    let (shown, _) = continued.map_err(remote)?;
    fetch.close();
    if shown.is_err() {
        return Ok(None);
    }
    let what = format!(
        "{} is longer than the ticket's checkpoint; its publisher has signed it as the first {size} bytes of {}",
        path.display(),
        found.size
    );
    on_event(Event::warning(what));
    Ok(Some(VerifySummary {
        root,
        bytes: size,
        files: 1,
        damage: Vec::new(),
        extra: Vec::new(),
        located: true,
    }))
}
