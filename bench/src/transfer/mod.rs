//! The transfer's tables: each row of WRAITH's benchmark listing (version 2.3.1, 2026-01) for its transfer session and
//! its files. Ours stands beside a plain library on this machine in the same run, and beside the document's figures for
//! its own code on its own machine.
//!
//! These tables measure one core, in memory or on files in memory. The table with two programs (`copies`: whole
//! transfers beside rsync, scp, sendme and others) is measured by bench/transfer.py, which reports here.

mod asking;
mod files;
mod pieces;
mod rows;
mod tree;

use crate::machine::machine;
use crate::race::Effort;
use crate::report::Report;
use crate::series::Series;
use crate::{Error, chosen, peers};

/// The names of the tables, in the order in which all of them are made.
pub const TABLES: [&str; 5] = ["pieces", "asking", "tree", "files", "copies"];
/// Number of tables that are made in this process.
#[cfg(test)]
const HERE: usize = 4;

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
            "pieces" => pieces::run(series)?,
            "asking" => asking::run(series)?,
            "tree" => tree::run(series)?,
            "files" => files::run(series)?,
            _ => peers::run(table, &[peers::TRANSFERS], effort, emit).map_err(Error::Refused)?,
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
                Report::Absent(absent) => panic!("{absent:?}"),
                Report::Machine(_) => {}
            }
        }
        assert!(rows > 40, "{page}");
    }
}
