//! `frames`: building into a caller's buffer and parsing, against copying the bytes of the frame.

use std::hint::black_box;

use xylem_link::frame::{Frame, Frames, PACKET_OVERHEAD};

use super::{OURS, PLAIN, compared, heading, quoted};
use crate::Error;
use crate::input;
use crate::race::Contender;
use crate::series::Series;

/// Frame sizes, what the document's build and parse of them take, and its goal for the build.
const SIZES: [(usize, f64, f64, Option<f64>); 6] = [
    (64, 22.236, 6.941, None),
    (128, 23.750, 6.917, None),
    (256, 26.375, 6.914, None),
    (512, 31.881, 6.891, None),
    (1_024, 41.884, 6.921, None),
    (1_456, 98.663, 6.927, Some(200.0)),
];

/// The document's `frame_build/build_1456_bytes` and `frame_roundtrip/build_and_parse`.
const BUILD_ALLOCATED: f64 = 850.86;
const ROUNDTRIP: f64 = 877.65;

/// Frames of the document's batch.
const BATCH: usize = 100;

fn built(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.write(&mut out);
    out
}

/// Looks at every frame of `bytes`; the bytes of packets and how many frames there are.
fn walk(bytes: &[u8]) -> (usize, usize) {
    let (mut packets, mut count) = (0, 0);
    for frame in Frames::new(bytes) {
        let Ok(frame) = frame else { break };
        count += 1;
        match frame {
            Frame::Packet(packet) => packets += packet.len(),
            other => {
                black_box(other);
            }
        }
    }
    (packets, count)
}

fn answer((packets, count): (usize, usize)) -> [u8; 32] {
    let mut answer = [0; 32];
    answer[..8].copy_from_slice(&packets.to_le_bytes());
    answer[8..16].copy_from_slice(&count.to_le_bytes());
    answer
}

/// Makes the table.
pub fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "frames",
        "one frame into a buffer, and out of it",
        "operation",
        &[
            "The plain library of a build is a copy of the packet; a parse copies nothing and has none.",
            "Every check of the parser is on: type, lengths, cut frames. Wanted: a build of 1,456 B in \
             at most 25 ns, a parse in at most 5.",
            "The document's frame carries a random padding and a 28-byte header; ours is a type and a \
             length, and padding is the datagram's.",
        ],
    ))?;
    let bytes = input::bytes(1 << 16);
    for (size, build, _, goal) in SIZES {
        builds(series, &bytes[..size - PACKET_OVERHEAD], build, goal)?;
    }
    for (size, _, parse, _) in SIZES {
        let datagram = built(&Frame::Packet(&bytes[..size - PACKET_OVERHEAD]));
        parses(series, format!("parse {size} B"), &datagram, Some(parse))?;
    }
    roundtrip(series, &bytes[..1_456 - PACKET_OVERHEAD])?;
    let types = [
        ("data", Frame::Packet(&bytes[..1_453]), 6.917),
        ("ack", Frame::EpochAck(9), 6.921),
        ("ping", Frame::Ping(9), 6.895),
    ];
    for (name, frame, document) in types {
        parses(series, format!("parse type {name}"), &built(&frame), Some(document))?;
    }
    let mut batch = Vec::new();
    for _ in 0..BATCH {
        Frame::Packet(&bytes[..64]).write(&mut batch);
    }
    // The document's 42 ns are of one frame: its throughput says 23.7 million frames a second.
    parses(series, format!("parse {BATCH} frames of 67 B"), &batch, Some(42.157 * BATCH as f64))
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
            let written = Frame::Packet(black_box(packet)).write_to(black_box(&mut ours));
            answer((written.unwrap_or(0), 1))
        }),
        Contender::new(PLAIN, "copy", || {
            black_box(&mut plain)[..packet.len()].copy_from_slice(black_box(packet));
            answer((packet.len(), 1))
        }),
    ];
    let quoted = quoted(Some(document), goal);
    series.row(format!("build {size} B"), size, &mut contenders, &compared(None), quoted)
}

fn parses<E>(
    series: &mut Series<'_, E>,
    label: String,
    datagram: &[u8],
    document: Option<f64>,
) -> Result<(), Error<E>> {
    let ours = Contender::new(OURS, "parse", || answer(walk(black_box(datagram))));
    series.row(label, datagram.len(), &mut [ours], &[], quoted(document, None))
}

fn roundtrip<E>(series: &mut Series<'_, E>, packet: &[u8]) -> Result<(), Error<E>> {
    let size = packet.len() + PACKET_OVERHEAD;
    let (mut vec, mut buffer) = (Vec::new(), vec![0; 2_048]);
    let appended = Contender::new(OURS, "build", || {
        vec.clear();
        Frame::Packet(black_box(packet)).write(&mut vec);
        answer((vec.len(), 1))
    });
    let label = format!("build {size} B into a Vec");
    series.row(label, size, &mut [appended], &[], quoted(Some(BUILD_ALLOCATED), Some(200.0)))?;
    let both = Contender::new(OURS, "build and parse", || {
        let written = Frame::Packet(black_box(packet)).write_to(black_box(&mut buffer));
        answer(walk(black_box(&buffer[..written.unwrap_or(0)])))
    });
    let label = format!("build and parse {size} B");
    series.row(label, size, &mut [both], &[], quoted(Some(ROUNDTRIP), None))
}
