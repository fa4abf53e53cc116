//! `end-to-end`: a consumer's fetch through the forwarder, on faces inside one process; and `pipeline`: the forwarder's
//! share of its cost.

use std::collections::HashMap;
use std::time::Duration;

use xylem_forward::{
    FaceId, FaceScope, Forwarder, ForwarderConfig, ForwarderSeed, IncomingPacket, OutgoingPacket,
};
use xylem_object::Packets;
use xylem_packet::{Data, Interest, InterestBuilder, Name};
use xylem_tree::TreeKind;

use super::objects::{
    Accepted, BLAKE3, BURST, CASES, ED25519, Each, EachConsumer, Publisher, SHA256, TreeConsumer,
};
use crate::race::{Contender, Timing};
use crate::report::{Bound, Figure, Heading, Ratio, Unit};
use crate::series::{Compare, Series};
use crate::{Error, input};

/// The document's object for this: 4 MB in 1,024 segments, 102 of them fetched.
const CASE: usize = 1;
/// Its figures, in microseconds.
const DOCUMENT: [(&str, f64); 3] =
    [("doc: each", 2_520.0), ("doc: SHA-256", 540.0), ("doc: BLAKE3", 571.0)];
const DOCUMENT_RATIO: &str = "doc: each / BLAKE3";
/// Its cost of an Interest with its Data, in microseconds: 130 µs over 102 segments.
const DOCUMENT_PAIR: f64 = 1.3;

/// A forwarder between a consumer and a producer that answers by name.
struct World {
    forwarder: Forwarder,
    consumer: FaceId,
    producer: FaceId,
    /// The producer's packets, and the index of each by name.
    packets: Vec<Vec<u8>>,
    by_name: HashMap<Vec<u8>, usize>,
    now: Duration,
    nonce: u32,
}

/// Numbers of the packets that answered a burst of Interests.
type Arrived = Vec<usize>;

impl World {
    fn new(publisher: &Publisher, packets: Vec<Vec<u8>>) -> Self {
        let mut forwarder =
            Forwarder::new(ForwarderConfig::default(), ForwarderSeed::from_random([1; 16]));
        let consumer = forwarder.add_face(FaceScope::Local);
        let producer = forwarder.add_face(FaceScope::Local);
        forwarder.add_route(publisher.prefix.as_ref(), producer, 1).expect("the first route");
        let name =
            |wire: &Vec<u8>| Data::decode(wire).expect("a Data packet").name().value().to_vec();
        let by_name = packets.iter().map(name).zip(0..).collect();
        Self { forwarder, consumer, producer, packets, by_name, now: Duration::ZERO, nonce: 0 }
    }

    /// Sends all Interests, then returns the Data that answer them: Interest and Data are encoded, forwarded and looked
    /// up; no Data is decoded.
    fn fetch(&mut self, names: &[Name], arrived: &mut Arrived) {
        let Self { forwarder, consumer, producer, packets, by_name, now, nonce } = self;
        *now += Duration::from_millis(1);
        let mut wire = Vec::with_capacity(256);
        let mut asked: Arrived = Vec::with_capacity(names.len());
        for name in names {
            wire.clear();
            *nonce = nonce.wrapping_add(1);
            InterestBuilder::new(name.as_ref())
                .nonce(nonce.to_be_bytes())
                .encode(&mut wire)
                .expect("a short name");
            let mut out = |to: FaceId, packet: OutgoingPacket<'_>| {
                debug_assert_eq!(to, *producer);
                let interest = Interest::decode(packet.packet).expect("an Interest");
                asked.extend(by_name.get(interest.name().value()));
            };
            forwarder
                .handle_packet(*now, *consumer, IncomingPacket::bare(&wire), &mut out)
                .expect("an Interest that is forwarded");
        }
        arrived.clear();
        for n in &asked {
            let mut out = |to: FaceId, packet: OutgoingPacket<'_>| {
                debug_assert_eq!((to, packet.packet.len()), (*consumer, packets[*n].len()));
                arrived.push(*n);
            };
            forwarder
                .handle_packet(*now, *producer, IncomingPacket::bare(&packets[*n]), &mut out)
                .expect("Data that was asked for");
        }
        let mut nothing = |_: FaceId, _: OutgoingPacket<'_>| {};
        forwarder.handle_timeout(*now, &mut nothing);
        assert_eq!(arrived.len(), names.len());
    }
}

