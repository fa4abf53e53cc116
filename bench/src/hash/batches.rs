//! `batches`: independent messages, ours in parallel lanes, all others one by one.

use super::works::{ours_many, ring_one_by_one, sha2_one_by_one, theirs_one_by_one};
use crate::Error;
use crate::input;
use crate::machine::judged_backends;
use crate::report::{Bound, Heading, Unit};
use crate::series::{Compare, Series};

const THEIRS: &str = "blake3";
const SHA2: &str = "sha2";
const RING: &str = "ring";

/// Lengths of messages as in packets and small files, in bytes.
const MIXED: [usize; 8] = [1_500, 100, 4_096, 64, 1_024, 700, 256, 2_000];

/// A batch: lengths of its messages in turn, and the targets for ours against SHA-256 and against the official crate.
struct Case {
    what: &'static str,
    lengths: &'static [usize],
    sha256: f64,
    official: f64,
}

const CASES: [Case; 5] = [
    Case { what: "100 B", lengths: &[100], sha256: 1.5, official: 3.0 },
    Case { what: "256 B", lengths: &[256], sha256: 2.0, official: 3.0 },
    Case { what: "1 KiB", lengths: &[1_024], sha256: 2.0, official: 3.0 },
    Case { what: "4 KiB", lengths: &[4_096], sha256: 2.0, official: 1.45 },
    // There is no target against the official crate for this row; the lowest one is used.
    Case { what: "mixed, 64 B to 4 KiB", lengths: &MIXED, sha256: 2.0, official: 1.45 },
];

/// `count` messages out of `bytes`, with lengths from `lengths` in turn.
pub(super) fn messages<'a>(bytes: &'a [u8], lengths: &[usize], count: usize) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut next = |len: &usize| {
        let (message, after) = rest.split_at(*len);
        rest = after;
        message
    };
    lengths.iter().cycle().take(count).map(&mut next).collect()
}

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let ours = judged_backends();
    let compare = |case: &Case| -> Vec<Compare> {
        let of = |ours: &&'static str| {
            let sha256 = Some(Bound::AtLeast(case.sha256));
            [
                Compare::speed(ours, SHA2, sha256),
                Compare::speed(ours, RING, sha256),
                Compare::speed(ours, THEIRS, Some(Bound::AtLeast(case.official))),
            ]
        };
        ours.iter().flat_map(of).collect()
    };
    let names = [SHA2, RING, THEIRS].into_iter().chain(ours.iter().copied());
    series.heading(Heading {
        table: "batches".into(),
        title: "hash_many against SHA-256 (with the processor's instructions) and against a loop \
                over the official crate"
            .into(),
        unit: Unit::GigabytesPerSecond,
        label: "messages".into(),
        figures: names.map(str::to_owned).collect(),
        ratios: compare(&CASES[0]).into_iter().map(|compare| compare.name).collect(),
        notes: Vec::new(),
    })?;
    let bytes = input::bytes(64 * 4_096);
    for count in [8, 64] {
        for case in &CASES {
            let messages = messages(&bytes, case.lengths, count);
            let total = messages.iter().map(|message| message.len()).sum();
            let mut contenders = vec![
                sha2_one_by_one(SHA2, &messages),
                ring_one_by_one(RING, &messages),
                theirs_one_by_one(THEIRS, &messages),
            ];
            contenders.extend(ours.iter().map(|name| ours_many(*name, &messages).on(name)));
            let label = format!("{count} of {}", case.what);
            series.row(label, total, &mut contenders, &compare(case), Vec::new())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_take_their_lengths_in_turn_and_do_not_overlap() {
        let bytes = input::bytes(100);
        let messages = messages(&bytes, &[10, 20], 5);
        assert_eq!(messages.iter().map(|m| m.len()).collect::<Vec<_>>(), [10, 20, 10, 20, 10]);
        assert_eq!(messages.concat(), bytes[..70]);
    }
}
