//! The status of a folder in step for people: `sync DIR --status`, `sync --list`, and the lines of `xylem ui`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_base::canonical;
use xylem_folder::{FULL_MESH, SyncHome};
use xylem_node::wall_clock;
use xylem_sync::{
    FetchingStatus, FolderStep, MemberStanding, MissingStatus, SyncStatus, all_statuses,
};

use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::text::{bytes, clean, count};

/// What a pause means, in messages.
pub(super) const PAUSE_MEANS: &str =
    "no change is published or applied until `xylem sync DIR --resume`";

/// Whether each member has links to some others only; then a member without a link is not away.
fn is_large(status: &SyncStatus) -> bool {
    status.members.iter().filter(|member| member.role != MemberStanding::Removed).count()
        > FULL_MESH
}

/// The status in one line.
pub(crate) fn summary_line(status: &SyncStatus) -> String {
    let here = status.members.iter().filter(|member| member.here).count() as u64;
    let missing = status.more.saturating_add(status.missing.len() as u64);
    let step = match status.step {
        FolderStep::NotRunning if status.background => "not running; the background node starts it",
        FolderStep::NotRunning => "not running; `xylem sync DIR` starts it",
        FolderStep::Starting => "being scanned",
        FolderStep::Paused => "paused; `xylem sync DIR --resume` continues",
        FolderStep::NoMember => {
            "not a member of its group: the founder has removed it, or has not admitted it"
        }
        FolderStep::Behind => "not in step",
        FolderStep::InStep => "in step",
    };
    let mut line = format!("{}: {step}", status.folder);
    if status.running {
        let what = if is_large(status) { "linked" } else { "connected" };
        line += &format!("; {} {what}", count(here, "other member"));
    }
    if missing > 0 {
        line += &format!("; {} can't be brought in step now", count(missing, "path"));
    }
    line
}

/// Runs `xylem sync DIR --status`. The exit code is 1 if the folder is not in step.
pub(super) fn print(
    store: &Path,
    folder: &Path,
    background: bool,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let folder = canonical(folder)?;
    let home = SyncHome::existing(store, &folder)?;
    let status = SyncStatus { background, ..SyncStatus::of(&home, &folder)? };
    let exit = if status.step == FolderStep::InStep { Exit::Done } else { Exit::Damaged };
    if out.is_json() {
        out.json(&status)?;
        return Ok(exit);
    }
    for line in lines(&status, wall_clock().milliseconds()) {
        out.line(&clean(&line))?;
    }
    Ok(exit)
}

