use std::fs;
use std::path::Path;
use std::process::Command;

use super::*;

#[test]
fn rules_follow_gitignore() {
    let lines = ["# comment", "", "*.tmp", "!keep.tmp", "/only-here", "build/", "a/b", "x/**/y"];
    let exclusion = Exclusion::new(&lines.map(str::to_owned)).unwrap();
    let out = |path: &str, is_directory| exclusion.matches(path.as_bytes(), is_directory);
    for path in
        ["s.tmp", "sub/s.tmp", "only-here", "build/keep.tmp", "sub/build/x", "a/b/c", "x/1/2/y"]
    {
        assert!(out(path, false), "{path}");
    }
    for path in ["keep.tmp", "sub/only-here", "build", "sub/a/b", "# comment", "tmp"] {
        assert!(!out(path, false), "{path}");
    }
    assert!(out("build", true) && out("d.tmp", true) && out("d.tmp/x", false));
    assert!(!Exclusion::none().matches(b"s.tmp", false));
    let wanted = ["a/b", "c"].map(|path| path.as_bytes().to_vec());
    let exclusion = Exclusion::none().but(Some(Arc::new(wanted.into())));
    assert!(!exclusion.matches(b"a", true) && !exclusion.matches(b"a/b", false));
    assert!(exclusion.matches(b"a/bc", false) && exclusion.matches(b"a.b", false));
}

#[test]
fn in_a_folder_in_step_conflict_copies_share_their_originals_rules() {
    let rules = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        Exclusion::new(&lines).unwrap().in_step()
    };
    let tmp = rules(&["*.tmp", "!keep.tmp", "/secret"]);
    let out = |path: &str| tmp.matches(path.as_bytes(), false);
    assert!(!out("keep.tmp") && !out("d/keep.conflict-bob-1a2b3c4d.tmp"));
    assert!(!out("d/keep.conflict-bob-1a2b3c4d1a2b3c4d1a2b3c4d.tmp/x"));
    assert!(out("x.tmp") && out("x.conflict-bob-1a2b3c4d.tmp"));
    assert!(out("secret.conflict-bob-1a2b3c4d") && out("secret.conflict-bob-1a2b3c4d/x"));
    // In a directory that is not kept in step the name of a copy has no special meaning.
    let plain = Exclusion::new(&["*.tmp", "!keep.tmp"].map(str::to_owned)).unwrap();
    assert!(plain.matches(b"keep.conflict-bob-1a2b3c4d.tmp", false));
    let no_copies = rules(&["*.conflict-*", "!mine.conflict-*"]);
    assert!(no_copies.matches(b"a.conflict-bob-1a2b3c4d.txt", false));
    assert!(!no_copies.matches(b"mine.conflict-bob-1a2b3c4d.txt", false));
    let named_so = rules(&["/conflicts.txt"]);
    assert!(named_so.matches(b"conflicts.conflict-bob-1a2b3c4d.txt", false));
}

#[test]
fn an_invalid_pattern_is_reported_with_its_line() {
    use PatternError::{EndsInBackslash, NotClosed, Nothing, Nul};
    for (pattern, expected) in [
        ("a\\", EndsInBackslash),
        ("a\\/", EndsInBackslash),
        ("[a", NotClosed),
        ("a/[]", NotClosed),
        ("[!]", NotClosed),
        ("[[:alpha:]", NotClosed),
        ("[[:letters:]]", PatternError::NoSuchClass("letters".to_owned())),
        ("/", Nothing),
        ("!/", Nothing),
        ("a\0", Nul),
    ] {
        assert_eq!(Pattern::read(pattern), Err(expected), "{pattern:?}");
        let told = read_rules(format!("a\r\n\n{pattern}\n").as_bytes()).unwrap_err().to_string();
        assert!(told.starts_with("line 3: "), "{told}");
    }
    let told = read_rules(b"a\n*.\xe4\n").unwrap_err().to_string();
    assert_eq!(told, "line 2: it is not UTF-8");
    assert!(
        read_rules("a".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>().as_slice())
            .is_err()
    );
    assert_eq!(read_rules("\u{feff}# c\r\n\r\na \r\n  \n".as_bytes()).unwrap(), ["a "]);
    assert!(read_rule("#*#").unwrap_err().to_string().contains("\\#*#"));
    assert!(read_rule(" ").is_err() && read_rule("a\\").is_err());
    assert_eq!(read_rule("#a".replace('#', "\\#").as_str()).unwrap(), "\\#a");
}

/// Random numbers from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Names of the tree: short, so that patterns of the same letters match some.
#[cfg(unix)]
const NAMES: [&str; 30] = [
    "a",
    "b",
    "A",
    "ab",
    "ba",
    "aab",
    "a.b",
    "b.a",
    "ab.a",
    ".a",
    "a b",
    "a ",
    " a",
    "#a",
    "!a",
    "-",
    "]",
    "[a]",
    "[",
    "{a,b}",
    "a,b",
    "a\\b",
    "\\",
    "a*b",
    "?",
    "é",
    "\u{feff}a",
    "1",
    "a\tb",
    "^",
];