fn names_of(world: &World, numbers: impl Iterator<Item = usize>) -> Vec<Name> {
    let name = |n: usize| Data::decode(&world.packets[n]).expect("a Data packet").name().to_name();
    numbers.map(name).collect()
}

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let compare = [
        Compare::speed(BLAKE3, ED25519, Some(Bound::AtLeast(8.0))),
        Compare::speed(BLAKE3, SHA256, None),
    ];
    let ratios = compare.iter().map(|compare| compare.name.clone());
    series.heading(Heading {
        table: "end-to-end".into(),
        title: "a fetch through the forwarder: Interests made, forwarded, answered by name, Data \
                forwarded, decoded and verified"
            .into(),
        unit: Unit::Microseconds,
        label: "object / segments, fetched".into(),
        figures: [ED25519, SHA256, BLAKE3]
            .into_iter()
            .chain(DOCUMENT.map(|(name, _)| name))
            .map(str::to_owned)
            .collect(),
        ratios: ratios.chain([DOCUMENT_RATIO.to_owned()]).collect(),
        notes: vec![
            "manifest and tile are fetched and verified in each run of a tree".into(),
            "32 Interests under way at a time; the producer's packets are made beforehand".into(),
        ],
    })?;
    let (case, publisher) = (&CASES[CASE], &Publisher::new());
    let content = input::bytes(case.bytes());
    let order = case.order();
    let segment = case.segment();
    let mut each = Each::default();
    publisher.each(segment, &content, &mut each);
    let mut world = World::new(publisher, (0..each.len()).map(|n| each.get(n).to_vec()).collect());
    let names = names_of(&world, order.iter().map(|i| *i as usize));
    let mut contenders = vec![Contender::new(ED25519, "fetch", move || {
        let mut consumer = EachConsumer::new(publisher, case.segments);
        let mut arrived = Arrived::new();
        for burst in names.chunks(BURST) {
            world.fetch(burst, &mut arrived);
            arrived.iter().for_each(|n| consumer.take(&world.packets[*n]));
        }
        consumer.accepted.answer()
    })];
    for (name, kind) in [(SHA256, TreeKind::Sha256), (BLAKE3, TreeKind::Blake3)] {
        let mut packets = Packets::default();
        publisher.tree(kind, segment, &content, &mut packets);
        let mut world = World::new(publisher, packets.iter().map(<[u8]>::to_vec).collect());
        let (segments, last) = (case.segments as usize, packets.len() - 1);
        let manifest = names_of(&world, [last].into_iter());
        let tiles = names_of(&world, segments..last);
        let names = names_of(&world, order.iter().map(|i| *i as usize));
        contenders.push(Contender::new(name, "fetch", move || {
            let mut arrived = Arrived::new();
            world.fetch(&manifest, &mut arrived);
            let mut consumer = TreeConsumer::new(publisher, &world.packets[arrived[0]]);
            world.fetch(&tiles, &mut arrived);
            arrived.iter().for_each(|n| consumer.tile(&world.packets[*n]));
            for burst in names.chunks(BURST) {
                world.fetch(burst, &mut arrived);
                consumer.burst(arrived.iter().map(|n| &world.packets[*n][..]));
            }
            consumer.accepted.answer()
        }));
    }
    let label = format!("{}, {}", case.what, case.fetched);
    let timings = series.race(&label, &mut contenders)?;
    let bytes = order.len() * segment.bytes();
    let mut figures = series.figures(&timings, bytes);
    figures.extend(DOCUMENT.map(|(name, value)| Figure::quoted(name, value)));
    let mut ratios: Vec<Ratio> = compare.iter().filter_map(|c| c.of(&timings)).collect();
    ratios.push(Ratio::new(DOCUMENT_RATIO, DOCUMENT[0].1, DOCUMENT[2].1, None));
    series.emit_row(label, bytes, figures, ratios)
}

const PAIR: &str = "a pair";
const DOCUMENT_COLUMN: &str = "doc: a pair";

/// Makes the second table.
pub(super) fn pipeline<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(Heading {
        table: "pipeline".into(),
        title: "an Interest and its Data through the forwarder".into(),
        unit: Unit::Microseconds,
        label: "what is done".into(),
        figures: [PAIR, DOCUMENT_COLUMN].map(str::to_owned).into(),
        ratios: vec!["µs".into()],
        notes: vec!["segments of 4 KiB, 32 Interests under way; nothing is verified".into()],
    })?;
    let (case, publisher) = (&CASES[CASE], &Publisher::new());
    let mut packets = Packets::default();
    publisher.tree(TreeKind::Blake3, case.segment(), &input::bytes(case.bytes()), &mut packets);
    for decodes in [false, true] {
        let mut world = World::new(publisher, packets.iter().map(<[u8]>::to_vec).collect());
        let names = names_of(&world, case.order().iter().map(|i| *i as usize));
        let mut fetch = Contender::new(PAIR, "pairs", || {
            let (mut arrived, mut accepted) = (Arrived::new(), Accepted::default());
            for burst in names.chunks(BURST) {
                world.fetch(burst, &mut arrived);
                for n in &arrived {
                    if decodes {
                        let data = Data::decode(&world.packets[*n]).expect("a Data packet");
                        accepted.add(*n as u64, data.content());
                    } else {
                        accepted.add(*n as u64, &[]);
                    }
                }
            }
            accepted.answer()
        });
        let label = match decodes {
            false => "Interest made, both forwarded, Data found by name",
            true => "the same, and Data decoded",
        };
        let timings = series.race(label, std::slice::from_mut(&mut fetch))?;
        let pairs = case.fetched as f64;
        let each = |t: &Timing| Timing { median: t.median / pairs, ..t.clone() };
        let timings: Vec<Timing> = timings.iter().map(each).collect();
        let mut figures = series.figures(&timings, case.segment().bytes());
        let microseconds = timings[0].median / 1_000.0;
        figures.push(Figure::quoted(DOCUMENT_COLUMN, DOCUMENT_PAIR));
        let wanted = (!decodes).then_some(Bound::AtMost(1.0));
        let ratio = Ratio::new("µs", microseconds, 1.0, wanted);
        series.emit_row(label.into(), case.segment().bytes(), figures, vec![ratio])?;
    }
    Ok(())
}
