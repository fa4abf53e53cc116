//! [`Series`]: runs races and emits reports.

use crate::Error;
use crate::clock;
use crate::race::{Contender, Effort, Timing, race};
use crate::report::{Absent, Bound, Figure, Heading, Ratio, Report, Row, Unit};

/// The tables being made.
pub struct Series<'e, E> {
    effort: Effort,
    emit: &'e mut dyn FnMut(Report) -> Result<(), E>,
    /// The name of the current table.
    table: String,
    unit: Unit,
}

/// A ratio to compute from the timings of a row: `over`'s time divided by `under`'s.
pub struct Compare {
    pub name: String,
    pub over: String,
    pub under: String,
    pub wanted: Option<Bound>,
}

impl Compare {
    /// The speed of `ours` divided by that of `theirs`; the ratio is named after both.
    pub fn speed(ours: &str, theirs: &str, wanted: Option<Bound>) -> Self {
        let name = format!("{ours} / {theirs}");
        Self { name, over: theirs.to_owned(), under: ours.to_owned(), wanted }
    }

    /// The time of `over` divided by that of `under`.
    pub fn time(name: &str, over: &str, under: &str, wanted: Option<Bound>) -> Self {
        let [name, over, under] = [name, over, under].map(str::to_owned);
        Self { name, over, under, wanted }
    }

    /// The ratio, if both were timed.
    pub fn of(&self, timings: &[Timing]) -> Option<Ratio> {
        let median = |name: &str| Some(timings.iter().find(|t| t.name == name)?.median);
        Some(Ratio::new(&self.name, median(&self.over)?, median(&self.under)?, self.wanted))
    }
}

impl<'e, E> Series<'e, E> {
    pub fn new(effort: Effort, emit: &'e mut dyn FnMut(Report) -> Result<(), E>) -> Self {
        Self { effort, emit, table: String::new(), unit: Unit::GigabytesPerSecond }
    }

    /// Begins a table.
    pub fn heading(&mut self, heading: Heading) -> Result<(), Error<E>> {
        self.table.clone_from(&heading.table);
        self.unit = heading.unit;
        self.emit(Report::Heading(heading))
    }

    /// Reports that something is missing.
    pub fn absent(&mut self, absent: Absent) -> Result<(), Error<E>> {
        self.emit(Report::Absent(absent))
    }

    /// The longest input of this series, in bytes.
    pub fn longest(&self) -> usize {
        self.effort.longest
    }

    /// Whether an input of `bytes` is too long for this series.
    pub fn leaves_out(&self, bytes: usize) -> bool {
        bytes > self.effort.longest
    }

    /// Times the contenders of the row called `label`.
    pub fn race(
        &self,
        label: &str,
        contenders: &mut [Contender<'_>],
    ) -> Result<Vec<Timing>, Error<E>> {
        race(contenders, self.effort).map_err(|differ| Error::Differ {
            row: format!("{}, {label}", self.table),
            one: differ.one,
            other: differ.other,
        })
    }

    /// Races and reports a row, with quoted figures beside it.
    pub fn row(
        &mut self,
        label: String,
        bytes: usize,
        contenders: &mut [Contender<'_>],
        compare: &[Compare],
        quoted: Vec<Figure>,
    ) -> Result<(), Error<E>> {
        let timings = self.race(&label, contenders)?;
        let mut figures = self.figures(&timings, bytes);
        figures.extend(quoted);
        let ratios = compare.iter().filter_map(|compare| compare.of(&timings)).collect();
        self.emit_row(label, bytes, figures, ratios)
    }

    /// The figures of a race, in the table's unit, without the clock.
    pub fn figures(&self, timings: &[Timing], bytes: usize) -> Vec<Figure> {
        let clock = timings.iter().find(|timing| timing.name == clock::CHAIN);
        let gigahertz = clock.map_or(0.0, |timing| clock::gigahertz(timing.median));
        let raced = timings.iter().filter(|timing| timing.name != clock::CHAIN);
        raced.map(|timing| Figure::measured(timing, self.unit, bytes, gigahertz)).collect()
    }

    /// Reports a row.
    pub fn emit_row(
        &mut self,
        label: String,
        bytes: usize,
        figures: Vec<Figure>,
        ratios: Vec<Ratio>,
    ) -> Result<(), Error<E>> {
        let table = self.table.clone();
        self.emit(Report::Row(Row { table, label, bytes, figures, ratios }))
    }

    fn emit(&mut self, report: Report) -> Result<(), Error<E>> {
        (self.emit)(report).map_err(Error::Refused)
    }
}
