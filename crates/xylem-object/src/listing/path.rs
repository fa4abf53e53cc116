//! Rules for the paths of a listing.
//!
//! A path is raw bytes, components separated by `/`, relative to the shared folder. These rules protect the getter's
//! disk from a hostile listing. So they are checked when a listing is written *and* when it is read. They concern the
//! path's text alone. The store guarantees that nothing is written *through* a symbolic link.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

/// Longest path, in bytes (Linux's `PATH_MAX`).
pub const MAX_PATH: usize = 4096;
/// Longest component of a path, in bytes (`NAME_MAX` of common file systems).
pub const MAX_COMPONENT: usize = 255;
/// Most components of a path: the reader needs an open directory for each.
pub const MAX_DEPTH: usize = 512;
/// Longest target of a symbolic link, in bytes.
pub const MAX_TARGET: usize = 4096;

/// Suffix of the names of partial files, `.` NAME `.xylem-part`.
const PARTIAL_SUFFIX: &[u8] = b".xylem-part";

/// Why a path or a link target was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No bytes at all.
    #[error("the path is empty")]
    Empty,
    /// Begins with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// Two slashes in a row, or one at the end.
    #[error("the path has an empty component")]
    EmptyComponent,
    /// A component `.`.
    #[error("the path has a component \".\"")]
    Dot,
    /// A component `..`.
    #[error("the path has a component \"..\"")]
    DotDot,
    /// A NUL byte in a path or a link target.
    #[error("the path or link target has a NUL byte")]
    Nul,
    /// Longer than [`MAX_PATH`].
    #[error("the path is longer than {MAX_PATH} bytes")]
    TooLong,
    /// More components than [`MAX_DEPTH`].
    #[error("the path has more than {MAX_DEPTH} components")]
    TooDeep,
    /// A component longer than [`MAX_COMPONENT`].
    #[error("a component of the path is longer than {MAX_COMPONENT} bytes")]
    ComponentTooLong,
    /// `.NAME.xylem-part`: the name of a fetch in progress.
    #[error("names like .NAME.xylem-part are reserved for fetches in progress")]
    Reserved,
    /// The same path a second time.
    #[error("the path is listed twice")]
    Duplicate,
    /// Sorts before the path that precedes it.
    #[error("the path is not in order")]
    NotSorted,
    /// Its folder is not listed before it.
    #[error("its folder is not listed before it")]
    ParentMissing,
    /// Its folder is listed as a file or a symbolic link.
    #[error("what is listed as its folder is not a folder")]
    ParentNotDirectory,
    /// An empty link target.
    #[error("the link target is empty")]
    TargetEmpty,
    /// The file of a hard link is not listed before it.
    #[error("the hard link's file is not listed before it")]
    LinkToLater,
    /// A link target longer than [`MAX_TARGET`].
    #[error("the link target is longer than {MAX_TARGET} bytes")]
    TargetTooLong,
    /// Not allowed on Windows; see [`check_path_on_windows`].
    #[error("Windows does not allow a file of this name")]
    NotOnWindows,
}

/// Checks one path by itself. The listing checks order, duplicates and parents.
///
/// # Errors
/// The first rule that the path breaks.
pub fn check_path(path: &[u8]) -> Result<(), PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    if path[0] == b'/' {
        return Err(PathError::Absolute);
    }
    if path.len() > MAX_PATH {
        return Err(PathError::TooLong);
    }
    if path.iter().filter(|&&b| b == b'/').count() >= MAX_DEPTH {
        return Err(PathError::TooDeep);
    }
    path.split(|&b| b == b'/').try_for_each(check_component)
}

/// Checks a single component, the name of a file or folder.
///
/// # Errors
/// The first rule that the name breaks; a `/` in it gives [`PathError::EmptyComponent`].
pub fn check_component(component: &[u8]) -> Result<(), PathError> {
    match component {
        b"" => return Err(PathError::EmptyComponent),
        b"." => return Err(PathError::Dot),
        b".." => return Err(PathError::DotDot),
        _ => {}
    }
    if component.contains(&0) {
        return Err(PathError::Nul);
    }
    if component.contains(&b'/') {
        return Err(PathError::EmptyComponent);
    }
    if component.len() > MAX_COMPONENT {
        return Err(PathError::ComponentTooLong);
    }
    if is_reserved(component) {
        return Err(PathError::Reserved);
    }
    Ok(())
}

/// Returns whether a component is the name of a partial file (`.NAME.xylem-part`). Programs that walk a folder to share
/// it skip such files: they hold the incomplete data of a fetch.
pub fn is_reserved(component: &[u8]) -> bool {
    component.first() == Some(&b'.') && component.ends_with(PARTIAL_SUFFIX)
}

/// Checks a symbolic link's target. The target is carried as it is, wherever it points.
///
/// # Errors
/// The target is empty, too long, or has a NUL byte.
pub fn check_target(target: &[u8]) -> Result<(), PathError> {
    if target.is_empty() {
        return Err(PathError::TargetEmpty);
    }
    if target.len() > MAX_TARGET {
        return Err(PathError::TargetTooLong);
    }
    if target.contains(&0) {
        return Err(PathError::Nul);
    }
    Ok(())
}

