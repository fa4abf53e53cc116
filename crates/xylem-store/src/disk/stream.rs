//! [`read_stream`]: files that a user names and that may be pipes (`<(…)`, `/dev/stdin`). A medium's files are read by
//! position, which a pipe has not got.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a file or pipe of the disk from its beginning, up to `most` bytes, and appends them to `into`. A caller that
/// reads a secret gives it the capacity for all, so that no copy of a part of it stays in freed memory.
///
/// # Errors
/// The system's; what was read before is in `into`.
pub fn read_stream(path: &Path, most: u64, into: &mut Vec<u8>) -> io::Result<()> {
    File::open(path)?.take(most).read_to_end(into).map(drop)
}
