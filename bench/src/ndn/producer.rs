//! `producer`: makes an object's packets.

use xylem_object::Packets;
use xylem_tree::TreeKind;

use super::objects::{BLAKE3, CASES, Case, ED25519, Each, Publisher, SHA256, contents};
use crate::Error;
use crate::race::{Answer, Contender};
use crate::report::{Bound, Figure, Heading, Ratio, Unit};
use crate::series::{Compare, Series};

/// The document's columns.
pub(super) const DOCUMENT: [&str; 3] = ["doc: each", "doc: SHA-256", "doc: BLAKE3"];
pub(super) const DOCUMENT_EACH: &str = "doc: each / BLAKE3";
pub(super) const DOCUMENT_SHA256: &str = "doc: SHA-256 / BLAKE3";

/// The document's figures and ratios of a row.
pub(super) fn quoted(figures: [f64; 3]) -> (Vec<Figure>, Vec<Ratio>) {
    let [each, sha256, blake3] = figures;
    let quoted = DOCUMENT.iter().zip(figures).map(|(name, value)| Figure::quoted(*name, value));
    let ratios = vec![
        Ratio::new(DOCUMENT_EACH, each, blake3, None),
        Ratio::new(DOCUMENT_SHA256, sha256, blake3, None),
    ];
    (quoted.collect(), ratios)
}

/// The heading of this table and of the consumer's.
pub(super) fn heading(table: &str, title: &str, notes: &[&str]) -> Heading {
    let figures = [ED25519, SHA256, BLAKE3].into_iter().chain(DOCUMENT);
    let ratios = compare(None).into_iter().map(|compare| compare.name);
    Heading {
        table: table.into(),
        title: title.into(),
        unit: Unit::Microseconds,
        label: "object / segments".into(),
        figures: figures.map(str::to_owned).collect(),
        ratios: ratios.chain([DOCUMENT_EACH, DOCUMENT_SHA256].map(str::to_owned)).collect(),
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    }
}

pub(super) fn compare(over_sha256: Option<f64>) -> Vec<Compare> {
    vec![
        Compare::speed(BLAKE3, ED25519, Some(Bound::AtLeast(10.0))),
        Compare::speed(BLAKE3, SHA256, over_sha256.map(Bound::AtLeast)),
    ]
}

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "producer",
        "all packets of an object, made and encoded, the manifest's signature included",
        &[
            "the document's figures are of another machine: compare ratios",
            "buffers are reused from run to run on every side",
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
    let segment = case.segment();
    let mut each = Each::default();
    let mut contenders = vec![Contender::new(ED25519, "each", move || {
        publisher.each(segment, content, &mut each);
        tail(each.last())
    })];
    for (name, kind) in [(SHA256, TreeKind::Sha256), (BLAKE3, TreeKind::Blake3)] {
        let mut packets = Packets::default();
        contenders.push(Contender::new(name, name, move || {
            publisher.tree(kind, segment, content, &mut packets);
            packets.iter().next_back().map_or([0; 32], tail)
        }));
    }
    let wanted = if case.log2_chunks == 3 { 2.0 } else { 1.3 };
    let timings = series.race(case.what, &mut contenders)?;
    let mut figures = series.figures(&timings, content.len());
    let mut ratios: Vec<Ratio> =
        compare(Some(wanted)).iter().filter_map(|compare| compare.of(&timings)).collect();
    let (document, document_ratios) = quoted(case.producer);
    figures.extend(document);
    ratios.extend(document_ratios);
    series.emit_row(case.what.to_owned(), content.len(), figures, ratios)
}

/// The last bytes of a packet, which are of its signature.
fn tail(packet: &[u8]) -> Answer {
    packet.last_chunk().copied().unwrap_or_default()
}
