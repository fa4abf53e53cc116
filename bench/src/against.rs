//! [`changes`]: compares measurements with those saved before, row by row; [`table`] for people.
//!
//! Both are medians of slices with the spread of their quartiles. A change is reported where it is larger than both
//! spreads together. A smaller one may be noise of this machine at that hour.

use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::report::{Figure, Report, Row};

/// Smallest reported change, however quiet the machine was.
const MIN_CHANGE: f64 = 0.02;

/// One line as `--save` writes and `--json` prints it.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "event", rename = "bench")]
pub struct Line<R> {
    /// Its fields stand beside `event`, `report` first.
    #[serde(flatten)]
    pub report: R,
}

/// Reads the reports that `--save` wrote to `path`.
///
/// # Errors
/// I/O errors of the file; [`io::ErrorKind::InvalidData`] with the number of a line that is no report.
pub fn read(path: &Path) -> io::Result<Vec<Report>> {
    let text = std::fs::read_to_string(path)?;
    let report = |(i, line): (usize, &str)| match serde_json::from_str::<Line<Report>>(line) {
        Ok(line) => Ok(line.report),
        Err(error) => {
            let why = format!("line {} is not a report of `xylem bench`: {error}", i + 1);
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    };
    text.lines().enumerate().map(report).collect()
}

/// A median and its spread: the distance of the quartiles divided by the median.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Measured {
    /// Median nanoseconds of one run.
    pub nanoseconds: f64,
    /// Distance of the quartiles divided by the median.
    pub spread: f64,
}

impl Measured {
    fn of(figure: &Figure) -> Option<Self> {
        let nanoseconds = figure.nanoseconds.filter(|nanoseconds| *nanoseconds > 0.0)?;
        Some(Self { nanoseconds, spread: figure.spread.unwrap_or(0.0) })
    }
}

/// A figure then and now.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "report", rename = "change")]
pub struct Change {
    /// The table's name.
    pub table: String,
    /// The row's.
    pub label: String,
    /// The figure's name.
    pub figure: String,
    /// The saved measurement.
    pub before: Measured,
    /// The new measurement.
    pub now: Measured,
    /// The time before divided by the time now: above 1 it is faster.
    pub faster: f64,
    /// Whether the change is larger than both spreads together, and than 2 %.
    pub counts: bool,
}

impl Change {
    fn spread(&self) -> f64 {
        self.before.spread + self.now.spread
    }
}

fn rows(reports: &[Report]) -> impl Iterator<Item = &Row> {
    reports.iter().filter_map(|report| match report {
        Report::Row(row) => Some(row),
        _ => None,
    })
}

/// Changes of all figures that were measured both times.
#[must_use]
pub fn changes(before: &[Report], now: &[Report]) -> Vec<Change> {
    let mut changes = Vec::new();
    for row in rows(now) {
        let same = |old: &&Row| (&old.table, &old.label) == (&row.table, &row.label);
        let Some(old) = rows(before).find(same) else { continue };
        for figure in &row.figures {
            let before = old.figures.iter().find(|old| old.name == figure.name);
            let (Some(before), Some(now)) = (before.and_then(Measured::of), Measured::of(figure))
            else {
                continue;
            };
            let mut change = Change {
                table: row.table.clone(),
                label: row.label.clone(),
                figure: figure.name.clone(),
                before,
                now,
                faster: before.nanoseconds / now.nanoseconds,
                counts: false,
            };
            change.counts = change.faster.ln().abs() > (1.0 + change.spread().max(MIN_CHANGE)).ln();
            changes.push(change);
        }
    }
    changes
}