/// Checks the target of the hard link at `path`: a valid path, and an earlier one.
///
/// # Errors
/// Those of [`check_path`], or [`PathError::LinkToLater`].
pub fn check_hard_link(path: &[u8], target: &[u8]) -> Result<(), PathError> {
    check_path(target)?;
    if target < path { Ok(()) } else { Err(PathError::LinkToLater) }
}

/// How a symbolic link may lead out of the shared folder. Such links are carried, as people's folders have them, and
/// flagged, so that the program can warn the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkEscapes {
    /// The target is an absolute path.
    Absolute,
    /// The target leads above the shared folder.
    Climbs,
    /// A `..` follows a name. It leads out or not, depending on whether that name is itself a link.
    Unclear,
}

/// How the link at `path` (a checked path) may lead out; `None` if it certainly stays inside.
///
/// This is sound for a whole listing. A link's own folder is a listed, real directory, so the leading `..` of its
/// target count exactly. Each later name is either real or another link, for which the same holds. So if no link of a
/// listing is flagged, none leads out.
pub fn symlink_escapes(path: &[u8], target: &[u8]) -> Option<SymlinkEscapes> {
    if target.first() == Some(&b'/') {
        return Some(SymlinkEscapes::Absolute);
    }
    let folder_depth = path.iter().filter(|&&b| b == b'/').count();
    let mut above = 0usize;
    let mut named = false;
    for component in target.split(|&b| b == b'/') {
        match component {
            b"" | b"." => {}
            b".." if named => return Some(SymlinkEscapes::Unclear),
            b".." => above = above.saturating_add(1),
            _ => named = true,
        }
        if above > folder_depth {
            return Some(SymlinkEscapes::Climbs);
        }
    }
    None
}

/// Checks a path by the rules of Windows as well as [`check_path`]. Windows refuses device names, `< > : " \ | ? *`,
/// control bytes, a dot or a space at the end of a component, and bytes that are not UTF-8. A listing may hold such
/// paths (the Linux kernel has an `aux.c`), but a getter on Windows must not create them.
///
/// # Errors
/// [`PathError::NotOnWindows`], or those of [`check_path`].
pub fn check_path_on_windows(path: &[u8]) -> Result<(), PathError> {
    check_path(path)?;
    let text = core::str::from_utf8(path).map_err(|_| PathError::NotOnWindows)?;
    let fits = text.split('/').all(|component| {
        let stem = component.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
        let device = match stem.as_str() {
            "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
            _ => {
                let digit = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
                // Windows accepts superscript digits one to three in device names too.
                matches!(
                    digit.map(|d| d.chars().collect::<Vec<_>>()).as_deref(),
                    Some(['1'..='9' | '¹' | '²' | '³'])
                )
            }
        };
        let bad = |c: char| c < ' ' || "<>:\"\\|?*".contains(c);
        !device && !component.contains(bad) && !component.ends_with(['.', ' '])
    });
    if fits { Ok(()) } else { Err(PathError::NotOnWindows) }
}

/// Checks order, duplicates and parents over a sequence of paths; memory is bounded by two paths.
///
/// In raw byte order a folder `a` and its `a/b` need not be neighbours (`a-b` sorts between them), so a stack of open
/// folders is not enough. But each possible folder of a later path is a byte prefix of the current path: if `d < p`
/// differ before `d` ends, every `d/…` sorts before `p` too. So it suffices to remember the listed prefixes of the last
/// path.
#[derive(Debug, Default)]
pub(super) struct PathOrder {
    previous: Vec<u8>,
    /// Lengths of the listed paths that are byte prefixes of `previous`, ascending, each with whether it is a folder.
    prefixes: Vec<(u16, bool)>,
}

