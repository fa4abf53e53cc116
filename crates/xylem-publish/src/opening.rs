//! [`open`]: opens a path for serving, hashed and signed here or as another publisher has signed it.

use std::path::Path;

use xylem_base::{Blame, Failure, Stop, UnixTime, advised, blame_of, canonical_in};
use xylem_files::LibraryEvent;
use xylem_files::reads::Reads;
use xylem_files::walk::Selection;
use xylem_object::{Publication, PublicationError, PublisherKey};
use xylem_packet::Name;
use xylem_store::{Store, StoreError};

use crate::follow::{Author, FollowOptions, GrowError, Grower};
use crate::publications::ServedContent;
use crate::{PublishError, Sealing, onward, publish, publish_sealed, signed_at};

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

/// Why content cannot be opened for serving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpeningError {
    /// It cannot be hashed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// It grows, and cannot be followed.
    #[error(transparent)]
    Grow(#[from] GrowError),
    /// Nothing can be published under the name.
    #[error(transparent)]
    Publication(#[from] PublicationError),
    /// The store fails.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
}

impl Failure for OpeningError {
    fn blame(&self) -> Blame {
        match self {
            Self::Publish(e) => e.blame(),
            Self::Grow(e) => e.blame(),
            Self::Publication(_) => Blame::Usage,
            Self::Store(e) => blame_of(e),
        }
    }
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
) -> Result<ServedContent, OpeningError> {
    let OpeningOptions { name, key, .. } = *how;
    if let Some(follow) = how.follow {
        let author = Author { name, key };
        let grower = Grower::open(store, path, follow, &author, now, stop, on_event)?;
        return Ok(ServedContent::Growing(Box::new(grower)));
    }
    let path = canonical_in(&**store.medium(), path)?;
    if let Some(sealing) = &how.sealing {
        let (published, prefix, medium) =
            publish_sealed(store, &path, name, how.selection, sealing, now, stop, on_event)?;
        let packet = published.sign(&prefix, key)?;
        let publication = Publication::new(prefix, packet, &key.public())?.with_metadata(key);
        let serving = Box::new(published.serve_without_waiting(medium));
        return Ok(ServedContent::Still { publication: Box::new(publication), serving });
    }
    let fetched = signed_at(store, &path).filter(|_| !how.own);
    let (published, prefix) = publish(store, &path, name, how.selection, now, stop, on_event)?;
    match fetched {
        Some(signed) if signed.manifest.root == published.manifest.root => {
            let reads = Reads::over(store.medium().clone(), &path);
            if let Some(onward) = onward(store, &path, signed, Some(&reads), stop, on_event)? {
                let answers = onward.answers(reads)?;
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
    let publication = Publication::new(prefix, packet, &key.public())?.with_metadata(key);
    let serving = Box::new(published.serve_without_waiting(store.medium().clone()));
    Ok(ServedContent::Still { publication: Box::new(publication), serving })
}
