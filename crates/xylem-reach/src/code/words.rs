//! [`SpokenCode`] as text: drawing words, formatting, and parsing what people type.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use core::str::FromStr;

use mnemonic::MN_WORDS;

use super::error::CodeError;

/// Number of words of the list that codes use. The short words after these encode remainders and are not used.
const WORDS: usize = 1_626;
/// Words in a code. They hold a little over 32 bits.
const LEN: usize = 3;
/// Digits of the highest number.
pub(super) const MAX_DIGITS: usize = 7;
/// Least number, and how many numbers, to draw from when no relay assigns one.
const LEAST: u64 = 10_000;
const DRAWN: u64 = 90_000;
/// Maximum length of a text that is parsed, in bytes.
const MAX_TEXT: usize = 256;
/// Typed words are cut to this many characters in messages and comparisons.
const MAX_WORD: usize = 24;
/// Maximum number of nearest words in a message.
const MAX_NEAREST: usize = 3;

/// A number and three words. `Debug` shows only the number, because the words are secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SpokenCode {
    number: u32,
    words: [u16; LEN],
}

impl SpokenCode {
    /// Makes a code of this number (below 10,000,000), with words drawn from 32 random bytes.
    #[must_use]
    pub fn draw(number: u32, seed: &[u8; 32]) -> Self {
        let mut draws = xylem_hash::Hasher::new_derive_key("xylem-reach v1 code words");
        let mut draws = draws.update(seed).finalize_xof();
        let word = |_| {
            let mut bytes = [0; 8];
            draws.fill(&mut bytes);
            // The bias is below 2^-53.
            let index = u64::from_be_bytes(bytes).checked_rem(WORDS as u64);
            index.and_then(|index| u16::try_from(index).ok()).unwrap_or(0)
        };
        Self { number, words: [0; LEN].map(word) }
    }

    /// The number, by which the peer that shows the code is found. It is not secret.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether its number may have been drawn by [`SpokenCode::draw_number`]. Others are of a relay.
    #[must_use]
    pub fn may_be_drawn(&self) -> bool {
        u64::from(self.number).checked_sub(LEAST).is_some_and(|above| above < DRAWN)
    }

    /// Draws a number for a peer that is found without a relay; a relay would assign a free one. It has five digits,
    /// because every number can be tried anyway.
    #[must_use]
    pub fn draw_number(seed: &[u8; 32]) -> u32 {
        let drawn = xylem_hash::derive_key("xylem-reach v1 code number", seed);
        let (first, _) = drawn.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let below = u64::from_be_bytes(*first) % DRAWN;
        u32::try_from(below.saturating_add(LEAST)).unwrap_or(0)
    }
}

fn word(index: usize) -> &'static str {
    MN_WORDS.get(index).and_then(|word| core::str::from_utf8(word).ok()).unwrap_or("")
}

fn list() -> impl Iterator<Item = &'static str> {
    (0..WORDS).map(word)
}

impl fmt::Display for SpokenCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        self.words.iter().try_for_each(|index| write!(f, "-{}", word(usize::from(*index))))
    }
}

impl fmt::Debug for SpokenCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({}-..)", self.number)
    }
}

/// Whether a text is meant as a code, not as a ticket, a name or an address: a number followed by letters, with any
/// separators around them.
#[must_use]
pub fn looks_like_code(text: &str) -> bool {
    let mut rest =
        text.chars().skip_while(|c| !c.is_alphanumeric() && !"@/.".contains(*c)).peekable();
    let digits = core::iter::from_fn(|| rest.next_if(char::is_ascii_digit)).count();
    let gap = core::iter::from_fn(|| rest.next_if(|c| is_gap(*c))).count();
    let word = core::iter::from_fn(|| rest.next_if(|c| c.is_alphabetic())).count();
    let ends = rest.next().is_none_or(|c| is_gap(c) || c.is_alphabetic());
    digits > 0 && word >= 3 && ends && (gap > 0 || word > 6)
}

