//! Opens what `xylem mirror` keeps in a bucket: to serve it as its publisher signed it, to compare it, or to update it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::MirrorError;
use xylem_bucket::{BucketError, BucketPlace, Buckets, ListedObject, PARTS};
use xylem_engine::wall_clock;
use xylem_files::signed::{self, SignedPublication};
use xylem_files::{Existing, LibraryEvent, ListedFiles, Output, SaveOptions, record};
use xylem_hash::Hash;
use xylem_node::Event;
use xylem_object::listing::Entry;
use xylem_object::ticket::{MAX_LIST, MAX_VERSIONS, MirrorVersions};
use xylem_object::{PublicationKind, Ticket, naming};
use xylem_packet::MAX_PACKET;
use xylem_publish::adopt::{adopt, part_name};
use xylem_store::{Medium, ObjectPart, Store};

/// A version in a bucket.
pub(crate) struct MirroredVersion {
    pub(crate) signed: SignedPublication,
    /// A directory's listing, verified.
    pub(crate) listing: Option<ListedFiles>,
}

/// The versions that are kept at `place`; `None` if there is no mirror.
pub(crate) fn versions(
    buckets: &Buckets,
    place: &BucketPlace,
) -> Result<Option<MirrorVersions>, MirrorError> {
    let list = place.versions()?;
    let read = buckets.whole(&list, MAX_LIST).map_err(|e| MirrorError::at(&list.path(), e))?;
    let read = read.map(|bytes| MirrorVersions::read(&bytes)).transpose();
    read.map_err(|why| MirrorError::List { list, why })
}

/// Rebuilds a lost list of versions, the newest first: those with a manifest in the bucket that the publisher of `now`
/// has signed, for the same object.
pub(crate) fn found_again(
    buckets: &Buckets,
    place: &BucketPlace,
    below: &[ListedObject],
    now: &SignedPublication,
) -> Result<MirrorVersions, MirrorError> {
    let (parts, object) = (parts_of(place)?, now.prefix.as_ref().parent());
    let mut found = Vec::new();
    for (name, _) in sizes(below, PARTS) {
        let root = name.strip_suffix(".manifest").and_then(|root| root.parse::<Hash>().ok());
        let Some(root) = root else { continue };
        let manifest = parts.below(&name)?;
        let bytes = buckets.whole(&manifest, MAX_PACKET as u64);
        let bytes = bytes.map_err(|e| MirrorError::at(&manifest.path(), e))?.unwrap_or_default();
        let signed = signed::find_in(&bytes, &root, &now.publisher, None);
        found.extend(signed.filter(|signed| signed.prefix.as_ref().parent() == object));
    }
    found.sort_by_key(|signed| std::cmp::Reverse(naming::version(signed.prefix.as_ref())));
    found.truncate(MAX_VERSIONS);
    Ok(MirrorVersions { tickets: found.iter().map(ticket_of).collect() })
}

/// A version's entry in the list. It holds no addresses: readers of the bucket have no need to know where the content
/// came from.
pub(crate) fn ticket_of(signed: &SignedPublication) -> Ticket {
    Ticket {
        publisher: signed.publisher,
        root: signed.manifest.root,
        name: Some(signed.prefix.clone()),
        link_key: None,
        size: Some(signed.manifest.size),
        kind: Some(signed.manifest.kind),
        addresses: Vec::new(),
        relays: Vec::new(),
    }
}

/// Where a version's content lies. The root is part of the name, so that writes of one version touch no other.
pub(crate) fn content_of(
    place: &BucketPlace,
    signed: &SignedPublication,
) -> Result<BucketPlace, MirrorError> {
    let manifest = &signed.manifest;
    let root = manifest.root.to_hex().to_string();
    let named = || {
        let top = place.below(&root)?;
        match manifest.kind {
            PublicationKind::Directory => Ok(top),
            PublicationKind::File if manifest.file_name.is_empty() => top.below(&root),
            PublicationKind::File => top.below(&String::from_utf8_lossy(&manifest.file_name)),
        }
    };
    named().map_err(|e: BucketError| MirrorError::from(e))
}

/// The folder of parts.
pub(crate) fn parts_of(place: &BucketPlace) -> Result<BucketPlace, MirrorError> {
    place.parts().map_err(MirrorError::from)
}

