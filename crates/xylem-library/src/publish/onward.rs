//! [`Onward`]: what was fetched, served on as its publisher signed it.
//!
//! The signed manifest comes from the store or from a peer, content from where it lies, proofs from
//! trees in the store, which are made again in the publication's own shape where they are missing.
//! Each piece is proven anew before it leaves ([`Answers`]). Who serves on cannot sign anything: which
//! version is the newest is the publisher's to say.

use std::path::Path;

use xylem_object::{Manifest, Publication, PublicationError};
use xylem_store::{FileKind, FileRef, Medium, OpenHow, OutboardFile, Store, StoreError};

use super::error::PublishError;
use super::serving::{Files, Published};
use super::{directory, publish_file, rules_before};
use crate::event::LibraryEvent;
use crate::held::{Answers, HeldSource, Holdings};
use crate::path::os_bytes;
use crate::reads::Reads;
use crate::record::Record;
use crate::signed::{self, Signed};
use crate::stop::Stop;

/// Somebody's publication, all of which lies here.
pub struct Onward {
    signed: Signed,
    holdings: Holdings,
}

impl Onward {
    /// What was signed, and by whom.
    pub fn signed(&self) -> &Signed {
        &self.signed
    }

    /// What of it can be served.
    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Opens it for serving by a loop that does not wait: what `reads` shows is what it was found through.
    ///
    /// # Errors
    /// See [`PublicationError`]: `signed` is none that [`signed::find`] found.
    pub fn answers(self, reads: Reads) -> Result<Answers, PublicationError> {
        let Signed { prefix, packet, manifest, publisher } = self.signed;
        let publication = Publication::new(prefix, packet, &publisher)?;
        let source = HeldSource::new(self.holdings, manifest, reads.medium());
        Ok(Answers::new(publication, publisher, source).with_reads(reads))
    }
}

/// The publication that `path`, which is canonical, was last fetched from or shared as, if its signed
/// manifest was kept. Whether that still lies there is not looked at.
pub fn signed_at(store: &Store, path: &Path) -> Option<Signed> {
    let record = Record::recall(store, &os_bytes(path.as_os_str()))?;
    let ticket = record.note.ticket?.parse::<xylem_object::Ticket>().ok()?;
    signed::find(store, &record.root, &ticket.publisher, ticket.name.as_ref())
}

/// What `signed` says, served from `path`, which is canonical, and read through `medium`; `None` if something else lies
/// there.
///
/// # Errors
/// See [`PublishError`].
pub fn onward(
    store: &Store,
    path: &Path,
    signed: Signed,
    medium: &dyn Medium,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Option<Onward>, PublishError> {
    let published = in_shape(store, path, &signed.manifest, stop, on_event)?;
    if published.manifest.root != signed.manifest.root {
        return Ok(None);
    }
    let holdings = held(medium, path, &signed.manifest, published)?;
    Ok(Some(Onward { signed, holdings }))
}

/// What lies at `path`, hashed into trees of the shape that `manifest` says; what is known and
/// unchanged is not read again.
fn in_shape(
    store: &Store,
    path: &Path,
    manifest: &Manifest,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Published, PublishError> {
    let meta = store.medium().metadata(path);
    let meta = meta.map_err(|e| StoreError::from_io("serve", path, None, e))?;
    let known = Record::recall(store, &os_bytes(path.as_os_str()));
    // What may be trouble elsewhere is the publisher's to hear.
    let on_event = &mut |event| {
        if let LibraryEvent::Hashing { .. } = event {
            on_event(event);
        }
    };
    if meta.kind == FileKind::Directory {
        // A directory is compared with the listing entry by entry: no record is needed for that.
        let rules = rules_before(known.as_ref())?;
        let (root, how) = (Some(manifest.root), (manifest.segment, &rules));
        return directory::publish(store, path, root, how, stop, on_event);
    }
    publish_file(store, path, &meta, known.as_ref(), manifest.segment, stop, on_event)
}

/// All of it, to be read from where it lies.
fn held(
    medium: &dyn Medium,
    path: &Path,
    manifest: &Manifest,
    published: Published,
) -> Result<Holdings, StoreError> {
    let (holdings, geometry) = (Holdings::default(), manifest.geometry());
    // The publisher's list is made from the same content in the same way, or is not to be had here.
    if let Some(sums) = published.sums.filter(|kept| Some(kept.sums) == manifest.sums) {
        holdings.keep_sums(sums);
    }
    match (published.files, published.listing) {
        (Files::Many(members), Some((listing, nodes))) => {
            holdings.kept(&geometry, listing, nodes.clone());
            let files = members.listed.totals().files;
            // Without outboards no file has more than one segment, and nodes are not asked for.
            holdings.plan(path, members.listed, published.outboards.unwrap_or(nodes));
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
