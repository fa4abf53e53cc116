//! Limits that error messages state, too.

/// Length of the publisher's and of the link's secret, in bytes.
pub const SECRET_LEN: usize = 32;
/// Most trusted certificates, and most prefixes of each.
pub(super) const MAX_ENTRIES: usize = 256;
