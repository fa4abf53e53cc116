//! `xylem shares` and `xylem unshare`: what the background node of this user serves.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::output::text::{bytes, clean, count, date};
use crate::service::messages::{ServiceReply, ServiceRequest, ShareRow};
use crate::service::{self, control};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use xylem_publish::registry::{Registered, Registry};

/// Lists what the background node shares, and how much of it was served
///
/// One line each: id, size, bytes sent, links over which it was requested, complete fetches (as the getters report
/// them), the day since when it is shared, and the path. After the path, where they apply: the name that was asked for,
/// the number of readers, and whether a part is left out. If a share cannot be served now, because it is missing or has
/// changed, the reason is in the line below. Shares in the foreground (`xylem share` without the node) are not listed.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem shares                       all of them
  xylem shares --tickets film.mkv    the ticket of one, to give away again
  xylem shares --json                for scripts

",
    exit_help!()
))]
pub(crate) struct SharesArgs {
    /// List only these, by path or id
    #[arg(value_name = "PATH|ID")]
    what: Vec<PathBuf>,

    /// Print only the tickets, a line each
    #[arg(long)]
    tickets: bool,
}

/// Ends shares of the background node; the files stay
///
/// A path ends all its shares, an id that one. The ticket of an ended share leads to nothing. If the node does not run,
/// the paths are removed from the list of what it will share when it starts.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem unshare film.mkv      by its path
  xylem unshare 1f00c0de      by its id, as `xylem shares` shows it
  xylem unshare *.mkv         several at once

",
    exit_help!()
))]
pub(crate) struct UnshareArgs {
    /// The shares to end, by path or id
    #[arg(required = true, value_name = "PATH|ID")]
    what: Vec<PathBuf>,
}

/// The argument as an absolute path, and the same text as an id.
fn named(what: &Path) -> Result<(PathBuf, String), CommandFailure> {
    let path = service::absolute(what)?;
    let path = path.canonicalize().unwrap_or(path);
    Ok((path, what.to_string_lossy().into_owned()))
}

/// Runs `xylem shares`.
pub(crate) fn run(
    args: SharesArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let store = service::store(common)?;
    let running = control::ask(&store, &ServiceRequest::Shares, &mut |_| {})?;
    let (runs, mut rows) = match running {
        Some(ServiceReply::Shares { shares }) => (true, shares),
        _ => (false, registered(&store)?),
    };
    if !args.what.is_empty() {
        let mut chosen = Vec::new();
        for what in &args.what {
            let (path, id) = named(what)?;
            let at_path: Vec<_> = rows.iter().filter(|row| row.path == path).collect();
            let with_id = || rows.iter().filter(|row| row.id == id).collect();
            let found = if at_path.is_empty() { with_id() } else { at_path };
            if found.is_empty() {
                return Err(service::not_shared(&path, &id));
            }
            chosen.extend(found.into_iter().cloned());
        }
        rows = chosen;
    }
    for row in &rows {
        if out.is_json() {
            out.json(row)?;
        } else if args.tickets {
            out.line(&row.ticket)?;
        } else {
            let line = format!(
                "{}  {:>10}  {:>10} sent  {:>10}  fetched {}  {}  {}",
                row.id,
                bytes(row.bytes),
                bytes(row.sent),
                count(row.peers, "peer"),
                row.fetched,
                date(row.since_s),
                row.called()
            );
            out.line(&clean(&line))?;
            if let Some(why) = row.why.as_ref().filter(|_| runs) {
                out.warn(&format!("{} is not served as it was shared: {why}", row.id));
            }
        }
    }
    if !runs {
        out.warn(
            "the background node does not run, so none of this is served; `xylem service install` \
             or `xylem service run` starts it",
        );
    } else if rows.is_empty() {
        out.note("Nothing is shared in the background; `xylem share PATH` shares a file or folder");
    }
    Ok(Exit::Done)
}

/// The list of what the node would share if it ran.
fn registered(store: &Path) -> Result<Vec<ShareRow>, CommandFailure> {
    let row = |share: &Registered| {
        service::row(share, share.counts, Some("the background node does not run".to_owned()))
    };
    Ok(Registry::load(store)?.shares.iter().map(row).collect())
}

/// Event: a share that has ended.
#[derive(Serialize)]
#[serde(tag = "event", rename = "unshared")]
struct UnsharedRow<'a> {
    #[serde(serialize_with = "xylem_base::json::path")]
    path: &'a Path,
    id: &'a str,
    name: Option<&'a str>,
}

/// Runs `xylem unshare`.
pub(crate) fn unshare(
    args: UnshareArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let store = service::store(common)?;
    for what in &args.what {
        let (path, id) = named(what)?;
        let request = ServiceRequest::Unshare { path: path.clone(), id: id.clone() };
        let ended = match control::ask(&store, &request, &mut |_| {})? {
            Some(ServiceReply::Unshared { shares }) => shares,
            Some(_) => {
                return Err(CommandFailure::new(
                    Exit::Local,
                    "the background node sent no valid answer",
                ));
            }
            None => forget(&store, &path, &id)?,
        };
        if ended.is_empty() {
            return Err(service::not_shared(&path, &id));
        }
        for share in &ended {
            let name = share.terms.name.as_deref();
            out.json(&UnsharedRow { path: &share.path, id: &share.id(), name })?;
            out.note(&clean(&format!("{} is no longer shared", service::called_of(share))));
        }
        warn_of_remaining_shares(&store, &ended, out)?;
    }
    Ok(Exit::Done)
}

/// Warns of other shares that still serve the same content.
fn warn_of_remaining_shares(
    store: &Path,
    ended: &[Registered],
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let registry = Registry::load(store)?;
    let Some(path) = ended.first().map(|share| &share.path) else { return Ok(()) };
    for share in registry.covering(path) {
        let (id, called) = (share.id(), service::called_of(share));
        out.warn(&clean(&format!(
            "{} is still shared by {called}; `xylem unshare {id}` ends that",
            path.display()
        )));
    }
    Ok(())
}

/// Removes shares from the list without the node.
fn forget(store: &Path, path: &Path, id: &str) -> Result<Vec<Registered>, CommandFailure> {
    let mut registry = Registry::load(store)?;
    let gone: Vec<Registered> = registry.matching(path, id).into_iter().cloned().collect();
    if !gone.is_empty() {
        registry.shares.retain(|share| !gone.contains(share));
        registry.save(store)?;
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&UnsharedRow { path: Path::new("/a"), id: "0", name: None });
    }
}
