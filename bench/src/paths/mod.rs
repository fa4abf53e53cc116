//! Hot paths, from building a frame to fetching a MiB, each alone and on one core: `--example instructions` counts them
//! and `--bench paths` times them.
//!
//! A path is prepared anew in a process of its own for each count, from the same bytes and without a clock. It then
//! takes the same instructions each time, except for the seeds of hash maps and for random keys.

mod hash;
mod link;
mod packets;
mod path;
mod publications;
mod tree;
mod trust;

pub use path::{Operation, Path};

/// All paths, in the order in which a byte passes them.
pub fn all() -> impl Iterator<Item = &'static Path> {
    [hash::PATHS, tree::PATHS, packets::PATHS, trust::PATHS, publications::PATHS, link::PATHS]
        .into_iter()
        .flatten()
}
