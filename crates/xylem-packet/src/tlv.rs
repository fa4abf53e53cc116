//! Type-length-value elements: one reader, one writer, one table of assigned numbers.
//!
//! ```text
//! element    := TLV-TYPE TLV-LENGTH TLV-VALUE
//! VAR-NUMBER := 1 octet below 253 | 253, 2 octets | 254, 4 octets | 255, 8 octets   (big endian)
//! ```
//! Types and lengths are var-numbers in their shortest form; types are 1..=2^32-1.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use crate::DecodeError;
use crate::buffer::Buffer;
pub use crate::types;

/// Reads one var-number; returns it and its number of octets (1, 3, 5 or 9).
///
/// Errors: `Truncated` if `bytes` ends inside it, `NotShortest`.
#[inline]
pub fn read_var_number(bytes: &[u8]) -> Result<(u64, usize), DecodeError> {
    match bytes {
        [first, ..] if *first < 253 => Ok((u64::from(*first), 1)),
        _ => read_long_var_number(bytes),
    }
}

fn read_long_var_number(bytes: &[u8]) -> Result<(u64, usize), DecodeError> {
    let (number, size, least) = match bytes {
        [253, a, b, ..] => (u64::from(u16::from_be_bytes([*a, *b])), 3, 253),
        [254, a, b, c, d, ..] => (u64::from(u32::from_be_bytes([*a, *b, *c, *d])), 5, 1 << 16),
        [255, a, b, c, d, e, f, g, h, ..] => {
            (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 9, 1 << 32)
        }
        _ => return Err(DecodeError::Truncated),
    };
    if number < least { Err(DecodeError::NotShortest) } else { Ok((number, size)) }
}

/// Number of octets that [`write_var_number`] writes for `number`.
pub const fn var_number_len(number: u64) -> usize {
    match number {
        0..=252 => 1,
        253..=0xFFFF => 3,
        0x1_0000..=0xFFFF_FFFF => 5,
        _ => 9,
    }
}

/// Number of octets of an element with a value of `len` octets.
#[expect(clippy::arithmetic_side_effects, reason = "a value in memory, and a few octets around it")]
pub const fn element_len(typ: u32, len: usize) -> usize {
    var_number_len(typ as u64) + var_number_len(len as u64) + len
}

/// `number` as a var-number in its shortest form: the first `len` octets of the array.
#[inline]
pub(crate) fn var_number_octets(number: u64) -> ([u8; 9], usize) {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    let octets = match var_number_len(number) {
        1 => [h, 0, 0, 0, 0, 0, 0, 0, 0],
        3 => [253, g, h, 0, 0, 0, 0, 0, 0],
        5 => [254, e, f, g, h, 0, 0, 0, 0],
        _ => [255, a, b, c, d, e, f, g, h],
    };
    (octets, var_number_len(number))
}

/// Appends `number` as a var-number in its shortest form.
#[inline]
pub fn write_var_number(out: &mut (impl Buffer + ?Sized), number: u64) {
    if let Ok(short @ ..253) = u8::try_from(number) {
        out.put(&[short]);
    } else {
        let (octets, len) = var_number_octets(number);
        out.put(&octets[..len]);
    }
}

/// Appends a whole element.
pub fn write_element(out: &mut (impl Buffer + ?Sized), typ: u32, value: &[u8]) {
    write_var_number(out, u64::from(typ));
    write_var_number(out, value.len() as u64);
    out.put(value);
}

/// Appends an element with a NonNegativeInteger in its shortest form as its value.
pub fn write_number_element(out: &mut (impl Buffer + ?Sized), typ: u32, number: u64) {
    let (octets, len) = number_octets(number);
    write_element(out, typ, &octets[..len]);
}

#[expect(clippy::arithmetic_side_effects, reason = "below 8")]
/// A number in the shortest of 1, 2, 4 or 8 big-endian octets (the first `len` of the array).
pub(crate) const fn number_octets(number: u64) -> ([u8; 8], usize) {
    let wide = number.to_be_bytes();
    let len = match number {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    };
    let mut octets = [0; 8];
    let mut i = 0;
    while i < len {
        octets[i] = wide[8 - len + i];
        i += 1;
    }
    (octets, len)
}

