//! Errors of the rooms below, as one line for a person and one [`xylem_library::Blame`].

pub(crate) use xylem_library::failure::{local, store, usage};
