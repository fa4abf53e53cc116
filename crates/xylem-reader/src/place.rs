//! Where a user's store is.

use std::path::PathBuf;

/// The store that `xylem` uses where none is named: in `$XDG_DATA_HOME`, else in `~/.local/share`. `None` where there is no
/// home.
pub fn usual_store() -> Option<PathBuf> {
    let absolute =
        |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("xylem"))
}
