//! What a schema may be.

/// Bytes of a schema in its binary form, and of its text.
pub const MAX_SCHEMA: usize = 1 << 20;

/// Nodes of a schema.
pub const MAX_NODES: usize = 1 << 14;

/// Components of the longest name that a schema speaks of.
pub const MAX_DEPTH: usize = 64;

/// The version of the binary form that is read and written, the one there is.
pub const VERSION: u64 = 0x0001_1000;
