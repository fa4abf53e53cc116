//! `shape`: the cost of choosing a datagram's size and time, beside the cost of padding it.
//!
//! The document's "obfuscation" benchmarks were never run (as its section on them states), so its row names are
//! followed, without figures beside them. The cost of a shaped session on the wire is in docs/shaping.md.

use std::hint::black_box;
use std::time::Duration;

use xylem_link_internals::internals::Shapes;
use xylem_link_internals::{Level, MAX_DATAGRAM, Padding, SendTiming, ShapingProfile};

use super::rows::{OURS, PLAIN, compared, heading, quoted};
use crate::Error;
use crate::race::{Answer, Contender};
use crate::series::Series;

/// Bytes before padding, as in the document.
const SIZES: [usize; 4] = [128, 512, 1_024, 4_096];

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "shape",
        "shaping: sizes, gaps and profiles",
        "operation",
        &[
            "The document names these operations and gives no figures: its run left them out.",
            "Padding: a size is chosen and the datagram filled with zeros up to it; beside it, the \
             filling alone. Its ConstantRate is the constant size here.",
            "A gap is drawn from a generator keyed by BLAKE3, one call of it for most of them.",
        ],
    ))?;
    for (name, padding) in paddings() {
        for size in SIZES {
            pad(series, &format!("pad {size} B, {name}"), &padding, size)?;
        }
    }
    for (name, timing) in timings() {
        let mut shapes = Shapes::new(&ShapingProfile { timing, ..ShapingProfile::default() });
        let gap = Contender::new(OURS, "gap", || answer(shapes.gap().as_nanos() as u64));
        series.row(format!("gap, {name}"), 1, &mut [gap], &compared(None), quoted(None, None))?;
    }
    for level in Level::ALL {
        let make = Contender::new(OURS, "profile", || answer(made(black_box(level).profile())));
        let label = format!("make profile {level}");
        series.row(label, 1, &mut [make], &compared(None), quoted(None, None))?;
        let profile = level.profile();
        let estimate = Contender::new(OURS, "cost", || {
            answer(black_box(&profile).cost(black_box(8_192), 1_452).permille)
        });
        let label = format!("estimate cost of {level}");
        series.row(label, 1, &mut [estimate], &compared(None), quoted(None, None))?;
    }
    Ok(())
}

fn paddings() -> [(&'static str, Padding); 4] {
    let table = vec![(256, 15), (1_232, 50), (4_500, 35)];
    [
        ("PowerOfTwo", Padding::PowerOfTwo),
        ("SizeClasses", Padding::SizeClasses(vec![128, 256, 512, 1_024, 8_192])),
        ("ConstantRate", Padding::Constant(8_192)),
        ("Statistical", Padding::Statistical(table)),
    ]
}

fn timings() -> [(&'static str, SendTiming); 5] {
    let ms = Duration::from_millis;
    [
        ("None", SendTiming::None),
        ("Fixed", SendTiming::Fixed(ms(5))),
        ("Uniform", SendTiming::Uniform { min: ms(1), max: ms(5) }),
        ("Normal", SendTiming::Normal { mean: ms(5), deviation: ms(1) }),
        ("Exponential", SendTiming::Exponential { mean: ms(5) }),
    ]
}

fn pad<E>(
    series: &mut Series<'_, E>,
    label: &str,
    padding: &Padding,
    size: usize,
) -> Result<(), Error<E>> {
    let profile = ShapingProfile { padding: padding.clone(), ..ShapingProfile::default() };
    let mut shapes = Shapes::new(&profile);
    let (mut ours, mut plain) =
        (Vec::with_capacity(MAX_DATAGRAM), Vec::with_capacity(MAX_DATAGRAM));
    // The most frequent size, for the comparison with padding alone.
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..100 {
        ours.resize(size, 1);
        shapes.pad(&mut ours, MAX_DATAGRAM);
        *counts.entry(ours.len()).or_insert(0) += 1;
        ours.clear();
    }
    let usual = counts.into_iter().max_by_key(|(_, count)| *count).map_or(size, |(len, _)| len);
    ours.resize(size, 1);
    plain.resize(size, 1);
    // The contenders' last datagrams may differ where sizes are random. They only have to agree in that they were
    // padded.
    let mut contenders = [
        Contender::new(OURS, "pad", || {
            ours.truncate(size);
            shapes.pad(black_box(&mut ours), MAX_DATAGRAM);
            answer(u64::from(ours.len() >= size))
        }),
        Contender::new(PLAIN, "pad", || {
            plain.truncate(size);
            black_box(&mut plain).resize(black_box(usual), 0);
            answer(u64::from(plain.len() >= size))
        }),
    ];
    series.row(label.to_owned(), size, &mut contenders, &compared(None), quoted(None, None))
}

fn made(profile: ShapingProfile) -> u64 {
    u64::from(black_box(profile).burst)
}

fn answer(number: u64) -> Answer {
    let mut answer = [0; 32];
    answer[..8].copy_from_slice(&number.to_le_bytes());
    answer
}
