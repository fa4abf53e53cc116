//! The default store of a user.

use std::path::PathBuf;

/// The store that `xylem` uses by default: in `$XDG_DATA_HOME`, else in `~/.local/share`. `None` if there is no home
/// directory.
pub fn usual_store() -> Option<PathBuf> {
    let absolute =
        |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("xylem"))
}
