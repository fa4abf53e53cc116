//! `consumer`: decodes and verifies a tenth of an object's segments, out of order.

use xylem_object::Packets;
use xylem_tree::TreeKind;

use super::objects::{
    BLAKE3, BURST, CASES, Case, ED25519, Each, EachConsumer, Publisher, SHA256, TreeConsumer,
    contents,
};
use super::producer::{compare, heading, quoted};
use crate::Error;
use crate::race::Contender;
use crate::report::Ratio;
use crate::series::Series;

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "consumer",
        "a tenth of the segments (25, 102, 204) out of order, decoded and verified",
        &[
            "of a tree, the manifest with its Ed25519 signature and the tile are verified in each run",
            "segments are taken in 32 at a time",
        ],
    ))?;
    let publisher = Publisher::new();
    let all = contents(series.longest());
    for case in CASES.iter().filter(|case| case.bytes() <= all.len()) {
        row(series, case, &publisher, &all[..case.bytes()])?;
    }
    Ok(())
}

fn row<E>(
    series: &mut Series<'_, E>,
    case: &Case,
    publisher: &Publisher,
    content: &[u8],
) -> Result<(), Error<E>> {
    let order = &case.order();
    let mut each = Each::default();
    publisher.each(case.segment(), content, &mut each);
    let mut contenders = vec![Contender::new(ED25519, "consume", move || {
        let mut consumer = EachConsumer::new(publisher, case.segments);
        order.iter().for_each(|i| consumer.take(each.get(*i as usize)));
        consumer.accepted.answer()
    })];
    for (name, kind) in [(SHA256, TreeKind::Sha256), (BLAKE3, TreeKind::Blake3)] {
        let mut packets = Packets::default();
        publisher.tree(kind, case.segment(), content, &mut packets);
        contenders.push(Contender::new(name, "consume", move || {
            let packet = |n: usize| packets.get(n).unwrap_or_default();
            let mut consumer = TreeConsumer::new(publisher, packet(packets.len() - 1));
            (case.segments as usize..packets.len() - 1).for_each(|n| consumer.tile(packet(n)));
            for burst in order.chunks(BURST) {
                consumer.burst(burst.iter().map(|i| packet(*i as usize)));
            }
            consumer.accepted.answer()
        }));
    }
    let bytes = order.len() * case.segment().bytes();
    let timings = series.race(case.what, &mut contenders)?;
    let mut figures = series.figures(&timings, bytes);
    let mut ratios: Vec<Ratio> =
        compare(None).iter().filter_map(|compare| compare.of(&timings)).collect();
    let (document, document_ratios) = quoted(case.consumer);
    figures.extend(document);
    ratios.extend(document_ratios);
    series.emit_row(case.what.to_owned(), bytes, figures, ratios)
}