/// Parts of random patterns.
const PIECES: [&str; 54] = [
    "a",
    "b",
    "A",
    "ab",
    ".",
    "*",
    "**",
    "***",
    "?",
    "/",
    "/",
    "/",
    "/**/",
    "**/",
    "/**",
    "/*/",
    "\\",
    "\\a",
    "\\*",
    "\\/",
    "\\\\",
    "\\ ",
    " ",
    "#",
    "!",
    "[ab]",
    "[!a]",
    "[^a]",
    "[a-c]",
    "[c-a]",
    "[]a]",
    "[!]]",
    "[-a]",
    "[a-]",
    "[a",
    "[[:alpha:]]",
    "[[:space:][:punct:]]",
    "[[:x:]]",
    "[[:alpha:]",
    "[[:a]",
    "[a/b]",
    "[\\]]",
    "[\\a-c]",
    "[a-\\c]",
    "[A-Z]",
    "[[:upper:]-]",
    "{a,b}",
    "{",
    ",",
    "é",
    "\t",
    "-",
    "1",
    "[a-c-e]",
];

/// Lines that are unusual, and some that are common.
const LINES: [&str; 20] = [
    "*.b",
    "/a",
    "a/",
    "/a/",
    "!a",
    "!/a/b",
    "a/**",
    "**/a",
    "a/**/b",
    "*",
    "!*/",
    "a ",
    "a\\ ",
    "\\#a",
    "\\!a",
    "#a",
    "[[:alpha:]].b",
    "a**/b",
    "{a,b}",
    "",
];

/// Makes directories and files up to three levels deep; a name may be a directory in one place and a file in another.
#[cfg(unix)]
fn plant(root: &Path) -> Vec<(Vec<u8>, bool)> {
    let mut all: Vec<(Vec<u8>, bool)> = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        let below: Vec<&str> = NAMES.iter().skip(at % 3).step_by(3).copied().collect();
        if at % 2 == 1 {
            all.push(((*name).into(), false));
            continue;
        }
        all.push(((*name).into(), true));
        for (place, inner) in below.iter().enumerate() {
            let path = format!("{name}/{inner}");
            let is_directory = place % 4 == 0;
            all.push((path.clone().into(), is_directory));
            if is_directory {
                all.extend(["a", "ab", "b"].map(|last| (format!("{path}/{last}").into(), false)));
            }
        }
    }
    for (path, is_directory) in &all {
        let path = root.join(xylem_base::os_path(path));
        if *is_directory {
            fs::create_dir_all(path).unwrap()
        } else {
            fs::write(path, b"").unwrap()
        }
    }
    all
}

/// Returns the files that git lists as untracked and not ignored by these rules.
#[cfg(unix)]
fn kept_by_git(tree: &Path, rules: &Path) -> Vec<Vec<u8>> {
    let excluded = format!("--exclude-from={}", rules.display());
    let mut git = Command::new("git");
    let listed =
        git.current_dir(tree).args(["ls-files", "--others", "-z", &excluded]).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let mut kept: Vec<Vec<u8>> = listed
        .stdout
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    kept.sort_unstable();
    kept
}

/// Compares random lists of rules with git over the same tree: the files shared must be those that git does not ignore.
/// Some lists are made of realistic lines, most of random parts. A pattern that is refused must have no effect in git.
#[cfg(unix)]
#[test]
fn exclusions_agree_with_git() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, rules) = (dir.path().join("tree"), dir.path().join("rules"));
    fs::create_dir(&tree).unwrap();
    let begun = Command::new("git").args(["init", "--quiet"]).arg(&tree).status();
    if !begun.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no git");
        return;
    }
    let paths = plant(&tree);
    let files: Vec<&Vec<u8>> =
        paths.iter().filter(|(_, directory)| !directory).map(|(path, _)| path).collect();
    let mut chance = Chance(20_261_126);
    let (mut refused, mut left_out) = (0, 0);
    for number in 0..600 {
        let mut text = String::new();
        if number % 20 == 0 {
            text.push('\u{feff}');
        }
        // A list of one line tests the meaning of that line best.
        let lines = if number % 3 == 0 { 1 + chance.below(5) } else { 1 };
        for _ in 0..lines {
            match chance.below(4) {
                0 => text.push_str(chance.one_of(&LINES)),
                _ => (0..1 + chance.below(5)).for_each(|_| text.push_str(chance.one_of(&PIECES))),
            }
            text.push_str(chance.one_of(&["\n", "\n", "\n", "\r\n", " \n", "\t\n"]));
        }
        if number % 7 == 0 {
            text.truncate(text.trim_end_matches('\n').len());
        }
        fs::write(&rules, &text).unwrap();
        let read = match read_rules(text.as_bytes()) {
            Ok(read) => read,
            Err(RulesError::Pattern { pattern, .. }) => {
                refused += 1;
                fs::write(&rules, pattern.trim_start_matches('!')).unwrap();
                assert_eq!(
                    kept_by_git(&tree, &rules).len(),
                    files.len(),
                    "{pattern:?} means something"
                );
                continue;
            }
            Err(e) => panic!("{e}"),
        };
        let exclusion = Exclusion::new(&read).unwrap();
        let mut kept: Vec<Vec<u8>> = files
            .iter()
            .filter(|path| !exclusion.matches(path, false))
            .map(|path| path.to_vec())
            .collect();
        kept.sort_unstable();
        left_out += usize::from(kept.len() < files.len());
        let expected = kept_by_git(&tree, &rules);
        let differs = |one: &[Vec<u8>], other: &[Vec<u8>]| -> Vec<String> {
            one.iter()
                .filter(|path| !other.contains(path))
                .map(|p| String::from_utf8_lossy(p).into_owned())
                .collect()
        };
        assert_eq!(
            (differs(&kept, &expected), differs(&expected, &kept)),
            (vec![], vec![]),
            "{text:?}: shared though git leaves it out, and the other way (list {number})"
        );
    }
    assert!(
        refused > 50 && left_out > 200,
        "{refused} were refused, {left_out} left something out"
    );
}
