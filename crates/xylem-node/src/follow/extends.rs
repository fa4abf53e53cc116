//! [`extends`]: is what one ticket names the beginning of what another names? A few tiles and one
//! segment tell; nothing of the history is fetched or hashed.

use std::path::PathBuf;
use std::time::Duration;

use crate::shaping::LinkOptions;
use xylem_object::witness::{Evidence, SignedVersion, Split};
use xylem_object::{Kind, Ticket};
use xylem_store::Store;
use xylem_tree::Geometry;
use xylem_tree::consistency;

use super::prove::proof_of_beginning;
use crate::event::Event;
use crate::fetch::Fetch;
use crate::witness::{Witnessed, ask_witnesses};
use xylem_library::reachable::Peer;
use xylem_library::witness::{Demand, keep_evidence};
use xylem_library::{Blame, Error, Stop, disk, signed};

/// So long the older one's peers are asked for its manifest, where it turned out not to be the beginning.
const ASK_OLDER: Duration = Duration::from_secs(5);

/// What to compare, and whom to ask.
#[derive(Clone, Debug)]
pub struct ExtendsOptions {
    /// The shorter one.
    pub old: Ticket,
    /// The longer one.
    pub new: Ticket,
    /// Peers to ask, as in [`crate::GetOptions::from`].
    pub from: Vec<Peer>,
    /// Give up on peers after this long.
    pub give_up: Duration,
    /// Where manifests may be known already, and evidence is kept.
    pub store: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct ExtendsSummary {
    /// Bytes of the older one.
    pub old_bytes: u64,
    /// Bytes of the newer one.
    pub new_bytes: u64,
    /// Bytes of the proof.
    pub proof_bytes: usize,
    /// Why it is none; `None`: it is the beginning.
    pub why_not: Option<String>,
    /// That the publisher has signed two histories, and where the evidence is kept.
    pub split: Option<(Split, PathBuf)>,
    /// What was heard of witnesses, if any are wanted.
    pub witnessed: Option<Witnessed>,
}

/// Asks the newer one's peers for what proves that the older one begins it; and, where there is a `demand`, for what witnesses
/// say of the newer one.
///
/// # Errors
/// [`Blame::Usage`] for tickets that cannot be compared, [`Blame::Network`] if nobody reachable has
/// the newer one. A history that was rewritten is no error: see [`ExtendsSummary::why_not`].
pub fn extends(
    options: &ExtendsOptions,
    demand: Option<&Demand>,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<ExtendsSummary, Error> {
    let (old, new) = (&options.old, &options.new);
    if [old, new].iter().any(|ticket| ticket.kind == Some(Kind::Directory)) {
        return Err(Error::usage("a directory has no beginning; give tickets of files"));
    }
    let ExtendsOptions { from, give_up, .. } = options;
    let mut earlier = None;
    let old_bytes = match old.size {
        Some(size) => size,
        None => {
            let mut fetch = dial(old, from, *give_up)?;
            let manifest = fetch.manifest(stop, on_event)?;
            earlier = SignedVersion::open(fetch.manifest_packet(), old.publisher).ok();
            fetch.close();
            manifest.size
        }
    };
    let mut fetch = dial(new, from, *give_up)?;
    let manifest = fetch.manifest(stop, on_event)?;
    let later = SignedVersion::open(fetch.manifest_packet(), new.publisher);
    let proof = proof_of_beginning(&mut fetch, old_bytes, &manifest, stop, on_event)?;
    let witnessed = match (demand, &later) {
        (None, _) => None,
        (Some(demand), Ok(later)) => {
            let store = &options.store;
            Some(ask_witnesses(&mut fetch, later, demand, (store, *give_up), stop, on_event)?)
        }
        (Some(_), Err(e)) => {
            return Err(Error { blame: Blame::Data, message: e.to_string() });
        }
    };
    fetch.close();
    let geometry = manifest.geometry();
    let older = Geometry::new(old_bytes, manifest.segment).with_kind(manifest.tree);
    let shown = consistency::verify((&older, old.root), (&geometry, manifest.root), &proof);
    let mut summary = ExtendsSummary {
        old_bytes,
        new_bytes: manifest.size,
        proof_bytes: proof.len(),
        why_not: shown.err().map(|e| e.to_string()),
        split: None,
        witnessed,
    };
    if summary.why_not.is_some()
        && let Some(earlier) = earlier.or_else(|| manifest_of(options, stop, on_event))
        && let Ok(later) = later
    {
        let evidence = Evidence { earlier, later, proof };
        if let Ok(split) = evidence.split() {
            summary.split = Some((split, keep_evidence(&options.store, &evidence)?));
        }
    }
    Ok(summary)
}

fn dial(ticket: &Ticket, from: &[Peer], give_up: Duration) -> Result<Fetch, Error> {
    Ok(Fetch::new(ticket, from, give_up, None, &LinkOptions::default(), false)?)
}

/// The older one's signed manifest, from the store or from whoever has it still. It is wanted for evidence alone.
fn manifest_of(
    options: &ExtendsOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Option<SignedVersion> {
    let old = &options.old;
    let store = Store::open(disk(), &options.store).ok()?;
    if let Some(kept) = signed::find(&store, &old.root, &old.publisher, old.name.as_ref()) {
        return SignedVersion::open(&kept.packet, old.publisher).ok();
    }
    let mut fetch = dial(old, &options.from, options.give_up.min(ASK_OLDER)).ok()?;
    fetch.manifest(stop, on_event).ok()?;
    let version = SignedVersion::open(fetch.manifest_packet(), old.publisher).ok();
    fetch.close();
    version
}
