//! [`compare`]: what was measured held against what was saved before, row by row.
//!
//! Both are medians of slices with the spread of their quartiles. A change is worth a word where it is larger than
//! both spreads together; what is smaller says nothing, on this machine and at that hour.

use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::report::{Figure, Report, Row};

/// Below this no change is called one, however still the machine was.
const LEAST: f64 = 0.02;

/// One line of what `--save` writes and `--json` prints.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "event", rename = "bench")]
pub struct Line<R> {
    /// Its own fields, `report` first, stand beside `event`.
    #[serde(flatten)]
    pub report: R,
}

/// The reports that `--save` wrote to `path`.
///
/// # Errors
/// Of the file; [`io::ErrorKind::InvalidData`] with the number of the line that is no report.
pub fn read(path: &Path) -> io::Result<Vec<Report>> {
    let text = std::fs::read_to_string(path)?;
    let report = |(i, line): (usize, &str)| match serde_json::from_str::<Line<Report>>(line) {
        Ok(line) => Ok(line.report),
        Err(error) => {
            let why = format!("line {} is no report of xylem bench: {error}", i + 1);
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    };
    text.lines().enumerate().map(report).collect()
}

/// A figure then and now.
struct Change<'r> {
    row: &'r Row,
    figure: &'r Figure,
    /// The time before as a multiple of the time now: above 1 it is faster.
    faster: f64,
    /// Both spreads together.
    spread: f64,
}

impl Change<'_> {
    fn is_one(&self) -> bool {
        (self.faster.ln()).abs() > (1.0 + self.spread.max(LEAST)).ln()
    }
}

/// The table of all figures that are in both, and how many are faster and slower.
#[must_use]
pub fn compare(before: &[Report], now: &[Report]) -> String {
    let rows = |reports| {
        <[Report]>::iter(reports).filter_map(|report| match report {
            Report::Row(row) => Some(row),
            _ => None,
        })
    };
    let mut changes = Vec::new();
    for row in rows(now) {
        let Some(old) = rows(before).find(|o| (&o.table, &o.label) == (&row.table, &row.label))
        else {
            continue;
        };
        for figure in &row.figures {
            let same = old.figures.iter().find(|old| old.name == figure.name);
            let Some((was, is)) =
                same.and_then(|old| Some((old.nanoseconds?, figure.nanoseconds?)))
            else {
                continue;
            };
            let spread =
                same.and_then(|old| old.spread).unwrap_or(0.0) + figure.spread.unwrap_or(0.0);
            if was > 0.0 && is > 0.0 {
                changes.push(Change { row, figure, faster: was / is, spread });
            }
        }
    }
    let mut text = String::from("\n## Against what was saved\n\n");
    text += "Times: before as a multiple of now; above 1 it is faster now. A change counts where it is larger than \
             the spreads of both (distance of the quartiles over the median) together, and than 2 %.\n\n";
    text += "| row | figure | before / now | spreads | |\n|---|---|--:|--:|---|\n";
    for change in &changes {
        let word = match change.is_one() {
            false => "",
            true if change.faster > 1.0 => "faster",
            true => "SLOWER",
        };
        let Row { table, label, .. } = change.row;
        let (name, faster, spread) = (&change.figure.name, change.faster, change.spread);
        // A string takes everything.
        let _ =
            writeln!(text, "| {table}, {label} | {name} | {faster:.3} | {spread:.3} | {word} |");
    }
    let count =
        |faster: bool| changes.iter().filter(|c| c.is_one() && (c.faster > 1.0) == faster).count();
    let (faster, slower) = (count(true), count(false));
    let _ = writeln!(
        text,
        "\n{} figures in both: {faster} faster, {slower} slower, the rest as before.",
        changes.len()
    );
    text
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
        let text = compare(&before, &now);
        assert!(text.contains("| single, a | xylem | 0.909 | 0.020 | SLOWER |"), "{text}");
        assert!(text.contains("| single, b | xylem | 0.909 | 0.200 |  |"), "{text}");
        assert!(text.contains("3 figures in both: 0 faster, 1 slower"), "{text}");
        let text = compare(&now, &before);
        assert!(text.contains("| single, a | xylem | 1.100 | 0.020 | faster |"), "{text}");
    }

    #[test]
    fn what_is_saved_is_read_and_what_is_not_is_refused() {
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
        assert!(error.to_string().contains("line 3 is no report"), "{error}");
    }
}
