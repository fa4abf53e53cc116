//! Flags that require witnesses, reports of co-signatures, and evidence of two histories of one publisher.

use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::text::bytes;
use crate::output::witnesses::cosigned;
use crate::values::parse_seconds;
use clap::Args;
use serde::Serialize;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xylem_files::LibraryEvent;
use xylem_node::Event;
use xylem_object::witness::Evidence;
use xylem_witness::{CosignatureDemand, Witnessed};

/// Longest evidence file in bytes that is read. It holds two manifests and a proof.
const MAX_EVIDENCE: u64 = 64 * 1024;

/// The witnesses whose co-signatures are required.
#[derive(Debug, Args)]
pub(crate) struct DemandArgs {
    /// Accept only what this witness has co-signed
    ///
    /// CERT is its certificate (`xylem key cert`). It may have co-signed the content as it is or as the beginning of a
    /// later version. Can be repeated.
    #[arg(long, value_name = "CERT")]
    witness: Vec<PathBuf>,

    /// With --witness: this many of them are enough [default: all]
    #[arg(long, value_name = "COUNT", requires = "witness")]
    threshold: Option<usize>,

    /// With --witness: co-signed within this time, so that nobody can hide a newer version. A running witness co-signs
    /// the newest version anew each hour
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "witness")]
    witnessed_within: Option<Duration>,
}

impl DemandArgs {
    /// Whether any witness is required.
    pub(crate) fn is_given(&self) -> bool {
        !self.witness.is_empty()
    }

    /// The demand that the flags express; `None` without such flags.
    pub(crate) fn demand(
        &self,
        out: &mut Out,
    ) -> Result<Option<CosignatureDemand>, CommandFailure> {
        if !self.is_given() {
            return Ok(None);
        }
        let demand = CosignatureDemand::new(&self.witness, self.threshold, self.witnessed_within)?;
        let (wanted, named) = (demand.threshold(), demand.named());
        if demand.allows_two_histories() {
            let what = format!(
                "--threshold {wanted} of {named}: a publisher can show two histories to two groups of {wanted} honest \
                 witnesses; --threshold {} or more excludes that",
                named / 2 + 1
            );
            out.event(Event::warning(what));
        }
        Ok(Some(demand))
    }
}

/// Reports the co-signatures; an error if they do not satisfy the demand.
pub(crate) fn report(heard: &Witnessed, out: &mut Out) -> Result<(), CommandFailure> {
    for testimony in &heard.by {
        out.event(Event::Library(LibraryEvent::Cosigned(testimony.clone())));
    }
    out.take_broken()?;
    Ok(heard.enough()?)
}

/// Shows the events of a fetch that asks witnesses at each checkpoint. In text output each witness is shown once, and
/// later only with -v.
pub(crate) fn show_witnesses_once(out: &mut Out) -> impl FnMut(Event) {
    let mut heard = HashSet::new();
    move |event| match event {
        Event::Library(LibraryEvent::Cosigned(said))
            if !out.is_json() && !heard.insert(said.witness.clone()) =>
        {
            out.detail(&cosigned(&said));
        }
        event => out.event(event),
    }
}

/// Runs `xylem verify --evidence FILE`.
pub(crate) fn show_evidence(path: &Path, out: &mut Out) -> Result<Exit, CommandFailure> {
    let refused = |why: &dyn std::fmt::Display| {
        CommandFailure::new(Exit::Usage, format!("{}: {why}", path.display()))
    };
    let mut file = Vec::new();
    let opened = File::open(path).map_err(|e| refused(&e))?;
    opened.take(MAX_EVIDENCE).read_to_end(&mut file).map_err(|e| refused(&e))?;
    let evidence = Evidence::decode(&file).map_err(|e| refused(&e))?;
    let split = match evidence.split() {
        Ok(split) => split.to_string(),
        Err(e) => {
            return Err(CommandFailure::new(Exit::Damaged, format!("{}: {e}", path.display())));
        }
    };
    let Evidence { earlier, later, .. } = &evidence;
    let (publisher, name) = (earlier.publisher.to_string(), earlier.object.to_string());
    out.json(&EvidenceRow {
        publisher: &publisher,
        name: &name,
        earlier_version: earlier.version,
        earlier_bytes: earlier.manifest.size,
        earlier_root: earlier.manifest.root.to_string(),
        later_version: later.version,
        later_bytes: later.manifest.size,
        later_root: later.manifest.root.to_string(),
        why: &split,
    })?;
    if !out.is_json() {
        out.line(&format!("two histories of {name}: {split}"))?;
        out.line(&format!("  signed by {publisher}"))?;
        for version in [earlier, later] {
            let (size, root) = (bytes(version.manifest.size), version.manifest.root);
            out.line(&format!("  v={}: {size}, root {root}", version.version))?;
        }
    }
    let good = out.paint("32", "Verified");
    out.note(&format!("{good}: this key has signed both, and they do not belong to one history"));
    Ok(Exit::Done)
}

/// Event of `verify --evidence`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "evidence")]
struct EvidenceRow<'a> {
    publisher: &'a str,
    name: &'a str,
    earlier_version: u64,
    earlier_bytes: u64,
    earlier_root: String,
    later_version: u64,
    later_bytes: u64,
    later_root: String,
    why: &'a str,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&EvidenceRow {
            publisher: "p",
            name: "/n",
            earlier_version: 1,
            earlier_bytes: 1,
            earlier_root: "r".into(),
            later_version: 2,
            later_bytes: 2,
            later_root: "s".into(),
            why: "w",
        });
    }
}
