//! Names of conflict copies in a folder in step. If two versions of a file are concurrent, one keeps the name, and the
//! other is kept beside it as a copy.

/// Longest file name, bytes.
const MAX_COMPONENT: usize = 255;
/// Marks a copy's name; the name of the version's member follows.
const MARK: &[u8] = b".conflict-";
/// Bytes of the content's hash in a copy's name.
pub const SHORT: usize = 4;
/// Bytes of the content's hash in the longer name that is used where the short one is taken.
pub const LONG: usize = 12;

/// Parts of a copy's name.
struct CopyName<'a> {
    stem: &'a [u8],
    member: &'a [u8],
    ending: &'a [u8],
}

/// Returns the name of a conflict copy of `member`'s version of `path`: `notes.txt` of Alice becomes
/// `notes.conflict-alice-1a2b3c4d.txt`. Every member that finds the conflict derives the same name. It contains `bytes`
/// bytes of the content's hash.
#[must_use]
pub fn copy_name(path: &[u8], member: &str, content: &[u8; 32], bytes: usize) -> Vec<u8> {
    let (folder, name) = in_folder(path);
    let dot = name.iter().rposition(|b| *b == b'.').filter(|at| *at > 0).unwrap_or(name.len());
    let (stem, ending) = name.split_at(dot);
    let hex: String = content.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect();
    let mark = [MARK, member.as_bytes(), b"-", hex.as_bytes()].concat();
    let ending = if mark.len() + ending.len() > MAX_COMPONENT { &[] } else { ending };
    let mut keep = stem.len().min(MAX_COMPONENT - mark.len() - ending.len());
    // A character is not cut in the middle.
    while keep > 0 && keep < stem.len() && stem[keep] & 0xC0 == 0x80 {
        keep -= 1;
    }
    [folder, &stem[..keep], &mark, ending].concat()
}

/// Returns the member that a copy's version is from; `None` if the path is no copy.
pub fn copy_of(path: &[u8]) -> Option<&str> {
    str::from_utf8(parts(in_folder(path).1)?.member).ok()
}

/// Returns the path of which this is a copy, as far as its name shows: a long name was cut.
pub(crate) fn original_of(path: &[u8]) -> Option<Vec<u8>> {
    let (folder, name) = in_folder(path);
    let CopyName { stem, ending, .. } = parts(name)?;
    (!stem.is_empty()).then(|| [folder, stem, ending].concat())
}

fn in_folder(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1))
}

fn parts(name: &[u8]) -> Option<CopyName<'_>> {
    let mark = name.windows(MARK.len()).position(|part| part == MARK)?;
    let (stem, marked) = (&name[..mark], &name[mark + MARK.len()..]);
    // Member names and endings may contain hyphens; the hash decides where the member's name ends.
    let hyphens = marked.iter().enumerate().filter(|(_, b)| **b == b'-').map(|(at, _)| at);
    let found = hyphens.filter(|at| *at > 0).find_map(|at| {
        let rest = &marked[at + 1..];
        let hash = rest.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).count();
        let ending = &rest[hash..];
        let ends = ending.is_empty() || ending[0] == b'.';
        ([2 * SHORT, 2 * LONG].contains(&hash) && ends).then_some((at, ending))
    });
    let (at, ending) = found?;
    Some(CopyName { stem, member: &marked[..at], ending })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: [u8; 32] = [0x1a; 32];

    #[test]
    fn names_of_copies_fit() {
        let name = |path: &str| {
            String::from_utf8(copy_name(path.as_bytes(), "bob", &[0xAB; 32], SHORT)).unwrap()
        };
        assert_eq!(name("a/b.tar.gz"), "a/b.tar.conflict-bob-abababab.gz");
        assert_eq!(name(".profile"), ".profile.conflict-bob-abababab");
        assert_eq!(name("a.b/c"), "a.b/c.conflict-bob-abababab");
        for long in ["é".repeat(127), "x".repeat(255), format!("x.{}", "y".repeat(253))] {
            assert!(name(&long).len() <= MAX_COMPONENT, "{long}");
            let longer = copy_name(long.as_bytes(), &"é".repeat(32), &[0xAB; 32], LONG);
            assert!(longer.len() <= MAX_COMPONENT, "{long}");
        }
    }

    #[test]
    fn a_copy_name_gives_member_and_original() {
        for (path, member) in [
            ("d/notes.txt", "alice"),
            ("notes", "a-b-c"),
            (".profile", "bob@home"),
            ("x.y.z", "é"),
            ("e/keep.tmp-old", "a-12"),
        ] {
            for len in [SHORT, LONG] {
                let copy = copy_name(path.as_bytes(), member, &CONTENT, len);
                assert_eq!(copy_of(&copy), Some(member));
                assert_eq!(original_of(&copy).as_deref(), Some(path.as_bytes()));
            }
            assert_eq!((copy_of(path.as_bytes()), original_of(path.as_bytes())), (None, None));
        }
        for path in [
            "a.conflict-",
            "a.conflict-bob",
            "a.conflict-bob-123",
            "a.conflict--12345678",
            "a.conflict-b-1234567é",
            "a.conflict-b-123456789",
        ] {
            assert_eq!(copy_of(path.as_bytes()), None, "{path}");
        }
        assert_eq!(copy_of(b"d.conflict-bob-12345678/plain"), None);
        assert_eq!(original_of(b".conflict-bob-12345678"), None);
        assert_eq!(original_of(b"\xff.conflict-bob-12345678").as_deref(), Some(&b"\xff"[..]));
    }
}
