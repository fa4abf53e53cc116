//! Columns, ratios and the measurement of a row, as all tables of the transfer use them.

use crate::Error;
use crate::race::{Contender, Timing};
use crate::report::{Bound, Figure, Heading, Ratio, Unit};
use crate::series::Series;

/// Our column.
pub(super) const OURS: &str = "xylem";
/// The column of a library that does the same work without xylem; each table names it.
pub(super) const PLAIN: &str = "plain library";
/// The column of the figures in WRAITH's document.
pub(super) const DOCUMENT: &str = "WRAITH 2.3.1";
/// The column of that document's goals for its version 3.0.
pub(super) const TARGET: &str = "its v3.0 goal";
/// Names of the ratios of our time to the document's, and to the plain library's.
pub(super) const TO_DOCUMENT: &str = "xylem : WRAITH";
pub(super) const TO_PLAIN: &str = "xylem : plain";

/// The document's nanoseconds for a row, its goal if it has one, and the target's reference.
#[derive(Clone, Copy)]
pub(super) struct Quoted {
    pub(super) document: Option<f64>,
    pub(super) goal: Option<f64>,
    bar: TargetReference,
}

/// The reference of ours for the target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetReference {
    /// The document's figure, on its authors' machine.
    Document,
    /// The plain library's time here, for rows where memory, disk or a unit of the processor sets the limit.
    Plain,
}

/// Maximum of our time divided by the plain library's, where that is the reference.
const AT_MOST_OF_PLAIN: f64 = 1.05;

impl Quoted {
    pub(super) const NOTHING: Self =
        Self { document: None, goal: None, bar: TargetReference::Document };

    pub(super) fn of(document: f64) -> Self {
        Self { document: Some(document), ..Self::NOTHING }
    }

    pub(super) fn with_goal(document: f64, goal: f64) -> Self {
        Self { goal: Some(goal), ..Self::of(document) }
    }

    /// The same for a row that the host bounds.
    pub(super) fn bound_by_the_host(self) -> Self {
        Self { bar: TargetReference::Plain, ..self }
    }
}

/// The head of a table.
pub(super) fn heading(table: &str, title: &str, label: &str, notes: &[&str]) -> Heading {
    let always = [
        "A ratio is our time as a multiple of theirs: below 1 says that ours is faster. The document's \
         figures are of its authors' machine (a Zen 4 or later by its BLAKE3 rates), not of this one; \
         wanted: at most 1. Where memory, disk or one unit of the processor set the time, wanted is at most 1.05 of \
         what the plain library takes for the same work here, in turn.",
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

/// Races ours, first, and the plain library where there is one. One run repeats the row's work `times` times; the
/// figures are for one repetition.
pub(super) fn row<E>(
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
    let at_most = |bar, most| (quoted.bar == bar).then_some(Bound::AtMost(most));
    if let (Some(ours), Some(plain)) = (median(OURS), median(PLAIN)) {
        ratios.push(Ratio::new(
            TO_PLAIN,
            ours,
            plain,
            at_most(TargetReference::Plain, AT_MOST_OF_PLAIN),
        ));
    }
    if let (Some(ours), Some(document)) = (median(OURS), quoted.document) {
        ratios.push(Ratio::new(
            TO_DOCUMENT,
            ours,
            document,
            at_most(TargetReference::Document, 1.0),
        ));
    }
    series.emit_row(label.to_owned(), 0, figures, ratios)
}

/// An answer to compare.
pub(super) fn number(value: u64) -> [u8; 32] {
    let mut answer = [0; 32];
    answer[..8].copy_from_slice(&value.to_le_bytes());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::Effort;
    use crate::report::Report;
    use std::convert::Infallible;

    #[test]
    fn a_row_has_one_bar() {
        let mut reports = Vec::new();
        let emit = &mut |report| {
            reports.push(report);
            Ok::<(), Infallible>(())
        };
        let mut series = Series::new(Effort::ONCE, emit);
        for quoted in [Quoted::of(5.0), Quoted::of(5.0).bound_by_the_host(), Quoted::NOTHING] {
            let mut contenders =
                [OURS, PLAIN].map(|name| Contender::new(name, "nothing", || number(1)));
            row(&mut series, "a row", 1, &mut contenders, quoted)
                .unwrap_or_else(|error| panic!("{error}"));
        }
        let bars: Vec<Vec<(&str, Option<Bound>)>> = reports
            .iter()
            .map(|report| match report {
                Report::Row(row) => row.ratios.iter().map(|r| (&*r.name, r.wanted)).collect(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(bars[0], [(TO_PLAIN, None), (TO_DOCUMENT, Some(Bound::AtMost(1.0)))]);
        assert_eq!(bars[1], [(TO_PLAIN, Some(Bound::AtMost(1.05))), (TO_DOCUMENT, None)]);
        assert_eq!(bars[2], [(TO_PLAIN, None)]);
    }
}
