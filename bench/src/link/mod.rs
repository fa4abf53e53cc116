//! The link's tables: each row of WRAITH's benchmark listing (version 2.3.1, 2026-01, appendix A)
//! that names an operation which the link has, ours beside the plain library in the same run and
//! beside what that document gives for its own code on its own machine.
//!
//! What it does not do: sockets, sessions. It measures one core, in memory.

mod carriers;
mod frames;
mod handshake;
mod keys;
mod ratchet;
mod seal;
mod shape;

use crate::machine::machine;
use crate::race::Effort;
use crate::report::{Bound, Figure, Heading, Report, Unit};
use crate::series::{Compare, Series};
use crate::{Error, chosen};

/// The names of the tables, in the order in which all of them are made.
pub const TABLES: [&str; 7] =
    ["frames", "seal", "keys", "handshake", "ratchet", "shape", "carriers"];

/// Our column; of a table with two ciphers, the name of each.
const OURS: &str = "xylem";
/// The library that does the work without the link around it.
const PLAIN: &str = "plain library";
/// What WRAITH's document gives for its code.
const DOCUMENT: &str = "WRAITH 2.3.1";
/// What it sets itself for its version 3.0.
const TARGET: &str = "its v3.0 goal";

/// Makes `tables` (all, where none is named) and hands every report to `emit` as soon as it is
/// known.
///
/// # Errors
/// [`Error`]: a table that there is not, contenders that differ, an `emit` that failed.
pub fn run<E>(
    tables: &[impl AsRef<str>],
    effort: Effort,
    emit: &mut dyn FnMut(Report) -> Result<(), E>,
) -> Result<(), Error<E>> {
    let tables = chosen(tables, &TABLES)?;
    emit(Report::Machine(machine())).map_err(Error::Refused)?;
    for table in tables {
        let series = &mut Series::new(effort, emit);
        match table {
            "frames" => frames::run(series)?,
            "seal" => seal::run(series)?,
            "keys" => keys::run(series)?,
            "handshake" => handshake::run(series)?,
            "ratchet" => ratchet::run(series)?,
            "shape" => shape::run(series)?,
            _ => carriers::run(series)?,
        }
    }
    Ok(())
}

/// The head of a table whose columns are ours, the plain library, the document and its goal.
fn heading(table: &str, title: &str, label: &str, notes: &[&str]) -> Heading {
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

fn ratio_name() -> String {
    format!("{OURS} : {PLAIN}")
}

/// Our time as a multiple of the plain library's.
fn compared(wanted: Option<f64>) -> [Compare; 1] {
    [Compare::time(&ratio_name(), OURS, PLAIN, wanted.map(Bound::AtMost))]
}

/// What the document gives: nanoseconds, and its goal where it sets one.
fn quoted(document: Option<f64>, goal: Option<f64>) -> Vec<Figure> {
    let figure = |name: &str, value: Option<f64>| value.map(|value| Figure::quoted(name, value));
    [figure(DOCUMENT, document), figure(TARGET, goal)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;
    use std::convert::Infallible;

    #[test]
    fn every_table_runs_and_every_cell_has_a_column() {
        let (mut reports, mut text, mut page) = (Vec::new(), Text::default(), String::new());
        run::<Infallible>(&[] as &[&str], Effort::ONCE, &mut |report| {
            page += &text.render(&report);
            reports.push(report);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
        let mut heading: Option<&Heading> = None;
        let mut rows = 0;
        for report in &reports {
            match report {
                Report::Heading(new) => heading = Some(new),
                Report::Row(row) => {
                    let heading = heading.expect("a heading comes before its rows");
                    assert_eq!(row.table, heading.table);
                    for figure in &row.figures {
                        assert!(heading.figures.contains(&figure.name), "{}: {page}", figure.name);
                        assert!(figure.value > 0.0, "{}, {}", row.label, figure.name);
                    }
                    assert!(row.ratios.iter().all(|r| heading.ratios.contains(&r.name)), "{page}");
                    rows += 1;
                }
                _ => {}
            }
        }
        assert!(rows > 40, "{page}");
    }
}
