//! [`Report`]: the results of a series of tables, in the order in which they are found.
//!
//! serde makes one JSON object of each (docs/spec/json-events.md, event `bench`); [`crate::text`] makes Markdown. A
//! table is one [`Heading`], then [`Row`]s, and [`Absent`] for each missing peer.

use serde::{Deserialize, Serialize};

use crate::race::Timing;

/// One report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The machine; reported once, first of all.
    Machine(Machine),
    /// The begin of a table.
    Heading(Heading),
    /// A row of the table that began last.
    Row(Row),
    /// A part of a table that cannot be measured here.
    Absent(Absent),
}

/// Place and time of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name as the system gives it.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Operating system and architecture.
    pub system: String,
    /// Date and time, UTC: `2026-11-22 01:10`.
    pub date: String,
    /// Mean number of running threads in the minute before; null if the system does not report it.
    pub load: Option<f64>,
    /// The backend that xylem-hash chooses by itself.
    pub backend: String,
    /// The other backends of xylem-hash that this machine supports.
    pub other_backends: Vec<String>,
    /// The official crate of this build: version, configuration, and backend.
    pub official: String,
    /// Core cycles in a nanosecond, measured at the start.
    pub gigahertz: f64,
}

/// The unit of a table's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes in a nanosecond: 10^9 bytes a second.
    GigabytesPerSecond,
    /// Core cycles of one run.
    Cycles,
    /// Microseconds of one run.
    Microseconds,
    /// Nanoseconds of one run.
    Nanoseconds,
    /// Each column has its own unit, given by its name.
    InColumns,
}

impl Unit {
    /// Its name in a table's title.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GigabytesPerSecond => "GB/s",
            Self::Cycles => "core cycles",
            Self::Microseconds => "µs",
            Self::Nanoseconds => "ns",
            Self::InColumns => "units in the columns",
        }
    }
}

/// The head of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    /// The table's name, as the command line takes it.
    pub table: String,
    /// The two sides of the comparison.
    pub title: String,
    /// The unit of the figures.
    pub unit: Unit,
    /// Heading of the labels' column.
    pub label: String,
    /// Names of the figures that rows have.
    pub figures: Vec<String>,
    /// Names of the ratios that rows have.
    pub ratios: Vec<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// A row: figures side by side, and their ratios.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The table's name.
    pub table: String,
    /// The row's label, such as the length of the hashed message.
    pub label: String,
    /// Bytes that one run hashes (or outputs).
    pub bytes: usize,
    /// Measured figures; those of the heading that are missing were not measured.
    pub figures: Vec<Figure>,
    /// Ratios, with their targets.
    pub ratios: Vec<Ratio>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name, as in the heading.
    pub name: String,
    /// Its value in the table's unit.
    pub value: f64,
    /// Median nanoseconds of one run; null for a quoted figure.
    pub nanoseconds: Option<f64>,
    /// Distance of the quartiles divided by the median; null for a quoted figure.
    pub spread: Option<f64>,
    /// Number of slices of the median; null for a quoted figure.
    pub rounds: Option<usize>,
}

/// A ratio of two medians, or of two quoted figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Its name, as in the heading.
    pub name: String,
    /// Rounded to two decimals, as it is printed and compared with its target.
    pub value: f64,
    /// Its target.
    pub wanted: Option<Bound>,
    /// Whether it meets its target; true without one.
    pub met: bool,
}

/// The target of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Not less than this.
    AtLeast(f64),
    /// More than this.
    Over(f64),
    /// Not more than this.
    AtMost(f64),
}

impl Bound {
    /// Whether `value` meets the target.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::Over(bound) => value > bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound:.2}"),
            Self::Over(bound) => write!(f, "> {bound:.2}"),
            Self::AtMost(bound) => write!(f, "≤ {bound:.2}"),
        }
    }
}

/// A measurement that is not possible here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// The table's name.
    pub table: String,
    /// The missing part.
    pub what: String,
    /// The reason, and how to get it.
    pub why: String,
}

