//! Bencode: reads foreign bytes without copying, writes our queries.
//!
//! The keys of a dictionary may stand in any order, as some nodes do not sort them, but none twice. All else is strict:
//! integers have one form, lengths end within the datagram, and nothing follows the outermost value. At most
//! [`MAX_DEPTH`] levels are read, without recursion.

/// Most levels of lists and dictionaries within each other. An answer has three.
const MAX_DEPTH: usize = 8;
/// Most entries of one dictionary. An answer's largest has nine.
const MAX_ENTRIES: usize = 32;
/// Most digits of a length.
const MAX_LENGTH_DIGITS: usize = 5;
/// Most characters of an integer: `-9223372036854775808`.
const MAX_INTEGER: usize = 20;

/// One value. Lists and dictionaries are the bytes between their first letter and their `e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
    List(&'a [u8]),
    Dictionary(&'a [u8]),
}

/// A whole input that is one dictionary.
pub(crate) fn dictionary(input: &[u8]) -> Option<Dictionary<'_>> {
    match value(input)? {
        (Value::Dictionary(inside), []) => Dictionary::new(inside),
        _ => None,
    }
}

/// The entries of a dictionary; all are well-formed, and no key stands twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dictionary<'a>(&'a [u8]);

impl<'a> Dictionary<'a> {
    fn new(inside: &'a [u8]) -> Option<Self> {
        let mut keys = Vec::new();
        let mut rest = inside;
        while !rest.is_empty() {
            let (key, after) = byte_string(rest)?;
            let (_, after) = value(after)?;
            if keys.len() >= MAX_ENTRIES || keys.contains(&key) {
                return None;
            }
            keys.push(key);
            rest = after;
        }
        Some(Self(inside))
    }

    fn get(self, wanted: &[u8]) -> Option<Value<'a>> {
        let mut rest = self.0;
        loop {
            let (key, after) = byte_string(rest)?;
            let (found, after) = value(after)?;
            if key == wanted {
                return Some(found);
            }
            rest = after;
        }
    }

    pub(crate) fn bytes(self, key: &[u8]) -> Option<&'a [u8]> {
        match self.get(key)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn array<const N: usize>(self, key: &[u8]) -> Option<[u8; N]> {
        self.bytes(key)?.try_into().ok()
    }

    pub(crate) fn integer(self, key: &[u8]) -> Option<i64> {
        match self.get(key)? {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn dictionary(self, key: &[u8]) -> Option<Self> {
        match self.get(key)? {
            Value::Dictionary(inside) => Self::new(inside),
            _ => None,
        }
    }

    /// The elements of a list; none if there is no such list.
    pub(crate) fn list(self, key: &[u8]) -> impl Iterator<Item = Value<'a>> {
        let mut rest = match self.get(key) {
            Some(Value::List(inside)) => inside,
            _ => &[],
        };
        core::iter::from_fn(move || {
            let (element, after) = value(rest)?;
            rest = after;
            Some(element)
        })
    }
}

/// The first value, and what follows it.
fn value(input: &[u8]) -> Option<(Value<'_>, &[u8])> {
    match *input.first()? {
        b'i' => integer(input).map(|(number, after)| (Value::Integer(number), after)),
        kind @ (b'l' | b'd') => {
            let after = skipped(input)?;
            let whole = input.len().checked_sub(after.len())?;
            let inside = input.get(1..whole.checked_sub(1)?)?;
            let made = if kind == b'l' { Value::List(inside) } else { Value::Dictionary(inside) };
            Some((made, after))
        }
        _ => byte_string(input).map(|(bytes, after)| (Value::Bytes(bytes), after)),
    }
}

/// What follows the first value, which is a list or a dictionary. Every value in it is well-formed; whether keys are
/// strings is for [`Dictionary::new`] to see.
fn skipped(input: &[u8]) -> Option<&[u8]> {
    let (mut depth, mut rest) = (0_usize, input);
    loop {
        rest = match *rest.first()? {
            b'l' | b'd' => {
                depth = depth.checked_add(1).filter(|depth| *depth <= MAX_DEPTH)?;
                rest.get(1..)?
            }
            b'e' => {
                depth = depth.checked_sub(1)?;
                rest.get(1..)?
            }
            b'i' => integer(rest)?.1,
            _ => byte_string(rest)?.1,
        };
        if depth == 0 {
            return Some(rest);
        }
    }
}

