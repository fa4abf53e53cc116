//! [`open`]: opens a path for serving, hashed and signed here or as another publisher has signed it.

use std::path::Path;

use xylem_base::{Blame, Error, Stop, UnixTime, canonical_in};
use xylem_files::LibraryEvent;
use xylem_files::reads::Reads;
use xylem_files::walk::Selection;
use xylem_object::{Publication, PublicationError, PublisherKey};
use xylem_packet::Name;
use xylem_store::Store;

use crate::follow::{Author, FollowOptions, Grower};
use crate::publications::ServedContent;
use crate::{Sealing, onward, publish, publish_sealed, signed_at};

/// How a path is shared.
pub struct OpeningOptions<'a> {
    /// Which parts of a directory.
    pub selection: &'a Selection,
    /// A name or key was requested explicitly: fetched content is then published anew.
    pub own: bool,
    /// Options for a file that grows.
    pub follow: Option<&'a FollowOptions>,
    /// Returns the object's name for the last component of the path.
    pub name: &'a dyn Fn(&[u8]) -> Name,
    /// The signing key.
    pub key: &'a PublisherKey,
    /// Encrypt for these recipients.
    pub sealing: Option<Sealing<'a>>,
}

/// Hashes and signs the content of `path`, and opens it for serving. Fetched content that is unchanged is served with
/// its original publisher's signature, unless it is to be published as our own.
///
/// # Errors
/// Those of [`publish`] and [`Grower::open`]; a name under which nothing can be published.
pub fn open(
    store: &Store,
    path: &Path,
    how: &OpeningOptions<'_>,
    now: UnixTime,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<ServedContent, Error> {
    let OpeningOptions { name, key, .. } = *how;
    if let Some(follow) = how.follow {
        let author = Author { name, key };
        let grower = Grower::open(store, path, follow, &author, now, stop, on_event)?;
        return Ok(ServedContent::Growing(Box::new(grower)));
    }
    let unusable = |e: PublicationError| Error { blame: Blame::Usage, message: e.to_string() };
    let path = canonical_in(&**store.medium(), path)?;
    if let Some(sealing) = &how.sealing {
        let (published, prefix, medium) =
            publish_sealed(store, &path, name, how.selection, sealing, now, stop, on_event)?;
        let packet = published.sign(&prefix, key)?;
        let publication =
            Publication::new(prefix, packet, &key.public()).map_err(unusable)?.with_metadata(key);
        let serving = Box::new(published.serve_without_waiting(medium));
        return Ok(ServedContent::Still { publication: Box::new(publication), serving });
    }
    let fetched = signed_at(store, &path).filter(|_| !how.own);
    let (published, prefix) = publish(store, &path, name, how.selection, now, stop, on_event)?;
    match fetched {
        Some(signed) if signed.manifest.root == published.manifest.root => {
            let reads = Reads::over(store.medium().clone(), &path);
            if let Some(onward) = onward(store, &path, signed, Some(&reads), stop, on_event)? {
                let answers = onward.answers(reads).map_err(unusable)?;
                return Ok(ServedContent::Onward(Box::new(answers)));
            }
        }
        Some(signed) => {
            let by = signed.publisher.key_id();
            let what =
                "it has changed since it was fetched: it is published with a key of this store";
            let what = format!("{}: {what}, not with that of {by}", path.display());
            on_event(LibraryEvent::Warning { what });
        }
        None => {}
    }
    let packet = published.sign(&prefix, key)?;
    let publication =
        Publication::new(prefix, packet, &key.public()).map_err(unusable)?.with_metadata(key);
    let serving = Box::new(published.serve_without_waiting(store.medium().clone()));
    Ok(ServedContent::Still { publication: Box::new(publication), serving })
}
