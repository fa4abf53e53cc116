//! The link's tables: each row of WRAITH's benchmark listing (version 2.3.1, 2026-01, appendix A) that names an
//! operation of the link. Ours stands beside the plain library in the same run, and beside the document's figures for
//! its own code on its own machine.
//!
//! These tables measure one core, in memory. Tables with sockets and several processes (`session`, `sessions`, `flood`)
//! are measured by a program of its own (bench/session), which reports here.

mod carriers;
mod frames;
mod handshake;
mod keys;
mod ratchet;
mod rows;
mod seal;
mod shape;

use crate::machine::machine;
use crate::race::Effort;
use crate::report::Report;
use crate::series::Series;
use crate::{Error, chosen, peers};

/// The names of the tables, in the order in which all of them are made.
pub const TABLES: [&str; 10] = [
    "frames",
    "seal",
    "keys",
    "handshake",
    "ratchet",
    "shape",
    "carriers",
    "session",
    "sessions",
    "flood",
];
/// Number of tables that are made in this process.
#[cfg(test)]
const HERE: usize = 7;

/// Makes `tables` (all, if none is named) and passes every report to `emit` as soon as it is known.
///
/// # Errors
/// [`Error`]: an unknown table, contenders that differ, an `emit` that failed.
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
            "carriers" => carriers::run(series)?,
            _ => peers::run(table, &[peers::SESSION], effort, emit).map_err(Error::Refused)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Heading;
    use crate::text::Text;
    use std::convert::Infallible;

    #[test]
    fn every_table_runs_and_every_cell_has_a_column() {
        let (mut reports, mut text, mut page) = (Vec::new(), Text::default(), String::new());
        run::<Infallible>(&TABLES[..HERE], Effort::ONCE, &mut |report| {
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
                    row.assert_fits(heading.expect("a heading comes before its rows"));
                    rows += 1;
                }
                _ => {}
            }
        }
        assert!(rows > 40, "{page}");
    }
}
