//! Which paths a listing may hold.
//!
//! A path is raw bytes, components parted by `/`, relative to the shared folder. The rules here are
//! what stands between a hostile listing and the fetcher's disk, so they are checked when a listing
//! is written *and* when it is read. They are about the path text alone; that nothing is ever
//! written *through* a symbolic link is the store's promise.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

/// Longest path, in bytes (Linux's `PATH_MAX`).
pub const MAX_PATH: usize = 4096;
/// Longest component of a path, in bytes (`NAME_MAX` of common file systems).
pub const MAX_COMPONENT: usize = 255;
/// Most components of a path: each takes the reader an open directory.
pub const MAX_DEPTH: usize = 512;
/// Longest target of a symbolic link, in bytes.
pub const MAX_TARGET: usize = 4096;

/// Names that xylem gives to what is still being fetched: `.` NAME `.xylem-part`.
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
    #[error("the path climbs with \"..\"")]
    DotDot,
    /// A NUL byte in a path or a link target.
    #[error("there is a NUL byte in it")]
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
    /// Smaller than the path before it.
    #[error("the path is not in order")]
    NotSorted,
    /// The folder that it lies in has not been listed before it.
    #[error("its folder is not listed before it")]
    ParentMissing,
    /// The folder that it lies in was listed as a file or a symbolic link.
    #[error("its folder was listed as something else than a folder")]
    ParentNotDirectory,
    /// A link target with no bytes.
    #[error("the link target is empty")]
    TargetEmpty,
    /// The file of a hard link is not listed before it.
    #[error("a hard link to a file that is not listed before it")]
    LinkToLater,
    /// A link target longer than [`MAX_TARGET`].
    #[error("the link target is longer than {MAX_TARGET} bytes")]
    TargetTooLong,
    /// See [`check_path_on_windows`].
    #[error("Windows cannot hold a file of that name")]
    NotOnWindows,
}

/// Checks one path by itself; order, duplicates and parents are the listing's to check.
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

/// Checks a single component: what a file or folder name may be.
///
/// # Errors
/// The first rule that the name breaks; a `/` in it reads as an [`PathError::EmptyComponent`].
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

/// Whether a component is a name of xylem's own (`.NAME.xylem-part`). Who walks a folder to share
/// it skips these: they are half-fetched data of somebody else.
pub fn is_reserved(component: &[u8]) -> bool {
    component.first() == Some(&b'.') && component.ends_with(PARTIAL_SUFFIX)
}

/// Checks a symbolic link's target: data that is carried as it is, wherever it points.
///
/// # Errors
/// Empty, too long, or with a NUL.
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

/// Checks the file that a hard link at `path` names: a path of the same listing, and an earlier one.
///
/// # Errors
/// What [`check_path`] says, or [`PathError::LinkToLater`].
pub fn check_hard_link(path: &[u8], target: &[u8]) -> Result<(), PathError> {
    check_path(target)?;
    if target < path { Ok(()) } else { Err(PathError::LinkToLater) }
}

/// How a symbolic link may lead out of the shared folder. Such links are carried (folders that
/// people share have them) and flagged, so that the user can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkEscapes {
    /// The target is an absolute path.
    Absolute,
    /// The target climbs above the shared folder.
    Climbs,
    /// A `..` comes after a name: where it leads depends on whether that name is a link itself.
    Unclear,
}

/// Where the link at `path` (a checked path) leads: `None` when it stays inside for certain.
///
/// Sound for the whole listing: a link's own folder is a listed, real directory, so the `..` at the
/// front of its target count exactly; every name after them is either real or another link, for
/// which the same holds. So when no link of a listing is flagged, none leads out.
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

/// What Windows refuses beyond [`check_path`]: device names, `< > : " \ | ? *` and control bytes, a
/// dot or a space at the end of a component, and what is not UTF-8. A listing may hold such paths
/// (the Linux kernel has an `aux.c`); a fetcher on Windows must not create them.
///
/// # Errors
/// [`PathError::NotOnWindows`], or what [`check_path`] says.
pub fn check_path_on_windows(path: &[u8]) -> Result<(), PathError> {
    check_path(path)?;
    let text = core::str::from_utf8(path).map_err(|_| PathError::NotOnWindows)?;
    let fits = text.split('/').all(|component| {
        let stem = component.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
        let device = match stem.as_str() {
            "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
            _ => {
                let digit = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
                // Windows also takes the superscript digits one to three here.
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

/// Order, duplicates and parents over a run of paths, in memory bounded by two paths.
///
/// In raw byte order a folder `a` and its `a/b` need not be neighbours (`a-b` sorts between them),
/// so a stack of open folders is not enough. But whatever can still be the folder of a later path
/// is a byte prefix of the present one: if `d < p` differ before `d` ends, every `d/…` is below `p`
/// too. So the listed prefixes of the last path are all that must be remembered.
#[derive(Debug, Default)]
pub(super) struct Order {
    previous: Vec<u8>,
    /// Lengths of the listed paths that are a byte prefix of `previous`, ascending; true: a folder.
    prefixes: Vec<(u16, bool)>,
}

impl Order {
    /// Admits the next path; `directory` says whether it is one.
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
        // Only now may anything change: a refused path leaves the order as it was.
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
        let mut order = Order::default();
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