fn byte_string(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = input.iter().take(MAX_LENGTH_DIGITS.saturating_add(1)).position(|b| *b == b':')?;
    let digits = input.get(..colon)?;
    let canonical = matches!(digits, [b'0'] | [b'1'..=b'9', ..]);
    if !canonical || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length: usize = core::str::from_utf8(digits).ok()?.parse().ok()?;
    input.get(colon.checked_add(1)?..)?.split_at_checked(length)
}

fn integer(input: &[u8]) -> Option<(i64, &[u8])> {
    let inside = input.strip_prefix(b"i")?;
    let end = inside.iter().take(MAX_INTEGER.saturating_add(1)).position(|b| *b == b'e')?;
    let (text, after) = inside.split_at_checked(end)?;
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = text == b"0" || matches!(digits, [b'1'..=b'9', ..]);
    if !canonical || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = core::str::from_utf8(text).ok()?.parse().ok()?;
    Some((number, after.get(1..)?))
}

/// Appends a byte string.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes.len().to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(bytes);
}

/// Appends an integer.
pub(crate) fn put_integer(out: &mut Vec<u8>, number: i64) {
    out.push(b'i');
    out.extend_from_slice(number.to_string().as_bytes());
    out.push(b'e');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_read_in_one_form_alone() {
        let read = |input: &'static [u8]| value(input);
        assert_eq!(read(b"3:abcd"), Some((Value::Bytes(b"abc"), &b"d"[..])));
        assert_eq!(read(b"0:"), Some((Value::Bytes(b""), &b""[..])));
        assert_eq!(read(b"i-7ex"), Some((Value::Integer(-7), &b"x"[..])));
        assert_eq!(read(b"i0e"), Some((Value::Integer(0), &b""[..])));
        assert_eq!(read(b"li1e1:aee"), Some((Value::List(b"i1e1:a"), &b"e"[..])));
        for wrong in [
            &b""[..],
            b"03:abc",
            b"3:ab",
            b":",
            b"-1:a",
            b"999999:a",
            b"i00e",
            b"i-0e",
            b"ie",
            b"i-e",
            b"i01e",
            b"i+1e",
            b"i9223372036854775808e",
            b"l",
            b"d",
            b"li1e",
            b"e",
            b"x",
        ] {
            assert_eq!(value(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn dictionaries_are_whole_and_keys_unique() {
        let read = dictionary(b"d1:bi2e1:a2:xye").unwrap();
        assert_eq!(
            (read.integer(b"b"), read.bytes(b"a"), read.bytes(b"c")),
            (Some(2), Some(&b"xy"[..]), None)
        );
        for wrong in [&b"d1:ai1e1:ai2ee"[..], b"di1ei2ee", b"d1:ae", b"d1:ai1eex", b"le"] {
            assert!(dictionary(wrong).is_none(), "{wrong:?}");
        }
        let many: String = (0..40).map(|n| format!("2:{n:02}0:")).collect();
        assert!(dictionary(format!("d{many}e").as_bytes()).is_none());
    }

    #[test]
    fn deep_values_are_refused_without_recursion() {
        let nested = |depth: usize| [vec![b'l'; depth], vec![b'e'; depth]].concat();
        assert!(value(&nested(MAX_DEPTH)).is_some());
        assert!(value(&nested(MAX_DEPTH + 1)).is_none());
        assert!(value(&vec![b'l'; 1 << 20]).is_none());
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(bytes in prop::collection::vec(any::<u8>(), 0..300), number: i64) {
            let mut out = b"d1:b".to_vec();
            put_bytes(&mut out, &bytes);
            out.extend_from_slice(b"1:n");
            put_integer(&mut out, number);
            out.push(b'e');
            let read = dictionary(&out).unwrap();
            prop_assert_eq!((read.bytes(b"b"), read.integer(b"n")), (Some(&bytes[..]), Some(number)));
        }

        #[test]
        fn any_input_is_read_or_refused(input in prop::collection::vec(prop::sample::select(&b"dlei0123459:-ax"[..]), 0..200)) {
            if let Some(read) = dictionary(&input) {
                let _ = (read.bytes(b"a"), read.list(b"a").count(), read.dictionary(b"a"));
            }
        }
    }
}
