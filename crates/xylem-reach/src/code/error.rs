//! Errors of codes, each in one line for the person who typed the code.

use thiserror::Error;

/// A text that is not a code.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CodeError {
    /// No number, or not three words.
    #[error("a code is a number and three words, such as 7-alpha-cobra-violin")]
    Shape,
    /// More digits than any code has.
    #[error("a code begins with a number of at most {} digits", super::words::MAX_DIGITS)]
    Number,
    /// A word that is not in the list.
    #[error("{word:?} is not a word of codes; the nearest is {}", nearest.join(" or "))]
    Word {
        /// The word as it was typed.
        word: String,
        /// The words of the list with the least edit distance.
        nearest: Vec<&'static str>,
    },
}

/// Why a code has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CodeEnd {
    /// A taker that knew it was handed the text.
    #[error("it was already used")]
    Used,
    /// Too many wrong guesses.
    #[error("three wrong guesses were made")]
    Guessed,
    /// Its time is up.
    #[error("its ten minutes have passed")]
    Expired,
}

/// Why a try with a code failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TakeError {
    /// The two sides have different codes, or an attacker stands between them.
    #[error("the peer that answered shows another code: a word is wrong, or it is another peer")]
    Wrong,
    /// The code has ended.
    #[error("the code has ended: {0}")]
    Over(CodeEnd),
    /// Too many tries are under way at once. A new try may succeed.
    #[error("too many peers try the code at once")]
    Busy,
    /// The other side sent something that is not part of this exchange.
    #[error("the peer that answered does not follow the protocol of codes")]
    Broken,
}
