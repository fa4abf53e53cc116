//! A ratchet's state as bytes, for storing: [`Ratchet::save`] and [`Ratchet::restore`].
//!
//! All of it is secret. A state must be on disk before a message that it made leaves, or a plaintext
//! that it gave is shown: who goes on from an older one uses a key twice.
//!
//! `version = 1 (1) | present (1) | root (32) | next header key, sending (32) | receiving (32) |
//! previous (4) | [theirs (32)] | [our secret (32)] | [sending chain] | [receiving chain] |
//! gaps (2) | gaps`, where a chain is `key (32) | header key (32) | next number (4)` and a gap, of
//! one chain's missing messages, `header key (32) | count (2) | count × (number (4) | key (32))`,
//! numbers rising. `present` has bit 0 for theirs, 1 for ours, 2 and 3 for the chains. One state has
//! one form.

use std::collections::VecDeque;

use thiserror::Error;
use zeroize::Zeroizing;

use super::{Chain, Gap, Key, MAX_KEPT, Ratchet, State};
use crate::StaticKey;
use crate::kdf::Rng;

const VERSION: u8 = 1;
const THEIRS: u8 = 1;
const OURS: u8 = 2;
const SENDING: u8 = 4;
const RECEIVING: u8 = 8;

/// Bytes that are no saved state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the saved state of a conversation is damaged")]
pub struct SavedError;

impl Ratchet {
    /// The state, all secret; wiped when dropped.
    #[must_use]
    pub fn save(&self) -> Zeroizing<Vec<u8>> {
        let State { root, theirs, sending, receiving, next_sending, next_receiving, previous } =
            &self.state;
        let missing = self.kept();
        // Enough room from the start: a vector that grows leaves copies behind.
        let mut out = Zeroizing::new(Vec::with_capacity(512 + self.gaps.len() * 34 + missing * 36));
        let bit = |there, bit| if there { bit } else { 0 };
        let present = bit(theirs.is_some(), THEIRS)
            | bit(self.ours.is_some(), OURS)
            | bit(sending.is_some(), SENDING)
            | bit(receiving.is_some(), RECEIVING);
        out.extend_from_slice(&[VERSION, present]);
        for key in [root, next_sending, next_receiving] {
            out.extend_from_slice(&key[..]);
        }
        out.extend_from_slice(&previous.to_be_bytes());
        out.extend_from_slice(theirs.as_ref().map_or(&[], |key| &key[..]));
        out.extend_from_slice(self.ours.as_ref().map_or(&[], |key| &key.secret()[..]));
        for chain in [sending, receiving].into_iter().flatten() {
            out.extend_from_slice(&chain.key[..]);
            out.extend_from_slice(&chain.header[..]);
            out.extend_from_slice(&chain.next.to_be_bytes());
        }
        out.extend_from_slice(&count(self.gaps.len()));
        for gap in &self.gaps {
            out.extend_from_slice(&gap.header[..]);
            out.extend_from_slice(&count(gap.keys.len()));
            for (number, key) in &gap.keys {
                out.extend_from_slice(&number.to_be_bytes());
                out.extend_from_slice(&key[..]);
            }
        }
        out
    }

    /// Takes back what [`Ratchet::save`] gave. `seed`: 32 random bytes, never used twice.
    ///
    /// # Errors
    /// [`SavedError`] for anything else.
    pub fn restore(saved: &[u8], seed: [u8; 32]) -> Result<Self, SavedError> {
        let mut fields = Fields(saved);
        let [version, present] = fields.array()?;
        if version != VERSION || present > (THEIRS | OURS | SENDING | RECEIVING) {
            return Err(SavedError);
        }
        let has = |bit| present & bit != 0;
        let (root, next_sending, next_receiving) = (fields.key()?, fields.key()?, fields.key()?);
        let previous = fields.number()?;
        let theirs = has(THEIRS).then(|| fields.array()).transpose()?;
        let ours = has(OURS).then(|| fields.array().map(StaticKey::from_bytes)).transpose()?;
        let sending = has(SENDING).then(|| fields.chain()).transpose()?;
        let receiving = has(RECEIVING).then(|| fields.chain()).transpose()?;
        if (has(SENDING) && !(has(OURS) && has(THEIRS))) || (has(RECEIVING) && !has(THEIRS)) {
            return Err(SavedError);
        }
        let gaps = fields.gaps()?;
        if !fields.0.is_empty() {
            return Err(SavedError);
        }
        let state =
            State { root, theirs, sending, receiving, next_sending, next_receiving, previous };
        Ok(Self { state, ours, gaps, rng: Rng::new(&seed) })
    }
}

/// There are at most [`MAX_KEPT`] keys, so there are no more gaps.
fn count(number: usize) -> [u8; 2] {
    u16::try_from(number).expect("2,000 at most").to_be_bytes()
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], SavedError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(SavedError)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn key(&mut self) -> Result<Key, SavedError> {
        self.array().map(Zeroizing::new)
    }

    fn number(&mut self) -> Result<u32, SavedError> {
        self.array().map(u32::from_be_bytes)
    }

    fn count(&mut self) -> Result<usize, SavedError> {
        self.array().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    fn chain(&mut self) -> Result<Chain, SavedError> {
        Ok(Chain { key: self.key()?, header: self.key()?, next: self.number()? })
    }

    fn gaps(&mut self) -> Result<VecDeque<Gap>, SavedError> {
        let (gaps, mut left) = (self.count()?, MAX_KEPT);
        let mut out = VecDeque::<Gap>::new();
        for _ in 0..gaps {
            let header = self.key()?;
            let keys = self.count()?;
            left = left.checked_sub(keys).ok_or(SavedError)?;
            if keys == 0 || out.iter().any(|gap| gap.header == header) {
                return Err(SavedError);
            }
            let mut gap = Gap { header, keys: VecDeque::with_capacity(keys) };
            for _ in 0..keys {
                let (number, key) = (self.number()?, self.key()?);
                if gap.keys.back().is_some_and(|(last, _)| *last >= number) {
                    return Err(SavedError);
                }
                gap.keys.push_back((number, key));
            }
            out.push_back(gap);
        }
        Ok(out)
    }
}