/// Whether people use this character between or around the parts of a code.
fn is_gap(c: char) -> bool {
    c.is_whitespace() || "-_–—‐‑−.,;:+'\"“”‘’<>`".contains(c)
}

impl FromStr for SpokenCode {
    type Err = CodeError;

    /// Accepts either case, any separators between the parts, and none at all: no word of the list begins another.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        if text.len() > MAX_TEXT {
            return Err(CodeError::Shape);
        }
        let text = text.to_lowercase();
        let text = text.trim_matches(is_gap);
        let end = text.find(|c: char| !c.is_ascii_digit()).ok_or(CodeError::Shape)?;
        let (number, rest) = text.split_at(end);
        if number.is_empty() {
            return Err(CodeError::Shape);
        }
        let digits = number.trim_start_matches('0');
        if digits.len() > MAX_DIGITS {
            return Err(CodeError::Number);
        }
        let number =
            if digits.is_empty() { 0 } else { digits.parse().map_err(|_| CodeError::Number)? };
        let mut found = Vec::new();
        for typed in rest.split(is_gap).filter(|part| !part.is_empty()) {
            read(typed, &mut found)?;
        }
        let words = found.try_into().map_err(|_| CodeError::Shape)?;
        Ok(Self { number, words })
    }
}

/// Appends the words of a text without separators to `found`.
fn read(typed: &str, found: &mut Vec<u16>) -> Result<(), CodeError> {
    let (mut rest, mut before) = (typed, None);
    while !rest.is_empty() {
        let Some((index, after)) = first_word(rest) else {
            // One or two letters too many belong to the word before them.
            let few = rest.chars().nth(2).is_none();
            return Err(unknown(before.filter(|_| few).unwrap_or(rest)));
        };
        found.push(index);
        before = Some(rest);
        rest = after;
    }
    Ok(())
}

/// The word that a text begins with, and the rest.
fn first_word(text: &str) -> Option<(u16, &str)> {
    list().enumerate().find_map(|(index, word)| {
        let after = text.strip_prefix(word)?;
        Some((u16::try_from(index).ok()?, after))
    })
}

fn unknown(typed: &str) -> CodeError {
    let word: String = typed.chars().take(MAX_WORD).collect();
    let letters: Vec<char> = word.chars().collect();
    let distances: Vec<usize> = list().map(|known| distance(&letters, known)).collect();
    let least = distances.iter().copied().min().unwrap_or(0);
    let as_near = distances.iter().enumerate().filter(|(_, distance)| **distance == least);
    let nearest = as_near.map(|(index, _)| self::word(index)).take(MAX_NEAREST).collect();
    CodeError::Word { word, nearest }
}

/// Edit distance with insertions, deletions, substitutions and exchanges of neighbours (Damerau-Levenshtein).
pub fn distance(typed: &[char], known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    // Three rows of the table: for the letter before the last, for the last letter, and for this one.
    let mut before = vec![0; known.len().saturating_add(1)];
    let mut last: Vec<usize> = (0..=known.len()).collect();
    for (i, letter) in typed.iter().enumerate() {
        let mut row = vec![i.saturating_add(1)];
        for (j, other) in known.iter().enumerate() {
            let at = |row: &[usize], place: Option<usize>| {
                place.and_then(|place| row.get(place)).copied().unwrap_or(usize::MAX / 2)
            };
            let next = j.checked_add(1);
            let changed = at(&last, Some(j)).saturating_add(usize::from(letter != other));
            let put_in = at(&row, Some(j)).saturating_add(1);
            let left_out = at(&last, next).saturating_add(1);
            let twisted = (i.checked_sub(1).and_then(|i| typed.get(i)) == Some(other)
                && j.checked_sub(1).and_then(|j| known.get(j)) == Some(letter))
            .then(|| at(&before, j.checked_sub(1)).saturating_add(1));
            let least = changed.min(put_in).min(left_out);
            row.push(twisted.map_or(least, |twisted| least.min(twisted)));
        }
        before = core::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}