/// A duration in its largest unit: `12 s`, `5 min`, `3 h`, `2 days`.
fn span(ms: u64) -> String {
    match Duration::from_millis(ms).as_secs() {
        s if s < 60 => format!("{s} s"),
        s if s < 3_600 => format!("{} min", s / 60),
        s if s < 2 * 86_400 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

/// The whole status as lines of text.
fn lines(status: &SyncStatus, now_ms: u64) -> Vec<String> {
    let ago = |ms: u64| span(now_ms.saturating_sub(ms));
    let short = |key: &str| key.get(..16).unwrap_or(key).to_owned();
    let mut lines = vec![summary_line(status)];
    if status.paused && status.step != FolderStep::Paused {
        lines.push(format!("  paused: {PAUSE_MEANS}"));
    }
    lines.extend(status.refused.iter().map(|why| format!("  {why}")));
    let reads = match status.role {
        MemberStanding::ReadOnly => ", read-only: other members do not apply its changes",
        _ => "",
    };
    lines.push(format!("  this member: {} ({}){reads}", status.name, short(&status.key)));
    if status.xattrs {
        lines.push("  extended attributes are exchanged (--xattrs)".to_owned());
    }
    let is_large = is_large(status);
    for member in &status.members {
        let role = match member.role {
            MemberStanding::Founder => ", founder",
            MemberStanding::ReadOnly => ", read-only",
            MemberStanding::Removed => ", removed from the group",
            _ => "",
        };
        let here = match (member.here, member.role) {
            (_, MemberStanding::Removed) => String::new(),
            (true, _) => format!(": connected for {}", ago(member.since_ms)),
            (false, _) if is_large => {
                format!(": no link to it for {}", ago(member.since_ms))
            }
            (false, _) => format!(": disconnected for {}", ago(member.since_ms)),
        };
        let has = match (member.here, member.in_step) {
            (true, true) => ", in step",
            (true, false) => ", not in step yet",
            (false, true) if is_large => ", in step by its last statement",
            (false, _) => "",
        };
        let why = member.why.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
        lines.push(format!("  {} ({}){role}{here}{has}{why}", member.name, short(&member.key)));
    }
    if let Some(fetching) = &status.fetching {
        let FetchingStatus { from, done, total, paths, files } = fetching;
        let names = named(paths, *files);
        let of = if *total > 0 { format!(" of {}", bytes(*total)) } else { String::new() };
        lines.push(format!("  fetching from {from}: {}{of}, {names}", bytes(*done)));
    }
    for one in &status.missing {
        let again = match one.again_ms.saturating_sub(now_ms) {
            _ if !status.running => String::new(),
            0 => ", tried again now".to_owned(),
            ms => format!(", tried again in {}", span(ms.max(1_000))),
        };
        let MissingStatus { path, what, why, since_ms, .. } = one;
        lines.push(format!("  {path}: {what}: {why} (for {}{again})", ago(*since_ms)));
    }
    if status.more > 0 {
        lines.push(format!("  and {} more", count(status.more, "path")));
    }
    if status.removals_wait > 0 {
        let removals = count(status.removals_wait, "removal");
        lines.push(format!("  {removals} by other members: `xylem sync DIR --accept-removals` removes the files here, too"));
    }
    if status.rules_wait {
        lines.push(
            "  rules changed by another member wait for `xylem sync DIR --accept-rules`".to_owned(),
        );
    }
    lines
}

/// The first names of a list in words: `a, b and 3 more`.
pub(super) fn named(paths: &[String], all: u64) -> String {
    let more = all.saturating_sub(paths.len() as u64);
    match (paths.is_empty(), more) {
        (true, _) => count(all, "file"),
        (false, 0) => paths.join(", "),
        (false, _) => format!("{} and {more} more", paths.join(", ")),
    }
}

/// Runs `xylem sync --list`: prints a line for each folder of the store, or its status as JSON.
pub(super) fn list(
    store: &Path,
    in_background: &[(PathBuf, Option<String>)],
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let mut all = all_statuses(store);
    for (path, why) in in_background {
        let folder = path.to_string_lossy().into_owned();
        let known = all.iter_mut().find(|status| status.folder == folder);
        match known {
            Some(status) => status.background = true,
            None => all.push(SyncStatus { folder, background: true, ..SyncStatus::default() }),
        }
        if let Some(why) = why {
            out.warn(&format!("{}: {why}", path.display()));
        }
    }
    for status in &all {
        if out.is_json() {
            out.json(status)?;
        } else {
            let by = if status.background { " (background)" } else { "" };
            out.line(&clean(&format!("{}{by}", summary_line(status))))?;
        }
    }
    if all.is_empty() {
        out.note("No folder is kept in step: `xylem sync DIR`");
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;
    use xylem_folder::ObstacleKind;
    use xylem_sync::MemberStatus;

    fn status() -> SyncStatus {
        let bob = MemberStatus { name: "bob".into(), here: true, ..MemberStatus::default() };
        SyncStatus {
            folder: "/f".into(),
            step: FolderStep::InStep,
            running: true,
            members: vec![bob],
            ..SyncStatus::default()
        }
    }

    #[test]
    fn the_status_lists_missing_paths_with_reasons() {
        let missing = |path: &str, kind, what: &str, why: &str| MissingStatus {
            path: path.into(),
            kind,
            what: what.into(),
            why: why.into(),
            since_ms: 5_000,
            tried: 1,
            again_ms: 6_000,
        };
        let (room, gone) = ("there is no room for it on this disk", "another member removed it");
        let attributes = "its extended attributes are not in step; its content is";
        let mut status = SyncStatus {
            step: FolderStep::Behind,
            xattrs: true,
            missing: vec![
                missing("d/a", ObstacleKind::NoRoom, room, "disk full"),
                missing("e", ObstacleKind::Removal, gone, "800 of 1,000"),
                missing("f", ObstacleKind::Attributes, attributes, "too large"),
            ],
            removals_wait: 1,
            ..status()
        };
        status.fetching = Some(FetchingStatus {
            from: "bob".into(),
            done: 1 << 20,
            total: 2 << 20,
            paths: vec!["x".into(), "y".into()],
            files: 9,
        });
        let lines = super::lines(&status, 65_000);
        let has = |what: &str| assert!(lines.iter().any(|line| line.contains(what)), "{lines:?}");
        has("/f: not in step; 1 other member connected; 3 paths can't be brought in step now");
        has("  extended attributes are exchanged (--xattrs)");
        has("f: its extended attributes are not in step; its content is: too large");
        has("bob (): connected for 1 min");
        has("fetching from bob: 1.00 MiB of 2.00 MiB, x, y and 7 more");
        // In a large group each member has links to some others only, so the others are not away.
        let far = |n: usize| MemberStatus {
            name: format!("far-{n}"),
            in_step: true,
            ..MemberStatus::default()
        };
        let large = SyncStatus { members: (0..17).map(far).collect(), ..status.clone() };
        assert!(summary_line(&large).contains("; 0 other members linked"));
        let large = super::lines(&large, 65_000).join("\n");
        assert!(
            large.contains("far-16 (): no link to it for 1 min, in step by its last statement"),
            "{large}"
        );
        has("d/a: there is no room for it on this disk: disk full (for 1 min, tried again now)");
        has("1 removal by other members: `xylem sync DIR --accept-removals`");
        let name = assert_documented(&status);
        assert_eq!(name, "sync_status");
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<SyncStatus>(&text).unwrap(), status);
    }
}
