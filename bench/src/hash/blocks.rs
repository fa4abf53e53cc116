//! `blocks`: a 4 KiB block, laid out as in the BTRFS evaluation of 2020 ("BLAKE3 vs BLAKE2 for BTRFS"): one hash a row,
//! with cycles a block and the ratios to BLAKE3 and to BLAKE2b.

use std::hint::black_box;

use super::batches::messages;
use super::works::{Work, ours, ring_one_by_one, sha2_one_by_one, theirs};
use crate::Error;
use crate::clock;
use crate::input;
use crate::machine::judged_backends;
use crate::race::{Answer, Contender, Timing};
use crate::report::{Bound, Figure, Heading, Ratio, Unit};
use crate::series::{Compare, Series};

const BLOCK: usize = 4_096;
/// Number of blocks in a batch.
const BATCH: usize = 64;

const CYCLES: &str = "cycles a block";
const DOCUMENT: &str = "document";
const TO_BLAKE3: &str = "time / BLAKE3 (official)";
const TO_BLAKE2B: &str = "time / BLAKE2b (AVX2)";
const DOCUMENT_TO_BLAKE2B: &str = "document's";

const OFFICIAL: &str = "BLAKE3 (official)";
const BLAKE2B: &str = "BLAKE2b (AVX2)";
const BLAKE2B_PORTABLE: &str = "BLAKE2b (portable)";

/// The document's rows with a counterpart here: cycles for a block of 4 KiB, over ten million runs.
const QUOTED: [(&str, f64); 3] =
    [(OFFICIAL, 11_126.0), (BLAKE2B, 12_700.0), (BLAKE2B_PORTABLE, 22_505.0)];

fn padded(bytes: &[u8]) -> Answer {
    let mut answer = [0; 32];
    answer[..bytes.len()].copy_from_slice(bytes);
    answer
}

/// A contender, and the number of blocks in one of its runs.
type Raced<'a> = (Contender<'a>, usize);

/// Checksums and hashes of other libraries, one block after the other.
fn others(block: &[u8]) -> Vec<Contender<'_>> {
    vec![
        Contender::new("CRC32C", "CRC32C", move || {
            padded(&crc32c::crc32c(black_box(block)).to_le_bytes())
        }),
        Contender::new("XXH3 (64 bits)", "XXH3", move || {
            padded(&twox_hash::XxHash3_64::oneshot(black_box(block)).to_le_bytes())
        }),
        Contender::new(BLAKE2B_PORTABLE, "BLAKE2b", move || {
            use blake2::Digest;
            blake2::Blake2b::<blake2::digest::consts::U32>::digest(black_box(block)).into()
        }),
        Contender::new(BLAKE2B, "BLAKE2b", move || {
            let hash = blake2b_simd::Params::new().hash_length(32).hash(black_box(block));
            padded(hash.as_bytes())
        }),
        Contender::new("KangarooTwelve", "KT128", move || {
            use k12::{ExtendableOutput, Update, XofReader};
            let mut hasher = k12::Kt128::default();
            hasher.update(black_box(block));
            let mut answer = [0; 32];
            hasher.finalize_xof().read(&mut answer);
            answer
        }),
    ]
}

/// BLAKE2b of a batch by the four-way code of `blake2b_simd`; the answer is the last block's.
fn blake2b_batch<'a>(blocks: &'a [&'a [u8]]) -> Contender<'a> {
    use blake2b_simd::many::{HashManyJob, hash_many};
    let mut params = blake2b_simd::Params::new();
    params.hash_length(32);
    Contender::new("BLAKE2b, batched", "BLAKE2b of a batch", move || {
        let mut jobs: Vec<HashManyJob<'_>> =
            black_box(blocks).iter().map(|block| HashManyJob::new(&params, block)).collect();
        hash_many(jobs.iter_mut());
        jobs.last().map_or([0; 32], |job| padded(job.to_hash().as_bytes()))
    })
}

/// Blocks in a row by ours in one call; the answer is the last block's.
fn ours_batch<'a>(name: String, bytes: &'a [u8]) -> Contender<'a> {
    let mut hashes = vec![xylem_hash::Hash::from_bytes([0; 32]); bytes.len() / BLOCK];
    Contender::new(name, "BLAKE3 of a batch", move || {
        xylem_hash::hash_blocks(black_box(bytes), BLOCK, black_box(&mut hashes));
        hashes.last().map_or([0; 32], |hash| *hash.as_bytes())
    })
}