/// Fetches a version's manifest, listing, trees and lists; verifies them and puts them into the store.
pub(crate) fn kept(
    buckets: &Buckets,
    store: &Store,
    place: &BucketPlace,
    ticket: &Ticket,
    on_event: &mut dyn FnMut(Event),
) -> Result<MirroredVersion, MirrorError> {
    let parts = parts_of(place)?;
    let name = part_name(store, &ticket.root, ObjectPart::Manifest);
    let manifest = parts.below(&name.to_string_lossy())?;
    let bytes = buckets.whole(&manifest, MAX_PACKET as u64);
    let bytes = bytes.map_err(|e| MirrorError::at(&manifest.path(), e))?.unwrap_or_default();
    let found = signed::find_in(&bytes, &ticket.root, &ticket.publisher, ticket.name.as_ref());
    let Some(signed) = found else {
        return Err(MirrorError::Manifest { manifest, by: ticket.publisher.key_id() });
    };
    let adopted = adopt(store, &signed, &parts.path()).map_err(|e| {
        let listing = part_name(store, &ticket.root, ObjectPart::Listing);
        MirrorError::Listing { at: parts.path().join(listing), why: e }
    })?;
    for flawed in adopted.flawed {
        let what = format!("{}: missing, or not what was signed; rebuilding it", flawed.display());
        on_event(Event::Library(LibraryEvent::Warning { what }));
    }
    Ok(MirroredVersion { signed, listing: adopted.listing })
}

/// Makes a version's content readable under the names and sizes of its listing.
pub(crate) fn show(
    buckets: &Buckets,
    content: &BucketPlace,
    listing: Option<&ListedFiles>,
) -> Result<(), MirrorError> {
    let shown = match listing {
        None => {
            let there = buckets.existing(content);
            there.and_then(|there| there.map(drop).ok_or(BucketError::NotThere))
        }
        Some(listing) => {
            let mut failed = None;
            let entries = listing.entries().map_while(|found| match found {
                Ok(found) => Some(found.entry),
                Err(e) => {
                    failed = Some(e);
                    None
                }
            });
            let entries: Vec<Entry> = entries.collect();
            if let Some(e) = failed {
                return Err(e.into());
            }
            buckets.show(content, entries.into_iter())
        }
    };
    shown.map_err(|e| MirrorError::at(&content.path(), e))
}

/// Opens the publication kept at `path` and returns the path of its content: of the version that `wanted` names if it
/// is there, else of the newest. Records it in the store, so that it can be served with its publisher's signature.
/// Returns `path` if nothing is kept there.
///
/// # Errors
/// See [`MirrorError`]. Missing rights and mistyped names are reported before anything else happens.
pub fn open_mirrored(
    buckets: &Arc<Buckets>,
    store: &Path,
    path: &Path,
    wanted: Option<&Ticket>,
    on_event: &mut dyn FnMut(Event),
) -> Result<PathBuf, MirrorError> {
    if let Err(error) = buckets.metadata(path) {
        let inner = error.downcast::<BucketError>();
        return Err(match inner {
            Ok(why) => MirrorError::at(path, why),
            Err(source) => MirrorError::Place { at: path.to_path_buf(), source },
        });
    }
    let place = BucketPlace::of(path)?;
    let Some(versions) = versions(buckets, &place)? else { return Ok(path.to_path_buf()) };
    let is_wanted = |ticket: &&Ticket| wanted.is_some_and(|wanted| wanted.root == ticket.root);
    let found = versions.tickets.iter().find(is_wanted).or(versions.tickets.first());
    let Some(ticket) = found else {
        return Err(MirrorError::Empty(place));
    };
    let store = Store::open(buckets.clone(), store)?;
    let kept = kept(buckets, &store, &place, ticket, on_event)?;
    let content = content_of(&place, &kept.signed)?;
    show(buckets, &content, kept.listing.as_ref())?;
    let save = SaveOptions::to(Output::At(content.path()), Existing::Refuse);
    let (manifest, packet) = (&kept.signed.manifest, &kept.signed.packet[..]);
    let fetched = record::FetchedManifest { manifest, packet };
    let mut told = |event| on_event(Event::Library(event));
    let path = content.path();
    record::keep_fetched(&store, &save, ticket, fetched, Some(&path), wall_clock(), &mut told);
    Ok(path)
}

/// Size in bytes of each object below the folder `under`, by its name within that folder.
pub(crate) fn sizes(below: &[ListedObject], under: &str) -> std::collections::HashMap<String, u64> {
    let named = |object: &ListedObject| {
        let name = object.name.strip_prefix(under)?.strip_prefix('/')?;
        Some((name.to_owned(), object.size))
    };
    below.iter().filter_map(named).collect()
}
