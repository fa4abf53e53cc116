//! What can be wrong with a code, each in one line for the person who typed it.

use thiserror::Error;

/// A text that is no code.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CodeError {
    /// No number, or more words or fewer than three.
    #[error("a code is a number and three words, such as 7-alpha-cobra-violin")]
    Shape,
    /// More digits than any code has.
    #[error("a code begins with a number of at most {} digits", super::words::MAX_DIGITS)]
    Number,
    /// A word that codes do not have.
    #[error("{word:?} is no word of codes; the nearest is {}", nearest.join(" or "))]
    Word {
        /// As it was typed.
        word: String,
        /// Words of the list that are as near as any.
        nearest: Vec<&'static str>,
    },
}

/// Why nobody gets anything more by a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Over {
    /// Somebody who knew it has been handed what it stood for.
    #[error("it was used already")]
    Used,
    /// Too many wrong guesses.
    #[error("somebody guessed wrongly three times")]
    Guessed,
    /// Its time is up.
    #[error("its ten minutes are over")]
    Expired,
}

/// Why a try with a code brought nothing.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TakeError {
    /// The two sides do not have the same code, or somebody stands between them.
    #[error("the code does not fit there: a word is wrong, or somebody else answers")]
    Wrong,
    /// The code has ended.
    #[error("the code has ended: {0}")]
    Over(Over),
    /// Too many try at once; a new try may pass.
    #[error("too many try at once")]
    Busy,
    /// What the other side sends is no part of this exchange.
    #[error("what answers there does not speak of codes rightly")]
    Broken,
}
