//! `cores`: `update_rayon` against `update`, at every power of two: from which size a second core pays, and that it
//! never costs.

use super::works::{Work, ours, ours_parallel, theirs, theirs_parallel};
use crate::Error;
use crate::input;
use crate::machine::backends;
use crate::report::{Bound, Heading, Unit};
use crate::series::{Compare, Series};

const THEIRS: &str = "blake3";
const THEIRS_RAYON: &str = "blake3 rayon";
const OURS: &str = "ours";
const OURS_RAYON: &str = "ours rayon";

/// 1 KiB to 64 MiB, as powers of two.
const SIZES: std::ops::RangeInclusive<usize> = 10..=26;

/// The target for two cores at each size.
fn wanted(bytes: usize, threads: usize) -> Option<Bound> {
    match (bytes, threads) {
        (_, 1) => None,
        (0x100_0000, 2) => Some(Bound::AtLeast(1.85)),
        _ => Some(Bound::AtLeast(1.0)),
    }
}

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let threads = rayon_core::current_num_threads();
    let compare = |bytes| {
        [
            Compare::speed(OURS_RAYON, OURS, wanted(bytes, threads)),
            Compare::speed(THEIRS_RAYON, THEIRS, None),
            Compare::speed(OURS_RAYON, THEIRS_RAYON, None),
        ]
    };
    series.heading(Heading {
        table: "cores".into(),
        title: format!("update_rayon on {} against update on one", input::cores(threads)),
        unit: Unit::GigabytesPerSecond,
        label: "input".into(),
        figures: [THEIRS, THEIRS_RAYON, OURS, OURS_RAYON].map(str::to_owned).to_vec(),
        ratios: compare(0).map(|compare| compare.name).to_vec(),
        notes: vec!["RAYON_NUM_THREADS=2 in the environment makes it two cores".into()],
    })?;
    let best = backends()[0];
    for bytes in SIZES.map(|power| 1_usize << power) {
        if series.leaves_out(bytes) {
            continue;
        }
        let input = &input::bytes(bytes);
        // Both sides use a Hasher, so that they differ in the number of cores alone.
        let mut contenders = [
            theirs(THEIRS, Work::Pieces(bytes), input),
            theirs_parallel(THEIRS_RAYON, input),
            ours(OURS, Work::Pieces(bytes), input).on(best),
            ours_parallel(OURS_RAYON, input).on(best),
        ];
        series.row(input::size(bytes), bytes, &mut contenders, &compare(bytes), Vec::new())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_depend_on_size_and_cores() {
        assert_eq!(wanted(16 << 20, 2), Some(Bound::AtLeast(1.85)));
        assert_eq!(wanted(16 << 20, 8), Some(Bound::AtLeast(1.0)));
        assert_eq!(wanted(1 << 10, 2), Some(Bound::AtLeast(1.0)));
        assert_eq!(wanted(16 << 20, 1), None);
    }
}