/// All contenders; `blocks` are those of `bytes`.
fn contenders<'a>(bytes: &'a [u8], blocks: &'a [&'a [u8]]) -> Vec<Raced<'a>> {
    let block = blocks[0];
    let one = &blocks[..1];
    let mut raced: Vec<Raced<'a>> = others(block).into_iter().map(|other| (other, 1)).collect();
    raced.push((blake2b_batch(blocks), BATCH));
    raced.push((sha2_one_by_one("SHA-256 (sha2)", one), 1));
    raced.push((ring_one_by_one("SHA-256 (ring)", one), 1));
    raced.push((theirs(OFFICIAL, Work::Whole, block), 1));
    for name in judged_backends() {
        raced.push((ours(one_at_a_time(name), Work::Whole, block).on(name), 1));
        raced.push((ours_batch(batched(name), bytes).on(name), BATCH));
    }
    raced.push((clock::chain(), 1));
    raced
}

fn one_at_a_time(backend: &str) -> String {
    format!("BLAKE3 (ours, {backend})")
}

fn batched(backend: &str) -> String {
    format!("BLAKE3 (ours, {backend}), batched")
}

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(Heading {
        table: "blocks".into(),
        title: "a block of 4 KiB, 32 bytes of digest".into(),
        unit: Unit::Cycles,
        label: "hash".into(),
        figures: [CYCLES, DOCUMENT].map(str::to_owned).to_vec(),
        ratios: [TO_BLAKE3, TO_BLAKE2B, DOCUMENT_TO_BLAKE2B].map(str::to_owned).to_vec(),
        notes: vec![
            "ratios are of times, as in the document: under 1 is faster".into(),
            format!("batched: {BATCH} blocks in one call, time of one of them"),
            "cycles: time, times the clock that a chain of dependent additions showed in the \
             same rounds"
                .into(),
        ],
    })?;
    let bytes = input::bytes(BATCH * BLOCK);
    let blocks = messages(&bytes, &[BLOCK], BATCH);
    let (mut raced, counts): (Vec<Contender<'_>>, Vec<usize>) =
        contenders(&bytes, &blocks).into_iter().unzip();
    let mut timings = series.race("all hashes", &mut raced)?;
    for (timing, count) in timings.iter_mut().zip(counts) {
        timing.median /= count as f64;
    }
    let figures = series.figures(&timings, BLOCK);
    for mut figure in figures {
        let hash = std::mem::replace(&mut figure.name, CYCLES.into());
        let mut figures = vec![figure];
        figures.extend(quoted(&hash).map(|cycles| Figure::quoted(DOCUMENT, cycles)));
        series.emit_row(hash.clone(), BLOCK, figures, ratios(&hash, &timings))?;
    }
    Ok(())
}

fn quoted(hash: &str) -> Option<f64> {
    QUOTED.iter().find(|(name, _)| *name == hash).map(|(_, cycles)| *cycles)
}

fn ratios(hash: &str, timings: &[Timing]) -> Vec<Ratio> {
    let is_batch = hash.starts_with("BLAKE3") && hash.ends_with("batched");
    let wanted = is_batch.then_some(Bound::AtMost(0.5));
    let measured = [
        Compare::time(TO_BLAKE3, hash, OFFICIAL, None).of(timings),
        Compare::time(TO_BLAKE2B, hash, BLAKE2B, wanted).of(timings),
    ];
    let document = quoted(hash).zip(quoted(BLAKE2B));
    let document =
        document.map(|(hash, blake2b)| Ratio::new(DOCUMENT_TO_BLAKE2B, hash, blake2b, None));
    measured.into_iter().flatten().chain(document).collect()
}
