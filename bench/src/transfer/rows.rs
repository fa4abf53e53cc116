//! What the rows of all these tables have in common: columns, ratios, how one is measured.

use crate::Error;
use crate::race::{Contender, Timing};
use crate::report::{Bound, Figure, Heading, Ratio, Unit};
use crate::series::Series;

/// Our column.
pub(super) const OURS: &str = "xylem";
/// Who does the same work without xylem; each table says who that is.
pub(super) const PLAIN: &str = "plain library";
/// What WRAITH's document gives for its code.
pub(super) const DOCUMENT: &str = "WRAITH 2.3.1";
/// What it sets itself for its version 3.0.
pub(super) const TARGET: &str = "its v3.0 goal";
/// Our time as a multiple of the document's, and of the plain library's.
pub(super) const TO_DOCUMENT: &str = "xylem : WRAITH";
pub(super) const TO_PLAIN: &str = "xylem : plain";

/// Nanoseconds that the document gives for a row, and its goal where it sets one.
#[derive(Clone, Copy)]
pub(super) struct Quoted {
    pub(super) document: Option<f64>,
    pub(super) goal: Option<f64>,
}

impl Quoted {
    pub(super) const NOTHING: Self = Self { document: None, goal: None };

    pub(super) fn of(document: f64) -> Self {
        Self { document: Some(document), goal: None }
    }
}

/// The head of a table.
pub(super) fn heading(table: &str, title: &str, label: &str, notes: &[&str]) -> Heading {
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
    if let (Some(ours), Some(plain)) = (median(OURS), median(PLAIN)) {
        ratios.push(Ratio::new(TO_PLAIN, ours, plain, None));
    }
    if let (Some(ours), Some(document)) = (median(OURS), quoted.document) {
        ratios.push(Ratio::new(TO_DOCUMENT, ours, document, Some(Bound::AtMost(1.0))));
    }
    series.emit_row(label.to_owned(), 0, figures, ratios)
}

/// An answer to compare.
pub(super) fn number(value: u64) -> [u8; 32] {
    let mut answer = [0; 32];
    answer[..8].copy_from_slice(&value.to_le_bytes());
    answer
}
