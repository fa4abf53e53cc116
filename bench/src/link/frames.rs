//! `frames`: building a frame in the caller's buffer, against copying its bytes; and parsing.

use std::hint::black_box;

use xylem_link_internals::internals::{AckRanges, Frame, Frames, PACKET_OVERHEAD};

use super::rows::{OURS, PLAIN, compared, heading, quoted, ratio_name};
use crate::Error;
use crate::input;
use crate::race::{Contender, Timing};
use crate::report::{Bound, Figure, Heading, Ratio};
use crate::series::Series;

/// Frame sizes, the document's time to build them, and its goal.
const BUILDS: [(usize, f64, Option<f64>); 6] = [
    (64, 22.236, None),
    (128, 23.750, None),
    (256, 26.375, None),
    (512, 31.881, None),
    (1_024, 41.884, None),
    (1_456, 98.663, Some(200.0)),
];

/// Targets for a build of [`JUDGED`] bytes, and for every parse, in nanoseconds.
const WANTED_BUILD: f64 = 25.0;
const WANTED_PARSE: f64 = 5.0;
const JUDGED: usize = 1_456;

/// The document's parsers: the one that its programs use, and two that read the header alone.
const PARSERS: [&str; 3] = ["WRAITH 2.3.1", "its scalar", "its SIMD"];
/// Frame sizes, and the time of each of those parsers.
const PARSES: [(usize, [Option<f64>; 3]); 6] = [
    (64, [Some(6.941), Some(2.408), Some(2.417)]),
    (128, [Some(6.917), Some(2.409), Some(2.406)]),
    (256, [Some(6.914), None, None]),
    (512, [Some(6.891), Some(2.408), Some(2.406)]),
    (1_024, [Some(6.921), None, None]),
    (1_456, [Some(6.920), Some(2.412), Some(2.419)]),
];

/// The document's `frame_build/build_1456_bytes` and `frame_roundtrip/build_and_parse`.
const BUILD_ALLOCATED: f64 = 850.86;
const ROUNDTRIP: f64 = 877.65;

/// Frames of the document's batch, and the time of its other two parsers for one of them. Its 42 ns are for one frame,
/// since its throughput is 23.7 million frames a second.
const BATCH: usize = 100;
const BATCHED: [Option<f64>; 3] = [None, Some(42.157), Some(42.024)];

/// Frames in one run, so that the cost around them is small.
const TIMES: usize = 32;

fn built(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.write(&mut out);
    out
}

/// Parses every frame of `bytes` as a receiver does; returns a sum that depends on each, and the number of frames.
#[inline]
fn walk(bytes: &[u8]) -> (usize, usize) {
    let (mut sum, mut count) = (0, 0);
    for frame in Frames::new(bytes) {
        let Ok(frame) = frame else { break };
        count += 1;
        sum += match frame {
            Frame::Packet(packet) => packet.len(),
            Frame::StreamData { offset, piece, .. } => offset as usize + piece.len(),
            Frame::Ack(ack) => ack.ranges().map(|range| *range.start() as usize).sum(),
            Frame::Ping(token) => token as usize,
            Frame::StreamOpen { stream, purpose } => stream as usize + usize::from(purpose),
            other => {
                black_box(&other);
                1
            }
        };
    }
    (sum, count)
}

/// An answer that depends on all results, so that no work is optimized away.
fn answer(sum: usize, count: usize) -> [u8; 32] {
    let mut answer = [0; 32];
    answer[..8].copy_from_slice(&sum.to_le_bytes());
    answer[8..16].copy_from_slice(&count.to_le_bytes());
    answer
}

/// Makes both tables.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(Heading {
        ratios: vec![ratio_name(), NANOSECONDS.into()],
        ..heading(
            "frames",
            "one frame into a buffer",
            "operation",
            &[
                "The plain library of a build is a copy of the packet. Wanted: a build of 1,456 B in at \
                 most 25 ns.",
                "The document's frame carries a random padding and a 28-byte header; ours is a type and \
                 a length, and padding is the datagram's.",
            ],
        )
    })?;
    let bytes = input::bytes(1 << 16);
    for (size, build, goal) in BUILDS {
        builds(series, &bytes[..size - PACKET_OVERHEAD], build, goal)?;
    }
    roundtrip(series, &bytes[..1_456 - PACKET_OVERHEAD])?;
    series.heading(Heading {
        figures: [OURS].iter().chain(&PARSERS).map(ToString::to_string).collect(),
        ratios: vec![NANOSECONDS.into()],
        ..heading(
            "frames",
            "one frame out of a buffer",
            "operation",
            &[
                "Every check of ours is on: type, lengths, cut frames, ranges of acks. A parse copies \
                 nothing and has no plain library. Wanted: at most 5 ns a frame of any size and of each \
                 type that the document has.",
                "The document's scalar and SIMD parsers read the fields of a header and check nothing.",
            ],
        )
    })?;
    for (size, document) in PARSES {
        let datagram = built(&Frame::Packet(&bytes[..size - PACKET_OVERHEAD]));
        parses(series, format!("{size} B"), &datagram, 1, document)?;
    }
    types(series, &bytes)?;
    let mut batch = Vec::new();
    for _ in 0..BATCH {
        Frame::Packet(&bytes[..64]).write(&mut batch);
    }
    parses(series, format!("each of {BATCH} frames of 67 B"), &batch, BATCH, BATCHED)
}

