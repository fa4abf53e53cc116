//! Reports as text: Markdown tables that line up on a terminal too, and grow row by row.

use crate::report::{Absent, Figure, Heading, Machine, Ratio, Report, Row, Unit};

/// The mark of a ratio that misses its target.
pub const MISSED: &str = "MISSED";

/// The mark of a figure with quartiles that differ by more than [`NOISY`] of the median.
const NOISE: char = '~';
const NOISY: f64 = 0.1;

/// Width of the labels' column, in characters.
const LABEL: usize = 30;
/// Minimum width of a figure's and of a ratio's column.
const FIGURE: usize = 8;
const RATIO: usize = 20;

/// Turns reports into text; keeps the current table.
#[derive(Debug, Default)]
pub struct Text {
    heading: Option<Heading>,
    wanted: usize,
    missed: Vec<String>,
}

impl Text {
    /// The text of one report: whole lines.
    #[must_use]
    pub fn render(&mut self, report: &Report) -> String {
        match report {
            Report::Machine(machine) => machine_lines(machine),
            Report::Heading(heading) => {
                self.heading = Some(heading.clone());
                heading_lines(heading)
            }
            Report::Row(row) => self.row(row),
            Report::Absent(absent) => absent_lines(absent),
        }
    }

    /// The last line: how many ratios met their targets, and which did not.
    #[must_use]
    pub fn summary(&self) -> String {
        let met = self.wanted - self.missed.len();
        let mut lines = format!("\n{met} of {} wanted ratios met.\n", self.wanted);
        for missed in &self.missed {
            lines += &format!("- {MISSED}: {missed}\n");
        }
        lines
    }

    fn row(&mut self, row: &Row) -> String {
        let Some(heading) = &self.heading else { return String::new() };
        for ratio in &row.ratios {
            let Some(wanted) = ratio.wanted else { continue };
            self.wanted += 1;
            if !ratio.met {
                let Row { table, label, .. } = row;
                let Ratio { name, value, .. } = ratio;
                self.missed.push(format!("{table}, {label}: {name} is {value:.2}, not {wanted}"));
            }
        }
        let figures = heading.figures.iter().map(|name| {
            let figure = row.figures.iter().find(|figure| figure.name == *name);
            figure.map_or("-".to_owned(), |figure| figure_cell(figure, heading.unit))
        });
        let ratios = heading.ratios.iter().map(|name| {
            let ratio = row.ratios.iter().find(|ratio| ratio.name == *name);
            ratio.map_or("-".to_owned(), ratio_cell)
        });
        let cells: Vec<String> = figures.chain(ratios).collect();
        line(heading, &row.label, &cells)
    }
}

fn machine_lines(machine: &Machine) -> String {
    let Machine { processor, cores, system, date, load, backend, official, gigahertz, .. } =
        machine;
    let load = load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let others = match machine.other_backends.as_slice() {
        [] => String::new(),
        others => format!(" (also: {})", others.join(", ")),
    };
    format!(
        "Machine: {processor}, {cores} cores, {gigahertz:.2} GHz measured, {system}; load {load}. \
         {date} UTC.\nOurs: xylem-hash on {backend}{others}. Theirs: {official}.\n\
         Medians of slices in turn, in one process; a ratio over 1 says that ours is faster, \
         except where a note says otherwise; {NOISE} marks figures whose quartiles are more than \
         {:.0} % apart.\n",
        NOISY * 100.0
    )
}

fn heading_lines(heading: &Heading) -> String {
    let mut lines =
        format!("\n## {}: {} ({})\n\n", heading.table, heading.title, heading.unit.name());
    for note in &heading.notes {
        lines += &format!("- {note}\n");
    }
    if !heading.notes.is_empty() {
        lines.push('\n');
    }
    let names: Vec<String> = heading.figures.iter().chain(&heading.ratios).cloned().collect();
    lines += &line(heading, &heading.label, &names);
    let rules: Vec<String> =
        widths(heading).map(|width| format!("{}:", "-".repeat(width - 1))).collect();
    lines + &line(heading, &"-".repeat(LABEL), &rules)
}

fn absent_lines(absent: &Absent) -> String {
    format!("\nabsent from {}: {} ({})\n", absent.table, absent.what, absent.why)
}

fn widths(heading: &Heading) -> impl Iterator<Item = usize> {
    let width = |least: usize| move |name: &String| name.chars().count().max(least);
    heading.figures.iter().map(width(FIGURE)).chain(heading.ratios.iter().map(width(RATIO)))
}

fn line(heading: &Heading, label: &str, cells: &[String]) -> String {
    let mut line = format!("| {label:<LABEL$} |");
    for (cell, width) in cells.iter().zip(widths(heading)) {
        line += &format!(" {cell:>width$} |");
    }
    line + "\n"
}

