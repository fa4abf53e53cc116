//! Fetches a private publication: its list first, which states to its recipients what the content is; then the rest,
//! which is decrypted into that content.

use std::time::Instant;

use xylem_base::{Stop, canonical};
use xylem_files::{Existing, FetchMode, LibraryEvent, Output, SaveOptions};
use xylem_object::Manifest;
use xylem_publish::root_of;
use xylem_sink::GetSummary;
use xylem_sink::sealed::{ALL_BUT_THE_LIST, UnsealedList, ciphertext_at};
use xylem_store::Store;

use super::{GetError, GetOptions, fetch_ticket, found, seed, taken};
use crate::event::{Event, from_library};
use crate::fetch::Fetch;

/// Fetches the encrypted content that the manifest names, and decrypts it.
pub(super) fn get(
    mut fetch: Fetch,
    manifest: Manifest,
    options: &GetOptions,
    store: &Store,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, GetError> {
    let started = Instant::now();
    let at = ciphertext_at(&options.save, &manifest.root)?;
    let list_alone = SaveOptions {
        output: Output::At(at.clone()),
        range: None,
        existing: Existing::Overwrite,
        exclude: vec![ALL_BUT_THE_LIST.to_owned()],
        like: Vec::new(),
        delete: false,
        room: options.save.room,
        doing: FetchMode::Fetch,
        only: None,
    };
    let first = GetOptions { save: list_alone, serve: None, ..options.clone() };
    let (list_of, mut quiet) = (manifest.clone(), |event| pass_on_event(event, on_event));
    fetch_ticket(&mut fetch, list_of, &first, store, stop, &mut quiet)?;
    let medium = store.medium().clone();
    let (name, keys) = (fetch.name(), xylem_keys::decryption_keys(&options.store)?);
    let publisher = options.ticket.publisher;
    let opened = match UnsealedList::read(&*medium, &at, publisher, name.as_ref(), keys) {
        Ok(opened) => opened,
        Err(e) => {
            // Remove a list that we cannot open.
            xylem_sink::sealed::remove_list(&*medium, &at)?;
            return Err(e.into());
        }
    };
    on_event(found(opened.manifest()));
    let root = opened.manifest().root;
    if let Some(path) = taken(&options.save, opened.manifest())? {
        opened.remove_ciphertext(&*medium)?;
        let there = root_of(&*medium, &canonical(&path)?, stop, &mut from_library(on_event))?;
        if there != root {
            return Err(GetError::Taken(path));
        }
        let (bytes, files) = (opened.manifest().total_size, opened.manifest().file_count);
        let summary = GetSummary::new(root);
        let path = Some(path);
        return Ok(GetSummary {
            path,
            bytes,
            files,
            resumed: bytes,
            already_complete: true,
            ..summary
        });
    }
    // Encrypt local content again and reuse it where it matches: nothing of it is fetched.
    let (there, like) =
        opened.encrypted_again(store, &options.save, &mut from_library(on_event))?;
    let rest = SaveOptions { exclude: Vec::new(), like, ..first.save.clone() };
    let second = GetOptions { save: rest, serve: options.serve.clone(), ..first };
    let mut quiet = |event| pass_on_event(event, on_event);
    let mut summary = fetch_ticket(&mut fetch, manifest, &second, &there, stop, &mut quiet)?;
    let (path, tally) = opened.unseal(store, &options.save, stop, &mut from_library(on_event))?;
    (summary.path, summary.root) = (Some(path), root);
    (summary.bytes, summary.files) = (tally.total, tally.files);
    summary.elapsed = started.elapsed();
    if summary.fetched > 0 {
        fetch.report_fetched(summary.fetched);
    }
    tracing::info!(%root, fetched = summary.fetched, elapsed = ?summary.elapsed, "fetched and decrypted");
    if options.serve.as_ref().is_some_and(|serve| serve.seed) {
        seed(&mut fetch, &mut summary, stop, on_event)?;
    } else {
        opened.remove_ciphertext(&*medium)?;
    }
    fetch.leave(stop, on_event);
    Ok(summary)
}

/// Passes on events of the ciphertext, except for the names of its files.
fn pass_on_event(event: Event, on_event: &mut dyn FnMut(Event)) {
    if !matches!(event, Event::Library(LibraryEvent::Contents { .. })) {
        on_event(event);
    }
}
