//! `streaming`: a message in pieces of 64 bytes against one call, as in the appendix of "Why BLAKE3 (when SHA-NI is
//! everywhere)" (ndn-rs); its finding 2 is that pieces cost twice as much.

use super::works::{Work, ours, theirs};
use crate::Error;
use crate::input;
use crate::machine::backends;
use crate::report::{Bound, Figure, Heading, Ratio, Unit};
use crate::series::{Compare, Series};

const PIECE: usize = 64;

const THEIRS_WHOLE: &str = "blake3, one call";
const THEIRS_PIECES: &str = "blake3, pieces";
const OURS_WHOLE: &str = "ours, one call";
const OURS_PIECES: &str = "ours, pieces";
const DOCUMENT_WHOLE: &str = "document, one call";
const DOCUMENT_PIECES: &str = "document, pieces";

const OURS_OVERHEAD: &str = "ours, pieces / one call";
const THEIRS_OVERHEAD: &str = "blake3's";
const DOCUMENT_OVERHEAD: &str = "document's";
const PIECES: &str = "in pieces, ours / blake3";

/// Bytes, and the document's nanoseconds for one call and for pieces; it has no row of 8 KiB.
const CASES: [(usize, Option<[f64; 2]>); 5] = [
    (256, Some([197.0, 211.0])),
    (1 << 10, Some([781.0, 820.0])),
    (4 << 10, Some([1_703.0, 3_451.0])),
    (8 << 10, None),
    (16 << 10, Some([6_561.0, 13_785.0])),
];

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let figures =
        [THEIRS_WHOLE, THEIRS_PIECES, OURS_WHOLE, OURS_PIECES, DOCUMENT_WHOLE, DOCUMENT_PIECES];
    series.heading(Heading {
        table: "streaming".into(),
        title: format!("updates of {PIECE} bytes against one call"),
        unit: Unit::Microseconds,
        label: "input".into(),
        figures: figures.map(str::to_owned).to_vec(),
        ratios: [OURS_OVERHEAD, THEIRS_OVERHEAD, DOCUMENT_OVERHEAD, PIECES]
            .map(str::to_owned)
            .to_vec(),
        notes: vec![
            "pieces / one call are ratios of times: under 1 is faster".into(),
            "the document's figures are from another machine; it has none for 8 KiB".into(),
        ],
    })?;
    let best = backends()[0];
    for (bytes, document) in CASES {
        let input = &input::bytes(bytes);
        let mut contenders = [
            theirs(THEIRS_WHOLE, Work::Whole, input),
            theirs(THEIRS_PIECES, Work::Pieces(PIECE), input),
            ours(OURS_WHOLE, Work::Whole, input).on(best),
            ours(OURS_PIECES, Work::Pieces(PIECE), input).on(best),
        ];
        let compare = [
            Compare::time(OURS_OVERHEAD, OURS_PIECES, OURS_WHOLE, Some(Bound::AtMost(1.15))),
            Compare::time(THEIRS_OVERHEAD, THEIRS_PIECES, THEIRS_WHOLE, None),
            Compare::time(PIECES, THEIRS_PIECES, OURS_PIECES, None),
        ];
        let label = input::size(bytes);
        let timings = series.race(&label, &mut contenders)?;
        let mut figures = series.figures(&timings, bytes);
        let mut ratios: Vec<Ratio> = compare.iter().filter_map(|c| c.of(&timings)).collect();
        if let Some([whole, pieces]) = document {
            figures.push(Figure::quoted(DOCUMENT_WHOLE, whole / 1_000.0));
            figures.push(Figure::quoted(DOCUMENT_PIECES, pieces / 1_000.0));
            ratios.push(Ratio::new(DOCUMENT_OVERHEAD, pieces, whole, None));
        }
        series.emit_row(label, bytes, figures, ratios)?;
    }
    Ok(())
}