fn figure_cell(figure: &Figure, unit: Unit) -> String {
    let noisy = figure.spread.is_some_and(|spread| spread > NOISY);
    let mut cell = value_cell(figure, unit);
    cell.extend(noisy.then_some(NOISE));
    cell
}

fn value_cell(figure: &Figure, unit: Unit) -> String {
    match unit {
        Unit::Cycles => crate::input::thousands(figure.value.round() as usize),
        Unit::GigabytesPerSecond => format!("{:.2}", figure.value),
        Unit::Microseconds if figure.value >= 100.0 => format!("{:.0}", figure.value),
        Unit::Microseconds if figure.value >= 10.0 => format!("{:.1}", figure.value),
        Unit::Microseconds => format!("{:.3}", figure.value),
        Unit::Nanoseconds if figure.value >= 1_000.0 => {
            crate::input::thousands(figure.value.round() as usize)
        }
        Unit::Nanoseconds => format!("{:.1}", figure.value),
        Unit::InColumns if figure.value >= 1_000.0 => {
            crate::input::thousands(figure.value.round() as usize)
        }
        Unit::InColumns if figure.value >= 100.0 => format!("{:.0}", figure.value),
        Unit::InColumns if figure.value >= 10.0 => format!("{:.1}", figure.value),
        Unit::InColumns => format!("{:.2}", figure.value),
    }
}

/// `1.31`, `1.31 (≥ 1.20)`, `1.02 MISSED ≥ 1.20`
fn ratio_cell(ratio: &Ratio) -> String {
    match ratio.wanted {
        None => format!("{:.2}", ratio.value),
        Some(wanted) if ratio.met => format!("{:.2} ({wanted})", ratio.value),
        Some(wanted) => format!("{:.2} {MISSED} {wanted}", ratio.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Bound;

    fn heading() -> Heading {
        Heading {
            table: "single".into(),
            title: "one thread".into(),
            unit: Unit::GigabytesPerSecond,
            label: "input".into(),
            figures: vec!["theirs".into(), "ours".into()],
            ratios: vec!["ours / theirs".into()],
            notes: vec!["a note".into()],
        }
    }

    fn row(value: f64) -> Report {
        Report::Row(Row {
            table: "single".into(),
            label: "64 B".into(),
            bytes: 64,
            figures: vec![Figure::quoted("ours", 1.234)],
            ratios: vec![Ratio::new("ours / theirs", value, 1.0, Some(Bound::AtLeast(1.2)))],
        })
    }

    #[test]
    fn columns_line_up_and_what_is_missing_shows() {
        let mut text = Text::default();
        let head = text.render(&Report::Heading(heading()));
        assert!(
            head.starts_with("\n## single: one thread (GB/s)\n\n- a note\n\n| input "),
            "{head}"
        );
        let met = text.render(&row(1.3));
        let missed = text.render(&row(1.1));
        assert_eq!(
            met,
            "| 64 B                           |        - |     1.23 |        1.30 (≥ 1.20) |\n"
        );
        assert_eq!(
            missed,
            "| 64 B                           |        - |     1.23 |   1.10 MISSED ≥ 1.20 |\n"
        );
        let widths: Vec<usize> = head.lines().skip(5).map(|l| l.chars().count()).collect();
        assert_eq!(widths, [met.trim_end().chars().count(); 2]);
        assert_eq!(
            text.summary(),
            "\n1 of 2 wanted ratios met.\n\
             - MISSED: single, 64 B: ours / theirs is 1.10, not ≥ 1.20\n"
        );
    }

    #[test]
    fn figures_by_unit() {
        let cell = |value, unit| figure_cell(&Figure::quoted("", value), unit);
        assert_eq!(cell(12_699.6, Unit::Cycles), "12,700");
        assert_eq!(cell(2.048, Unit::GigabytesPerSecond), "2.05");
        assert_eq!(cell(0.0521, Unit::Microseconds), "0.052");
        assert_eq!(cell(49.04, Unit::Microseconds), "49.0");
        assert_eq!(cell(4.44, Unit::Nanoseconds), "4.4");
        assert_eq!(cell(40_775.0, Unit::Nanoseconds), "40,775");
        assert_eq!(cell(1_660.0, Unit::Microseconds), "1660");
        let columns = [1_660.4, 166.4, 16.64, 0.166].map(|value| cell(value, Unit::InColumns));
        assert_eq!(columns, ["1,660", "166", "16.6", "0.17"]);
        let spread = |spread| Figure { spread: Some(spread), ..Figure::quoted("", 2.048) };
        assert_eq!(figure_cell(&spread(0.09), Unit::GigabytesPerSecond), "2.05");
        assert_eq!(figure_cell(&spread(0.11), Unit::GigabytesPerSecond), "2.05~");
    }

    #[test]
    fn absent_peers_are_reported() {
        let absent = Absent { table: "single".into(), what: "x".into(), why: "y".into() };
        assert_eq!(
            Text::default().render(&Report::Absent(absent)),
            "\nabsent from single: x (y)\n"
        );
    }
}
