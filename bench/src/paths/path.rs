//! [`Path`]: one measured operation.

/// One operation, ready to be repeated.
pub struct Path {
    /// Its name: the key of docs/instructions.md.
    pub name: &'static str,
    /// Repetitions in one count, so that the overhead is small.
    pub times: u32,
    /// Prepares the operation.
    pub prepare: fn() -> Operation,
}

/// An operation with its prepared state.
pub type Operation = Box<dyn FnMut()>;

pub(super) const fn path(name: &'static str, times: u32, prepare: fn() -> Operation) -> Path {
    Path { name, times, prepare }
}
