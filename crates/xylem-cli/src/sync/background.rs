//! `xylem sync DIR --background`, `--stop` and `--list`: folders that the background node keeps in step.

use std::path::{Path, PathBuf};

use xylem_base::canonical;
use xylem_folder::{Invitation, LastRun, SyncHome};
use xylem_node::{AnnounceOptions, NamedRelay};

use super::{SyncArgs, status, telling};
use crate::cli::Common;
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::text::clean;
use crate::service::listed::{self, BackgroundFolder, FolderTerms};
use crate::service::messages::{ServiceReply, ServiceRequest};
use crate::service::{self, control, unit};

/// Turns the flags into terms for the background node; an error if it does not support one. The pattern is exhaustive,
/// so that each new flag is considered.
fn terms(args: &SyncArgs, common: &Common) -> Result<FolderTerms, CommandFailure> {
    let SyncArgs {
        // Used before the folder is handed over.
        folder: _,
        ticket: _,
        // Remembered with the folder.
        name: _,
        listen: _,
        trash: _,
        versions: _,
        xattrs: _,
        no_xattrs: _,
        // None of these can be combined with `--background`.
        read_only: _,
        remove: _,
        allow: _,
        history: _,
        accept_removals: _,
        accept_rules: _,
        status: _,
        restore: _,
        pause: _,
        resume: _,
        stop: _,
        list: _,
        with_service: _,
        background: _,
        trust: _,
        chain: _,
        schema,
        sign,
        announced,
        relay,
        near,
        shape,
        limit,
    } = args;
    let refused = [(schema.is_some(), "--schema"), (sign.is_some(), "--sign")];
    if let Some((_, flag)) = refused.into_iter().find(|(given, _)| *given) {
        let what = format!(
            "--background takes no {flag}: run `xylem sync DIR {flag} …` once without it, which is remembered, end that, and then use --background"
        );
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let AnnounceOptions { lan, map, public: _ } = near.options(common)?;
    let shape = shape.flags();
    let of = |name: &str| shape.iter().find(|(flag, _)| *flag == name).map(|(_, to)| to.clone());
    Ok(FolderTerms {
        announce: announced.announce.iter().map(ToString::to_string).collect(),
        relays: relay.named().iter().map(NamedRelay::secret_text).collect(),
        lan,
        map,
        limit: limit.limit,
        shape: of("--shape"),
        post_quantum: of("--post-quantum"),
    })
}

/// Makes the folder a member of its group, and hands it over to the background node.
pub(super) fn hand_over(
    args: &SyncArgs,
    folder: &Path,
    joins: Option<&Invitation>,
    last: &LastRun,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let (terms, store) = (terms(args, common)?, service::store(common)?);
    if control::ask(&store, &ServiceRequest::Folders, &mut |_| {})?.is_none() {
        let what = "no background node runs: `xylem service install` starts one; or leave out --background";
        return Err(CommandFailure::new(Exit::Local, what));
    }
    let path = canonical(folder)?;
    let home = SyncHome::open(&store, &path, joins)?;
    home.keep_last_run(last)?;
    let mut writes: Vec<PathBuf> =
        listed::load(&store)?.into_iter().map(|folder| folder.path).collect();
    writes.extend((!writes.contains(&path)).then(|| path.clone()));
    unit::allow_writes(&writes)?;
    let request = ServiceRequest::Sync(BackgroundFolder { path, terms });
    match control::ask(&store, &request, &mut |_| {})? {
        Some(ServiceReply::Synced { ticket }) => {
            if let Some(ticket) = ticket {
                let name = last.name.as_deref().unwrap_or_default();
                telling::ready(&ticket, name, &home.key()?.public().to_string(), out)?;
            }
            out.note("Kept in step in the background, also after a restart; `xylem sync DIR --status` shows its state, --stop ends it");
            Ok(Exit::Done)
        }
        _ => Err(CommandFailure::new(Exit::Local, "the background node has ended")),
    }
}

/// Tells the background node to stop keeping a folder in step.
pub(super) fn stop(folder: &Path, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let (path, store) = (service::absolute(folder)?, service::store(common)?);
    // A folder that is gone can still be in the list.
    let path = path.canonicalize().unwrap_or(path);
    if control::ask(&store, &ServiceRequest::Unsync { path: path.clone() }, &mut |_| {})?.is_none()
    {
        let mut listed = listed::load(&store)?;
        let before = listed.len();
        listed.retain(|folder| folder.path != path);
        if listed.len() == before {
            let what = format!("{}: the background node does not keep it in step", path.display());
            return Err(CommandFailure::new(Exit::Usage, what));
        }
        listed::save(&store, &listed)?;
    }
    let left: Vec<PathBuf> = listed::load(&store)?.into_iter().map(|folder| folder.path).collect();
    unit::allow_writes(&left)?;
    out.note(&clean(&format!(
        "the background node no longer keeps {} in step; it stays a member of its group",
        path.display()
    )));
    Ok(Exit::Done)
}

/// Lists the folders of the store with their status.
pub(super) fn list(common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let store = service::store(common)?;
    let rows: Vec<(PathBuf, Option<String>)> =
        match control::ask(&store, &ServiceRequest::Folders, &mut |_| {})? {
            Some(ServiceReply::Folders { folders }) => {
                folders.into_iter().map(|row| (row.path, row.why)).collect()
            }
            _ => {
                let why = || Some("the background node does not run".to_owned());
                listed::load(&store)?.into_iter().map(|folder| (folder.path, why())).collect()
            }
        };
    status::list(&store, &rows, out)
}

/// Whether the background node's list has a folder.
pub(super) fn has(folder: &Path, store: &Path) -> Result<bool, CommandFailure> {
    let folder = canonical(folder)?;
    Ok(listed::load(store)?.iter().any(|listed| listed.path == folder))
}
