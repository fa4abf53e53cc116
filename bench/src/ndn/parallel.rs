//! `parallel`: verifies all segments of an object by one thread and by two.

use std::ops::Range;

use xylem_object::Packets;
use xylem_tree::TreeKind;

use super::helper::Helper;
use super::objects::{BLAKE3, BURST, CASES, Case, Publisher, SHA256, TreeConsumer, contents};
use crate::Error;
use crate::race::Contender;
use crate::report::{Absent, Bound, Heading, Unit};
use crate::series::{Compare, Series};

const ONE: &str = "one thread";
const TWO: &str = "two threads";

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        let [table, what, why] =
            ["parallel", "every row", "there is one core only"].map(str::to_owned);
        return series.absent(Absent { table, what, why });
    }
    let compare = compare();
    series.heading(Heading {
        table: "parallel".into(),
        title: "all segments of an object, decoded and verified".into(),
        unit: Unit::Microseconds,
        label: "object / segments".into(),
        figures: [ONE, TWO].map(str::to_owned).into(),
        ratios: compare.iter().map(|compare| compare.name.clone()).collect(),
        notes: vec![
            "manifest and tile are verified once, before; each thread starts from what they prove \
             and takes half of the segments, 32 at a time; the two share nothing"
                .into(),
            "the second thread is awake when it is asked; any other program on its core shows"
                .into(),
        ],
    })?;
    let publisher = &Publisher::new();
    let all = contents(series.longest());
    for case in CASES.iter().filter(|case| case.bytes() <= all.len()) {
        for (name, kind) in [(BLAKE3, TreeKind::Blake3), (SHA256, TreeKind::Sha256)] {
            let mut packets = Packets::default();
            publisher.tree(kind, case.segment(), &all[..case.bytes()], &mut packets);
            let label = format!("{}, {name}", case.what);
            row(series, label, case, publisher, &packets)?;
        }
    }
    Ok(())
}

fn compare() -> [Compare; 1] {
    [Compare::speed(TWO, ONE, Some(Bound::AtLeast(1.85)))]
}

fn row<E>(
    series: &mut Series<'_, E>,
    label: String,
    case: &Case,
    publisher: &Publisher,
    packets: &Packets,
) -> Result<(), Error<E>> {
    let segments = case.segments as usize;
    let packet = |n: usize| packets.get(n).unwrap_or_default();
    let mut ready = TreeConsumer::new(publisher, packet(packets.len() - 1));
    (segments..packets.len() - 1).for_each(|n| ready.tile(packet(n)));
    let part = |range: Range<usize>| {
        let mut consumer = ready.fork();
        for first in range.clone().step_by(BURST) {
            consumer.burst((first..range.end.min(first + BURST)).map(packet));
        }
        consumer
    };
    let one = Contender::new(ONE, "all", || part(0..segments).accepted.answer());
    Helper::beside(
        || part(segments / 2..segments),
        |helper| {
            let two = Contender::new(TWO, "all", || {
                let (mut first, second) = helper.join(|| part(0..segments / 2));
                first.accepted.join(second.accepted);
                first.accepted.answer()
            });
            series.row(label, case.bytes(), &mut [one, two], &compare(), Vec::new())
        },
    )
}