/// [`changes`] as a table, and how many figures are faster and slower.
#[must_use]
pub fn table(before: &[Report], now: &[Report]) -> String {
    let changes = changes(before, now);
    let mut text = String::from("\n## Against the saved report\n\n");
    let where_of = |reports: &[Report]| {
        reports.iter().find_map(|report| match report {
            Report::Machine(machine) => Some((machine.processor.clone(), machine.cores)),
            _ => None,
        })
    };
    // Writing to a string can't fail.
    if let Some((processor, cores)) =
        where_of(before).filter(|was| where_of(now).as_ref() != Some(was))
    {
        let cores = crate::input::cores(cores);
        let _ = writeln!(text, "The saved report is of another machine: {processor}, {cores}.\n");
    }
    text += "Medians, and the distance of the quartiles over them. Before as a multiple of now: above 1 it is faster now. A \
             change counts where it is larger than the spreads of both together, and than 2 %.\n\n";
    text += "| row | figure | before | now | before / now | |\n|---|---|--:|--:|--:|---|\n";
    for change in &changes {
        let word = match change.counts {
            false => "",
            true if change.faster > 1.0 => "faster",
            true => "SLOWER",
        };
        let Change { table, label, figure, before, now, faster, .. } = change;
        let (before, now) = (cell(before), cell(now));
        let _ = writeln!(
            text,
            "| {table}, {label} | {figure} | {before} | {now} | {faster:.3} | {word} |"
        );
    }
    let count =
        |faster: bool| changes.iter().filter(|c| c.counts && (c.faster > 1.0) == faster).count();
    let (faster, slower) = (count(true), count(false));
    let _ = writeln!(
        text,
        "\n{} figures in both: {faster} faster, {slower} slower, the rest unchanged.",
        changes.len()
    );
    text
}

/// A median with at least three digits, and its spread.
fn cell(measured: &Measured) -> String {
    let Measured { nanoseconds, spread } = *measured;
    let (value, unit) = match nanoseconds {
        n if n < 1e4 => (n, "ns"),
        n if n < 1e7 => (n / 1e3, "µs"),
        n if n < 1e10 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let places = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.places$} {unit} ± {:.1} %", 100.0 * spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, nanoseconds: f64, spread: f64) -> Report {
        let figure = Figure {
            name: "xylem".into(),
            value: nanoseconds,
            nanoseconds: Some(nanoseconds),
            spread: Some(spread),
            rounds: Some(9),
        };
        Report::Row(Row {
            table: "single".into(),
            label: label.into(),
            bytes: 64,
            figures: vec![figure, Figure::quoted("document", 3.0)],
            ratios: vec![],
        })
    }

    #[test]
    fn changes_count_where_they_are_larger_than_the_noise() {
        let before = [row("a", 100.0, 0.01), row("b", 100.0, 0.1), row("c", 100.0, 0.0)];
        let now = [
            row("a", 110.0, 0.01),
            row("b", 110.0, 0.1),
            row("c", 101.0, 0.0),
            row("new", 1.0, 0.0),
        ];
        let text = table(&before, &now);
        let row = "| single, a | xylem | 100 ns ± 1.0 % | 110 ns ± 1.0 % | 0.909 | SLOWER |";
        assert!(text.contains(row), "{text}");
        let row = "| single, b | xylem | 100 ns ± 10.0 % | 110 ns ± 10.0 % | 0.909 |  |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("3 figures in both: 0 faster, 1 slower"), "{text}");
        let text = table(&now, &before);
        assert!(text.contains(" | 1.100 | faster |"), "{text}");
    }

    #[test]
    fn times_are_written_with_three_digits() {
        let written = |nanoseconds| cell(&Measured { nanoseconds, spread: 0.004 });
        assert_eq!(written(0.5), "0.50 ns ± 0.4 %");
        assert_eq!(written(12.34), "12.3 ns ± 0.4 %");
        assert_eq!(written(9_999.0), "9999 ns ± 0.4 %");
        assert_eq!(written(12_340.0), "12.3 µs ± 0.4 %");
        assert_eq!(written(1.5e8), "150 ms ± 0.4 %");
        assert_eq!(written(2.5e10), "25.0 s ± 0.4 %");
    }

    #[test]
    fn saved_reports_are_read_and_other_files_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("saved");
        let reports = [row("a", 1.5, 0.25), row("b", 2.0, 0.0)];
        let lines = |reports: &[Report]| -> String {
            let line = |report| serde_json::to_string(&Line { report }).expect("JSON") + "\n";
            reports.iter().map(line).collect()
        };
        std::fs::write(&path, lines(&reports)).expect("a file");
        assert_eq!(read(&path).expect("as written"), reports);
        std::fs::write(&path, lines(&reports) + "no\n").expect("a file");
        let error = read(&path).expect_err("no report");
        assert!(error.to_string().contains("line 3 is not a report"), "{error}");
    }
}
