//! `large`: one large input on one core and on all of them, beside SHA-256, as in section 3 of
//! "Why BLAKE3 (when SHA-NI is everywhere)" (ndn-rs).

use super::works::{
    Work, ours, ours_parallel, ring_one_by_one, sha2_one_by_one, theirs, theirs_parallel,
};
use crate::Error;
use crate::input;
use crate::machine::backends;
use crate::report::{Figure, Heading, Ratio, Unit};
use crate::series::{Compare, Series};

const THEIRS: &str = "blake3";
const THEIRS_RAYON: &str = "blake3 rayon";
const OURS: &str = "ours";
const OURS_RAYON: &str = "ours rayon";
const SHA2: &str = "sha2";
const RING: &str = "ring";
const DOCUMENT: [&str; 3] = ["document: one", "rayon", "SHA-NI"];

const DOCUMENT_TO_SHA: &str = "document's";

/// Bytes, and the document's microseconds: BLAKE3 on one thread, BLAKE3 with rayon, SHA-256 with SHA-NI.
const CASES: [(usize, [f64; 3]); 3] = [
    (256 << 10, [103.0, 49.0, 95.0]),
    (1 << 20, [413.0, 93.0, 368.0]),
    (4 << 20, [1_660.0, 247.0, 1_460.0]),
];

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let compare = [
        Compare::speed(OURS, SHA2, None),
        Compare::speed(OURS_RAYON, SHA2, None),
        Compare::speed(OURS, THEIRS, None),
        Compare::speed(OURS_RAYON, THEIRS_RAYON, None),
        Compare::speed(OURS_RAYON, OURS, None),
    ];
    let mut ratios: Vec<String> = compare.iter().map(|compare| compare.name.clone()).collect();
    ratios.insert(2, DOCUMENT_TO_SHA.to_owned());
    series.heading(Heading {
        table: "large".into(),
        title: format!(
            "large inputs, one thread and rayon ({})",
            input::cores(rayon_core::current_num_threads())
        ),
        unit: Unit::Microseconds,
        label: "input".into(),
        figures: [THEIRS, THEIRS_RAYON, OURS, OURS_RAYON, SHA2, RING]
            .into_iter()
            .chain(DOCUMENT)
            .map(str::to_owned)
            .collect(),
        ratios,
        notes: vec![
            "the document's figures are from another machine, of more cores; its ratio is \
             BLAKE3 with rayon to SHA-256"
                .into(),
        ],
    })?;
    let best = backends()[0];
    for (bytes, document) in CASES {
        if series.leaves_out(bytes) {
            continue;
        }
        let bytes = input::bytes(bytes);
        let input = bytes.as_slice();
        let whole = &[input];
        let mut contenders = [
            theirs(THEIRS, Work::Whole, input),
            theirs_parallel(THEIRS_RAYON, input),
            ours(OURS, Work::Whole, input).on(best),
            ours_parallel(OURS_RAYON, input).on(best),
            sha2_one_by_one(SHA2, whole),
            ring_one_by_one(RING, whole),
        ];
        let label = input::size(input.len());
        let timings = series.race(&label, &mut contenders)?;
        let mut figures = series.figures(&timings, input.len());
        figures.extend(DOCUMENT.into_iter().zip(document).map(|(n, us)| Figure::quoted(n, us)));
        let mut ratios: Vec<Ratio> = compare.iter().filter_map(|c| c.of(&timings)).collect();
        let [_, rayon, sha] = document;
        ratios.push(Ratio::new(DOCUMENT_TO_SHA, sha, rayon, None));
        series.emit_row(label, input.len(), figures, ratios)?;
    }
    Ok(())
}
