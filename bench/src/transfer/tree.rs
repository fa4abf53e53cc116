//! `tree`: hashing, trees and proofs of a file's bytes, against the official BLAKE3 on the same bytes.

use std::hint::black_box;
use std::io::{BufWriter, Write, WriterPanicked};

use xylem_hash::tree::{ChainingValue, parent_cv, root_hash, root_of};
use xylem_tree::{
    Geometry, Outboard, OutboardBuilder, Recording, SegmentIndex, SegmentSize, TreeVerifier,
    segment_signature, tile_content, tile_signature,
};

use super::rows::{OURS, PLAIN, Quoted, heading, number, row};
use crate::Error;
use crate::input;
use crate::race::Contender;
use crate::series::Series;

/// The document's megabyte, and its chunk.
const MEGABYTE: usize = 1_000_000;
const CHUNK: usize = 256 << 10;
/// Sizes of first updates, in bytes.
const UPDATES: [(usize, f64); 4] =
    [(1_024, 21.425), (4_096, 74.909), (16_384, 202.55), (65_536, 1_169.0)];
/// Bytes that our hasher holds back, because they may be the last.
const HELD_BACK: usize = 16 << 10;
/// Megabytes through the incremental hasher.
const INCREMENTAL: [(usize, f64); 3] = [(1, 215_660.0), (10, 2_195_000.0), (100, 41_912_000.0)];
/// Megabytes of `tree_hash_from_data` or `tree_hashing_memory`, whichever is less.
const TREES: [(usize, f64); 3] = [(1, 190_160.0), (10, 1_901_000.0), (100, 28_595_000.0)];
const ROOTS: [(usize, f64); 6] = [
    (4, 192.34),
    (16, 920.79),
    (64, 3_778.0),
    (256, 15_421.0),
    (1_024, 61_801.0),
    (4_096, 245_740.0),
];
/// Bytes handed over at a time.
const PIECE: usize = 64 << 10;

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "tree",
        "hashing what is published and fetched, one thread",
        "operation",
        &[
            "The plain library is the official BLAKE3; of a Merkle root it is our own parents one by one. \
             Megabytes are of 10^6 bytes, as in the document.",
            "A first update is that of a new hasher. The document's copies into a buffer of 256 KiB and leaves the hashing to a later call \
             (75 GB/s is no hash's rate). Of 64 KiB ours hashes three quarters at once, and the bar is the official BLAKE3, which \
             does so too. The row below it does as the document's: a buffer of 256 KiB (std's BufWriter) before the hasher, here the \
             official one's the plain library.",
            "A tree of ours is the outboard with a node for each segment of 8 KiB, so that every segment \
             can be proven alone; the plain library's is a root alone, the document's one of chunks of \
             256 KiB, whose figures are the lesser of its two benchmarks.",
            "Verification with proofs: 32 segments, each with its Merkle proof, against the root; the \
             plain library and the document compare one hash of 256 KiB.",
        ],
    ))?;
    for (size, document) in UPDATES {
        let bytes = input::bytes(size);
        let mut contenders = [
            Contender::new(OURS, "update", || {
                let mut hasher = xylem_hash::Hasher::new();
                black_box(hasher.update(black_box(&bytes)));
                number(1)
            }),
            Contender::new(PLAIN, "update", || {
                let mut hasher = blake3::Hasher::new();
                black_box(hasher.update(black_box(&bytes)));
                number(1)
            }),
        ];
        let label = format!("first update, {}", input::size(size));
        let mut quoted = Quoted::of(document);
        if size > HELD_BACK {
            quoted = quoted.bound_by_the_host();
        }
        row(series, &label, 1, &mut contenders, quoted)?;
    }
    let (size, document) = UPDATES[UPDATES.len() - 1];
    kept(series, size, document)?;
    let longest = series.longest();
    let fits = |megabytes: &usize| megabytes * MEGABYTE <= longest;
    for (megabytes, document) in INCREMENTAL.into_iter().filter(|(m, _)| fits(m)) {
        incremental(series, megabytes, document)?;
    }
    for (leaves, document) in ROOTS {
        roots(series, leaves, document)?;
    }
    for (megabytes, document) in TREES.into_iter().filter(|(m, _)| fits(m)) {
        trees(series, megabytes, document)?;
    }
    verification(series)
}

/// A first update of bytes that are kept until a later call.
fn kept<E>(series: &mut Series<'_, E>, size: usize, document: f64) -> Result<(), Error<E>> {
    let bytes = input::bytes(size);
    // Destructured and not dropped, since dropping would hash the kept bytes.
    let keep =
        |writer: Result<Vec<u8>, WriterPanicked>| number(writer.map_or(0, |w| w.len() as u64));
    let mut contenders = [
        Contender::new(OURS, "keep", || {
            let mut hasher = xylem_hash::Hasher::new();
            let mut writer = BufWriter::with_capacity(CHUNK, &mut hasher);
            let written = writer.write_all(black_box(&bytes));
            keep(written.map_or_else(|_| Ok(Vec::new()), |()| black_box(writer).into_parts().1))
        }),
        Contender::new(PLAIN, "keep", || {
            let mut hasher = blake3::Hasher::new();
            let mut writer = BufWriter::with_capacity(CHUNK, &mut hasher);
            let written = writer.write_all(black_box(&bytes));
            keep(written.map_or_else(|_| Ok(Vec::new()), |()| black_box(writer).into_parts().1))
        }),
    ];
    let label = format!("first update, {}, kept", input::size(size));
    row(series, &label, 1, &mut contenders, Quoted::of(document))
}

