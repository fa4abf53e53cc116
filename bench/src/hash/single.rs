//! `single`: one message, one thread, ours against the official crate; and `busy`, the same while
//! every other core hashes.

pub use super::works::{Work, ours, theirs};
use crate::Error;
use crate::busy::Busy;
use crate::input;
use crate::machine::{BLAKE3_VERSION, OFFICIAL, backends, judged_backends};
use crate::report::{Bound, Heading, Unit};
use crate::series::{Compare, Series};

/// The official crate's column.
pub const THEIRS: &str = "blake3";

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Bytes that are hashed or output.
    pub bytes: usize,
    /// How they are hashed.
    pub work: Work,
    /// The target: the least speed of ours as a multiple of the official assembly's.
    pub wanted: f64,
}

impl Case {
    const fn new(bytes: usize, work: Work, wanted: f64) -> Self {
        Self { bytes, work, wanted }
    }

    /// For a person: `1,500 B`, `64 KiB in 1,400 B updates`.
    #[must_use]
    pub fn label(&self) -> String {
        let size = input::size(self.bytes);
        match self.work {
            Work::Whole => size,
            Work::Pieces(len) => format!("{size} in {} B updates", input::thousands(len)),
            Work::Head(len) => format!("update({len}), update({})", self.bytes - len),
            Work::Output => format!("{size} of output"),
        }
    }
}

/// The rows, with their targets.
pub const CASES: [Case; 21] = [
    Case::new(64, Work::Whole, 1.2),
    Case::new(100, Work::Whole, 1.0),
    Case::new(256, Work::Whole, 1.0),
    Case::new(1 << 10, Work::Whole, 1.0),
    Case::new(2 << 10, Work::Whole, 1.0),
    Case::new(4 << 10, Work::Whole, 1.0),
    Case::new(8 << 10, Work::Whole, 1.0),
    Case::new(16 << 10, Work::Whole, 1.0),
    Case::new(64 << 10, Work::Whole, 1.0),
    Case::new(1 << 20, Work::Whole, 1.0),
    Case::new(16 << 20, Work::Whole, 1.0),
    Case::new(100 << 20, Work::Whole, 1.0),
    Case::new(1_500, Work::Whole, 1.4),
    Case::new(3_000, Work::Whole, 1.4),
    Case::new(7_168, Work::Whole, 1.4),
    Case::new(8_000, Work::Whole, 1.4),
    Case::new(64 << 10, Work::Pieces(1_400), 2.0),
    Case::new(64 << 10, Work::Pieces(10_000), 2.0),
    Case::new(100 + 4_096, Work::Head(100), 2.0),
    Case::new(4 << 10, Work::Output, 2.5),
    Case::new(1 << 20, Work::Output, 2.5),
];

/// Our contenders against this build's official crate, with their targets.
fn opponents(case: &Case) -> Vec<(&'static str, Option<Bound>)> {
    let backends = backends();
    let bound = Some(Bound::AtLeast(case.wanted));
    match OFFICIAL {
        // Its fastest code against ours; our other backends beside it, without a target.
        "assembly" => {
            let best = |at| if at == 0 { bound } else { None };
            backends.iter().enumerate().map(|(at, name)| (*name, best(at))).collect()
        }
        // Intrinsics up to AVX2: against our fastest backend, and against the same one.
        "pure" => {
            judged_backends().into_iter().map(|name| (name, Some(Bound::Over(1.0)))).collect()
        }
        // Compared with the same backend, as on a processor without AVX-512.
        _ => backends
            .into_iter()
            .find(|name| *name != "avx512")
            .map(|n| (n, bound))
            .into_iter()
            .collect(),
    }
}

/// Makes the table, or with `busy` the one of that name.
pub fn run<E>(series: &mut Series<'_, E>, busy: Option<&Busy>) -> Result<(), Error<E>> {
    let ours_here = opponents(&CASES[0]);
    let compared = |opponents: &[(&'static str, Option<Bound>)]| -> Vec<Compare> {
        let judged = opponents.iter().filter(|(_, wanted)| wanted.is_some());
        judged.map(|(name, wanted)| Compare::speed(name, THEIRS, *wanted)).collect()
    };
    let (table, beside) = match busy {
        None => ("single", String::new()),
        Some(busy) => ("busy", format!(", every other core busy ({} of them)", busy.cores())),
    };
    series.heading(Heading {
        table: table.into(),
        title: format!("one thread against blake3 {BLAKE3_VERSION} ({OFFICIAL}){beside}"),
        unit: Unit::GigabytesPerSecond,
        label: "input".into(),
        figures: std::iter::once(THEIRS.to_owned())
            .chain(ours_here.iter().map(|(name, _)| (*name).to_owned()))
            .collect(),
        ratios: compared(&ours_here).into_iter().map(|compare| compare.name).collect(),
        notes: Vec::new(),
    })?;
    let longest = CASES.iter().map(|case| case.bytes).filter(|bytes| !series.leaves_out(*bytes));
    let bytes = input::bytes(longest.max().unwrap_or(0));
    for case in CASES.iter().filter(|case| case.bytes <= bytes.len()) {
        let input = &bytes[..case.bytes];
        let opponents = opponents(case);
        let mut contenders = vec![theirs(THEIRS, case.work, input)];
        contenders.extend(opponents.iter().map(|(name, _)| ours(*name, case.work, input).on(name)));
        series.row(case.label(), case.bytes, &mut contenders, &compared(&opponents), Vec::new())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        let labels: Vec<String> = CASES.iter().map(Case::label).collect();
        for label in ["64 B", "100 MiB", "8,000 B", "64 KiB in 1,400 B updates"] {
            assert!(labels.iter().any(|l| l == label), "{label}: {labels:?}");
        }
        assert!(labels.contains(&"update(100), update(4096)".to_owned()));
        assert!(labels.contains(&"1 MiB of output".to_owned()));
    }
}
