//! [`newest`]: finds the newest checkpoint of a growing file, for a single fetch.

use std::path::Path;
use std::time::Duration;

use xylem_base::Stop;
use xylem_hash::Hash;
use xylem_object::witness::{Evidence, SignedVersion};
use xylem_object::{Manifest, PublisherId, naming};
use xylem_transfer::TransferSpec;
use xylem_tree::Geometry;
use xylem_tree::consistency::{self, ConsistencyError};
use xylem_witness::{ASK_EVERY, NewestQuery, keep_evidence};

use super::error::EvidenceKept;
use super::versions::proof;
use crate::event::Event;
use crate::fetch::{Fetch, FetchError};

/// Time to wait for news of a newer checkpoint; then the ticket's own is used.
pub(super) const NEWER_CHECKPOINT_WAIT: Duration = Duration::from_secs(3);

/// Turns the fetch to the newest checkpoint, if `manifest`, the last to arrive, belongs to a file that still grows.
/// Returns the manifest of the newest checkpoint, after a proof that it begins with the ticket's. Without news of a
/// newer one, or for any other publication, returns `manifest` itself. Warns that the file still grows.
///
/// # Errors
/// [`FetchError::OtherHistory`] if the publisher has signed another history; the evidence is kept in `store`. Others as for any
/// manifest.
pub fn newest(
    fetch: &mut Fetch,
    publisher: PublisherId,
    store: &Path,
    manifest: Manifest,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Manifest, FetchError> {
    if manifest.growing.is_none_or(|growing| growing.last) {
        return Ok(manifest);
    }
    let open = |packet: &[u8]| SignedVersion::open(packet, publisher).map_err(FetchError::Version);
    let named = open(fetch.manifest_packet())?;
    let object = named.object.clone();
    fetch.watch(object.clone());
    let asked = NewestQuery::of(object.clone(), publisher);
    let heard = find_newer_version(fetch, &asked, named.version, stop, on_event)?;
    let found = match heard.filter(|version| *version > named.version) {
        None => manifest,
        Some(version) => {
            let prefix = naming::versioned(object.as_ref(), version).map_err(FetchError::Name)?;
            fetch.change_publication(TransferSpec { prefix, publisher, root: None, size: None })?;
            let found = fetch.manifest(stop, on_event)?;
            let newer = open(fetch.manifest_packet())?;
            begins_with_named(fetch, named, newer, store, stop, on_event)?;
            found
        }
    };
    if found.growing.is_some_and(|growing| !growing.last) {
        let what = format!(
            "the file still grows: these are the {} bytes published so far; `xylem get --follow` continues with \
             new ones",
            found.size
        );
        on_event(Event::warning(what));
    }
    Ok(found)
}

/// The newest version that a peer reports, if it is at least `than`.
fn find_newer_version(
    fetch: &mut Fetch,
    newest: &NewestQuery,
    than: u64,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<u64>, FetchError> {
    let until = fetch.now() + NEWER_CHECKPOINT_WAIT;
    let mut ask_at = fetch.now();
    loop {
        let now = fetch.now();
        if now >= until {
            return Ok(None);
        }
        if now >= ask_at && fetch.ask_all(&newest.question(None)?) {
            ask_at = now + ASK_EVERY;
        }
        fetch.run_once(Some(ask_at.max(now + RETRY).min(until)), stop, on_event)?;
        while fetch.next_event(on_event)?.is_some() {}
        while let Some(packet) = fetch.next_pointer() {
            if let Some(version) = newest.pointed_to(&packet).filter(|version| *version >= than) {
                return Ok(Some(version));
            }
        }
    }
}

/// Pause before a question is repeated while no peer is connected.
pub(super) const RETRY: Duration = Duration::from_millis(2);

/// Proves that a newer checkpoint begins with the one that the ticket names.
///
/// # Errors
/// [`FetchError::OtherHistory`] if it does not.
pub(super) fn begins_with_named(
    fetch: &mut Fetch,
    named: SignedVersion,
    newer: SignedVersion,
    store: &Path,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), FetchError> {
    let (old, new) = (&named.manifest, &newer.manifest);
    let (shown, proof) = continues(fetch, old.size, old.root, new, stop, on_event)?;
    let Err(why) = shown else { return Ok(()) };
    let (newer_number, named_number) = (newer.version, named.version);
    let found = Evidence { earlier: named, later: newer, proof };
    let evidence = match found.split().is_ok().then(|| keep_evidence(store, &found)) {
        None => EvidenceKept::None,
        Some(Ok(path)) => EvidenceKept::At(path),
        Some(Err(e)) => EvidenceKept::Unsaved(e),
    };
    Err(FetchError::OtherHistory { newer: newer_number, named: named_number, why, evidence })
}

/// Whether a checkpoint begins with content of this size and root. `manifest` is the checkpoint's and arrived last.
/// Also returns the proof.
pub(crate) fn continues(
    fetch: &mut Fetch,
    size: u64,
    root: Hash,
    manifest: &Manifest,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(Result<(), ConsistencyError>, Vec<u8>), FetchError> {
    let older = Geometry::new(size, manifest.segment).with_kind(manifest.tree);
    let newer = manifest.geometry();
    let proof = proof(fetch, size, manifest, stop, on_event)?;
    let shown = consistency::verify((&older, root), (&newer, manifest.root), &proof);
    Ok((shown.map(drop), proof))
}
