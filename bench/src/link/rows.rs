//! Columns, ratios and quoted figures that all tables of the link share.

use crate::report::{Bound, Figure, Heading, Unit};
use crate::series::Compare;

/// Our column; in a table with two ciphers, the name of each.
pub(super) const OURS: &str = "xylem";
/// The column of the library that does the same work without the link.
pub(super) const PLAIN: &str = "plain library";
/// The column of the figures in WRAITH's document.
pub(super) const DOCUMENT: &str = "WRAITH 2.3.1";
/// The column of that document's goals for its version 3.0.
pub(super) const TARGET: &str = "its v3.0 goal";

/// The heading of a table with ours, the plain library, the document and its goal as columns.
pub(super) fn heading(table: &str, title: &str, label: &str, notes: &[&str]) -> Heading {
    Heading {
        table: table.into(),
        title: title.into(),
        unit: Unit::Nanoseconds,
        label: label.into(),
        figures: [OURS, PLAIN, DOCUMENT, TARGET].map(String::from).into(),
        ratios: vec![ratio_name()],
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    }
}

pub(super) fn ratio_name() -> String {
    format!("{OURS} : {PLAIN}")
}

/// Our time divided by the plain library's.
pub(super) fn compared(wanted: Option<f64>) -> [Compare; 1] {
    [Compare::time(&ratio_name(), OURS, PLAIN, wanted.map(Bound::AtMost))]
}

/// The document's figures: nanoseconds, and its goal if it has one.
pub(super) fn quoted(document: Option<f64>, goal: Option<f64>) -> Vec<Figure> {
    let figure = |name: &str, value: Option<f64>| value.map(|value| Figure::quoted(name, value));
    [figure(DOCUMENT, document), figure(TARGET, goal)].into_iter().flatten().collect()
}
