//! Lists in files that an operator writes: an entry in a line, `#` before a remark.

use std::io;
use std::path::Path;

use xylem_store::read_stream;

/// Why a file with a list cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListFileError {
    /// The system's error.
    #[error(transparent)]
    Unread(#[from] io::Error),
    /// The path is no regular file.
    #[error("it is not a file")]
    NotAFile,
    /// The file is too large.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
}

/// Reads the file, if it has at most this many bytes.
///
/// # Errors
/// See [`ListFileError`].
pub fn list_text(path: &Path, most: u64) -> Result<String, ListFileError> {
    // Opening a pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(ListFileError::NotAFile);
    }
    let mut text = Vec::new();
    read_stream(path, most.saturating_add(1), &mut text)?;
    if text.len() as u64 > most {
        return Err(ListFileError::TooLarge(most));
    }
    let no_text = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    String::from_utf8(text).map_err(|e| no_text(e).into())
}

/// The entries of a list, without remarks and empty lines, each with the number of its line from 1.
pub fn list_entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let entries = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    (1..).zip(entries).filter(|(_, entry)| !entry.is_empty())
}