/// The frame types of the document, and others that travel with data.
fn types<E>(series: &mut Series<'_, E>, bytes: &[u8]) -> Result<(), Error<E>> {
    let mut ranges = AckRanges::default();
    ranges.push(50..=100);
    let one = ranges.clone();
    for n in (0..9).rev() {
        ranges.push(5 * n..=5 * n + 2);
    }
    let ack = |ranges: &'static str| format!("type ack, {ranges}");
    let frames = [
        ("type data".into(), Some(Frame::Packet(&bytes[..1_453])), Some(6.917)),
        ("type stream data".into(), Some(stream_data(&bytes[..1_441])), None),
        (ack("one range"), one.ack(100, 0).map(Frame::Ack), Some(6.921)),
        (ack("ten ranges"), ranges.ack(100, 0).map(Frame::Ack), None),
        ("type ping".into(), Some(Frame::Ping(9)), Some(6.895)),
        ("type stream open".into(), Some(Frame::StreamOpen { stream: 2, purpose: 1 }), Some(6.910)),
    ];
    for (label, frame, document) in frames {
        let frame = frame.expect("the ranges lie apart, from the top");
        parses(series, label, &built(&frame), 1, [document, None, None])?;
    }
    Ok(())
}

fn stream_data(piece: &[u8]) -> Frame<'_> {
    Frame::StreamData { stream: 2, offset: 1 << 20, piece }
}

/// The name of a ratio that is the time itself.
const NANOSECONDS: &str = "ns";

fn judged(nanoseconds: f64, wanted: Option<f64>) -> Ratio {
    Ratio::new(NANOSECONDS, nanoseconds, 1.0, wanted.map(Bound::AtMost))
}

fn builds<E>(
    series: &mut Series<'_, E>,
    packet: &[u8],
    document: f64,
    goal: Option<f64>,
) -> Result<(), Error<E>> {
    let size = packet.len() + PACKET_OVERHEAD;
    let (mut ours, mut plain) = (vec![0; 2_048], vec![0; 2_048]);
    let mut contenders = [
        Contender::new(OURS, "build", || {
            let mut sum = 0;
            for _ in 0..TIMES {
                let written = Frame::Packet(black_box(packet)).write_to(black_box(&mut ours));
                sum += written.unwrap_or(0);
            }
            answer(sum, 1)
        }),
        Contender::new(PLAIN, "copy", || {
            let mut sum = 0;
            for _ in 0..TIMES {
                let packet = black_box(packet);
                black_box(&mut plain)[..packet.len()].copy_from_slice(packet);
                sum += packet.len();
            }
            answer(sum, 1)
        }),
    ];
    let label = format!("build {size} B");
    let timings = each(series.race(&label, &mut contenders)?, TIMES);
    let mut figures = series.figures(&timings, size);
    figures.extend(quoted(Some(document), goal));
    let mut ratios: Vec<Ratio> = compared(None).iter().filter_map(|c| c.of(&timings)).collect();
    ratios.push(judged(timings[0].median, (size == JUDGED).then_some(WANTED_BUILD)));
    series.emit_row(label, size, figures, ratios)
}

/// The times of one frame.
fn each(timings: Vec<Timing>, frames: usize) -> Vec<Timing> {
    let of = |t: Timing| Timing { median: t.median / frames as f64, ..t };
    timings.into_iter().map(of).collect()
}

/// Measures parsing. `frames` is the number of frames in the datagram; figures are for one frame.
fn parses<E>(
    series: &mut Series<'_, E>,
    label: String,
    datagram: &[u8],
    frames: usize,
    document: [Option<f64>; 3],
) -> Result<(), Error<E>> {
    let label = format!("parse {label}");
    let mut ours = [Contender::new(OURS, "parse", || {
        let (mut packets, mut count) = (0, 0);
        for _ in 0..TIMES {
            let (bytes, frames) = walk(black_box(datagram));
            packets += bytes;
            count += frames;
        }
        answer(packets, count)
    })];
    let timings = each(series.race(&label, &mut ours)?, frames * TIMES);
    let mut figures = series.figures(&timings, datagram.len());
    let quotes = PARSERS.iter().zip(document);
    figures.extend(quotes.filter_map(|(name, value)| Some(Figure::quoted(*name, value?))));
    let ratio = judged(timings[0].median, Some(WANTED_PARSE));
    series.emit_row(label, datagram.len(), figures, vec![ratio])
}

fn roundtrip<E>(series: &mut Series<'_, E>, packet: &[u8]) -> Result<(), Error<E>> {
    let size = packet.len() + PACKET_OVERHEAD;
    let (mut vec, mut buffer) = (Vec::new(), vec![0; 2_048]);
    let appended = Contender::new(OURS, "build", || {
        let mut sum = 0;
        for _ in 0..TIMES {
            vec.clear();
            Frame::Packet(black_box(packet)).write(&mut vec);
            sum += black_box(&vec).len();
        }
        answer(sum, 1)
    });
    let both = Contender::new(OURS, "build and parse", || {
        let (mut packets, mut count) = (0, 0);
        for _ in 0..TIMES {
            let written = Frame::Packet(black_box(packet)).write_to(black_box(&mut buffer));
            let (bytes, frames) = walk(black_box(&buffer[..written.unwrap_or(0)]));
            packets += bytes;
            count += frames;
        }
        answer(packets, count)
    });
    let rows = [
        (format!("build {size} B into a Vec"), appended, BUILD_ALLOCATED, Some(200.0)),
        (format!("build and parse {size} B"), both, ROUNDTRIP, None),
    ];
    for (label, contender, document, goal) in rows {
        let timings = each(series.race(&label, &mut [contender])?, TIMES);
        let mut figures = series.figures(&timings, size);
        figures.extend(quoted(Some(document), goal));
        series.emit_row(label, size, figures, Vec::new())?;
    }
    Ok(())
}
