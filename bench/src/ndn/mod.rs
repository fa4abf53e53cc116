//! Tree-signed segments in NDN, against a signature on each segment: one module a table, in the order of [`TABLES`].
//!
//! Figures of the document that this project answers to (`why BLAKE3`, measured on Apple Silicon) stand beside ours
//! where they exist: ratios compare, times do not. Every side makes and encodes, or decodes and verifies, whole Data
//! packets: the comparison is of a program's whole work.

mod consumer;
mod end_to_end;
mod helper;
mod objects;
mod parallel;
mod producer;
mod single;

use crate::machine::machine;
use crate::race::Effort;
use crate::report::Report;
use crate::series::Series;
use crate::{Error, chosen};

/// The names of the tables, in the order in which all of them are made.
pub const TABLES: [&str; 6] =
    ["producer", "consumer", "end-to-end", "pipeline", "parallel", "signatures"];

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
    let mut series = Series::new(effort, emit);
    for table in tables {
        match table {
            "producer" => producer::run(&mut series)?,
            "consumer" => consumer::run(&mut series)?,
            "end-to-end" => end_to_end::run(&mut series)?,
            "pipeline" => end_to_end::pipeline(&mut series)?,
            "parallel" => parallel::run(&mut series)?,
            _ => single::run(&mut series)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;
    use std::convert::Infallible;

    #[test]
    fn every_table_runs_its_contenders_agree_and_every_cell_has_a_column() {
        for table in TABLES {
            let (mut reports, mut text, mut page) = (Vec::new(), Text::default(), String::new());
            run::<Infallible>(&[table], Effort::ONCE, &mut |report| {
                page += &text.render(&report);
                reports.push(report);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{table}: {error}"));
            let Some(Report::Heading(heading)) = reports.get(1) else {
                assert!(matches!(reports[1..], [Report::Absent(_)]), "{table}");
                continue;
            };
            assert_eq!(heading.table, table);
            let rows: Vec<_> = reports
                .iter()
                .filter_map(|r| if let Report::Row(row) = r { Some(row) } else { None })
                .collect();
            assert!(!rows.is_empty(), "{page}");
            rows.iter().for_each(|row| row.assert_fits(heading));
        }
    }

    #[test]
    fn unknown_tables_are_refused_before_anything_is_measured() {
        let result = run::<Infallible>(&["prodcuer"], Effort::ONCE, &mut |_| panic!("measured"));
        let said = result.unwrap_err().to_string();
        assert!(said.contains("prodcuer") && said.contains("producer, consumer"), "{said}");
    }
}
