//! Fetches from another member: its index, and new files.

use std::path::Path;
use std::time::Duration;

use xylem_base::{FileMedium, Stop, os_bytes};
use xylem_files::{Existing, Only, Output, SaveOptions};
use xylem_folder::{FolderError, MAX_INDEX, MemberStatement, StoredIndex};
use xylem_node::{Event, GetError, GetOptions, get};
use xylem_object::Ticket;

use crate::asking::FetchTurns;
use crate::error::{IndexRefusal, SyncError};
use crate::keeping::{SyncEvent, SyncOptions};

/// A fetch without progress for this long ends, and is tried again later.
const GIVE_UP: Duration = Duration::from_secs(10);

/// The error for an index that is refused.
fn odd(said: &MemberStatement, why: impl Into<IndexRefusal>) -> SyncError {
    SyncError::Index { member: said.name.clone(), why: why.into() }
}

/// Fetches a member's index to the file `at`, where an older one may lie. Returns the index, and the ticket of the
/// content.
pub(crate) fn index(
    options: &SyncOptions,
    asking: &FetchTurns,
    said: &MemberStatement,
    at: &Path,
    stop: &Stop,
) -> Result<(StoredIndex, Ticket), SyncError> {
    let odd = |why: IndexRefusal| odd(said, why);
    let save = SaveOptions::to(Output::At(at.to_path_buf()), Existing::Overwrite);
    let ticket = Ticket { link_key: Some(said.link_key), ..said.index.clone() };
    if ticket.publisher != said.member {
        return Err(odd(IndexRefusal::OtherPublisher));
    }
    let too_large = stop.part();
    let fetched = fetch(options, asking, ticket, save, &too_large, &mut |event| match event {
        Event::Found { bytes, directory, .. } if *directory || *bytes > MAX_INDEX => {
            too_large.raise();
        }
        _ => {}
    });
    if let Err(e) = fetched {
        return Err(if too_large.raised() && !stop.raised() {
            odd(IndexRefusal::TooLarge)
        } else {
            e.into()
        });
    }
    let index = StoredIndex::open(&FileMedium::default(), at).map_err(|e| match e {
        FolderError::Index { why, .. } => odd(why.into()),
        e => odd(e.into()),
    })?;
    if index.state() != said.state {
        return Err(odd(IndexRefusal::OtherState));
    }
    let content = Ticket::from_bytes(&index.about).map_err(|e| odd(e.into()))?;
    if content.publisher != said.member {
        return Err(odd(IndexRefusal::OtherContent));
    }
    Ok((index, Ticket { link_key: Some(said.link_key), ..content }))
}

/// Fetches the paths of a member's folder that `save` names. Returns the paths that the
/// member no longer has as announced, because they have changed there.
pub(crate) fn content(
    options: &SyncOptions,
    asking: &FetchTurns,
    ticket: Ticket,
    save: SaveOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(SyncEvent),
) -> Result<Vec<Vec<u8>>, SyncError> {
    let look = &mut |event: &Event| {
        if let Event::Progress { verified, total, .. } = event {
            options.board.came(*verified, *total);
            tell(SyncEvent::Fetching(event.clone()));
        }
    };
    match fetch(options, asking, ticket, save, stop, look) {
        Ok(()) => Ok(Vec::new()),
        Err(GetError::Lost { files, .. }) => {
            Ok(files.iter().map(|path| os_bytes(path.as_os_str())).collect())
        }
        Err(e) => Err(e.into()),
    }
}

fn fetch(
    options: &SyncOptions,
    asking: &FetchTurns,
    ticket: Ticket,
    save: SaveOptions,
    stop: &Stop,
    look: &mut dyn FnMut(&Event),
) -> Result<(), GetError> {
    let save = SaveOptions { only: save.only.or_else(|| Some(Only::default())), ..save };
    let options = GetOptions {
        ticket,
        save,
        from: Vec::new(),
        relays: options.relays.clone(),
        limit_rate: options.limit,
        background: false,
        links: options.links.clone(),
        ask_who_answers: false,
        give_up: GIVE_UP,
        wait: true,
        store: options.store.clone(),
        fsync: false,
        lan: false,
        dht: None,
        ciphertext: false,
        serve: None,
    };
    let look = &mut |event| {
        match event {
            Event::PeerConnected { .. } | Event::Found { .. } => asking.record_sign(),
            Event::Progress { verified, .. } => asking.record_bytes(verified),
            _ => {}
        }
        look(&event);
    };
    get(&options, stop, look).map(drop)
}
