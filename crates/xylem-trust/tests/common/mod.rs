//! Reading test fixtures.

// Each test program uses its part of this.
#![allow(dead_code)]

/// Decodes hexadecimal digits. Panics on anything else.
pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Entry `name` of a file of `name hexadecimal` lines.
pub(crate) fn entry(file: &str, name: &str) -> Vec<u8> {
    let line = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    unhex(line.unwrap_or_else(|| panic!("no entry {name}")))
}

/// The packet in an NDNd PEM file.
pub(crate) fn pem(file: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let lines = file.lines().filter(|line| !line.contains(": ") && !line.starts_with('-'));
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in lines.flat_map(str::bytes).filter_map(digit) {
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
