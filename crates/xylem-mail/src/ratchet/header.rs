//! Headers and their encryption (section 4 of the specification): a carrier of messages learns neither the order of
//! turns nor the number of messages.
//!
//! `tag (16) | header (40) ⊕ stream`. The tag is a keyed hash of the header, and seeds the stream. No nonce is needed:
//! a header key never encrypts the same header twice, since the number differs. A header that opens is the peer's; that
//! does not authenticate the message behind it.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use constant_time_eq::constant_time_eq_n;
use xylem_hash::Hasher;
use xylem_link::PeerKey;

use super::Key;

/// Bytes of an encrypted header.
pub(super) const SEALED_LEN: usize = TAG_LEN + LEN;

const TAG_LEN: usize = 16;
const LEN: usize = 40;

/// Position of a message in the ratchet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The sender's ratchet key.
    pub key: PeerKey,
    /// Length of the sender's chain before this one.
    pub previous: u32,
    /// Number in this chain.
    pub number: u32,
}

impl Header {
    /// Encrypts the header under a header key.
    pub(super) fn seal(&self, under: &Key) -> [u8; SEALED_LEN] {
        let mut out = [0; SEALED_LEN];
        let header = &mut out[TAG_LEN..];
        header[..32].copy_from_slice(&self.key.0);
        header[32..36].copy_from_slice(&self.previous.to_be_bytes());
        header[36..].copy_from_slice(&self.number.to_be_bytes());
        let tag = tag(under, header);
        out[..TAG_LEN].copy_from_slice(&tag);
        apply_stream(under, &tag, &mut out[TAG_LEN..]);
        out
    }

    /// Decrypts a header; `None` if it was encrypted under another key.
    pub(super) fn open(sealed: &[u8; SEALED_LEN], under: &Key) -> Option<Self> {
        let (given, body) = sealed.split_first_chunk::<TAG_LEN>()?;
        let mut header: [u8; LEN] = body.try_into().ok()?;
        apply_stream(under, given, &mut header);
        if !constant_time_eq_n(given, &tag(under, &header)) {
            return None;
        }
        let (key, numbers) = header.split_first_chunk()?;
        let (previous, number) = numbers.split_first_chunk()?;
        let (previous, number) = (u32::from_be_bytes(*previous), number.first_chunk()?);
        Some(Self { key: PeerKey(*key), previous, number: u32::from_be_bytes(*number) })
    }
}

/// Computes the tag. Tag and stream hash inputs of different lengths, so their outputs are independent.
fn tag(under: &Key, header: &[u8]) -> [u8; TAG_LEN] {
    let hash = Hasher::new_keyed(under).update(header).finalize();
    *hash.as_bytes().first_chunk().expect("16 of 32 bytes")
}

fn apply_stream(under: &Key, tag: &[u8; TAG_LEN], header: &mut [u8]) {
    let mut stream = [0; LEN];
    Hasher::new_keyed(under).update(tag).finalize_xof().fill(&mut stream);
    header.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
}
