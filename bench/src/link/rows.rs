//! What the rows of all these tables have in common: columns, ratio, the document's figures.

use crate::report::{Bound, Figure, Heading, Unit};
use crate::series::Compare;

/// Our column; of a table with two ciphers, the name of each.
pub(super) const OURS: &str = "xylem";
/// The library that does the work without the link around it.
pub(super) const PLAIN: &str = "plain library";
/// What WRAITH's document gives for its code.
pub(super) const DOCUMENT: &str = "WRAITH 2.3.1";
/// What it sets itself for its version 3.0.
pub(super) const TARGET: &str = "its v3.0 goal";

/// The head of a table whose columns are ours, the plain library, the document and its goal.
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

/// Our time as a multiple of the plain library's.
pub(super) fn compared(wanted: Option<f64>) -> [Compare; 1] {
    [Compare::time(&ratio_name(), OURS, PLAIN, wanted.map(Bound::AtMost))]
}

/// What the document gives: nanoseconds, and its goal where it sets one.
pub(super) fn quoted(document: Option<f64>, goal: Option<f64>) -> Vec<Figure> {
    let figure = |name: &str, value: Option<f64>| value.map(|value| Figure::quoted(name, value));
    [figure(DOCUMENT, document), figure(TARGET, goal)].into_iter().flatten().collect()
}