/// Reads a NonNegativeInteger: 1, 2, 4 or 8 big-endian octets; `None` for any other length. The format does not require
/// the shortest form here.
#[inline]
pub fn read_number(value: &[u8]) -> Option<u64> {
    match *value {
        [a] => Some(u64::from(a)),
        [a, b] => Some(u64::from(u16::from_be_bytes([a, b]))),
        [a, b, c, d] => Some(u64::from(u32::from_be_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Some(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

/// [`read_number`] for the value of element `typ`.
#[inline]
pub(crate) fn number_of(typ: u32, value: &[u8]) -> Result<u64, DecodeError> {
    read_number(value).ok_or(DecodeError::BadLength { typ, len: value.len() })
}

/// Returns whether a decoder must understand the element: its number is at most 31, or odd (packet format v0.3,
/// "Considerations for evolvability").
#[inline]
pub const fn is_critical(typ: u32) -> bool {
    typ <= 31 || typ & 1 == 1
}

/// One element of a [`TlvReader`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// TLV-TYPE.
    pub typ: u32,
    /// TLV-VALUE.
    pub value: &'a [u8],
    /// Offset of TLV-TYPE from the reader's beginning, in bytes.
    pub start: usize,
    /// Offset of TLV-VALUE's end from the reader's beginning, in bytes.
    pub end: usize,
}

impl Element<'_> {
    /// Offset of TLV-VALUE's beginning from the reader's beginning, in bytes.
    #[expect(clippy::arithmetic_side_effects, reason = "an element ends behind its value")]
    #[inline]
    pub(crate) fn value_start(&self) -> usize {
        self.end - self.value.len()
    }
}

/// Iterates over consecutive elements in a buffer.
#[derive(Debug, Clone)]
pub struct TlvReader<'a> {
    wire: &'a [u8],
    position: usize,
}

impl<'a> TlvReader<'a> {
    /// A reader at the beginning of `wire`.
    #[inline]
    pub fn new(wire: &'a [u8]) -> Self {
        TlvReader { wire, position: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next element; `None` at the end.
    // Inlined by force: most elements have a type and a length of one octet, and returning one through memory costs
    // more than reading it.
    #[inline(always)]
    pub fn next_element(&mut self) -> Result<Option<Element<'a>>, DecodeError> {
        let rest = &self.wire[self.position..];
        if let [typ @ 1..=252, len @ 0..=252, value @ ..] = rest
            && let Some(value) = value.get(..usize::from(*len))
        {
            return Ok(Some(self.element(u32::from(*typ), 2, value)));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        self.next_long_element()
    }

    /// [`Self::next_element`] for longer headers and errors.
    #[inline(never)]
    fn next_long_element(&mut self) -> Result<Option<Element<'a>>, DecodeError> {
        let rest = &self.wire[self.position..];
        // Content, Fragment and whole packets mostly have a length of three octets.
        if let [typ @ 1..=252, 253, high, low, value @ ..] = rest
            && let len = usize::from(u16::from_be_bytes([*high, *low]))
            && len >= 253
            && let Some(value) = value.get(..len)
        {
            return Ok(Some(self.element(u32::from(*typ), 4, value)));
        }
        let (typ, type_len) = read_type(rest)?;
        let rest = &rest[type_len..];
        let (len, len_len) = read_var_number(rest)?;
        // A length beyond a 32-bit machine's range does not wrap around here.
        let value = usize::try_from(len).ok().and_then(|len| rest[len_len..].get(..len));
        let value = value.ok_or(DecodeError::Truncated)?;
        Ok(Some(self.element(typ, type_len.saturating_add(len_len), value)))
    }

    /// Advances over an element with a header of `header` octets and this value, and returns it.
    #[expect(clippy::arithmetic_side_effects, reason = "both have been found in the buffer")]
    #[inline(always)]
    fn element(&mut self, typ: u32, header: usize, value: &'a [u8]) -> Element<'a> {
        let start = self.position;
        self.position += header + value.len();
        Element { typ, value, start, end: self.position }
    }
}

/// Reads a TLV-TYPE: a var-number in 1..=2^32-1.
#[inline]
pub(crate) fn read_type(bytes: &[u8]) -> Result<(u32, usize), DecodeError> {
    let (number, len) = read_var_number(bytes)?;
    match u32::try_from(number) {
        Ok(typ) if typ != 0 => Ok((typ, len)),
        _ => Err(DecodeError::TypeNumber(number)),
    }
}

/// Reads `bytes` as exactly one element of type `expected`.
pub(crate) fn read_only(bytes: &[u8], expected: u32) -> Result<Element<'_>, DecodeError> {
    let mut reader = TlvReader::new(bytes);
    let element = reader.next_element()?.ok_or(DecodeError::Truncated)?;
    if element.typ != expected {
        return Err(DecodeError::WrongType { expected, found: element.typ });
    }
    match bytes.len().saturating_sub(element.end) {
        0 => Ok(element),
        more => Err(DecodeError::TrailingBytes(more)),
    }
}

/// Applies the evolvability rules to the recognized elements of one parent.
///
/// Each recognized element has a rank, its place in the definition. A repeated element is refused. One that comes too
/// late is refused if critical, otherwise skipped as if it were unknown.
pub(crate) struct ElementOrder {
    inside: u32,
    last: u32,
    seen: u32,
}

impl ElementOrder {
    #[inline]
    pub(crate) fn new(inside: u32) -> Self {
        ElementOrder { inside, last: 0, seen: 0 }
    }

    /// Returns true if the element of `rank` (1..=31) is to be used, and false if it is to be skipped.
    #[inline]
    pub(crate) fn admit(&mut self, rank: u32, typ: u32) -> Result<bool, DecodeError> {
        if rank > self.last {
            self.last = rank;
            self.seen |= 1 << rank;
            return Ok(true);
        }
        if self.seen & (1 << rank) != 0 {
            return Err(DecodeError::Repeated { inside: self.inside, typ });
        }
        self.seen |= 1 << rank;
        if is_critical(typ) {
            return Err(DecodeError::OutOfOrder { inside: self.inside, typ });
        }
        Ok(false)
    }

    /// Handles an element that this decoder does not know: an error if it is critical.
    pub(crate) fn unknown(&self, typ: u32) -> Result<(), DecodeError> {
        if is_critical(typ) {
            return Err(DecodeError::UnknownCritical { inside: self.inside, typ });
        }
        Ok(())
    }
}

/// An element that is being written, of yet unknown length. `width` octets (1 or 3) are reserved for the length; if the
/// length needs another width, the value is moved once.
pub(crate) struct OpenElement {
    value_start: usize,
    width: usize,
}

impl OpenElement {
    /// Begins an element; `typ` below 253.
    #[inline]
    pub(crate) fn begin(out: &mut impl Buffer, typ: u32, width: usize) -> Self {
        write_var_number(out, u64::from(typ));
        out.put(&[0; 3][..width]);
        OpenElement { value_start: out.written().len(), width }
    }

    /// Ends the element. Returns the distance by which its value moved: mostly 0; negative is towards the front.
    #[expect(clippy::arithmetic_side_effects, reason = "places in what has been written")]
    #[inline]
    pub(crate) fn end(self, out: &mut impl Buffer) -> isize {
        // In a full slice octets are missing, and the result will be discarded.
        if out.is_full() {
            return 0;
        }
        let old_len = out.written().len();
        let len = old_len - self.value_start;
        let needed = var_number_len(len as u64);
        let length_start = self.value_start - self.width;
        if needed > self.width {
            out.put_zeros(needed - self.width);
            if out.is_full() {
                return 0;
            }
        }
        if needed != self.width {
            out.written_mut().copy_within(self.value_start..old_len, length_start + needed);
            out.cut(length_start + needed + len);
        }
        let (octets, _) = var_number_octets(len as u64);
        out.written_mut()[length_start..length_start + needed].copy_from_slice(&octets[..needed]);
        needed as isize - self.width as isize
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn var_numbers_round_trip_at_every_boundary() {
        for number in
            [0, 1, 252, 253, 254, 255, 0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x1_0000_0000, u64::MAX]
        {
            let mut out = Vec::new();
            write_var_number(&mut out, number);
            assert_eq!(out.len(), var_number_len(number));
            assert_eq!(read_var_number(&out), Ok((number, out.len())));
            for cut in 0..out.len() {
                assert_eq!(read_var_number(&out[..cut]), Err(DecodeError::Truncated));
            }
        }
    }

    #[test]
    fn longer_forms_than_needed_are_refused() {
        let cases: [&[u8]; 4] = [
            &[253, 0, 252],
            &[254, 0, 0, 255, 255],
            &[255, 0, 0, 0, 0, 255, 255, 255, 255],
            &[253, 0, 0],
        ];
        for case in cases {
            assert_eq!(read_var_number(case), Err(DecodeError::NotShortest));
        }
    }

    #[test]
    fn numbers_match_the_specifications_examples() {
        let cases: [(u64, &[u8]); 6] = [
            (0, &[0]),
            (1, &[1]),
            (255, &[0xFF]),
            (256, &[1, 0]),
            (65535, &[0xFF, 0xFF]),
            (65536, &[0, 1, 0, 0]),
        ];
        for (number, octets) in cases {
            let (array, len) = number_octets(number);
            assert_eq!(&array[..len], octets);
            assert_eq!(read_number(octets), Some(number));
        }
        assert_eq!(read_number(&[]), None);
        assert_eq!(read_number(&[0; 3]), None);
        assert_eq!(read_number(&[0; 9]), None);
    }

    #[test]
    fn a_length_beyond_the_buffer_is_refused() {
        let mut reader = TlvReader::new(&[7, 3, 1, 2]);
        assert_eq!(reader.next_element(), Err(DecodeError::Truncated));
        let huge = [7, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0];
        assert_eq!(TlvReader::new(&huge).next_element(), Err(DecodeError::Truncated));
    }

    #[test]
    fn type_numbers_have_bounds() {
        assert_eq!(TlvReader::new(&[0, 0]).next_element(), Err(DecodeError::TypeNumber(0)));
        let wide = [255, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(TlvReader::new(&wide).next_element(), Err(DecodeError::TypeNumber(1 << 32)));
    }

    #[test]
    fn open_elements_move_their_value_when_the_length_needs_it() {
        for width in [1, 3] {
            for len in [0, 1, 252, 253, 254, 9000, 70_000] {
                let mut out = alloc::vec![0xAA];
                let open = OpenElement::begin(&mut out, 6, width);
                let value: Vec<u8> = (0..len).map(|i| i as u8).collect();
                out.extend_from_slice(&value);
                let moved = open.end(&mut out);
                assert_eq!(moved, var_number_len(len) as isize - width as isize);
                let element = read_only(&out[1..], 6).unwrap();
                assert_eq!(element.value, value);
            }
        }
    }
}
