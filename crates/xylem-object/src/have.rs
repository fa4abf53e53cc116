//! [`Have`]: what a peer can serve of one publication now.
//!
//! A sharer answers `P/32=have/<nonce>` with it, from what it has verified and written. A getter (xylem-transfer)
//! requests it from each peer. It travels as the content of a Data packet that is signed with a digest only: it is a
//! hint, and nothing in it is proven. An incomplete one leaves requests unsent that the peer could have answered; an
//! excessive one costs refusals. Neither can put a wrong byte anywhere. Format: docs/spec/object.md, "Availability".
//!
//! ```
//! use xylem_object::{Have, ObjectId};
//!
//! let half = Have { partial: vec![(ObjectId::Root, vec![0..512])], ..Have::default() };
//! let mut wire = Vec::new();
//! half.encode(&mut wire);
//! assert_eq!(Have::decode(&wire), Ok(half));
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::cmp::Reverse;
use core::ops::Range;

use xylem_packet::tlv::{read_var_number, var_number_len, write_var_number};
use xylem_packet::{Data, DataBuilder, EncodeError, NameRef};
use xylem_trust::{Signer, Verifier};

use crate::naming::ObjectId;

/// Most bytes that [`Have::encode`] writes, so that the Data packet stays within the limit of NDN packets.
pub const MAX_HAVE: usize = 8_000;

const VERSION: u8 = 1;
const EVERYTHING: u8 = 1;
/// A run takes at least two bytes, so no more runs than this can fit.
const MAX_RUNS: usize = MAX_HAVE / 2;

/// Limit of the wire numbers of objects: 0 is the object itself, n is file n - 1. No listing has as many files.
const MAX_FILE: u64 = 1 << 62;

/// The largest number of a partial object in a [`SegmentRun`].
const MAX_PARTIAL: u64 = MAX_FILE + 1;

/// The parts of a publication that a peer can serve. [`Have::default`] is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Have {
    /// All segments and tiles of all objects. The other fields are then empty.
    pub everything: bool,
    /// Directories only: runs of numbers of files that are complete, with their trees.
    pub whole_files: Vec<Range<u64>>,
    /// Runs of segments, with the tiles above them, of the object itself and of partial files.
    pub partial: Vec<(ObjectId, Vec<Range<u64>>)>,
}

/// Why bytes are no valid [`Have`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HaveError {
    /// More than [`MAX_HAVE`] bytes.
    #[error("the peer's list of parts has {0} bytes, more than {MAX_HAVE}")]
    TooLong(usize),
    /// Another version of the format.
    #[error("the peer's list of parts has version {0}; this xylem knows version {VERSION}")]
    Version(u8),
    /// The bytes end too early or too late, or a number is not in its shortest form.
    #[error("the peer's list of parts is malformed")]
    Malformed,
    /// Objects or runs are out of order, empty or adjacent, or numbers are out of range.
    #[error("the peer's list of parts is out of order")]
    Disorder,
    /// The packet around them is not signed with a digest, or was damaged.
    #[error("the peer's list of parts has no digest, or a wrong one")]
    Digest,
}

