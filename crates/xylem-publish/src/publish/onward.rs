//! [`Onward`]: fetched content, served with its publisher's signature.
//!
//! The signed manifest comes from the store or from a peer, content from its place on disk, and proofs from trees in
//! the store. Missing trees are recomputed with the publication's segment size. Each piece is verified before it leaves
//! ([`Answers`]). This node cannot sign for the publisher: only the publisher can announce its newest version.

use std::path::Path;

use xylem_base::{Stop, os_bytes};
use xylem_files::LibraryEvent;
use xylem_files::held::{Answers, HeldSource, Holdings};
use xylem_files::reads::Reads;
use xylem_files::record::PathRecord;
use xylem_files::signed::{self, SignedPublication};
use xylem_object::{Manifest, Publication, PublicationError};
use xylem_store::{FileKind, FileRef, Medium, OpenHow, OutboardFile, Store, StoreError};

use super::error::PublishError;
use super::serving::{Published, SharedFiles};
use super::{directory, publish_file, rules_before};

/// Another publisher's publication, complete on this machine.
pub struct Onward {
    signed: SignedPublication,
    holdings: Holdings,
}

impl Onward {
    /// Returns the signed manifest and its publisher.
    pub fn signed(&self) -> &SignedPublication {
        &self.signed
    }

    /// Returns the content that can be served.
    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Opens it for a serving loop that does not block. `reads` must be those of [`onward`].
    ///
    /// # Errors
    /// See [`PublicationError`]: `signed` does not come from [`signed::find`].
    pub fn answers(self, reads: Reads) -> Result<Answers, PublicationError> {
        let SignedPublication { prefix, packet, manifest, publisher } = self.signed;
        let publication = Publication::new(prefix, packet, &publisher)?;
        let source = HeldSource::new(self.holdings, manifest, reads.medium());
        Ok(Answers::new(publication, publisher, source).with_reads(reads))
    }
}

/// Returns the publication that the canonical `path` was last fetched from or shared as, if its signed manifest is
/// stored. Does not check whether the content is still there.
pub fn signed_at(store: &Store, path: &Path) -> Option<SignedPublication> {
    let record = PathRecord::recall(store, &os_bytes(path.as_os_str()))?;
    let ticket = record.note.ticket?.parse::<xylem_object::Ticket>().ok()?;
    signed::find(store, &record.root, &ticket.publisher, ticket.name.as_ref())
}

/// Serves `signed` from the canonical `path`; `None` if the content there differs. With `reads` it is read as a serving
/// loop must, that does not block.
///
/// # Errors
/// See [`PublishError`].
pub fn onward(
    store: &Store,
    path: &Path,
    signed: SignedPublication,
    reads: Option<&Reads>,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Option<Onward>, PublishError> {
    let published = in_shape(store, path, &signed.manifest, stop, on_event)?;
    if published.manifest.root != signed.manifest.root {
        return Ok(None);
    }
    let holdings = match reads {
        Some(reads) => held(&*reads.medium(), path, &signed.manifest, published.read_by(reads))?,
        None => held(&**store.medium(), path, &signed.manifest, published)?,
    };
    Ok(Some(Onward { signed, holdings }))
}

/// Hashes the content at `path` into trees of the segment size of `manifest`; known, unchanged content is not read
/// again.
fn in_shape(
    store: &Store,
    path: &Path,
    manifest: &Manifest,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Published, PublishError> {
    let meta = store.medium().metadata(path);
    let meta = meta.map_err(|e| StoreError::from_io("serve", path, None, e))?;
    let known = PathRecord::recall(store, &os_bytes(path.as_os_str()));
    // Warnings about names concern the publisher, not this sharer.
    let on_event = &mut |event| {
        if let LibraryEvent::Hashing { .. } = event {
            on_event(event);
        }
    };
    if meta.kind == FileKind::Directory {
        // A directory is compared with the listing entry by entry, which needs no record.
        let rules = rules_before(known.as_ref())?;
        let (root, segment) = (Some(manifest.root), manifest.segment);
        return directory::publish(store, path, root, segment, &rules, stop, on_event);
    }
    publish_file(store, path, &meta, known.as_ref(), manifest.segment, stop, on_event)
}

/// Registers all of the content where it lies.
fn held(
    medium: &dyn Medium,
    path: &Path,
    manifest: &Manifest,
    published: Published,
) -> Result<Holdings, StoreError> {
    let (holdings, geometry) = (Holdings::default(), manifest.geometry());
    // The same content gives the same list. If it differs from the publisher's, it cannot be served.
    if let Some(sums) = published.sums.filter(|kept| Some(kept.sums) == manifest.sums) {
        holdings.keep_sums(sums);
    }
    match (published.files, published.listing) {
        (SharedFiles::Many(members), Some((listing, nodes))) => {
            holdings.kept(&geometry, listing, nodes.clone());
            let files = members.listed.totals().files;
            // Without outboards no file has more than one segment, and nodes are not requested.
            let outboards = published.outboards.unwrap_or(nodes);
            holdings.plan(path, path, members.listed, outboards);
            (0..files).for_each(|number| holdings.whole(number));
        }
        _ => {
            let file = FileRef::open(medium, path, OpenHow::Read)?;
            let outboard = published.outboards.unwrap_or_else(|| OutboardFile::new(file.clone()));
            holdings.kept(&geometry, file, outboard);
        }
    }
    Ok(holdings)
}