impl PathOrder {
    /// Checks and records the next path; `directory` states whether it is a directory.
    #[expect(clippy::cast_possible_truncation, reason = "check_path holds a path to 4,096 bytes")]
    pub(super) fn admit(&mut self, path: &[u8], directory: bool) -> Result<(), PathError> {
        check_path(path)?;
        match path.cmp(&self.previous) {
            core::cmp::Ordering::Less => return Err(PathError::NotSorted),
            core::cmp::Ordering::Equal => return Err(PathError::Duplicate),
            core::cmp::Ordering::Greater => {}
        }
        let common = path.iter().zip(&self.previous).take_while(|(a, b)| a == b).count();
        let kept = self.prefixes.partition_point(|&(len, _)| usize::from(len) <= common);
        if let Some(parent) = path.iter().rposition(|&b| b == b'/') {
            let kept = &self.prefixes[..kept];
            match kept.binary_search_by_key(&parent, |&(len, _)| usize::from(len)) {
                Ok(at) if kept[at].1 => {}
                Ok(_) => return Err(PathError::ParentNotDirectory),
                Err(_) => return Err(PathError::ParentMissing),
            }
        }
        // State changes only from here on: a refused path leaves the order as it was.
        self.prefixes.truncate(kept);
        self.previous.clear();
        self.previous.extend_from_slice(path);
        self.prefixes.push((path.len() as u16, directory));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_refuses_its_path() {
        let long = [b'x'; 256];
        let deep = b"abcdefghijklmno/".repeat(257);
        let many = b"a/".repeat(MAX_DEPTH);
        let table: &[(&[u8], PathError)] = &[
            (b"", PathError::Empty),
            (b"/", PathError::Absolute),
            (b"/etc/passwd", PathError::Absolute),
            (b"a//b", PathError::EmptyComponent),
            (b"a/", PathError::EmptyComponent),
            (b".", PathError::Dot),
            (b"a/./b", PathError::Dot),
            (b"..", PathError::DotDot),
            (b"a/../../b", PathError::DotDot),
            (b"a/..", PathError::DotDot),
            (b"a\0b", PathError::Nul),
            (&long, PathError::ComponentTooLong),
            (&deep, PathError::TooLong),
            (&[&many[..], b"a"].concat(), PathError::TooDeep),
            (b"a/.b.xylem-part", PathError::Reserved),
            (b".b.xylem-part/c", PathError::Reserved),
        ];
        for (path, error) in table {
            assert_eq!(check_path(path), Err(*error), "{}", path.escape_ascii());
        }
        for path in [
            &b"a"[..],
            b"...",
            b"..a",
            b"a/.b",
            b"\xff\xfe",
            b"a b/c\\d",
            b"b.xylem-part",
            &long[1..],
        ] {
            assert_eq!(check_path(path), Ok(()), "{}", path.escape_ascii());
        }
        assert_eq!(check_path(&deep[..MAX_PATH - 1]), Ok(()));
        assert_eq!(check_path(&many[..many.len() - 1]), Ok(()));
    }

    #[test]
    fn order_remembers_folders_across_siblings() {
        let mut order = PathOrder::default();
        for (path, directory) in [
            (&b"a"[..], true),
            (b"a-", true),
            (b"a-/x", false),
            (b"a-b", false),
            (b"a/c", true),
            (b"a/c-", false),
            (b"a/c/d", false),
            (b"b", true),
        ] {
            assert_eq!(order.admit(path, directory), Ok(()), "{}", path.escape_ascii());
        }
        assert_eq!(order.admit(b"b", true), Err(PathError::Duplicate));
        assert_eq!(order.admit(b"a/e", false), Err(PathError::NotSorted));
        assert_eq!(order.admit(b"c/e", false), Err(PathError::ParentMissing));
        assert_eq!(order.admit(b"b/a/c", false), Err(PathError::ParentMissing));
        assert_eq!(order.admit(b"b/f", false), Ok(()));
        assert_eq!(order.admit(b"b/f-", false), Ok(()));
        assert_eq!(order.admit(b"b/f/g", false), Err(PathError::ParentNotDirectory));
    }

    #[test]
    fn links_that_lead_out_are_flagged() {
        use SymlinkEscapes::*;
        let table: &[(&str, &str, Option<SymlinkEscapes>)] = &[
            ("l", "a", None),
            ("l", "./a//b/", None),
            ("d/l", "../a", None),
            ("d/e/l", "../../a", None),
            ("d/l", "..", None),
            ("l", "/etc", Some(Absolute)),
            ("l", "..", Some(Climbs)),
            ("d/l", "../../a", Some(Climbs)),
            ("d/l", "./.././..", Some(Climbs)),
            ("d/l", "a/../b", Some(Unclear)),
            ("l", "d/l/..", Some(Unclear)),
        ];
        for (path, target, answer) in table {
            assert_eq!(symlink_escapes(path.as_bytes(), target.as_bytes()), *answer, "{target}");
        }
    }

    #[test]
    fn targets_have_limits() {
        assert_eq!(check_target(b""), Err(PathError::TargetEmpty));
        assert_eq!(check_target(b"a\0"), Err(PathError::Nul));
        assert_eq!(check_target(&[b'a'; MAX_TARGET + 1]), Err(PathError::TargetTooLong));
        assert_eq!(check_target(&[b'a'; MAX_TARGET]), Ok(()));
    }

    #[test]
    fn windows_refuses_more() {
        for path in [
            "aux.c", "a/NUL", "com1", "LPT9.txt", "COM²", "a:b", "a\\b", "a.", "a /b", "x\u{1}",
            "con .t",
        ] {
            assert_eq!(check_path(path.as_bytes()), Ok(()));
            assert_eq!(
                check_path_on_windows(path.as_bytes()),
                Err(PathError::NotOnWindows),
                "{path}"
            );
        }
        assert_eq!(check_path_on_windows(b"\xff"), Err(PathError::NotOnWindows));
        assert_eq!(check_path_on_windows(b"a/.."), Err(PathError::DotDot));
        for path in ["auxiliary.c", "com10", "com", "a/b c.txt", "größe"] {
            assert_eq!(check_path_on_windows(path.as_bytes()), Ok(()), "{path}");
        }
    }
}
