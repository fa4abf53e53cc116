//! Encoding of a ratchet's state for storage: [`Ratchet::save`] and [`Ratchet::restore`].
//!
//! All of it is secret. A state must be on disk before a message that it made leaves, or a plaintext that it gave is
//! shown: a side that continues from an older state uses a key twice.
//!
//! `version = 1 (1) | present (1) | root (32) | next header key, sending (32) | receiving (32) | previous (4) | [theirs
//! (32)] | [our secret (32)] | [sending chain] | [receiving chain] | gaps (2) | gaps`. A chain is `key (32) | header
//! key (32) | next number (4)`. A gap, with one chain's missing messages, is `header key (32) | count (2) | count ×
//! (number (4) | key (32))`, numbers ascending. `present` has bit 0 for theirs, 1 for ours, 2 and 3 for the chains.
//! Each state has one encoding.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::VecDeque;

use xylem_link::{PeerKey, StaticKey};
use zeroize::Zeroizing;

use super::{Gap, Key, MAX_KEPT, Ratchet, RatchetChain, RatchetState};
use crate::fields::FieldReader;

const VERSION: u8 = 1;
const THEIRS: u8 = 1;
const OURS: u8 = 2;
const SENDING: u8 = 4;
const RECEIVING: u8 = 8;

impl Ratchet {
    /// Encodes the state, all secret; wiped when dropped.
    #[must_use]
    pub fn save(&self) -> Zeroizing<Vec<u8>> {
        let RatchetState {
            root,
            theirs,
            sending,
            receiving,
            next_sending,
            next_receiving,
            previous,
        } = &self.state;
        // Full capacity from the start: a growing vector would leave copies in freed memory.
        let room =
            self.gaps.len().saturating_mul(34).saturating_add(self.kept().saturating_mul(36));
        let mut out = Zeroizing::new(Vec::with_capacity(room.saturating_add(512)));
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
        out.extend_from_slice(theirs.as_ref().map_or(&[], |key| &key.0[..]));
        let ours = self.ours.as_ref().map(|key| Zeroizing::new(key.to_bytes()));
        out.extend_from_slice(ours.as_ref().map_or(&[], |secret| &secret[..]));
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

    /// Parses what [`Ratchet::save`] made; `None` for anything else. `seed` is 32 random bytes, never used twice.
    #[must_use]
    pub fn restore(saved: &[u8], seed: [u8; 32]) -> Option<Self> {
        let mut fields = FieldReader(saved);
        let [version, present] = fields.array()?;
        if version != VERSION || present > (THEIRS | OURS | SENDING | RECEIVING) {
            return None;
        }
        let has = |bit| present & bit != 0;
        let fields = &mut fields;
        let (root, next_sending, next_receiving) = (key(fields)?, key(fields)?, key(fields)?);
        let previous = fields.u32()?;
        let theirs = if has(THEIRS) { Some(PeerKey(fields.array()?)) } else { None };
        let ours = if has(OURS) { Some(StaticKey::from_bytes(fields.array()?)) } else { None };
        let sending = if has(SENDING) { Some(chain(fields)?) } else { None };
        let receiving = if has(RECEIVING) { Some(chain(fields)?) } else { None };
        if (has(SENDING) && !(has(OURS) && has(THEIRS))) || (has(RECEIVING) && !has(THEIRS)) {
            return None;
        }
        let gaps = gaps(fields)?;
        if !fields.0.is_empty() {
            return None;
        }
        let state = RatchetState {
            root,
            theirs,
            sending,
            receiving,
            next_sending,
            next_receiving,
            previous,
        };
        Some(Self { state, ours, gaps, random: Zeroizing::new(seed) })
    }
}

/// Encodes a count: there are at most [`MAX_KEPT`] keys, and so no more gaps.
fn count(number: usize) -> [u8; 2] {
    u16::try_from(number).expect("2,000 at most").to_be_bytes()
}

fn key(fields: &mut FieldReader<'_>) -> Option<Key> {
    fields.array().map(Zeroizing::new)
}

fn chain(fields: &mut FieldReader<'_>) -> Option<RatchetChain> {
    Some(RatchetChain { key: key(fields)?, header: key(fields)?, next: fields.u32()? })
}

fn gaps(fields: &mut FieldReader<'_>) -> Option<VecDeque<Gap>> {
    let (gaps, mut left) = (fields.u16()?, MAX_KEPT);
    let mut out = VecDeque::<Gap>::new();
    for _ in 0..gaps {
        let header = key(fields)?;
        let keys = usize::from(fields.u16()?);
        left = left.checked_sub(keys)?;
        if keys == 0 || out.iter().any(|gap| gap.header == header) {
            return None;
        }
        let mut gap = Gap { header, keys: VecDeque::with_capacity(keys) };
        for _ in 0..keys {
            let (number, key) = (fields.u32()?, key(fields)?);
            if gap.keys.back().is_some_and(|(last, _)| *last >= number) {
                return None;
            }
            gap.keys.push_back((number, key));
        }
        out.push_back(gap);
    }
    Some(out)
}
