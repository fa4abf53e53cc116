//! [`Pattern`]: one line of a `.gitignore`, as gitignore(5) describes it and git reads it, byte by byte.
//!
//! Git treats an unclosed class or a final backslash as a pattern that never matches. Here these are errors: the author
//! meant to exclude something.

/// A line of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    sense: Sense,
    /// Whether it applies to directories alone.
    directories: bool,
    against: Against,
    parts: Vec<PatternPart>,
}

/// Meaning of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sense {
    /// The path is excluded.
    LeaveOut,
    /// The path is included, whatever the lines before state.
    TakeBack,
}

/// Which part of a path is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Against {
    /// The last component: the pattern has no slash.
    Name,
    /// The whole path.
    Path,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternPart {
    /// These bytes.
    Bytes(Vec<u8>),
    /// One byte of a set; no set contains the slash.
    OneOf(Set),
    /// `*`: any bytes but slashes.
    Run,
    /// `**` at an end: any bytes.
    Rest,
    /// `**/`: nothing, or any bytes and a slash.
    Folders,
}

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Set([u64; 4]);

impl Set {
    fn of(bytes: impl IntoIterator<Item = u8>) -> Self {
        let mut set = Self::default();
        bytes.into_iter().for_each(|byte| set.insert(byte));
        set
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    /// Returns the set, or its complement, without the slash.
    fn but_the_slash(self, negated: bool) -> Self {
        Self::of((0..=u8::MAX).filter(|byte| *byte != b'/' && self.has(*byte) != negated))
    }
}

/// Why a line is not a valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// `foo\`
    #[error("it ends in a backslash; write \\\\ for a backslash")]
    EndsInBackslash,
    /// `[a`
    #[error("a [ is not closed; write \\[ for the character")]
    NotClosed,
    /// `[[:letters:]]`
    #[error("[:{0}:] is not a character class")]
    NoSuchClass(String),
    /// `/`, `!`
    #[error("it contains no name")]
    Nothing,
    /// The pattern contains a NUL, which no name does.
    #[error("it contains a NUL character")]
    Nul,
}

impl Pattern {
    /// Reads a line; `None` if it is blank or a comment.
    pub(crate) fn read(line: &str) -> Result<Option<Self>, PatternError> {
        let line = trimmed(line.as_bytes());
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(None);
        }
        if line.contains(&0) {
            return Err(PatternError::Nul);
        }
        let (sense, rest) = match line.strip_prefix(b"!") {
            Some(rest) => (Sense::TakeBack, rest),
            None => (Sense::LeaveOut, line),
        };
        let (directories, rest) = match rest.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let against = if rest.contains(&b'/') { Against::Path } else { Against::Name };
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        if rest.is_empty() {
            return Err(PatternError::Nothing);
        }
        Ok(Some(Self { sense, directories, against, parts: parts(rest, against)? }))
    }

    /// Returns whether the pattern contains these bytes literally.
    pub(crate) fn has(&self, bytes: &[u8]) -> bool {
        let holds = |text: &[u8]| text.windows(bytes.len()).any(|window| window == bytes);
        self.parts.iter().any(|part| matches!(part, PatternPart::Bytes(text) if holds(text)))
    }

    /// Returns the pattern's verdict on a path; `None` if it does not match.
    pub(crate) fn verdict(&self, path: &[u8], is_directory: bool) -> Option<Sense> {
        if self.directories && !is_directory {
            return None;
        }
        let text = match self.against {
            Against::Path => path,
            Against::Name => path.rsplit(|byte| *byte == b'/').next().unwrap_or(path),
        };
        matches(&self.parts, text).then_some(self.sense)
    }
}

/// Removes blanks at the end, unless a backslash stands before them.
fn trimmed(line: &[u8]) -> &[u8] {
    let (mut end, mut at) = (0, 0);
    while let Some(byte) = line.get(at) {
        match byte {
            b'\\' => {
                at += 2;
                end = at;
            }
            b' ' => at += 1,
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end.min(line.len())]
}

fn parts(pattern: &[u8], against: Against) -> Result<Vec<PatternPart>, PatternError> {
    let special = |byte: &u8| b"*?[\\".contains(byte);
    // Git compares the part before the first special character by itself, and starts anew after it.
    let first = pattern.iter().position(special).unwrap_or(pattern.len());
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        at += 1;
        match byte {
            b'*' => {
                let begins = at - 1 == first || pattern[at - 2] == b'/';
                let stars = at - 1;
                while pattern.get(at) == Some(&b'*') {
                    at += 1;
                }
                let two = at - stars > 1 && against == Against::Path && begins;
                let part = match &pattern[at..] {
                    [] if two => PatternPart::Rest,
                    [b'\\', b'/', ..] if two => PatternPart::Rest,
                    [b'/', ..] if two => {
                        at += 1;
                        PatternPart::Folders
                    }
                    _ => PatternPart::Run,
                };
                parts.push(part);
            }
            b'?' => parts.push(PatternPart::OneOf(Set::default().but_the_slash(true))),
            b'[' => {
                let (set, end) = class(pattern, at)?;
                parts.push(PatternPart::OneOf(set));
                at = end;
            }
            b'\\' => {
                let next = *pattern.get(at).ok_or(PatternError::EndsInBackslash)?;
                at += 1;
                push(&mut parts, next);
            }
            byte => push(&mut parts, byte),
        }
    }
    Ok(parts)
}

