//! [`extends`]: is what one ticket names the beginning of what another names? A few tiles and one
//! segment tell; nothing of the history is fetched or hashed.

use std::path::PathBuf;
use std::time::Duration;

use xylem_object::witness::{Evidence, SignedVersion, Split};
use xylem_object::{Kind, Ticket};
use xylem_store::Store;
use xylem_tree::Geometry;
use xylem_tree::consistency;

use super::ask::{Witnessed, witnessed};
use super::demand::Demand;
use super::record::keep_evidence;
use super::versions::{Dial, Versions};
use crate::error::Error;
use crate::{disk, signed};

/// So long the older one's peers are asked for its manifest, where it turned out not to be the beginning.
const ASK_OLDER: Duration = Duration::from_secs(5);

/// What to compare, and whom to ask.
#[derive(Clone, Debug)]
pub struct ExtendsOptions {
    /// The shorter one.
    pub old: Ticket,
    /// The longer one.
    pub new: Ticket,
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
/// [`Blame::Usage`](crate::Blame::Usage) for tickets that cannot be compared, [`Blame::Network`](crate::Blame::Network) if nobody reachable has
/// the newer one. A history that was rewritten is no error: see [`ExtendsSummary::why_not`].
pub fn extends(
    options: &ExtendsOptions,
    demand: Option<&Demand>,
    peers: &mut impl Dial,
) -> Result<ExtendsSummary, Error> {
    let (old, new) = (&options.old, &options.new);
    if [old, new].iter().any(|ticket| ticket.kind == Some(Kind::Directory)) {
        return Err(Error::usage("a directory has no beginning; give tickets of files"));
    }
    let give_up = options.give_up;
    let mut earlier = None;
    let old_bytes = match old.size {
        Some(size) => size,
        None => {
            let version = peers.dial(old, give_up)?.of_ticket()?;
            earlier.insert(version).manifest.size
        }
    };
    let mut asked = peers.dial(new, give_up)?;
    let later = asked.of_ticket()?;
    let proof = asked.proof(old_bytes)?;
    let heard = match demand {
        None => None,
        Some(demand) => Some(witnessed(&mut asked, &later, demand, (&options.store, give_up))?),
    };
    drop(asked);
    let manifest = &later.manifest;
    let geometry = manifest.geometry();
    let older = Geometry::new(old_bytes, manifest.segment).with_kind(manifest.tree);
    let shown = consistency::verify((&older, old.root), (&geometry, manifest.root), &proof);
    let mut summary = ExtendsSummary {
        old_bytes,
        new_bytes: manifest.size,
        proof_bytes: proof.len(),
        why_not: shown.err().map(|e| e.to_string()),
        split: None,
        witnessed: heard,
    };
    if summary.why_not.is_some()
        && let Some(earlier) = earlier.or_else(|| manifest_of(options, peers))
    {
        let evidence = Evidence { earlier, later, proof };
        if let Ok(split) = evidence.split() {
            summary.split = Some((split, keep_evidence(&options.store, &evidence)?));
        }
    }
    Ok(summary)
}

/// The older one's signed manifest, from the store or from whoever has it still. It is wanted for evidence alone.
fn manifest_of(options: &ExtendsOptions, peers: &mut impl Dial) -> Option<SignedVersion> {
    let old = &options.old;
    let store = Store::open(disk(), &options.store).ok()?;
    if let Some(kept) = signed::find(&store, &old.root, &old.publisher, old.name.as_ref()) {
        return SignedVersion::open(&kept.packet, old.publisher).ok();
    }
    peers.dial(old, options.give_up.min(ASK_OLDER)).ok()?.of_ticket().ok()
}
