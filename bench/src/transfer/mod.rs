//! The transfer's tables: each row of WRAITH's benchmark listing (version 2.3.1, 2026-01) for its
//! transfer session and its files, ours beside a plain library on this machine in the same run and
//! beside what that document gives for its own code on its own machine.
//!
//! Those tables measure one core, in memory or on files in memory. What takes two programs (`copies`:
//! whole transfers beside rsync, scp, sendme and others) is measured by bench/transfer.py, which
//! reports here.

mod asking;
mod files;
mod pieces;
mod tree;

use crate::machine::machine;
use crate::race::{Contender, Effort, Timing};
use crate::report::{Bound, Figure, Heading, Ratio, Report, Unit};
use crate::series::Series;
use crate::{Error, chosen, peers};

/// The names of the tables, in the order in which all of them are made.
pub const TABLES: [&str; 5] = ["pieces", "asking", "tree", "files", "copies"];
/// How many of them are made in this process.
#[cfg(test)]
const HERE: usize = 4;

/// Our column.
const OURS: &str = "xylem";
/// Who does the same work without xylem; each table says who that is.
const PLAIN: &str = "plain library";
/// What WRAITH's document gives for its code.
const DOCUMENT: &str = "WRAITH 2.3.1";
/// What it sets itself for its version 3.0.
const TARGET: &str = "its v3.0 goal";
/// Our time as a multiple of the document's, and of the plain library's.
const TO_DOCUMENT: &str = "xylem : WRAITH";
const TO_PLAIN: &str = "xylem : plain";

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
            "pieces" => pieces::run(series)?,
            "asking" => asking::run(series)?,
            "tree" => tree::run(series)?,
            "files" => files::run(series)?,
            _ => peers::run(table, &[peers::COPIES], effort, emit).map_err(Error::Refused)?,
        }
    }
    Ok(())
}

/// Nanoseconds that the document gives for a row, and its goal where it sets one.
#[derive(Clone, Copy)]
struct Quoted {
    document: Option<f64>,
    goal: Option<f64>,
}

impl Quoted {
    const NOTHING: Self = Self { document: None, goal: None };

    fn of(document: f64) -> Self {
        Self { document: Some(document), goal: None }
    }
}

/// The head of a table.
fn heading(table: &str, title: &str, label: &str, notes: &[&str]) -> Heading {
    let always = [
        "A ratio is our time as a multiple of theirs: below 1 says that ours is faster. The document's \
         figures are of its authors' machine (a Zen 4 or later by its BLAKE3 rates), not of this one; \
         wanted: at most 1.",
    ];
    Heading {
        table: table.into(),
        title: title.into(),
        unit: Unit::Nanoseconds,
        label: label.into(),
        figures: [OURS, PLAIN, DOCUMENT, TARGET].map(String::from).into(),
        ratios: [TO_PLAIN, TO_DOCUMENT].map(String::from).into(),
        notes: always.iter().chain(notes).map(|note| (*note).to_owned()).collect(),
    }
}

/// Races ours, first, and the plain library where there is one; one run does the row's work `times`
/// over, the figures are of once.
fn row<E>(
    series: &mut Series<'_, E>,
    label: &str,
    times: usize,
    contenders: &mut [Contender<'_>],
    quoted: Quoted,
) -> Result<(), Error<E>> {
    let once = |timing: Timing| Timing { median: timing.median / times as f64, ..timing };
    let timings: Vec<Timing> = series.race(label, contenders)?.into_iter().map(once).collect();
    let mut figures = series.figures(&timings, 0);
    let beside = [(DOCUMENT, quoted.document), (TARGET, quoted.goal)];
    figures.extend(beside.iter().filter_map(|(name, v)| Some(Figure::quoted(*name, (*v)?))));
    let median = |name: &str| timings.iter().find(|t| t.name == name).map(|t| t.median);
    let mut ratios = Vec::new();
    if let (Some(ours), Some(plain)) = (median(OURS), median(PLAIN)) {
        ratios.push(Ratio::new(TO_PLAIN, ours, plain, None));
    }
    if let (Some(ours), Some(document)) = (median(OURS), quoted.document) {
        ratios.push(Ratio::new(TO_DOCUMENT, ours, document, Some(Bound::AtMost(1.0))));
    }
    series.emit_row(label.to_owned(), 0, figures, ratios)
}

/// An answer to compare.
fn number(value: u64) -> [u8; 32] {
    let mut answer = [0; 32];
    answer[..8].copy_from_slice(&value.to_le_bytes());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
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
                    let heading = heading.expect("a heading comes before its rows");
                    assert_eq!(row.table, heading.table);
                    for figure in &row.figures {
                        assert!(heading.figures.contains(&figure.name), "{}: {page}", figure.name);
                        assert!(figure.value > 0.0, "{}, {}", row.label, figure.name);
                    }
                    assert!(row.ratios.iter().all(|r| heading.ratios.contains(&r.name)), "{page}");
                    rows += 1;
                }
                Report::Absent(absent) => panic!("{absent:?}"),
                Report::Machine(_) => {}
            }
        }
        assert!(rows > 40, "{page}");
    }
}