fn push(parts: &mut Vec<PatternPart>, byte: u8) {
    match parts.last_mut() {
        Some(PatternPart::Bytes(bytes)) => bytes.push(byte),
        _ => parts.push(PatternPart::Bytes(vec![byte])),
    }
}

/// Parses the set after a `[`; returns it and where the pattern continues.
fn class(pattern: &[u8], mut at: usize) -> Result<(Set, usize), PatternError> {
    let byte_at = |at: usize| pattern.get(at).copied().ok_or(PatternError::NotClosed);
    let negated = matches!(byte_at(at)?, b'!' | b'^');
    at += usize::from(negated);
    let mut set = Set::default();
    // The byte with which a range may begin.
    let mut before = None;
    let mut is_first = true;
    loop {
        let byte = byte_at(at)?;
        at += 1;
        match byte {
            b']' if !is_first => return Ok((set.but_the_slash(negated), at)),
            b'\\' => {
                let escaped = byte_at(at)?;
                at += 1;
                set.insert(escaped);
                before = Some(escaped);
            }
            b'-' if before.is_some() && byte_at(at)? != b']' => {
                let mut last = byte_at(at)?;
                at += 1;
                if last == b'\\' {
                    last = byte_at(at)?;
                    at += 1;
                }
                (before.unwrap_or(last)..=last).for_each(|byte| set.insert(byte));
                before = None;
            }
            b'[' if byte_at(at)? == b':' => {
                let name = at + 1;
                let end = pattern[name..].iter().position(|byte| *byte == b']');
                let end = name + end.ok_or(PatternError::NotClosed)?;
                if let Some(name) = pattern[name..end].strip_suffix(b":") {
                    (0..=u8::MAX).filter(named(name)?).for_each(|byte| set.insert(byte));
                    before = None;
                    at = end + 1;
                } else {
                    set.insert(byte);
                    before = Some(byte);
                }
            }
            byte => {
                set.insert(byte);
                before = Some(byte);
            }
        }
        is_first = false;
    }
}

/// Returns the test of a POSIX class, for ASCII alone.
fn named(name: &[u8]) -> Result<fn(&u8) -> bool, PatternError> {
    Ok(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| b" \t".contains(byte),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| (b' '..=b'~').contains(byte),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| b" \t\n\r".contains(byte),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        other => {
            return Err(PatternError::NoSuchClass(String::from_utf8_lossy(other).into_owned()));
        }
    })
}

/// Returns whether the parts in order match the whole text. Makes one pass over the text for each part.
fn matches(parts: &[PatternPart], text: &[u8]) -> bool {
    let (text, parts) = match parts {
        [PatternPart::Bytes(bytes), rest @ ..] => match text.strip_prefix(&bytes[..]) {
            Some(text) => (text, rest),
            None => return false,
        },
        _ => (text, parts),
    };
    match parts {
        [] => return text.is_empty(),
        [PatternPart::Run] => return !text.contains(&b'/'),
        [PatternPart::Run, PatternPart::Bytes(end)] if !text.contains(&b'/') => {
            return text.ends_with(end);
        }
        [.., PatternPart::Bytes(end)] if !text.ends_with(end) => return false,
        _ => {}
    }
    // Positions where the parts so far may end.
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    for part in parts {
        match part {
            PatternPart::Bytes(bytes) => {
                advance_fixed(&mut ends, bytes.len(), |from, to| text[from..to] == bytes[..])
            }
            PatternPart::OneOf(set) => advance_fixed(&mut ends, 1, |from, _| set.has(text[from])),
            PatternPart::Run => advance_any(&mut ends, |last| text[last] != b'/'),
            PatternPart::Rest => advance_any(&mut ends, |_| true),
            PatternPart::Folders => {
                let mut begun = false;
                for at in 1..ends.len() {
                    begun |= ends[at - 1];
                    ends[at] |= begun && text[at - 1] == b'/';
                }
            }
        }
        if !ends.contains(&true) {
            return false;
        }
    }
    ends[text.len()]
}

/// Advances the positions by a part of fixed length, where the text has that part.
fn advance_fixed(ends: &mut [bool], by: usize, is_there: impl Fn(usize, usize) -> bool) {
    for to in (0..ends.len()).rev() {
        ends[to] = to >= by && ends[to - by] && is_there(to - by, to);
    }
}

/// Extends the positions by a part of any length, over all bytes that belong to it.
fn advance_any(ends: &mut [bool], goes_on: impl Fn(usize) -> bool) {
    for to in 1..ends.len() {
        ends[to] |= ends[to - 1] && goes_on(to - 1);
    }
}
