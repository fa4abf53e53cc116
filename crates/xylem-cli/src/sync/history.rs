//! `xylem sync DIR --history`: prints the versions that members have announced, and checks that each member has one
//! history.

use crate::exit::{CommandFailure, Exit};
use crate::output::{Out, text::clean};
use serde::Serialize;
use xylem_folder::{LogEntry, MemberLog, MemberStatement, Past, SyncHome, entries};
use xylem_object::PublisherId;
use xylem_trust::utc;

/// Prints our whole history, and the newest versions of the others. If a member has two histories, the exit code is 1.
pub(super) fn print(home: &SyncHome, out: &mut Out) -> Result<Exit, CommandFailure> {
    let mut whole = true;
    let path = home.history_file();
    if let Some(past) = MemberLog::open(&path)?.past() {
        let all = entries(&path)?;
        whole &= all.is_sorted_by(|a, b| a.number < b.number);
        told("this member", &home.key()?.public(), &all, &past, whole, out)?;
    }
    // Reading a statement checks its signature, and that its versions add up to its root.
    let of = |said: &MemberStatement, one: bool, out: &mut Out| {
        told(&said.name, &said.member, said.past.recent(), &said.past, one, out)
    };
    for (said, _) in home.members()?.said {
        of(&said, true, out)?;
    }
    for [(one, _), (other, _)] in home.evidence()? {
        whole = false;
        of(&one, false, out)?;
        of(&other, false, out)?;
    }
    Ok(if whole { Exit::Done } else { Exit::Damaged })
}

fn told(
    name: &str,
    member: &PublisherId,
    versions: &[LogEntry],
    past: &Past,
    whole: bool,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let (key, root, length) = (member.to_string(), past.root().to_string(), past.length());
    let first = length.saturating_sub(versions.len() as u64) + 1;
    for (at, entry) in (first..).zip(versions) {
        let said = entry.hash.to_string();
        out.json(&VersionRow { key: &key, at, number: entry.number, said: &said })?;
        if !out.is_json() {
            let short = said.get(..16).unwrap_or(&said);
            out.line(&clean(&format!("{name}  {at}  {}  {short}", utc(entry.number))))?;
        }
    }
    out.json(&HistoryRow { name, key: &key, length, root: &root, whole })?;
    let short = |text: &str| text.get(..16).unwrap_or(text).to_owned();
    let what = format!("{name} ({}): {length} versions, root {}", short(&key), short(&root));
    match whole {
        true => out.note(&clean(&what)),
        false => out.warn(&clean(&format!("{what}: one of two histories that it has signed"))),
    }
    Ok(())
}

/// Event: a version that a member has announced.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_version")]
struct VersionRow<'a> {
    key: &'a str,
    at: u64,
    number: u64,
    said: &'a str,
}

/// Event: a member's history.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_history")]
struct HistoryRow<'a> {
    name: &'a str,
    key: &'a str,
    length: u64,
    root: &'a str,
    whole: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&VersionRow { key: "00", at: 1, number: 1, said: "00" });
        let row = HistoryRow { name: "a", key: "00", length: 1, root: "00", whole: true };
        assert_documented(&row);
    }
}
