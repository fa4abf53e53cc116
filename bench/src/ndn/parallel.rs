//! `parallel`: all segments of an object, verified by one thread and by two.

use xylem_object::Packets;
use xylem_tree::TreeKind;

use super::objects::{BLAKE3, BURST, CASES, Publisher, SHA256, TreeConsumer, contents};
use crate::Error;
use crate::race::Contender;
use crate::report::{Absent, Bound, Heading, Unit};
use crate::series::{Compare, Series};

const ONE: &str = "one thread";
const TWO: &str = "two threads";

/// Makes the table.
pub fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build();
    let (2.., Ok(pool)) = (cores, pool) else {
        let [table, what, why] =
            ["parallel", "every row", "there is one core only"].map(str::to_owned);
        return series.absent(Absent { table, what, why });
    };
    let compare = [Compare::speed(TWO, ONE, Some(Bound::AtLeast(1.85)))];
    series.heading(Heading {
        table: "parallel".into(),
        title: "all segments of an object, decoded and verified".into(),
        unit: Unit::Microseconds,
        label: "object / segments".into(),
        figures: [ONE, TWO].map(str::to_owned).into(),
        ratios: compare.iter().map(|compare| compare.name.clone()).collect(),
        notes: vec![
            "manifest and tile are verified once, before; each thread starts from what they prove \
             and takes half of the segments, 32 at a time"
                .into(),
        ],
    })?;
    let publisher = &Publisher::new();
    let all = contents(series.longest());
    for case in CASES.iter().filter(|case| case.bytes() <= all.len()) {
        for (name, kind) in [(BLAKE3, TreeKind::Blake3), (SHA256, TreeKind::Sha256)] {
            let mut packets = Packets::default();
            publisher.tree(kind, case.segment(), &all[..case.bytes()], &mut packets);
            let packets = &packets;
            let segments = case.segments as usize;
            let mut ready =
                TreeConsumer::new(publisher, packets.get(packets.len() - 1).unwrap_or_default());
            (segments..packets.len() - 1)
                .for_each(|n| ready.tile(packets.get(n).unwrap_or_default()));
            let ready = &ready;
            let part = |range: std::ops::Range<usize>| {
                let mut consumer = ready.fork();
                let numbers: Vec<usize> = range.collect();
                for burst in numbers.chunks(BURST) {
                    consumer.burst(burst.iter().map(|n| packets.get(*n).unwrap_or_default()));
                }
                consumer
            };
            let one = Contender::new(ONE, "all", || part(0..segments).accepted.answer());
            let two = Contender::new(TWO, "all", || {
                let halves =
                    || rayon_core::join(|| part(0..segments / 2), || part(segments / 2..segments));
                let (mut first, mut second) = pool.install(halves);
                first.accepted.join(second.accepted);
                assert!(first.verifier.absorb(&mut second.verifier), "of the same object");
                first.accepted.answer()
            });
            let label = format!("{}, {name}", case.what);
            series.row(label, case.bytes(), &mut [one, two], &compare, Vec::new())?;
        }
    }
    Ok(())
}
