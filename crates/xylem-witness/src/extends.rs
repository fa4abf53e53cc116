//! [`extends`]: checks whether the file of one ticket is a prefix of the file of another. A few tree nodes and one
//! segment are enough; the common content is neither fetched nor hashed.

use std::path::PathBuf;
use std::time::Duration;

use xylem_base::{Blame, Failure, advised, blame_of, disk};
use xylem_files::signed;
use xylem_object::witness::{Evidence, HistorySplit, SignedVersion};
use xylem_object::{PublicationKind, Ticket};
use xylem_store::{Store, StoreError};
use xylem_tree::Geometry;
use xylem_tree::consistency::{self, ConsistencyError};

use super::ask::{Witnessed, WitnessedError, witnessed};
use super::demand::CosignatureDemand;
use super::record::keep_evidence;
use super::versions::{DialVersions, VersionSource};

/// Time to fetch the older file's manifest for evidence, if that file is not a prefix.
const ASK_OLDER: Duration = Duration::from_secs(5);

/// The files to compare, and how.
#[derive(Clone, Debug)]
pub struct ExtendsOptions {
    /// Ticket of the shorter file.
    pub old: Ticket,
    /// Ticket of the longer file.
    pub new: Ticket,
    /// Give up on peers after this long.
    pub give_up: Duration,
    /// Store in which manifests may be known, and evidence is stored.
    pub store: PathBuf,
}

/// Result of the comparison.
#[derive(Clone, Debug)]
pub struct ExtendsSummary {
    /// Bytes of the older file.
    pub old_bytes: u64,
    /// Bytes of the newer file.
    pub new_bytes: u64,
    /// Bytes of the proof.
    pub proof_bytes: usize,
    /// Why the older file is not a prefix; `None` if it is.
    pub why_not: Option<ConsistencyError>,
    /// The publisher has signed two histories; the path of the evidence.
    pub split: Option<(HistorySplit, PathBuf)>,
    /// Co-signatures of the newer file, if any are required.
    pub witnessed: Option<Witnessed>,
}

/// Why two files are not compared. `E`: why peers send nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendsError<E> {
    /// A ticket names a directory.
    #[error("--extends is for files; give tickets of files, not of directories")]
    Directory,
    /// Failures of peers, or it was stopped.
    #[error(transparent)]
    Peers(E),
    /// Co-signatures cannot be collected.
    #[error(transparent)]
    Witnessed(#[from] WitnessedError<E>),
    /// Evidence cannot be stored.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
}

impl<E: Failure + 'static> Failure for ExtendsError<E> {
    fn blame(&self) -> Blame {
        match self {
            Self::Directory => Blame::Usage,
            Self::Peers(e) => e.blame(),
            Self::Witnessed(e) => e.blame(),
            Self::Store(e) => blame_of(e),
        }
    }
}

/// Asks the newer file's peers for a proof that the older file is its prefix. With a `demand`, also asks for
/// co-signatures of the newer file.
///
/// # Errors
/// See [`ExtendsError`]. A rewritten history is no error: see [`ExtendsSummary::why_not`].
pub fn extends<D: DialVersions>(
    options: &ExtendsOptions,
    demand: Option<&CosignatureDemand>,
    peers: &mut D,
) -> Result<ExtendsSummary, ExtendsError<D::Error>> {
    let (old, new) = (&options.old, &options.new);
    if [old, new].iter().any(|ticket| ticket.kind == Some(PublicationKind::Directory)) {
        return Err(ExtendsError::Directory);
    }
    let give_up = options.give_up;
    let mut earlier = None;
    let old_bytes = match old.size {
        Some(size) => size,
        None => {
            let mut asked = peers.dial(old, give_up).map_err(ExtendsError::Peers)?;
            let version = asked.of_ticket().map_err(ExtendsError::Peers)?;
            earlier.insert(version).manifest.size
        }
    };
    let mut asked = peers.dial(new, give_up).map_err(ExtendsError::Peers)?;
    let later = asked.of_ticket().map_err(ExtendsError::Peers)?;
    let proof = asked.proof(old_bytes).map_err(ExtendsError::Peers)?;
    let heard = match demand {
        None => None,
        Some(demand) => Some(witnessed(&mut asked, &later, demand, &options.store, give_up)?),
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
        why_not: shown.err(),
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

/// Returns the older file's signed manifest, from the store or from peers. It is needed only for evidence.
fn manifest_of(options: &ExtendsOptions, peers: &mut impl DialVersions) -> Option<SignedVersion> {
    let old = &options.old;
    let store = Store::open(disk(), &options.store).ok()?;
    if let Some(kept) = signed::find(&store, &old.root, &old.publisher, old.name.as_ref()) {
        return SignedVersion::open(&kept.packet, old.publisher).ok();
    }
    peers.dial(old, options.give_up.min(ASK_OLDER)).ok()?.of_ticket().ok()
}
