//! Numbers that errors name, too.

/// Length of the publisher's and of the link's secret in bytes.
pub(crate) const SECRET_LEN: usize = 32;
/// Certificates that can be trusted, and prefixes for each.
pub(super) const MAX_ENTRIES: usize = 256;