impl Have {
    /// All of the publication.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// Appends the encoding, at most [`MAX_HAVE`] bytes. Runs may be in any order and may touch. If not all fit, the
    /// smallest runs are left out.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "ranges that end behind their beginning, and counts of them"
    )]
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.push(if self.everything { EVERYTHING } else { 0 });
        if self.everything {
            return;
        }
        let mut runs = self.runs();
        let fits = |runs: &[SegmentRun]| {
            let mut wire = Vec::new();
            write_runs(runs, &mut wire);
            (wire.len() + 2 <= MAX_HAVE).then_some(wire)
        };
        // Sort by size, then by place, so that every prefix of the list is a good selection.
        runs.sort_by_key(|run| (Reverse(run.range.end - run.range.start), run.object));
        runs.truncate(MAX_RUNS);
        // Binary search for the most runs that fit: more runs never take fewer bytes.
        let (mut enough, mut too_many) = (0, runs.len() + 1);
        let mut best = fits(&[]).unwrap_or_default();
        while enough + 1 < too_many {
            // Try all runs first: that is the usual case.
            let middle = if enough == 0 && too_many > runs.len() {
                runs.len()
            } else {
                (enough + too_many) / 2
            };
            let mut kept = runs[..middle].to_vec();
            kept.sort_by_key(|run| (run.object, run.range.start));
            match fits(&kept) {
                Some(wire) => (enough, best) = (middle, wire),
                None => too_many = middle,
            }
        }
        out.extend_from_slice(&best);
    }

    /// All runs. The runs of one object are in order, not empty, and not adjacent.
    fn runs(&self) -> Vec<SegmentRun> {
        let whole = self.whole_files.iter().map(|range| (WHOLE, range));
        let partial = self.partial.iter().flat_map(|(object, ranges)| {
            let object = partial_number(*object);
            ranges.iter().map(move |range| (object, range))
        });
        let mut all: Vec<SegmentRun> = whole
            .chain(partial)
            .filter(|(object, range)| *object <= MAX_PARTIAL && range.start < range.end)
            .map(|(object, range)| SegmentRun { object, range: range.clone() })
            .collect();
        all.sort_by_key(|run| (run.object, run.range.start));
        let mut merged: Vec<SegmentRun> = Vec::with_capacity(all.len());
        for run in all {
            match merged.last_mut() {
                Some(last) if last.object == run.object && run.range.start <= last.range.end => {
                    last.range.end = last.range.end.max(run.range.end);
                }
                _ => merged.push(run),
            }
        }
        merged
    }

    /// Reads what [`Have::encode`] wrote.
    ///
    /// # Errors
    /// See [`HaveError`]. Every value has one encoding; all others are refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, HaveError> {
        if bytes.len() > MAX_HAVE {
            return Err(HaveError::TooLong(bytes.len()));
        }
        let (&version, rest) = bytes.split_first().ok_or(HaveError::Malformed)?;
        if version != VERSION {
            return Err(HaveError::Version(version));
        }
        let (&flags, rest) = rest.split_first().ok_or(HaveError::Malformed)?;
        let mut have = match flags {
            0 => Self::default(),
            EVERYTHING if rest.is_empty() => return Ok(Self::everything()),
            _ => return Err(HaveError::Malformed),
        };
        let mut reader = HaveReader { rest };
        have.whole_files = reader.ranges(0)?;
        let mut next = 0;
        for _ in 0..reader.number()? {
            let number = reader.number()?.checked_add(next).filter(|n| *n <= MAX_FILE);
            let number = number.ok_or(HaveError::Disorder)?;
            next = number.saturating_add(1);
            let object = match number.checked_sub(1) {
                None => ObjectId::Root,
                Some(file) => ObjectId::File(file),
            };
            have.partial.push((object, reader.ranges(1)?));
        }
        if reader.rest.is_empty() { Ok(have) } else { Err(HaveError::Malformed) }
    }

    /// Appends the Data packet `name` (of [`crate::naming::PublicationRequest::Have`]) with this content.
    ///
    /// # Errors
    /// `TooLong` if the name is longer than any publication's.
    pub fn packet(&self, name: NameRef<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut content = Vec::new();
        self.encode(&mut content);
        Signer::digest_sha256().data(DataBuilder::new(name), &content, out)
    }

    /// Reads the packet that [`Have::packet`] makes.
    ///
    /// # Errors
    /// See [`HaveError`].
    pub fn from_packet(data: &Data<'_>) -> Result<Self, HaveError> {
        Verifier::digest_sha256().data(data).map_err(|_| HaveError::Digest)?;
        Self::decode(data.content())
    }
}

/// Sort key of runs, in wire order: whole files first, then the object itself, then files by number.
const WHOLE: u64 = 0;

fn partial_number(object: ObjectId) -> u64 {
    match object {
        ObjectId::Root => 1,
        ObjectId::File(file) => file.saturating_add(2),
        // Sums are not announced: a peer that has everything has them.
        ObjectId::Sums => u64::MAX,
    }
}

#[derive(Clone, Debug)]
struct SegmentRun {
    object: u64,
    range: Range<u64>,
}

/// Writes runs, which must be in order: whole files first, then object by object.
#[expect(clippy::arithmetic_side_effects, reason = "runs in order")]
fn write_runs(runs: &[SegmentRun], out: &mut Vec<u8>) {
    let (whole, partial) = runs.split_at(runs.partition_point(|run| run.object == WHOLE));
    write_ranges(whole, out);
    let objects = || partial.chunk_by(|a, b| a.object == b.object);
    write_var_number(out, objects().count() as u64);
    let mut next = 1;
    for runs in objects() {
        write_var_number(out, runs[0].object - next);
        next = runs[0].object + 1;
        write_ranges(runs, out);
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "runs in order")]
fn write_ranges(runs: &[SegmentRun], out: &mut Vec<u8>) {
    write_var_number(out, runs.len() as u64);
    let mut end = 0;
    for SegmentRun { range, .. } in runs {
        write_var_number(out, range.start - end);
        write_var_number(out, range.end - range.start);
        end = range.end;
    }
}

struct HaveReader<'a> {
    rest: &'a [u8],
}

impl HaveReader<'_> {
    fn number(&mut self) -> Result<u64, HaveError> {
        let (number, len) = read_var_number(self.rest).map_err(|_| HaveError::Malformed)?;
        if len != var_number_len(number) {
            return Err(HaveError::Malformed);
        }
        self.rest = &self.rest[len..];
        Ok(number)
    }

    /// Reads the runs of one object, at least `at_least`. Memory grows with the bytes that are present, not with the
    /// count that they claim.
    fn ranges(&mut self, at_least: u64) -> Result<Vec<Range<u64>>, HaveError> {
        let count = self.number()?;
        if count < at_least {
            return Err(HaveError::Disorder);
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for _ in 0..count {
            let (gap, len) = (self.number()?, self.number()?);
            let start = match ranges.last() {
                Some(_) if gap == 0 => return Err(HaveError::Disorder),
                Some(last) => last.end.checked_add(gap).ok_or(HaveError::Disorder)?,
                None => gap,
            };
            let end = start.checked_add(len).filter(|end| *end > start);
            ranges.push(start..end.ok_or(HaveError::Disorder)?);
        }
        Ok(ranges)
    }
}
