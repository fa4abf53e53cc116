//! The tables of the hash engine, one module each, in the order of [`TABLES`].

mod batches;
mod blocks;
mod cores;
mod large;
pub mod single;
mod streaming;
mod works;

use crate::busy::Busy;
use crate::machine::machine;
use crate::race::Effort;
use crate::report::{Absent, Report};
use crate::series::Series;
use crate::{Error, chosen};

/// The names of the tables, in the order in which all of them are made.
pub const TABLES: [&str; 7] =
    ["single", "busy", "batches", "blocks", "large", "streaming", "cores"];

/// Makes `tables` (all, if none is named) and passes every report to `emit` as soon as it is known. Tables against
/// other configurations of the official crate are made by [`crate::peers`].
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
        run_here(table, effort, emit)?;
        if matches!(table, "single" | "busy") {
            crate::peers::run(table, &crate::peers::PEERS, effort, emit).map_err(Error::Refused)?;
        }
    }
    Ok(())
}

/// Makes one table in this process alone, with the official crate of this build.
///
/// # Errors
/// As [`run`].
pub fn run_here<E>(
    table: &str,
    effort: Effort,
    emit: &mut dyn FnMut(Report) -> Result<(), E>,
) -> Result<(), Error<E>> {
    let mut series = Series::new(effort, emit);
    match table {
        "single" => single::run(&mut series, None),
        "busy" => {
            let busy = Busy::start();
            if busy.cores() == 0 {
                let what = "every row".to_owned();
                let why = "there is no other core that could be busy".to_owned();
                return series.absent(Absent { table: table.to_owned(), what, why });
            }
            single::run(&mut series, Some(&busy))
        }
        "batches" => batches::run(&mut series),
        "blocks" => blocks::run(&mut series),
        "large" => large::run(&mut series),
        "streaming" => streaming::run(&mut series),
        "cores" => cores::run(&mut series),
        _ => Err(Error::no_such_table(table, &TABLES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;
    use std::convert::Infallible;

    /// Runs a table once without measuring times; returns its reports and their text.
    fn once(table: &str) -> (Vec<Report>, String) {
        let (mut reports, mut text, mut page) = (Vec::new(), Text::default(), String::new());
        run_here::<Infallible>(table, Effort::ONCE, &mut |report| {
            page += &text.render(&report);
            reports.push(report);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{table}: {error}"));
        (reports, page)
    }

    #[test]
    fn every_table_runs_its_contenders_agree_and_every_cell_has_a_column() {
        for table in TABLES {
            let (reports, page) = once(table);
            let Some(Report::Heading(heading)) = reports.first() else {
                assert!(table == "busy" && matches!(reports[..], [Report::Absent(_)]), "{table}");
                continue;
            };
            assert_eq!(heading.table, table);
            let rows = reports.iter().filter_map(|report| match report {
                Report::Row(row) => Some(row),
                _ => None,
            });
            assert!(rows.clone().count() >= 3, "{page}");
            rows.for_each(|row| row.assert_fits(heading));
        }
    }

    #[test]
    fn unknown_tables_are_refused_before_anything_is_measured() {
        let mut reports = 0;
        let result = run::<Infallible>(&["single", "doubles"], Effort::ONCE, &mut |_| {
            reports += 1;
            Ok(())
        });
        assert!(matches!(result, Err(Error::NoSuchTable { name, .. }) if name == "doubles"));
        assert_eq!(reports, 0);
    }

    #[test]
    fn a_reader_that_went_away_ends_the_run() {
        let result = run(&["blocks"], Effort::ONCE, &mut |_| Err("gone"));
        assert!(matches!(result, Err(Error::Refused("gone"))));
    }
}
