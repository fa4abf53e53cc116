//! Hot paths, from a frame's build to a fetched MiB, each alone and on one core: what
//! `--example instructions` counts and `--bench paths` times.
//!
//! A path is made anew in a process of its own for each count, from the same bytes and without a clock,
//! so that it takes the same instructions each time (but for the seeds of hash maps, and for keys that are drawn).

mod hash;
mod link;
mod packets;
mod path;
mod publications;
mod tree;
mod trust;

pub use path::{Operation, Path};

/// All of them, in the order in which a byte meets them.
pub fn all() -> impl Iterator<Item = &'static Path> {
    [hash::PATHS, tree::PATHS, packets::PATHS, trust::PATHS, publications::PATHS, link::PATHS]
        .into_iter()
        .flatten()
}
