//! Selects what is scrubbed: the named paths, or all that the store knows.

use std::path::{Path, PathBuf};

use xylem_base::{os_bytes, os_path};
use xylem_files::record::{self, PathRecord};
use xylem_hash::Hash;
use xylem_object::{PublicationKind, Ticket};
use xylem_store::{CatalogRecord, FileKind, FileState, Store};

use super::error::ScrubError;
use super::options::ScrubOptions;

/// One file or directory and its expected content.
#[derive(Debug)]
pub(super) struct ScrubTarget {
    /// Canonical path.
    pub(super) path: PathBuf,
    /// Root of the file, or of the directory's listing.
    pub(super) root: Hash,
    /// Whether it is a directory.
    pub(super) directory: bool,
    /// Size of the root object (the file, or the listing), if known.
    pub(super) size: Option<u64>,
    /// Bytes of content, for progress; 0 if unknown.
    pub(super) content: u64,
    /// State of a file when it was hashed; `None` if only a ticket defines its content.
    pub(super) state: Option<FileState>,
    /// When it was recorded, seconds since 1970; `None` if only a ticket defines its content.
    pub(super) used_s: Option<u64>,
    /// Tickets for this root: the record's own first.
    pub(super) tickets: Vec<Ticket>,
    /// How many of `tickets` were named for this run; these come last.
    pub(super) named: usize,
    /// Patterns that a fetch excluded.
    pub(super) excluded: Vec<String>,
    /// If set, only this entry of the directory and what is below it.
    pub(super) inside: Option<Vec<u8>>,
    /// It is a growing file: bytes beyond its recorded size are unknown, and no flaw.
    pub(super) grows: bool,
}

impl ScrubTarget {
    /// Returns the requested path.
    pub(super) fn shown(&self) -> PathBuf {
        self.inside.as_ref().map_or(self.path.clone(), |inside| self.path.join(os_path(inside)))
    }
}

/// Returns the targets that `options` select, in that order.
///
/// # Errors
/// A path without record or ticket; an unreadable catalog of the store.
pub(super) fn targets(
    options: &ScrubOptions,
    store: &Store,
) -> Result<Vec<ScrubTarget>, ScrubError> {
    let tickets = &options.tickets;
    if options.paths.is_empty() {
        let known = store.known()?;
        let mut all = Vec::new();
        for known in known {
            all.push(of_known(store, &known?, tickets));
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        return Ok(all);
    }
    options.paths.iter().map(|path| named(path, store, tickets)).collect()
}

/// Returns the target of a named path.
fn named(path: &Path, store: &Store, tickets: &[Ticket]) -> Result<ScrubTarget, ScrubError> {
    // A missing path may still have a record.
    let canonical =
        xylem_base::canonical_in(&**store.medium(), path).or_else(|_| std::path::absolute(path));
    let canonical =
        canonical.map_err(|source| ScrubError::Path { path: path.to_path_buf(), source })?;
    let key = os_bytes(canonical.as_os_str());
    if let Some(known) = store.known_at(&key)? {
        return Ok(of_known(store, &known, tickets));
    }
    let meta = store.medium().metadata(&canonical);
    let directory = meta.as_ref().is_ok_and(|m| m.kind == FileKind::Directory);
    if let Some(record) = PathRecord::recall(store, &key) {
        let size = (!directory).then_some(record.state.size);
        let target = ScrubTarget {
            path: canonical,
            root: record.root,
            directory,
            size,
            content: size.unwrap_or(0),
            state: Some(record.state),
            used_s: None,
            tickets: Vec::new(),
            named: 0,
            excluded: Vec::new(),
            inside: None,
            grows: false,
        };
        return Ok(with_tickets(target, record.note.ticket.as_deref(), tickets));
    }
    for above in canonical.ancestors().skip(1) {
        let known = store.known_at(&os_bytes(above.as_os_str())).ok().flatten();
        if let (Some(known), Ok(inside)) =
            (known.filter(|k| k.directory), canonical.strip_prefix(above))
        {
            let inside = Some(os_bytes(inside.as_os_str()));
            return Ok(ScrubTarget { inside, ..of_known(store, &known, tickets) });
        }
    }
    let path = || path.to_path_buf();
    if let Err(source) = meta {
        return Err(ScrubError::Path { path: path(), source });
    }
    // Without a record a ticket may define the content.
    let kind = if directory { PublicationKind::Directory } else { PublicationKind::File };
    let mut fitting = tickets.iter().filter(|t| t.kind.is_none_or(|of| of == kind));
    match (fitting.next(), fitting.next()) {
        (Some(ticket), None) => Ok(of_ticket(canonical, directory, ticket)),
        (None, _) => Err(ScrubError::Unknown(path())),
        _ => Err(ScrubError::SeveralTickets(path())),
    }
}

fn of_known(store: &Store, known: &CatalogRecord, tickets: &[Ticket]) -> ScrubTarget {
    let note = PathRecord::of(known).note;
    let target = ScrubTarget {
        path: os_path(&known.path),
        root: known.root,
        directory: known.directory,
        size: (!known.directory).then_some(known.size),
        content: known.size,
        state: (!known.directory).then_some(known.state),
        used_s: Some(known.used_s),
        tickets: Vec::new(),
        named: 0,
        excluded: note.excluded,
        inside: None,
        grows: record::is_growing(store, known),
    };
    with_tickets(target, note.ticket.as_deref(), tickets)
}

fn of_ticket(path: PathBuf, directory: bool, ticket: &Ticket) -> ScrubTarget {
    ScrubTarget {
        path,
        root: ticket.root,
        directory,
        size: ticket.size,
        content: ticket.size.filter(|_| !directory).unwrap_or(0),
        state: None,
        used_s: None,
        tickets: vec![ticket.clone()],
        named: 1,
        excluded: Vec::new(),
        inside: None,
        grows: false,
    }
}

/// Adds the tickets that are for the target's root.
fn with_tickets(mut target: ScrubTarget, own: Option<&str>, named: &[Ticket]) -> ScrubTarget {
    let own = own.and_then(|text| text.parse::<Ticket>().ok());
    target.tickets.extend(own.filter(|t| t.root == target.root));
    let same = named.iter().filter(|t| t.root == target.root);
    let before = target.tickets.len();
    target.tickets.extend(same.cloned());
    target.named = target.tickets.len() - before;
    target.size = target.size.or_else(|| target.tickets.iter().find_map(|t| t.size));
    target
}
