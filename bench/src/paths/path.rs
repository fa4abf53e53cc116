//! [`Path`]: what one of them is.

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

pub(super) const fn path(name: &'static str, times: u32, prepare: fn() -> Operation) -> Path {
    Path { name, times, prepare }
}
