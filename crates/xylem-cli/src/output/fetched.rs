//! The report at the end of a fetch.

use super::Out;
use super::text::{bytes, count, duration, rate};
use crate::exit::CommandFailure;
use serde::Serialize;
use xylem_app::object::ObjectSummary;
use xylem_node::GetSummary;

/// Reports a fetch by name.
pub(crate) fn report_object(summary: &ObjectSummary, out: &mut Out) -> Result<(), CommandFailure> {
    if !summary.proven {
        out.warn("not verified: no trusted key vouches for these bytes (--insecure)");
    }
    if out.is_json() {
        return out.json(&ObjectRow {
            name: &summary.name,
            root: &summary.root,
            path: summary.path.as_deref().map(|p| p.to_string_lossy().into_owned()),
            bytes: summary.bytes,
            segments: summary.segments,
            proven: summary.proven,
            seconds: summary.elapsed.as_secs_f64(),
        });
    }
    if let Some(path) = &summary.path {
        out.sum_line(&summary.root.to_string(), path)?;
    }
    let done = if summary.proven { out.paint("32", "Verified") } else { "Fetched".to_owned() };
    out.note(&format!(
        "{done} {} in {} in {} ({})",
        bytes(summary.bytes),
        count(summary.segments, "segment"),
        duration(summary.elapsed),
        rate(summary.bytes, summary.elapsed)
    ));
    Ok(())
}

/// How much of what a ticket names is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchedPart {
    /// All of it.
    Whole,
    /// A range, or some of its files.
    Part,
}

/// Reports a fetch by ticket.
pub(crate) fn report(
    summary: &GetSummary,
    part: FetchedPart,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    if out.is_json() {
        return out.json(summary);
    }
    // The root is that of the whole; `sum` prints another one for a part.
    if let Some(path) = summary.path.as_ref().filter(|_| part == FetchedPart::Whole) {
        out.sum_line(&summary.root.to_string(), path)?;
    }
    summary.ways.iter().for_each(|way| out.detail(&format!("Way to {way}")));
    let what = format!("{} in {}", bytes(summary.bytes), count(summary.files, "file"));
    let done = out.paint("32", "Verified");
    if summary.already_complete {
        out.note(&format!("{done} {what}; all of it was there already"));
        return Ok(());
    }
    let mut line = format!(
        "{done} {what}: fetched {} in {} ({})",
        bytes(summary.fetched),
        duration(summary.elapsed),
        rate(summary.fetched, summary.elapsed)
    );
    if summary.resumed > 0 {
        line.push_str(&format!(", kept {} that was there", bytes(summary.resumed)));
    }
    if summary.reused > 0 {
        line.push_str(&format!(", took {} from old copies", bytes(summary.reused)));
    }
    if summary.served > 0 {
        line.push_str(&format!("; sent {} to others", bytes(summary.served)));
    }
    out.note(&line);
    Ok(())
}

/// Event: an object that `get NAME` fetched.
#[derive(Serialize)]
#[serde(tag = "event", rename = "object")]
struct ObjectRow<'a> {
    name: &'a str,
    root: &'a str,
    path: Option<String>,
    bytes: u64,
    segments: u64,
    proven: bool,
    seconds: f64,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&ObjectRow {
            name: "/a",
            root: "00",
            path: None,
            bytes: 1,
            segments: 1,
            proven: true,
            seconds: 0.5,
        });
    }
}
