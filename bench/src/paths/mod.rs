//! Hot paths, from a frame's build to a fetched MiB, each alone and on one core: what
//! `--example instructions` counts and `--bench paths` times.
//!
//! A path is made anew in a process of its own for each count, from the same bytes and without a clock,
//! so that it takes the same instructions each time (but for the seeds of hash maps, and for keys that are drawn).

mod hash;
mod link;
mod packets;
mod publications;
mod tree;
mod trust;

/// One operation, ready to be done again and again.
pub struct Path {
    /// What is done: the key of docs/instructions.md.
    pub name: &'static str,
    /// How often it is done in one count, so that what goes to waste around it is little.
    pub times: u32,
    /// Makes all that it needs beforehand.
    pub prepare: fn() -> Operation,
}

/// One operation with what it needs.
pub type Operation = Box<dyn FnMut()>;

const fn path(name: &'static str, times: u32, prepare: fn() -> Operation) -> Path {
    Path { name, times, prepare }
}

/// All of them, in the order in which a byte meets them.
pub fn all() -> impl Iterator<Item = &'static Path> {
    [hash::PATHS, tree::PATHS, packets::PATHS, trust::PATHS, publications::PATHS, link::PATHS]
        .into_iter()
        .flatten()
}
