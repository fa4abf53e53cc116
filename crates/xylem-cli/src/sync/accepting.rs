//! `xylem sync DIR --accept-rules`: puts in force what other members have changed in files that our rules include.

use crate::exit::{CommandFailure, Exit};
use crate::output::{Out, text::clean};
use serde::Serialize;
use std::path::{Path, PathBuf};
use xylem_base::FileMedium;
use xylem_folder::{RulesChange, SyncHome};

/// Prints what the rules change, and puts them in force.
pub(super) fn accept(
    folder: &Path,
    home: &SyncHome,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let change = RulesChange::waiting(&FileMedium::default(), folder, home.dir())?;
    if out.is_json() {
        let texts = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
        };
        let (uncovers, covers) = (texts(&change.uncovers), texts(&change.covers));
        let row = AcceptedRow {
            files: &change.files,
            uncovers: &uncovers,
            covers: &covers,
            more: change.more,
        };
        out.json(&row)?;
    } else {
        for path in &change.uncovers {
            out.line(&clean(&format!("shared from now on: {}", path.display())))?;
        }
        for path in &change.covers {
            out.line(&clean(&format!("no longer shared: {}", path.display())))?;
        }
        if change.more > 0 {
            out.line(&format!("and {} others", change.more))?;
        }
    }
    if change.files.is_empty() {
        out.note("No changed rules of other members wait to be accepted");
        return Ok(Exit::Done);
    }
    change.accept()?;
    out.note(&clean(&format!("Accepted: {}", change.files.join(", "))));
    Ok(Exit::Done)
}

/// Event: rules that are in force from now on.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_rules_accepted")]
struct AcceptedRow<'a> {
    files: &'a [String],
    uncovers: &'a [String],
    covers: &'a [String],
    more: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_documented() {
        crate::output::assert_documented(&AcceptedRow {
            files: &[],
            uncovers: &[],
            covers: &[],
            more: 0,
        });
    }
}
