//! Tests of every backend against the `blake3` crate.

mod differential;
