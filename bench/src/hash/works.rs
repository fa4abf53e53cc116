//! The same work for the official crate and for ours, written once: the names are the same in both, so a macro inserts
//! the crate.

use std::hint::black_box;

use crate::race::{Answer, Contender};

/// The name of the function that these contenders compute.
pub(super) const BLAKE3: &str = "BLAKE3";
pub(super) const SHA256: &str = "SHA-256";

/// How the bytes of one run are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `hash`, one call.
    Whole,
    /// A `Hasher` that takes pieces of this length.
    Pieces(usize),
    /// A `Hasher` that takes this many bytes first, then all others.
    Head(usize),
    /// Extendable output of the empty message, as long as the input.
    Output,
}

/// The last 32 bytes.
fn tail(bytes: &[u8]) -> Answer {
    *bytes.last_chunk().expect("outputs here have at least the 32 bytes of a hash")
}

macro_rules! contenders {
    ($function:ident, $parallel:ident, $krate:ident) => {
        /// `work` over `input`.
        pub fn $function<'a>(
            name: impl Into<String>,
            work: Work,
            input: &'a [u8],
        ) -> Contender<'a> {
            match work {
                Work::Whole => {
                    Contender::new(name, BLAKE3, move || *$krate::hash(black_box(input)).as_bytes())
                }
                Work::Pieces(len) => Contender::new(name, BLAKE3, move || {
                    let mut hasher = $krate::Hasher::new();
                    for piece in black_box(input).chunks(len) {
                        hasher.update(piece);
                    }
                    *hasher.finalize().as_bytes()
                }),
                Work::Head(len) => Contender::new(name, BLAKE3, move || {
                    let (head, rest) = black_box(input).split_at(len);
                    let mut hasher = $krate::Hasher::new();
                    hasher.update(head).update(rest);
                    *hasher.finalize().as_bytes()
                }),
                Work::Output => {
                    let mut output = vec![0; input.len()];
                    Contender::new(name, BLAKE3, move || {
                        $krate::Hasher::new().finalize_xof().fill(black_box(&mut output));
                        tail(&output)
                    })
                }
            }
        }

        /// `input` by as many threads as rayon has.
        pub(super) fn $parallel<'a>(name: impl Into<String>, input: &'a [u8]) -> Contender<'a> {
            Contender::new(name, BLAKE3, move || {
                let mut hasher = $krate::Hasher::new();
                hasher.update_rayon(black_box(input));
                *hasher.finalize().as_bytes()
            })
        }
    };
}

contenders!(theirs, theirs_parallel, blake3);
contenders!(ours, ours_parallel, xylem_hash);

/// One message after the other by the official crate; the answer is the last one's.
pub(super) fn theirs_one_by_one<'a>(
    name: impl Into<String>,
    messages: &'a [&'a [u8]],
) -> Contender<'a> {
    Contender::new(name, BLAKE3, move || {
        let mut last = [0; 32];
        for message in black_box(messages) {
            last = black_box(*blake3::hash(message).as_bytes());
        }
        last
    })
}

/// Messages side by side by ours; the answer is the last one's.
pub(super) fn ours_many<'a>(name: impl Into<String>, messages: &'a [&'a [u8]]) -> Contender<'a> {
    let mut hashes = vec![xylem_hash::Hash::from_bytes([0; 32]); messages.len()];
    Contender::new(name, BLAKE3, move || {
        xylem_hash::hash_many(black_box(messages), black_box(&mut hashes));
        hashes.last().map_or([0; 32], |hash| *hash.as_bytes())
    })
}

/// SHA-256 of one message after the other by `sha2`; the answer is the last one's.
pub(super) fn sha2_one_by_one<'a>(
    name: impl Into<String>,
    messages: &'a [&'a [u8]],
) -> Contender<'a> {
    use sha2::Digest;
    Contender::new(name, SHA256, move || {
        let mut last = [0; 32];
        for message in black_box(messages) {
            last = black_box(sha2::Sha256::digest(message).into());
        }
        last
    })
}

/// The same by `ring`.
pub(super) fn ring_one_by_one<'a>(
    name: impl Into<String>,
    messages: &'a [&'a [u8]],
) -> Contender<'a> {
    use ring::digest::{SHA256 as ALGORITHM, digest};
    Contender::new(name, SHA256, move || {
        let mut last = [0; 32];
        for message in black_box(messages) {
            last = black_box(tail(digest(&ALGORITHM, message).as_ref()));
        }
        last
    })
}
