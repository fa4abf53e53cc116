//! Formats figures and names as text.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

/// Makes text of unknown origin safe to print, on one line. Control characters, which could move a terminal's cursor or
/// recolour it, and invisible characters become visible escapes.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    escaped(text, |c, safe| safe.extend(c.escape_default()))
}

/// Escapes the same characters within JSON; the values stay the same. JSON itself escapes only some of them.
pub(crate) fn clean_json(text: &str) -> Cow<'_, str> {
    escaped(text, |c, safe| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            safe.push_str(&format!("\\u{unit:04x}"));
        }
    })
}

fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_odd(c) { escape(c, &mut safe) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// Whether `clean` escapes a character. These are control characters; line separators and marks of direction, which
/// make a name look like another one (`exe.fdp` as `pdf.exe`); and invisible characters, which make two names look
/// alike: all of Default_Ignorable_Code_Point (DerivedCoreProperties.txt of Unicode 16), which includes the marks of
/// direction and the tags.
fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}'
            | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Bytes in the form `1.2 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// The rate of `count` bytes in `time`, in the form `1.2 GiB/s`.
pub(crate) fn rate(count: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(1e-3);
    format!("{}/s", bytes((count as f64 / seconds) as u64))
}

/// A number and a noun: `1 file`, `12 files`.
pub(crate) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A duration in the form `0.42 s` or `3 min 20 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.2} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// The day in UTC of a time in `seconds` since 1970, in the form `2026-11-22`.
pub(crate) fn date(seconds: u64) -> String {
    // Days since 1 March of year 0 (the proleptic Gregorian calendar), whose years come in cycles of 400.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

/// A path as b3sum writes it: the mark before the hash (a backslash if the name was escaped, else nothing), and the
/// name with backslash, newline and carriage return escaped.
///
/// Bytes that are not UTF-8 become U+FFFD, which `--check` then refuses. On a terminal the name is also escaped by
/// [`clean`], unlike b3sum's, as no `--check` reads it there.
pub(crate) fn path_for_sums(path: &Path, terminal: bool) -> (&'static str, String) {
    let mut name = path.to_string_lossy().into_owned();
    if cfg!(windows) {
        name = name.replace('\\', "/");
    }
    let mut mark = "";
    if name.contains(['\\', '\n', '\r']) {
        name = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
        mark = "\\";
    }
    if terminal {
        name = clean(&name).into_owned();
    }
    (mark, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_escaped() {
        assert_eq!(clean("plain ü"), "plain ü");
        assert_eq!(clean("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(clean("\u{202e}fdp.exe"), "\\u{202e}fdp.exe");
        assert_eq!(clean("a\u{200b}b\u{ad}"), "a\\u{200b}b\\u{ad}");
        // Accents, other scripts and pictures are visible.
        assert_eq!(clean("e\u{301} 日本 नमस्ते 🎈"), "e\u{301} 日本 नमस्ते 🎈");
    }

    /// Invisible characters that reports of confusable names list, by number.
    #[test]
    fn invisible_characters_are_escaped() {
        let odd = [
            0x1b, 0x7f, 0x9b, 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x180e, 0x200b, 0x200c, 0x200d,
            0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2060, 0x2066, 0x2069, 0x206f, 0x3164,
            0xfe0f, 0xfeff, 0xffa0, 0xfff9, 0x1d173, 0xe0001, 0xe0041, 0xe007f, 0xe0100,
        ];
        for c in odd.map(|number| char::from_u32(number).unwrap()) {
            let name = format!("a{c}b");
            assert!(clean(&name).is_ascii(), "{:x}", u32::from(c));
            let json = serde_json::to_string(&name).unwrap();
            let safe = clean_json(&json);
            assert!(safe.is_ascii(), "{:x}", u32::from(c));
            assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), name);
        }
    }

    #[test]
    fn escaped_json_has_the_same_values() {
        let name = "a\u{1b}[2J\n\u{9b}\u{7f}\u{202e}fdp\u{2069}";
        let text = serde_json::to_string(name).unwrap();
        assert!(text.contains('\u{9b}'), "JSON alone leaves them");
        let safe = clean_json(&text);
        assert!(!safe.contains(is_odd), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), name);
    }

    #[test]
    fn names_for_sums() {
        assert_eq!(path_for_sums(Path::new("a b"), false), ("", "a b".to_owned()));
        if cfg!(unix) {
            let (mark, name) = path_for_sums(Path::new("a\\b\r\nc"), false);
            assert_eq!((mark, name.as_str()), ("\\", "a\\\\b\\r\\nc"));
        }
        let odd = Path::new("a\u{1b}[2J");
        assert_eq!(path_for_sums(odd, false), ("", "a\u{1b}[2J".to_owned()));
        assert_eq!(path_for_sums(odd, true), ("", "a\\u{1b}[2J".to_owned()));
    }

    #[test]
    fn figures() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "file"), "0 files");
        assert_eq!(duration(Duration::from_millis(420)), "0.42 s");
        assert_eq!(duration(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(duration(Duration::from_secs(7320)), "2 h 2 min");
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_795_305_600), "2026-11-22");
        assert_eq!(rate(2048, Duration::from_secs(2)), "1.00 KiB/s");
    }
}