fn incremental<E>(
    series: &mut Series<'_, E>,
    megabytes: usize,
    document: f64,
) -> Result<(), Error<E>> {
    let bytes = input::bytes(megabytes * MEGABYTE);
    let mut contenders = [
        Contender::new(OURS, "hash", || {
            let mut hasher = xylem_hash::Hasher::new();
            for piece in bytes.chunks(PIECE) {
                hasher.update(piece);
            }
            *hasher.finalize().as_bytes()
        }),
        Contender::new(PLAIN, "hash", || {
            let mut hasher = blake3::Hasher::new();
            for piece in bytes.chunks(PIECE) {
                hasher.update(piece);
            }
            *hasher.finalize().as_bytes()
        }),
    ];
    let label = format!("hash {megabytes} MB by 64 KiB");
    row(series, &label, 1, &mut contenders, Quoted::of(document))
}

/// The root over `leaves` values; ours level by level in parallel lanes, the plain way one by one.
fn roots<E>(series: &mut Series<'_, E>, leaves: usize, document: f64) -> Result<(), Error<E>> {
    let bytes = input::bytes(32 * leaves);
    let value = |bytes: &[u8]| ChainingValue::from_bytes(bytes.try_into().expect("32 bytes"));
    let values: Vec<ChainingValue> = bytes.chunks_exact(32).map(value).collect();
    let mut contenders = [
        Contender::new(OURS, "root", || {
            *root_of(black_box(&values)).expect("there are two or more").as_bytes()
        }),
        Contender::new(PLAIN, "root", || {
            let mut level = black_box(&values).clone();
            while level.len() > 2 {
                level = level.chunks_exact(2).map(|pair| parent_cv(&pair[0], &pair[1])).collect();
            }
            *root_hash(&level[0], &level[1]).as_bytes()
        }),
    ];
    let label = format!("Merkle root of {} leaves", input::thousands(leaves));
    row(series, &label, 1, &mut contenders, Quoted::of(document))
}

fn trees<E>(series: &mut Series<'_, E>, megabytes: usize, document: f64) -> Result<(), Error<E>> {
    let bytes = input::bytes(megabytes * MEGABYTE);
    let geometry = Geometry::new(bytes.len() as u64, SegmentSize::DEFAULT);
    let mut contenders = [
        Contender::new(OURS, "hash", || {
            let mut builder = OutboardBuilder::new(geometry, |_, nodes: &[u8]| {
                black_box(nodes);
                Ok::<(), std::convert::Infallible>(())
            });
            builder.update(black_box(&bytes)).expect("as many bytes as promised");
            *builder.finish().expect("all bytes came").as_bytes()
        }),
        Contender::new(PLAIN, "hash", || *blake3::hash(black_box(&bytes)).as_bytes()),
    ];
    let label = format!("tree of {megabytes} MB in memory");
    row(series, &label, 1, &mut contenders, Quoted::of(document))
}

fn verification<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let document = Quoted::of(49_128.0);
    let chunk = input::bytes(CHUNK);
    let expected = xylem_hash::hash(&chunk);
    let same = |equal: bool| number(u64::from(equal));
    let mut contenders = [
        Contender::new(OURS, "verify", || same(xylem_hash::hash(black_box(&chunk)) == expected)),
        Contender::new(PLAIN, "verify", || {
            same(blake3::hash(black_box(&chunk)) == blake3::Hash::from(*expected.as_bytes()))
        }),
    ];
    row(series, "verify 256 KiB by one hash", 1, &mut contenders, document)?;

    // The middle of a file of 4 MiB, its tiles known.
    let file = input::bytes(4 << 20);
    let outboard = Outboard::of(&file, SegmentSize::DEFAULT);
    let geometry = *outboard.geometry();
    let segments: Vec<(SegmentIndex, &[u8], Vec<u8>)> =
        (256..256 + (CHUNK / 8_192) as u64).map(|i| segment(&outboard, &file, i)).collect();
    let mut fresh = TreeVerifier::new(geometry, outboard.root());
    fresh.set_recording(Recording::Off);
    let mut tile = segments.first().and_then(|(i, ..)| geometry.tile_of_segment(*i));
    let mut tiles = Vec::new();
    while let Some(next) = tile {
        tiles.push(next);
        tile = geometry.tile_above(next);
    }
    for tile in tiles.into_iter().rev() {
        let (mut content, mut proof) = (Vec::new(), Vec::new());
        let read = "the outboard is whole";
        tile_content(&geometry, tile, &mut outboard.as_bytes(), &mut content).expect(read);
        tile_signature(&geometry, tile, &mut outboard.as_bytes(), &mut proof).expect(read);
        fresh.tile(tile, &content, &proof).expect("what is right passes");
    }
    let mut out = Vec::new();
    let mut contenders = [
        Contender::new(OURS, "verify", || {
            let mut verifier = fresh.fork();
            out.clear();
            let batch = segments.iter().map(|(i, bytes, proof)| (*i, *bytes, proof.as_slice()));
            verifier.segments(batch, &mut out);
            same(out.len() == segments.len() && out.iter().all(Result::is_ok))
        }),
        Contender::new(PLAIN, "verify", || {
            same(blake3::hash(black_box(&chunk)) == blake3::Hash::from(*expected.as_bytes()))
        }),
    ];
    let label = "verify 256 KiB by 32 proofs";
    row(series, label, 1, &mut contenders, document)
}

fn segment<'a>(outboard: &Outboard, file: &'a [u8], i: u64) -> (SegmentIndex, &'a [u8], Vec<u8>) {
    let index = SegmentIndex(i);
    let range = outboard.geometry().segment_range(index);
    let mut proof = Vec::new();
    segment_signature(outboard.geometry(), index, &mut outboard.as_bytes(), &mut proof)
        .expect("the outboard is whole");
    (index, &file[range.start as usize..range.end as usize], proof)
}
