//! `pieces`: the set of missing pieces, against a hash set of their numbers.

use std::collections::HashSet;
use std::hint::black_box;

use xylem_tree::SegmentSet;

use super::rows::{OURS, PLAIN, Quoted, heading, number, row};
use crate::Error;
use crate::input;
use crate::race::Contender;
use crate::series::Series;

/// The document's session: 10,000 chunks.
const PIECES: u64 = 10_000;
/// Percentage of pieces present, and the document's time for the list of missing ones: the lesser of its two benchmarks
/// (`wraith-core`, `wraith-files`).
const MISSING: [(u64, f64); 6] =
    [(0, 12_200.0), (50, 7_300.0), (90, 1_340.0), (95, 841.20), (99, 395.59), (100, 3.538)];
const COUNTS: [(u64, f64); 3] = [(0, 0.414_87), (50, 0.414_75), (99, 0.414_74)];
/// Operations in one run, so that the cost around them is small.
const TIMES: u64 = 64;
/// Coprime to the lengths: a walk by this stride visits all pieces, out of order.
const STRIDE: u64 = 7_919;

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "pieces",
        "the set of missing pieces",
        "operation, of 10,000 pieces",
        &[
            "Ours is a bitmap with summary levels; the plain library is std's HashSet of piece numbers, \
             the document's structure with std's hash. What is missing lies scattered.",
            "A list is of the numbers of what is missing, in ascending order of ours, in any of the plain library's. A million pieces take 130,056 bytes here; a transfer keeps two such sets an object.",
            "A mark of ours takes the piece out, and a share of putting all back for the next run.",
        ],
    ))?;
    for (percent, document) in MISSING {
        listing(series, percent, document)?;
    }
    for (percent, document) in COUNTS {
        let (ours, plain) = sets(PIECES, percent);
        let mut contenders = [
            Contender::new(OURS, "count", || {
                number((0..TIMES).map(|_| black_box(&ours).count()).sum())
            }),
            Contender::new(PLAIN, "count", || {
                number((0..TIMES).map(|_| black_box(&plain).len() as u64).sum())
            }),
        ];
        let label = format!("count, {percent} % there");
        row(series, &label, TIMES as usize, &mut contenders, Quoted::of(document))?;
    }
    lookups(series)?;
    marks(series)?;
    next(series)?;
    create(series)
}

/// Piece numbers out of order.
fn scattered(pieces: u64) -> impl Iterator<Item = u64> {
    (0..pieces).map(move |i| i * STRIDE % pieces)
}

/// The sets of missing pieces when this percentage is present.
fn sets(pieces: u64, percent: u64) -> (SegmentSet, HashSet<u64>) {
    let mut ours = SegmentSet::new(pieces);
    ours.insert_range(0..pieces);
    scattered(pieces).take((pieces * percent / 100) as usize).for_each(|i| {
        ours.remove(i);
    });
    let plain = ours.iter().collect();
    (ours, plain)
}

fn listing<E>(series: &mut Series<'_, E>, percent: u64, document: f64) -> Result<(), Error<E>> {
    let (ours, plain) = sets(PIECES, percent);
    let (mut ours_out, mut plain_out) = (Vec::new(), Vec::new());
    let sum = |list: &[u64]| number(list.iter().fold(0, |sum, i| sum ^ i));
    let mut contenders = [
        Contender::new(OURS, "list", || {
            ours_out.clear();
            black_box(&ours).list(&mut ours_out);
            sum(&ours_out)
        }),
        Contender::new(PLAIN, "list", || {
            plain_out.clear();
            plain_out.extend(black_box(&plain).iter());
            sum(&plain_out)
        }),
    ];
    let label = format!("list, {percent} % there");
    row(series, &label, 1, &mut contenders, Quoted::of(document))
}

fn lookups<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let (ours, plain) = sets(PIECES, 50);
    let there = scattered(PIECES).take(TIMES as usize).collect::<Vec<_>>();
    let missing = scattered(PIECES).skip(PIECES as usize / 2).take(TIMES as usize).collect();
    let rows = [("missing", missing, 13.197), ("there", there, 8.562)];
    for (what, numbers, document) in rows {
        let numbers: &[u64] = &numbers;
        let mut contenders = [
            Contender::new(OURS, "lookup", || {
                let set = black_box(&ours);
                number(black_box(numbers).iter().map(|i| u64::from(set.contains(*i))).sum())
            }),
            Contender::new(PLAIN, "lookup", || {
                let set = black_box(&plain);
                number(black_box(numbers).iter().map(|i| u64::from(set.contains(i))).sum())
            }),
        ];
        let label = format!("look one up that is {what}");
        row(series, &label, numbers.len(), &mut contenders, Quoted::of(document))?;
    }
    Ok(())
}

fn marks<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    for (label, count, times, document) in
        [("mark one", 1_000, 1_000, 483.27), ("mark 100", 100, 1, 7_200.0)]
    {
        let numbers: Vec<u64> = scattered(PIECES).take(count).collect();
        let (mut ours, mut plain) = sets(PIECES, 0);
        let mut contenders = [
            Contender::new(OURS, "mark", || {
                let marked = numbers.iter().filter(|i| ours.remove(**i)).count();
                ours.insert_range(0..PIECES);
                number(marked as u64)
            }),
            Contender::new(PLAIN, "mark", || {
                let marked = numbers.iter().filter(|i| plain.remove(*i)).count();
                plain.extend(&numbers);
                number(marked as u64)
            }),
        ];
        row(series, label, times, &mut contenders, Quoted::of(document))?;
    }
    Ok(())
}

/// Removes the next missing piece from the lowest on, as asking does.
fn next<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let goal = Quoted::with_goal(363_770.0, 5_000.0);
    for (pieces, percent) in [(PIECES, 0), (PIECES, 99), (1_000_000, 50), (1_000_000, 99)] {
        let (whole, _) = sets(pieces, percent);
        let mut left = whole.clone();
        let mut contenders = [Contender::new(OURS, "next", || {
            let mut sum = 0;
            for _ in 0..TIMES {
                let Some(next) = black_box(&left).next(0) else {
                    left.clone_from(&whole);
                    continue;
                };
                left.remove(next);
                sum += next;
            }
            number(sum)
        })];
        let label = format!("next of {}, {percent} % there", input::thousands(pieces as usize));
        row(series, &label, TIMES as usize, &mut contenders, goal)?;
    }
    Ok(())
}

fn create<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    for pieces in [100_u64, 1_000, 10_000, 100_000, 1_000_000] {
        let mut contenders = [
            Contender::new(OURS, "create", || {
                let mut set = SegmentSet::new(black_box(pieces));
                set.insert_range(0..pieces);
                number(black_box(&set).count())
            }),
            Contender::new(PLAIN, "create", || {
                let set: HashSet<u64> = (0..black_box(pieces)).collect();
                number(black_box(&set).len() as u64)
            }),
        ];
        let label = format!("a set of {} made", input::thousands(pieces as usize));
        row(series, &label, 1, &mut contenders, Quoted::NOTHING)?;
    }
    Ok(())
}