impl Ratio {
    /// `numerator / denominator`, compared with `wanted`.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        numerator: f64,
        denominator: f64,
        wanted: Option<Bound>,
    ) -> Self {
        let value = (numerator / denominator * 100.0).round() / 100.0;
        let met = wanted.is_none_or(|wanted| wanted.holds(value));
        Self { name: name.into(), value, wanted, met }
    }
}

impl Figure {
    /// A measured figure; `bytes` are those of one run, `gigahertz` is the clock for units that need it.
    #[must_use]
    pub fn measured(timing: &Timing, unit: Unit, bytes: usize, gigahertz: f64) -> Self {
        let value = match unit {
            Unit::GigabytesPerSecond => bytes as f64 / timing.median.max(f64::MIN_POSITIVE),
            Unit::Cycles => timing.median * gigahertz,
            Unit::Microseconds => timing.median / 1_000.0,
            Unit::Nanoseconds | Unit::InColumns => timing.median,
        };
        Self {
            name: timing.name.clone(),
            value,
            nanoseconds: Some(timing.median),
            spread: Some(timing.spread),
            rounds: Some(timing.rounds),
        }
    }

    /// A figure quoted from a document, in the table's unit.
    #[must_use]
    pub fn quoted(name: impl Into<String>, value: f64) -> Self {
        Self { name: name.into(), value, nanoseconds: None, spread: None, rounds: None }
    }
}

#[cfg(test)]
impl Row {
    /// Asserts that each of its cells has a column under `heading` and is not empty.
    pub(crate) fn assert_fits(&self, heading: &Heading) {
        assert_eq!(self.table, heading.table);
        for figure in &self.figures {
            let at = format!("{}, {}: {}", self.table, self.label, figure.name);
            assert!(heading.figures.contains(&figure.name), "{at}: no column");
            assert!(figure.value > 0.0, "{at}: {}", figure.value);
        }
        for ratio in &self.ratios {
            let at = format!("{}, {}: {}", self.table, self.label, ratio.name);
            assert!(heading.ratios.contains(&ratio.name), "{at}: no column");
            assert!(ratio.value.is_finite(), "{at}: {}", ratio.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(median: f64) -> Timing {
        Timing { name: "a".into(), median, spread: 0.1, rounds: 9 }
    }

    #[test]
    fn ratios_are_judged_as_they_are_printed() {
        let at_least = |value| Ratio::new("r", value, 1.0, Some(Bound::AtLeast(1.0)));
        assert!(at_least(0.996).met && at_least(0.996).value == 1.0);
        assert!(!at_least(0.994).met);
        assert!(!Ratio::new("r", 1.004, 1.0, Some(Bound::Over(1.0))).met);
        assert!(Ratio::new("r", 1.006, 1.0, Some(Bound::Over(1.0))).met);
        assert!(Ratio::new("r", 1.0, 2.0, Some(Bound::AtMost(0.5))).met);
        assert!(!Ratio::new("r", 1.02, 2.0, Some(Bound::AtMost(0.5))).met);
        assert!(Ratio::new("r", 0.1, 2.0, None).met);
        // A row that was never timed meets no target.
        assert!(!Ratio::new("r", 0.0, 0.0, Some(Bound::AtLeast(1.0))).met);
    }

    #[test]
    fn figures_in_each_unit() {
        let of = |unit| Figure::measured(&timing(2_000.0), unit, 4_096, 3.0).value;
        assert_eq!(of(Unit::GigabytesPerSecond), 2.048);
        assert_eq!(of(Unit::Cycles), 6_000.0);
        assert_eq!(of(Unit::Microseconds), 2.0);
        assert_eq!(of(Unit::Nanoseconds), 2_000.0);
    }

    #[test]
    fn a_report_survives_json() {
        let row = Row {
            table: "single".into(),
            label: "64 B".into(),
            bytes: 64,
            figures: vec![Figure::quoted("document", 1.5)],
            ratios: vec![Ratio::new("a / b", 3.0, 2.0, Some(Bound::AtLeast(1.2)))],
        };
        let line = serde_json::to_string(&Report::Row(row.clone())).unwrap();
        assert!(line.starts_with(r#"{"report":"row","table":"single","label":"64 B""#), "{line}");
        assert!(line.contains(r#""wanted":{"at_least":1.2},"met":true"#), "{line}");
        assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), Report::Row(row));
    }
}
