//! Limits of a schema.

/// Maximum size of a schema in bytes, in its binary form and as text.
pub const MAX_SCHEMA: usize = 1 << 20;

/// Maximum number of nodes of a schema.
pub const MAX_NODES: usize = 1 << 14;

/// Maximum number of components of a name that a schema matches.
pub const MAX_DEPTH: usize = 64;

/// The version of the binary form that is read and written. No other version exists.
pub const VERSION: u64 = 0x0001_1000;
